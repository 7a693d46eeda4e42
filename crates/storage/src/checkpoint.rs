//! The checkpoint: what must be known before the window is read: the state table, the range and the runs of every log,
//! and where the window begins. Written to a temporary name, synced, renamed; twice, so that one damaged copy is no
//! loss. Journal files before the window are let go of only after both are durable.

use std::io;

use model::checksum::crc32c;
use model::{ByteReader, ByteWriter, LogId, Offset, ReadError, Wall};

use crate::index::Run;
use crate::journal::record::StateChangeRecord;
use crate::journal::recover::disk_error;
use crate::rolls::Shape;
use crate::state::StateTable;
use crate::{Disk, LogRange, Owner, StorageError};

/// The copies, in the order they are written and looked for.
const NAMES: [&str; 2] = ["checkpoint", "checkpoint.copy"];
const NEW_NAME: &str = "checkpoint.new";
const MAGIC: [u8; 8] = *b"4FCHKPNT";
/// Version 1, which had no segments of logs, is read too.
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 8 + 4 + 8 + 4 + 4;
const RUN_BYTES: usize = 40;

/// One log as the checkpoint has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogEntry {
    pub(crate) log: LogId,
    pub(crate) range: LogRange,
    /// Everything before this offset is settled, trimmed or never was; the window has the rest.
    pub(crate) covered: Offset,
    pub(crate) runs: Vec<Run>,
    pub(crate) shape: Shape,
}

/// Everything a checkpoint says.
#[derive(Clone, Default)]
pub(crate) struct Checkpoint {
    /// It holds the outcome of every entry up to this one.
    pub(crate) seq: u64,
    /// The first journal file still needed.
    pub(crate) first_file: u32,
    /// The number of its first entry.
    pub(crate) first_seq: u64,
    /// No segment has this number or a greater one.
    pub(crate) segment_next: u64,
    pub(crate) logs: Vec<LogEntry>,
    /// Segments in use, with the bytes of their runs when they were made.
    pub(crate) segments: Vec<(u64, u64)>,
    pub(crate) state: StateTable,
}

impl Checkpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut writer = ByteWriter::new(&mut body);
        writer.u64(self.seq);
        writer.u32(self.first_file);
        writer.u64(self.first_seq);
        writer.u64(self.segment_next);
        writer.u64(self.logs.len() as u64);
        for entry in &self.logs {
            writer.u64(entry.log.0);
            writer.u64(entry.range.start.0);
            writer.u64(entry.range.end.0);
            writer.u64(entry.covered.0);
            writer.u32(entry.runs.len() as u32);
            for run in &entry.runs {
                writer.u64(run.segment);
                writer.u64(run.first.0);
                writer.u64(run.last.0);
                writer.i64(run.time_max.0);
                writer.u64(run.bytes);
            }
            entry.shape.write(&mut writer);
        }
        writer.u64(self.segments.len() as u64);
        for (number, bytes) in &self.segments {
            writer.u64(*number);
            writer.u64(*bytes);
        }
        writer.u64(self.state.len() as u64);
        for (owner, records) in self.state.iter() {
            writer.u8(owner.kind);
            writer.u64(owner.id);
            writer.u8(u8::from(records.starts_with_snapshot()));
            writer.u32(records.count() as u32);
            for record in records.records() {
                writer.u32(record.len() as u32);
                writer.bytes(record);
            }
        }
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
        let mut writer = ByteWriter::new(&mut out);
        writer.bytes(&MAGIC);
        writer.u32(VERSION);
        writer.u64(body.len() as u64);
        writer.u32(crc32c(&body));
        let crc = crc32c(&out);
        let mut writer = ByteWriter::new(&mut out);
        writer.u32(crc);
        writer.bytes(&body);
        out
    }

    /// Reads a checkpoint back; `Ok(None)` when the bytes are damaged.
    ///
    /// # Errors
    /// The version, when a newer program wrote it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Checkpoint>, u32> {
        let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
        let Ok((version, body_bytes, body_crc)) = read_header(header) else { return Ok(None) };
        if version > VERSION {
            return Err(version);
        }
        if body_bytes != body.len() as u64 || crc32c(body) != body_crc {
            return Ok(None);
        }
        Ok(read_body(body, version).ok())
    }
}

fn read_header(header: &[u8]) -> Result<(u32, u64, u32), ReadError> {
    let mut reader = ByteReader::new(header);
    let fields = reader.take(HEADER_BYTES - 4)?;
    if reader.u32()? != crc32c(fields) || !fields.starts_with(&MAGIC) {
        return Err(ReadError::Length(0));
    }
    let mut reader = ByteReader::new(fields);
    reader.take(MAGIC.len())?;
    Ok((reader.u32()?, reader.u64()?, reader.u32()?))
}

fn read_body(body: &[u8], version: u32) -> Result<Checkpoint, ReadError> {
    let mut reader = ByteReader::new(body);
    let mut found = Checkpoint {
        seq: reader.u64()?,
        first_file: reader.u32()?,
        first_seq: reader.u64()?,
        segment_next: reader.u64()?,
        ..Checkpoint::default()
    };
    for _ in 0..reader.u64()? {
        let log = LogId(reader.u64()?);
        let range = LogRange { start: Offset(reader.u64()?), end: Offset(reader.u64()?) };
        let covered = Offset(reader.u64()?);
        let claimed = reader.u32()?;
        let count = reader.count(i64::from(claimed), RUN_BYTES)?;
        let mut runs = Vec::with_capacity(count);
        for _ in 0..count {
            let (segment, first, last) = (reader.u64()?, Offset(reader.u64()?), Offset(reader.u64()?));
            runs.push(Run { segment, first, last, time_max: Wall(reader.i64()?), bytes: reader.u64()? });
        }
        let shape = if version > 1 { Shape::read(&mut reader)? } else { Shape::default() };
        found.logs.push(LogEntry { log, range, covered, runs, shape });
    }
    for _ in 0..reader.u64()? {
        found.segments.push((reader.u64()?, reader.u64()?));
    }
    for _ in 0..reader.u64()? {
        let owner = Owner { kind: reader.u8()?, id: reader.u64()? };
        let mut snapshot = reader.u8()? == 1;
        for _ in 0..reader.u32()? {
            let bytes = reader.u32()? as usize;
            let content = reader.take(bytes)?;
            let change =
                if snapshot { StateChangeRecord::Snapshot(content) } else { StateChangeRecord::Delta(content) };
            found.state.apply(owner, change);
            snapshot = false;
        }
    }
    Ok(found)
}

/// Writes both copies and makes them durable.
///
/// # Errors
/// The disk's; the copies before are still whole.
pub(crate) fn write(disk: &dyn Disk, checkpoint: &Checkpoint) -> io::Result<()> {
    let bytes = checkpoint.encode();
    for name in NAMES {
        let file = disk.open(NEW_NAME, true)?;
        file.set_len(0)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        disk.rename(NEW_NAME, name)?;
        disk.sync_folder("")?;
    }
    Ok(())
}

/// What looking for a checkpoint gave.
pub(crate) struct Loaded {
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Copies that are damaged, with their lengths.
    pub(crate) damaged: Vec<(String, u64)>,
}

/// Finds the newest whole copy.
///
/// # Errors
/// [`StorageError::Unusable`] when there are copies and none is whole or a newer program wrote one,
/// [`StorageError::Disk`].
pub(crate) fn load(disk: &dyn Disk) -> Result<Loaded, StorageError> {
    let mut loaded = Loaded { checkpoint: None, damaged: Vec::new() };
    for name in NAMES {
        let failed = |error: io::Error| disk_error(name, &error);
        let file = match disk.open(name, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        let mut bytes = vec![0; usize::try_from(file.len().map_err(failed)?).unwrap_or(0)];
        let got = file.read_at(0, &mut bytes).map_err(failed)?;
        bytes.truncate(got);
        match Checkpoint::decode(&bytes) {
            Ok(Some(found)) => {
                if loaded.checkpoint.as_ref().is_none_or(|best| best.seq < found.seq) {
                    loaded.checkpoint = Some(found);
                }
            }
            Ok(None) => loaded.damaged.push((name.to_owned(), got as u64)),
            Err(version) => {
                let text = format!("{name} is of format version {version}; this program knows {VERSION}");
                return Err(StorageError::Unusable(text));
            }
        }
    }
    if loaded.checkpoint.is_none() && !loaded.damaged.is_empty() {
        return Err(StorageError::Unusable("every copy of the checkpoint is damaged: restore one of them".to_owned()));
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_reads_back_and_no_flipped_bit_passes() {
        let mut checkpoint =
            Checkpoint { seq: 5, first_file: 2, first_seq: 3, segment_next: 4, ..Checkpoint::default() };
        checkpoint.logs.push(LogEntry {
            log: LogId(7),
            range: LogRange { start: Offset(1), end: Offset(9) },
            covered: Offset(4),
            runs: vec![Run { segment: 1, first: Offset(1), last: Offset(3), time_max: Wall(8), bytes: 6 }],
            shape: Shape::default(),
        });
        checkpoint.segments.push((1, 7));
        let owner = Owner { kind: 1, id: 2 };
        checkpoint.state.apply(owner, StateChangeRecord::Snapshot(b"abc"));
        checkpoint.state.apply(owner, StateChangeRecord::Delta(b"d"));
        let bytes = checkpoint.encode();
        let found = Checkpoint::decode(&bytes).unwrap().unwrap();
        assert_eq!((found.seq, found.first_file, found.first_seq, found.segment_next), (5, 2, 3, 4));
        assert_eq!((&found.logs, &found.segments), (&checkpoint.logs, &checkpoint.segments));
        assert_eq!(found.state.to_recovered(), checkpoint.state.to_recovered());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Checkpoint::decode(&bad).unwrap().is_none(), "bit {bit}");
        }
        for count in 0..bytes.len() {
            assert!(Checkpoint::decode(&bytes[..count]).unwrap().is_none(), "cut at {count}");
        }
    }
}
