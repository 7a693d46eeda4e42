//! A cursor with what is read ahead under it: the way from an offset to a message. It waits for no disk.

use bytes::Bytes;
use model::{FormatTag, Marks, Offset};
use storage::{Read, ReadId, ReadRequest, Storage, StorageError};

use super::Body;
use super::cursor::Cursor;
use super::window::{Ahead, Found, Window};
use crate::core::Core;

/// Bytes read ahead at once.
const READ_BYTES_MAX: usize = 64 << 10;

/// What came of looking for the lowest ready message.
pub(super) enum Head {
    /// It is this; it was not taken.
    Message(Looked),
    /// Nothing is ready.
    Empty,
    /// The disk must be waited for.
    Pending,
    /// The disk has failed to read.
    Failed(StorageError),
}

/// A message that was looked at.
pub(super) struct Looked {
    /// Its place.
    pub(super) offset: u64,
    /// What its bytes are.
    pub(super) format: FormatTag,
    /// Its content.
    pub(super) body: Body,
    /// Its marks, if they were asked for.
    pub(super) marks: Marks,
}

/// One cursor of a queue.
pub(crate) struct Track {
    pub(super) cursor: Cursor,
    window: Option<Box<Window>>,
    /// The read it waits for.
    pub(super) waits: Option<ReadId>,
    /// Trimmed up to here (the queue's own log only).
    pub(super) trimmed: u64,
    /// Messages from here on have just come into an empty queue: they are offered to consumers whatever time they have
    /// to live.
    pub(super) fresh: u64,
}

impl Track {
    pub(super) fn new(cursor: Cursor) -> Track {
        let trimmed = cursor.head();
        Track { cursor, window: None, waits: None, trimmed, fresh: u64::MAX }
    }

    /// The watermark has moved, or will with this turn's write; false when that was known.
    pub(super) fn visible(&mut self, end: u64) -> bool {
        if end <= self.cursor.end() {
            return false;
        }
        if self.cursor.peek().is_none() {
            self.fresh = self.cursor.end();
        }
        self.cursor.visible(end);
        true
    }

    /// Bytes read ahead.
    pub(super) fn window_bytes(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.bytes())
    }

    /// Gives the memory of the reading ahead back.
    pub(super) fn close_window(&mut self) {
        self.window = None;
    }

    /// Looks for the lowest ready message; `with_marks` if somebody wants to see them.
    pub(super) fn head(
        &mut self,
        (wanted, with_marks): (FormatTag, bool),
        (queue, ahead): (u64, &mut Ahead),
        core: &mut Core,
    ) -> Head {
        if self.waits.is_some() {
            return Head::Pending;
        }
        while let Some(offset) = self.cursor.peek() {
            let window = self.window.get_or_insert_with(|| ahead.window());
            match window.find(offset, wanted, &core.formats) {
                Ok(Found::Body(format, body)) => {
                    let marks = if with_marks { marks_of(format, &body, core) } else { Marks::default() };
                    if !marks.persistent && self.cursor.is_ended(offset) {
                        self.cursor.lose(offset);
                        continue;
                    }
                    return Head::Message(Looked { offset, format, body, marks });
                }
                Ok(Found::Gap(to)) => self.cursor.skip(offset, to.max(offset + 1)),
                Ok(Found::Absent) => match self.read(offset, &mut core.storage) {
                    Ok(Fill::Again) => {}
                    Ok(Fill::Nothing) => return Head::Empty,
                    Ok(Fill::Pending(id)) => {
                        ahead.reads.wait(id, queue);
                        self.waits = Some(id);
                        return Head::Pending;
                    }
                    Err(error) => return Head::Failed(error),
                },
                Err(model::FormatError::Unknown(tag)) => {
                    // Nothing is lost: once its tongue is back it can be delivered.
                    tracing::error!(queue, log = %self.cursor.log, offset, tag, "no tongue knows this format");
                    return Head::Empty;
                }
                Err(error) => {
                    let (end, log) = (window.unit_end(offset), self.cursor.log);
                    tracing::error!(queue, %log, offset, end, %error, "unreadable messages are passed over");
                    self.cursor.skip(offset, end);
                }
            }
        }
        // An idle queue holds nothing.
        if let Some(window) = self.window.take() {
            ahead.give_back(window);
        }
        Head::Empty
    }

    /// Reads at `offset`. What is not there any more, or is damaged, is passed over.
    fn read(&mut self, offset: u64, storage: &mut Storage) -> Result<Fill, StorageError> {
        let log = self.cursor.log;
        let until = Offset(self.cursor.end());
        match storage.read(&ReadRequest { log, from: Offset(offset), until, bytes_max: READ_BYTES_MAX }) {
            // A compacted tail: what comes later shows that it is a gap.
            Ok(Read::Ready(chunks)) if chunks.last().is_none_or(|last| last.last.0 < offset) => Ok(Fill::Nothing),
            Ok(Read::Ready(chunks)) => {
                self.window.get_or_insert_default().load(offset, chunks);
                Ok(Fill::Again)
            }
            Ok(Read::Pending(id)) => Ok(Fill::Pending(id)),
            Err(StorageError::OutOfRange { start, .. }) if start.0 > offset => {
                self.cursor.start_moved(start.0);
                Ok(Fill::Again)
            }
            Err(StorageError::Damaged { file, at }) => {
                tracing::error!(%log, offset, file, at, "a damaged message is passed over");
                self.cursor.skip(offset, offset + 1);
                Ok(Fill::Again)
            }
            Err(error) => Err(error),
        }
    }
}

/// The marks of a message. One that cannot be read is kept as if it had none.
pub(crate) fn marks_of(format: FormatTag, body: &Body, core: &Core) -> Marks {
    match body {
        Body::Unit(unit) => unit_marks(format, unit, core),
        Body::Neutral(message) => Marks::of(message),
    }
}

fn unit_marks(format: FormatTag, unit: &Bytes, core: &Core) -> Marks {
    let marks = core.formats.get(format).and_then(|format| format.marks(unit));
    marks.unwrap_or_else(|error| {
        tracing::error!(%error, "the marks of a stored message cannot be read");
        Marks::default()
    })
}

/// What came of a read.
enum Fill {
    /// Look again.
    Again,
    /// There is nothing at or after the offset.
    Nothing,
    /// The disk must be waited for.
    Pending(ReadId),
}
