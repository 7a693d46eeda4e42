//! A set of numbers as ranges that neither touch nor overlap. Used by the cursor for what was settled out of order:
//! between two ranges there is always an unsettled message, so there are never more ranges than messages in hand.
//!
//! It knows nothing of logs or messages.

use super::words::Words;

/// Numbers, kept as half-open ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// The lowest range: most sets have no other, and then take no memory of their own. Empty when the set is.
    first: (u64, u64),
    /// All others; they lie behind `first` and do not touch it. None instead of an empty one.
    others: Option<Box<Words>>,
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
            return self.others.get_or_insert_default().insert(from, to);
        }
        if to < start {
            self.others.get_or_insert_default().insert(start, end);
            self.first = (from, to);
            return to - from;
        }
        let known = end.min(to).saturating_sub(start.max(from)) + self.count_others(to);
        self.first = (start.min(from), end.max(to));
        if let Some(others) = &mut self.others {
            self.first.1 = others.end_of(self.first.1).unwrap_or(self.first.1);
            others.remove_before(self.first.1);
            self.shrink();
        }
        (to - from) - known
    }

    // How many of the others lie before `to`.
    fn count_others(&self, to: u64) -> u64 {
        let before = self.ranges_of_others().take_while(|(start, _)| *start < to);
        before.map(|(start, end)| end.min(to) - start).sum()
    }

    fn ranges_of_others(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = 0;
        self.others.iter().flat_map(move |others| {
            std::iter::from_fn(move || {
                let start = others.next(at)?;
                at = others.end_of(start)?;
                Some((start, at))
            })
        })
    }

    fn shrink(&mut self) {
        self.others.take_if(|others| others.is_empty());
    }

    /// The end of the range that holds `at`.
    pub(crate) fn end_of(&self, at: u64) -> Option<u64> {
        let (start, end) = self.first;
        if at < end {
            return (at >= start).then_some(end);
        }
        self.others.as_ref()?.end_of(at)
    }

    /// Removes all ranges that begin at or before `at`; answers where the last of them ends, or `at` if that is later.
    pub(crate) fn absorb(&mut self, mut at: u64) -> u64 {
        while !self.is_empty() && self.first.0 <= at {
            at = at.max(self.first.1);
            self.first = self.pop_other().unwrap_or_default();
        }
        at
    }

    fn pop_other(&mut self) -> Option<(u64, u64)> {
        let lowest = self.ranges_of_others().next()?;
        if let Some(others) = &mut self.others {
            others.remove_before(lowest.1);
        }
        self.shrink();
        Some(lowest)
    }

    /// Removes everything from `at` on.
    pub(crate) fn cut(&mut self, at: u64) {
        if let Some(others) = &mut self.others {
            others.cut(at);
        }
        self.shrink();
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
        self.iter().count()
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.0 == self.first.1
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.first = (0, 0);
        self.others = None;
    }

    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = (!self.is_empty()).then_some(self.first);
        first.into_iter().chain(self.ranges_of_others())
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

    fn holds_what_a_plain_set_holds(inserts: Vec<(u64, u64)>, head: u64) -> Result<(), TestCaseError> {
        let (mut set, mut plain) = (RangeSet::default(), std::collections::BTreeSet::new());
        for (from, count) in inserts {
            let before = plain.len();
            plain.extend(from..from + count);
            prop_assert_eq!(set.insert(from, from + count), (plain.len() - before) as u64);
        }
        prop_assert_eq!(set.total(), plain.len() as u64);
        let listed = set.iter().flat_map(|(from, to)| from..to);
        prop_assert!(listed.eq(plain.iter().copied()));
        prop_assert!(set.iter().zip(set.iter().skip(1)).all(|(one, next)| one.1 < next.0));
        let mut cut = set.clone();
        cut.cut(head);
        prop_assert!(cut.iter().flat_map(|(from, to)| from..to).eq(plain.range(..head).copied()));
        let after = set.absorb(head);
        prop_assert!(after >= head && !plain.contains(&after), "a range that begins before reaches to {}", after);
        prop_assert!(set.iter().flat_map(|(from, to)| from..to).eq(plain.range(after..).copied()));
        Ok(())
    }

    proptest! {
        #[test]
        fn long_ranges_and_scattered_numbers_are_kept_alike(
            inserts in proptest::collection::vec((0u64..2000, prop_oneof![Just(1u64), 1u64..9, 50u64..400]), 1..120),
            head in 0u64..2400,
        ) {
            holds_what_a_plain_set_holds(inserts, head)?;
        }

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
