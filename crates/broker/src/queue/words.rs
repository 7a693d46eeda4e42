//! Numbers as bits, for sets that are scattered: what ten consumers settle of one log lies between what the others
//! still hold. Runs of whole words take one entry, however long they are.
//!
//! Used by the range set; it knows nothing of what the numbers are.

use std::collections::BTreeMap;

/// Numbers of one word.
const BITS: u64 = 64;

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Word → its bits: neither none nor all.
    part: BTreeMap<u64, u64>,
    /// Runs of words with all bits, first to end (exclusive). Invariant: they neither touch nor overlap, and none of
    /// their words is in `part`.
    full: BTreeMap<u64, u64>,
}

impl Words {
    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.part.is_empty() && self.full.is_empty()
    }

    /// Adds `from..to`; answers how many of them were not there.
    pub(super) fn insert(&mut self, from: u64, to: u64) -> u64 {
        let (first, last) = (from / BITS, to / BITS);
        let (low, high) = (u64::MAX << (from % BITS), !(u64::MAX << (to % BITS)));
        if first == last {
            return self.set(first, low & high);
        }
        let mut new = 0;
        let whole = if low == u64::MAX { first } else { first + 1 };
        if whole > first {
            new += self.set(first, low);
        }
        new += self.fill(whole, last);
        new + self.set(last, high)
    }

    // Sets `bits` of one word.
    fn set(&mut self, word: u64, bits: u64) -> u64 {
        if bits == 0 || self.run_of(word).is_some() {
            return 0;
        }
        let held = self.part.entry(word).or_default();
        let new = (bits & !*held).count_ones();
        *held |= bits;
        if *held == u64::MAX {
            self.part.remove(&word);
            self.join(word, word + 1);
        }
        new.into()
    }

    // Sets all bits of the words `from..to`.
    fn fill(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let mut known = 0;
        while let Some((&word, &bits)) = self.part.range(from..to).next() {
            known += u64::from(bits.count_ones());
            self.part.remove(&word);
        }
        known += self.join(from, to) * BITS;
        (to - from) * BITS - known
    }

    // Makes `from..to` one run with those it touches; answers how many of its words were in one.
    fn join(&mut self, from: u64, to: u64) -> u64 {
        let (mut start, mut end, mut known) = (from, to, 0);
        while let Some((&run, &run_end)) = self.full.range(..=end).next_back().filter(|(_, run_end)| **run_end >= from)
        {
            known += run_end.min(to).saturating_sub(run.max(from));
            (start, end) = (start.min(run), end.max(run_end));
            self.full.remove(&run);
        }
        self.full.insert(start, end);
        known
    }

    // Where the run that holds `word` ends.
    fn run_of(&self, word: u64) -> Option<u64> {
        if self.full.is_empty() {
            return None;
        }
        self.full.range(..=word).next_back().map(|(_, end)| *end).filter(|end| *end > word)
    }

    /// The lowest number at or after `at`.
    pub(super) fn next(&self, at: u64) -> Option<u64> {
        let word = at / BITS;
        if self.run_of(word).is_some() {
            return Some(at);
        }
        let here = self.part.get(&word).map_or(0, |bits| bits & (u64::MAX << (at % BITS)));
        if here != 0 {
            return Some(word * BITS + u64::from(here.trailing_zeros()));
        }
        let part =
            self.part.range(word + 1..).next().map(|(word, bits)| word * BITS + u64::from(bits.trailing_zeros()));
        let full = self.full.range(word + 1..).next().map(|(word, _)| word * BITS);
        part.into_iter().chain(full).min()
    }

    /// Where the numbers in a row from `at` on end, if it is there.
    pub(super) fn end_of(&self, at: u64) -> Option<u64> {
        let mut end = at;
        loop {
            let word = end / BITS;
            if let Some(run_end) = self.run_of(word) {
                end = run_end * BITS;
                continue;
            }
            let bits = self.part.get(&word).map_or(0, |bits| bits >> (end % BITS));
            let more = u64::from(bits.trailing_ones());
            end += more;
            if more == 0 || !end.is_multiple_of(BITS) {
                return (end > at).then_some(end);
            }
        }
    }

    /// Removes all before `at`.
    pub(super) fn remove_before(&mut self, at: u64) {
        let (word, rest) = (at / BITS, u64::MAX << (at % BITS));
        while self.part.first_key_value().is_some_and(|(first, _)| *first < word) {
            self.part.pop_first();
        }
        self.keep(word, rest);
        while let Some(run) = self.full.first_entry().filter(|run| *run.key() < word) {
            let (_, end) = run.remove_entry();
            if end > word {
                self.full.insert(word, end);
            }
        }
        if rest != u64::MAX
            && let Some(end) = self.full.remove(&word)
        {
            self.part.insert(word, rest);
            self.full.extend((end > word + 1).then_some((word + 1, end)));
        }
    }

    /// Removes all from `at` on.
    pub(super) fn cut(&mut self, at: u64) {
        let (word, rest) = (at / BITS, !(u64::MAX << (at % BITS)));
        let is_full = self.run_of(word).is_some();
        drop(self.part.split_off(&(word + 1)));
        self.keep(word, rest);
        drop(self.full.split_off(&word));
        if let Some(mut last) = self.full.last_entry() {
            let end = (*last.get()).min(word);
            last.insert(end);
        }
        if is_full && rest != 0 {
            self.part.insert(word, rest);
        }
    }

    // Keeps `bits` of what one word has, if that is not all.
    fn keep(&mut self, word: u64, bits: u64) {
        if let Some(held) = self.part.get_mut(&word) {
            *held &= bits;
            if *held == 0 {
                self.part.remove(&word);
            }
        }
    }
}
