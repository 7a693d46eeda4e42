//! Work that waits for a disk. Storage hands it out, any thread runs it, the driver brings the outcome back.

use std::io;
use std::sync::Arc;

use crate::bring::InMemory;
use crate::compact::{WeedStep, Weeder};
use crate::copying::Purpose;
use crate::journal::files::JournalFile;
use crate::reads::{Piece, Place};
use crate::scrub::Scrubbed;
use crate::segment::FileId;
use crate::segment::copy::{Copier, Step};
use crate::segment::open::OpenSegment;
use crate::{Lsn, ReadId};

/// One piece of work for another thread. It holds everything it needs; running it touches no state of storage.
pub struct Job {
    /// Which pool should run it.
    pub lane: Lane,
    work: Box<dyn FnOnce() -> JobDone + Send>,
}

/// Who runs a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// The sync thread: nothing else may stand before it.
    Sync,
    /// The pool for cold reads.
    Read,
    /// The pool for preparing files, checkpoints and other long work that somebody waits for.
    Work,
    /// The pool for what has time: copying, compacting and scrubbing. It stands back for everything else.
    Idle,
}

/// The outcome of a job; opaque to the driver.
pub struct JobDone {
    pub(crate) what: Outcome,
}

pub(crate) enum Outcome {
    /// A sync of everything written when it was made.
    Synced { upto: Mark, result: io::Result<()> },
    /// A journal file made ready.
    Prepared { number: u32, result: io::Result<Arc<JournalFile>> },
    /// Bytes for a read that waits.
    Read { id: ReadId, pieces: Vec<Piece> },
    /// Cold bytes are in memory now.
    BroughtIn { id: ReadId, first: Place, found: InMemory },
    /// A segment opened for a read that waits; `None` when its header is damaged.
    Opened { id: ReadId, file: FileId, result: io::Result<Option<OpenSegment>> },
    /// A step of settling or merging.
    Copied { purpose: Purpose, copier: Box<Copier>, result: io::Result<Step> },
    /// A step of compaction.
    Weeded { weeder: Box<Weeder>, result: io::Result<WeedStep> },
    /// Nothing but a turn for a slice of work.
    Woken,
    /// A checkpoint written, of so many bytes.
    Checkpointed { result: io::Result<u64> },
    /// Files removed.
    Removed,
    /// A part of a file of the store checked.
    Scrubbed { file: FileId, result: io::Result<Scrubbed> },
}

/// How far the journal had come when a sync was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) lsn: Lsn,
    pub(crate) seq: u64,
    pub(crate) bytes: u64,
}

impl Job {
    pub(crate) fn new(lane: Lane, work: impl FnOnce() -> JobDone + Send + 'static) -> Job {
        Job { lane, work: Box::new(work) }
    }

    /// Does the work. May take as long as the disk does.
    #[must_use]
    pub fn run(self) -> JobDone {
        (self.work)()
    }
}
