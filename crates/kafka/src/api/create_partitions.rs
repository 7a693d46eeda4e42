//! CreatePartitions: adds partitions to topics, or only checks whether they could be added.

use std::collections::HashSet;

use broker::topic::PARTITIONS_MAX;
use broker::{Cx, Lsn, SyncPolicy};
use model::ReadError;

use super::asker::{error_text, twice};
use super::{Asker, CONFIGURE, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, messages};

pub(crate) static ROW: Row = row_of((37, "CreatePartitions"), 0..=3, 2, handle);

messages! {
    CreatePartitionsRequest<'a> {
        topics: Vec<GrowingTopic<'a>>, 0+;
        timeout_ms: i32, 0+;
        validate_only: bool, 0+;
    }
    GrowingTopic<'a> {
        name: Text<'a>, 0+;
        count: i32, 0+;
        assignments: Option<Vec<NewPartition>>, 0+ null 0;
    }
    NewPartition {
        broker_ids: Vec<i32>, 0+;
    }
    CreatePartitionsResponse<'a> {
        throttle_time_ms: i32, 0+;
        results: Vec<GrownTopic<'a>>, 0+;
    }
    GrownTopic<'a> {
        name: Text<'a>, 0+;
        error_code: i16, 0+;
        error_message: Option<Text<'a>>, 0+ null 0;
    }
}

/// Why a topic stays as it is.
type Refusal = (ErrorCode, String);

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: CreatePartitionsRequest<'_> = call.read_body()?;
    let twice = twice(request.topics.iter().map(|topic| &*topic.name));
    let mut told = HashSet::new();
    let mut gate: Option<Lsn> = None;
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let grown = if twice.contains(&*topic.name) {
            if !told.insert(&*topic.name) {
                continue;
            }
            Err((ErrorCode::INVALID_REQUEST, "the request names the topic more than once".to_owned()))
        } else {
            grow(asker, cx, topic, request.validate_only)
        };
        let refused = match grown {
            Ok(lsn) => {
                gate = gate.max(Some(lsn));
                None
            }
            Err(refusal) => Some(refusal),
        };
        results.push(GrownTopic {
            name: topic.name.clone(),
            error_code: refused.as_ref().map_or(ErrorCode::NONE, |(code, _)| *code).0,
            error_message: refused.and_then(|(_, text)| error_text(&text)),
        });
    }
    let response = CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() };
    Ok(asker.reply_gated(call.to, &response, gate.map(|lsn| Gate::of(SyncPolicy::Sync, lsn)), fail))
}

fn grow(asker: &Asker, cx: &mut Cx<'_>, topic: &GrowingTopic<'_>, validate_only: bool) -> Result<Lsn, Refusal> {
    let found = asker.topic(cx.broker, &topic.name, CONFIGURE);
    let has = found.map_err(|code| (code, no_topic(code, &topic.name)))?.partitions.len() as i64;
    let more = i64::from(topic.count) - has;
    if more > i64::from(PARTITIONS_MAX) {
        let text = format!("the request asks for {more} more partitions; at most {PARTITIONS_MAX} are made at once");
        return Err((ErrorCode::POLICY_VIOLATION, text));
    }
    if let Some(assignments) = topic.assignments.as_deref().filter(|_| more > 0) {
        let node = asker.settings.node_id;
        let are_ours = assignments.iter().all(|assignment| assignment.broker_ids == [node]);
        if assignments.len() as i64 != more || !are_ours {
            let text = format!("an assignment names broker {node} once for each of the {more} new partitions");
            return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
        }
    }
    let of = (asker.settings.tenant.as_str(), &*topic.name);
    let grown = cx.broker.grow_topic(of, i64::from(topic.count), validate_only, cx.now);
    grown.map_err(|error| (ErrorCode::from(&error), error.to_string()))
}

fn no_topic(code: ErrorCode, name: &str) -> String {
    match code {
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => format!("topic '{name}' is not theirs to change"),
        _ => format!("no topic '{name}'"),
    }
}

fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: CreatePartitionsResponse<'_> = to.decode(frame)?;
    for topic in response.results.iter_mut().filter(|topic| topic.error_code == ErrorCode::NONE.0) {
        topic.error_code = ErrorCode::KAFKA_STORAGE_ERROR.0;
    }
    Some(to.encode(&response, Vec::new()))
}
