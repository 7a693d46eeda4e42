//! OffsetDelete: some of a group's committed offsets are forgotten; of a group of consumers that is in use only those
//! of topics that no member subscribes to (KIP-496).

use broker::group::{GroupInfo, GroupState};
use broker::{Cx, Lsn, SyncPolicy};
use model::{ByteReader, Name, ReadError};

use super::asker::{log_of, once};
use super::{Asker, CONFIGURE, READ, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Form, Sink, Text, Wire, messages};

// Never flexible: there is but one version.
pub(crate) static ROW: Row = row_of((47, "OffsetDelete"), 0..=0, 1, handle);

messages! {
    OffsetDeleteRequest<'a> {
        group_id: Text<'a>, 0+;
        topics: Vec<OffsetDeleteTopic<'a>>, 0+;
    }
    OffsetDeleteTopic<'a> {
        name: Text<'a>, 0+;
        partitions: Vec<OffsetDeletePartition>, 0+;
    }
    OffsetDeletePartition {
        partition_index: i32, 0+;
    }
    OffsetDeleteResponse<'a> {
        error_code: i16, 0+;
        throttle_time_ms: i32, 0+;
        topics: Vec<OffsetDeletedTopic<'a>>, 0+;
    }
    OffsetDeletedTopic<'a> {
        name: Text<'a>, 0+;
        partitions: Vec<OffsetDeletedPartition>, 0+;
    }
    OffsetDeletedPartition {
        partition_index: i32, 0+;
        error_code: i16, 0+;
    }
}

/// What consumers call the kind of their groups, and the only one of which a broker knows what members subscribe to.
const CONSUMERS: &str = "consumer";

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: OffsetDeleteRequest<'_> = call.read_body()?;
    Ok(match delete(asker, cx, &request) {
        Ok((topics, stored)) => {
            let response = OffsetDeleteResponse { topics, ..OffsetDeleteResponse::default() };
            asker.reply_gated(call.to, &response, Some(Gate::of(SyncPolicy::None, stored)), fail)
        }
        Err(code) => {
            let response = OffsetDeleteResponse { error_code: code.0, ..OffsetDeleteResponse::default() };
            asker.reply(call.to, &response)
        }
    })
}

fn delete<'a>(
    asker: &Asker,
    cx: &mut Cx<'_>,
    request: &OffsetDeleteRequest<'a>,
) -> Result<(Vec<OffsetDeletedTopic<'a>>, Lsn), ErrorCode> {
    let group = &*request.group_id;
    asker.may_use_group(cx.broker, group, CONFIGURE)?;
    let info = cx.broker.describe_group(group);
    let used = match info.state {
        _ if group.is_empty() => return Err(ErrorCode::INVALID_GROUP_ID),
        GroupState::Dead => return Err(ErrorCode::GROUP_ID_NOT_FOUND),
        GroupState::Empty => Subscribed::To(Vec::new()),
        _ if info.protocol_type != CONSUMERS => return Err(ErrorCode::NON_EMPTY_GROUP),
        _ => subscribed(&info),
    };
    let (mut topics, mut which) = (Vec::with_capacity(request.topics.len()), Vec::new());
    for topic in once(&request.topics, |topic| &*topic.name) {
        let found = asker.topic(cx.broker, &topic.name, READ);
        let name = Name::new(&topic.name).map_err(|_| ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        let partitions = once(&topic.partitions, |partition| partition.partition_index).map(|partition| {
            let index = partition.partition_index;
            let checked = found.and_then(|info| log_of(info, index)).and_then(|_| match used.has(&topic.name) {
                true => Err(ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC),
                false => name.clone(),
            });
            let checked = checked.map(|name| which.push((name, index as u32))); // it has a log, so it is a number
            OffsetDeletedPartition { partition_index: index, error_code: checked.err().unwrap_or_default().0 }
        });
        topics.push(OffsetDeletedTopic { name: topic.name.clone(), partitions: partitions.collect() });
    }
    let stored = cx.broker.delete_offsets(group, &which, cx.now).map_err(|error| ErrorCode::from(&error))?;
    Ok((topics, stored))
}

/// What the members of a group read.
enum Subscribed {
    /// It is not known: anything, perhaps.
    Unknown,
    To(Vec<String>),
}

impl Subscribed {
    fn has(&self, topic: &str) -> bool {
        match self {
            Subscribed::Unknown => true,
            Subscribed::To(topics) => topics.iter().any(|one| one == topic),
        }
    }
}

/// What members said when they joined.
fn subscribed(info: &GroupInfo) -> Subscribed {
    let mut all = Vec::new();
    for member in &info.members {
        match topics_of(&member.metadata) {
            Some(mut topics) => all.append(&mut topics),
            None => return Subscribed::Unknown, // the group is not stable, or it is no consumer's word
        }
    }
    all.sort_unstable();
    all.dedup();
    Subscribed::To(all)
}

/// The front of what a consumer says of itself, which has been the same in all versions: version, topics.
fn topics_of(metadata: &[u8]) -> Option<Vec<String>> {
    let mut reader = ByteReader::new(metadata);
    let version = reader.i16().ok()?;
    let topics: Vec<Text<'_>> = Wire::read(&mut reader, Form::new(0, false)).ok()?;
    (version >= 0).then(|| topics.into_iter().map(Text::into_owned).collect())
}

/// The journal failed before it was stored that they are forgotten.
fn fail(to: ReplyTo, _: &[u8]) -> Option<Sink> {
    let error_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0;
    Some(to.encode(&OffsetDeleteResponse { error_code, ..OffsetDeleteResponse::default() }, Vec::new()))
}
