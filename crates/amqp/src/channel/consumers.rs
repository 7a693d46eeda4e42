//! The consumers of one channel, by their id in the core and by their tag.

use std::collections::HashMap;

use broker::queue::ConsumerId;
use model::Name;

use crate::config::{CREDIT_BYTES, CREDIT_MAX, CREDIT_MIN};

/// One consumer.
#[derive(Debug)]
pub struct Consumer {
    /// Its tag.
    pub tag: Box<str>,
    /// Its deliveries need no acknowledgement.
    pub no_ack: bool,
    /// The stream that it reads, if it does.
    pub stream: Option<Name>,
    /// How many unacknowledged deliveries it may have; 0 is any number: then credit follows what was sent, not what
    /// was acknowledged.
    pub prefetch: u32,
    /// Sent, but not yet replaced by new credit.
    pub owed: u32,
    /// What it may be sent and was owed together. Without prefetch only.
    pub window: u32,
    /// The mean size of its latest messages.
    pub mean_bytes: u32,
    /// Memory that its arguments take.
    pub argument_bytes: usize,
}

impl Consumer {
    /// A message of so many bytes was sent; answers whether it is the first since the last new credit.
    pub fn sent(&mut self, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.mean_bytes = self.mean_bytes / 8 * 7 + bytes / 8;
        self.owed += 1;
        self.owed == 1
    }

    /// The new credit it should get: its window follows the size of its messages.
    pub fn refill(&mut self) -> u32 {
        let window = (CREDIT_BYTES / self.mean_bytes.max(1)).clamp(CREDIT_MIN, CREDIT_MAX);
        let left = self.window.saturating_sub(std::mem::take(&mut self.owed));
        let more = window.saturating_sub(left);
        self.window = left + more;
        more
    }
}

/// All of them: found without hashing on the way of every message.
#[derive(Debug, Default)]
pub struct Consumers {
    /// Invariant: ids ascend (the core gives them in that order).
    by_id: Vec<(ConsumerId, Consumer)>,
    by_tag: HashMap<Box<str>, ConsumerId>,
    /// Memory that the arguments of all take.
    argument_bytes: usize,
}

/// What one takes beside its arguments, here and in the core, about.
const CONSUMER_BYTES: usize = 512;

impl Consumers {
    /// Bytes of memory they take, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.argument_bytes + self.by_id.len() * CONSUMER_BYTES
    }

    /// Whether the tag is taken.
    #[must_use]
    pub fn has(&self, tag: &str) -> bool {
        self.by_tag.contains_key(tag)
    }

    /// Adds one.
    pub fn add(&mut self, id: ConsumerId, consumer: Consumer) {
        if let Err(at) = self.find(id) {
            self.by_tag.insert(consumer.tag.clone(), id);
            self.argument_bytes += consumer.argument_bytes;
            self.by_id.insert(at, (id, consumer));
        }
    }

    /// Whether one of them reads a stream.
    #[must_use]
    pub fn any_stream(&self) -> bool {
        self.by_id.iter().any(|(_, consumer)| consumer.stream.is_some())
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, id: ConsumerId) -> Option<&Consumer> {
        self.by_id.get(self.find(id).ok()?).map(|(_, consumer)| consumer)
    }

    /// One of them.
    pub fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        let at = self.find(id).ok()?;
        self.by_id.get_mut(at).map(|(_, consumer)| consumer)
    }

    /// Removes the one with `tag`.
    pub fn remove_tag(&mut self, tag: &str) -> Option<ConsumerId> {
        let id = self.by_tag.get(tag).copied()?;
        self.remove(id).map(|_| id)
    }

    /// Removes one.
    pub fn remove(&mut self, id: ConsumerId) -> Option<Consumer> {
        let at = self.find(id).ok()?;
        let (_, consumer) = self.by_id.remove(at);
        self.by_tag.remove(&consumer.tag);
        self.argument_bytes -= consumer.argument_bytes;
        Some(consumer)
    }

    /// Removes all; their ids in the order they were given.
    pub fn take_all(&mut self) -> Vec<ConsumerId> {
        self.by_tag.clear();
        self.argument_bytes = 0;
        self.by_id.drain(..).map(|(id, _)| id).collect()
    }

    fn find(&self, id: ConsumerId) -> Result<usize, usize> {
        // Those that begin one after the other have ids in a row: then there is nothing to search.
        let after = self.by_id.first().and_then(|(first, _)| id.0.checked_sub(first.0));
        let guess = after.and_then(|after| usize::try_from(after).ok());
        match guess.and_then(|at| Some((at, self.by_id.get(at)?))) {
            Some((at, (found, _))) if *found == id => Ok(at),
            _ => self.by_id.binary_search_by_key(&id, |(id, _)| *id),
        }
    }
}
