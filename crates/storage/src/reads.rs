//! Reading: from the write buffer, the tail cache, the page cache, or by a job for the pool of readers. Nothing here
//! waits for the disk. Whatever comes from a file is checked before it is served.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use model::checksum::crc32c;

use crate::index::{Extent, IdMap};
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::journal::files::{is_unreadable, read_around};
use crate::journal::frame::file_name;
use crate::journal::writer::Writer;
use crate::tail::TailCache;
use crate::{Chunk, DiskFile, ReadId, ReadRequest, StorageError};

/// What was read and not asked for again is let go of beyond this.
const LANDED_BYTES_MAX: usize = 16 << 20;
/// So many places are remembered as just brought in: forgetting one costs a second look at the disk.
const BROUGHT_MAX: usize = 4096;
/// What one job reads ahead at most, beyond the first piece.
const AHEAD_BYTES_MAX: usize = 1 << 20;

/// Where bytes lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) source: Source,
    pub(crate) at: u64,
    pub(crate) bytes: usize,
}

/// A file, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    Journal(u32),
    Segment(u64),
}

/// What a read job brought.
pub(crate) struct Piece {
    pub(crate) place: Place,
    pub(crate) result: io::Result<Bytes>,
}

/// Reads that wait for the disk, and what came of them until it is asked for.
#[derive(Default)]
pub(crate) struct ReadDesk {
    last_id: u64,
    waiting: IdMap<u64, Vec<Place>>,
    by_place: IdMap<Place, ReadId>,
    landed: IdMap<Place, io::Result<Bytes>>,
    /// Places in the order they landed; some may have been taken since.
    order: VecDeque<Place>,
    landed_bytes: usize,
    /// Segments that could not be opened, and why; told once each.
    unopened: IdMap<u64, StorageError>,
    /// Where bytes were just brought into the page cache.
    brought: IdMap<Place, ()>,
}

impl ReadDesk {
    /// The id under which `place` is being read already.
    pub(crate) fn waiting(&self, place: &Place) -> Option<ReadId> {
        self.by_place.get(place).copied()
    }

    /// Notes that `places` are being read.
    pub(crate) fn begin(&mut self, places: Vec<Place>) -> ReadId {
        self.last_id += 1;
        let id = ReadId(self.last_id);
        self.by_place.extend(places.iter().map(|place| (*place, id)));
        self.waiting.insert(id.0, places);
        id
    }

    /// A read has ended.
    pub(crate) fn end(&mut self, id: ReadId) {
        for place in self.waiting.remove(&id.0).unwrap_or_default() {
            if self.by_place.get(&place) == Some(&id) {
                self.by_place.remove(&place);
            }
        }
    }

    /// Bytes from `first` on were brought into the page cache.
    pub(crate) fn note_brought(&mut self, first: Place) {
        if self.brought.len() >= BROUGHT_MAX {
            self.brought.clear();
        }
        self.brought.insert(first, ());
    }

    /// Whether bytes from `first` on were just brought into the page cache. Said once.
    pub(crate) fn take_brought(&mut self, first: &Place) -> bool {
        self.brought.remove(first).is_some()
    }

    /// Notes why a segment could not be opened.
    pub(crate) fn fail_opening(&mut self, segment: u64, error: StorageError) {
        self.unopened.insert(segment, error);
    }

    /// Why the segment could not be opened, if so. The next to ask tries again.
    pub(crate) fn failed_opening(&mut self, segment: u64) -> Option<StorageError> {
        self.unopened.remove(&segment)
    }

    /// Keeps what a job brought.
    pub(crate) fn land(&mut self, id: ReadId, pieces: Vec<Piece>) {
        self.end(id);
        for piece in pieces {
            self.order.push_back(piece.place);
            if self.landed.insert(piece.place, piece.result).is_none() {
                self.landed_bytes += piece.place.bytes;
            }
        }
        // Never the newest: a read larger than the bound must end too.
        while self.landed_bytes > LANDED_BYTES_MAX && self.landed.len() > 1 {
            let Some(place) = self.order.pop_front() else { break };
            self.take(&place);
        }
    }

    /// Bytes of what jobs have brought and nobody has taken yet.
    pub(crate) fn landed_bytes(&self) -> usize {
        self.landed_bytes
    }

    /// Hands out what was read for `place`, once.
    pub(crate) fn take(&mut self, place: &Place) -> Option<io::Result<Bytes>> {
        let result = self.landed.remove(place)?;
        self.landed_bytes -= place.bytes;
        if self.landed.is_empty() {
            self.order = VecDeque::new();
        }
        Some(result)
    }
}

/// Reads a place of an open file as a job does. What the disk does not give of it is zero: it fails its check.
pub(crate) fn read_place(handle: &dyn DiskFile, place: Place) -> Piece {
    let mut buffer = vec![0; place.bytes];
    let result = read_around(handle, place.at, &mut buffer).and_then(|got| {
        if got == place.bytes { Ok(Bytes::from(buffer)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    });
    Piece { place, result }
}

/// Reads a place of an open file if it is in memory; `None` if the disk would have to be waited for.
pub(crate) fn read_if_resident(handle: &dyn DiskFile, place: Place) -> io::Result<Option<Bytes>> {
    let mut buffer = vec![0; place.bytes];
    match handle.read_now(place.at, &mut buffer) {
        Ok(Some(got)) if got == place.bytes => Ok(Some(Bytes::from(buffer))),
        Ok(Some(_)) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(None) => Ok(None),
        Err(error) if is_unreadable(&error) => Ok(None), // a job tries again
        Err(error) => Err(error),
    }
}

/// The parts a read from the window needs.
pub(crate) struct WindowReader<'a> {
    pub(crate) writer: &'a Writer,
    pub(crate) tail: &'a TailCache,
    pub(crate) desk: &'a mut ReadDesk,
}

/// What came of a read.
pub(crate) enum Got {
    Chunks(Vec<Chunk>),
    Pending(ReadId, Option<Job>),
}

impl WindowReader<'_> {
    /// Serves `extents` (those from the first wanted on) as far as they are in memory.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] or [`StorageError::Disk`] when already the first cannot be served.
    pub(crate) fn read<'e>(
        &mut self,
        extents: impl Iterator<Item = &'e Extent> + Clone,
        request: &ReadRequest,
    ) -> Result<Got, StorageError> {
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut total = 0;
        for extent in wanted(extents.clone(), request) {
            total += extent.bytes as usize;
            match self.fetch(extent) {
                Ok(Some(units)) => chunks.push(chunk(extent, units)),
                Ok(None) if chunks.is_empty() => {
                    let (id, job) = self.start(wanted(extents, request));
                    return Ok(Got::Pending(id, job));
                }
                Err(error) if chunks.is_empty() => return Err(error),
                Ok(None) | Err(_) => break,
            }
        }
        debug_assert!(total >= chunks.iter().map(|chunk| chunk.units.len()).sum());
        Ok(Got::Chunks(chunks))
    }

    /// The units of an extent, checked; `None` when the disk would have to be waited for.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Disk`].
    pub(crate) fn fetch(&mut self, extent: &Extent) -> Result<Option<Bytes>, StorageError> {
        let (file, at, bytes) = (extent.file, u64::from(extent.at), extent.bytes as usize);
        let damaged = || StorageError::Damaged { file: file_name(u64::from(file)), at };
        if extent.lost {
            return Err(damaged());
        }
        if let Some(units) = self.tail.get(file, at, bytes).or_else(|| self.writer.copy(file, at, bytes)) {
            return Ok(Some(units));
        }
        let place = place(extent);
        let units = match self.desk.take(&place) {
            Some(result) => result.map(Some),
            None => {
                let Some(file) = self.writer.file(file) else { return Err(damaged()) };
                read_if_resident(&*file.handle, place)
            }
        };
        match units {
            Ok(Some(units)) if crc32c(&units) == extent.crc => Ok(Some(units)),
            Ok(Some(_)) => Err(damaged()),
            Ok(None) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(damaged()),
            Err(error) => {
                let what = format!("reading {} at {at}", file_name(u64::from(file)));
                Err(StorageError::Disk { what, why: error.to_string().into() })
            }
        }
    }

    // Reads the first and what follows it in one job, unless it is on its way.
    fn start<'e>(&mut self, extents: impl Iterator<Item = &'e Extent>) -> (ReadId, Option<Job>) {
        let mut places = Vec::new();
        let mut handles = Vec::new();
        let mut bytes = 0;
        for extent in extents {
            let at = u64::from(extent.at);
            let cached = self.tail.get(extent.file, at, extent.bytes as usize).is_some();
            // What is still being built is not in the file: reading ahead would keep what the file held before.
            let here = cached || self.writer.is_building(extent.file, at);
            bytes += extent.bytes as usize;
            let Some(file) = self.writer.file(extent.file).filter(|_| !here && !extent.lost) else { break };
            if !places.is_empty() && bytes > AHEAD_BYTES_MAX {
                break;
            }
            let place = place(extent);
            if places.is_empty()
                && let Some(id) = self.desk.waiting(&place)
            {
                return (id, None);
            }
            places.push(place);
            handles.push(Arc::clone(&file.handle));
        }
        let id = self.desk.begin(places.clone());
        let job = Job::new(Lane::Read, move || {
            let pieces = places.iter().zip(&handles).map(|(place, handle)| read_place(&**handle, *place)).collect();
            JobDone { what: Outcome::Read { id, pieces } }
        });
        (id, Some(job))
    }
}

fn place(extent: &Extent) -> Place {
    Place { source: Source::Journal(extent.file), at: u64::from(extent.at), bytes: extent.bytes as usize }
}

/// An extent as it is served from memory.
pub(crate) fn chunk(extent: &Extent, units: Bytes) -> Chunk {
    Chunk {
        first: extent.first,
        last: extent.last(),
        count: extent.count,
        time_max: extent.time_max,
        format: extent.format,
        units,
    }
}

/// The extents a request asks for: the first whole, even when it is too large or reaches over the end asked for
/// (storage cannot cut units); the others only as far as they fit.
pub(crate) fn wanted<'e>(
    extents: impl Iterator<Item = &'e Extent>,
    request: &ReadRequest,
) -> impl Iterator<Item = &'e Extent> {
    let (until, bytes_max) = (request.until, request.bytes_max);
    let mut total = 0usize;
    extents.enumerate().map_while(move |(at, extent)| {
        total = total.saturating_add(extent.bytes as usize);
        let fits = extent.first < until && (at == 0 || (extent.last() < until && total <= bytes_max));
        fits.then_some(extent)
    })
}
