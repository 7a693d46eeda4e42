//! What is refused, and how it is said: reply codes, and the one table from the core's errors to them.
//!
//! The texts are those that clients of RabbitMQ know, since some of them compare text.

use std::borrow::Cow;

use broker::access::{Denied, NoEntry};
use broker::{BrokerError, StorageError};
use model::ReadError;

use crate::wire::WireError;

/// Reply codes of the specification, and RabbitMQ's use of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names are the specification's
pub enum Code {
    AccessRefused,
    NotFound,
    ResourceLocked,
    PreconditionFailed,
    ConnectionForced,
    FrameError,
    SyntaxError,
    CommandInvalid,
    ChannelError,
    UnexpectedFrame,
    ResourceError,
    NotAllowed,
    NotImplemented,
    InternalError,
}

impl Code {
    /// Its number and its name on the wire.
    #[must_use]
    pub fn wire(self) -> (u16, &'static str) {
        match self {
            Code::AccessRefused => (403, "ACCESS_REFUSED"),
            Code::NotFound => (404, "NOT_FOUND"),
            Code::ResourceLocked => (405, "RESOURCE_LOCKED"),
            Code::PreconditionFailed => (406, "PRECONDITION_FAILED"),
            Code::ConnectionForced => (320, "CONNECTION_FORCED"),
            Code::FrameError => (501, "FRAME_ERROR"),
            Code::SyntaxError => (502, "SYNTAX_ERROR"),
            Code::CommandInvalid => (503, "COMMAND_INVALID"),
            Code::ChannelError => (504, "CHANNEL_ERROR"),
            Code::UnexpectedFrame => (505, "UNEXPECTED_FRAME"),
            Code::ResourceError => (506, "RESOURCE_ERROR"),
            Code::NotAllowed => (530, "NOT_ALLOWED"),
            Code::NotImplemented => (540, "NOT_IMPLEMENTED"),
            Code::InternalError => (541, "INTERNAL_ERROR"),
        }
    }

    /// Whether it ends the connection and not only the channel.
    #[must_use]
    pub fn is_hard(self) -> bool {
        match self {
            Code::AccessRefused | Code::NotFound | Code::ResourceLocked | Code::PreconditionFailed => false,
            // The specification calls 506 a connection's error. A full disk heals, so only the channel pays: the
            // connection's consumers keep working.
            Code::ResourceError => false,
            Code::ConnectionForced
            | Code::FrameError
            | Code::SyntaxError
            | Code::CommandInvalid
            | Code::ChannelError
            | Code::UnexpectedFrame
            | Code::NotAllowed
            | Code::NotImplemented
            | Code::InternalError => true,
        }
    }
}

/// Class and method, as in `(60, 40)` for basic.publish.
pub type MethodId = (u16, u16);

/// Something refused: it closes the channel or the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// The explanation, without the code's name.
    pub text: Cow<'static, str>,
    /// What the client sent that caused it; `(0, 0)` if no method.
    pub method: MethodId,
}

/// Stands in a refusal's text for the connection's virtual host, which whoever finds fault with an argument need not
/// know: it is said when the refusal is. No virtual host's name, nor any other, holds a control character.
pub const VHOST: &str = "\u{0}";

/// The longest reply text: a short string.
const TEXT_BYTES_MAX: usize = 255;

impl Refusal {
    /// A refusal; the dispatcher fills in the method.
    pub fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code, text: text.into(), method: (0, 0) }
    }

    /// The same, caused by `method` unless a cause is known.
    #[must_use]
    pub fn caused_by(mut self, method: MethodId) -> Refusal {
        if self.method == (0, 0) {
            self.method = method;
        }
        self
    }

    /// The explanation, said in `vhost`.
    #[must_use]
    pub fn told(&self, vhost: &str) -> String {
        self.text.replace(VHOST, vhost)
    }

    /// `NAME - explanation`, at most 255 bytes, cut between characters.
    #[must_use]
    pub fn reply_text(&self, vhost: &str) -> String {
        let mut text = format!("{} - {}", self.code.wire().1, self.told(vhost));
        if text.len() > TEXT_BYTES_MAX {
            let mut end = TEXT_BYTES_MAX;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        text
    }

    /// A feature of RabbitMQ that is not served yet: said, never faked.
    #[must_use]
    pub fn not_served(what: impl std::fmt::Display) -> Refusal {
        Refusal::new(Code::NotImplemented, format!("{what} not served yet"))
    }

    /// No such object in the virtual host.
    #[must_use]
    pub fn missing(kind: &str, name: &str) -> Refusal {
        Refusal::new(Code::NotFound, format!("no {kind} '{name}' in vhost '{VHOST}'"))
    }

    /// The user may not do that.
    #[must_use]
    pub fn denied(denied: &Denied) -> Refusal {
        let text = match denied {
            Denied::Resource { kind, name, tenant, user } => {
                format!("access to {kind} '{name}' in vhost '{tenant}' refused for user '{user}'")
            }
            Denied::Key { key, exchange, tenant, user } => format!(
                "access to topic '{key}' in exchange '{exchange}' in vhost '{tenant}' refused for user '{user}'"
            ),
        };
        Refusal::new(Code::AccessRefused, text)
    }

    /// The user does not get into the virtual host.
    #[must_use]
    pub fn no_entry(why: NoEntry, user: &str, vhost: &str) -> Refusal {
        let text = match why {
            NoEntry::NoTenant => format!("vhost {vhost} not found"),
            NoEntry::NotGranted => format!("access to vhost '{vhost}' refused for user '{user}'"),
            NoEntry::TenantFull(max) => {
                format!("access to vhost '{vhost}' refused for user '{user}': connection limit ({max}) is reached")
            }
            NoEntry::UserFull(max) => {
                format!("connection refused for user '{user}': user connection limit ({max}) is reached")
            }
        };
        Refusal::new(Code::NotAllowed, text)
    }

    /// Broken precondition: 406.
    pub fn precondition(text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::new(Code::PreconditionFailed, text)
    }

    /// Another connection's exclusive queue, or one whose exclusive flag is asked to change.
    #[must_use]
    pub fn locked(queue: &str) -> Refusal {
        Refusal::new(
            Code::ResourceLocked,
            format!(
                "cannot obtain exclusive access to locked queue '{queue}' in vhost '{VHOST}'. It could be originally \
                 declared on another connection or the exclusive property value does not match that of the original \
                 declaration."
            ),
        )
    }

    /// The one table from the core's errors. `kind` says what the call was about.
    #[must_use]
    pub fn of(error: &BrokerError, kind: &str) -> Refusal {
        match error {
            BrokerError::UnknownPartition { topic, .. } => Refusal::missing("topic", topic),
            BrokerError::Missing { kind, name } => Refusal::missing(kind, name),
            BrokerError::Exists { kind: "topic", name } => Refusal::precondition(format!(
                "'{name}' in vhost '{VHOST}' is a topic; declare a queue of another name with argument x-topic = \
                 '{name}' to share it"
            )),
            BrokerError::Exists { kind, name } => {
                Refusal::precondition(format!("{kind} '{name}' in vhost '{VHOST}' exists"))
            }
            BrokerError::Locked(queue) => Refusal::locked(queue),
            BrokerError::ExclusiveUse(queue) => {
                Refusal::new(Code::AccessRefused, format!("queue '{queue}' in vhost '{VHOST}' in exclusive use"))
            }
            BrokerError::Internal(exchange) => Refusal::new(
                Code::AccessRefused,
                format!("cannot publish to internal exchange '{exchange}' in vhost '{VHOST}'"),
            ),
            BrokerError::InUse { name, why } => {
                Refusal::precondition(format!("{kind} '{name}' in vhost '{VHOST}' {why}"))
            }
            BrokerError::Limit { name, max, .. } => Refusal::precondition(format!(
                "cannot declare queue '{name}': queue limit in vhost '{VHOST}' ({max}) is reached"
            )),
            BrokerError::Invalid(_)
            | BrokerError::InvalidConfig(_)
            | BrokerError::InvalidPartitions { .. }
            | BrokerError::InvalidGrowth { .. }
            | BrokerError::Name(_)
            | BrokerError::OutOfRange { .. } => Refusal::precondition(error.to_string()),
            BrokerError::Storage(error) => Refusal::of_storage(error),
            // Sequences belong to producers of another tongue; a unit that cannot be opened is our fault.
            BrokerError::SequenceGap { .. } | BrokerError::FencedProducer { .. } | BrokerError::Format(_) => {
                Refusal::new(Code::InternalError, error.to_string())
            }
        }
    }

    /// Storage refused.
    #[must_use]
    pub fn of_storage(error: &StorageError) -> Refusal {
        let code = match error {
            StorageError::Full { .. } | StorageError::Behind { .. } => Code::ResourceError,
            StorageError::TooLarge { .. } | StorageError::OutOfRange { .. } => Code::PreconditionFailed,
            StorageError::Closed(_)
            | StorageError::Damaged { .. }
            | StorageError::Disk { .. }
            | StorageError::Unusable(_) => Code::InternalError,
        };
        Refusal::new(code, error.to_string())
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Refusal {
        WireError::Read(error).into()
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Refusal {
        match error {
            WireError::ShortUtf8 => Refusal::new(Code::FrameError, "Malformed UTF-8 in shortstr"),
            error => Refusal::new(Code::SyntaxError, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_text_is_cut_at_255_bytes_between_characters() {
        let refusal = Refusal::missing("queue", &"é".repeat(150));
        let text = refusal.reply_text("/");
        assert!(text.starts_with("NOT_FOUND - no queue 'éé"));
        assert!(text.len() <= 255 && text.len() >= 254);
    }
}
