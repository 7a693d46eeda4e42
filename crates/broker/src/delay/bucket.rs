//! A bucket: the delayed messages of one span of time, in a log of their own; and its state record.
//!
//! ```text
//! record := version=1  start(i64)  level(u8)  taken(count, {log, offset})  [a cursor's record, as a queue's]
//! ```
//! `taken` names messages that were taken back before the bucket was read.

use std::collections::BTreeSet;

use bytes::Bytes;
use model::{ByteReader, ByteWriter, LogId, ReadError, Wall};

use crate::queue::cursor::Cursor;
use crate::queue::ranges::RangeSet;
use crate::queue::record;

const VERSION: u8 = 1;

/// Bits of the width, in milliseconds, of each level's span: a minute, an hour, three days, half a year, ever.
const WIDTH_BITS: [u32; 5] = [16, 22, 28, 34, 62];

/// A bucket is read before its time comes: by a sixteenth of its width, but no earlier than this.
const LEAD_MS_MAX: i64 = 600_000;

/// One bucket.
pub(super) struct Bucket {
    /// Its span begins here.
    pub(super) start: i64,
    pub(super) level: u8,
    /// What of it is done with. Nothing is ever handed out by it.
    pub(super) cursor: Cursor,
    /// Everything before was read.
    pub(super) read: u64,
    /// Taken back, by the place where they were first put.
    pub(super) taken: BTreeSet<(LogId, u64)>,
}

impl Bucket {
    /// The span that a message due at `due` belongs to, seen from `now`: its start and level.
    pub(super) fn span(due: Wall, now: Wall) -> (i64, u8) {
        let due = due.0.max(now.0).max(0);
        let now = now.0.max(0);
        let far = |bits: &u32| due >> bits == now >> bits;
        // The widest span that holds both is read already; one level below, they differ.
        let level = WIDTH_BITS.iter().position(far).unwrap_or(WIDTH_BITS.len() - 1).saturating_sub(1);
        let bits = WIDTH_BITS[level];
        (due >> bits << bits, level as u8)
    }

    pub(super) fn new(log: LogId, (start, level): (i64, u8)) -> Bucket {
        Bucket { start, level, cursor: Cursor::new(log, 0), read: 0, taken: BTreeSet::new() }
    }

    /// Where its span ends.
    pub(super) fn end(&self) -> i64 {
        let bits = WIDTH_BITS.get(usize::from(self.level)).copied().unwrap_or(62);
        self.start.saturating_add(1 << bits)
    }

    /// From when on it is to be read.
    pub(super) fn opens(&self) -> i64 {
        let width = self.end() - self.start;
        self.start - (width / 16).min(LEAD_MS_MAX)
    }

    /// When it needs something next: to be read, or, done with, to be dropped.
    pub(super) fn wakes(&self) -> Option<Wall> {
        if self.read < self.cursor.end() {
            return Some(Wall(self.opens()));
        }
        (self.cursor.ready() == 0).then_some(Wall(self.end()))
    }

    /// Puts its head into `out`: what every record begins with.
    pub(super) fn put_head(&self, taken: &[(LogId, u64)], out: &mut Vec<u8>) {
        let mut writer = ByteWriter::new(out);
        writer.u8(VERSION);
        writer.i64(self.start);
        writer.u8(self.level);
        writer.varlong(taken.len() as i64);
        for (log, offset) in taken {
            writer.varlong(log.0 as i64);
            writer.varlong(*offset as i64);
        }
    }

    /// Puts that `done` are done with into `out`.
    pub(super) fn put_done(&self, done: &RangeSet, out: &mut Vec<u8>) {
        self.put_head(&[], out);
        record::begin(out);
        record::put_dead(&self.cursor, done, out);
    }

    /// All of it.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put_head(&self.taken.iter().copied().collect::<Vec<_>>(), &mut out);
        record::begin(&mut out);
        record::put_snapshot(&self.cursor, &mut out);
        out
    }

    /// The bucket that `records` tell of.
    pub(super) fn recover(log: LogId, records: &[Bytes]) -> Result<Bucket, ReadError> {
        let mut bucket = Bucket::new(log, (0, 0));
        let mut cursors = Vec::new();
        for bytes in records {
            let mut reader = ByteReader::new(bytes);
            if reader.u8()? != VERSION {
                return Err(ReadError::Length(0));
            }
            bucket.start = reader.i64()?;
            bucket.level = reader.u8()?;
            let claimed = reader.varlong()?;
            for _ in 0..reader.count(claimed, 2)? {
                bucket.taken.insert((LogId(reader.varlong()? as u64), reader.varlong()? as u64));
            }
            if reader.left() > 0 && record::replay(reader.rest(), &mut cursors).is_err() {
                return Err(ReadError::Length(0));
            }
        }
        if let Some(cursor) = cursors.into_iter().find(|cursor| cursor.log == log) {
            bucket.cursor = cursor;
        }
        Ok(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_further_away_the_wider_the_span_and_it_never_begins_behind_what_it_holds() {
        let now = Wall(1_700_000_123_456);
        for (wait, level) in [(0, 0), (1_000, 0), (200_000, 0), (20_000_000, 1), (1 << 30, 2), (1 << 38, 3)] {
            let due = Wall(now.0 + wait);
            let (start, found) = Bucket::span(due, now);
            let bucket = Bucket::new(LogId(1), (start, found));
            assert!(start <= due.0 && due.0 < bucket.end(), "{wait}");
            assert!(
                found >= level.min(found) && (found == level || found + 1 == level || found == level + 1),
                "{wait}"
            );
            // A span that is not the current one of the narrowest kind lies wholly ahead.
            assert!(found == 0 || start > now.0, "{wait}");
        }
    }
}
