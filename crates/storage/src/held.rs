//! What jobs have read for readers of long backlogs, in memory: read past the page cache, so that neither the copy out
//! of it is paid for nor what others need pushed out of it. Of segments, extents of one log, checked; of journal files,
//! blocks in which extents of all logs lie, not checked yet. They stay until the room is needed for others; those that
//! were read go first.
//!
//! It reads nothing itself: [`crate::bring`] does.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use model::{LogId, Offset};

use crate::Chunk;
use crate::reads::Place;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = 2 << 20;
/// So many bytes of the next block are kept with it, for extents that reach over its end.
pub(crate) const BLOCK_OVERLAP: u64 = 128 << 10;

/// What is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    /// A stretch of a log, from this offset on.
    Log(LogId, Offset),
    /// A block of a journal file, by their numbers.
    Block(u32, u64),
}

/// What nobody takes anything of goes when room was asked for so many times since.
const AGE_MAX: u64 = 16;
/// Buffers kept for the next stretches.
const SPARE_MAX: usize = 4;

/// What a job has read.
pub(crate) struct Filled {
    /// Of a log: its extents in their order, each checked.
    pub(crate) chunks: Vec<Chunk>,
    /// What was asked for.
    pub(crate) bytes: Bytes,
    /// The buffer that all of them are slices of.
    pub(crate) whole: Bytes,
}

struct Stretch {
    filled: Filled,
    place: Place,
    /// How often room had been asked for when it came, or something of it was last taken.
    touched: u64,
    /// Bytes handed out: of a stretch of a log none before its last extent, since its readers go on in order.
    served: usize,
}

impl Stretch {
    /// All that is likely to be asked for was handed out. (In a block lie also heads of entries, and the overlap.)
    fn is_done(&self) -> bool {
        self.served >= self.filled.bytes.len() / 4 * 3
    }
}

/// All stretches.
pub(crate) struct Held {
    bytes_max: usize,
    /// Bytes of the stretches.
    bytes: usize,
    /// Bytes of what jobs are reading.
    reserved: usize,
    stretches: BTreeMap<Key, Stretch>,
    /// In the order in which they go.
    order: VecDeque<Key>,
    /// How often room was asked for.
    asked: u64,
    spare: Vec<BytesMut>,
}

impl Held {
    /// Holds nothing, and never more than `bytes_max`.
    pub(crate) fn new(bytes_max: usize) -> Held {
        Held {
            bytes_max,
            bytes: 0,
            reserved: 0,
            stretches: BTreeMap::new(),
            order: VecDeque::new(),
            asked: 0,
            spare: Vec::new(),
        }
    }

    /// Whether there is room for so many bytes, or something that goes.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.bytes + self.reserved + bytes <= self.bytes_max || self.first_to_go().is_some()
    }

    fn first_to_go(&self) -> Option<Key> {
        let goes = |key: &&Key| self.stretches.get(key).is_none_or(|stretch| self.goes(stretch));
        self.order.iter().find(goes).copied()
    }

    fn goes(&self, stretch: &Stretch) -> bool {
        stretch.is_done() || self.asked - stretch.touched > AGE_MAX
    }

    /// A buffer for a stretch of about `bytes`, if there is room for it. It must come back by [`Held::land`].
    pub(crate) fn reserve(&mut self, bytes: usize) -> Option<BytesMut> {
        self.asked += 1;
        while self.bytes + self.reserved + bytes > self.bytes_max {
            let key = self.first_to_go()?;
            self.remove(key);
        }
        self.reserved += bytes;
        Some(self.spare.pop().unwrap_or_default())
    }

    /// Takes what a job has read where `reserved` bytes were reserved; `place` is what it was asked for.
    pub(crate) fn land(&mut self, key: Key, reserved: usize, place: Place, filled: Option<Filled>) {
        self.reserved = self.reserved.saturating_sub(reserved);
        let Some(filled) = filled else { return };
        let key = match (key, filled.chunks.first()) {
            (Key::Log(log, _), Some(first)) => Key::Log(log, first.first),
            (Key::Log(..), None) => return,
            (Key::Block(..), _) => key,
        };
        self.remove(key);
        self.bytes += filled.whole.len();
        self.stretches.insert(key, Stretch { filled, place, touched: self.asked, served: 0 });
        self.order.push_back(key);
    }

    /// The extent of `log` that holds `offset`, or the next one after a gap, if it is `wanted`; and the place that was
    /// asked for.
    pub(crate) fn get(
        &mut self,
        log: LogId,
        offset: Offset,
        wanted: impl FnOnce(&Chunk) -> bool,
    ) -> Option<(Chunk, Place)> {
        let keys = Key::Log(log, Offset::ZERO)..=Key::Log(log, offset);
        let (key, stretch) = self.stretches.range_mut(keys).next_back()?;
        let chunks = &stretch.filled.chunks;
        let at = chunks.partition_point(|chunk| chunk.last < offset);
        let chunk = chunks.get(at).filter(|chunk| wanted(chunk))?.clone();
        stretch.touched = self.asked;
        let (place, key) = (stretch.place, *key);
        if at + 1 == chunks.len() {
            stretch.served = stretch.filled.bytes.len();
            self.goes_first(key);
        }
        Some((chunk, place))
    }

    /// These bytes of a journal file, not checked, and the place that was asked for.
    pub(crate) fn of_journal(&mut self, file: u32, at: u64, bytes: usize) -> Option<(Bytes, Place)> {
        let key = Key::Block(file, at / BLOCK_BYTES);
        let stretch = self.stretches.get_mut(&key)?;
        let from = (at % BLOCK_BYTES) as usize;
        let to = from.checked_add(bytes).filter(|to| *to <= stretch.filled.bytes.len())?;
        stretch.served += bytes;
        stretch.touched = self.asked;
        let found = (stretch.filled.bytes.slice(from..to), stretch.place);
        if stretch.is_done() {
            self.goes_first(key);
        }
        Some(found)
    }

    /// Whether this block is here.
    pub(crate) fn has_block(&self, file: u32, number: u64) -> bool {
        self.stretches.contains_key(&Key::Block(file, number))
    }

    fn goes_first(&mut self, key: Key) {
        if self.order.front() != Some(&key) {
            self.order.retain(|other| *other != key);
            self.order.push_front(key);
        }
    }

    /// Bytes of memory it holds, or soon will.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.reserved
    }

    fn remove(&mut self, key: Key) {
        self.order.retain(|other| *other != key);
        let Some(stretch) = self.stretches.remove(&key) else { return };
        self.bytes -= stretch.filled.whole.len();
        let Filled { chunks, bytes, whole } = stretch.filled;
        drop((chunks, bytes));
        // Nobody sends it any more: the buffer serves again.
        if let Ok(buffer) = whole.try_into_mut()
            && self.spare.len() < SPARE_MAX
        {
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::Source;
    use model::{FormatTag, Wall};

    const PLACE: Place = Place { source: Source::Segment(1), at: 0, bytes: 0 };

    fn fill(held: &mut Held, log: u64, first: u64) -> bool {
        let Some(_) = held.reserve(100) else { return false };
        let whole = Bytes::from(vec![log as u8; 100]);
        let chunks = [0, 5].map(|at| Chunk {
            first: Offset(first + at),
            last: Offset(first + at + 3),
            count: 4,
            time_max: Wall(0),
            format: FormatTag(1),
            units: whole.slice(at as usize * 10..at as usize * 10 + 50),
        });
        let filled = Filled { chunks: chunks.into(), bytes: whole.clone(), whole };
        held.land(Key::Log(LogId(log), Offset(first)), 100, PLACE, Some(filled));
        true
    }

    fn found(held: &mut Held, log: u64, offset: u64) -> Option<u64> {
        held.get(LogId(log), Offset(offset), |_| true).map(|(chunk, _)| chunk.first.0)
    }

    #[test]
    fn an_offset_finds_its_extent_or_the_next_within_the_stretch() {
        let mut held = Held::new(1000);
        assert!(fill(&mut held, 1, 10) && fill(&mut held, 1, 40) && fill(&mut held, 2, 0));
        let asked = [9, 10, 13, 14, 18, 19, 40, 49].map(|offset| found(&mut held, 1, offset));
        assert_eq!(asked, [None, Some(10), Some(10), Some(15), Some(15), None, Some(40), None]);
    }

    #[test]
    fn what_was_read_to_its_end_goes_first_and_what_nobody_comes_for_goes_at_last() {
        let mut held = Held::new(250);
        assert!(fill(&mut held, 1, 0) && fill(&mut held, 2, 0) && !fill(&mut held, 3, 0));
        assert_eq!([found(&mut held, 2, 0), found(&mut held, 2, 5)], [Some(0), Some(5)]);
        assert!(fill(&mut held, 3, 0));
        assert_eq!((found(&mut held, 2, 5), found(&mut held, 1, 0)), (None, Some(0)));
        let refused = (0..1000).take_while(|_| !fill(&mut held, 4, 0)).count();
        assert!((1..=AGE_MAX as usize).contains(&refused), "{refused}");
        assert_eq!(held.bytes(), 200);
    }

    #[test]
    fn a_block_gives_what_lies_in_it_and_what_reaches_a_little_over_its_end() {
        let mut held = Held::new(8 << 20);
        let whole = Bytes::from(vec![7; (BLOCK_BYTES + BLOCK_OVERLAP) as usize]);
        held.reserve(whole.len()).unwrap();
        let filled = Filled { chunks: Vec::new(), bytes: whole.clone(), whole };
        held.land(Key::Block(3, 2), filled.whole.len(), PLACE, Some(filled));
        assert!(held.has_block(3, 2) && !held.has_block(3, 1) && !held.has_block(2, 2));
        let mut got = |at, bytes| held.of_journal(3, at, bytes).map(|(bytes, _)| bytes.len());
        assert_eq!([got(2 * BLOCK_BYTES, 10), got(3 * BLOCK_BYTES - 5, 10)], [Some(10); 2]);
        assert_eq!([got(2 * BLOCK_BYTES - 1, 10), got(3 * BLOCK_BYTES - 5, 1 << 20)], [None; 2]);
    }
}
