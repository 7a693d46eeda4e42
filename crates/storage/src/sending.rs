//! Reading to send on: large extents stay in their files, as ranges that go to a socket uncopied; the rest is read into
//! memory as ever. Nothing here waits for the disk.
//!
//! An extent stays in its file if it is wanted whole, of the format asked for, and trusted: written by this process, or
//! found right since its file was opened. Whether its pages are in memory is not decided here but when it is sent: only
//! its first bytes are looked at, so that what is cold is read ahead by a job (and checked by it) before it is sent.

use std::sync::Arc;

use bytes::Bytes;
use model::checksum::crc32c;
use model::{FormatTag, LogId, Offset};

use crate::blocks::InRun;
use crate::bring::Brought;
use crate::engine::Storage;
use crate::held::{BLOCK_BYTES, Held};
use crate::index::{self, Extent};
use crate::journal::writer::Writer;
use crate::near::{Near, SMALL_BYTES_MAX};
use crate::reading::Look;
use crate::reads::{ReadDesk, Source, WindowReader, chunk, wanted};
use crate::segment::open::OpenSegment;
use crate::segment::{EXTENT_HEADER_BYTES, ExtentHeader};
use crate::trust::SEND_BYTES_MIN;
use crate::{
    Chunk, DiskFile, FileRange, Part, Parts, Read, ReadId, ReadRequest, StorageError, StoredChunk, Together,
    read::HEAD_BYTES,
};

/// Extents before the wanted one that are passed over one by one; beyond, a whole block is read.
const PASSED_OVER_MAX: usize = 4;

/// Small extents are put into one buffer up to this size.
const RUN_BYTES_MAX: usize = 64 << 10;

/// What there is to send.
enum Found {
    Parts(Vec<Part>),
    Wait(ReadId),
    /// Nothing that could stay in its file: read as ever.
    Nothing,
}

impl Storage {
    /// As [`Storage::read`], for who sends the units on as they are: large extents of `format` stay in their files.
    ///
    /// # Errors
    /// Those of [`Storage::read`].
    pub fn read_to_send(&mut self, request: &ReadRequest, format: FormatTag) -> Result<Parts, StorageError> {
        let parts = match self.find_parts(request, format)? {
            Found::Parts(parts) => parts,
            Found::Wait(id) => return Ok(Parts::Pending(id)),
            Found::Nothing => match self.read(request)? {
                Read::Ready(chunks) => chunks.into_iter().map(Part::Chunk).collect(),
                Read::Pending(id) => return Ok(Parts::Pending(id)),
            },
        };
        if let Some(last) = parts.last().map(Part::last) {
            self.go_on_ahead(request, last);
        }
        Ok(Parts::Ready(parts))
    }

    fn find_parts(&mut self, request: &ReadRequest, format: FormatTag) -> Result<Found, StorageError> {
        let held = |log: &&crate::index::Log| log.start <= request.from && request.from < log.end.min(request.until);
        let Some(log) = self.index.get(request.log).filter(held) else { return Ok(Found::Nothing) };
        let parts = held_parts(&mut self.held, &mut self.desk, request);
        if !parts.is_empty() {
            return Ok(Found::Parts(parts));
        }
        match log.run_at(request.from) {
            Some(run) => self.parts_of_run(run, request, format),
            None => self.parts_of_window(request, format),
        }
    }

    fn parts_of_window(&mut self, request: &ReadRequest, format: FormatTag) -> Result<Found, StorageError> {
        let Some(log) = self.index.get(request.log) else { return Ok(Found::Nothing) };
        let extents = log.window.range(log.window_at(request.from)..);
        let mut parts = Vec::new();
        let mut cold = None;
        let mut run = Run::default();
        let mut left = wanted(extents.clone(), request).map(|extent| extent.bytes as usize).sum();
        for extent in wanted(extents, request) {
            left -= extent.bytes as usize;
            let at = u64::from(extent.at);
            let is_small = (extent.bytes as usize) < SMALL_BYTES_MAX && !extent.lost;
            if is_small && self.tail.is_behind(extent.file, at) && !self.held.has_block(extent.file, at / BLOCK_BYTES) {
                run.make_room(extent, left, &mut parts);
                if run.gather(extent, &mut self.near, &self.writer) {
                    continue;
                }
            }
            run.end(&mut parts);
            let source = Source::Journal(extent.file);
            let whole = extent.first >= request.from && extent.last() < request.until;
            let file = self.writer.file(extent.file).filter(|file| file.handle.descriptor().is_some());
            let stays = whole
                && file.is_some()
                && is_large(extent, format)
                && extent.bytes as usize <= request.bytes_max
                && self.trust.has(source, at)
                && self.writer.is_written(extent.file, at);
            let held = held_extent(&mut self.held, &mut self.desk, extent);
            let part = if held.is_some() {
                held.map(|units| Part::Chunk(chunk(extent, units)))
            } else if let Some(file) = file.filter(|_| stays) {
                stored(&file.handle, at, extent)
            } else {
                let mut reader = WindowReader { writer: &self.writer, tail: &self.tail, desk: &mut self.desk };
                match reader.fetch(extent) {
                    Ok(units) => units.map(|units| Part::Chunk(chunk(extent, units))),
                    Err(error) if parts.is_empty() => return Err(error),
                    Err(_) => break,
                }
            };
            let Some(part) = part else {
                cold = Some(extent.first);
                break;
            };
            if extent.bytes as usize >= SEND_BYTES_MIN
                && matches!(part, Part::Chunk(_))
                && self.tail.get(extent.file, at, extent.bytes as usize).is_none()
                && self.writer.is_written(extent.file, at)
            {
                self.trust.note(source, at);
            }
            parts.push(part);
        }
        run.end(&mut parts);
        match cold {
            Some(from) if parts.is_empty() => Ok(self.wait_for(request.log, from)),
            _ if parts.is_empty() => Ok(Found::Nothing),
            _ => Ok(Found::Parts(parts)),
        }
    }

    fn parts_of_run(
        &mut self,
        run: index::Run,
        request: &ReadRequest,
        format: FormatTag,
    ) -> Result<Found, StorageError> {
        let segment = match self.segment(run.segment)? {
            Look::Here(segment) => segment,
            Look::Wait(id) => return Ok(Found::Wait(id)),
        };
        // A footer built again after damage may have made two runs one: what lies behind this run is not next.
        let request = &ReadRequest { until: request.until.min(run.last.plus(1)), ..*request };
        let of = InRun { segment: &segment, log: request.log, run };
        let span = match self.span(of, request.from, 0)? {
            Look::Here(Some(span)) => span,
            Look::Here(None) => return Ok(Found::Nothing),
            Look::Wait(id) => return Ok(Found::Wait(id)),
        };
        let end = span.broken_at.unwrap_or(run.at + run.bytes);
        let mut at = span.at;
        let (mut parts, mut total, mut passed_over) = (Vec::new(), 0, 0);
        let (mut cold, mut unfit) = (false, false);
        let sends = segment.handle.descriptor().is_some();
        while sends && at < end && passed_over <= PASSED_OVER_MAX {
            let Some((extent, head)) = look(&segment, request.log, at) else {
                cold = segment.handle.read_now(at, &mut [0]).is_ok_and(|read| read.is_none());
                break;
            };
            let units_at = at + EXTENT_HEADER_BYTES as u64;
            at += extent.whole_bytes();
            if extent.last() < request.from {
                passed_over += 1;
                continue;
            }
            total += extent.bytes as usize;
            let whole = extent.first >= request.from && extent.last() < request.until && total <= request.bytes_max;
            let large = extent.bytes as usize >= SEND_BYTES_MIN && extent.format == format && !extent.lost;
            if !(whole && large && self.trust.has(Source::Segment(run.segment), units_at)) {
                unfit = true;
                break;
            }
            let Some(range) = FileRange::of(&segment.handle, units_at, extent.bytes as usize) else { break };
            let (first, last, count) = (extent.first, extent.last(), extent.count);
            parts.push(Part::Stored(StoredChunk { first, last, count, head, range }));
        }
        match parts.is_empty() {
            true if cold || unfit && self.had_better_hold(end.saturating_sub(span.at)) => {
                Ok(self.wait_for(request.log, request.from))
            }
            true => Ok(Found::Nothing),
            false => Ok(Found::Parts(parts)),
        }
    }

    /// The disk did not give this range when it was sent: nothing of its file is sent any more before it was read.
    pub fn distrust(&mut self, range: &FileRange) {
        let journal = self.writer.files().iter().find(|file| range.is_of(&file.handle));
        let source = match journal {
            Some(file) => Some(Source::Journal(file.number)),
            None => self.segments.number_of(|handle| range.is_of(handle)).map(Source::Segment),
        };
        if let Some(source) = source {
            self.trust.withdraw(source);
        }
    }

    // A job brings in what is cold, unless one just has and it is gone again: then it is read into memory.
    fn wait_for(&mut self, log: LogId, from: Offset) -> Found {
        match self.bring_in(log, from) {
            Brought::Waits(id) => Found::Wait(id),
            Brought::Already => Found::Nothing,
        }
    }
}

// An extent of the window that lies in a block that a job has read, if it is right. Else the file is asked, and damage
// named by who reads it there.
fn held_extent(held: &mut Held, desk: &mut ReadDesk, extent: &Extent) -> Option<Bytes> {
    let (units, place) = held.of_journal(extent.file, u64::from(extent.at), extent.bytes as usize)?;
    if extent.lost || crc32c(&units) != extent.crc {
        return None; // and the place stays brought: it is not brought in again, but read where damage is named
    }
    desk.take_brought(&place);
    Some(units)
}

// What jobs have read ahead, by the rules of [`wanted`].
fn held_parts(held: &mut Held, desk: &mut ReadDesk, request: &ReadRequest) -> Vec<Part> {
    let (mut parts, mut total, mut from) = (Vec::new(), 0, request.from);
    let mut taken = None;
    loop {
        let is_first = parts.is_empty();
        let fits = |chunk: &Chunk| {
            let whole = chunk.last < request.until && total + chunk.units.len() <= request.bytes_max;
            chunk.first < request.until && (whole || is_first)
        };
        let Some((chunk, place)) = held.get(request.log, from, fits) else { break };
        total += chunk.units.len();
        if taken != Some(place) {
            desk.take_brought(&place); // it was not brought in vain: if it is gone again, it is brought in again
            taken = Some(place);
        }
        from = chunk.last.plus(1);
        parts.push(Part::Chunk(chunk));
    }
    parts
}

impl Part {
    /// Offset of the last message.
    #[must_use]
    pub fn last(&self) -> Offset {
        match self {
            Part::Chunk(chunk) => chunk.last,
            Part::Together(run) => run.extents.last().map_or(Offset::ZERO, |(extent, _)| extent.last()),
            Part::Stored(stored) => stored.last,
        }
    }
}

/// Small extents of the window that go into one buffer.
#[derive(Default)]
struct Run {
    buffer: Vec<u8>,
    extents: Vec<(Extent, usize)>,
}

impl Run {
    // Ends the run before, if it has no room or is of another format; `left` is what may come behind.
    fn make_room(&mut self, extent: &Extent, left: usize, parts: &mut Vec<Part>) {
        let bytes = extent.bytes as usize;
        let is_other = self.extents.last().is_some_and(|(last, _)| last.format != extent.format);
        if is_other || self.buffer.len() + bytes > RUN_BYTES_MAX {
            self.end(parts);
        }
        if self.buffer.is_empty() {
            self.buffer.reserve_exact((bytes + left).min(RUN_BYTES_MAX));
        }
    }

    // Whether the extent lies in its file, in memory, and is right. Else it is read as ever, and damage named there.
    fn gather(&mut self, extent: &Extent, near: &mut Near, writer: &Writer) -> bool {
        let past = writer.past(extent.file);
        let is_there = u64::from(extent.at) + u64::from(extent.bytes) <= past;
        let Some(file) = writer.file(extent.file).filter(|_| is_there) else { return false };
        let begin = self.buffer.len();
        if !near.copy(&*file.handle, past, extent, &mut self.buffer) {
            return false;
        }
        let is_right = self.buffer.get(begin..).is_some_and(|units| crc32c(units) == extent.crc);
        if !is_right {
            self.buffer.truncate(begin);
            return false;
        }
        self.extents.push((*extent, begin));
        true
    }

    fn end(&mut self, parts: &mut Vec<Part>) {
        let Some((first, _)) = self.extents.first() else { return };
        let (format, extents) = (first.format, std::mem::take(&mut self.extents));
        let units = Bytes::from(std::mem::take(&mut self.buffer));
        parts.push(Part::Together(Together { format, units, extents }));
    }
}

fn is_large(extent: &Extent, format: FormatTag) -> bool {
    extent.bytes as usize >= SEND_BYTES_MIN && extent.format == format && !extent.lost
}

// The extent as a range of its file; `None` when its first bytes are not in memory.
fn stored(file: &Arc<dyn DiskFile>, at: u64, extent: &Extent) -> Option<Part> {
    let mut head = [0; HEAD_BYTES];
    let range = FileRange::of(file, at, extent.bytes as usize)?;
    // An error of the disk, too, is met again by who reads into memory, and told there.
    file.read_now(at, &mut head).ok()?.filter(|got| *got == HEAD_BYTES)?;
    let (first, last, count) = (extent.first, extent.last(), extent.count);
    Some(Part::Stored(StoredChunk { first, last, count, head, range }))
}

// The header of the extent at `at` and its first bytes; `None` when they are not in memory, or damaged.
fn look(segment: &OpenSegment, log: LogId, at: u64) -> Option<(ExtentHeader, [u8; HEAD_BYTES])> {
    let mut bytes = [0; EXTENT_HEADER_BYTES + HEAD_BYTES];
    let read = segment.handle.read_now(at, &mut bytes).ok()??;
    let (header, head) = bytes.get(..read)?.split_at_checked(EXTENT_HEADER_BYTES)?;
    let header = ExtentHeader::decode(&segment.generation, header).filter(|header| header.log == log)?;
    let mut whole = [0; HEAD_BYTES];
    whole.get_mut(..head.len())?.copy_from_slice(head);
    Some((header, whole))
}
