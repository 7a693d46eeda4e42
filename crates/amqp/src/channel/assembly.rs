//! A publish arrives as a method, a content header and body frames. Where a channel stands in that.

use model::{Marks, Wall};

use crate::wire::table::seconds;

/// What the channel expects next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Assembly {
    /// A method.
    Idle,
    /// The content header of a publish.
    Header {
        /// Return it when no queue takes it.
        mandatory: bool,
    },
    /// More of the body.
    Body(Content),
}

/// A publish whose header has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    /// Return it when no queue takes it.
    pub mandatory: bool,
    /// Asked to survive a restart.
    pub persistent: bool,
    /// Seconds, if it carries a timestamp.
    pub timestamp: Option<u64>,
    /// 0 if it names none.
    pub priority: u8,
    /// How long it lives in each queue, if it says so.
    pub time_to_live_ms: Option<u64>,
    /// Size of its body.
    pub body_bytes: u64,
    /// How much of it is still to come.
    pub left: u64,
}

impl Content {
    /// The time it carries, or `now`.
    #[must_use]
    pub fn time(&self, now: Wall) -> Wall {
        self.timestamp.map_or(now, seconds)
    }

    /// What queues must know of it.
    #[must_use]
    pub fn marks(&self, published: Wall) -> Marks {
        Marks {
            persistent: self.persistent,
            priority: self.priority,
            time_to_live_ms: self.time_to_live_ms,
            published,
            body_bytes: u32::try_from(self.body_bytes).unwrap_or(u32::MAX),
        }
    }
}
