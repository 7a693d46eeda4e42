//! Bringing cold bytes into memory, by jobs: what a reader waits for, and what a reader who goes on in order will want
//! next. Long stretches of a segment are read past the page cache and held (see [`crate::held`]) while there is room;
//! the rest is brought into the page cache, and the large extents there checked, so that they may be sent as they lie.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use model::checksum::crc32c;
use model::{LogId, Offset};

use crate::blocks::InRun;
use crate::disk::PAST_CACHE_STEP;
use crate::engine::Storage;
use crate::held::{BLOCK_BYTES, BLOCK_OVERLAP, Filled, Key};
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::reading::Look;
use crate::reads::{Place, Source, read_place};
use crate::segment::EXTENT_HEADER_BYTES;
use crate::segment::open::{Cut, OpenSegment};
use crate::trust::SEND_BYTES_MIN;
use crate::{Chunk, DiskFile, ReadId, ReadRequest};

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

/// Shorter stretches go by way of the page cache.
const HELD_BYTES_MIN: usize = 256 << 10;

/// What is read for a block.
const BLOCK_READ: usize = (BLOCK_BYTES + BLOCK_OVERLAP) as usize;
/// A block is not worth it for a log that has less in it.
const OWN_BYTES_MIN: usize = BLOCK_READ / 16;

/// What a job has brought.
#[derive(Default)]
pub(crate) struct InMemory {
    /// Where the units of large extents begin that are in the page cache and were found right.
    checked: Vec<(Source, u64)>,
    /// What was to be held.
    held: Option<ToHold>,
}

struct ToHold {
    key: Key,
    /// Bytes that were reserved for them.
    reserved: usize,
    filled: Option<Filled>,
}

// What a job is to bring in.
struct Stretch {
    first: Place,
    next: Offset,
    what: What,
}

enum What {
    /// Blocks of a segment; the log, and the last offset that belongs to the run they lie in; the page of the index
    /// that is needed behind them.
    Blocks(OpenSegment, Place, (LogId, Offset), Option<(u64, usize)>),
    /// A block of a journal file, by its number.
    Block(Arc<dyn DiskFile>, u32, u64),
    /// Extents of the window, and what their crc is to be.
    Extents(Vec<(Place, u32, Arc<dyn DiskFile>)>),
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
        if self.readers.len() >= READERS_MAX {
            return;
        }
        self.readers.insert(log, Ahead { from, to: stretch.next });
        let is_here = matches!(stretch.what, What::Block(_, file, number) if self.held.has_block(file, number));
        if !is_here && self.desk.waiting(&stretch.first).is_none() {
            self.start_bringing(stretch);
        }
    }

    fn start_bringing(&mut self, stretch: Stretch) -> ReadId {
        let Stretch { first, what, .. } = stretch;
        let id = self.desk.begin(vec![first]);
        let buffer = match &what {
            What::Blocks(_, place, ..) if place.bytes >= HELD_BYTES_MIN => self.held.reserve(place.bytes),
            What::Block(..) => self.held.reserve(BLOCK_READ),
            _ => None,
        };
        self.jobs.push_back(Job::new(Lane::Read, move || {
            let found = match (what, buffer) {
                (What::Blocks(segment, place, run, ahead), buffer) => {
                    if let Some((at, bytes)) = ahead {
                        let _ = segment.handle.read_at(at, &mut vec![0; bytes]); // into the page cache
                    }
                    match buffer {
                        Some(buffer) => hold_blocks(&segment, place, run, buffer),
                        None => check_blocks(&segment, run.0, place),
                    }
                }
                (What::Block(file, number, block), Some(buffer)) => hold_block(&*file, (number, block), buffer),
                // No room: the next try reads as ever.
                (What::Block(..), None) => InMemory::default(),
                (What::Extents(extents), _) => check_extents(&extents),
            };
            JobDone { what: Outcome::BroughtIn { id, first, found } }
        }));
        id
    }

    /// Takes what a job has brought.
    pub(crate) fn brought_in(&mut self, id: ReadId, first: Place, found: InMemory) {
        self.desk.end(id);
        if let Some(ToHold { key, reserved, filled }) = found.held {
            self.held.land(key, reserved, first, filled);
        }
        self.desk.note_brought(first);
        self.trust.note_read_back(first.source);
        if self.trust.files() > FILES_KNOWN {
            let (writer, index) = (&self.writer, &self.index);
            self.trust.keep(|source| match source {
                Source::Journal(number) => writer.file(number).is_some(),
                Source::Segment(number) => index.store.holds(number),
            });
        }
        for (source, at) in found.checked {
            self.trust.note(source, at);
        }
    }

    /// Whether so many bytes of a run had better be read by a job, to be held, wherever they are: the copy would keep
    /// the data thread from others.
    pub(crate) fn had_better_hold(&self, bytes: u64) -> bool {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        bytes >= HELD_BYTES_MIN && self.held.has_room(bytes.min(WAITED_BYTES))
    }

    // What lies from `from` on; `None` at the end, and where a segment is not open.
    fn stretch(&mut self, log: LogId, from: Offset, bytes_max: usize) -> Option<Stretch> {
        let found = self.index.get(log).filter(|found| from < found.end)?;
        let Some(run) = found.run_at(from) else {
            return self.window_block(log, from).or_else(|| self.window_stretch(log, from, bytes_max));
        };
        let segment = self.segments.get(run.segment)?.clone();
        // Where a page of the index must be waited for, the reader does that when it comes there.
        let Ok(Look::Here(Some(span))) = self.span(InRun { segment: &segment, log, run }, from, bytes_max) else {
            return None;
        };
        let (at, bytes, ahead) = (span.at, span.bytes, span.page_ahead);
        let next = span.next.unwrap_or(run.last.plus(1));
        let first = Place { source: Source::Segment(run.segment), at, bytes: 0 };
        let place = Place { bytes, ..first };
        Some(Stretch { first, next, what: What::Blocks(segment, place, (log, run.last), ahead) })
    }

    // The block of its journal file in which the extent lies, if much of it is the log's.
    fn window_block(&self, log: LogId, from: Offset) -> Option<Stretch> {
        let found = self.index.get(log)?;
        let mut extents = found.window.range(found.window_at(from)..);
        let first = *extents.next()?;
        let number = u64::from(first.at) / BLOCK_BYTES;
        let end = (number + 1) * BLOCK_BYTES;
        let fits = u64::from(first.at) + u64::from(first.bytes) <= end + BLOCK_OVERLAP;
        let is_past = self.writer.is_past(first.file, end + BLOCK_OVERLAP);
        if first.lost || !fits || !is_past || !self.held.has_room(BLOCK_READ) {
            return None;
        }
        let handle = &self.writer.file(first.file)?.handle;
        let (mut own, mut next) = (first.bytes as usize, first.last().plus(1));
        for extent in extents.take_while(|extent| extent.file == first.file && u64::from(extent.at) < end) {
            own += extent.bytes as usize;
            next = extent.last().plus(1);
        }
        let place = Place { source: Source::Journal(first.file), at: end - BLOCK_BYTES, bytes: BLOCK_READ };
        let what = What::Block(Arc::clone(handle), first.file, number);
        (own >= OWN_BYTES_MIN).then_some(Stretch { first: place, next, what })
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
        Some(Stretch { first, next, what: What::Extents(extents) })
    }
}

fn hold_block(file: &dyn DiskFile, (number, block): (u32, u64), buffer: BytesMut) -> InMemory {
    let place = Place { source: Source::Journal(number), at: block * BLOCK_BYTES, bytes: BLOCK_READ };
    let filled = read_aligned(file, place, buffer).ok();
    let filled = filled.map(|Aligned { whole, bytes, .. }| Filled { chunks: Vec::new(), bytes, whole });
    let held = Some(ToHold { key: Key::Block(number, block), reserved: BLOCK_READ, filled });
    InMemory { held, ..InMemory::default() }
}

// Reads blocks of a log and keeps the extents that are right, up to the first that is not: damage is named when
// somebody asks for it. What the page cache has and can be sent from there is not held too.
fn hold_blocks(segment: &OpenSegment, place: Place, (log, last): (LogId, Offset), buffer: BytesMut) -> InMemory {
    let held = |filled| Some(ToHold { key: Key::Log(log, Offset::ZERO), reserved: place.bytes, filled });
    let Ok(Aligned { whole, bytes, is_cached }) = read_aligned(&*segment.handle, place, buffer) else {
        return InMemory { held: held(None), ..InMemory::default() };
    };
    let (mut chunks, mut checked) = (Vec::new(), Vec::new());
    let cut = Cut { log, at: place.at, bytes: &bytes, from: Offset::ZERO };
    let _ = cut.walk(&segment.generation, |at, extent, units| {
        if is_cached && units.len() >= SEND_BYTES_MIN {
            checked.push((place.source, at + EXTENT_HEADER_BYTES as u64));
        }
        let is_of_run = extent.last() <= last;
        if is_of_run {
            chunks.push(Chunk {
                first: extent.first,
                last: extent.last(),
                count: extent.count,
                time_max: extent.time_max,
                format: extent.format,
                units,
            });
        }
        is_of_run
    });
    let filled = (checked.len() < chunks.len()).then_some(Filled { chunks, bytes, whole });
    InMemory { held: held(filled), checked }
}

struct Aligned {
    /// The whole buffer.
    whole: Bytes,
    /// The part of it that was asked for, as far as the file goes.
    bytes: Bytes,
    /// The page cache had it all.
    is_cached: bool,
}

// Past the page cache, unless all is there.
fn read_aligned(handle: &dyn DiskFile, place: Place, mut buffer: BytesMut) -> io::Result<Aligned> {
    let step = PAST_CACHE_STEP as u64;
    let before = usize::try_from(place.at % step).unwrap_or_default();
    let wanted = (before + place.bytes).next_multiple_of(PAST_CACHE_STEP);
    // As much more as it takes to begin at a step in memory too.
    buffer.resize(wanted + PAST_CACHE_STEP, 0);
    let skipped = buffer.as_ptr().align_offset(PAST_CACHE_STEP).min(PAST_CACHE_STEP);
    let target = buffer.get_mut(skipped..skipped + wanted).unwrap_or_default();
    let is_cached = handle.are_cached(place.at, place.bytes);
    let past = if is_cached { None } else { handle.read_past_cache(place.at - before as u64, target)? };
    let got = match past {
        Some(got) => got,
        None => handle.read_at(place.at - before as u64, target)?,
    };
    let whole = buffer.freeze();
    let from = skipped + before;
    let bytes = whole.slice(from..from + place.bytes.min(got.saturating_sub(before)));
    Ok(Aligned { whole, bytes, is_cached })
}

// Reads blocks of a log and answers where the units of the large extents begin that are right. Damage is named when
// somebody asks for it.
fn check_blocks(segment: &OpenSegment, log: LogId, place: Place) -> InMemory {
    let mut right = Vec::new();
    let Ok(bytes) = read_place(&*segment.handle, place).result else { return InMemory::default() };
    let cut = Cut { log, at: place.at, bytes: &bytes, from: Offset::ZERO };
    let _ = cut.walk(&segment.generation, |at, extent, _| {
        if extent.bytes as usize >= SEND_BYTES_MIN {
            right.push((place.source, at + EXTENT_HEADER_BYTES as u64));
        }
        true
    });
    InMemory { checked: right, held: None }
}

fn check_extents(extents: &[(Place, u32, Arc<dyn DiskFile>)]) -> InMemory {
    let mut right = Vec::new();
    let mut buffer = Vec::new();
    for (place, crc, file) in extents {
        buffer.resize(place.bytes, 0);
        let read = file.read_at(place.at, &mut buffer);
        if read.is_ok_and(|got| got == place.bytes) && place.bytes >= SEND_BYTES_MIN && crc32c(&buffer) == *crc {
            right.push((place.source, place.at));
        }
    }
    InMemory { checked: right, held: None }
}
