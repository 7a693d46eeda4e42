//! What tongues say to queues and hear from them.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::{FormatTag, LogId, Name, Offset};
use storage::Lsn;

use crate::SessionId;

pub use cluster::meta::{DeadLetterTo, NO_DELIVERY_LIMIT, Overflow, QueueKind, QueueOptions};

/// Names a consumer of a queue: given by the broker, unique while the process lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConsumerId(pub u64);

/// A queue to declare.
#[derive(Clone, Debug)]
pub struct QueueSpec {
    /// Whose it is.
    pub tenant: Name,
    /// Its name.
    pub name: Name,
    /// Survives a restart.
    pub durable: bool,
    /// Belongs to the declaring session and goes with it.
    pub exclusive: bool,
    /// Goes when its last consumer has gone.
    pub auto_delete: bool,
    /// Share this topic's partitions instead of having a log of its own.
    pub topic: Option<Name>,
    /// All arguments as declared, for the rule of equivalence.
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// By what word each argument's declarer called the type of its value, where that is not the usual one for it.
    pub argument_types: BTreeMap<String, String>,
    /// What they mean.
    pub options: QueueOptions,
}

/// A queue as it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueInfo {
    /// Its name.
    pub name: Name,
    /// Survives a restart.
    pub durable: bool,
    /// Belongs to this session.
    pub exclusive: Option<SessionId>,
    /// Goes when its last consumer has gone.
    pub auto_delete: bool,
    /// The topic it shares, if any.
    pub topic: Option<Name>,
    /// Arguments it was declared with.
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// By what word each argument's declarer called the type of its value, where that is not the usual one for it.
    pub argument_types: BTreeMap<String, String>,
    /// What it promises.
    pub kind: QueueKind,
    /// The policies that rule it.
    pub ruling: crate::policy::Ruling,
    /// Messages that wait for a consumer.
    pub ready: u64,
    /// Messages delivered and not settled.
    pub unsettled: u64,
    /// Consumers.
    pub consumers: u32,
}

/// The answer to a declaration.
#[derive(Clone, PartialEq, Debug)]
pub struct Declared {
    /// The queue.
    pub info: QueueInfo,
    /// It was made just now.
    pub created: bool,
    /// Hold the answer back until synced up to here.
    pub lsn: Lsn,
}

/// How a consumer wants to be served.
#[derive(Clone, Copy, Debug)]
pub struct ConsumeSpec {
    /// Settled as soon as delivered.
    pub auto_settle: bool,
    /// Nobody else may consume.
    pub exclusive: bool,
    /// Messages it may be sent at once; see [`crate::Broker::credit`].
    pub credit: u32,
    /// Those of a higher priority are served first, as long as they have credit.
    pub priority: i32,
}

/// Names one delivered message of a queue until it is settled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryKey {
    /// The queue's lasting id.
    pub queue: u64,
    /// The log it lies in.
    pub log: LogId,
    /// Its place there.
    pub offset: Offset,
}

/// A message on its way to a consumer.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Names it for settling.
    pub key: DeliveryKey,
    /// It was delivered before (also: before a crash).
    pub redelivered: bool,
    /// How many times it was delivered before and not settled.
    pub attempts: u32,
    /// What its consumer is to be told beside the message itself.
    pub tell: Tell,
    /// What the bytes are.
    pub format: FormatTag,
    /// The one message: in its own format a unit holding it alone is handed on as stored (shared, not copied); from a
    /// unit of several messages, or of another format than `wanted`, it is [`Body::Neutral`].
    pub body: Body,
}

/// What a consumer is told beside the message itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tell {
    /// Nothing.
    Nothing,
    /// [`Delivery::attempts`]: of a queue that keeps no message for ever.
    Attempts,
    /// The offset in [`Delivery::key`]: of a stream.
    Offset,
    /// That offset, and the partition in which it is one: of a stream over several.
    Place(u32),
}

/// A delivered message's content.
#[derive(Clone, Debug)]
pub enum Body {
    /// A stored unit that holds just this message, in the format the consumer asked for.
    Unit(Bytes),
    /// The neutral form.
    Neutral(Box<model::Message>),
}

/// What becomes of delivered messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settle {
    /// Done with: gone from the queue.
    Ack,
    /// Back to its old place, to be delivered again, its count raised.
    Requeue,
    /// Not wanted: gone from the queue, to its dead letters if it has any.
    Discard,
}

/// The answer to a `get`.
#[derive(Debug)]
pub enum Got {
    /// A message, and how many are still ready behind it.
    Message(Delivery, u64),
    /// Nothing is ready.
    Empty,
    /// The disk must be waited for: [`crate::Event::GetReady`] says when to ask again.
    Pending,
}
