//! A set of numbers as ranges that neither touch nor overlap. Used by the cursor for what was settled out of order:
//! between two ranges there is always an unsettled message, so there are never more ranges than messages in hand.
//!
//! It knows nothing of logs or messages.

use std::collections::BTreeMap;

/// Numbers, kept as half-open ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// Start to end (exclusive). Invariant: start < end < the next start.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds `from..to`; answers how many of them were not there.
    pub(crate) fn insert(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let (mut start, mut end, mut known) = (from, to, 0);
        if let Some((&before, &before_end)) = self.ranges.range(..=from).next_back()
            && before_end >= from
        {
            known += before_end.min(to) - from;
            start = before;
            end = end.max(before_end);
            self.ranges.remove(&before);
        }
        while let Some((&next, &next_end)) = self.ranges.range(start..=to).next() {
            known += next_end.min(to) - next;
            end = end.max(next_end);
            self.ranges.remove(&next);
        }
        self.ranges.insert(start, end);
        (to - from) - known
    }

    /// The end of the range that holds `at`.
    pub(crate) fn end_of(&self, at: u64) -> Option<u64> {
        let (_, &end) = self.ranges.range(..=at).next_back()?;
        (end > at).then_some(end)
    }

    /// Removes all ranges that begin at or before `at`; answers where the last of them ends, or `at` if that is later.
    pub(crate) fn absorb(&mut self, mut at: u64) -> u64 {
        while let Some(first) = self.ranges.first_entry() {
            if *first.key() > at {
                break;
            }
            at = at.max(first.remove());
        }
        at
    }

    /// Removes everything from `at` on.
    pub(crate) fn cut(&mut self, at: u64) {
        let _ = self.ranges.split_off(&at);
        if let Some(mut last) = self.ranges.last_entry()
            && *last.get() > at
        {
            last.insert(at);
        }
    }

    /// How many numbers are in it.
    pub(crate) fn total(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(&start, &end)| (start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(set: &RangeSet) -> Vec<(u64, u64)> {
        set.iter().collect()
    }

    #[test]
    fn touching_ranges_become_one_and_new_numbers_are_counted() {
        let mut set = RangeSet::default();
        assert_eq!(set.insert(5, 7), 2);
        assert_eq!(set.insert(7, 9), 2);
        assert_eq!(set.insert(2, 5), 3);
        assert_eq!(listed(&set), [(2, 9)]);
        assert_eq!(set.insert(0, 20), 13);
        assert_eq!(set.insert(3, 3), 0);
        assert_eq!(listed(&set), [(0, 20)]);
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_set_holds(inserts in proptest::collection::vec((0u64..60, 0u64..9), 1..40)) {
            let (mut set, mut plain) = (RangeSet::default(), std::collections::BTreeSet::new());
            for (from, count) in inserts {
                let before = plain.len();
                plain.extend(from..from + count);
                prop_assert_eq!(set.insert(from, from + count), (plain.len() - before) as u64);
                prop_assert_eq!(set.total(), plain.len() as u64);
                for at in 0..70 {
                    prop_assert_eq!(set.end_of(at).is_some(), plain.contains(&at));
                }
            }
            let ranges = listed(&set);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let mut cut = set.clone();
            cut.cut(30);
            prop_assert_eq!(cut.total(), plain.range(..30).count() as u64);
        }
    }
}
