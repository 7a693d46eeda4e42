//! OffsetFetch: what groups have committed; null topics ask for everything. Several groups at once from version 8 on.

use std::collections::{BTreeMap, HashSet};

use broker::group::{Committed, MemberRef};
use broker::{Broker, Cx};
use model::ReadError;

use super::{Asker, Row, Using, row_of};
use crate::call::Call;
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Text, Uuid, messages};

pub(crate) static ROW: Row = row_of((9, "OffsetFetch"), 1..=10, 6, handle);

messages! {
    OffsetFetchRequest<'a> {
        group_id: Text<'a>, 0-7;
        topics: Option<Vec<FetchTopic<'a>>>, 0-7 null 2;
        groups: Vec<FetchGroup<'a>>, 8+;
        require_stable: bool, 7+;
    }
    FetchGroup<'a> {
        group_id: Text<'a>, 8+;
        member_id: Option<Text<'a>>, 9+ null 9;
        member_epoch: i32, 9+ or -1;
        topics: Option<Vec<FetchTopic<'a>>>, 8+ null 8;
    }
    FetchTopic<'a> {
        name: Text<'a>, 0-9;
        topic_id: Uuid, 10+;
        partition_indexes: Vec<i32>, 0+;
    }
    OffsetFetchResponse<'a> {
        throttle_time_ms: i32, 3+;
        topics: Vec<FetchedTopic<'a>>, 0-7;
        error_code: i16, 2-7;
        groups: Vec<FetchedGroup<'a>>, 8+;
    }
    FetchedGroup<'a> {
        group_id: Text<'a>, 8+;
        topics: Vec<FetchedTopic<'a>>, 8+;
        error_code: i16, 8+;
    }
    FetchedTopic<'a> {
        name: Text<'a>, 0-9;
        topic_id: Uuid, 10+;
        partitions: Vec<FetchedPartition<'a>>, 0+;
    }
    FetchedPartition<'a> {
        partition_index: i32, 0+;
        committed_offset: i64, 0+;
        committed_leader_epoch: i32, 5+ or -1;
        metadata: Option<Text<'a>>, 0+ null 0;
        error_code: i16, 0+;
    }
}

/// Topics are named by id from here on.
const BY_ID_SINCE: i16 = 10;

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: OffsetFetchRequest<'_> = call.read_body()?;
    if call.version() >= 8 {
        // All of a group is asked for in a few bytes: once is enough.
        let mut whole = HashSet::new();
        let groups = request.groups.iter().filter(|group| group.topics.is_some() || whole.insert(&*group.group_id));
        let groups = groups.map(|group| fetch_group(asker, cx.broker, group, call.version()));
        let response = OffsetFetchResponse { groups: groups.collect(), ..OffsetFetchResponse::default() };
        return Ok(asker.reply(call.to, &response));
    }
    let group =
        FetchGroup { group_id: request.group_id, member_epoch: -1, topics: request.topics, ..FetchGroup::default() };
    let fetched = fetch_group(asker, cx.broker, &group, call.version());
    let mut response = OffsetFetchResponse {
        topics: fetched.topics,
        error_code: fetched.error_code,
        ..OffsetFetchResponse::default()
    };
    if call.version() < 2 && fetched.error_code != 0 {
        // Version 1 has only the partitions' codes.
        for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            partition.error_code = fetched.error_code;
        }
    }
    Ok(asker.reply(call.to, &response))
}

fn fetch_group<'a>(asker: &Asker, broker: &'a Broker, group: &FetchGroup<'a>, version: i16) -> FetchedGroup<'a> {
    let group_id = group.group_id.clone();
    let seen = asker.may_use_group(broker, &group_id, Using::Seeing);
    if let Err(code) = seen.and_then(|()| check(broker, group)) {
        let topics = group.topics.as_deref().unwrap_or_default().iter();
        let topics = topics.filter(|_| version < 2).map(|topic| refuse_topic(topic, code));
        return FetchedGroup { group_id, topics: topics.collect(), error_code: code.0 };
    }
    let topics = match &group.topics {
        Some(topics) => {
            topics.iter().map(|topic| fetch_topic(asker, broker, &group.group_id, topic, version)).collect()
        }
        None => fetch_all(asker, broker, &group.group_id, version),
    };
    FetchedGroup { group_id, topics, error_code: ErrorCode::NONE.0 }
}

/// Members of the newer protocol say who they are.
fn check(broker: &Broker, group: &FetchGroup<'_>) -> Result<(), ErrorCode> {
    let Some(member) = group.member_id.as_deref().filter(|member| !member.is_empty()) else {
        return Ok(());
    };
    if group.member_epoch < 0 {
        return Ok(());
    }
    let who = MemberRef { group: &group.group_id, member, instance: None, generation: group.member_epoch };
    broker.check_member(who).map_err(|error| ErrorCode::from(&error))
}

fn fetch_topic<'a>(
    asker: &Asker,
    broker: &'a Broker,
    group: &str,
    topic: &FetchTopic<'a>,
    version: i16,
) -> FetchedTopic<'a> {
    let name = match version >= BY_ID_SINCE {
        true => match asker.topic_by_id(broker, topic.topic_id, Using::Seeing) {
            Ok(info) => info.name.as_str(),
            Err(code) => return refuse_topic(topic, code),
        },
        false => match asker.may_use(broker, &topic.name, Using::Seeing) {
            Ok(()) => &*topic.name,
            Err(code) => return refuse_topic(topic, code),
        },
    };
    let partitions = topic.partition_indexes.iter().map(|index| {
        let committed = u32::try_from(*index).ok().and_then(|partition| broker.committed(group, name, partition));
        match committed {
            Some(committed) => fetched(*index, committed),
            None => nothing(*index, ErrorCode::NONE),
        }
    });
    FetchedTopic { name: topic.name.clone(), topic_id: topic.topic_id, partitions: partitions.collect() }
}

fn refuse_topic<'a>(topic: &FetchTopic<'a>, code: ErrorCode) -> FetchedTopic<'a> {
    let partitions = topic.partition_indexes.iter().map(|index| nothing(*index, code));
    FetchedTopic { name: topic.name.clone(), topic_id: topic.topic_id, partitions: partitions.collect() }
}

fn fetch_all<'a>(asker: &Asker, broker: &'a Broker, group: &str, version: i16) -> Vec<FetchedTopic<'a>> {
    let mut by_topic: BTreeMap<String, Vec<FetchedPartition<'a>>> = BTreeMap::new();
    for (topic, partition, committed) in broker.all_committed(group) {
        by_topic.entry(topic.to_string()).or_default().push(fetched(partition as i32, committed));
    }
    let topics = by_topic.into_iter().filter_map(|(name, partitions)| {
        let found = asker.topic(broker, &name, Using::Seeing);
        if found == Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED) {
            return None;
        }
        let topic_id = found.ok().map(|info| info.id.0);
        // By id nothing can be said of a topic that is gone.
        let topic_id = if version >= BY_ID_SINCE { topic_id? } else { [0; 16] };
        Some(FetchedTopic { name: Text::Owned(name), topic_id, partitions })
    });
    topics.collect()
}

fn fetched(partition_index: i32, committed: &Committed) -> FetchedPartition<'_> {
    FetchedPartition {
        partition_index,
        committed_offset: committed.offset.0 as i64,
        committed_leader_epoch: committed.leader_epoch,
        metadata: Some(Text::Borrowed(&committed.metadata)),
        error_code: ErrorCode::NONE.0,
    }
}

fn nothing(partition_index: i32, code: ErrorCode) -> FetchedPartition<'static> {
    FetchedPartition {
        partition_index,
        committed_offset: -1,
        metadata: Some(Text::Borrowed("")),
        error_code: code.0,
        ..FetchedPartition::default()
    }
}
