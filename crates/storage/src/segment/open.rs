//! Opening segments (by a job: it waits for the disk) and the few that are kept open.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use model::checksum::crc32c;
use model::{LogId, Offset};

use super::footer::{Footer, FooterRun, TRAILER_BYTES};
use super::{EXTENT_HEADER_BYTES, EXTENTS_AT, ExtentHeader, FileId};
use crate::index::IdMap;
use crate::journal::frame::{BadHeader, FILE_HEADER_BYTES, Generation, SEGMENT, pick_header, seeded_crc};
use crate::{Disk, DiskFile};

/// Kept open at most. Descriptors are scarce where many connections are.
const OPEN_MAX: usize = 128;
/// Memory of their footers at most.
const FOOTER_BYTES_MAX: usize = 8 << 20;

/// An open segment.
#[derive(Clone)]
pub(crate) struct OpenSegment {
    pub(crate) handle: Arc<dyn DiskFile>,
    pub(crate) generation: Generation,
    pub(crate) footer: Arc<Footer>,
}

/// Opens `file`; `Ok(None)` when its header is damaged.
///
/// # Errors
/// The disk's.
pub(crate) fn open_segment(disk: &dyn Disk, file: FileId) -> io::Result<Option<OpenSegment>> {
    let handle = disk.open(&file.name(), false)?;
    let len = handle.len()?;
    let (mut bytes, mut copy) = ([0; FILE_HEADER_BYTES], [0; FILE_HEADER_BYTES]);
    handle.read_at(0, &mut bytes)?;
    handle.read_at(len.saturating_sub(FILE_HEADER_BYTES as u64), &mut copy)?;
    let generation = match pick_header(&SEGMENT, file.number, [&bytes, &copy]) {
        Ok(header) => header.generation,
        Err(BadHeader::Damaged | BadHeader::Unfinished) => return Ok(None),
        Err(BadHeader::Version(version)) => {
            return Err(io::Error::other(format!("format version {version} is newer than this program")));
        }
    };
    let footer = match read_footer(&*handle, &generation)? {
        Some(footer) => footer,
        None => rebuild(&*handle, &generation)?,
    };
    Ok(Some(OpenSegment { handle, generation, footer: Arc::new(footer) }))
}

/// The footer, if it passes its check.
///
/// # Errors
/// The disk's.
pub(crate) fn read_footer(handle: &dyn DiskFile, generation: &Generation) -> io::Result<Option<Footer>> {
    let len = handle.len()?;
    let mut trailer = [0; TRAILER_BYTES];
    let behind = (TRAILER_BYTES + FILE_HEADER_BYTES) as u64;
    handle.read_at(len.saturating_sub(behind), &mut trailer)?;
    let Some((at, bytes, crc)) = Footer::locate(generation, &trailer) else { return Ok(None) };
    if at.checked_add(bytes).is_none_or(|end| end > len) {
        return Ok(None);
    }
    let mut footer = vec![0; bytes as usize];
    handle.read_at(at, &mut footer)?;
    if seeded_crc(generation, &footer) != crc {
        return Ok(None);
    }
    Ok(Footer::decode(&footer).ok())
}

/// A footer made from the data: walks from extent to extent. What lies behind a damaged header stays out of reach, and
/// so does an extent that was cut: blocks are read whole, and those before it are not to suffer.
///
/// # Errors
/// The disk's.
pub(crate) fn rebuild(handle: &dyn DiskFile, generation: &Generation) -> io::Result<Footer> {
    let mut footer = Footer::default();
    let len = handle.len()?;
    let mut at = EXTENTS_AT;
    let mut bytes = [0; EXTENT_HEADER_BYTES];
    loop {
        let got = handle.read_at(at, &mut bytes)?;
        let header = bytes.get(..got).and_then(|bytes| ExtentHeader::decode(generation, bytes));
        let whole = header.filter(|header| at + header.whole_bytes() <= len);
        let Some(header) = whole else { return Ok(footer) };
        footer.push(&header, at, true);
        at += header.whole_bytes();
    }
}

/// What is wanted of a block.
pub(crate) struct Cut<'a> {
    pub(crate) log: LogId,
    /// Position of the first byte in the file.
    pub(crate) at: u64,
    pub(crate) bytes: &'a Bytes,
    /// Extents that end before this are passed over.
    pub(crate) from: Offset,
}

impl Cut<'_> {
    /// Calls `visit` with each extent from `from` on, and its place, until it answers false; its units are checked.
    /// `Err` is the place of damage, and everything before it was visited.
    pub(crate) fn walk(
        &self,
        generation: &Generation,
        mut visit: impl FnMut(u64, &ExtentHeader, Bytes) -> bool,
    ) -> Result<(), u64> {
        let mut done = 0;
        while done < self.bytes.len() {
            let place = self.at + done as u64;
            let head = self.bytes.get(done..).unwrap_or_default();
            let header = ExtentHeader::decode(generation, head).filter(|header| header.log == self.log).ok_or(place)?;
            let from = done + EXTENT_HEADER_BYTES;
            done = from + header.bytes as usize;
            if header.last() < self.from {
                continue;
            }
            if done > self.bytes.len() || header.lost {
                return Err(place);
            }
            let units = self.bytes.slice(from..done);
            if crc32c(&units) != header.crc {
                return Err(place);
            }
            if !visit(place, &header, units) {
                break;
            }
        }
        Ok(())
    }
}

/// The bytes of `run` to read for an offset: whole blocks, as many as fit in `bytes_max`, but at least one.
pub(crate) fn blocks_for(run: &FooterRun, from: Offset, bytes_max: usize) -> Option<(u64, usize)> {
    let first = run.blocks.partition_point(|block| block.first <= from).saturating_sub(1);
    let at = run.blocks.get(first)?.at;
    let end_of = |block: usize| run.blocks.get(block + 1).map_or(run.end, |next| next.at);
    let mut last = first;
    while last + 1 < run.blocks.len() && end_of(last + 1).saturating_sub(at) <= bytes_max as u64 {
        last += 1;
    }
    Some((at, usize::try_from(end_of(last).checked_sub(at)?).ok()?))
}

/// Segments kept open, the least used let go of first.
#[derive(Default)]
pub(crate) struct OpenSegments {
    open: IdMap<u64, (OpenSegment, u64)>,
    clock: u64,
    footer_bytes: usize,
}

impl OpenSegments {
    pub(crate) fn get(&mut self, number: u64) -> Option<&OpenSegment> {
        self.clock += 1;
        let (segment, used) = self.open.get_mut(&number)?;
        *used = self.clock;
        Some(segment)
    }

    pub(crate) fn insert(&mut self, number: u64, segment: OpenSegment) {
        self.remove(number);
        self.clock += 1;
        self.footer_bytes += segment.footer.memory();
        self.open.insert(number, (segment, self.clock));
        while self.open.len() > OPEN_MAX || (self.footer_bytes > FOOTER_BYTES_MAX && self.open.len() > 1) {
            let oldest = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(number, _)| *number);
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
        }
    }

    pub(crate) fn remove(&mut self, number: u64) {
        if let Some((segment, _)) = self.open.remove(&number) {
            self.footer_bytes -= segment.footer.memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{FormatTag, Wall};

    use super::*;
    use crate::sim_disk::SimDisk;

    #[test]
    fn a_cut_file_still_gives_the_extents_before_the_cut() {
        let (generation, units) = ([7; 16], [1; 100]);
        let mut bytes = vec![0; EXTENTS_AT as usize];
        for first in [0, 5] {
            let (log, first, crc) = (LogId(1), Offset(first), crc32c(&units));
            let (time_max, last_delta, format) = (Wall(0), 4, FormatTag(1));
            let header =
                ExtentHeader { log, first, time_max, bytes: 100, last_delta, count: 5, crc, format, lost: false };
            header.encode(&generation, &mut bytes);
            bytes.extend_from_slice(&units);
        }
        bytes.truncate(bytes.len() - 100); // the second header is whole, and its units are gone
        let disk = SimDisk::new();
        let handle = disk.open("packs/one", true).unwrap();
        handle.write_at(0, &bytes).unwrap();
        let footer = rebuild(&*handle, &generation).unwrap();
        let runs: Vec<_> = footer.runs.iter().map(|run| (run.last, run.end)).collect();
        assert_eq!(runs, [(Offset(4), EXTENTS_AT + EXTENT_HEADER_BYTES as u64 + 100)]);
    }
}
