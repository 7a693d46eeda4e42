//! Where copies come from: extents of journal files and of files of the store, read and checked one by one. Runs within
//! a job; knows nothing of the index.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use model::LogId;
use model::checksum::crc32c;

use super::open::{OpenSegment, open_segment};
use super::{EXTENT_HEADER_BYTES, ExtentHeader, FileId};
use crate::Disk;
use crate::index::{Extent, IdMap, Run};
use crate::journal::files::JournalFile;
use crate::reads::{Place, Source as PlaceSource, read_place};

/// What is read of a run at once.
const READ_BYTES: usize = 256 << 10;

/// Open files, and what was read last.
pub(crate) struct Sources {
    disk: Arc<dyn Disk>,
    files: Vec<Arc<JournalFile>>,
    open: IdMap<u64, OpenSegment>,
    buffer: (u64, u64, Bytes),
}

impl Sources {
    pub(crate) fn new(disk: Arc<dyn Disk>, files: Vec<Arc<JournalFile>>) -> Sources {
        Sources { disk, files, open: IdMap::default(), buffer: (0, 0, Bytes::new()) }
    }

    /// An extent of the journal; marked as lost when it is damaged.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn extent(&self, log: LogId, extent: &Extent) -> io::Result<(ExtentHeader, Bytes)> {
        let file = self.files.iter().find(|file| file.number == extent.file).filter(|_| !extent.lost);
        let place =
            Place { source: PlaceSource::Journal(extent.file), at: u64::from(extent.at), bytes: extent.bytes as usize };
        let units = match file.map(|file| read_place(&*file.handle, place).result) {
            Some(Ok(units)) if crc32c(&units) == extent.crc => Some(units),
            Some(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            Some(_) | None => None,
        };
        let header = ExtentHeader {
            log,
            first: extent.first,
            time_max: extent.time_max,
            bytes: units.as_ref().map_or(0, |units| units.len() as u32),
            last_delta: extent.last_delta,
            count: extent.count,
            crc: extent.crc,
            format: extent.format,
            lost: units.is_none(),
        };
        Ok((header, units.unwrap_or_default()))
    }

    /// The extent at `at` in a file of the store; `None` when it cannot be read.
    ///
    /// # Errors
    /// None today: what cannot be read is left where it is.
    pub(crate) fn run(&mut self, file: FileId, run: &Run, at: u64) -> io::Result<Option<(ExtentHeader, Bytes)>> {
        if !self.open.contains_key(&file.number) {
            // One that is gone was trimmed away meanwhile; one that cannot be read is left alone.
            let Ok(Some(segment)) = open_segment(&*self.disk, file) else { return Ok(None) };
            self.open.insert(file.number, segment);
        }
        let end = run.at + run.bytes;
        let Some(head) = self.bytes_of(file.number, (at, end), EXTENT_HEADER_BYTES) else { return Ok(None) };
        let Some(generation) = self.open.get(&file.number).map(|segment| segment.generation) else { return Ok(None) };
        let header = ExtentHeader::decode(&generation, &head).filter(|header| !header.lost);
        let Some(header) = header else { return Ok(None) };
        let units = self.bytes_of(file.number, (at + EXTENT_HEADER_BYTES as u64, end), header.bytes as usize);
        Ok(units.filter(|units| crc32c(units) == header.crc).map(|units| (header, units)))
    }

    // `count` bytes at `at`, none of them behind `end`.
    fn bytes_of(&mut self, number: u64, (at, end): (u64, u64), count: usize) -> Option<Bytes> {
        if at + count as u64 > end {
            return None;
        }
        let (of, from, bytes) = &self.buffer;
        let inside = *of == number && at >= *from && at + count as u64 <= *from + bytes.len() as u64;
        if !inside {
            let wanted = usize::try_from((end - at).min(READ_BYTES.max(count) as u64)).ok()?;
            let place = Place { source: PlaceSource::Segment(number), at, bytes: wanted };
            let bytes = read_place(&*self.open.get(&number)?.handle, place).result.ok()?;
            self.buffer = (number, at, bytes);
        }
        let from = (at - self.buffer.1) as usize;
        Some(self.buffer.2.slice(from..from + count))
    }
}
