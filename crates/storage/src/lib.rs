//! Storage: one shared journal for writing, contiguous files for reading, one table of state records.
//!
//! It knows one thing: an atomic [`Batch`] of {append units to logs, trim a log, state records}. Everything above is
//! built from it. It knows nothing of topics, queues, consumers or any tongue; it owns no clock, opens no socket and
//! spawns no thread: whatever waits for a disk leaves as a [`Job`] which the driver runs and brings back.
//!
//! The life of a batch: [`Storage::commit`] copies it once into the write buffer (which is also the tail cache) and
//! answers its [`Lsn`]; [`Storage::flush`], at the end of the driver's turn, makes one write; a batch with
//! [`SyncPolicy::Sync`] also makes a sync job; [`Storage::progress`] says how far both have come.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod batch;
mod blocks;
mod bring;
mod checkpoint;
mod checkpointing;
mod compact;
mod copying;
mod damage;
pub mod disk;
mod disk_pages;
mod engine;
#[doc(hidden)]
pub mod fuzz;
mod held;
mod index;
pub mod inspect;
mod inventory;
pub mod job;
mod journal;
mod merging;
mod near;
mod patience;
pub mod range;
pub mod read;
mod reading;
mod reads;
pub mod real_disk;
mod removing;
mod replay;
mod rolls;
mod scrub;
mod segment;
mod sending;
mod settle;
pub mod sim_disk;
mod space;
mod state;
mod stats;
mod tail;
mod trust;

pub use batch::{Append, Batch, Owner, StateChange, SyncPolicy, Target};
pub use compact::{Cleaned, CompactRequest, Compacted};
pub use disk::{Disk, DiskFile};
pub use engine::Storage;
pub use job::{Job, JobDone};
pub use range::FileRange;
pub use read::{Chunk, Part, Parts, Read, ReadId, ReadRequest, StoredChunk, Together};
pub use real_disk::RealDisk;
pub use rolls::LogSegment;
pub use sim_disk::SimDisk;
pub use stats::Stats;

use std::sync::Arc;

use model::{LogId, Offset, Wall};

/// The place of a commit in the journal's order. All commits of one turn (between two flushes) share one number; later
/// turns have greater ones. 0 stands before all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lsn(pub u64);

/// How far the journal has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Everything up to here was handed to the operating system: it survives the death of this process.
    pub written: Lsn,
    /// Everything up to here was synced: it survives a power cut. Invariant: synced ≤ written.
    pub synced: Lsn,
}

/// Sizes and bounds of one storage.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of one journal file. 1 MiB to 1 GiB.
    pub journal_file_bytes: u64,
    /// Journal files in the window before the oldest is settled. At least 2.
    pub journal_files_max: usize,
    /// Extents of the window kept in memory before the oldest file is settled early.
    pub extents_max: usize,
    /// Bytes just written that are kept in memory for readers at the tail.
    pub tail_cache_bytes: usize,
    /// Bytes of memory for what is read ahead of readers of long backlogs.
    pub read_ahead_bytes: usize,
    /// Bytes written but not synced before a sync is started though nobody asked.
    pub dirty_bytes_max: u64,
    /// Bytes that must stay free on the volume: beyond, appends are refused with [`StorageError::Full`].
    pub reserve_bytes: u64,
    /// Bytes of packs and segments checked in a second of scrubbing; 0 for no scrubbing. See [`Storage::scrub`].
    pub scrub_bytes: u64,
    /// From the end of one scrubbing to the beginning of the next.
    pub scrub_every: std::time::Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            journal_file_bytes: 128 << 20,
            journal_files_max: 8,
            extents_max: 1_000_000,
            tail_cache_bytes: 8 << 20,
            read_ahead_bytes: 48 << 20,
            dirty_bytes_max: 64 << 20,
            reserve_bytes: 1 << 30,
            scrub_bytes: 2 << 20,
            scrub_every: std::time::Duration::from_secs(7 * 86_400),
        }
    }
}

/// Why storage could not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StorageError {
    /// A write or sync has failed before: this journal takes no more (a failed sync is never retried).
    #[error("the journal is closed after a failed write or sync: {0}")]
    Closed(Arc<str>),
    /// The volume is full up to the reserve. Heals alone when space returns.
    #[error("the disk is full: {free} bytes free, {reserve} kept in reserve")]
    Full {
        /// Bytes free now.
        free: u64,
        /// Bytes kept in reserve.
        reserve: u64,
    },
    /// The bytes at this place are damaged; they are never served.
    #[error("damaged bytes in {file} at {at}")]
    Damaged {
        /// The file's name within the data folder.
        file: String,
        /// Byte position in it.
        at: u64,
    },
    /// The offset lies outside what the log holds.
    #[error("offset {asked} is outside {start}..{end}")]
    OutOfRange {
        /// The offset asked for.
        asked: Offset,
        /// The first offset held.
        start: Offset,
        /// The offset after the last one.
        end: Offset,
    },
    /// Settling is so far behind that the window must not grow further. Heals alone.
    #[error("the disk is too slow: {files} journal files wait to be settled, at most {files_max} may")]
    Behind {
        /// Journal files in the window.
        files: usize,
        /// The limit.
        files_max: usize,
    },
    /// One batch larger than a journal file can hold.
    #[error("a batch of {bytes} bytes exceeds the limit of {bytes_max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The disk answered with an error while reading, listing or opening.
    #[error("{what}: {why}")]
    Disk {
        /// What was tried, with the file's name.
        what: String,
        /// The operating system's word.
        why: Arc<str>,
    },
    /// The data folder is in use by another process or written by a newer version.
    #[error("{0}")]
    Unusable(String),
}

impl StorageError {
    /// Whether nothing was taken and it heals alone: whoever may wait should, and try again.
    #[must_use]
    pub fn heals_alone(&self) -> bool {
        matches!(self, StorageError::Full { .. } | StorageError::Behind { .. })
    }
}

/// What storage holds of one log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRange {
    /// The first offset held: everything before was trimmed.
    pub start: Offset,
    /// The offset the next message gets.
    pub end: Offset,
}

/// What opening found.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Every log that has been appended to or trimmed, with its range.
    pub logs: Vec<(LogId, LogRange)>,
    /// For each owner its records in the order written: the last snapshot, then every delta after it.
    pub state: Vec<(Owner, Vec<bytes::Bytes>)>,
    /// Damaged places: these ranges are off line, everything else is served.
    pub damage: Vec<Damage>,
    /// Bytes cut off as the torn end of the last write.
    pub torn_bytes: u64,
}

/// A damaged place found by opening or reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file's name within the data folder.
    pub file: String,
    /// Byte position in it.
    pub at: u64,
    /// How many bytes cannot be trusted.
    pub bytes: u64,
    /// The logs that have messages in that range, as far as known.
    pub logs: Vec<LogId>,
}

/// A place found by time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeHit {
    /// First offset of the extent whose latest message is not before the asked time.
    pub extent: Offset,
    /// The latest time in that extent.
    pub time_max: Wall,
}

/// The answer to a look-up by time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// Found, or certainly nothing.
    Ready(Option<TimeHit>),
    /// The disk must be waited for, as in [`Read::Pending`].
    Pending(ReadId),
}

/// What the outcome of a job meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completed {
    /// [`Storage::progress`] may have moved.
    Progress,
    /// The read of this id can be asked again.
    Read(ReadId),
    /// Nothing to do for anybody else.
    Nothing,
}
