//! Queues: shared cursors over logs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Arguments it was declared with, as (name, typed JSON value), for the rule that a second declaration must be equal.
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
