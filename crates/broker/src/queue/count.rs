//! Counting what lay in a queue before its bytes were limited: by a policy, mostly. A part each turn, one queue after
//! the other; others go on meanwhile.
//!
//! What is counted so far is never more than what is there, so a queue may act by it at once.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use model::{Formats, LogId, Marks, Offset};
use storage::{Chunk, Read, ReadId, ReadRequest, StorageError};

use super::cursor::Cursor;
use super::queue::Queue;
use super::queues::{Queues, mark};
use super::sums::Weight;
use super::window::slice;
use crate::core::Core;

/// Bytes of units that are counted in one turn.
const COUNTED_A_TURN: usize = 256 << 10;

/// The queues that are counted.
#[derive(Default)]
pub(super) struct Counting {
    ids: BTreeSet<u64>,
    /// The read that the first of them waits for.
    waits: Option<ReadId>,
}

impl Counting {
    pub(super) fn add(&mut self, id: u64) {
        self.ids.insert(id);
    }

    /// Whether there is something to do now.
    pub(super) fn is_busy(&self) -> bool {
        self.waits.is_none() && !self.ids.is_empty()
    }

    pub(super) fn read_ready(&mut self, read: ReadId) {
        self.waits.take_if(|waits| *waits == read);
    }
}

/// How far counting came.
enum Step {
    /// There is more.
    More,
    /// The disk must be waited for.
    Waits(ReadId),
    /// All is counted that can be.
    Done,
}

impl Queue {
    /// Has the bytes of what lies in it counted, if they are limited and were not counted as it came; whether that is
    /// to begin now.
    pub(super) fn begins_count(&mut self, core: &Core) -> bool {
        let is_stored = self.is_stored();
        let shares = self.info.topic().is_some();
        let Some(rules) = self.rules.as_deref_mut().filter(|rules| rules.options.bytes_max.is_some() && !shares) else {
            return false;
        };
        for track in self.tracks.iter_mut().filter(|track| track.cursor.sums().is_none()) {
            let next = core.partitions.next_offset(track.cursor.log).map_or(track.cursor.end(), |next| next.0);
            if track.cursor.head() < next {
                track.cursor.keep_sums(next);
                rules.mixed |= is_stored; // so that after a restart, too, its messages are looked at
            }
        }
        // Once all of it can be read: the queue is looked at again when more of it can.
        self.tracks.iter().any(|track| track.cursor.uncounted().is_some_and(|(_, to)| to <= track.cursor.end()))
    }

    fn count_on(&mut self, core: &mut Core) -> Result<Step, StorageError> {
        let kind = self.kind();
        for track in &mut self.tracks {
            let cursor = &mut track.cursor;
            let Some((from, to)) = cursor.uncounted().filter(|(_, to)| *to <= cursor.end()) else { continue };
            let (log, until) = (cursor.log, Offset(to));
            let read = ReadRequest { log, from: Offset(from), until, bytes_max: COUNTED_A_TURN };
            match core.storage.read(&read) {
                Ok(Read::Ready(chunks)) => {
                    for chunk in &chunks {
                        visit(&core.formats, log, chunk, &mut |offset, marks| {
                            if offset < to {
                                cursor.count(offset, Weight::of(marks, kind));
                            }
                        });
                    }
                    let last = chunks.last().map(|chunk| chunk.last.0).filter(|last| *last >= from);
                    cursor.counted(last.map_or(to, |last| to.min(last.saturating_add(1))));
                }
                Ok(Read::Pending(read)) => return Ok(Step::Waits(read)),
                Err(StorageError::OutOfRange { start, .. }) if start.0 > from => cursor.counted(start.0.min(to)),
                Err(StorageError::Damaged { .. }) => cursor.counted(from + 1), // said when it is passed over
                Err(error) => return Err(error),
            }
            return Ok(Step::More);
        }
        Ok(Step::Done)
    }
}

impl Queues {
    /// Counts on.
    pub(super) fn count_on(&mut self, core: &mut Core) {
        let Some(id) = self.counting.ids.first().copied().filter(|_| self.counting.waits.is_none()) else { return };
        let step = self.by_id.get_mut(&id).map(|queue| (queue.count_on(core), queue));
        match step {
            Some((Ok(Step::Waits(read)), _)) => self.counting.waits = Some(read),
            Some((Ok(Step::More), queue)) => mark(queue, &mut self.marked), // it may hold too much by now
            Some((Ok(Step::Done), _)) | None => drop(self.counting.ids.remove(&id)),
            Some((Err(error), queue)) => {
                tracing::error!(queue = %queue.info.name, %error, "the bytes of a queue cannot be counted");
                self.counting.ids.remove(&id);
            }
        }
    }
}

/// Counts the messages that came after the last record of a log that keeps sums.
pub(super) fn count_rest(core: &mut Core, cursor: &mut Cursor, end: u64, kind: super::QueueKind) {
    let Some(from) = cursor.sums().map(|sums| sums.counted) else { return };
    let (log, formats) = (cursor.log, std::sync::Arc::clone(&core.formats));
    let counted = core.read_log(log, Offset(from), Offset(end), &mut |chunk| {
        visit(&formats, log, chunk, &mut |offset, marks| cursor.appended(offset, Weight::of(marks, kind)));
    });
    if let Err(error) = counted {
        tracing::error!(%log, %error, "a log cannot be counted to its end");
    }
}

/// Shows the marks of each message of a chunk.
fn visit(formats: &Formats, log: LogId, chunk: &Chunk, show: &mut dyn FnMut(u64, &Marks)) {
    let Ok(format) = formats.get(chunk.format) else { return };
    let each = &mut |unit: model::UnitAt| {
        if let Ok(marks) = slice(&chunk.units, &unit).and_then(|bytes| format.marks(&bytes)) {
            show(unit.first.0, &marks);
        }
        ControlFlow::Continue(())
    };
    if let Err(error) = format.split(&chunk.units, chunk.first, each) {
        tracing::error!(%log, %error, "messages cannot be counted");
    }
}
