//! The atomic batch: all of it survives a crash, or none.

use model::{Format, LogId, Offset, Stamp, Wall};

/// When a batch may be answered for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SyncPolicy {
    /// When the operating system has it; synced within a bounded time.
    None,
    /// When it is on disk (fdatasync).
    Sync,
}

/// One log to which the units of an [`Append`] go.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The log.
    pub log: LogId,
    /// The offset of the first message there. Must not lie before the log's end (a gap is allowed).
    pub first: Offset,
}

/// Units to append, stored once even when they go to several logs (a fanout).
#[derive(Clone, Copy)]
pub struct Append<'a> {
    /// Where they go; at least one.
    pub targets: &'a [Target],
    /// Their format: it stamps the stored copy. With several targets the stamp is that of the first.
    pub format: &'a dyn Format,
    /// One or more whole units, back to back.
    pub units: &'a [u8],
    /// Offset of the last message less that of the first.
    pub last_delta: u32,
    /// How many messages they hold.
    pub count: u32,
    /// The latest time any of the messages carries.
    pub time_max: Wall,
    /// Epoch and moment to stamp; `base` is taken from each target.
    pub stamp: Stamp,
}

/// Whose state a record is. State is a table by owner: a snapshot replaces all before, deltas follow it.
/// `kind` separates name spaces (catalog, producers, cursors …), `id` the owners within one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The name space; given by the layer above.
    pub kind: u8,
    /// The owner in it.
    pub id: u64,
}

/// A change of an owner's state.
#[derive(Clone, Copy, Debug)]
pub enum StateChange<'a> {
    /// Replaces everything known of the owner.
    Snapshot(&'a [u8]),
    /// Comes after what is known of the owner.
    Delta(&'a [u8]),
    /// The owner is gone.
    Drop,
}

/// What [`crate::Storage::commit`] makes one whole of.
#[derive(Clone, Copy, Default)]
pub struct Batch<'a> {
    /// Logs whose newest segment ends before the offset (the log's end, or where the batch's append to it begins):
    /// another begins there. They come before the appends.
    pub rolls: &'a [(LogId, Offset)],
    /// Appends, in order.
    pub appends: &'a [Append<'a>],
    /// Logs to trim: messages before the offset are gone.
    pub trims: &'a [(LogId, Offset)],
    /// Logs that cease to exist, with all they hold.
    pub drops: &'a [LogId],
    /// State records, in order.
    pub state: &'a [(Owner, StateChange<'a>)],
    /// Its appends may use the space kept in reserve: they are what lets readers go on while the volume is full.
    pub uses_reserve: bool,
}
