//! From stored chunks to what a fetch answers: record batches as they lie, cut at batch borders; adjacent units of
//! other tongues gathered into one batch.

use std::ops::ControlFlow;

use broker::{Chunk, Part, Piece, StoredChunk};
use bytes::Bytes;
use model::{Format, FormatError, Formats, Message, Offset};

use crate::format::batch::{BatchHeader, rebase, walk};
use crate::format::{RecordFormat, TAG};
use crate::wire::Pieces;

/// What of the chunks is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    /// Nothing that lies wholly before this.
    pub from: Offset,
    /// Stop before more than this.
    pub bytes_max: usize,
    /// The first batch counts for nothing.
    pub first_whole: bool,
}

/// A foreign message is taken to weigh at least this in a batch.
const MESSAGE_BYTES_MIN: usize = 16;

/// Whether the batches in a file carry the offsets they have in this log. They do, unless they were stored once for
/// several logs and stamped for another: then they must be read into memory.
pub(crate) fn is_in_place(part: &Part) -> bool {
    match part {
        Part::Chunk(_) | Part::Together(_) => true,
        Part::Stored(stored) => is_base(stored.first, stored.head.first_chunk()),
    }
}

/// What is picked from.
enum Laid {
    Chunk(Chunk),
    Stored(StoredChunk),
}

/// Chunks that lie together become one, if they can be served so; else they go one by one.
fn lay_out(parts: Vec<Part>) -> Vec<Laid> {
    let mut laid = Vec::with_capacity(parts.len());
    for part in parts {
        let run = match part {
            Part::Together(run) => run,
            Part::Chunk(chunk) => {
                laid.push(Laid::Chunk(chunk));
                continue;
            }
            Part::Stored(stored) => {
                laid.push(Laid::Stored(stored));
                continue;
            }
        };
        let in_place = |first: Offset, units: &[u8]| is_base(first, units.first_chunk());
        match run.whole().filter(|whole| whole.format == TAG && run.all(in_place)) {
            Some(whole) => laid.push(Laid::Chunk(whole)),
            None => laid.extend(run.chunks().map(Laid::Chunk)),
        }
    }
    laid
}

fn is_base(first: Offset, head: Option<&[u8; 8]>) -> bool {
    head.is_some_and(|base| u64::from_be_bytes(*base) == first.0)
}

/// Picks what is wanted. What lies in files must be in place.
pub(crate) fn select(formats: &Formats, parts: Vec<Part>, wanted: Selection) -> Result<Pieces, FormatError> {
    let mut picked = Picked { pieces: Vec::new(), bytes: 0, wanted };
    let laid = lay_out(parts);
    let mut rest = laid.as_slice();
    while let Some((part, after)) = rest.split_first() {
        rest = after;
        let taken = match part {
            Laid::Stored(stored) => picked.stored(stored),
            Laid::Chunk(chunk) if chunk.format == TAG => picked.own(chunk),
            Laid::Chunk(chunk) => {
                let foreign = after.iter().map_while(foreign_chunk);
                let run: Vec<&Chunk> = std::iter::once(chunk).chain(foreign).collect();
                rest = &after[run.len() - 1..];
                picked.foreign(formats, &run)?
            }
        };
        if taken.is_break() {
            break;
        }
    }
    Ok(Pieces(picked.pieces))
}

struct Picked {
    pieces: Vec<Piece>,
    bytes: usize,
    wanted: Selection,
}

fn foreign_chunk(part: &Laid) -> Option<&Chunk> {
    match part {
        Laid::Chunk(chunk) if chunk.format != TAG => Some(chunk),
        _ => None,
    }
}

impl Picked {
    fn push(&mut self, bytes: Bytes) {
        self.bytes += bytes.len();
        self.pieces.push(Piece::Bytes(bytes));
    }

    fn stored(&mut self, stored: &StoredChunk) -> ControlFlow<()> {
        if !self.fits(stored.range.bytes()) {
            return ControlFlow::Break(());
        }
        self.bytes += stored.range.bytes();
        self.pieces.push(Piece::File(stored.range.clone()));
        ControlFlow::Continue(())
    }

    /// Whether `bytes` more may be taken.
    fn fits(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.wanted.bytes_max || (self.wanted.first_whole && self.bytes == 0)
    }

    fn own(&mut self, chunk: &Chunk) -> ControlFlow<()> {
        let units = in_place(chunk);
        if chunk.first >= self.wanted.from && self.bytes + units.len() <= self.wanted.bytes_max {
            self.push(units);
            return ControlFlow::Continue(());
        }
        // Somewhere in it a border must be found: only the headers are looked at.
        let (mut start, mut end) = (0, 0);
        let mut flow = ControlFlow::Continue(());
        walk(&units, |at, header| {
            if header.last() < self.wanted.from.0 as i64 {
                start = at + header.bytes;
                end = start;
                return true;
            }
            let next = at + header.bytes;
            let first_of_all = at == start && self.wanted.first_whole && self.bytes == 0;
            if !first_of_all && self.bytes + (next - start) > self.wanted.bytes_max {
                flow = ControlFlow::Break(());
                return false;
            }
            end = next;
            true
        });
        if end > start {
            self.push(units.slice(start..end));
        }
        flow
    }

    /// Converts a run of chunks that other tongues wrote.
    fn foreign(&mut self, formats: &Formats, run: &[&Chunk]) -> Result<ControlFlow<()>, FormatError> {
        let room = self.wanted.bytes_max.saturating_sub(self.bytes);
        let from = self.wanted.from;
        let mut messages: Vec<(Offset, Message)> = Vec::new();
        let mut bytes = 0;
        let mut flow = ControlFlow::Continue(());
        for chunk in run {
            let format = formats.get(chunk.format)?;
            format.open(&chunk.units, chunk.first, &mut |offset, message| {
                if offset < from {
                    return ControlFlow::Continue(());
                }
                bytes += weight(&message);
                if bytes > room && !messages.is_empty() {
                    flow = ControlFlow::Break(());
                    return flow;
                }
                messages.push((offset, message));
                ControlFlow::Continue(())
            })?;
            if flow.is_break() {
                break;
            }
        }
        if messages.is_empty() {
            return Ok(flow);
        }
        let mut built = Vec::with_capacity(bytes + bytes / 8 + 128);
        RecordFormat.build(&messages, &mut built)?;
        if !self.fits(built.len()) {
            return Ok(ControlFlow::Break(()));
        }
        self.push(Bytes::from(built));
        Ok(flow)
    }
}

fn weight(message: &Message) -> usize {
    let part = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let headers: usize = message.headers.iter().map(|header| header.name.len() + MESSAGE_BYTES_MIN).sum();
    MESSAGE_BYTES_MIN + part(&message.key) + part(&message.value) + headers
}

/// The chunk's batches with the offsets they have in this log. They carry them already, unless they were stored once
/// for several logs and stamped for another.
fn in_place(chunk: &Chunk) -> Bytes {
    match BatchHeader::read(&chunk.units) {
        Some(header) if header.base != chunk.first.0 as i64 => {
            let mut units = chunk.units.to_vec();
            rebase(&mut units, chunk.first);
            Bytes::from(units)
        }
        _ => chunk.units.clone(),
    }
}
