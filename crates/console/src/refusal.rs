//! Why a request is refused, as status, word and sentence: the one place where the core's errors become HTTP's.

use broker::group::GroupError;
use broker::{BrokerError, StorageError};

/// A refused request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// One word for programs.
    pub error: &'static str,
    /// A sentence for people.
    pub reason: String,
    /// What is said in its place where the reason is a list of values.
    pub parts: Vec<serde_json::Value>,
}

impl Refusal {
    /// A refusal.
    pub fn new(status: u16, error: &'static str, reason: impl Into<String>) -> Refusal {
        Refusal { status, error, reason: reason.into(), parts: Vec::new() }
    }

    /// The request is not what the path takes.
    pub fn bad_request(reason: impl Into<String>) -> Refusal {
        Refusal::new(400, "bad_request", reason)
    }

    /// The request holds a value that is not what it should be: the word for that, and the value.
    pub fn listed(word: &str, value: serde_json::Value) -> Refusal {
        let reason = format!("{word}: {value}");
        Refusal { parts: vec![word.into(), value], ..Refusal::bad_request(reason) }
    }

    /// There is no such thing.
    pub fn not_found(reason: impl Into<String>) -> Refusal {
        Refusal::new(404, "not_found", reason)
    }
}

impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Refusal {
        let (status, word) = match &error {
            BrokerError::UnknownPartition { .. } | BrokerError::Missing { .. } => (404, "not_found"),
            BrokerError::Exists { .. } => (409, "exists"),
            BrokerError::Internal(_) => (403, "access_refused"),
            BrokerError::Locked(_)
            | BrokerError::ExclusiveUse(_)
            | BrokerError::InUse { .. }
            | BrokerError::Limit { .. } => (409, "in_use"),
            BrokerError::Invalid(_)
            | BrokerError::InvalidConfig(_)
            | BrokerError::InvalidPartitions { .. }
            | BrokerError::InvalidGrowth { .. }
            | BrokerError::Name(_)
            | BrokerError::OutOfRange { .. } => (400, "bad_request"),
            BrokerError::Storage(StorageError::Full { .. }) => (507, "disk_full"),
            BrokerError::Storage(_) => (503, "unavailable"),
            _ => (500, "internal"),
        };
        Refusal::new(status, word, error.to_string())
    }
}

impl From<GroupError> for Refusal {
    fn from(error: GroupError) -> Refusal {
        let (status, word) = match &error {
            GroupError::NotFound => (404, "not_found"),
            GroupError::NotEmpty | GroupError::Rebalancing => (409, "in_use"),
            GroupError::Loading | GroupError::Storage(_) => (503, "unavailable"),
            _ => (400, "bad_request"),
        };
        Refusal::new(status, word, error.to_string())
    }
}
