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
use crate::journal::files::{JournalFile, Unread, gives_others, is_unreadable, read_again};
use crate::journal::frame::file_name;
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

    /// An extent of the journal; marked as lost when it is damaged. So is one that the disk does not give, tried again;
    /// that is noted with its file, which is then kept: another try or a copy may still bring what is in it.
    ///
    /// # Errors
    /// The disk's, with the name of the file and the place in it.
    pub(crate) fn extent(&self, log: LogId, extent: &Extent) -> io::Result<(ExtentHeader, Bytes)> {
        let file = self.files.iter().find(|file| file.number == extent.file).filter(|_| !extent.lost);
        let place =
            Place { source: PlaceSource::Journal(extent.file), at: u64::from(extent.at), bytes: extent.bytes as usize };
        let units = match file.map(|file| read_place_again(file, place, log)) {
            Some(units) => units?.filter(|units| crc32c(units) == extent.crc),
            None => None,
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
            let Ok(Some(segment)) = open_segment(&*self.disk, file, false) else { return Ok(None) };
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

// What lies at `place`; `None`: the file does not reach so far, or the disk does not give it though it gives others of
// the file: then that is noted.
fn read_place_again(file: &JournalFile, place: Place, log: LogId) -> io::Result<Option<Bytes>> {
    let mut buffer = vec![0; place.bytes];
    let error = match read_again(&*file.handle, place.at, &mut buffer) {
        Ok(got) => return Ok(Some(Bytes::from(buffer)).filter(|_| got == place.bytes)),
        Err(error) => error,
    };
    let name = file_name(u64::from(file.number));
    if is_unreadable(&error) && gives_others(&*file.handle) {
        tracing::error!(%error, at = place.at, bytes = place.bytes, %log, "{name} cannot be read: it is given up here");
        file.note_unread(Unread { at: place.at, bytes: place.bytes as u64, log: Some(log) });
        return Ok(None);
    }
    let why = format!("{name} cannot be read at {} ({} bytes): {error}", place.at, place.bytes);
    Err(io::Error::new(error.kind(), why))
}

#[cfg(test)]
mod tests {
    use model::{FormatTag, Offset, Wall};

    use super::*;
    use crate::journal::files::prepare;
    use crate::sim_disk::{Fault, SimDisk};

    const AT: u64 = 8192;

    fn one_extent(disk: &SimDisk) -> (Sources, Extent) {
        let file = prepare(disk, 1, None, 1 << 20).unwrap();
        file.handle.write_at(AT, b"units").unwrap();
        let extent = Extent {
            first: Offset(0),
            time_max: Wall(0),
            file: 1,
            at: AT as u32,
            bytes: 5,
            last_delta: 0,
            count: 1,
            crc: crc32c(b"units"),
            format: FormatTag(1),
            lost: false,
        };
        (Sources::new(Arc::new(disk.clone()), vec![file]), extent)
    }

    #[test]
    fn a_read_that_fails_once_costs_nothing() {
        let disk = SimDisk::new();
        let (sources, extent) = one_extent(&disk);
        disk.fail_at(disk.calls().all + 1, Fault::Eio);
        let (header, units) = sources.extent(LogId(1), &extent).unwrap();
        assert_eq!((header.lost, &units[..]), (false, &b"units"[..]));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place_and_not_given_up() {
        let disk = SimDisk::new();
        let (sources, extent) = one_extent(&disk);
        disk.fail_at(disk.calls().all + 1, Fault::Death);
        let why = sources.extent(LogId(1), &extent).unwrap_err().to_string();
        assert!(why.contains("journal/") && why.contains("at 8192"), "{why}");
    }
}
