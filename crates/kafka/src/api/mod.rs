//! What clients may ask: one file a request with its tables, its versions and its handler, and the table of all rows.
//! Only what is in the table is served, and only what is served is shown.

mod alter_configs;
mod api_versions;
mod asker;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use broker::{Cx, Event};
use model::{ByteReader, Mono, ReadError};

pub(crate) use api_versions::{API_VERSIONS, answer_unserved};
pub(crate) use asker::{Asker, CONFIGURE, READ, Using, WRITE};
pub(crate) use produce::{PRODUCE, look};

use crate::call::{Call, CallHead, ReplyTo};
use crate::pending::Answer;

/// A handler: reads the body, asks the broker, answers.
type Handle = fn(&mut Asker, &mut Cx<'_>, &Call<'_>) -> Result<Answer, ReadError>;

/// One API.
pub(crate) struct Row {
    pub api: i16,
    pub name: &'static str,
    /// The versions that clients are told.
    pub shown: RangeInclusive<i16>,
    /// The first version really served; it differs from what is shown only where clients need the lie.
    pub served_since: i16,
    /// The first version with compact lengths and tagged fields.
    pub flexible_since: i16,
    pub handle: Handle,
}

impl Row {
    /// Whether requests of `version` are answered.
    pub fn serves(&self, version: i16) -> bool {
        self.served_since <= version && version <= *self.shown.end()
    }
}

const fn row_of(
    (api, name): (i16, &'static str),
    versions: RangeInclusive<i16>,
    flexible_since: i16,
    handle: Handle,
) -> Row {
    let served_since = *versions.start();
    Row { api, name, shown: versions, served_since, flexible_since, handle }
}

/// All APIs, by key.
pub(crate) static ROWS: [&Row; 27] = [
    &produce::ROW,
    &fetch::ROW,
    &list_offsets::ROW,
    &metadata::ROW,
    &offset_commit::ROW,
    &offset_fetch::ROW,
    &find_coordinator::ROW,
    &join_group::ROW,
    &heartbeat::ROW,
    &leave_group::ROW,
    &sync_group::ROW,
    &describe_groups::ROW,
    &list_groups::ROW,
    &api_versions::ROW,
    &create_topics::ROW,
    &create_partitions::ROW,
    &delete_topics::ROW,
    &delete_records::ROW,
    &init_producer_id::ROW,
    &offset_for_leader_epoch::ROW,
    &describe_configs::ROW,
    &alter_configs::ROW,
    &incremental_alter_configs::ROW,
    &delete_groups::ROW,
    &offset_delete::ROW,
    &describe_log_dirs::ROW,
    &describe_cluster::ROW,
];

/// The row of an API key.
pub(crate) fn row(api: i16) -> Option<&'static Row> {
    ROWS.iter().copied().find(|row| row.api == api)
}

/// A request whose answer is not known yet.
pub(crate) enum Waiting {
    /// A long poll, or cold data.
    Fetch(Box<fetch::Plan>),
    /// A look-up by time that waits for the disk.
    ListOffsets(Box<list_offsets::Plan>),
    /// A join that waits for the group.
    Join(join_group::Joining),
    /// A sync that waits for the leader.
    Sync,
}

impl Waiting {
    /// When it is answered at the latest.
    pub fn deadline(&self) -> Option<Mono> {
        match self {
            Waiting::Fetch(plan) => Some(plan.deadline),
            Waiting::ListOffsets(_) | Waiting::Join(_) | Waiting::Sync => None,
        }
    }

    /// Bytes of memory it takes, about.
    pub fn bytes(&self) -> usize {
        match self {
            Waiting::Fetch(plan) => plan.bytes(),
            Waiting::ListOffsets(plan) => plan.bytes(),
            Waiting::Join(_) | Waiting::Sync => 0, // the core has what they brought
        }
    }

    /// Goes on after `event`, or after its time is over.
    pub fn resume(self, asker: &mut Asker, cx: &mut Cx<'_>, to: ReplyTo, event: Option<Event>) -> Answer {
        match (self, event) {
            (Waiting::Fetch(plan), event) => fetch::resume(asker, cx, to, plan, event.is_none()),
            (Waiting::ListOffsets(plan), _) => list_offsets::attempt(asker, cx, to, plan),
            (Waiting::Join(joining), Some(Event::Joined(_, joined))) => join_group::answer(asker, to, &joining, joined),
            (Waiting::Sync, Some(Event::Synced(_, synced))) => sync_group::answer(asker, to, synced),
            (Waiting::Join(_) | Waiting::Sync, _) => Answer::Close("an event that does not belong to its call"),
        }
    }
}

/// Reads arbitrary bytes as a frame's content, for fuzzing: the header, and the body in the table that it names.
pub fn fuzz_request(bytes: &[u8]) {
    let mut reader = ByteReader::new(bytes);
    let Ok(head) = CallHead::read(&mut reader) else {
        return;
    };
    if let Some(row) = row(head.api).filter(|row| row.serves(head.version))
        && let Ok(call) = Call::read(row, head, reader)
    {
        read_any_body(row.api, &call);
    }
}

macro_rules! bodies {
    ($($module:ident: $request:ty;)*) => {
        /// Reads the body of a request of `api` and drops it.
        fn read_any_body(api: i16, call: &Call<'_>) {
            $(if api == $module::ROW.api {
                let _ = call.read_body::<$request>();
            })*
        }
    };
}
bodies! {
    produce: produce::ProduceRequest<'_>;
    fetch: fetch::FetchRequest<'_>;
    list_offsets: list_offsets::ListOffsetsRequest<'_>;
    metadata: metadata::MetadataRequest<'_>;
    offset_commit: offset_commit::OffsetCommitRequest<'_>;
    offset_fetch: offset_fetch::OffsetFetchRequest<'_>;
    find_coordinator: find_coordinator::FindCoordinatorRequest<'_>;
    join_group: join_group::JoinGroupRequest<'_>;
    heartbeat: heartbeat::HeartbeatRequest<'_>;
    leave_group: leave_group::LeaveGroupRequest<'_>;
    sync_group: sync_group::SyncGroupRequest<'_>;
    describe_groups: describe_groups::DescribeGroupsRequest<'_>;
    list_groups: list_groups::ListGroupsRequest<'_>;
    api_versions: api_versions::ApiVersionsRequest<'_>;
    create_topics: create_topics::CreateTopicsRequest<'_>;
    create_partitions: create_partitions::CreatePartitionsRequest<'_>;
    delete_topics: delete_topics::DeleteTopicsRequest<'_>;
    delete_records: delete_records::DeleteRecordsRequest<'_>;
    init_producer_id: init_producer_id::InitProducerIdRequest<'_>;
    offset_for_leader_epoch: offset_for_leader_epoch::OffsetForLeaderEpochRequest<'_>;
    describe_configs: describe_configs::DescribeConfigsRequest<'_>;
    alter_configs: alter_configs::AlterConfigsRequest<'_>;
    incremental_alter_configs: incremental_alter_configs::IncrementalAlterConfigsRequest<'_>;
    delete_groups: delete_groups::DeleteGroupsRequest<'_>;
    offset_delete: offset_delete::OffsetDeleteRequest<'_>;
    describe_log_dirs: describe_log_dirs::DescribeLogDirsRequest<'_>;
    describe_cluster: describe_cluster::DescribeClusterRequest;
}
