//! Bringing cold bytes into the page cache, by jobs: what a reader waits for, and what a reader who goes on in order
//! will want next. A job checks the large extents it passes, so that they may then be sent as they lie; it keeps no
//! bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::checksum::crc32c;
use model::{LogId, Offset};

use crate::blocks::InRun;
use crate::engine::Storage;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::reading::Look;
use crate::reads::{Place, Source, read_place};
use crate::segment::EXTENT_HEADER_BYTES;
use crate::segment::open::{Cut, OpenSegment};
use crate::trust::SEND_BYTES_MIN;
use crate::{DiskFile, ReadId, ReadRequest};

/// What is brought in for a reader who waits.
const WAITED_BYTES: usize = 1 << 20;
/// What is brought in ahead of a reader who goes on in order.
const AHEAD_BYTES: usize = 2 << 20;
/// With more files than this, those that are gone are forgotten.
const FILES_KNOWN: usize = 256;
/// So many readers are read ahead for.
const READERS_MAX: usize = 1024;

/// What came of asking for cold bytes.
pub(crate) enum Brought {
    /// A job brings them in.
    Waits(ReadId),
    /// One just has, and they are gone again: memory is short. Or there is nothing to bring.
    Already,
}

/// Where a log's reader is expected.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    /// What was brought in ahead begins here: when the reader comes here, more is brought in.
    from: Offset,
    /// And ends before this.
    to: Offset,
}

/// The readers that are read ahead for, by log.
pub(crate) type Readers = BTreeMap<LogId, Ahead>;

// What a job is to bring in.
struct Stretch {
    first: Place,
    next: Offset,
    work: Box<dyn FnOnce() -> Vec<(Source, u64)> + Send>,
}

impl Storage {
    /// Brings in what `log` holds from the extent at `from` on, for a reader who waits, and more ahead of it.
    pub(crate) fn bring_in(&mut self, log: LogId, from: Offset) -> Brought {
        let Some(stretch) = self.stretch(log, from, WAITED_BYTES) else { return Brought::Already };
        if let Some(id) = self.desk.waiting(&stretch.first) {
            return Brought::Waits(id);
        }
        if self.desk.take_brought(&stretch.first) {
            return Brought::Already;
        }
        let next = stretch.next;
        let id = self.start_bringing(stretch);
        self.bring_ahead(log, next);
        Brought::Waits(id)
    }

    /// A reader was answered up to `last`: brings in more if it goes on in order and has come to what was brought in.
    pub(crate) fn go_on_ahead(&mut self, request: &ReadRequest, last: Offset) {
        let Some(ahead) = self.readers.get(&request.log).copied() else { return };
        if request.from < ahead.to && last >= ahead.from {
            self.bring_ahead(request.log, ahead.to);
        }
    }

    fn bring_ahead(&mut self, log: LogId, from: Offset) {
        self.readers.remove(&log);
        let Some(stretch) = self.stretch(log, from, AHEAD_BYTES) else { return };
        if self.readers.len() >= READERS_MAX || self.desk.waiting(&stretch.first).is_some() {
            return;
        }
        self.readers.insert(log, Ahead { from, to: stretch.next });
        self.start_bringing(stretch);
    }

    fn start_bringing(&mut self, stretch: Stretch) -> ReadId {
        let first = stretch.first;
        let id = self.desk.begin(vec![first]);
        self.jobs.push_back(Job::new(Lane::Read, move || {
            let checked = (stretch.work)();
            JobDone { what: Outcome::BroughtIn { id, first, checked } }
        }));
        id
    }

    /// Takes what a job found right.
    pub(crate) fn brought_in(&mut self, id: ReadId, first: Place, checked: Vec<(Source, u64)>) {
        self.desk.end(id);
        self.desk.note_brought(first);
        self.trust.note_read_back(first.source);
        if self.trust.files() > FILES_KNOWN {
            let (writer, index) = (&self.writer, &self.index);
            self.trust.keep(|source| match source {
                Source::Journal(number) => writer.file(number).is_some(),
                Source::Segment(number) => index.store.holds(number),
            });
        }
        for (source, at) in checked {
            self.trust.note(source, at);
        }
    }

    // What lies from `from` on; `None` at the end, and where a segment is not open.
    fn stretch(&mut self, log: LogId, from: Offset, bytes_max: usize) -> Option<Stretch> {
        let found = self.index.get(log).filter(|found| from < found.end)?;
        let Some(run) = found.run_at(from) else { return self.window_stretch(log, from, bytes_max) };
        let segment = self.segments.get(run.segment)?.clone();
        // Where a page of the index must be waited for, the reader does that when it comes there.
        let Ok(Look::Here(Some(span))) = self.span(InRun { segment: &segment, log, run }, from, bytes_max) else {
            return None;
        };
        let (at, bytes, ahead) = (span.at, span.bytes, span.page_ahead);
        let next = span.next.unwrap_or(run.last.plus(1));
        let first = Place { source: Source::Segment(run.segment), at, bytes: 0 };
        let place = Place { bytes, ..first };
        let work = move || {
            if let Some((at, bytes)) = ahead {
                let _ = segment.handle.read_at(at, &mut vec![0; bytes]); // into the page cache
            }
            check_blocks(&segment, log, place)
        };
        Some(Stretch { first, next, work: Box::new(work) })
    }

    fn window_stretch(&self, log: LogId, from: Offset, bytes_max: usize) -> Option<Stretch> {
        let found = self.index.get(log)?;
        let mut extents: Vec<(Place, u32, Arc<dyn DiskFile>)> = Vec::new();
        let mut total = 0;
        let mut next = from;
        for extent in found.window.range(found.window_at(from)..) {
            let at = u64::from(extent.at);
            total += extent.bytes as usize;
            if extent.lost || !self.writer.is_written(extent.file, at) || (total > bytes_max && !extents.is_empty()) {
                break;
            }
            let file = self.writer.file(extent.file)?;
            let place = Place { source: Source::Journal(extent.file), at, bytes: extent.bytes as usize };
            extents.push((place, extent.crc, Arc::clone(&file.handle)));
            next = extent.last().plus(1);
        }
        let first = Place { bytes: 0, ..extents.first()?.0 };
        Some(Stretch { first, next, work: Box::new(move || check_extents(&extents)) })
    }
}

// Reads blocks of a log and answers where the units of the large extents begin that are right. Damage is named when
// somebody asks for it.
fn check_blocks(segment: &OpenSegment, log: LogId, place: Place) -> Vec<(Source, u64)> {
    let mut right = Vec::new();
    let Ok(bytes) = read_place(&*segment.handle, place).result else { return right };
    let cut = Cut { log, at: place.at, bytes: &bytes, from: Offset::ZERO };
    let _ = cut.walk(&segment.generation, |at, extent, _| {
        if extent.bytes as usize >= SEND_BYTES_MIN {
            right.push((place.source, at + EXTENT_HEADER_BYTES as u64));
        }
        true
    });
    right
}

fn check_extents(extents: &[(Place, u32, Arc<dyn DiskFile>)]) -> Vec<(Source, u64)> {
    let mut right = Vec::new();
    let mut buffer = Vec::new();
    for (place, crc, file) in extents {
        buffer.resize(place.bytes, 0);
        let read = file.read_at(place.at, &mut buffer);
        if read.is_ok_and(|got| got == place.bytes) && place.bytes >= SEND_BYTES_MIN && crc32c(&buffer) == *crc {
            right.push((place.source, place.at));
        }
    }
    right
}
