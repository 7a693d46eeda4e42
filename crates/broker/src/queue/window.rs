//! Reading ahead: the chunks just read under a cursor, so that a read serves many deliveries.
//!
//! It cuts stored units apart, hands a unit of one message in the wanted format on as it is, and opens all others once.
//! It does not read: the track does, and loads what it read.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use bytes::Bytes;
use model::{FormatError, FormatTag, Formats, Message, Offset, UnitAt};
use storage::{Chunk, ReadId};

use super::Body;
use crate::id_map::IdMap;

/// What a window has for an offset.
#[derive(Debug)]
pub(crate) enum Found {
    /// The message.
    Body(FormatTag, Body),
    /// There is no message at the offset; the next one may be at this.
    Gap(u64),
    /// The window does not reach there: read.
    Absent,
}

/// Windows kept for whoever reads next.
const SPARES_MAX: usize = 16;

/// Units for which an unused window keeps room.
const ROOM_KEPT: usize = 1024;

/// Which queues wait for which read. Several may wait for one: logs share what was published to all of them.
#[derive(Default)]
pub(crate) struct Reads(IdMap<ReadId, Vec<u64>>);

impl Reads {
    /// `queue` waits for `read`.
    pub(crate) fn wait(&mut self, read: ReadId, queue: u64) {
        let waiting = self.0.entry(read).or_default();
        if !waiting.contains(&queue) {
            waiting.push(queue);
        }
    }

    /// The queues that waited for `read`.
    pub(super) fn take(&mut self, read: ReadId) -> Vec<u64> {
        self.0.remove(&read).unwrap_or_default()
    }
}

/// What queues share for reading ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    /// Which queues wait for a read.
    pub(crate) reads: Reads,
    /// Windows that nobody looks through, with their memory.
    #[allow(clippy::vec_box)] // they go from hand to hand in their boxes
    spares: Vec<Box<Window>>,
}

impl Ahead {
    /// An empty window.
    pub(super) fn window(&mut self) -> Box<Window> {
        self.spares.pop().unwrap_or_default()
    }

    /// Takes a window back that is not needed any more.
    pub(super) fn give_back(&mut self, mut window: Box<Window>) {
        window.clear();
        if self.spares.len() < SPARES_MAX {
            self.spares.push(window);
        }
    }
}

/// The chunks of one read.
#[derive(Default)]
pub(crate) struct Window {
    /// Nothing lies between this and the first chunk.
    from: u64,
    chunks: VecDeque<Chunk>,
    /// Bytes of their units.
    bytes: usize,
    /// The units of the first chunk; empty until it is looked into.
    units: Vec<UnitAt>,
    /// The unit that was opened last.
    opened: Option<Opened>,
}

/// An opened unit.
struct Opened {
    /// Its first offset.
    first: u64,
    /// Messages before this were taken: to find them again it must be opened again.
    next: u64,
    /// What was not taken yet.
    messages: VecDeque<(Offset, Message)>,
}

impl Window {
    /// Takes over what was read from `from` on.
    pub(crate) fn load(&mut self, from: u64, chunks: Vec<Chunk>) {
        self.clear();
        self.from = chunks.first().map_or(from, |chunk| from.min(chunk.first.0));
        self.bytes = chunks.iter().map(|chunk| chunk.units.len()).sum();
        self.chunks = chunks.into();
    }

    /// Forgets everything; keeps a little room.
    pub(crate) fn clear(&mut self) {
        let mut units = std::mem::take(&mut self.units);
        units.clear();
        units.shrink_to(ROOM_KEPT);
        *self = Window { units, ..Window::default() };
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Looks for the message at `offset`.
    ///
    /// # Errors
    /// [`FormatError`] when the unit under it cannot be cut or opened. [`Window::unit_end`] says where the next begins.
    pub(crate) fn find(&mut self, offset: u64, wanted: FormatTag, formats: &Formats) -> Result<Found, FormatError> {
        if offset < self.from || !self.reach(offset) {
            return Ok(Found::Absent);
        }
        let Some(chunk) = self.chunks.front() else { return Ok(Found::Absent) };
        if offset < chunk.first.0 {
            return Ok(Found::Gap(chunk.first.0));
        }
        let format = formats.get(chunk.format)?;
        if self.units.is_empty() {
            cut(chunk, format, &mut self.units)?;
        }
        let Some((unit, end)) = unit_at(&self.units, chunk, offset) else {
            return Ok(Found::Gap(chunk.last.0.saturating_add(1)));
        };
        let bytes = slice(&chunk.units, &unit)?;
        if unit.count == 1 && chunk.format == wanted {
            let here = unit.first.0 == offset;
            return Ok(if here { Found::Body(wanted, Body::Unit(bytes)) } else { Found::Gap(end) });
        }
        let tag = chunk.format;
        let first = unit.first.0;
        if self.opened.as_ref().is_none_or(|opened| opened.first != first || offset < opened.next) {
            self.opened = None;
            let mut messages = VecDeque::new();
            format.open(&bytes, unit.first, &mut |at, message| {
                messages.push_back((at, message));
                ControlFlow::Continue(())
            })?;
            self.opened = Some(Opened { first, next: first, messages });
        }
        Ok(self.take_opened(offset, end, tag))
    }

    /// The bytes of the unit at `offset`, whatever is in it.
    pub(crate) fn raw(&mut self, offset: u64, format: &dyn model::Format) -> Option<Bytes> {
        if offset < self.from || !self.reach(offset) {
            return None;
        }
        let chunk = self.chunks.front()?;
        if self.units.is_empty() {
            cut(chunk, format, &mut self.units).ok()?;
        }
        let (unit, _) = unit_at(&self.units, chunk, offset)?;
        slice(&chunk.units, &unit).ok().filter(|_| unit.first.0 == offset)
    }

    /// Where the unit that holds `offset` ends, or its chunk if that cannot be cut, or the next offset if neither is
    /// here: what to pass over when it is damaged.
    pub(crate) fn unit_end(&self, offset: u64) -> u64 {
        let next = offset.saturating_add(1);
        match self.chunks.front() {
            Some(chunk) if chunk.first.0 <= offset && offset <= chunk.last.0 => {
                unit_at(&self.units, chunk, offset).map_or(chunk.last.0.saturating_add(1), |(_, end)| end.max(next))
            }
            _ => next,
        }
    }

    /// Drops the chunks before the one that may hold `offset`; false when there is none.
    fn reach(&mut self, offset: u64) -> bool {
        while let Some(chunk) = self.chunks.front() {
            if offset <= chunk.last.0 {
                return true;
            }
            self.from = chunk.last.0.saturating_add(1);
            self.bytes = self.bytes.saturating_sub(chunk.units.len());
            self.chunks.pop_front();
            self.units.clear();
            self.opened = None;
        }
        false
    }

    fn take_opened(&mut self, offset: u64, end: u64, tag: FormatTag) -> Found {
        let Some(opened) = &mut self.opened else { return Found::Gap(end) };
        opened.next = offset + 1;
        while opened.messages.front().is_some_and(|(at, _)| at.0 < offset) {
            opened.messages.pop_front();
        }
        match opened.messages.front() {
            Some((at, _)) if at.0 > offset => Found::Gap(at.0.min(end)),
            Some(_) => match opened.messages.pop_front() {
                Some((_, message)) => Found::Body(tag, Body::Neutral(Box::new(message))),
                None => Found::Gap(end),
            },
            None => Found::Gap(end),
        }
    }
}

/// Puts the units of `chunk` into `units`, or nothing.
fn cut(chunk: &Chunk, format: &dyn model::Format, units: &mut Vec<UnitAt>) -> Result<(), FormatError> {
    let cut = format.split(&chunk.units, chunk.first, &mut |unit| {
        units.push(unit);
        ControlFlow::Continue(())
    });
    if cut.is_err() {
        units.clear();
    }
    cut
}

/// The unit that holds `offset`, with where the next one begins.
fn unit_at(units: &[UnitAt], chunk: &Chunk, offset: u64) -> Option<(UnitAt, u64)> {
    let after = units.partition_point(|unit| unit.first.0 <= offset);
    let unit = *units.get(after.checked_sub(1)?)?;
    let end = units.get(after).map_or(chunk.last.0.saturating_add(1), |next| next.first.0);
    Some((unit, end.max(offset.saturating_add(1))))
}

/// The bytes of one unit among others.
pub(super) fn slice(units: &Bytes, unit: &UnitAt) -> Result<Bytes, FormatError> {
    match unit.at.checked_add(unit.bytes) {
        Some(end) if end <= units.len() => Ok(units.slice(unit.at..end)),
        _ => Err(FormatError::Malformed("a unit ends beyond its chunk")),
    }
}
