//! Why the broker refuses. Each tongue maps these to its own codes in one table of its own.

use model::{FormatError, NameError, Offset};
use storage::StorageError;

/// Why a call was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BrokerError {
    /// No such topic, or no such partition of it.
    #[error("no topic '{topic}', or it has no partition {partition:?}")]
    UnknownPartition {
        /// The topic asked for.
        topic: String,
        /// The partition asked for, if one was.
        partition: Option<u32>,
    },
    /// No object of that kind and name.
    #[error("no {kind} '{name}'")]
    Missing {
        /// `queue`, `exchange`, `user` …
        kind: &'static str,
        /// The name asked for.
        name: String,
    },
    /// The name is taken.
    #[error("{kind} '{name}' exists")]
    Exists {
        /// What has the name: `topic`, `queue` …
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A value that is not allowed, with the reason.
    #[error("{0}")]
    Invalid(String),
    /// A setting that is unknown or has a bad value.
    #[error("{0}")]
    InvalidConfig(String),
    /// More partitions than allowed, or none.
    #[error("a topic has 1 to {max} partitions, not {asked}")]
    InvalidPartitions {
        /// What was asked for.
        asked: i64,
        /// The most allowed.
        max: u32,
    },
    /// A topic has as many partitions already, or may not have so many.
    #[error("the topic has {has} partitions: it can get more, up to {max}, not be made one of {asked}")]
    InvalidGrowth {
        /// What it has.
        has: usize,
        /// What was asked for.
        asked: i64,
        /// The most allowed.
        max: u32,
    },
    /// A name that is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The object belongs to another connection.
    #[error("'{0}' is exclusive to another connection")]
    Locked(String),
    /// The exchange takes messages from other exchanges only.
    #[error("exchange '{0}' is internal")]
    Internal(String),
    /// Somebody has an exclusive consumer on the queue, or others have consumers and this one wants to be exclusive.
    #[error("queue '{0}' is in exclusive use")]
    ExclusiveUse(String),
    /// The tenant has as many as it may.
    #[error("{kind} '{name}' cannot be made: its tenant may have {max}")]
    Limit {
        /// What was to be made.
        kind: &'static str,
        /// Its name.
        name: String,
        /// How many there may be.
        max: u64,
    },
    /// Delete was asked for only if unused or empty, and it is not.
    #[error("'{name}' is {why}")]
    InUse {
        /// The object.
        name: String,
        /// `in use` or `not empty`.
        why: &'static str,
    },
    /// The offset lies outside the log.
    #[error("offset {asked} is outside {start}..{end}")]
    OutOfRange {
        /// The offset asked for.
        asked: Offset,
        /// The first offset held.
        start: Offset,
        /// The offset after the last visible one.
        end: Offset,
    },
    /// A producer's sequence has a gap.
    #[error("sequence {got} of producer {producer} where {expected} was expected")]
    SequenceGap {
        /// The producer.
        producer: i64,
        /// The sequence that came.
        got: i32,
        /// The one that should have come.
        expected: i32,
    },
    /// The producer's epoch is older than the last seen.
    #[error("epoch {got} of producer {producer} is older than {current}")]
    FencedProducer {
        /// The producer.
        producer: i64,
        /// Its epoch.
        got: i16,
        /// The current one.
        current: i16,
    },
    /// Storage refused.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Stored units could not be opened for a reader of another tongue.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl From<cluster::MetaError> for BrokerError {
    fn from(why: cluster::MetaError) -> BrokerError {
        match why {
            cluster::MetaError::Exists { kind, name } => BrokerError::Exists { kind, name },
            cluster::MetaError::Missing { kind, name } => BrokerError::Missing { kind, name },
            cluster::MetaError::LogReused(_) | cluster::MetaError::Needed(_) => BrokerError::Invalid(why.to_string()),
        }
    }
}
