//! The open channels of a connection, by number. Kept sorted: clients use few, and mostly the same one again.

use crate::channel::Channel;

/// All of them. Memory follows how many are open, not their numbers.
#[derive(Debug, Default)]
pub struct Channels {
    // Boxed: opening one should not move all that the others hold.
    #[allow(clippy::vec_box)]
    sorted: Vec<Box<Channel>>,
    /// What they hold, but for what has changed in [`Channels::touched`] since. Invariant: the sum of all `accounted`.
    accounted: usize,
    /// The channel that was asked for last.
    touched: Option<u16>,
}

impl Channels {
    /// The channel of that number.
    pub fn get_mut(&mut self, number: u16) -> Option<&mut Channel> {
        if self.touched != Some(number) {
            self.account();
        }
        let at = self.find(number).ok()?;
        self.touched = Some(number);
        self.sorted.get_mut(at).map(Box::as_mut)
    }

    /// The number of the first for which `wanted` holds.
    pub fn find_where(&self, wanted: impl Fn(&Channel) -> bool) -> Option<u16> {
        self.sorted.iter().find(|channel| wanted(channel)).map(|channel| channel.number)
    }

    /// Bytes of memory that they hold for their clients. Asked often, and there may be thousands of them: only the one
    /// touched last is looked at.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let touched = self.touched.and_then(|number| self.sorted.get(self.find(number).ok()?));
        match touched {
            Some(channel) => self.accounted.saturating_sub(channel.accounted) + channel.memory_bytes(),
            None => self.accounted,
        }
    }

    /// Takes what the channel touched last holds into the account.
    fn account(&mut self) {
        let Some(at) = self.touched.take().and_then(|number| self.find(number).ok()) else { return };
        if let Some(channel) = self.sorted.get_mut(at) {
            let (before, now) = (channel.accounted, channel.memory_bytes());
            channel.accounted = now;
            self.accounted = (self.accounted + now).saturating_sub(before);
        }
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
            let gone = self.sorted.remove(at);
            self.accounted = self.accounted.saturating_sub(gone.accounted);
            self.touched.take_if(|touched| *touched == number);
        }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        *self = Channels::default();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_channels_hold_is_known_without_looking_at_all() {
        let mut channels = Channels::default();
        for number in [3, 1, 2] {
            channels.insert(Channel::new(number, Arc::default()));
        }
        assert_eq!(channels.memory_bytes(), 0);
        for (number, bytes) in [(1, 1000), (2, 20_000), (3, 300_000), (2, 5000)] {
            channels.get_mut(number).unwrap().unit.body(&vec![0; bytes]);
            let all = channels.sorted.iter().map(|channel| channel.memory_bytes()).sum::<usize>();
            assert!(channels.memory_bytes() == all && all >= bytes, "{number}");
        }
        channels.get_mut(3).unwrap().unit.shrink(0);
        assert!((25_000..100_000).contains(&channels.memory_bytes()));
        channels.remove(2);
        assert!((1000..20_000).contains(&channels.memory_bytes()));
        channels.remove(1);
        assert_eq!(channels.memory_bytes(), 0);
    }
}
