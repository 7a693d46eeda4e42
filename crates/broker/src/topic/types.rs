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
