//! The reading half of the engine: picks segments or window, by offset or time. Nothing here waits for the disk.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use model::{LogId, Offset, Wall};

use crate::blocks::InRun;
use crate::engine::Storage;
use crate::index::Run;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::reads::{Got, Place, Source, WindowReader, read_if_resident, read_place};
use crate::segment::EXTENT_HEADER_BYTES;
use crate::segment::FileId;
use crate::segment::open::{Cut, OpenSegment};
use crate::trust::SEND_BYTES_MIN;
use crate::{Chunk, LogRange, Lookup, Read, ReadId, ReadRequest, StorageError, TimeHit};

/// What a look into a file gave.
pub(crate) enum Look<T> {
    Here(T),
    Wait(ReadId),
}

impl Storage {
    /// Reads from `log`. Never waits for the disk.
    ///
    /// # Errors
    /// [`StorageError::OutOfRange`] before the start or after the end, [`StorageError::Damaged`] when the bytes fail
    /// their check, [`StorageError::Disk`] when the disk does.
    pub fn read(&mut self, request: &ReadRequest) -> Result<Read, StorageError> {
        let result = self.read_checked(request);
        self.note_refusal(request.log, result)
    }

    fn read_checked(&mut self, request: &ReadRequest) -> Result<Read, StorageError> {
        let range = self.index.range(request.log).unwrap_or(LogRange { start: Offset::ZERO, end: Offset::ZERO });
        if request.from < range.start || request.from > range.end {
            return Err(StorageError::OutOfRange { asked: request.from, start: range.start, end: range.end });
        }
        let Some(log) = self.index.get(request.log).filter(|_| request.from < request.until) else {
            return Ok(Read::Ready(Vec::new()));
        };
        if let Some(run) = log.run_at(request.from) {
            return self.read_run(run, request);
        }
        let extents = log.window.range(log.window_at(request.from)..);
        let mut reader = WindowReader { writer: &self.writer, tail: &self.tail, desk: &mut self.desk };
        match reader.read(extents, request)? {
            Got::Chunks(chunks) => Ok(Read::Ready(chunks)),
            Got::Pending(id, job) => {
                self.jobs.extend(job);
                Ok(Read::Pending(id))
            }
        }
    }

    fn read_run(&mut self, run: Run, request: &ReadRequest) -> Result<Read, StorageError> {
        if run.first >= request.until {
            return Ok(Read::Ready(Vec::new()));
        }
        let segment = match self.segment(run.segment)? {
            Look::Here(segment) => segment,
            Look::Wait(id) => return Ok(Read::Pending(id)),
        };
        let file = self.index.store.file(run.segment);
        let damaged = |at| StorageError::Damaged { file: file.name(), at };
        // A footer built again after damage may have made two runs one: what lies behind this run is not next.
        let request = &ReadRequest { until: request.until.min(run.last.plus(1)), ..*request };
        let of = InRun { segment: &segment, log: request.log, run };
        let mut from = request.from;
        loop {
            let span = match self.span(of, from, request.bytes_max)? {
                Look::Here(span) => span.ok_or_else(|| damaged(0))?,
                Look::Wait(id) => return Ok(Read::Pending(id)),
            };
            let (at, bytes) = (span.at, span.bytes);
            let place = Place { source: Source::Segment(run.segment), at, bytes };
            let bytes = match self.segment_bytes(&segment, place)? {
                Look::Here(bytes) => bytes,
                Look::Wait(id) => return Ok(Read::Pending(id)),
            };
            let cut = Cut { log: request.log, at, bytes: &bytes, from: request.from };
            let Served { chunks, damage, checked } = cut_chunks(&cut, &segment, request);
            checked.iter().for_each(|at| self.trust.note(place.source, *at));
            match (chunks.is_empty(), damage, span.next) {
                (true, Some(at), _) => return Err(damaged(at)),
                // The offset lies in a gap at the end of the block.
                (true, None, Some(next)) if next < request.until => from = next,
                (true, None, None) if let Some(at) = span.broken_at => return Err(damaged(at)),
                _ => return Ok(Read::Ready(chunks)),
            }
        }
    }

    // The open segment of this number, or a job that opens it.
    pub(crate) fn segment(&mut self, number: u64) -> Result<Look<OpenSegment>, StorageError> {
        if let Some(segment) = self.segments.get(number) {
            return Ok(Look::Here(segment.clone()));
        }
        if let Some(error) = self.desk.failed_opening(number) {
            return Err(error);
        }
        Ok(Look::Wait(self.open_by_job(number, false)))
    }

    /// Takes what opening a segment gave.
    pub(crate) fn opened(&mut self, id: ReadId, file: FileId, result: io::Result<Option<OpenSegment>>) {
        self.desk.end(id);
        let (number, name) = (file.number, file.name());
        match result {
            Ok(Some(segment)) => self.segments.insert(number, segment),
            Ok(None) => self.desk.fail_opening(number, StorageError::Damaged { file: name, at: 0 }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.desk.fail_opening(number, StorageError::Damaged { file: name, at: 0 });
            }
            Err(error) => {
                let why = error.to_string().into();
                self.desk.fail_opening(number, StorageError::Disk { what: format!("opening {name}"), why });
            }
        }
    }

    pub(crate) fn segment_bytes(&mut self, segment: &OpenSegment, place: Place) -> Result<Look<Bytes>, StorageError> {
        let found = match self.desk.take(&place) {
            Some(result) => result.map(Some),
            None => read_if_resident(&*segment.handle, place),
        };
        let Source::Segment(number) = place.source else { return Err(StorageError::Unusable(String::new())) };
        match found {
            Ok(Some(bytes)) => Ok(Look::Here(bytes)),
            Ok(None) => {
                if let Some(id) = self.desk.waiting(&place) {
                    return Ok(Look::Wait(id));
                }
                let id = self.desk.begin(vec![place]);
                let handle = Arc::clone(&segment.handle);
                self.jobs.push_back(Job::new(Lane::Read, move || {
                    let pieces = vec![read_place(&*handle, place)];
                    JobDone { what: Outcome::Read { id, pieces } }
                }));
                Ok(Look::Wait(id))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(StorageError::Damaged { file: self.index.store.file(number).name(), at: place.at })
            }
            Err(error) => {
                let what = format!("reading {} at {}", self.index.store.file(number).name(), place.at);
                Err(StorageError::Disk { what, why: error.to_string().into() })
            }
        }
    }

    /// Bytes of memory that reading keeps: the tail cache, and what jobs have read.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.tail.bytes() + self.desk.landed_bytes() + self.held.bytes() + self.near.bytes()
    }

    /// After [`StorageError::Damaged`] at `from`: the next offset that may be readable (or damaged in its turn), so
    /// that a reader can pass over what is lost.
    #[must_use]
    pub fn after_damage(&mut self, log: LogId, from: Offset) -> Offset {
        let Some(found) = self.index.get(log) else { return from };
        let next = match found.run_at(from) {
            None => found.window.get(found.window_at(from)).map(|extent| extent.last().plus(1)),
            Some(run) => match self.segments.get(run.segment).cloned() {
                None => Some(run.last.plus(1)),
                Some(segment) => self.after_damage_in(InRun { segment: &segment, log, run }, from),
            },
        };
        next.unwrap_or(from).max(from.plus(1))
    }

    // Behind the extent of `from`, if its header is whole; else the next block. `None`: what is needed is not at hand,
    // so the next offset meets the damage once more, or what lies behind it.
    fn after_damage_in(&mut self, of: InRun<'_>, from: Offset) -> Option<Offset> {
        let span = match self.span(of, from, 0) {
            Ok(Look::Here(Some(span))) => span,
            Ok(Look::Here(None)) => return Some(of.run.last.plus(1)),
            Ok(Look::Wait(_)) | Err(_) => return None,
        };
        let behind = span.next.unwrap_or(of.run.last.plus(1));
        let place = Place { source: Source::Segment(of.run.segment), at: span.at, bytes: span.bytes };
        match self.segment_bytes(of.segment, place) {
            Ok(Look::Here(bytes)) => {
                let cut = Cut { log: of.log, at: span.at, bytes: &bytes, from };
                Some(cut.last_of_first(&of.segment.generation).map_or(behind, |last| last.plus(1)))
            }
            Ok(Look::Wait(_)) => None,
            Err(_) => Some(behind),
        }
    }

    /// The first extent of `log` that holds a message whose time is not before `time`.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Disk`].
    pub fn find_time(&mut self, log: LogId, time: Wall) -> Result<Lookup, StorageError> {
        let Some(found) = self.index.get(log) else { return Ok(Lookup::Ready(None)) };
        let start = found.start;
        let runs: Vec<Run> = found.runs.iter().filter(|run| run.time_max >= time).copied().collect();
        for run in runs {
            match self.find_time_in(run, log, (start, time))? {
                Look::Here(Some(hit)) => return Ok(Lookup::Ready(Some(hit))),
                Look::Here(None) => {}
                Look::Wait(id) => return Ok(Lookup::Pending(id)),
            }
        }
        let Some(found) = self.index.get(log) else { return Ok(Lookup::Ready(None)) };
        let hit = found.window.iter().find(|extent| !extent.lost && extent.time_max >= time);
        Ok(Lookup::Ready(hit.map(|extent| TimeHit { extent: extent.first, time_max: extent.time_max })))
    }

    fn find_time_in(
        &mut self,
        run: Run,
        log: LogId,
        (start, time): (Offset, Wall),
    ) -> Result<Look<Option<TimeHit>>, StorageError> {
        let segment = match self.segment(run.segment)? {
            Look::Here(segment) => segment,
            Look::Wait(id) => return Ok(Look::Wait(id)),
        };
        let of = InRun { segment: &segment, log, run };
        let mut from = Some(start);
        while let Some(first) = from {
            let span = match self.late_span(of, first, time)? {
                Look::Here(Some(span)) => span,
                Look::Here(None) => break,
                Look::Wait(id) => return Ok(Look::Wait(id)),
            };
            let (at, bytes) = (span.at, span.bytes);
            from = span.next;
            let place = Place { source: Source::Segment(run.segment), at, bytes };
            let bytes = match self.segment_bytes(&segment, place)? {
                Look::Here(bytes) => bytes,
                Look::Wait(id) => return Ok(Look::Wait(id)),
            };
            let mut hit = None;
            let walked = Cut { log, at, bytes: &bytes, from: start }.walk(&segment.generation, |_, extent, _| {
                if extent.time_max >= time {
                    hit = Some(TimeHit { extent: extent.first, time_max: extent.time_max });
                }
                hit.is_none()
            });
            match (hit, walked) {
                (Some(hit), _) => return Ok(Look::Here(Some(hit))),
                (None, Err(at)) => {
                    return Err(StorageError::Damaged { file: self.index.store.file(run.segment).name(), at });
                }
                (None, Ok(())) => {}
            }
        }
        Ok(Look::Here(None))
    }
}

// What blocks gave.
struct Served {
    chunks: Vec<Chunk>,
    /// Where damage was met.
    damage: Option<u64>,
    /// Where the units of large extents begin that were found right.
    checked: Vec<u64>,
}

// The extents a request asks for, by the same rules as in the window.
fn cut_chunks(cut: &Cut<'_>, segment: &OpenSegment, request: &ReadRequest) -> Served {
    let (mut chunks, mut checked): (Vec<Chunk>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut total = 0usize;
    let walked = cut.walk(&segment.generation, |at, extent, units| {
        total = total.saturating_add(units.len());
        let first = chunks.is_empty();
        if units.len() >= SEND_BYTES_MIN {
            checked.push(at + EXTENT_HEADER_BYTES as u64);
        }
        let fits =
            extent.first < request.until && (first || (extent.last() < request.until && total <= request.bytes_max));
        if fits {
            chunks.push(Chunk {
                first: extent.first,
                last: extent.last(),
                count: extent.count,
                time_max: extent.time_max,
                format: extent.format,
                units,
            });
        }
        fits
    });
    Served { chunks, damage: walked.err(), checked }
}
