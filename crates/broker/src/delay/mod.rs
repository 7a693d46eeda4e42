//! Delays: messages that are published now and routed later, to the millisecond, through restarts.
//!
//! They lie in hidden logs, one for each span of time (*bucket*): the further away, the wider the span. When a bucket's
//! time comes near its places are read into memory in the order of their moments; a wide one is spread over narrower
//! ones first. So memory holds what is due within about a minute, however many wait, and a bucket that is done with is
//! dropped whole. A due message is routed, stored in its queues and taken out of its bucket in one atomic batch.
//!
//! This module keeps the books; `store.rs` and `hold.rs` take messages in, `near.rs` reads what comes near,
//! `fire.rs` lets go what
//! is due.

mod api;
mod bucket;
mod envelope;
mod fire;
mod hold;
mod near;
mod store;

use std::collections::BTreeMap;

use model::{LogId, Mono, Now, Wall};
use storage::{Lsn, ReadId};

use bucket::Bucket;
pub(crate) use hold::Holding;

/// Names a delayed message until it is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DelayId {
    /// When it is due.
    pub due: Wall,
    /// The hidden log it was first put into.
    pub log: LogId,
    /// Its place there.
    pub offset: u64,
}

/// The answer to a delayed publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delayed {
    /// Names it, to be taken back.
    pub id: DelayId,
    /// Hold the confirmation back until progress has reached this, by the request's policy.
    pub lsn: Lsn,
}

/// Where a delayed message lies that comes near: when it is due, in which bucket, at which offset. In this order they
/// fire.
type Place = (Wall, LogId, u64);

/// All delayed messages of this shard.
#[derive(Default)]
pub(crate) struct Delays {
    /// By log.
    buckets: BTreeMap<LogId, Bucket>,
    /// What comes near; the value is its name if it was moved from another bucket.
    near: BTreeMap<Place, DelayId>,
    /// The read that the bucket being read waits for.
    waits: Option<ReadId>,
    /// Nothing is fired or spread before: the disk was full.
    retry_at: Option<Mono>,
}

impl Delays {
    /// How many messages wait.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.values().map(|bucket| bucket.cursor.ready()).sum()
    }

    /// The next moment at which something is to be done.
    pub(crate) fn deadline(&self, now: Now) -> Option<Mono> {
        if self.waits.is_some() {
            return None; // the read's end wakes
        }
        let first = self.near.first_key_value().map(|(place, _)| place.0);
        let next = self.buckets.values().filter_map(Bucket::wakes).min();
        let at = [first, next].into_iter().flatten().min()?;
        let wait = u64::try_from(at.0.saturating_sub(now.wall.0)).unwrap_or(0);
        let at = now.mono.plus(std::time::Duration::from_millis(wait));
        Some(self.retry_at.map_or(at, |retry| at.max(retry)))
    }

    /// A read of others, or ours, has ended.
    pub(crate) fn read_ready(&mut self, read: ReadId) {
        self.waits.take_if(|waits| *waits == read);
    }
}
