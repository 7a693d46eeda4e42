//! Topics and their partitions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Catalog, Key, MetaError, missing};

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

/// A change of a topic's settings. What is named in neither list stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicChange {
    /// Whose the topic is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Settings that get these values.
    pub set: TopicConfig,
    /// Settings that go back to their defaults; one that was not set is no error.
    pub unset: Vec<String>,
}

/// Partitions that a topic gets behind those it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicGrowth {
    /// Whose the topic is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// The new partitions, in order.
    pub partitions: Vec<Partition>,
}

impl Catalog {
    pub(super) fn check_create_topic(&self, topic: &Topic) -> Result<(), MetaError> {
        self.check_name_free(&(topic.tenant.clone(), topic.name.clone()))?;
        self.check_new_logs(&topic.partitions)
    }

    fn check_new_logs(&self, partitions: &[Partition]) -> Result<(), MetaError> {
        let mut last = self.last_log;
        for partition in partitions {
            // Ascending, so that none occurs twice.
            if partition.log <= last {
                return Err(MetaError::LogReused(partition.log));
            }
            last = partition.log;
        }
        Ok(())
    }

    pub(super) fn create_topic(&mut self, topic: &Topic) {
        if let Some(last) = topic.partitions.last() {
            self.last_log = self.last_log.max(last.log);
        }
        self.topics.insert((topic.tenant.clone(), topic.name.clone()), topic.clone());
    }

    pub(super) fn check_grow_topic(&self, growth: &TopicGrowth) -> Result<(), MetaError> {
        self.check_topic(&(growth.tenant.clone(), growth.name.clone()))?;
        self.check_new_logs(&growth.partitions)
    }

    pub(super) fn grow_topic(&mut self, growth: &TopicGrowth) {
        if let Some(topic) = self.topics.get_mut(&(growth.tenant.clone(), growth.name.clone())) {
            topic.partitions.extend(&growth.partitions);
            self.last_log = growth.partitions.last().map_or(self.last_log, |last| self.last_log.max(last.log));
        }
    }

    pub(super) fn check_topic(&self, key: &Key) -> Result<(), MetaError> {
        if self.topics.contains_key(key) { Ok(()) } else { Err(missing("topic", &key.1)) }
    }

    pub(super) fn alter_topic(&mut self, change: &TopicChange) {
        if let Some(topic) = self.topics.get_mut(&(change.tenant.clone(), change.name.clone())) {
            topic.config.retain(|name, _| !change.unset.contains(name));
            topic.config.extend(change.set.clone());
        }
    }

    pub(super) fn delete_topic(&mut self, key: &Key) {
        self.topics.remove(key);
        self.bindings.remove_from(key, true);
    }
}
