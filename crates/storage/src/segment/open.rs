//! Opening segments (by a job: it waits for the disk) and the few that are kept open.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use model::checksum::crc32c;
use model::{LogId, Offset};

use super::build::STEP_BYTES;
use super::footer::{Footer, FooterRun};
use super::pages::{IndexAt, Page, TRAILER_BYTES};
use super::{EXTENT_HEADER_BYTES, EXTENTS_AT, ExtentHeader, FileId};
use crate::index::IdMap;
use crate::journal::files::read_around;
use crate::journal::frame::{BadHeader, FILE_HEADER_BYTES, Generation, SEGMENT, pick_header};
use crate::{Disk, DiskFile};

/// Kept open at most. Descriptors are scarce where many connections are.
const OPEN_MAX: usize = 128;
/// Memory of their indexes at most.
const INDEX_BYTES_MAX: usize = 8 << 20;

/// How blocks are found in a file.
#[derive(Clone)]
pub(crate) enum BlockIndex {
    /// By the pages of its index, of which this is the one at the top.
    Pages(IndexAt, Arc<Page>),
    /// By what walking the extents gave: its index is damaged.
    Built(Arc<Footer>),
}

/// An open segment.
#[derive(Clone)]
pub(crate) struct OpenSegment {
    pub(crate) handle: Arc<dyn DiskFile>,
    pub(crate) generation: Generation,
    pub(crate) index: BlockIndex,
}

impl OpenSegment {
    /// Where its last extent ends.
    pub(crate) fn end(&self) -> u64 {
        match &self.index {
            BlockIndex::Pages(index, _) => index.at,
            BlockIndex::Built(footer) => footer.end(),
        }
    }

    /// The log of the block around `at`, and where the next block begins. Waits for the disk.
    pub(crate) fn around(&self, at: u64) -> (Option<LogId>, Option<u64>) {
        match &self.index {
            BlockIndex::Pages(index, _) => next_block(&*self.handle, &self.generation, (index, at)),
            BlockIndex::Built(footer) => {
                let entries = footer.entries();
                let next = entries.partition_point(|entry| entry.at <= at);
                let around = next.checked_sub(1).and_then(|before| entries.get(before)).map(|entry| entry.log);
                (around, entries.get(next).map(|entry| entry.at))
            }
        }
    }

    fn memory(&self) -> usize {
        match &self.index {
            BlockIndex::Pages(_, root) => root.memory(),
            BlockIndex::Built(footer) => footer.memory(),
        }
    }
}

/// Opens `file`; `Ok(None)` when its header is damaged. `anew`: a page of its index was found damaged, so the index is
/// built again from the data; as it is if its trailer or the page at the top is.
///
/// # Errors
/// The disk's.
pub(crate) fn open_segment(disk: &dyn Disk, file: FileId, anew: bool) -> io::Result<Option<OpenSegment>> {
    let handle = disk.open(&file.name(), false)?;
    let [first, copy] = read_heads(&*handle)?;
    let generation = match pick_header(&SEGMENT, file.number, [&first, &copy]) {
        Ok(header) => header.generation,
        Err(BadHeader::Damaged | BadHeader::Unfinished) => return Ok(None),
        Err(BadHeader::Version(version)) => {
            return Err(io::Error::other(format!("it is of format version {version}, which this program cannot read")));
        }
    };
    let found = match find_index(&*handle, &generation)?.filter(|_| !anew) {
        Some(index) => read_page(&*handle, &generation, (&index, index.root()))?.map(|root| (index, root)),
        None => None,
    };
    let index = match found {
        Some((index, root)) => BlockIndex::Pages(index, Arc::new(root)),
        None => {
            tracing::warn!(file = %file.name(), "its index is damaged and is built again from the data");
            BlockIndex::Built(Arc::new(rebuild(&*handle, &generation)?))
        }
    };
    Ok(Some(OpenSegment { handle, generation, index }))
}

/// Both copies of the header of a file of the store; zeros stand for what the disk does not give.
///
/// # Errors
/// The disk's, when it gives nothing.
pub(crate) fn read_heads(handle: &dyn DiskFile) -> io::Result<[[u8; FILE_HEADER_BYTES]; 2]> {
    let mut copies = [[0; FILE_HEADER_BYTES]; 2];
    let copy_at = handle.len()?.saturating_sub(FILE_HEADER_BYTES as u64);
    for (copy, at) in copies.iter_mut().zip([0, copy_at]) {
        read_around(handle, at, copy)?;
    }
    Ok(copies)
}

/// Where the index lies, if the trailer passes its check.
///
/// # Errors
/// The disk's.
pub(crate) fn find_index(handle: &dyn DiskFile, generation: &Generation) -> io::Result<Option<IndexAt>> {
    let len = handle.len()?;
    let mut trailer = [0; TRAILER_BYTES];
    let behind = (TRAILER_BYTES + FILE_HEADER_BYTES) as u64;
    read_around(handle, len.saturating_sub(behind), &mut trailer)?;
    Ok(IndexAt::decode(generation, &trailer, len))
}

/// A page of the index; `None` when it is damaged.
///
/// # Errors
/// The disk's.
pub(crate) fn read_page(
    handle: &dyn DiskFile,
    generation: &Generation,
    (index, number): (&IndexAt, u32),
) -> io::Result<Option<Page>> {
    let (at, bytes) = index.place(number);
    let mut buffer = vec![0; bytes];
    let got = read_around(handle, at, &mut buffer)?;
    Ok(buffer.get(..got).and_then(|bytes| Page::decode(generation, number, bytes)))
}

/// Where the extents end, if every page of the index passes its check.
///
/// # Errors
/// The disk's.
pub(crate) fn whole_index(handle: &dyn DiskFile, generation: &Generation) -> io::Result<Option<u64>> {
    let Some(index) = find_index(handle, generation)? else { return Ok(None) };
    for number in 0..=index.root() {
        if read_page(handle, generation, (&index, number))?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(index.at))
}

/// The log of the block around `at`, and where the next block begins, as far as pages of the index are whole.
pub(crate) fn next_block(
    handle: &dyn DiskFile,
    generation: &Generation,
    (index, at): (&IndexAt, u64),
) -> (Option<LogId>, Option<u64>) {
    let mut around = None;
    for number in 0..=index.root() {
        let Some(page) = read_page(handle, generation, (index, number)).ok().flatten() else { continue };
        if page.level > 0 {
            break;
        }
        let next = page.entries.partition_point(|entry| entry.at <= at);
        around = next.checked_sub(1).and_then(|before| page.entries.get(before)).map(|entry| entry.log).or(around);
        if let Some(next) = page.entries.get(next) {
            return (around, Some(next.at));
        }
    }
    (around, None)
}

/// The runs and blocks made from the data: walks from extent to extent. Behind a damaged header it goes on with the
/// next block that what is left of the index knows of; an extent that was cut is left out: blocks are read whole, and
/// those before it are not to suffer.
///
/// # Errors
/// The disk's.
pub(crate) fn rebuild(handle: &dyn DiskFile, generation: &Generation) -> io::Result<Footer> {
    let mut footer = Footer::default();
    let index = find_index(handle, generation)?;
    let end = index.map_or(handle.len()?, |index| index.at);
    let mut at = EXTENTS_AT;
    let mut bytes = [0; EXTENT_HEADER_BYTES];
    let mut step = u64::from(STEP_BYTES);
    while at < end {
        let got = read_around(handle, at, &mut bytes)?;
        let header = bytes.get(..got).and_then(|bytes| ExtentHeader::decode(generation, bytes));
        match header.filter(|header| at + header.whole_bytes() <= end) {
            Some(header) => {
                footer.push(&header, at, (true, step));
                at += header.whole_bytes();
                step = u64::from(STEP_BYTES);
            }
            None => {
                let next = index.as_ref().and_then(|index| next_block(handle, generation, (index, at)).1);
                let Some(next) = next else { break };
                (at, step) = (next, 0); // a block of its own: the one before reaches over the damage
            }
        }
    }
    Ok(footer)
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
    /// The last offset of the first extent that reaches to where reading begins, as far as headers are whole.
    pub(crate) fn last_of_first(&self, generation: &Generation) -> Option<Offset> {
        let mut done = 0;
        loop {
            let header = ExtentHeader::decode(generation, self.bytes.get(done..)?)?;
            if header.log != self.log || header.last() >= self.from {
                return Some(header.last()).filter(|_| header.log == self.log);
            }
            done += EXTENT_HEADER_BYTES + header.bytes as usize;
        }
    }

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

/// Segments kept open and pages of their indexes, the least used let go of first.
#[derive(Default)]
pub(crate) struct OpenSegments {
    open: IdMap<u64, (OpenSegment, u64)>,
    pages: IdMap<(u64, u32), (Arc<Page>, u64)>,
    clock: u64,
    index_bytes: usize,
}

impl OpenSegments {
    pub(crate) fn get(&mut self, number: u64) -> Option<&OpenSegment> {
        self.clock += 1;
        let (segment, used) = self.open.get_mut(&number)?;
        *used = self.clock;
        Some(segment)
    }

    /// The number of the open segment whose file is meant.
    pub(crate) fn number_of(&self, is_meant: impl Fn(&Arc<dyn DiskFile>) -> bool) -> Option<u64> {
        self.open.iter().find(|(_, (segment, _))| is_meant(&segment.handle)).map(|(number, _)| *number)
    }

    pub(crate) fn insert(&mut self, number: u64, segment: OpenSegment) {
        self.remove(number);
        self.clock += 1;
        self.index_bytes += segment.memory();
        self.open.insert(number, (segment, self.clock));
        self.shrink();
        while self.open.len() > OPEN_MAX || (self.index_bytes > INDEX_BYTES_MAX && self.open.len() > 1) {
            let oldest = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(number, _)| *number);
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
        }
    }

    /// A page of the index of an open segment, if it is kept.
    pub(crate) fn page(&mut self, number: u64, page: u32) -> Option<Arc<Page>> {
        self.clock += 1;
        let (found, used) = self.pages.get_mut(&(number, page))?;
        *used = self.clock;
        Some(Arc::clone(found))
    }

    /// Keeps a page.
    pub(crate) fn keep_page(&mut self, (number, page): (u64, u32), content: Arc<Page>) {
        self.clock += 1;
        self.index_bytes += content.memory();
        if let Some((before, _)) = self.pages.insert((number, page), (content, self.clock)) {
            self.index_bytes -= before.memory();
        }
        self.shrink();
    }

    // Never the newest page: whoever asked for it must find it.
    fn shrink(&mut self) {
        while self.index_bytes > INDEX_BYTES_MAX && self.pages.len() > 1 {
            let oldest = self.pages.iter().min_by_key(|(_, (_, used))| *used).map(|(place, _)| *place);
            let Some((page, _)) = oldest.and_then(|oldest| self.pages.remove(&oldest)) else { break };
            self.index_bytes -= page.memory();
        }
    }

    pub(crate) fn remove(&mut self, number: u64) {
        let Some((segment, _)) = self.open.remove(&number) else { return };
        self.index_bytes -= segment.memory();
        let index_bytes = &mut self.index_bytes;
        self.pages.retain(|(of, _), (page, _)| {
            let stays = *of != number;
            *index_bytes -= if stays { 0 } else { page.memory() };
            stays
        });
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
