//! A publish arrives as a method, a content header and body frames. Where a channel stands in that.

use model::Wall;

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
}
