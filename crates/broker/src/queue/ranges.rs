//! A set of numbers as ranges that neither touch nor overlap. Used by the cursor for what was settled out of order:
//! between two ranges there is always an unsettled message, so there are never more ranges than messages in hand.
//!
//! It knows nothing of logs or messages.

use super::rare::RareMap;

/// Numbers, kept as half-open ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// The lowest range: most sets have no other, and then take no memory of their own. Empty when the set is.
    first: (u64, u64),
    /// The others, start to end (exclusive). Invariant: start < end < the next start; all lie behind `first`.
    others: RareMap<u64>,
}

impl RangeSet {
    /// Adds `from..to`; answers how many of them were not there.
    pub(crate) fn insert(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let (start, end) = self.first;
        if start == end {
            self.first = (from, to);
            return to - from;
        }
        if from > end {
            return self.insert_behind(from, to);
        }
        if to < start {
            self.others.insert(start, end);
            self.first = (from, to);
            return to - from;
        }
        let mut known = end.min(to).saturating_sub(start.max(from));
        self.first = (start.min(from), end.max(to));
        while let Some((next, &next_end)) = self.others.first().filter(|(next, _)| *next <= self.first.1) {
            self.others.pop_first();
            known += next_end.min(to) - next;
            self.first.1 = self.first.1.max(next_end);
        }
        (to - from) - known
    }

    fn insert_behind(&mut self, from: u64, to: u64) -> u64 {
        let (mut start, mut end, mut known) = (from, to, 0);
        if let Some((&before, &before_end)) = self.others.range(..=from).next_back()
            && before_end >= from
        {
            known += before_end.min(to) - from;
            start = before;
            end = end.max(before_end);
        }
        while let Some((&next, &next_end)) = self.others.range(start + 1..=to).next() {
            known += next_end.min(to) - next;
            end = end.max(next_end);
            self.others.remove(next);
        }
        self.others.insert(start, end);
        (to - from) - known
    }

    /// The end of the range that holds `at`.
    pub(crate) fn end_of(&self, at: u64) -> Option<u64> {
        let (start, end) = self.first;
        if at < end {
            return (at >= start).then_some(end);
        }
        let (_, &end) = self.others.range(..=at).next_back()?;
        (end > at).then_some(end)
    }

    /// Removes all ranges that begin at or before `at`; answers where the last of them ends, or `at` if that is later.
    pub(crate) fn absorb(&mut self, mut at: u64) -> u64 {
        while !self.is_empty() && self.first.0 <= at {
            at = at.max(self.first.1);
            self.first = self.others.pop_first().unwrap_or_default();
        }
        at
    }

    /// Removes everything from `at` on.
    pub(crate) fn cut(&mut self, at: u64) {
        drop(self.others.split_off(at));
        if let Some(last) = self.others.last_mut() {
            *last = at.min(*last);
        }
        self.first.1 = self.first.1.min(at);
        if self.first.0 >= self.first.1 {
            self.first = (0, 0);
        }
    }

    /// How many numbers are in it.
    pub(crate) fn total(&self) -> u64 {
        self.iter().map(|(start, end)| end - start).sum()
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.others.len() + usize::from(!self.is_empty())
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.0 == self.first.1
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.first = (0, 0);
        self.others = RareMap::default();
    }

    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = (!self.is_empty()).then_some(self.first);
        first.into_iter().chain(self.others.iter().map(|(&start, &end)| (start, end)))
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
