//! Who asks: what handlers know of their connection, and small helpers that several of them need.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use broker::access::{Operation, Resource};
use broker::topic::TopicInfo;
use broker::{Broker, Peer};
use model::{LogId, TopicId};

use crate::call::ReplyTo;
use crate::config::Settings;
use crate::errors::ErrorCode;
use crate::pending::{Answer, Fail, Gate};
use crate::session::CallIds;
use crate::wire::{Text, Uuid, Wire};

/// The longest text of an error that clients are told, in bytes.
const ERROR_TEXT_BYTES_MAX: usize = 1000;

/// One connection as handlers see it.
pub(crate) struct Asker {
    pub peer: Peer,
    pub settings: Arc<Settings>,
    pub calls: CallIds,
    /// For the reply being made.
    pub buffer: Vec<u8>,
    /// The fetch session of this connection, if it has one.
    pub fetch_session: Option<Box<super::fetch::FetchSession>>,
    /// How many it has had.
    pub fetch_sessions: i32,
    /// For batches that must be changed before they are stored.
    pub scratch: Vec<u8>,
    /// Looks into what it produces.
    pub looks: super::produce::look::Looks,
    /// The client's library and its version, if it said.
    pub software: Option<Box<(String, String)>>,
}

impl Asker {
    /// A connection just accepted.
    pub fn new(peer: Peer, settings: Arc<Settings>) -> Asker {
        Asker {
            peer,
            settings,
            calls: CallIds::default(),
            buffer: Vec::new(),
            fetch_session: None,
            fetch_sessions: 0,
            scratch: Vec::new(),
            looks: super::produce::look::Looks::default(),
            software: None,
        }
    }

    /// Bytes of memory it holds between requests, about.
    pub fn memory_bytes(&self) -> usize {
        let fetch_session = self.fetch_session.as_ref().map_or(0, |session| session.bytes());
        self.scratch.capacity() + self.looks.bytes() + fetch_session
    }

    /// A finished reply.
    pub fn reply<'r>(&mut self, to: ReplyTo, response: &impl Wire<'r>) -> Answer {
        Answer::Ready(to.encode(response, std::mem::take(&mut self.buffer)))
    }

    /// A reply held back until `gate` is open; at once when nothing was stored.
    pub fn reply_gated<'r>(&mut self, to: ReplyTo, response: &impl Wire<'r>, gate: Option<Gate>, fail: Fail) -> Answer {
        let sink = to.encode(response, std::mem::take(&mut self.buffer));
        match gate {
            Some(gate) => Answer::Gated(gate, sink, fail),
            None => Answer::Ready(sink),
        }
    }

    /// The address clients are told: the advertised one, else the one this client came by.
    pub fn address(&self) -> (Text<'static>, i32) {
        match &self.settings.advertised {
            Some((host, port)) => (Text::Owned(host.clone()), i32::from(*port)),
            None => (Text::Owned(self.peer.local.ip().to_canonical().to_string()), i32::from(self.peer.local.port())),
        }
    }

    /// The client's address as groups show it.
    pub fn client_host(&self) -> String {
        format!("/{}", self.peer.remote.ip().to_canonical())
    }

    /// Whether the client may use `resource` so.
    fn may(&self, broker: &Broker, resource: Resource<'_>, using: Using) -> bool {
        let Some(user) = &self.settings.user else { return true };
        let may = |operation| broker.authorize((user, &self.settings.tenant), resource, operation).is_ok();
        match using {
            Using::For(operation) => may(operation),
            Using::Seeing => [Operation::Read, Operation::Write, Operation::Configure].into_iter().any(may),
        }
    }

    /// A topic by name. What the client may not use is not told to be there or not.
    pub fn topic<'b>(&self, broker: &'b Broker, name: &str, using: Using) -> Result<&'b TopicInfo, ErrorCode> {
        self.may_use(broker, name, using)?;
        let found = broker.topic(&self.settings.tenant, name).filter(|_| is_topic_name(name));
        found.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    }

    /// Whether the client may use a topic of that name, which need not exist.
    pub fn may_use(&self, broker: &Broker, name: &str, using: Using) -> Result<(), ErrorCode> {
        match self.may(broker, Resource::Topic(name), using) {
            true => Ok(()),
            false => Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
        }
    }

    /// A topic by its id.
    pub fn topic_by_id<'b>(&self, broker: &'b Broker, id: Uuid, using: Using) -> Result<&'b TopicInfo, ErrorCode> {
        let found = broker.topic_by_id(&self.settings.tenant, TopicId(id)).filter(|info| is_topic_name(&info.name));
        let info = found.ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
        self.may_use(broker, &info.name, using)?;
        Ok(info)
    }

    /// All topics that the client may see.
    pub fn topics<'b>(&self, broker: &'b Broker) -> impl Iterator<Item = &'b TopicInfo> {
        let all = broker.topics(&self.settings.tenant).into_iter();
        all.filter(|info| is_topic_name(&info.name) && self.may_use(broker, &info.name, Using::Seeing).is_ok())
    }

    /// Whether the client may use a group.
    pub fn may_use_group(&self, broker: &Broker, group: &str, using: Using) -> Result<(), ErrorCode> {
        match self.may(broker, Resource::Group(group), using) {
            true => Ok(()),
            false => Err(ErrorCode::GROUP_AUTHORIZATION_FAILED),
        }
    }
}

/// What a topic or group is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Using {
    /// This.
    For(Operation),
    /// To know that it is there: whoever may do anything with it may.
    Seeing,
}

/// To take messages out of a topic; to be a member of a group.
pub(crate) const READ: Using = Using::For(Operation::Read);
/// To put messages into a topic.
pub(crate) const WRITE: Using = Using::For(Operation::Write);
/// To make, change or remove it, or what it holds.
pub(crate) const CONFIGURE: Using = Using::For(Operation::Configure);

/// The longest name of a topic: with its partition it was once a folder's.
const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Whether clients can spell the name as a topic's.
pub(crate) fn is_topic_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= TOPIC_NAME_BYTES_MAX
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// An error's text for clients, cut where it would be longer than anybody reads.
pub(crate) fn error_text(error: &dyn std::fmt::Display) -> Option<Text<'static>> {
    let mut text = error.to_string();
    if text.len() > ERROR_TEXT_BYTES_MAX {
        let end = (0..=ERROR_TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    Some(Text::Owned(text))
}

/// A partition's log, by the number a client gave.
pub(crate) fn log_of(topic: &TopicInfo, partition: i32) -> Result<LogId, ErrorCode> {
    let at = usize::try_from(partition).map_err(|_| ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    topic.partitions.get(at).copied().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}

/// A partition's log, for a client that takes it to be led in `epoch`. One node has led everything from epoch 0 on.
pub(crate) fn led_log(topic: &TopicInfo, partition: i32, epoch: i32) -> Result<LogId, ErrorCode> {
    let log = log_of(topic, partition)?;
    if epoch > 0 { Err(ErrorCode::UNKNOWN_LEADER_EPOCH) } else { Ok(log) }
}

/// What stands more than once in a request.
pub(crate) fn twice<T: Hash + Eq + Copy>(named: impl Iterator<Item = T>) -> HashSet<T> {
    let mut seen = HashSet::new();
    named.filter(|one| !seen.insert(*one)).collect()
}

/// What a request names, each once. Whatever is named again is not answered again: an answer must not grow by what is
/// cheap to ask.
pub(crate) fn once<'r, T, K: Hash + Eq + 'r>(named: &'r [T], key: impl Fn(&'r T) -> K) -> impl Iterator<Item = &'r T> {
    let mut seen = HashSet::new();
    named.iter().filter(move |one| seen.insert(key(one)))
}

/// What everybody may do, since nobody is kept out yet: bits by the protocol's numbers of operations.
pub(crate) mod operations {
    /// Nobody asked.
    pub const NOT_ASKED: i32 = i32::MIN;
    /// Read, write, create, delete, alter, describe, and the two of configs.
    pub const TOPIC: i32 = 0b1101_1111_1000;
    /// Read, delete, describe.
    pub const GROUP: i32 = 0b0001_0100_1000;
    /// Create, alter, describe, cluster action, the two of configs, idempotent write.
    pub const CLUSTER: i32 = 0b1_1111_1010_0000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_are_what_clients_can_spell() {
        for good in ["a", "a.b_c-D9", "...", &"x".repeat(249)] {
            assert!(is_topic_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a b", "ä", "a/b", "a:b", &"x".repeat(250)] {
            assert!(!is_topic_name(bad), "{bad}");
        }
    }
}
