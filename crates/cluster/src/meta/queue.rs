//! Queues: shared cursors over logs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Catalog, Key, MetaError, missing};

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Its lasting id: the owner of its cursor's state. Drawn from the same sequence as log ids.
    pub id: u64,
    /// Where its messages come from.
    pub source: QueueSource,
    /// Survives a restart.
    pub durable: bool,
    /// Goes when its last consumer has gone.
    pub auto_delete: bool,
    /// Belongs to one connection and goes with it. Never stored: exclusive queues live in memory only.
    pub exclusive: bool,
    /// Arguments it was declared with, as (name, typed JSON value): a second declaration must be equal.
    pub arguments: BTreeMap<String, serde_json::Value>,
}

/// What a queue's cursor runs over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueSource {
    /// A log of its own.
    Own {
        /// That log.
        log: u64,
    },
    /// All partitions of a topic of the same tenant, without a copy.
    Topic {
        /// The topic's name.
        topic: String,
    },
}

impl Queue {
    fn log(&self) -> Option<u64> {
        match self.source {
            QueueSource::Own { log } => Some(log),
            QueueSource::Topic { .. } => None,
        }
    }
}

impl Catalog {
    pub(super) fn check_create_queue(&self, queue: &Queue) -> Result<(), MetaError> {
        self.check_name_free(&(queue.tenant.clone(), queue.name.clone()))?;
        if let QueueSource::Topic { topic } = &queue.source {
            self.check_topic(&(queue.tenant.clone(), topic.clone()))?;
        }
        let reused = |id: &u64| *id <= self.last_log;
        if let Some(id) = [Some(queue.id), queue.log()].into_iter().flatten().find(reused) {
            return Err(MetaError::LogReused(id));
        }
        if queue.log() == Some(queue.id) {
            return Err(MetaError::LogReused(queue.id));
        }
        Ok(())
    }

    pub(super) fn create_queue(&mut self, queue: &Queue) {
        self.last_log = self.last_log.max(queue.id).max(queue.log().unwrap_or(0));
        self.queues.insert((queue.tenant.clone(), queue.name.clone()), queue.clone());
    }

    pub(super) fn check_queue(&self, key: &Key) -> Result<(), MetaError> {
        if self.queues.contains_key(key) { Ok(()) } else { Err(missing("queue", &key.1)) }
    }

    pub(super) fn delete_queue(&mut self, key: &Key) {
        self.queues.remove(key);
        let to = super::Destination::Queue(key.1.clone());
        self.bindings.retain(|binding| (&binding.tenant, &binding.destination) != (&key.0, &to));
    }
}
