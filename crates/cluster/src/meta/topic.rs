//! Topics and their partitions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A topic: named logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Topic {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Its lasting identity.
    pub id: [u8; 16],
    /// Its partitions, by index.
    pub partitions: Vec<Partition>,
    /// Its settings: only those that were set, under the names that users know them by.
    pub config: TopicConfig,
    /// The broker's own, not a user's: listed as internal, not deletable.
    pub internal: bool,
}

/// One partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// The log that holds it.
    pub log: u64,
}

/// Settings by name, as text. Which names and values are allowed is checked before a command is made.
pub type TopicConfig = BTreeMap<String, String>;
