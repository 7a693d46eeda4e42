//! What a queue must know of a message besides its bytes, and what is written on a message that dies in one.
//!
//! It knows no bytes: a tongue's [`crate::Format`] finds the marks in its units and writes deaths into them.

use crate::{FormatError, Header, Message, Wall};

/// What a queue must know of a message besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Asked to survive a restart.
    pub persistent: bool,
    /// 0 (least) to 255.
    pub priority: u8,
    /// Lives this many milliseconds in each queue, if it says so.
    pub time_to_live_ms: Option<u64>,
    /// When it was published, which its life is counted from.
    pub published: Wall,
    /// Size of its body.
    pub body_bytes: u32,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks { persistent: true, priority: 0, time_to_live_ms: None, published: Wall(0), body_bytes: 0 }
    }
}

impl Marks {
    /// The marks of an opened message.
    #[must_use]
    pub fn of(message: &Message) -> Marks {
        Marks {
            persistent: message.facts.durable.unwrap_or(true),
            priority: message.facts.priority.unwrap_or(0),
            time_to_live_ms: message.facts.time_to_live_ms,
            published: message.created.unwrap_or_default(),
            body_bytes: message.value.as_ref().map_or(0, |body| u32::try_from(body.len()).unwrap_or(u32::MAX)),
        }
    }
}

/// Why a message died in a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// A consumer did not want it.
    Rejected,
    /// It had lived as long as it, or its queue, allows.
    Expired,
    /// The queue was full.
    MaxLength,
    /// It was delivered more often than its queue allows.
    DeliveryLimit,
}

impl Reason {
    /// Its name, as clients of all tongues know it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::Rejected => "rejected",
            Reason::Expired => "expired",
            Reason::MaxLength => "maxlen",
            Reason::DeliveryLimit => "delivery_limit",
        }
    }

    /// The reason of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Reason> {
        let all = [Reason::Rejected, Reason::Expired, Reason::MaxLength, Reason::DeliveryLimit];
        all.into_iter().find(|reason| reason.name() == name)
    }
}

/// A death, as it is written on the message that goes on to another queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death<'a> {
    /// In which queue.
    pub queue: &'a str,
    /// Why.
    pub reason: Reason,
    /// When.
    pub at: Wall,
    /// The exchange it is sent on to.
    pub exchange: &'a str,
    /// The key it is sent on with; `None` when it keeps its own.
    pub key: Option<&'a str>,
}

/// What a message is routed by.
#[derive(Clone, PartialEq, Debug)]
pub struct Address<'u> {
    /// Its routing key.
    pub key: &'u str,
    /// Further keys.
    pub more_keys: Vec<String>,
    /// Its headers.
    pub headers: Vec<Header>,
}

/// A format that can keep the deaths of a message.
pub trait DeadLetters {
    /// What the message in `unit` is routed by.
    ///
    /// # Errors
    /// [`FormatError::Malformed`].
    fn address<'u>(&self, unit: &'u [u8]) -> Result<Address<'u>, FormatError>;

    /// Calls `visit` with queue and reason of each death since the message was published by a client, the latest
    /// first.
    ///
    /// # Errors
    /// [`FormatError::Malformed`].
    fn deaths(&self, unit: &[u8], visit: &mut dyn FnMut(&str, Reason)) -> Result<(), FormatError>;

    /// Appends to `out` the message in `unit` as it goes on: its death written on it, its time to live taken off.
    ///
    /// # Errors
    /// [`FormatError::Malformed`].
    fn bury(&self, unit: &[u8], death: &Death<'_>, out: &mut Vec<u8>) -> Result<(), FormatError>;

    /// The queue in which the message in `unit` died last, if it ever did.
    ///
    /// # Errors
    /// [`FormatError::Malformed`].
    fn origin(&self, unit: &[u8]) -> Result<Option<String>, FormatError>;

    /// Appends to `out` the message in `unit` as it was before it died last, its history still written on it. It is
    /// published anew, at `at`.
    ///
    /// # Errors
    /// [`FormatError::Malformed`].
    fn revive(&self, unit: &[u8], at: Wall, out: &mut Vec<u8>) -> Result<(), FormatError>;
}
