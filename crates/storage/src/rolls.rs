//! The segments of a log as its owner sees them: where each began, how much it holds and how late it is. A segment here
//! is a range of offsets, not a file; but no run of a file crosses from one into the next, so that trimming away a
//! large one frees its files.
//!
//! Who decides when a segment ends is the layer above: it puts a roll into a batch. Knows nothing of files or units.

use std::collections::VecDeque;

use model::{ByteReader, ByteWriter, LogId, Offset, ReadError, Wall};

use crate::Cleaned;
use crate::engine::Storage;

/// No message has carried a time yet.
const NO_TIME: Wall = Wall(i64::MIN);

/// Bytes of a closed segment in a checkpoint.
const CLOSED_BYTES: usize = 24;
/// Flags of a shape in a checkpoint.
const HAS_ACTIVE: u8 = 1;
const HAS_ROLLED: u8 = 2;

/// A segment of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSegment {
    /// Where it begins: the offset of its first message when it was made. Messages may have been trimmed since.
    pub first: Offset,
    /// The offset after its last one: where the next segment begins, or the log's end.
    pub end: Offset,
    /// Bytes of its units.
    pub bytes: u64,
    /// The latest time of its first units; only of the newest segment.
    pub time_first: Option<Wall>,
    /// The latest time in it, if it has any message.
    pub time_max: Option<Wall>,
    /// It is the newest one: it grows, and is never compacted.
    pub is_active: bool,
}

/// A segment that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Closed {
    pub(crate) first: Offset,
    pub(crate) bytes: u64,
    pub(crate) time_max: Wall,
}

/// What a log that has rolled has beside its newest segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Rolled {
    closed: VecDeque<Closed>,
    /// Where the newest one begins.
    active_first: Offset,
    /// How far it is compacted.
    cleaned: Cleaned,
}

/// A log's segments. 32 bytes for a log that has not rolled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Bytes of units in the newest one.
    bytes: u64,
    /// The latest time of its first append.
    time_first: Wall,
    /// The latest time in it.
    time_max: Wall,
    rolled: Option<Box<Rolled>>,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { bytes: 0, time_first: NO_TIME, time_max: NO_TIME, rolled: None }
    }
}

impl Shape {
    /// Units were appended.
    pub(crate) fn grow(&mut self, bytes: u64, time: Wall) {
        if self.bytes == 0 {
            self.time_first = time;
        }
        self.bytes += bytes;
        self.time_max = self.time_max.max(time);
    }

    /// The newest segment ends before `first`, and another begins there.
    pub(crate) fn roll(&mut self, first: Offset) {
        let closed = Closed { first: self.active_first(), bytes: self.bytes, time_max: self.time_max };
        let rolled = self.rolled.get_or_insert_default();
        if closed.bytes > 0 && closed.first < first {
            rolled.closed.push_back(closed);
        }
        rolled.active_first = first;
        (self.bytes, self.time_first, self.time_max) = (0, NO_TIME, NO_TIME);
    }

    /// The log holds `start..end` from now on.
    pub(crate) fn trim(&mut self, start: Offset, end: Offset) {
        if start >= end {
            (self.bytes, self.time_first, self.time_max) = (0, NO_TIME, NO_TIME);
        }
        let Some(rolled) = self.rolled.as_deref_mut() else { return };
        let ends = rolled.closed.iter().skip(1).map(|next| next.first).chain([rolled.active_first]);
        let gone = ends.take_while(|end| *end <= start).count().min(rolled.closed.len());
        rolled.closed.drain(..gone);
        if start >= end {
            rolled.active_first = end;
        }
        if rolled.closed.capacity() > 16 && rolled.closed.len() * 4 < rolled.closed.capacity() {
            rolled.closed.shrink_to_fit();
        }
    }

    /// Where the newest segment begins.
    pub(crate) fn active_first(&self) -> Offset {
        self.rolled.as_ref().map_or(Offset::ZERO, |rolled| rolled.active_first)
    }

    /// The segments that have ended, with where each ends.
    pub(crate) fn closed(&self) -> impl DoubleEndedIterator<Item = (Closed, Offset)> {
        let closed = self.rolled.as_ref().map(|rolled| &rolled.closed);
        let end = self.active_first();
        let count = closed.map_or(0, VecDeque::len);
        (0..count).filter_map(move |at| {
            let closed = closed?;
            Some((*closed.get(at)?, closed.get(at + 1).map_or(end, |next| next.first)))
        })
    }

    /// Where the segment after the one that holds `offset` begins; `None` for the newest.
    pub(crate) fn next_after(&self, offset: Offset) -> Option<Offset> {
        let rolled = self.rolled.as_ref()?;
        if offset >= rolled.active_first {
            return None;
        }
        let at = rolled.closed.partition_point(|closed| closed.first <= offset);
        Some(rolled.closed.get(at).map_or(rolled.active_first, |next| next.first))
    }

    /// How far it is compacted.
    pub(crate) fn cleaned(&self) -> Cleaned {
        self.rolled.as_ref().map(|rolled| rolled.cleaned).unwrap_or_default()
    }

    /// It is compacted so far from now on.
    pub(crate) fn set_cleaned(&mut self, cleaned: Cleaned) {
        if let Some(rolled) = self.rolled.as_deref_mut() {
            rolled.cleaned = cleaned;
        }
    }

    /// The closed segments that begin in `first..end` are one now, of so many bytes.
    pub(crate) fn join(&mut self, (first, end): (Offset, Offset), bytes: u64) {
        let Some(rolled) = self.rolled.as_deref_mut() else { return };
        let from = rolled.closed.partition_point(|closed| closed.first < first);
        let to = rolled.closed.partition_point(|closed| closed.first < end);
        let time_max = rolled.closed.range(from..to).map(|closed| closed.time_max).max();
        if let (Some(time_max), Some(first)) = (time_max, rolled.closed.get(from).map(|closed| closed.first)) {
            rolled.closed.drain(from + 1..to);
            rolled.closed[from] = Closed { first, bytes, time_max };
        }
    }

    fn active(&self, end: Offset) -> LogSegment {
        let some = |time| Some(time).filter(|_| self.bytes > 0);
        LogSegment {
            first: self.active_first(),
            end,
            bytes: self.bytes,
            time_first: some(self.time_first),
            time_max: some(self.time_max),
            is_active: true,
        }
    }

    /// Appends itself to a checkpoint.
    pub(crate) fn write(&self, writer: &mut ByteWriter<'_>) {
        let active = if self.bytes > 0 { HAS_ACTIVE } else { 0 };
        writer.u8(active | if self.rolled.is_some() { HAS_ROLLED } else { 0 });
        if self.bytes > 0 {
            writer.u64(self.bytes);
            writer.i64(self.time_first.0);
            writer.i64(self.time_max.0);
        }
        let Some(rolled) = &self.rolled else { return };
        writer.u64(rolled.active_first.0);
        writer.u64(rolled.cleaned.upto.0);
        writer.i64(rolled.cleaned.tombstones_until.map_or(NO_TIME.0, |until| until.0));
        writer.u32(rolled.closed.len() as u32);
        for closed in &rolled.closed {
            writer.u64(closed.first.0);
            writer.u64(closed.bytes);
            writer.i64(closed.time_max.0);
        }
    }

    /// Reads one from a checkpoint.
    ///
    /// # Errors
    /// [`ReadError`] when the bytes are none.
    pub(crate) fn read(reader: &mut ByteReader<'_>) -> Result<Shape, ReadError> {
        let mut shape = Shape::default();
        let flags = reader.u8()?;
        if flags & HAS_ACTIVE != 0 {
            shape.bytes = reader.u64()?;
            (shape.time_first, shape.time_max) = (Wall(reader.i64()?), Wall(reader.i64()?));
        }
        if flags & HAS_ROLLED != 0 {
            let active_first = Offset(reader.u64()?);
            let (upto, until) = (Offset(reader.u64()?), Wall(reader.i64()?));
            let cleaned = Cleaned { upto, tombstones_until: Some(until).filter(|until| *until != NO_TIME) };
            let claimed = reader.u32()?;
            let count = reader.count(i64::from(claimed), CLOSED_BYTES)?;
            let mut closed = VecDeque::with_capacity(count);
            for _ in 0..count {
                let (first, bytes, time_max) = (Offset(reader.u64()?), reader.u64()?, Wall(reader.i64()?));
                closed.push_back(Closed { first, bytes, time_max });
            }
            shape.rolled = Some(Box::new(Rolled { closed, active_first, cleaned }));
        }
        Ok(shape)
    }
}

impl Storage {
    /// The newest segment of `log`: what the next append would go to.
    #[must_use]
    pub fn active_segment(&self, log: LogId) -> Option<LogSegment> {
        self.index.get(log).map(|log| log.shape.active(log.end))
    }

    /// All segments of `log`, the oldest first; the last one is the newest.
    #[must_use]
    pub fn log_segments(&self, log: LogId) -> Vec<LogSegment> {
        let Some(log) = self.index.get(log) else { return Vec::new() };
        let closed = log.shape.closed().map(|(closed, end)| LogSegment {
            first: closed.first,
            end,
            bytes: closed.bytes,
            time_first: None,
            time_max: Some(closed.time_max).filter(|time| *time != NO_TIME),
            is_active: false,
        });
        closed.chain([log.shape.active(log.end)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firsts(shape: &Shape) -> Vec<(u64, u64)> {
        shape.closed().map(|(closed, end)| (closed.first.0, end.0)).collect()
    }

    fn rolled() -> Shape {
        let mut shape = Shape::default();
        for first in [5_367_851, 9_936_472] {
            shape.grow(100, Wall(7));
            shape.roll(Offset(first));
        }
        shape.grow(10, Wall(9));
        shape
    }

    #[test]
    fn an_offset_is_in_the_segment_that_begins_before_it() {
        let shape = rolled();
        assert_eq!(firsts(&shape), [(0, 5_367_851), (5_367_851, 9_936_472)]);
        assert_eq!(shape.next_after(Offset(5_367_850)), Some(Offset(5_367_851)));
        assert_eq!(shape.next_after(Offset(5_367_851)), Some(Offset(9_936_472)));
        assert_eq!(shape.next_after(Offset(9_936_471)), Some(Offset(9_936_472)));
        assert_eq!(shape.next_after(Offset(9_936_472)), None);
    }

    #[test]
    fn trims_take_whole_segments_away() {
        let end = Offset(10_000_000);
        let mut shape = rolled();
        shape.trim(Offset(5_367_850), end);
        assert_eq!(firsts(&shape).len(), 2, "one message of the first is left");
        shape.trim(Offset(5_367_851), end);
        assert_eq!(firsts(&shape), [(5_367_851, 9_936_472)]);
        shape.trim(Offset(9_936_472), end);
        assert_eq!((firsts(&shape), shape.active(end).bytes), (vec![], 10));
        shape.trim(end, end);
        assert_eq!((shape.active_first(), shape.active(end).bytes), (end, 0));
    }

    #[test]
    fn a_roll_of_an_empty_segment_leaves_no_trace() {
        let mut shape = rolled();
        shape.trim(Offset(10_000_000), Offset(10_000_000));
        shape.roll(Offset(10_000_000));
        assert_eq!(firsts(&shape), []);
    }

    #[test]
    fn a_shape_reads_back() {
        for shape in [Shape::default(), rolled()] {
            let mut bytes = Vec::new();
            shape.write(&mut ByteWriter::new(&mut bytes));
            let mut reader = ByteReader::new(&bytes);
            assert_eq!(Shape::read(&mut reader), Ok(shape));
            assert_eq!(reader.left(), 0);
        }
    }
}
