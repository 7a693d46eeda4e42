//! DeleteRecords: removes what lies before an offset, partition by partition.

use broker::topic::TopicInfo;
use broker::{Cx, Lsn, SyncPolicy};
use model::{LogId, Offset, ReadError};

use super::asker::log_of;
use super::{Asker, CONFIGURE, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, messages};

pub(crate) static ROW: Row = row_of((21, "DeleteRecords"), 0..=2, 2, handle);

messages! {
    DeleteRecordsRequest<'a> {
        topics: Vec<TrimmedTopic<'a>>, 0+;
        timeout_ms: i32, 0+;
    }
    TrimmedTopic<'a> {
        name: Text<'a>, 0+;
        partitions: Vec<TrimmedPartition>, 0+;
    }
    TrimmedPartition {
        partition_index: i32, 0+;
        offset: i64, 0+;
    }
    DeleteRecordsResponse<'a> {
        throttle_time_ms: i32, 0+;
        topics: Vec<TrimOutcomes<'a>>, 0+;
    }
    TrimOutcomes<'a> {
        name: Text<'a>, 0+;
        partitions: Vec<TrimOutcome>, 0+;
    }
    TrimOutcome {
        partition_index: i32, 0+;
        low_watermark: i64, 0+;
        error_code: i16, 0+;
    }
}

/// What stands for "all there is".
const ALL: i64 = -1;

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: DeleteRecordsRequest<'_> = call.read_body()?;
    let mut gate = None;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let found = find(asker, cx, &topic.name);
        let partitions = topic.partitions.iter().map(|partition| {
            let index = partition.partition_index;
            let log = found.as_ref().map_err(|code| *code).and_then(|info| log_of(info, index));
            match log.and_then(|log| trim(cx, log, partition.offset)) {
                Ok((start, lsn)) => {
                    gate = gate.max(Some(lsn));
                    TrimOutcome { partition_index: index, low_watermark: start.0 as i64, error_code: 0 }
                }
                Err(code) => refused(index, code),
            }
        });
        topics.push(TrimOutcomes { name: topic.name.clone(), partitions: partitions.collect() });
    }
    let response = DeleteRecordsResponse { topics, ..DeleteRecordsResponse::default() };
    Ok(asker.reply_gated(call.to, &response, gate.map(|lsn: Lsn| Gate::of(SyncPolicy::Sync, lsn)), fail))
}

/// A topic from which records may be removed.
fn find(asker: &Asker, cx: &Cx<'_>, name: &str) -> Result<TopicInfo, ErrorCode> {
    let info = asker.topic(cx.broker, name, CONFIGURE)?;
    if info.internal {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    let config = cx.broker.topic_config(&asker.settings.tenant, name).map_err(|error| ErrorCode::from(&error))?;
    let policy = config.iter().find(|entry| entry.name == "cleanup.policy").map_or("", |entry| entry.value.as_str());
    let has = |word| policy.split(',').any(|one| one == word);
    // What only compaction may remove would be missing from the state that the records tell.
    if has("compact") && !has("delete") { Err(ErrorCode::POLICY_VIOLATION) } else { Ok(info.clone()) }
}

fn trim(cx: &mut Cx<'_>, log: LogId, offset: i64) -> Result<(Offset, Lsn), ErrorCode> {
    let before = match offset {
        ALL => None,
        offset => Some(Offset(u64::try_from(offset).map_err(|_| ErrorCode::OFFSET_OUT_OF_RANGE)?)),
    };
    cx.broker.trim(log, before, cx.now).map_err(|error| ErrorCode::from(&error))
}

fn refused(partition_index: i32, code: ErrorCode) -> TrimOutcome {
    TrimOutcome { partition_index, low_watermark: -1, error_code: code.0 }
}

fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: DeleteRecordsResponse<'_> = to.decode(frame)?;
    for outcome in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if outcome.error_code == ErrorCode::NONE.0 {
            *outcome = refused(outcome.partition_index, ErrorCode::KAFKA_STORAGE_ERROR);
        }
    }
    Some(to.encode(&response, Vec::new()))
}
