//! The entry being built: the write buffer of the running turn. Units are copied into it once, and the same bytes are
//! written and then kept as tail cache.

use bytes::Bytes;
use model::{LogId, Offset};

use super::frame::{ENTRY_HEADER_BYTES, EntryHeader, Generation, align, seeded_crc};
use super::record::{
    self, DROP_BYTES, EXTENT_BYTES, ExtentRecord, LOG_RANGE_BYTES, ROLL_BYTES, STATE_BYTES, TARGET_BYTES, TRIM_BYTES,
    TargetRecord,
};
use crate::{Append, Batch, Owner, StateChange, SyncPolicy};

/// An extent grows to this and no further, so that a reader with a small limit is not given megabytes.
const EXTENT_BYTES_MAX: usize = 256 << 10;
// What the helper vectors may keep between turns.
const KEPT_MAX: usize = 1 << 10;

enum LogRecord {
    /// With the range of its targets.
    Extent(ExtentRecord, usize, usize),
    Trim(LogId, Offset),
    Drop(LogId),
    Roll(LogId, Offset),
    Range(LogId, Offset, Offset),
}

/// An entry that is not sealed yet.
#[derive(Default)]
pub(crate) struct Entry {
    /// Its header's place, then the units.
    buffer: Vec<u8>,
    records: Vec<LogRecord>,
    targets: Vec<TargetRecord>,
    /// State records, encoded.
    state: Vec<u8>,
    directory_bytes: usize,
    policy: Option<SyncPolicy>,
}

/// The most bytes that `batch` adds to an entry.
pub(crate) fn batch_bytes(batch: &Batch<'_>) -> usize {
    let extent =
        |append: &Append<'_>| append.units.len() + EXTENT_BYTES + append.targets.len().saturating_mul(TARGET_BYTES);
    let state = |(_, change): &(Owner, StateChange<'_>)| STATE_BYTES + content_bytes(change);
    batch.appends.iter().map(extent).sum::<usize>()
        + batch.state.iter().map(state).sum::<usize>()
        + batch.rolls.len() * ROLL_BYTES
        + batch.trims.len() * TRIM_BYTES
        + batch.drops.len() * DROP_BYTES
}

fn content_bytes(change: &StateChange<'_>) -> usize {
    match change {
        StateChange::Snapshot(content) | StateChange::Delta(content) => content.len(),
        StateChange::Drop => 0,
    }
}

impl Entry {
    /// Makes ready for a new entry of about `bytes`.
    pub(crate) fn begin(&mut self, bytes: usize) {
        self.buffer = Vec::with_capacity(bytes.max(ENTRY_HEADER_BYTES));
        self.buffer.resize(ENTRY_HEADER_BYTES, 0);
        self.records.clear();
        self.records.shrink_to(KEPT_MAX);
        self.targets.clear();
        self.targets.shrink_to(KEPT_MAX);
        self.state.clear();
        self.state.shrink_to(KEPT_MAX);
        self.directory_bytes = 0;
        self.policy = None;
    }

    /// Its length if it were sealed now, without padding.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len() + self.directory_bytes
    }

    /// Copies `append` in; answers the place of its units in the entry and whether they continue the last extent.
    pub(crate) fn append(
        &mut self,
        append: &Append<'_>,
        policy: SyncPolicy,
        mut end: impl FnMut(LogId) -> Offset,
    ) -> Place {
        let at = self.buffer.len();
        self.buffer.extend_from_slice(append.units);
        if let (Some(units), Some(target)) = (self.buffer.get_mut(at..), append.targets.first()) {
            append.format.stamp(units, model::Stamp { base: target.first, ..append.stamp });
        }
        if self.grow_last(append, policy) {
            return Place { at, continues: true };
        }
        self.policy = Some(policy);
        let from = self.targets.len();
        self.targets.extend(append.targets.iter().map(|target| TargetRecord {
            log: target.log,
            first: target.first,
            end_before: end(target.log),
        }));
        let extent = ExtentRecord {
            format: append.format.tag(),
            at: (at - ENTRY_HEADER_BYTES) as u32,
            bytes: append.units.len() as u32,
            crc: 0,
            last_delta: append.last_delta,
            count: append.count,
            time_max: append.time_max,
        };
        self.records.push(LogRecord::Extent(extent, from, self.targets.len()));
        self.directory_bytes += EXTENT_BYTES + append.targets.len() * TARGET_BYTES;
        Place { at, continues: false }
    }

    // Only dense extents are made one: within one, the format counts offsets from the first.
    fn grow_last(&mut self, append: &Append<'_>, policy: SyncPolicy) -> bool {
        let Some(LogRecord::Extent(last, from, to)) = self.records.last_mut() else { return false };
        let next = u64::from(last.last_delta) + 1;
        let targets = &self.targets[*from..*to];
        let continues = self.policy == Some(policy)
            && last.format == append.format.tag()
            && u64::from(last.count) == next
            && append.count.checked_sub(1) == Some(append.last_delta)
            && last.bytes as usize + append.units.len() <= EXTENT_BYTES_MAX
            && targets.len() == append.targets.len()
            && targets.iter().zip(append.targets).all(|(a, b)| a.log == b.log && a.first.plus(next) == b.first);
        if continues {
            last.bytes += append.units.len() as u32;
            last.count += append.count;
            last.last_delta += append.last_delta + 1;
            last.time_max = last.time_max.max(append.time_max);
        }
        continues
    }

    pub(crate) fn trim(&mut self, log: LogId, before: Offset) {
        self.records.push(LogRecord::Trim(log, before));
        self.directory_bytes += TRIM_BYTES;
    }

    pub(crate) fn roll(&mut self, log: LogId, first: Offset) {
        self.records.push(LogRecord::Roll(log, first));
        self.directory_bytes += ROLL_BYTES;
    }

    pub(crate) fn drop_log(&mut self, log: LogId) {
        self.records.push(LogRecord::Drop(log));
        self.directory_bytes += DROP_BYTES;
    }

    pub(crate) fn log_range(&mut self, log: LogId, start: Offset, end: Offset) {
        self.records.push(LogRecord::Range(log, start, end));
        self.directory_bytes += LOG_RANGE_BYTES;
    }

    pub(crate) fn state(&mut self, owner: Owner, change: &StateChange<'_>) {
        record::write_state(&mut self.state, owner, change);
        self.directory_bytes += STATE_BYTES + content_bytes(change);
    }

    /// The logs that it changes, the last change first; a log may come more than once.
    pub(crate) fn logs(&self) -> impl Iterator<Item = LogId> {
        self.records.iter().rev().flat_map(|record| {
            let (one, targets) = match record {
                LogRecord::Extent(_, from, to) => (None, self.targets.get(*from..*to).unwrap_or_default()),
                LogRecord::Trim(log, _) | LogRecord::Drop(log) | LogRecord::Roll(log, _) => (Some(*log), &[][..]),
                LogRecord::Range(..) => (None, &[][..]),
            };
            one.into_iter().chain(targets.iter().map(|target| target.log))
        })
    }

    /// A copy of bytes of the entry, for a reader who is early.
    pub(crate) fn copy(&self, at: usize, count: usize) -> Option<Bytes> {
        self.buffer.get(at..at.checked_add(count)?).map(Bytes::copy_from_slice)
    }

    /// Makes the whole: checksums, directory, header, padding. `note_crc` is told of each target's.
    pub(crate) fn seal(&mut self, head: Head<'_>, mut note_crc: impl FnMut(LogId, Offset, u32)) -> Bytes {
        let units_end = self.buffer.len();
        self.buffer.reserve_exact(align(self.bytes() as u64) as usize - units_end);
        for record in &self.records {
            match record {
                LogRecord::Extent(extent, from, to) => {
                    let at = ENTRY_HEADER_BYTES + extent.at as usize;
                    let crc = model::checksum::crc32c(&self.buffer[at..at + extent.bytes as usize]);
                    let targets = &self.targets[*from..*to];
                    record::write_extent(&mut self.buffer, &ExtentRecord { crc, ..*extent }, targets);
                    targets.iter().for_each(|target| note_crc(target.log, target.first, crc));
                }
                LogRecord::Trim(log, before) => record::write_trim(&mut self.buffer, *log, *before),
                LogRecord::Roll(log, first) => record::write_roll(&mut self.buffer, *log, *first),
                LogRecord::Drop(log) => record::write_drop(&mut self.buffer, *log),
                LogRecord::Range(log, start, end) => record::write_log_range(&mut self.buffer, *log, *start, *end),
            }
        }
        self.buffer.extend_from_slice(&self.state);
        let directory = &self.buffer[units_end..];
        debug_assert_eq!(directory.len(), self.directory_bytes, "the directory's length was foretold");
        let header = EntryHeader {
            seq: head.seq,
            synced: head.synced,
            at: head.at,
            units_bytes: (units_end - ENTRY_HEADER_BYTES) as u32,
            directory_bytes: directory.len() as u32,
            directory_crc: seeded_crc(head.generation, directory),
        };
        let whole = align(self.buffer.len() as u64) as usize;
        self.buffer.resize(whole, 0);
        header.encode(head.generation, &mut self.buffer);
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.capacity() > buffer.len() + buffer.len() / 4 {
            buffer.shrink_to_fit();
        }
        Bytes::from(buffer)
    }
}

/// What the header of an entry says that the entry itself does not know.
pub(crate) struct Head<'a> {
    pub(crate) seq: u64,
    pub(crate) synced: u64,
    pub(crate) at: u64,
    pub(crate) generation: &'a Generation,
}

/// Where units were put.
pub(crate) struct Place {
    /// Position in the entry.
    pub(crate) at: usize,
    /// They made the last extent longer.
    pub(crate) continues: bool,
}
