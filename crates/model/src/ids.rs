//! Newtypes for the numbers that must not be mixed up.

use std::fmt;

/// A log of this node: one partition of a topic, or one level of a queue. Given by the catalog, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LogId(pub u64);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The place of a message in its log: 0, 1, 2 … Dense when written, with gaps after compaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Offset(pub u64);

impl Offset {
    /// The first offset of every log.
    pub const ZERO: Offset = Offset(0);

    /// The offset `count` places further; saturates instead of wrapping.
    #[must_use]
    pub fn plus(self, count: u64) -> Offset {
        Offset(self.0.saturating_add(count))
    }

    /// How many places `self` lies behind `earlier`; 0 if it does not.
    #[must_use]
    pub fn since(self, earlier: Offset) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The lasting identity of a topic (a UUID): a topic deleted and created again under one name has another id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// The id that names no topic.
    pub const NONE: TopicId = TopicId([0; 16]);

    /// The id as 32 hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        use fmt::Write as _;
        self.0.iter().fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
            text
        })
    }
}
