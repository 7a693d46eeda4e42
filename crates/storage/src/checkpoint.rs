//! The checkpoint: what must be known before the window is read: the state table, the range and the runs of every log,
//! and where the window begins. Written to a temporary name, synced, renamed; twice, so that one damaged copy is no
//! loss. Journal files before the window are let go of only after both are durable.
//!
//! It is made of slices, each true as of its own entry, because it is drawn up while the journal goes on. When it is
//! made is not its business (`checkpointing`).

use std::io;

use model::checksum::{crc32c, crc32c_of};
use model::{ByteReader, ByteWriter, LogId, Offset, ReadError, Wall};

use crate::index::{Log, Run};
use crate::journal::files::{is_unreadable, read_again};
use crate::journal::record::StateChangeRecord;
use crate::journal::recover::disk_error;
use crate::rolls::Shape;
use crate::segment::FileId;
use crate::state::{OwnerRecords, StateTable};
use crate::{Disk, DiskFile, LogRange, Owner, StorageError};

/// The copies, in the order they are written and looked for.
const NAMES: [&str; 2] = ["checkpoint", "checkpoint.copy"];
const NEW_NAME: &str = "checkpoint.new";
const MAGIC: [u8; 8] = *b"4FCHKPNT";
const VERSION: u32 = 3;
const HEADER_BYTES: usize = 8 + 4 + 8 + 4 + 4;
const RUN_BYTES: usize = 48;
const WRITE_BYTES: usize = 1 << 20;

/// Logs as of one entry, encoded.
pub(crate) struct LogSlice {
    seq: u64,
    count: u32,
    bytes: Vec<u8>,
}

/// Owners as of one entry: all there were between the last one of the slice before and the last one of this.
pub(crate) struct OwnerSlice {
    pub(crate) seq: u64,
    pub(crate) owners: Vec<(Owner, OwnerRecords)>,
}

/// A checkpoint being drawn up.
#[derive(Default)]
pub(crate) struct Checkpoint {
    /// What was not there at this entry is in no slice, unless it came later.
    pub(crate) seq: u64,
    /// The first journal file still needed.
    pub(crate) first_file: u32,
    /// The number of its first entry.
    pub(crate) first_seq: u64,
    /// No file of the store has this number or a greater one.
    pub(crate) file_next: u64,
    /// Files of the store in use, with the bytes of their runs when they were made and their tier.
    pub(crate) files: Vec<(FileId, u64, u8)>,
    pub(crate) logs: Vec<LogSlice>,
    pub(crate) owners: Vec<OwnerSlice>,
}

impl LogSlice {
    pub(crate) fn new(seq: u64) -> LogSlice {
        LogSlice { seq, count: 0, bytes: Vec::new() }
    }

    /// Adds what the checkpoint says of a log.
    pub(crate) fn add(&mut self, id: LogId, log: &Log) {
        self.count += 1;
        let covered = log.window.front().map_or(log.end, |extent| extent.first);
        let mut writer = ByteWriter::new(&mut self.bytes);
        writer.u64(id.0);
        writer.u64(log.start.0);
        writer.u64(log.end.0);
        writer.u64(covered.0);
        writer.u32(log.runs.len() as u32);
        for run in &log.runs {
            writer.u64(run.segment);
            writer.u64(run.first.0);
            writer.u64(run.last.0);
            writer.i64(run.time_max.0);
            writer.u64(run.at);
            writer.u64(run.bytes);
        }
        log.shape.write(&mut writer);
    }
}

impl Checkpoint {
    /// The last entry that it knows of.
    pub(crate) fn last_seq(&self) -> u64 {
        let logs = self.logs.iter().map(|slice| slice.seq);
        logs.chain(self.owners.iter().map(|slice| slice.seq)).fold(self.seq, u64::max)
    }

    fn encode_head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = ByteWriter::new(&mut out);
        writer.u64(self.seq);
        writer.u32(self.first_file);
        writer.u64(self.first_seq);
        writer.u64(self.file_next);
        writer.u32(self.files.len() as u32);
        for (file, bytes, tier) in &self.files {
            writer.u64(file.number);
            writer.u64(*bytes);
            writer.u8(*tier);
            writer.u8(u8::from(file.own.is_some()));
            if let Some((log, first)) = file.own {
                writer.u64(log.0);
                writer.u64(first.0);
            }
        }
        out
    }

    /// Its bytes, in pieces.
    pub(crate) fn encode(&self) -> Vec<Vec<u8>> {
        let mut pieces = vec![Vec::new(), self.encode_head()];
        let mut count = Vec::new();
        ByteWriter::new(&mut count).u32(self.logs.len() as u32);
        pieces.push(count);
        for slice in &self.logs {
            let mut piece = Vec::with_capacity(12 + slice.bytes.len());
            let mut writer = ByteWriter::new(&mut piece);
            writer.u64(slice.seq);
            writer.u32(slice.count);
            writer.bytes(&slice.bytes);
            pieces.push(piece);
        }
        let mut count = Vec::new();
        ByteWriter::new(&mut count).u32(self.owners.len() as u32);
        pieces.push(count);
        pieces.extend(self.owners.iter().map(encode_owners));
        let body: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let mut header = Vec::with_capacity(HEADER_BYTES);
        let mut writer = ByteWriter::new(&mut header);
        writer.bytes(&MAGIC);
        writer.u32(VERSION);
        writer.u64(body.iter().map(|piece| piece.len() as u64).sum());
        writer.u32(crc32c_of(&body));
        let crc = crc32c(&header);
        ByteWriter::new(&mut header).u32(crc);
        if let Some(first) = pieces.first_mut() {
            *first = header;
        }
        pieces
    }
}

fn encode_owners(slice: &OwnerSlice) -> Vec<u8> {
    let mut piece = Vec::new();
    let mut writer = ByteWriter::new(&mut piece);
    writer.u64(slice.seq);
    writer.u32(slice.owners.len() as u32);
    for (owner, records) in &slice.owners {
        writer.u8(owner.kind);
        writer.u64(owner.id);
        writer.u8(u8::from(records.starts_with_snapshot()));
        writer.u32(records.count() as u32);
        for record in records.records() {
            writer.u32(record.len() as u32);
            writer.bytes(record);
        }
    }
    piece
}

/// One log as a checkpoint has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogEntry {
    pub(crate) log: LogId,
    /// It is true as of this entry.
    pub(crate) seq: u64,
    pub(crate) range: LogRange,
    /// Everything before this offset is settled, trimmed or never was; the window has the rest.
    pub(crate) covered: Offset,
    pub(crate) runs: Vec<Run>,
    pub(crate) shape: Shape,
}

/// A checkpoint read back.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) seq: u64,
    pub(crate) first_file: u32,
    pub(crate) first_seq: u64,
    pub(crate) file_next: u64,
    pub(crate) files: Vec<(FileId, u64, u8)>,
    pub(crate) logs: Vec<LogEntry>,
    pub(crate) state: StateTable,
    pub(crate) owners: KnownOwners,
    /// The last entry that any slice knows of.
    pub(crate) last_seq: u64,
}

/// Up to which entry the state of each owner is known.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct KnownOwners {
    /// Last owner and entry of each slice.
    slices: Vec<(Owner, u64)>,
    /// Behind the last of them.
    rest: u64,
}

impl KnownOwners {
    pub(crate) fn of(&self, owner: Owner) -> u64 {
        let at = self.slices.partition_point(|(last, _)| *last < owner);
        self.slices.get(at).map_or(self.rest, |(_, seq)| *seq)
    }
}

/// Reads a checkpoint back; `Ok(None)` when the bytes are damaged.
///
/// # Errors
/// The version, when a newer program wrote it.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Known>, u32> {
    let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
    let Ok((version, body_bytes, body_crc)) = read_header(header) else { return Ok(None) };
    if version != VERSION {
        return Err(version);
    }
    if body_bytes != body.len() as u64 || crc32c(body) != body_crc {
        return Ok(None);
    }
    Ok(read_body(body).ok())
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

pub(crate) fn read_body(body: &[u8]) -> Result<Known, ReadError> {
    let mut reader = ByteReader::new(body);
    let mut found = Known {
        seq: reader.u64()?,
        first_file: reader.u32()?,
        first_seq: reader.u64()?,
        file_next: reader.u64()?,
        ..Known::default()
    };
    found.last_seq = found.seq;
    for _ in 0..reader.u32()? {
        let (number, bytes, tier) = (reader.u64()?, reader.u64()?, reader.u8()?);
        let own = match reader.u8()? {
            0 => None,
            _ => Some((LogId(reader.u64()?), Offset(reader.u64()?))),
        };
        found.files.push((FileId { number, own }, bytes, tier));
    }
    for _ in 0..reader.u32()? {
        let seq = reader.u64()?;
        found.last_seq = found.last_seq.max(seq);
        for _ in 0..reader.u32()? {
            found.logs.push(read_log(&mut reader, seq)?);
        }
    }
    found.owners.rest = found.seq;
    for _ in 0..reader.u32()? {
        let seq = reader.u64()?;
        found.last_seq = found.last_seq.max(seq);
        let mut last = None;
        for _ in 0..reader.u32()? {
            last = Some(read_owner(&mut reader, &mut found.state)?);
        }
        // The last slice reaches to the end.
        found.owners.rest = seq;
        found.owners.slices.extend(last.map(|last| (last, seq)));
    }
    Ok(found)
}

fn read_log(reader: &mut ByteReader<'_>, seq: u64) -> Result<LogEntry, ReadError> {
    let log = LogId(reader.u64()?);
    let range = LogRange { start: Offset(reader.u64()?), end: Offset(reader.u64()?) };
    let covered = Offset(reader.u64()?);
    let claimed = reader.u32()?;
    let count = reader.count(i64::from(claimed), RUN_BYTES)?;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        runs.push(Run {
            segment: reader.u64()?,
            first: Offset(reader.u64()?),
            last: Offset(reader.u64()?),
            time_max: Wall(reader.i64()?),
            at: reader.u64()?,
            bytes: reader.u64()?,
        });
    }
    Ok(LogEntry { log, seq, range, covered, runs, shape: Shape::read(reader)? })
}

fn read_owner(reader: &mut ByteReader<'_>, state: &mut StateTable) -> Result<Owner, ReadError> {
    let owner = Owner { kind: reader.u8()?, id: reader.u64()? };
    let mut snapshot = reader.u8()? == 1;
    for _ in 0..reader.u32()? {
        let bytes = reader.u32()? as usize;
        let content = reader.take(bytes)?;
        let change = if snapshot { StateChangeRecord::Snapshot(content) } else { StateChangeRecord::Delta(content) };
        state.apply(owner, change);
        snapshot = false;
    }
    Ok(owner)
}

/// Writes both copies and makes them durable. Answers how many bytes it wrote.
///
/// # Errors
/// The disk's; the copies before are still whole.
pub(crate) fn write(disk: &dyn Disk, checkpoint: &Checkpoint) -> io::Result<u64> {
    let pieces = checkpoint.encode();
    let mut written = 0;
    for name in NAMES {
        let file = disk.open(NEW_NAME, true)?;
        file.set_len(0)?;
        let mut at = 0;
        let mut buffer = Vec::new();
        for (n, piece) in pieces.iter().enumerate() {
            buffer.extend_from_slice(piece);
            if buffer.len() >= WRITE_BYTES || n + 1 == pieces.len() {
                file.write_at(at, &buffer)?;
                at += buffer.len() as u64;
                buffer.clear();
            }
        }
        file.sync()?;
        disk.rename(NEW_NAME, name)?;
        disk.sync_folder("")?;
        written += at;
    }
    Ok(written)
}

/// What looking for a checkpoint gave.
pub(crate) struct Loaded {
    pub(crate) checkpoint: Option<Known>,
    /// Copies that are damaged, with their lengths.
    pub(crate) damaged: Vec<(String, u64)>,
    /// Copies that are missing, or another checkpoint's: a stop came between the two.
    pub(crate) behind: Vec<&'static str>,
}

/// Finds the newest whole copy.
///
/// # Errors
/// [`StorageError::Unusable`] when there are copies and none is whole or a newer program wrote one,
/// [`StorageError::Disk`].
pub(crate) fn load(disk: &dyn Disk) -> Result<Loaded, StorageError> {
    let mut loaded = Loaded { checkpoint: None, damaged: Vec::new(), behind: Vec::new() };
    let (mut unread, mut best, mut whole) = (None, None, Vec::new());
    for name in NAMES {
        let failed = |error: io::Error| disk_error(name, &error);
        let file = match disk.open(name, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                whole.push((name, None));
                continue;
            }
            Err(error) => return Err(failed(error)),
        };
        let bytes = match read_whole(&*file) {
            Ok(bytes) => bytes,
            // The other copy may do.
            Err(error) if is_unreadable(&error) => {
                loaded.damaged.push((name.to_owned(), file.len().unwrap_or(0)));
                unread = Some(failed(error));
                continue;
            }
            Err(error) => return Err(failed(error)),
        };
        match decode(&bytes) {
            Ok(Some(found)) => {
                // It holds the checksum of all the rest.
                let head = bytes.get(..HEADER_BYTES).map(<[u8]>::to_vec);
                if loaded.checkpoint.as_ref().is_none_or(|best| best.seq < found.seq) {
                    loaded.checkpoint = Some(found);
                    best.clone_from(&head);
                }
                whole.push((name, head));
            }
            Ok(None) => loaded.damaged.push((name.to_owned(), bytes.len() as u64)),
            Err(version) => {
                let text = format!("{name} is of format version {version}; this program knows {VERSION}");
                return Err(StorageError::Unusable(text));
            }
        }
    }
    if loaded.checkpoint.is_none() && !loaded.damaged.is_empty() {
        return Err(unread.unwrap_or(StorageError::Unusable(
            "every copy of the checkpoint is damaged: restore one of them".to_owned(),
        )));
    }
    if best.is_some() {
        loaded.behind = whole.into_iter().filter(|(_, head)| *head != best).map(|(name, _)| name).collect();
    }
    Ok(loaded)
}

/// Makes `behind` equal to the newest copy. Before anything goes that only an older one points to: the newest would be
/// the only one. Where the volume is full it stays so until the next checkpoint.
///
/// # Errors
/// [`StorageError::Disk`].
pub(crate) fn make_equal(disk: &dyn Disk, behind: &[&str]) -> Result<(), StorageError> {
    if behind.is_empty() {
        return Ok(());
    }
    let bytes = whole_copy(disk)?;
    for name in behind {
        match put_copy(disk, name, &bytes) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                tracing::warn!(%error, "there is one copy of the checkpoint only");
            }
            other => other.map_err(|error| disk_error(name, &error))?,
        }
    }
    Ok(())
}

fn read_whole(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
    let got = read_again(file, 0, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// The bytes of the newest whole copy.
///
/// # Errors
/// As [`load`].
pub(crate) fn whole_copy(disk: &dyn Disk) -> Result<Vec<u8>, StorageError> {
    let mut newest: Option<(u64, Vec<u8>)> = None;
    for name in NAMES {
        let Ok(file) = disk.open(name, false) else { continue };
        let bytes = match read_whole(&*file) {
            Err(error) if is_unreadable(&error) => continue,
            other => other.map_err(|error| disk_error(name, &error))?,
        };
        if let Ok(Some(found)) = decode(&bytes)
            && newest.as_ref().is_none_or(|(seq, _)| *seq < found.seq)
        {
            newest = Some((found.seq, bytes));
        }
    }
    newest
        .map(|(_, bytes)| bytes)
        .ok_or_else(|| StorageError::Unusable("no copy of the checkpoint is whole".to_owned()))
}

/// Replaces the copy `name` by `bytes`, durably.
///
/// # Errors
/// The disk's; the copy is then as it was.
pub(crate) fn put_copy(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(NEW_NAME, true)?;
    file.set_len(0)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    disk.rename(NEW_NAME, name)?;
    disk.sync_folder("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_reads_back_and_no_flipped_bit_passes() {
        let runs = vec![Run { segment: 1, first: Offset(1), last: Offset(3), time_max: Wall(8), at: 64, bytes: 6 }];
        let log = Log { start: Offset(1), end: Offset(9), runs, ..Log::default() };
        let mut logs = LogSlice::new(6);
        logs.add(LogId(7), &log);
        let mut state = StateTable::default();
        let owner = Owner { kind: 1, id: 2 };
        state.apply(owner, StateChangeRecord::Snapshot(b"abc"));
        state.apply(owner, StateChangeRecord::Delta(b"d"));
        let own = FileId { number: 2, own: Some((LogId(7), Offset(1))) };
        let checkpoint = Checkpoint {
            seq: 5,
            first_file: 2,
            first_seq: 3,
            file_next: 4,
            files: vec![(FileId { number: 1, own: None }, 7, 2), (own, 8, 0)],
            logs: vec![logs],
            owners: vec![OwnerSlice { seq: 8, owners: state.slice(None, 9) }],
        };
        assert_eq!(checkpoint.last_seq(), 8);
        let bytes = checkpoint.encode().concat();
        let found = decode(&bytes).unwrap().unwrap();
        assert_eq!((found.seq, found.first_file, found.first_seq, found.file_next), (5, 2, 3, 4));
        assert_eq!((&found.files, found.last_seq), (&checkpoint.files, 8));
        let range = LogRange { start: Offset(1), end: Offset(9) };
        assert_eq!(
            found.logs,
            [LogEntry { log: LogId(7), seq: 6, range, covered: Offset(9), runs: log.runs, shape: Shape::default() }]
        );
        assert_eq!(found.state.to_recovered(), state.to_recovered());
        assert_eq!((found.owners.of(owner), found.owners.of(Owner { kind: 9, id: 9 })), (8, 8));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).unwrap().is_none(), "bit {bit}");
        }
        for count in 0..bytes.len() {
            assert!(decode(&bytes[..count]).unwrap().is_none(), "cut at {count}");
        }
    }
}
