//! Topics as tongues see them.

use model::{LogId, Name, TopicId};

/// The most partitions one topic may have.
pub const PARTITIONS_MAX: u32 = 10_000;

/// A topic to make.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Whose it will be.
    pub tenant: Name,
    /// Its name. What a tongue can spell is checked by that tongue.
    pub name: Name,
    /// How many partitions: 1 to [`PARTITIONS_MAX`].
    pub partitions: i64,
    /// Settings by name; unknown names and bad values are refused.
    pub config: Vec<(String, String)>,
    /// Check everything and make nothing.
    pub validate_only: bool,
}

/// A topic that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicInfo {
    /// Its name.
    pub name: Name,
    /// Its lasting identity.
    pub id: TopicId,
    /// Its partitions' logs, by index.
    pub partitions: Vec<LogId>,
    /// The broker's own.
    pub internal: bool,
    /// What may be written to it.
    pub intake: Intake,
}

/// What a topic's settings say of writing to it: kept parsed, since every batch is measured by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intake {
    /// The largest batch, in bytes, as sent.
    pub batch_bytes_max: usize,
    /// The largest record of a packed batch, in bytes, unpacked.
    pub record_bytes_max: usize,
    /// Every message must have a key: the topic is compacted.
    pub needs_keys: bool,
    /// Messages carry the time of their append, not their producer's.
    pub has_append_time: bool,
    /// How many replicas must have a message before it is acknowledged to whoever waits for all.
    pub insync_min: u32,
    /// How far a message's time may lie behind the clock, in milliseconds.
    pub behind_ms_max: i64,
    /// How far a message's time may lie ahead of the clock, in milliseconds.
    pub ahead_ms_max: i64,
}

/// What becomes of one setting of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigChange {
    /// It gets this value.
    Set(String),
    /// It goes back to its default.
    Unset,
    /// These words, separated by commas, are added to its list, unless they are in it.
    Append(String),
    /// These words are taken out of its list.
    Subtract(String),
}

/// One setting of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name, as users know it: `retention.ms` …
    pub name: &'static str,
    /// Its value as text.
    pub value: String,
    /// True when it was not set on the topic.
    pub is_default: bool,
    /// What it is where it is not set.
    pub default: &'static str,
    /// What the value is.
    pub kind: ConfigKind,
    /// What it does, in one sentence.
    pub doc: &'static str,
}

/// What a setting's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigKind {
    /// true or false.
    Bool,
    /// A whole number of 32 bits.
    Int,
    /// A whole number of 64 bits.
    Long,
    /// A number with a point.
    Double,
    /// Text.
    Text,
    /// Several words, separated by commas.
    List,
}
