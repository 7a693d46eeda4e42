//! The protocol's error codes, and the one table from the broker's refusals to them.

use broker::BrokerError;
use broker::StorageError;
use broker::group::GroupError;

/// An error code as it stands in answers; 0 is success.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ErrorCode(pub i16);

#[allow(missing_docs)] // The protocol's own names.
impl ErrorCode {
    pub const NONE: ErrorCode = ErrorCode(0);
    pub const UNKNOWN_SERVER_ERROR: ErrorCode = ErrorCode(-1);
    pub const OFFSET_OUT_OF_RANGE: ErrorCode = ErrorCode(1);
    pub const CORRUPT_MESSAGE: ErrorCode = ErrorCode(2);
    pub const UNKNOWN_TOPIC_OR_PARTITION: ErrorCode = ErrorCode(3);
    pub const MESSAGE_TOO_LARGE: ErrorCode = ErrorCode(10);
    pub const OFFSET_METADATA_TOO_LARGE: ErrorCode = ErrorCode(12);
    pub const COORDINATOR_LOAD_IN_PROGRESS: ErrorCode = ErrorCode(14);
    pub const INVALID_TOPIC_EXCEPTION: ErrorCode = ErrorCode(17);
    pub const NOT_ENOUGH_REPLICAS: ErrorCode = ErrorCode(19);
    pub const INVALID_REQUIRED_ACKS: ErrorCode = ErrorCode(21);
    pub const ILLEGAL_GENERATION: ErrorCode = ErrorCode(22);
    pub const INCONSISTENT_GROUP_PROTOCOL: ErrorCode = ErrorCode(23);
    pub const INVALID_GROUP_ID: ErrorCode = ErrorCode(24);
    pub const UNKNOWN_MEMBER_ID: ErrorCode = ErrorCode(25);
    pub const INVALID_SESSION_TIMEOUT: ErrorCode = ErrorCode(26);
    pub const REBALANCE_IN_PROGRESS: ErrorCode = ErrorCode(27);
    pub const INVALID_TIMESTAMP: ErrorCode = ErrorCode(32);
    pub const UNSUPPORTED_VERSION: ErrorCode = ErrorCode(35);
    pub const TOPIC_ALREADY_EXISTS: ErrorCode = ErrorCode(36);
    pub const INVALID_PARTITIONS: ErrorCode = ErrorCode(37);
    pub const INVALID_REPLICATION_FACTOR: ErrorCode = ErrorCode(38);
    pub const INVALID_REPLICA_ASSIGNMENT: ErrorCode = ErrorCode(39);
    pub const INVALID_CONFIG: ErrorCode = ErrorCode(40);
    pub const INVALID_REQUEST: ErrorCode = ErrorCode(42);
    pub const POLICY_VIOLATION: ErrorCode = ErrorCode(44);
    pub const OUT_OF_ORDER_SEQUENCE_NUMBER: ErrorCode = ErrorCode(45);
    pub const INVALID_PRODUCER_EPOCH: ErrorCode = ErrorCode(47);
    pub const INVALID_TXN_STATE: ErrorCode = ErrorCode(48);
    pub const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorCode = ErrorCode(53);
    pub const KAFKA_STORAGE_ERROR: ErrorCode = ErrorCode(56);
    pub const NON_EMPTY_GROUP: ErrorCode = ErrorCode(68);
    pub const TOPIC_AUTHORIZATION_FAILED: ErrorCode = ErrorCode(29);
    pub const GROUP_AUTHORIZATION_FAILED: ErrorCode = ErrorCode(30);
    pub const GROUP_ID_NOT_FOUND: ErrorCode = ErrorCode(69);
    pub const FETCH_SESSION_ID_NOT_FOUND: ErrorCode = ErrorCode(70);
    pub const INVALID_FETCH_SESSION_EPOCH: ErrorCode = ErrorCode(71);
    pub const UNKNOWN_LEADER_EPOCH: ErrorCode = ErrorCode(75);
    pub const UNSUPPORTED_COMPRESSION_TYPE: ErrorCode = ErrorCode(76);
    pub const MEMBER_ID_REQUIRED: ErrorCode = ErrorCode(79);
    pub const GROUP_MAX_SIZE_REACHED: ErrorCode = ErrorCode(81);
    pub const FENCED_INSTANCE_ID: ErrorCode = ErrorCode(82);
    pub const GROUP_SUBSCRIBED_TO_TOPIC: ErrorCode = ErrorCode(86);
    pub const INVALID_RECORD: ErrorCode = ErrorCode(87);
    pub const UNKNOWN_TOPIC_ID: ErrorCode = ErrorCode(100);
    pub const MISMATCHED_ENDPOINT_TYPE: ErrorCode = ErrorCode(114);
    pub const UNSUPPORTED_ENDPOINT_TYPE: ErrorCode = ErrorCode(115);
    pub const REBOOTSTRAP_REQUIRED: ErrorCode = ErrorCode(129);

    /// Whether it says that nothing went wrong.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == ErrorCode::NONE
    }
}

impl From<&BrokerError> for ErrorCode {
    fn from(error: &BrokerError) -> ErrorCode {
        match error {
            BrokerError::UnknownPartition { .. } | BrokerError::Missing { .. } => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            BrokerError::Exists { .. } => ErrorCode::TOPIC_ALREADY_EXISTS,
            BrokerError::Invalid(_)
            | BrokerError::Locked(_)
            | BrokerError::Internal(_)
            | BrokerError::ExclusiveUse(_)
            | BrokerError::Limit { .. }
            | BrokerError::InUse { .. } => ErrorCode::INVALID_REQUEST,
            BrokerError::InvalidConfig(_) => ErrorCode::INVALID_CONFIG,
            BrokerError::InvalidPartitions { .. } | BrokerError::InvalidGrowth { .. } => ErrorCode::INVALID_PARTITIONS,
            BrokerError::Name(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
            BrokerError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
            BrokerError::SequenceGap { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            BrokerError::FencedProducer { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
            BrokerError::Storage(error) => ErrorCode::from(error),
            BrokerError::Format(_) => ErrorCode::CORRUPT_MESSAGE,
        }
    }
}

impl From<&StorageError> for ErrorCode {
    fn from(error: &StorageError) -> ErrorCode {
        match error {
            StorageError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
            StorageError::TooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
            // Retriable for clients: a full disk heals alone, a closed journal with the next start.
            StorageError::Closed(_)
            | StorageError::Full { .. }
            | StorageError::Behind { .. }
            | StorageError::Damaged { .. }
            | StorageError::Disk { .. }
            | StorageError::Unusable(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        }
    }
}

impl From<&GroupError> for ErrorCode {
    fn from(error: &GroupError) -> ErrorCode {
        match error {
            GroupError::UnknownMember => ErrorCode::UNKNOWN_MEMBER_ID,
            GroupError::IllegalGeneration => ErrorCode::ILLEGAL_GENERATION,
            GroupError::Rebalancing => ErrorCode::REBALANCE_IN_PROGRESS,
            GroupError::MemberIdRequired(_) => ErrorCode::MEMBER_ID_REQUIRED,
            GroupError::FencedInstance => ErrorCode::FENCED_INSTANCE_ID,
            GroupError::InconsistentProtocol => ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
            GroupError::InvalidSessionTimeout => ErrorCode::INVALID_SESSION_TIMEOUT,
            GroupError::InvalidGroup => ErrorCode::INVALID_GROUP_ID,
            // Group answers have no code for storage; clients take this one as "try again".
            GroupError::Loading | GroupError::Storage(_) => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            GroupError::NotEmpty => ErrorCode::NON_EMPTY_GROUP,
            GroupError::NotFound => ErrorCode::GROUP_ID_NOT_FOUND,
            GroupError::Full => ErrorCode::GROUP_MAX_SIZE_REACHED,
        }
    }
}

/// A result's code.
pub(crate) fn code_of<'e, T, E>(result: &'e Result<T, E>) -> ErrorCode
where
    ErrorCode: From<&'e E>,
{
    match result {
        Ok(_) => ErrorCode::NONE,
        Err(error) => ErrorCode::from(error),
    }
}
