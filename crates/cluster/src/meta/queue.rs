//! Queues: shared cursors over logs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Catalog, Key, MetaError, Topic, missing};

/// The [`QueueOptions::delivery_limit`] of a queue in which no message dies of being given back.
pub const NO_DELIVERY_LIMIT: u32 = u32::MAX;

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Whose it is.
    #[serde(default = "default_tenant", skip_serializing_if = "is_default_tenant")]
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Its lasting id: the owner of its cursor's state. Drawn from the same sequence as log ids.
    pub id: u64,
    /// Where its messages come from.
    pub source: QueueSource,
    /// Survives a restart.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub durable: bool,
    /// Goes when its last consumer has gone.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub auto_delete: bool,
    /// Belongs to one connection and goes with it. Never stored: exclusive queues live in memory only.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub exclusive: bool,
    /// Arguments it was declared with, as (name, typed JSON value): a second declaration must be equal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// By what word each argument's declarer called the type of its value, where that is not the usual one for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub argument_types: BTreeMap<String, String>,
    /// What they mean, unless it is the usual: most queues have none, and there may be many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Box<QueueOptions>>,
}

fn default_tenant() -> String {
    super::DEFAULT_TENANT.to_owned()
}

fn is_default_tenant(tenant: &str) -> bool {
    tenant == super::DEFAULT_TENANT
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl Queue {
    /// What its arguments mean.
    #[must_use]
    pub fn options(&self) -> QueueOptions {
        self.options.as_deref().cloned().unwrap_or_default()
    }

    /// What it promises.
    #[must_use]
    pub fn kind(&self) -> QueueKind {
        self.options.as_ref().map_or(QueueKind::Plain, |options| options.kind)
    }
}

/// What a queue does besides keeping messages and handing them out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct QueueOptions {
    /// What it promises.
    pub kind: QueueKind,
    /// Messages die after so many milliseconds.
    pub message_ttl_ms: Option<u64>,
    /// It goes when nobody has used it for so many milliseconds.
    pub expires_ms: Option<u64>,
    /// The most messages that may wait in it.
    pub length_max: Option<u64>,
    /// The most bytes of bodies that may wait in it.
    pub bytes_max: Option<u64>,
    /// What happens when it is full, if it says: else the oldest message dies.
    pub overflow: Option<Overflow>,
    /// Where dead messages go.
    pub dead_letters: Option<DeadLetterTo>,
    /// Messages of a higher priority, up to this, go first.
    pub priority_max: Option<u8>,
    /// One consumer at a time is served, the others wait for its place.
    pub single_active: bool,
    /// A message given back more often than this dies; [`NO_DELIVERY_LIMIT`]: none does. Without it, its kind decides.
    pub delivery_limit: Option<u32>,
    /// A delivery must be settled within so many milliseconds.
    pub settle_ms_max: Option<u64>,
    /// A stream forgets messages older than so many milliseconds.
    pub age_ms_max: Option<u64>,
    /// A stream forgets in pieces of so many bytes.
    pub segment_bytes_max: Option<u64>,
}

impl QueueOptions {
    /// As a [`Queue`] keeps them.
    #[must_use]
    pub fn stored(self) -> Option<Box<QueueOptions>> {
        (self != QueueOptions::default()).then(|| Box::new(self))
    }
}

/// What a queue promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// Each message survives if it asks for it.
    #[default]
    Plain,
    /// Every message survives, and none comes back for ever.
    Safe,
    /// Messages stay when they are read; each reader has its own place.
    Stream,
}

/// What happens when a queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The oldest message dies.
    #[default]
    DropHead,
    /// The new one is refused.
    Reject,
    /// The new one is refused, and goes to the dead letters.
    RejectToDeadLetters,
}

/// Where dead messages go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeadLetterTo {
    /// The exchange, which need not exist.
    pub exchange: String,
    /// The key they get; without one they keep their own.
    pub key: Option<String>,
    /// A message that no queue takes stays where it is and is tried again.
    pub at_least_once: bool,
}

/// What a queue's cursor runs over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueSource {
    /// A log of its own.
    Own {
        /// That log; of a queue with priorities that of the lowest.
        log: u64,
        /// How many logs follow it, one for each higher priority.
        #[serde(default, skip_serializing_if = "super::is_default")]
        more: u8,
    },
    /// All partitions of a topic of the same tenant, without a copy.
    Topic {
        /// The topic's name.
        topic: String,
        /// The topic was made with the queue, and goes with it.
        #[serde(default, skip_serializing_if = "super::is_default")]
        owned: bool,
    },
}

impl QueueSource {
    /// The logs that are the queue's own, ascending.
    pub fn own_logs(&self) -> impl Iterator<Item = u64> + use<> {
        let (from, count) = match *self {
            QueueSource::Own { log, more } => (log, u64::from(more) + 1),
            QueueSource::Topic { .. } => (0, 0),
        };
        (0..count).map(move |at| from + at)
    }
}

impl Catalog {
    pub(super) fn check_create_queue(&self, queue: &Queue) -> Result<(), MetaError> {
        let key = (queue.tenant.clone(), queue.name.clone());
        match &queue.source {
            // A stream may have the name of the topic that it shows.
            QueueSource::Topic { topic, .. } if *topic == queue.name && queue.options().kind == QueueKind::Stream => {
                self.check_topic(&key)?;
                self.check_no_queue(&key)?;
            }
            QueueSource::Topic { topic, .. } => {
                self.check_name_free(&key)?;
                self.check_topic(&(queue.tenant.clone(), topic.clone()))?;
            }
            QueueSource::Own { .. } => self.check_name_free(&key)?,
        }
        self.check_queue_ids(queue)
    }

    /// A stream with a topic of its own, of the same name: both are made at once.
    pub(super) fn check_create_stream(&self, topic: &Topic, queue: &Queue) -> Result<(), MetaError> {
        self.check_create_topic(topic)?;
        self.check_queue_ids(queue)
    }

    fn check_queue_ids(&self, queue: &Queue) -> Result<(), MetaError> {
        let reused = |id: &u64| *id <= self.last_log;
        if let Some(id) = std::iter::once(queue.id).chain(queue.source.own_logs()).find(reused) {
            return Err(MetaError::LogReused(id));
        }
        if queue.source.own_logs().any(|log| log == queue.id) {
            return Err(MetaError::LogReused(queue.id));
        }
        Ok(())
    }

    pub(super) fn create_queue(&mut self, queue: &Queue) {
        self.last_log = queue.source.own_logs().fold(self.last_log.max(queue.id), u64::max);
        self.queues.insert(queue);
    }

    pub(super) fn check_queue(&self, key: &Key) -> Result<(), MetaError> {
        if self.queues.contains_key(key) { Ok(()) } else { Err(missing("queue", &key.1)) }
    }

    pub(super) fn delete_queue(&mut self, key: &Key) {
        self.queues.remove(key);
        self.bindings.remove_to(&key.0, &super::Destination::Queue(key.1.clone()));
    }
}
