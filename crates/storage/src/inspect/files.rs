//! Single files of a data folder as they are, without what others say of them.

use std::io;

use bytes::Bytes;
use model::checksum::crc32c;
use model::{ByteReader, FormatTag, LogId, Offset, Wall};

use crate::journal::files::{JournalFile, read_around};
use crate::journal::frame::{
    BadHeader, ENTRIES_AT, ENTRY_HEADER_BYTES, FILE_HEADER_BYTES, FileHeader, Generation, HEADER_COPY_AT, JOURNAL,
    SEGMENT, file_name, pick_header, seeded_crc,
};
use crate::journal::heads::{read_copies, read_head};
use crate::journal::record::{Record, StateChangeRecord, read_record};
use crate::journal::recover::disk_error;
use crate::journal::scan::Scanner;
use crate::segment::open::{read_heads, whole_index};
use crate::segment::{EXTENT_HEADER_BYTES, EXTENTS_AT, ExtentHeader, FileId};
use crate::{Damage, Disk, DiskFile, Owner, StorageError, checkpoint};

/// One thing in a file.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// An entry of the journal; what follows, up to the next one, is in it.
    Entry {
        /// Where it begins.
        at: u64,
        /// Its number.
        number: u64,
        /// Every entry up to this was durable when it was made.
        synced: u64,
        /// Its bytes.
        bytes: u64,
        /// Whether its directory passes its check. If not, what is in it is not shown.
        whole: bool,
    },
    /// Units of one format, back to back.
    Extent {
        /// Where the units begin.
        at: u64,
        /// The log, or each of a fanout, with the first offset there.
        targets: Vec<(LogId, Offset)>,
        /// Last offset − first.
        last_delta: u32,
        /// Messages.
        messages: u32,
        /// Bytes of the units.
        bytes: u32,
        /// The latest time.
        time_max: Wall,
        /// What the units are.
        format: FormatTag,
        /// The units; `None` when they fail their check.
        units: Option<Bytes>,
    },
    /// Anything else that changes a log, said for people.
    Log(LogId, String),
    /// A state record: owner, what it does, content.
    State(Owner, &'static str, Bytes),
    /// Bytes that are none of the above.
    Damaged {
        /// Where they begin.
        at: u64,
    },
}

/// Shows `visit` what is in the file `name`, in its order, until it answers false.
///
/// # Errors
/// [`StorageError::Disk`]; [`StorageError::Unusable`] when it is no file of a data folder, or its header is damaged.
pub fn items(disk: &dyn Disk, name: &str, visit: &mut dyn FnMut(Item) -> bool) -> Result<(), StorageError> {
    let told = |error: io::Error| disk_error(name, &error);
    let handle = disk.open(name, false).map_err(told)?;
    let number = name.rsplit(['/', '.']).next().and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| StorageError::Unusable(format!("{name} is no file of a data folder")))?;
    let is_journal = name.starts_with("journal/");
    let generation = if is_journal {
        // A file that was renamed to be used again holds what is settled, under its old header.
        let settled = checkpoint::load(disk).ok().and_then(|loaded| loaded.checkpoint);
        let seq = settled.map_or(0, |known| known.first_seq.saturating_sub(1));
        read_head(&*handle, u32::try_from(number).unwrap_or(u32::MAX), seq).map_err(told)?.map(|head| head.generation)
    } else {
        let [first, copy] = read_heads(&*handle).map_err(told)?;
        pick_header(&SEGMENT, number, [&first, &copy]).map(|header| header.generation)
    };
    let generation = match generation {
        Ok(generation) => generation,
        Err(BadHeader::Unfinished) => return Ok(()), // made ready or left behind: nothing is in it
        Err(BadHeader::Damaged) => return Err(StorageError::Unusable(format!("{name}: both headers are damaged"))),
        Err(BadHeader::Version(version)) => {
            return Err(StorageError::Unusable(format!(
                "{name} is of format version {version}, which this program cannot read"
            )));
        }
    };
    let file = JournalFile::new(number as u32, generation, handle);
    if is_journal { journal(&file, visit).map_err(told) } else { store(&file, visit).map_err(told) }
}

fn journal(file: &JournalFile, visit: &mut dyn FnMut(Item) -> bool) -> io::Result<()> {
    let mut headers = Vec::new();
    Scanner::new(file)?.headers(0, |header| headers.push(*header))?;
    let mut scanner = Scanner::new(file)?;
    let mut at = ENTRIES_AT;
    for header in headers {
        if header.at != at && !visit(Item::Damaged { at }) {
            return Ok(());
        }
        at = header.end();
        let directory = Bytes::copy_from_slice(scanner.bytes(header.directory_at(), header.directory_bytes as usize)?);
        let whole = seeded_crc(&file.generation, &directory) == header.directory_crc;
        let (number, synced, bytes) = (header.seq, header.synced, header.end() - header.at);
        if !visit(Item::Entry { at: header.at, number, synced, bytes, whole }) {
            return Ok(());
        }
        let mut reader = ByteReader::new(&directory);
        while let (true, Ok(Some(record))) = (whole, read_record(&mut reader)) {
            let units_at = header.at + ENTRY_HEADER_BYTES as u64;
            if !visit(item(record, units_at, &mut scanner)?) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn item(record: Record<'_>, units_at: u64, scanner: &mut Scanner<'_>) -> io::Result<Item> {
    Ok(match record {
        Record::Extent(extent, targets) => {
            let at = units_at + u64::from(extent.at);
            let units = Bytes::copy_from_slice(scanner.bytes(at, extent.bytes as usize)?);
            Item::Extent {
                at,
                targets: targets.iter().map(|target| (target.log, target.first)).collect(),
                last_delta: extent.last_delta,
                messages: extent.count,
                bytes: extent.bytes,
                time_max: extent.time_max,
                format: extent.format,
                units: Some(units).filter(|units| crc32c(units) == extent.crc),
            }
        }
        Record::Trim(log, before) => Item::Log(log, format!("trimmed before {before}")),
        Record::Drop(log) => Item::Log(log, "dropped".to_owned()),
        Record::LogRange(log, start, end) => Item::Log(log, format!("holds {start}..{end}")),
        Record::Roll(log, first) => Item::Log(log, format!("another segment begins at {first}")),
        Record::State(owner, change) => match change {
            StateChangeRecord::Snapshot(content) => Item::State(owner, "snapshot", Bytes::copy_from_slice(content)),
            StateChangeRecord::Delta(content) => Item::State(owner, "delta", Bytes::copy_from_slice(content)),
            StateChangeRecord::Drop => Item::State(owner, "drop", Bytes::new()),
        },
    })
}

fn store(file: &JournalFile, visit: &mut dyn FnMut(Item) -> bool) -> io::Result<()> {
    let indexed = whole_index(&*file.handle, &file.generation)?;
    let end = indexed.unwrap_or(u64::MAX);
    let mut at = EXTENTS_AT;
    while at < end {
        let Some((header, units)) = extent(&*file.handle, &file.generation, at)? else {
            // Before an index that is whole, this must be damage; without one it may be the end.
            visit(Item::Damaged { at });
            return Ok(());
        };
        let item = Item::Extent {
            at: at + EXTENT_HEADER_BYTES as u64,
            targets: vec![(header.log, header.first)],
            last_delta: header.last_delta,
            messages: header.count,
            bytes: header.bytes,
            time_max: header.time_max,
            format: header.format,
            units,
        };
        if !visit(item) {
            return Ok(());
        }
        at += header.whole_bytes();
    }
    if indexed.is_none() {
        visit(Item::Damaged { at });
    }
    Ok(())
}

fn extent(
    handle: &dyn DiskFile,
    generation: &Generation,
    at: u64,
) -> io::Result<Option<(ExtentHeader, Option<Bytes>)>> {
    let mut bytes = [0; EXTENT_HEADER_BYTES];
    let got = read_around(handle, at, &mut bytes)?;
    let Some(header) = bytes.get(..got).and_then(|bytes| ExtentHeader::decode(generation, bytes)) else {
        return Ok(None);
    };
    // A file that was cut has less than the header says.
    let left = handle.len()?.saturating_sub(at + EXTENT_HEADER_BYTES as u64);
    if u64::from(header.bytes) > left {
        return Ok(Some((header, None)));
    }
    let mut units = vec![0; header.bytes as usize];
    let got = read_around(handle, at + EXTENT_HEADER_BYTES as u64, &mut units)?;
    let whole = got == units.len() && crc32c(&units) == header.crc && !header.lost;
    Ok(Some((header, whole.then(|| Bytes::from(units)))))
}

/// The journal's files, with their numbers, from the first that the checkpoint needs.
pub(super) fn window(disk: &dyn Disk) -> Result<Vec<(u32, String)>, StorageError> {
    let first = checkpoint::load(disk)?.checkpoint.map_or(1, |known| known.first_file);
    let names = disk.list("journal").map_err(|error| disk_error("listing journal", &error))?;
    let numbers = names.iter().filter(|name| name.len() == 20).filter_map(|name| name.parse().ok());
    Ok(numbers.filter(|number| *number >= first).map(|number| (number, file_name(u64::from(number)))).collect())
}

/// Checks the copies of the journal files' headers. Where both are lost, recovery has said so.
pub(super) fn check_journal(disk: &dyn Disk, found: &mut Vec<Damage>) -> Result<(), StorageError> {
    for (number, name) in window(disk)? {
        let told = |error: io::Error| disk_error(&name, &error);
        let copies = read_copies(&*disk.open(&name, false).map_err(told)?).map_err(told)?.bytes;
        let good =
            |copy: &[u8]| FileHeader::decode(&JOURNAL, copy).is_ok_and(|header| header.number == u64::from(number));
        let at = match copies.each_ref().map(|copy| good(copy)) {
            [true, false] => HEADER_COPY_AT as u64,
            [false, true] => 0,
            _ => continue,
        };
        found.push(Damage { file: name, at, bytes: FILE_HEADER_BYTES as u64, logs: Vec::new() });
    }
    Ok(())
}

/// Checks the heads and the index of a file of the store; its logs are served all the same.
pub(super) fn check(
    disk: &dyn Disk,
    file: FileId,
    logs: &[LogId],
    found: &mut Vec<Damage>,
) -> Result<(), StorageError> {
    let name = file.name();
    let told = |error: io::Error| disk_error(&name, &error);
    let handle = match disk.open(&name, false) {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()), // said by opening
        Err(error) => return Err(told(error)),
    };
    let len = handle.len().map_err(told)?;
    let mut damaged = |at: u64, bytes: u64| {
        found.push(Damage { file: name.clone(), at, bytes, logs: logs.to_vec() });
    };
    let mut generation = None;
    let head = FILE_HEADER_BYTES as u64;
    let copies = read_heads(&*handle).map_err(told)?;
    for (at, bytes) in [0, len.saturating_sub(head)].into_iter().zip(copies) {
        match FileHeader::decode(&SEGMENT, &bytes) {
            Ok(header) if header.number == file.number => generation = Some(header.generation),
            _ => damaged(at, head),
        }
    }
    if let Some(generation) = generation
        && whole_index(&*handle, &generation).map_err(told)?.is_none()
    {
        damaged(len.saturating_sub(head), 0);
    }
    Ok(())
}
