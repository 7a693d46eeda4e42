//! The directory of an entry: what its units are and where they go, trims, drops, and state records, in order.

use model::{ByteReader, ByteWriter, FormatTag, LogId, Offset, ReadError, Wall};

use crate::{Owner, StateChange};

const EXTENT: u8 = 1;
const TRIM: u8 = 2;
const DROP: u8 = 3;
const SNAPSHOT: u8 = 4;
const DELTA: u8 = 5;
const STATE_DROP: u8 = 6;
const LOG_RANGE: u8 = 7;
const ROLL: u8 = 8;

/// Bytes of an extent's record before its targets.
pub(crate) const EXTENT_BYTES: usize = 1 + 1 + 4 + 4 + 4 + 4 + 4 + 8 + 4;
/// Bytes of one target.
pub(crate) const TARGET_BYTES: usize = 8 + 8 + 8;
/// Bytes of a trim's record.
pub(crate) const TRIM_BYTES: usize = 17;
/// Bytes of a roll's record.
pub(crate) const ROLL_BYTES: usize = 17;
/// Bytes of a drop's record.
pub(crate) const DROP_BYTES: usize = 9;
/// Bytes of a state record before its content.
pub(crate) const STATE_BYTES: usize = 14;
/// Bytes of a log range's record.
pub(crate) const LOG_RANGE_BYTES: usize = 25;

/// Where the units of an extent go, and the end that log had before: a reader that does not know of such an end
/// misses something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TargetRecord {
    pub(crate) log: LogId,
    pub(crate) first: Offset,
    pub(crate) end_before: Offset,
}

/// Units of one format, back to back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExtentRecord {
    pub(crate) format: FormatTag,
    /// Place of the first byte among the entry's units.
    pub(crate) at: u32,
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
    pub(crate) last_delta: u32,
    pub(crate) count: u32,
    pub(crate) time_max: Wall,
}

/// One record of a directory.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Record<'a> {
    Extent(ExtentRecord, Vec<TargetRecord>),
    Trim(LogId, Offset),
    Drop(LogId),
    /// The newest segment of the log ends, another begins at the offset.
    Roll(LogId, Offset),
    State(Owner, StateChangeRecord<'a>),
    /// What a log held when the file before this one was full (the first entry of a file has these).
    LogRange(LogId, Offset, Offset),
}

/// A state change as read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StateChangeRecord<'a> {
    Snapshot(&'a [u8]),
    Delta(&'a [u8]),
    Drop,
}

/// Appends an extent's record.
pub(crate) fn write_extent(out: &mut Vec<u8>, extent: &ExtentRecord, targets: &[TargetRecord]) {
    let mut writer = ByteWriter::new(out);
    writer.u8(EXTENT);
    writer.u8(extent.format.0);
    writer.u32(extent.at);
    writer.u32(extent.bytes);
    writer.u32(extent.crc);
    writer.u32(extent.last_delta);
    writer.u32(extent.count);
    writer.i64(extent.time_max.0);
    writer.u32(targets.len() as u32);
    for target in targets {
        writer.u64(target.log.0);
        writer.u64(target.first.0);
        writer.u64(target.end_before.0);
    }
}

/// Appends a trim's record.
pub(crate) fn write_trim(out: &mut Vec<u8>, log: LogId, before: Offset) {
    let mut writer = ByteWriter::new(out);
    writer.u8(TRIM);
    writer.u64(log.0);
    writer.u64(before.0);
}

/// Appends a roll's record.
pub(crate) fn write_roll(out: &mut Vec<u8>, log: LogId, first: Offset) {
    let mut writer = ByteWriter::new(out);
    writer.u8(ROLL);
    writer.u64(log.0);
    writer.u64(first.0);
}

/// Appends a drop's record.
pub(crate) fn write_drop(out: &mut Vec<u8>, log: LogId) {
    let mut writer = ByteWriter::new(out);
    writer.u8(DROP);
    writer.u64(log.0);
}

/// Appends a log range's record.
pub(crate) fn write_log_range(out: &mut Vec<u8>, log: LogId, start: Offset, end: Offset) {
    let mut writer = ByteWriter::new(out);
    writer.u8(LOG_RANGE);
    writer.u64(log.0);
    writer.u64(start.0);
    writer.u64(end.0);
}

/// Appends a state record.
pub(crate) fn write_state(out: &mut Vec<u8>, owner: Owner, change: &StateChange<'_>) {
    let (kind, content): (u8, &[u8]) = match change {
        StateChange::Snapshot(content) => (SNAPSHOT, content),
        StateChange::Delta(content) => (DELTA, content),
        StateChange::Drop => (STATE_DROP, &[]),
    };
    let mut writer = ByteWriter::new(out);
    writer.u8(kind);
    writer.u8(owner.kind);
    writer.u64(owner.id);
    writer.u32(content.len() as u32);
    writer.bytes(content);
}

/// Reads the next record; `None` at the end.
///
/// # Errors
/// [`ReadError`] when the bytes are no record.
pub(crate) fn read_record<'a>(reader: &mut ByteReader<'a>) -> Result<Option<Record<'a>>, ReadError> {
    if reader.left() == 0 {
        return Ok(None);
    }
    let record = match reader.u8()? {
        EXTENT => read_extent(reader)?,
        TRIM => Record::Trim(LogId(reader.u64()?), Offset(reader.u64()?)),
        DROP => Record::Drop(LogId(reader.u64()?)),
        ROLL => Record::Roll(LogId(reader.u64()?), Offset(reader.u64()?)),
        LOG_RANGE => Record::LogRange(LogId(reader.u64()?), Offset(reader.u64()?), Offset(reader.u64()?)),
        kind @ (SNAPSHOT | DELTA | STATE_DROP) => {
            let owner = Owner { kind: reader.u8()?, id: reader.u64()? };
            let bytes = reader.u32()? as usize;
            let content = reader.take(bytes)?;
            let change = match kind {
                SNAPSHOT => StateChangeRecord::Snapshot(content),
                DELTA => StateChangeRecord::Delta(content),
                _ => StateChangeRecord::Drop,
            };
            Record::State(owner, change)
        }
        other => return Err(ReadError::Length(i64::from(other))),
    };
    Ok(Some(record))
}

fn read_extent<'a>(reader: &mut ByteReader<'a>) -> Result<Record<'a>, ReadError> {
    let extent = ExtentRecord {
        format: FormatTag(reader.u8()?),
        at: reader.u32()?,
        bytes: reader.u32()?,
        crc: reader.u32()?,
        last_delta: reader.u32()?,
        count: reader.u32()?,
        time_max: Wall(reader.i64()?),
    };
    let claimed = reader.u32()?;
    let count = reader.count(i64::from(claimed), TARGET_BYTES)?;
    let mut targets = Vec::with_capacity(count);
    for _ in 0..count {
        targets.push(TargetRecord {
            log: LogId(reader.u64()?),
            first: Offset(reader.u64()?),
            end_before: Offset(reader.u64()?),
        });
    }
    Ok(Record::Extent(extent, targets))
}
