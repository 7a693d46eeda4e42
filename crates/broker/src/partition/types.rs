//! What is said to and heard of a partition.

use std::time::Duration;

use model::{Format, FormatTag, LogId, Offset, Wall};
use storage::{Chunk, Lsn, SyncPolicy};

/// What is done to logs without anybody asking.
#[derive(Clone, Debug)]
pub struct UpkeepOptions {
    /// How often it is looked for what retention lets go of.
    pub retention_check: Duration,
    /// How often it is looked for what to compact.
    pub compaction_check: Duration,
}

impl Default for UpkeepOptions {
    fn default() -> UpkeepOptions {
        UpkeepOptions { retention_check: Duration::from_secs(300), compaction_check: Duration::from_secs(15) }
    }
}

/// Units to append to one partition's log.
#[derive(Clone, Copy)]
pub struct AppendRequest<'a> {
    /// The partition's log.
    pub log: LogId,
    /// What the units are.
    pub format: &'a dyn Format,
    /// One or more whole units, back to back.
    pub units: &'a [u8],
    /// How many messages they hold: offsets are given to so many.
    pub count: u32,
    /// The latest time any of them carries.
    pub time_max: Wall,
    /// Who wrote it and where it stands among that producer's batches, to tell retries from new ones.
    pub producer: Option<ProducerBatch>,
    /// When the answer may go out.
    pub policy: SyncPolicy,
}

/// An idempotent producer's mark on a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerBatch {
    /// The id it was given.
    pub id: i64,
    /// Its epoch: a newer one fences the older.
    pub epoch: i16,
    /// Sequence of the first message; wraps from 2³¹−1 to 0.
    pub first_sequence: i32,
    /// Sequence of the last message.
    pub last_sequence: i32,
}

/// Where appended units lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Offset of the first message (for a repeated batch: where it was put the first time).
    pub base: Offset,
    /// The first offset of the log.
    pub log_start: Offset,
    /// Hold the answer back until progress has reached this, by the request's policy.
    pub lsn: Lsn,
}

/// What to fetch from one log, to be sent on as it is.
#[derive(Clone, Copy, Debug)]
pub struct ToSend {
    /// The log.
    pub log: LogId,
    /// The first offset wanted.
    pub from: Offset,
    /// Stop before exceeding this; the first chunk is served whole however large it is.
    pub bytes_max: usize,
    /// Units of this format may stay in their files.
    pub format: FormatTag,
}

/// What a fetch found in one log.
#[derive(Clone, Debug)]
pub struct Fetched<T = Chunk> {
    /// What there is, oldest first; the first chunk holds the asked offset unless it fell into a gap.
    pub chunks: Vec<T>,
    /// True when the disk must be waited for: the session is told [`crate::Event::Readable`] when it need not be.
    pub pending: bool,
    /// First offset of the log.
    pub start: Offset,
    /// The watermark: the offset after the last visible message.
    pub end: Offset,
}

/// Where a log begins and ends for readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// First offset of the log.
    pub start: Offset,
    /// The watermark: the offset after the last visible message. Never past an entry that waits for its sync.
    pub end: Offset,
}

/// The answer to a look-up by time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeAnswer {
    /// The first message that is not older, with its time; `None` when all are older.
    Ready(Option<(Offset, Wall)>),
    /// The disk must be waited for: the session is told [`crate::Event::Readable`] with the call's id.
    Pending,
}

/// A log and how much of it must be new for a watch to fire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watched {
    /// The log.
    pub log: LogId,
    /// Fires when the watermark passes this offset.
    pub from: Offset,
}
