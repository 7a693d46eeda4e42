//! The consumers of one channel, by their id in the core and by their tag.

use std::collections::HashMap;

use broker::queue::ConsumerId;

/// One consumer.
#[derive(Debug)]
pub struct Consumer {
    /// Its tag.
    pub tag: Box<str>,
    /// Its deliveries need no acknowledgement.
    pub no_ack: bool,
    /// How many unacknowledged deliveries it may have; 0 is any number: then credit follows what was sent, not what
    /// was acknowledged.
    pub prefetch: u32,
    /// Sent, but not yet replaced by new credit, since the output was full.
    pub owed: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Consumers {
    by_id: HashMap<ConsumerId, Consumer>,
    by_tag: HashMap<Box<str>, ConsumerId>,
}

impl Consumers {
    /// Whether the tag is taken.
    #[must_use]
    pub fn has(&self, tag: &str) -> bool {
        self.by_tag.contains_key(tag)
    }

    /// Adds one.
    pub fn add(&mut self, id: ConsumerId, consumer: Consumer) {
        self.by_tag.insert(consumer.tag.clone(), id);
        self.by_id.insert(id, consumer);
    }

    /// One of them.
    pub fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.by_id.get_mut(&id)
    }

    /// Removes the one with `tag`.
    pub fn remove_tag(&mut self, tag: &str) -> Option<ConsumerId> {
        let id = self.by_tag.remove(tag)?;
        self.by_id.remove(&id);
        Some(id)
    }

    /// Removes one.
    pub fn remove(&mut self, id: ConsumerId) -> Option<Consumer> {
        let consumer = self.by_id.remove(&id)?;
        self.by_tag.remove(&consumer.tag);
        Some(consumer)
    }

    /// Removes all; their ids in the order they were given.
    pub fn take_all(&mut self) -> Vec<ConsumerId> {
        self.by_tag.clear();
        let mut ids: Vec<_> = self.by_id.drain().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
}
