//! What tongues say to the group coordinator and hear from it.

use std::time::Duration;

use bytes::Bytes;
use model::{Message, Name, Offset, TopicId};

/// How many partitions the internal offsets topic has (and thus over how many coordinators groups are spread).
pub const LEDGER_PARTITIONS: u32 = 50;

/// The name of the internal topic that keeps committed offsets and groups.
pub const LEDGER_TOPIC: &str = "__consumer_offsets";

/// Why the coordinator refuses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GroupError {
    /// The member is not in the group (any more).
    #[error("the group does not know this member")]
    UnknownMember,
    /// The generation is not the current one.
    #[error("the generation is not the current one")]
    IllegalGeneration,
    /// A rebalance is under way: join again.
    #[error("the group is rebalancing")]
    Rebalancing,
    /// Join again with this member id.
    #[error("join again with member id '{0}'")]
    MemberIdRequired(String),
    /// Another member took over this instance id.
    #[error("the instance id was taken over by a newer member")]
    FencedInstance,
    /// The member's protocols have nothing in common with the group's.
    #[error("no protocol in common with the group")]
    InconsistentProtocol,
    /// The session time-out lies outside what is allowed.
    #[error("the session time-out is out of range")]
    InvalidSessionTimeout,
    /// The group's id is not allowed (empty).
    #[error("the group id is not allowed")]
    InvalidGroup,
    /// The coordinator is still reading its log: try again.
    #[error("the coordinator is loading")]
    Loading,
    /// The group has members or belongs to another protocol.
    #[error("the group is not empty")]
    NotEmpty,
    /// There is no such group.
    #[error("there is no such group")]
    NotFound,
    /// The group holds as many members as allowed, or they as many bytes.
    #[error("the group is full")]
    Full,
    /// Storing the outcome failed; try again.
    #[error("storing failed: {0}")]
    Storage(#[from] storage::StorageError),
}

/// A member that wants in, or says it is still there with new subscriptions.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The group.
    pub group: Name,
    /// Empty for a new member.
    pub member: String,
    /// A static member's lasting name.
    pub instance: Option<String>,
    /// The client's own name.
    pub client_id: String,
    /// The client's address.
    pub client_host: String,
    /// Without a heartbeat for this long the member is out.
    pub session_timeout: Duration,
    /// How long a rebalance waits for this member to join again.
    pub rebalance_timeout: Duration,
    /// What kind of protocol: `consumer`, `connect` …
    pub protocol_type: String,
    /// Protocols the member knows, best first, each with its metadata.
    pub protocols: Vec<(String, Bytes)>,
    /// A new dynamic member must come back with the id it is given.
    pub require_known_member: bool,
}

/// The answer to a join, once the group is complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joined {
    /// The generation that begins.
    pub generation: i32,
    /// The protocol's type.
    pub protocol_type: String,
    /// The protocol chosen: the one most members prefer among those all know.
    pub protocol: String,
    /// Who assigns.
    pub leader: String,
    /// The member's own id.
    pub member: String,
    /// All members with their metadata for the chosen protocol; only the leader gets them.
    pub members: Vec<JoinedMember>,
    /// The leader need not assign: a static member came back and nothing changed; assignments it hands in all the same
    /// are not looked at. A client that cannot be told so is best answered like a follower: another leader, no members.
    pub skip_assignment: bool,
}

/// One member as the leader sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinedMember {
    /// Its id.
    pub member: String,
    /// Its lasting name, if static.
    pub instance: Option<String>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// Who speaks, in calls after the join.
#[derive(Clone, Copy, Debug)]
pub struct MemberRef<'a> {
    /// The group.
    pub group: &'a str,
    /// The member's id.
    pub member: &'a str,
    /// Its lasting name, if static.
    pub instance: Option<&'a str>,
    /// The generation it believes in; negative for a committer that is no member.
    pub generation: i32,
}

/// The answer to a sync.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Synced {
    /// The protocol's type.
    pub protocol_type: String,
    /// The chosen protocol.
    pub protocol: String,
    /// What this member is to do.
    pub assignment: Bytes,
}

/// A committed offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The next message to read.
    pub offset: Offset,
    /// The leader epoch the consumer knew, −1 if none.
    pub leader_epoch: i32,
    /// The consumer's own note.
    pub metadata: String,
    /// When it was committed, wall milliseconds.
    pub at: model::Wall,
}

/// One offset to commit.
#[derive(Clone, Debug)]
pub struct OffsetCommit {
    /// The topic.
    pub topic: Name,
    /// The topic's id when the client said it.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: u32,
    /// What to remember.
    pub committed: Committed,
}

/// A group as tools see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupInfo {
    /// Its id.
    pub group: Name,
    /// Its state.
    pub state: GroupState,
    /// `consumer` …; empty when it has had no member.
    pub protocol_type: String,
    /// The chosen protocol; empty unless stable.
    pub protocol: String,
    /// Its members.
    pub members: Vec<MemberInfo>,
}

/// A member as tools see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberInfo {
    /// Its id.
    pub member: String,
    /// Its lasting name, if static.
    pub instance: Option<String>,
    /// The client's own name.
    pub client_id: String,
    /// Its address.
    pub client_host: String,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
    /// Its assignment.
    pub assignment: Bytes,
}

/// Where a group stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupState {
    /// No members; it may have offsets.
    Empty,
    /// Waiting for members to join.
    PreparingRebalance,
    /// Waiting for the leader's assignment.
    CompletingRebalance,
    /// Everybody has an assignment.
    Stable,
    /// Gone.
    Dead,
}

/// What one record of the internal offsets topic says.
#[derive(Clone, PartialEq, Debug)]
pub enum LedgerEntry {
    /// A committed offset, or that it was removed.
    Offset {
        /// The group.
        group: Name,
        /// The topic.
        topic: Name,
        /// The partition.
        partition: u32,
        /// `None` when removed.
        committed: Option<Committed>,
    },
    /// A group's members and assignments, or that it was removed.
    Group {
        /// The group.
        group: Name,
        /// `None` when removed.
        snapshot: Option<GroupSnapshot>,
    },
}

/// What of a group survives a restart.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GroupSnapshot {
    /// `consumer` …
    pub protocol_type: String,
    /// The generation.
    pub generation: i32,
    /// The chosen protocol, if any.
    pub protocol: Option<String>,
    /// The leader's member id, if any.
    pub leader: Option<String>,
    /// When it came to this state, wall milliseconds.
    pub at: model::Wall,
    /// Its members.
    pub members: Vec<MemberSnapshot>,
}

/// What of a member survives a restart.
#[derive(Clone, PartialEq, Debug)]
pub struct MemberSnapshot {
    /// As [`MemberInfo`].
    pub info: MemberInfo,
    /// Its time-out for joining again.
    pub rebalance_timeout: Duration,
    /// Its session time-out.
    pub session_timeout: Duration,
}

/// Writes and reads the records of the internal offsets topic: the bytes that tools of one tongue know.
pub trait LedgerCodec: Send + Sync {
    /// The record that says `entry`.
    fn encode(&self, entry: &LedgerEntry) -> Message;

    /// What a record says; `None` when it is of a kind or version unknown here.
    fn decode(&self, message: &Message) -> Option<LedgerEntry>;

    /// The format in which records are stored in that topic.
    fn format(&self) -> model::FormatTag;
}
