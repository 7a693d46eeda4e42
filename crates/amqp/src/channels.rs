//! The open channels of a connection, by number. Kept sorted: clients use few, and mostly the same one again.

use crate::channel::Channel;

/// All of them. Memory follows how many are open, not their numbers.
#[derive(Debug, Default)]
pub struct Channels {
    // Boxed: opening one should not move all that the others hold.
    #[allow(clippy::vec_box)]
    sorted: Vec<Box<Channel>>,
}

impl Channels {
    /// The channel of that number.
    pub fn get_mut(&mut self, number: u16) -> Option<&mut Channel> {
        let at = self.find(number).ok()?;
        self.sorted.get_mut(at).map(Box::as_mut)
    }

    /// The number of the first for which `wanted` holds.
    pub fn find_where(&self, wanted: impl Fn(&Channel) -> bool) -> Option<u16> {
        self.sorted.iter().find(|channel| wanted(channel)).map(|channel| channel.number)
    }

    /// Bytes of memory that they hold for their clients: what is not acknowledged yet, and what waits for a commit.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let staged = |channel: &Channel| channel.tx.as_ref().map_or(0, |tx| usize::try_from(tx.bytes).unwrap_or(0));
        self.sorted.iter().map(|channel| channel.unacked.memory_bytes() + staged(channel)).sum()
    }

    /// Adds one; the number must be free.
    pub fn insert(&mut self, channel: Channel) {
        if let Err(at) = self.find(channel.number) {
            self.sorted.insert(at, Box::new(channel));
        }
    }

    /// Removes one.
    pub fn remove(&mut self, number: u16) {
        if let Ok(at) = self.find(number) {
            self.sorted.remove(at);
        }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.sorted.clear();
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    fn find(&self, number: u16) -> Result<usize, usize> {
        self.sorted.binary_search_by_key(&number, |channel| channel.number)
    }
}
