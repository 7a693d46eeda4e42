//! OffsetCommit: how far a group has read. All allowed offsets of one request are stored together.

use broker::group::{Committed, MemberRef, OffsetCommit};
use broker::topic::TopicInfo;
use broker::{Cx, SyncPolicy};
use model::{Offset, ReadError};

use super::asker::log_of;
use super::{Asker, READ, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, Uuid, messages};

pub(crate) static ROW: Row = row_of((8, "OffsetCommit"), 2..=10, 8, handle);

messages! {
    OffsetCommitRequest<'a> {
        group_id: Text<'a>, 0+;
        generation_id: i32, 1+ or -1;
        member_id: Text<'a>, 1+;
        group_instance_id: Option<Text<'a>>, 7+ null 7;
        retention_time_ms: i64, 2-4 or -1;
        topics: Vec<CommitTopic<'a>>, 0+;
    }
    CommitTopic<'a> {
        name: Text<'a>, 0-9;
        topic_id: Uuid, 10+;
        partitions: Vec<CommitPartition<'a>>, 0+;
    }
    CommitPartition<'a> {
        partition_index: i32, 0+;
        committed_offset: i64, 0+;
        committed_leader_epoch: i32, 6+ or -1;
        committed_metadata: Option<Text<'a>>, 0+ null 0;
    }
    OffsetCommitResponse<'a> {
        throttle_time_ms: i32, 3+;
        topics: Vec<CommittedTopic<'a>>, 0+;
    }
    CommittedTopic<'a> {
        name: Text<'a>, 0-9;
        topic_id: Uuid, 10+;
        partitions: Vec<CommittedPartition>, 0+;
    }
    CommittedPartition {
        partition_index: i32, 0+;
        error_code: i16, 0+;
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: OffsetCommitRequest<'_> = call.read_body()?;
    let mut offsets = Vec::new();
    let mut topics: Vec<CommittedTopic<'_>> = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        topics.push(check_topic(asker, cx, topic, call.version(), &mut offsets));
    }
    let mut gate = None;
    if let Err(code) = asker.may_use_group(cx.broker, &request.group_id, READ) {
        refuse_rest(&mut topics, code);
    } else if !offsets.is_empty() {
        let who = MemberRef {
            group: &request.group_id,
            member: &request.member_id,
            instance: request.group_instance_id.as_deref(),
            generation: request.generation_id,
        };
        match cx.broker.commit_offsets(who, &offsets, cx.now) {
            Ok(lsn) => gate = Some(Gate::of(SyncPolicy::None, lsn)),
            Err(error) => refuse_rest(&mut topics, ErrorCode::from(&error)),
        }
    }
    let response = OffsetCommitResponse { topics, ..OffsetCommitResponse::default() };
    Ok(asker.reply_gated(call.to, &response, gate, fail))
}

/// Checks one topic's partitions; those that may be committed go to `offsets`.
fn check_topic<'a>(
    asker: &Asker,
    cx: &Cx<'_>,
    topic: &CommitTopic<'a>,
    version: i16,
    offsets: &mut Vec<OffsetCommit>,
) -> CommittedTopic<'a> {
    let info = match version >= 10 {
        true => asker.topic_by_id(cx.broker, topic.topic_id, READ),
        false => asker.topic(cx.broker, &topic.name, READ),
    };
    let partitions = topic.partitions.iter().map(|partition| {
        let checked = match info {
            Ok(info) => check_partition(asker, cx, info, partition),
            Err(code) => Err(code),
        };
        let error_code = match checked {
            Ok(commit) => {
                offsets.push(commit);
                ErrorCode::NONE.0
            }
            Err(code) => code.0,
        };
        CommittedPartition { partition_index: partition.partition_index, error_code }
    });
    CommittedTopic { name: topic.name.clone(), topic_id: topic.topic_id, partitions: partitions.collect() }
}

fn check_partition(
    asker: &Asker,
    cx: &Cx<'_>,
    info: &TopicInfo,
    partition: &CommitPartition<'_>,
) -> Result<OffsetCommit, ErrorCode> {
    log_of(info, partition.partition_index)?;
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    if metadata.len() > asker.settings.commit_metadata_bytes_max {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    let offset = u64::try_from(partition.committed_offset).map_err(|_| ErrorCode::INVALID_REQUEST)?;
    Ok(OffsetCommit {
        topic: info.name.clone(),
        topic_id: info.id,
        partition: partition.partition_index as u32,
        committed: Committed {
            offset: Offset(offset),
            leader_epoch: partition.committed_leader_epoch,
            metadata: metadata.to_owned(),
            at: cx.now.wall,
        },
    })
}

/// Nothing was stored: what had passed so far has not.
fn refuse_rest(topics: &mut [CommittedTopic<'_>], code: ErrorCode) {
    for partition in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if partition.error_code == ErrorCode::NONE.0 {
            partition.error_code = code.0;
        }
    }
}

fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: OffsetCommitResponse<'_> = to.decode(frame)?;
    refuse_rest(&mut response.topics, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    Some(to.encode(&response, Vec::new()))
}
