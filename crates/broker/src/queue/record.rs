//! What is stored of a queue's cursors: one record per turn and queue that changed. It is a delta, or a snapshot where
//! that is as short.
//!
//! A record is a version byte and a section for each cursor in it (a queue over a topic has one per partition). All
//! numbers are variable-length. See FORMAT.md.
//!
//! ```text
//! record  := version=3 section*
//! section := log  kind(0 delta | 1 snapshot)  delivered  [head, in snapshots]
//!            ranges(count, {gap to the end of the one before, length})      settled; a delta's since the last record
//!            counts(count, {gap to the one before, deliveries made})        of messages not delivered just once
//!          | log  kind(2|3 sums)  counted  bytes  transient  transient_bytes  over unsettled messages before `counted`
//!                                                                         ; in 2 `bytes` may lack some: not gone by
//! ```

use std::collections::BTreeMap;

use model::{ByteReader, ByteWriter, LogId, ReadError};

use super::cursor::Cursor;
use super::ranges::RangeSet;
use super::sums::Sums;

const VERSION: u8 = 3;
const DELTA: u8 = 0;
const SNAPSHOT: u8 = 1;
const SUMS: u8 = 2;
const WHOLE_SUMS: u8 = 3;

/// Why a record could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// It was written by a newer version, or it is no record.
    #[error("the record has version {0}; this program knows {VERSION}")]
    Version(u8),
    /// It ends early or holds numbers that cannot be.
    #[error("the record is damaged: {0}")]
    Damaged(#[from] ReadError),
}

/// Begins a record in `out`.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.push(VERSION);
}

/// Appends what has changed of `cursor` since its last record.
pub(crate) fn put_delta(cursor: &Cursor, out: &mut Vec<u8>) {
    put(cursor.log, DELTA, cursor.delivered(), out);
    put_ranges(&cursor.news.settled, out);
    put_counts(cursor.news.counts.len(), cursor.news.counts.iter(), out);
    if cursor.news.sums {
        put_sums(cursor, out);
    }
}

/// Appends that `dead` are settled, whatever else has changed.
pub(crate) fn put_dead(cursor: &Cursor, dead: &RangeSet, out: &mut Vec<u8>) {
    put(cursor.log, DELTA, cursor.delivered(), out);
    put_ranges(dead, out);
    put_counts(0, [].into_iter(), out);
}

/// Appends the sums of `cursor`, if it keeps any.
pub(crate) fn put_sums(cursor: &Cursor, out: &mut Vec<u8>) {
    let Some(sums) = cursor.sums() else { return };
    number(cursor.log.0, out);
    out.push(if cursor.uncounted().is_none() { WHOLE_SUMS } else { SUMS });
    for value in [sums.counted, sums.bytes, sums.transient + sums.lost, sums.transient_bytes] {
        number(value, out);
    }
}

/// Appends all of `cursor`.
pub(crate) fn put_snapshot(cursor: &Cursor, out: &mut Vec<u8>) {
    let whole = cursor.whole();
    put(cursor.log, SNAPSHOT, whole.delivered, out);
    number(whole.head, out);
    put_ranges(whole.done, out);
    put_counts(whole.counts.len(), whole.counts.iter(), out);
    put_sums(cursor, out);
}

/// Replays one record. Sections of logs that are not among `cursors` make new ones.
///
/// # Errors
/// [`RecordError`] when it is not a whole record; the sections before the bad one are taken.
pub(crate) fn replay(record: &[u8], cursors: &mut Vec<Cursor>) -> Result<(), RecordError> {
    let mut reader = ByteReader::new(record);
    let version = reader.u8()?;
    if !(1..=VERSION).contains(&version) {
        return Err(RecordError::Version(version));
    }
    while reader.left() > 0 {
        let log = LogId(get(&mut reader)?);
        let kind = reader.u8()?;
        if kind == SUMS || kind == WHOLE_SUMS {
            let since = if kind == SUMS { u64::MAX } else { 0 };
            let sums = Sums { since, ..get_sums(&mut reader)? };
            if let Some(cursor) = of(log, cursors) {
                cursor.restore_sums(sums);
            }
            continue;
        }
        let delivered = get(&mut reader)?;
        let head = if kind == SNAPSHOT { Some(get(&mut reader)?) } else { None };
        let ranges = get_ranges(&mut reader)?;
        let counts = get_counts(&mut reader)?;
        let Some(cursor) = of(log, cursors) else { continue };
        match head {
            Some(head) => {
                cursor.restore(head, ranges, counts);
                cursor.replay(delivered, &RangeSet::default(), &BTreeMap::new());
            }
            None => cursor.replay(delivered, &ranges, &counts),
        }
    }
    Ok(())
}

/// The cursor over `log`; made if it is not there.
fn of(log: LogId, cursors: &mut Vec<Cursor>) -> Option<&mut Cursor> {
    let at = cursors.iter().position(|cursor| cursor.log == log).unwrap_or_else(|| {
        cursors.push(Cursor::new(log, 0));
        cursors.len() - 1
    });
    cursors.get_mut(at)
}

fn get_sums(reader: &mut ByteReader<'_>) -> Result<Sums, ReadError> {
    let (counted, bytes) = (get(reader)?, get(reader)?);
    let (transient, transient_bytes) = (get(reader)?, get(reader)?);
    Ok(Sums { counted, bytes, transient, transient_bytes, ..Sums::default() })
}

fn put(log: LogId, kind: u8, delivered: u64, out: &mut Vec<u8>) {
    number(log.0, out);
    out.push(kind);
    number(delivered, out);
}

fn put_ranges(ranges: &RangeSet, out: &mut Vec<u8>) {
    number(ranges.len() as u64, out);
    let mut before = 0;
    for (from, to) in ranges.iter() {
        number(from - before, out);
        number(to - from, out);
        before = to;
    }
}

fn put_counts<'a>(count: usize, counts: impl Iterator<Item = (&'a u64, &'a u32)>, out: &mut Vec<u8>) {
    number(count as u64, out);
    let mut before = 0;
    for (&offset, &made) in counts {
        number(offset - before, out);
        number(u64::from(made), out);
        before = offset;
    }
}

fn get_ranges(reader: &mut ByteReader<'_>) -> Result<RangeSet, ReadError> {
    let mut ranges = RangeSet::default();
    let mut before = 0u64;
    for _ in 0..get_count(reader)? {
        let from = sum(before, get(reader)?)?;
        let to = sum(from, get(reader)?)?;
        ranges.insert(from, to);
        before = to;
    }
    Ok(ranges)
}

fn get_counts(reader: &mut ByteReader<'_>) -> Result<BTreeMap<u64, u32>, ReadError> {
    let mut counts = BTreeMap::new();
    let mut before = 0u64;
    for _ in 0..get_count(reader)? {
        before = sum(before, get(reader)?)?;
        counts.insert(before, u32::try_from(get(reader)?).unwrap_or(u32::MAX));
    }
    Ok(counts)
}

/// A number; they are all below 2⁶³.
fn number(value: u64, out: &mut Vec<u8>) {
    ByteWriter::new(out).varlong(value as i64);
}

fn get(reader: &mut ByteReader<'_>) -> Result<u64, ReadError> {
    let value = reader.varlong()?;
    u64::try_from(value).map_err(|_| ReadError::Length(value))
}

/// A count of pairs: no more than the bytes that follow can hold.
fn get_count(reader: &mut ByteReader<'_>) -> Result<usize, ReadError> {
    let claimed = reader.varlong()?;
    reader.count(claimed, 2)
}

fn sum(one: u64, other: u64) -> Result<u64, ReadError> {
    let sum = one.checked_add(other).filter(|&sum| i64::try_from(sum).is_ok());
    sum.ok_or(ReadError::Length(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionId;
    use crate::queue::sums::Weight;
    use proptest::prelude::*;

    fn used() -> Cursor {
        let mut cursor = Cursor::new(LogId(9), 0);
        cursor.visible(100);
        let session = SessionId(1);
        for _ in 0..20 {
            cursor.take(session, 0, Weight::default());
        }
        cursor.settle(session, 0);
        cursor.settle(session, 7);
        cursor.requeue(session, 5);
        cursor.take(session, 0, Weight::default());
        cursor.keep_sums(20);
        cursor.appended(20, Weight { bytes: 7, transient: true });
        cursor.appended(21, Weight { bytes: 9, transient: false });
        cursor
    }

    #[test]
    fn a_snapshot_says_what_the_deltas_before_it_said() {
        let mut cursor = used();
        let (mut delta, mut snapshot) = (Vec::new(), Vec::new());
        begin(&mut delta);
        put_delta(&cursor, &mut delta);
        cursor.recorded();
        begin(&mut snapshot);
        put_snapshot(&cursor, &mut snapshot);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        assert_eq!(replay(&delta, &mut one), Ok(()));
        assert_eq!(replay(&snapshot, &mut other), Ok(()));
        one[0].reopen(0, 100);
        other[0].reopen(0, 100);
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        assert_eq!(other[0].ready(), 97, "a restart ends the transient one");
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_an_error_or_another_state_but_never_a_panic(
            flips in proptest::collection::vec((0usize..64, any::<u8>()), 1..6), cut in 0usize..64
        ) {
            let mut record = Vec::new();
            begin(&mut record);
            put_snapshot(&used(), &mut record);
            put_delta(&used(), &mut record);
            for (at, byte) in flips {
                let at = at % record.len();
                record[at] = byte;
            }
            record.truncate(record.len() - cut.min(record.len()));
            let mut cursors = Vec::new();
            let _ = replay(&record, &mut cursors);
            for cursor in &mut cursors {
                cursor.reopen(0, 100);
                while cursor.take(SessionId(2), 0, Weight::default()).is_some() {}
            }
        }
    }
}
