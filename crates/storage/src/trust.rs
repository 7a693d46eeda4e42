//! What need not be checked again: bytes that this process wrote itself and never had to read back from the disk, and
//! extents that were found right once since their file was opened. Only what is trusted may be sent without being
//! looked at.
//!
//! Only extents of at least [`SEND_BYTES_MIN`] are asked about: no two of them begin within so many bytes of each
//! other, so a bit for each such stretch of a file is enough.

use std::collections::HashSet;

use crate::index::IdMap;
use crate::reads::Source;

/// Extents from this size on may be sent as ranges of their file; below, copying is as cheap.
pub(crate) const SEND_BYTES_MIN: usize = 32 << 10;

/// What is known of the files' content.
pub(crate) struct Trust {
    /// Files from these numbers on were made by this process.
    own_journal_from: u32,
    own_segments_from: u64,
    /// Those of them that the disk had to be asked about: what it brings is not what we know we wrote.
    read_back: HashSet<Source>,
    /// By file, a bit for every [`SEND_BYTES_MIN`] bytes: the extent that begins there was found right.
    checked: IdMap<Source, Vec<u64>>,
}

impl Trust {
    /// Trusts nothing in the files that were there when the storage was opened.
    pub(crate) fn new(own_journal_from: u32, own_segments_from: u64) -> Trust {
        Trust { own_journal_from, own_segments_from, read_back: HashSet::new(), checked: IdMap::default() }
    }

    /// Whether the extent whose units begin at `at` may be sent unseen.
    pub(crate) fn has(&self, source: Source, at: u64) -> bool {
        (self.is_own(source) && !self.read_back.contains(&source)) || self.was_checked(source, at)
    }

    fn is_own(&self, source: Source) -> bool {
        match source {
            Source::Journal(number) => number >= self.own_journal_from,
            Source::Segment(number) => number >= self.own_segments_from,
        }
    }

    fn was_checked(&self, source: Source, at: u64) -> bool {
        let (word, bit) = place_of(at);
        self.checked.get(&source).and_then(|words| words.get(word)).is_some_and(|word| word & bit != 0)
    }

    /// The extent whose units begin at `at` was found right.
    pub(crate) fn note(&mut self, source: Source, at: u64) {
        let (word, bit) = place_of(at);
        let words = self.checked.entry(source).or_default();
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        if let Some(word) = words.get_mut(word) {
            *word |= bit;
        }
    }

    /// Something of the file had to be read from the disk.
    pub(crate) fn note_read_back(&mut self, source: Source) {
        if self.is_own(source) {
            self.read_back.insert(source);
        }
    }

    /// The disk did not give something of the file.
    pub(crate) fn withdraw(&mut self, source: Source) {
        self.note_read_back(source);
        self.checked.remove(&source);
    }

    /// How many files something is known of.
    pub(crate) fn files(&self) -> usize {
        self.read_back.len() + self.checked.len()
    }

    /// Forgets the files that are gone.
    pub(crate) fn keep(&mut self, is_there: impl Fn(Source) -> bool) {
        self.read_back.retain(|source| is_there(*source));
        self.checked.retain(|source, _| is_there(*source));
    }
}

fn place_of(at: u64) -> (usize, u64) {
    let stretch = at / SEND_BYTES_MIN as u64;
    (usize::try_from(stretch / 64).unwrap_or(usize::MAX - 1), 1 << (stretch % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Source = Source::Segment(3);
    const OWN: Source = Source::Segment(7);

    #[test]
    fn what_we_wrote_is_trusted_until_it_is_read_back() {
        let mut trust = Trust::new(1, 7);
        assert!(trust.has(OWN, 0) && trust.has(Source::Journal(1), 99) && !trust.has(OLD, 0));
        trust.note_read_back(OWN);
        assert!(!trust.has(OWN, 0));
        trust.note(OWN, 112);
        assert!(trust.has(OWN, 112));
    }

    #[test]
    fn what_the_disk_does_not_give_is_trusted_no_more() {
        let mut trust = Trust::new(1, 7);
        for source in [OLD, OWN] {
            trust.note(source, 112);
            trust.withdraw(source);
            assert!(!trust.has(source, 112));
        }
    }

    #[test]
    fn an_extent_found_right_says_nothing_of_its_neighbours() {
        let mut trust = Trust::new(1, 7);
        let at = 5 * SEND_BYTES_MIN as u64 + 17;
        trust.note(OLD, at);
        assert!(trust.has(OLD, at));
        assert!(!trust.has(OLD, at + SEND_BYTES_MIN as u64) && !trust.has(OLD, at - SEND_BYTES_MIN as u64));
        trust.keep(|source| source != OLD);
        assert!(!trust.has(OLD, at));
    }
}
