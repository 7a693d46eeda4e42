//! A cursor with what is read ahead under it: the way from an offset to a message. It waits for no disk.

use std::collections::HashMap;

use model::{FormatTag, Offset};
use storage::{Read, ReadId, ReadRequest, Storage, StorageError};

use super::Body;
use super::cursor::{Cursor, Taken};
use super::window::{Found, Window};
use crate::SessionId;
use crate::core::Core;

/// Bytes read ahead at once.
const READ_BYTES_MAX: usize = 64 << 10;

/// What came of looking for the next message.
pub(super) enum Next {
    /// It was taken.
    Taken(Taken, FormatTag, Body),
    /// Nothing is ready.
    Empty,
    /// The disk must be waited for.
    Pending,
    /// The disk has failed to read.
    Failed(StorageError),
}

/// One cursor of a queue.
pub(crate) struct Track {
    pub(super) cursor: Cursor,
    window: Option<Box<Window>>,
    /// The read it waits for.
    pub(super) waits: Option<ReadId>,
    /// Trimmed up to here (the queue's own log only).
    pub(super) trimmed: u64,
}

impl Track {
    pub(super) fn new(cursor: Cursor) -> Track {
        let trimmed = cursor.head();
        Track { cursor, window: None, waits: None, trimmed }
    }

    /// Whether a message may be had without waiting.
    pub(super) fn is_ready(&self) -> bool {
        self.waits.is_none() && self.cursor.peek().is_some()
    }

    /// Bytes read ahead.
    pub(super) fn window_bytes(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.bytes())
    }

    /// Gives the memory of the reading ahead back.
    pub(super) fn close_window(&mut self) {
        self.window = None;
    }

    /// Takes the lowest ready message for `session`.
    pub(super) fn next(
        &mut self,
        session: SessionId,
        wanted: FormatTag,
        (queue, reads): (u64, &mut HashMap<ReadId, u64>),
        core: &mut Core,
    ) -> Next {
        if self.waits.is_some() {
            return Next::Pending;
        }
        while let Some(offset) = self.cursor.peek() {
            let window = self.window.get_or_insert_default();
            match window.find(offset, wanted, &core.formats) {
                Ok(Found::Body(format, body)) => {
                    let Some(taken) = self.cursor.take(session) else { break };
                    debug_assert_eq!(taken.offset, offset);
                    return Next::Taken(taken, format, body);
                }
                Ok(Found::Gap(to)) => self.cursor.skip(offset, to.max(offset + 1)),
                Ok(Found::Absent) => match self.read(offset, &mut core.storage) {
                    Ok(Fill::Again) => {}
                    Ok(Fill::Nothing) => return Next::Empty,
                    Ok(Fill::Pending(id)) => {
                        reads.insert(id, queue);
                        self.waits = Some(id);
                        return Next::Pending;
                    }
                    Err(error) => return Next::Failed(error),
                },
                Err(model::FormatError::Unknown(tag)) => {
                    // Nothing is lost: once its tongue is back it can be delivered.
                    tracing::error!(queue, log = %self.cursor.log, offset, tag, "no tongue knows this format");
                    return Next::Empty;
                }
                Err(error) => {
                    let (end, log) = (window.unit_end(offset), self.cursor.log);
                    tracing::error!(queue, %log, offset, end, %error, "unreadable messages are passed over");
                    self.cursor.skip(offset, end);
                }
            }
        }
        self.window = None; // an idle queue holds nothing
        Next::Empty
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

/// What came of a read.
enum Fill {
    /// Look again.
    Again,
    /// There is nothing at or after the offset.
    Nothing,
    /// The disk must be waited for.
    Pending(ReadId),
}
