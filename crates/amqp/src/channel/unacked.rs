//! Deliveries of one channel that wait for their acknowledgement, by delivery tag.

use std::collections::VecDeque;

use broker::queue::{ConsumerId, DeliveryKey};

/// One delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsettled {
    /// Its tag.
    pub tag: u64,
    /// The core's name for it.
    pub key: DeliveryKey,
    /// To which consumer it went; `None` when it was got.
    pub consumer: Option<ConsumerId>,
}

/// All of them, in the order of their tags.
#[derive(Debug, Default)]
pub struct Unacked {
    /// Invariant: tags ascend; the front is not settled. A settled one leaves a hole until the front reaches it, so
    /// that settling out of order moves nothing.
    entries: VecDeque<(Unsettled, bool)>,
    live: usize,
    consumed: usize,
}

impl Unacked {
    /// A delivery was sent. Its tag is greater than all before.
    pub fn push(&mut self, entry: Unsettled) {
        self.live += 1;
        self.consumed += usize::from(entry.consumer.is_some());
        self.entries.push_back((entry, false));
    }

    /// Deliveries to consumers (not got ones) that wait: what a channel's prefetch counts.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// Whether the core's `key` waits.
    #[must_use]
    pub fn has(&self, key: DeliveryKey) -> bool {
        self.entries.iter().any(|(entry, settled)| !settled && entry.key == key)
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Unsettled, bool)>()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The one with `tag` that waits, or all up to it; with tag 0 all.
    pub fn of(&self, tag: u64, multiple: bool) -> impl Iterator<Item = &Unsettled> {
        let wanted = move |entry: &Unsettled| entry.tag == tag || (multiple && (tag == 0 || entry.tag < tag));
        self.entries.iter().filter(move |(entry, settled)| !settled && wanted(entry)).map(|(entry, _)| entry)
    }

    /// Takes the one with `tag`, or all up to it; `each` is called in order. Tag 0 with `multiple` means all.
    /// False, and nothing taken, when the tag is not known.
    pub fn take(&mut self, tag: u64, multiple: bool, mut each: impl FnMut(Unsettled)) -> bool {
        if tag == 0 && multiple {
            self.take_all(each);
            return true;
        }
        let at = self.entries.partition_point(|(entry, _)| entry.tag < tag);
        match self.entries.get_mut(at) {
            Some((entry, settled)) if entry.tag == tag && !*settled => {
                if !multiple {
                    *settled = true;
                    let entry = *entry;
                    self.took(entry);
                    each(entry);
                    while self.entries.front().is_some_and(|(_, settled)| *settled) {
                        self.entries.pop_front();
                    }
                    return true;
                }
            }
            _ => return false,
        }
        for _ in 0..=at {
            if let Some((entry, false)) = self.entries.pop_front() {
                self.took(entry);
                each(entry);
            }
        }
        while self.entries.front().is_some_and(|(_, settled)| *settled) {
            self.entries.pop_front();
        }
        true
    }

    /// Takes all.
    pub fn take_all(&mut self, mut each: impl FnMut(Unsettled)) {
        for (entry, settled) in std::mem::take(&mut self.entries) {
            if !settled {
                each(entry);
            }
        }
        self.live = 0;
        self.consumed = 0;
    }

    /// Puts back what was taken.
    pub fn restore(&mut self, taken: Vec<Unsettled>) {
        let mut all = taken;
        self.take_all(|entry| all.push(entry));
        all.sort_unstable_by_key(|entry| entry.tag);
        for entry in all {
            self.push(entry);
        }
    }

    fn took(&mut self, entry: Unsettled) {
        self.live -= 1;
        self.consumed -= usize::from(entry.consumer.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{LogId, Offset};

    fn filled(tags: &[u64]) -> Unacked {
        let mut unacked = Unacked::default();
        for tag in tags {
            let key = DeliveryKey { queue: 1, log: LogId(1), offset: Offset(*tag) };
            unacked.push(Unsettled { tag: *tag, key, consumer: (tag % 2 == 1).then_some(ConsumerId(9)) });
        }
        unacked
    }

    #[test]
    fn what_is_put_back_has_its_place_again() {
        let mut unacked = filled(&[1, 2, 3, 4, 5]);
        let mut taken = Vec::new();
        unacked.take(2, true, |entry| taken.push(entry));
        unacked.take(4, false, |entry| taken.push(entry));
        unacked.restore(taken);
        assert_eq!(unacked.consumed(), 3);
        assert_eq!(take(&mut unacked, 4, true), Some(vec![1, 2, 3, 4]));
    }

    fn take(unacked: &mut Unacked, tag: u64, multiple: bool) -> Option<Vec<u64>> {
        let mut tags = Vec::new();
        unacked.take(tag, multiple, |entry| tags.push(entry.tag)).then_some(tags)
    }

    #[test]
    fn tags_are_taken_once_singly_or_up_to() {
        let mut unacked = filled(&[1, 2, 4, 5, 6]);
        assert_eq!(take(&mut unacked, 3, false), None, "never given");
        assert_eq!(take(&mut unacked, 4, false), Some(vec![4]));
        assert_eq!(take(&mut unacked, 4, false), None, "a second time");
        assert_eq!(take(&mut unacked, 4, true), None, "nor as the end of several");
        assert_eq!(take(&mut unacked, 5, true), Some(vec![1, 2, 5]));
        assert_eq!(unacked.consumed(), 0);
        assert_eq!(take(&mut unacked, 7, true), None);
        assert_eq!(take(&mut unacked, 0, false), None);
        assert_eq!(take(&mut unacked, 0, true), Some(vec![6]));
        assert_eq!(take(&mut unacked, 0, true), Some(vec![]), "all of nothing is fine");
        assert!(unacked.is_empty());
    }
}
