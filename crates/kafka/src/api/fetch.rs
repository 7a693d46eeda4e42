//! Fetch: stored batches back to consumers, untouched when they are record batches, converted when another tongue wrote
//! them. Waits (a long poll) until there is enough or the time is over. Fetch sessions are never kept: the session id
//! is always 0, which tells clients to ask in full each time (KIP-227).

mod select;

use std::time::Duration;

use broker::partition::Watched;
use broker::{BrokerError, CallId, Cx};
use model::{LogId, Mono, Offset, ReadError};

use super::asker::log_of;
use super::{Asker, Row, Waiting, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Pieces, Text, Uuid, messages};

use select::{Selection, select};

pub(crate) static ROW: Row = row_of((1, "Fetch"), 4..=18, 12, handle);

messages! {
    FetchRequest<'a> {
        cluster_id: Option<Text<'a>>, 12+ null 12 tag 0;
        replica_id: i32, 0-14 or -1;
        replica_state: ReplicaState, 15+ tag 1;
        max_wait_ms: i32, 0+;
        min_bytes: i32, 0+;
        max_bytes: i32, 3+ or i32::MAX;
        isolation_level: i8, 4+;
        session_id: i32, 7+;
        session_epoch: i32, 7+ or -1;
        topics: Vec<FetchTopic<'a>>, 0+;
        forgotten_topics_data: Vec<ForgottenTopic<'a>>, 7+;
        rack_id: Text<'a>, 11+;
    }
    ReplicaState {
        replica_id: i32, 15+ or -1;
        replica_epoch: i64, 15+ or -1;
    }
    FetchTopic<'a> {
        topic: Text<'a>, 0-12;
        topic_id: Uuid, 13+;
        partitions: Vec<FetchPartition>, 0+;
    }
    FetchPartition {
        partition: i32, 0+;
        current_leader_epoch: i32, 9+ or -1;
        fetch_offset: i64, 0+;
        last_fetched_epoch: i32, 12+ or -1;
        log_start_offset: i64, 5+ or -1;
        partition_max_bytes: i32, 0+;
        replica_directory_id: Uuid, 17+ tag 0;
        high_watermark: i64, 18+ tag 1 or i64::MAX;
    }
    ForgottenTopic<'a> {
        topic: Text<'a>, 7-12;
        topic_id: Uuid, 13+;
        partitions: Vec<i32>, 7+;
    }
    FetchResponse<'a> {
        throttle_time_ms: i32, 1+;
        error_code: i16, 7+;
        session_id: i32, 7+;
        topics: Vec<FetchedTopic<'a>>, 0+;
        node_endpoints: Vec<super::produce::NodeEndpoint<'a>>, 16+ tag 0;
    }
    FetchedTopic<'a> {
        topic: Text<'a>, 0-12;
        topic_id: Uuid, 13+;
        partitions: Vec<FetchedPartition>, 0+;
    }
    FetchedPartition {
        partition_index: i32, 0+;
        error_code: i16, 0+;
        high_watermark: i64, 0+;
        last_stable_offset: i64, 4+ or -1;
        log_start_offset: i64, 5+ or -1;
        diverging_epoch: EpochEndOffset, 12+ tag 0;
        current_leader: super::produce::LeaderIdAndEpoch, 12+ tag 1;
        snapshot_id: SnapshotId, 12+ tag 2;
        aborted_transactions: Option<Vec<AbortedTransaction>>, 4+ null 4;
        preferred_read_replica: i32, 11+ or -1;
        records: Option<Pieces>, 0+ null 0;
    }
    EpochEndOffset {
        epoch: i32, 12+ or -1;
        end_offset: i64, 12+ or -1;
    }
    SnapshotId {
        end_offset: i64, 0+ or -1;
        epoch: i32, 0+ or -1;
    }
    AbortedTransaction {
        producer_id: i64, 4+;
        first_offset: i64, 4+;
    }
}

/// The epochs that ask for everything: the first of a session, and "no session".
const FULL_EPOCHS: std::ops::RangeInclusive<i32> = -1..=0;

/// How long data that must come from a cold disk may keep a client waiting beyond its own time: an empty answer would
/// only make it ask again for the same read.
const COLD_WAIT: Duration = Duration::from_secs(10);

/// A fetch under way: everything needed to try it again.
pub(crate) struct Plan {
    pub deadline: Mono,
    call: CallId,
    /// Set once the client's own time is over and only a cold read is waited for.
    is_overdue: bool,
    is_watching: bool,
    /// Set once even the wait for the cold read is over.
    has_given_up: bool,
    min_bytes: usize,
    max_bytes: usize,
    topics: Vec<PlanTopic>,
}

struct PlanTopic {
    name: String,
    id: Uuid,
    partitions: Vec<PlanPartition>,
}

struct PlanPartition {
    index: i32,
    log: Result<LogId, ErrorCode>,
    from: i64,
    max_bytes: usize,
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: FetchRequest<'_> = call.read_body()?;
    if !FULL_EPOCHS.contains(&request.session_epoch) {
        let error_code = ErrorCode::FETCH_SESSION_ID_NOT_FOUND.0;
        return Ok(asker.reply(call.to, &FetchResponse { error_code, ..FetchResponse::default() }));
    }
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let plan = Plan {
        deadline: cx.now.mono.plus(wait),
        call: asker.calls.next(),
        is_overdue: wait.is_zero(),
        is_watching: false,
        has_given_up: false,
        min_bytes: bytes_of(request.min_bytes),
        max_bytes: bytes_of(request.max_bytes).min(asker.settings.fetch_bytes_max),
        topics: request.topics.iter().map(|topic| plan_topic(asker, cx, topic)).collect(),
    };
    Ok(attempt(asker, cx, call.to, Box::new(plan)))
}

fn bytes_of(asked: i32) -> usize {
    usize::try_from(asked).unwrap_or(0)
}

fn plan_topic(asker: &Asker, cx: &Cx<'_>, topic: &FetchTopic<'_>) -> PlanTopic {
    let by_id = topic.topic.is_empty();
    let (info, unknown) = match by_id {
        true => (asker.topic_by_id(cx.broker, topic.topic_id), ErrorCode::UNKNOWN_TOPIC_ID),
        false => (asker.topic(cx.broker, &topic.topic), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    };
    let partitions = topic.partitions.iter().map(|partition| PlanPartition {
        index: partition.partition,
        log: match info {
            None => Err(unknown),
            // One node has led everything from epoch 0 on.
            Some(_) if partition.current_leader_epoch > 0 => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
            Some(info) => log_of(info, partition.partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        },
        from: partition.fetch_offset,
        max_bytes: bytes_of(partition.partition_max_bytes),
    });
    PlanTopic { name: topic.topic.to_string(), id: topic.topic_id, partitions: partitions.collect() }
}

/// Goes on with a fetch that waited.
pub(crate) fn resume(asker: &mut Asker, cx: &mut Cx<'_>, to: ReplyTo, mut plan: Box<Plan>, is_overdue: bool) -> Answer {
    if std::mem::take(&mut plan.is_watching) {
        cx.broker.unwatch(asker.peer.session, plan.call);
    }
    if is_overdue {
        if plan.is_overdue {
            // Even the cold read has had its time.
            plan.has_given_up = true;
        }
        plan.is_overdue = true;
    }
    attempt(asker, cx, to, plan)
}

/// What one try has found.
#[derive(Default)]
struct Found {
    bytes: usize,
    has_error: bool,
    pending: bool,
    watched: Vec<Watched>,
}

fn attempt(asker: &mut Asker, cx: &mut Cx<'_>, to: ReplyTo, mut plan: Box<Plan>) -> Answer {
    let mut found = Found::default();
    let mut topics = Vec::with_capacity(plan.topics.len());
    for topic in &plan.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            partitions.push(fetch_partition(asker, cx, &plan, partition, &mut found));
        }
        topics.push((topic, partitions));
    }
    let nothing_to_wait_for = found.has_error || found.watched.is_empty() && !found.pending;
    // An empty answer would be a lie while the disk is still asked, even to a reader that does not want to wait.
    let cold = found.pending && found.bytes == 0 && !plan.has_given_up;
    let enough = found.bytes >= plan.min_bytes || plan.is_overdue;
    if nothing_to_wait_for || (enough && !cold) {
        let topics = topics.into_iter().map(|(topic, partitions)| FetchedTopic {
            topic: Text::Borrowed(&topic.name),
            topic_id: topic.id,
            partitions,
        });
        let response = FetchResponse { topics: topics.collect(), ..FetchResponse::default() };
        return asker.reply(to, &response);
    }
    drop(topics);
    if plan.is_overdue {
        plan.deadline = cx.now.mono.plus(COLD_WAIT);
    } else {
        plan.is_watching = true;
        cx.broker.watch(asker.peer.session, plan.call, &found.watched);
    }
    Answer::Later(plan.call, Waiting::Fetch(plan))
}

fn fetch_partition(
    asker: &Asker,
    cx: &mut Cx<'_>,
    plan: &Plan,
    partition: &PlanPartition,
    found: &mut Found,
) -> FetchedPartition {
    match read(asker, cx, plan, partition, found) {
        Ok(fetched) => fetched,
        Err(code) => {
            found.has_error = true;
            FetchedPartition {
                partition_index: partition.index,
                error_code: code.0,
                high_watermark: -1,
                records: Some(Pieces::default()),
                ..FetchedPartition::default()
            }
        }
    }
}

fn read(
    asker: &Asker,
    cx: &mut Cx<'_>,
    plan: &Plan,
    partition: &PlanPartition,
    found: &mut Found,
) -> Result<FetchedPartition, ErrorCode> {
    let log = partition.log?;
    let from = u64::try_from(partition.from).map(Offset).map_err(|_| ErrorCode::OFFSET_OUT_OF_RANGE)?;
    let room = plan.max_bytes.saturating_sub(found.bytes).min(partition.max_bytes);
    let fetched = cx
        .broker
        .fetch(asker.peer.session, plan.call, log, from, room)
        .map_err(|error: BrokerError| ErrorCode::from(&error))?;
    found.pending |= fetched.pending;
    // The first batch of the answer is served however large it is: a reader must get past it.
    let selection = Selection { from, bytes_max: room, first_whole: found.bytes == 0 };
    let pieces = select(cx.broker.formats(), &fetched.chunks, selection).map_err(|error| {
        tracing::warn!(%log, %from, %error, "stored units cannot be served as record batches");
        ErrorCode::CORRUPT_MESSAGE
    })?;
    found.bytes += pieces.0.iter().map(bytes::Bytes::len).sum::<usize>();
    found.watched.push(Watched { log, from: fetched.end.max(from) });
    Ok(FetchedPartition {
        partition_index: partition.index,
        high_watermark: fetched.end.0 as i64,
        last_stable_offset: fetched.end.0 as i64,
        log_start_offset: fetched.start.0 as i64,
        aborted_transactions: None,
        records: Some(pieces),
        ..FetchedPartition::default()
    })
}
