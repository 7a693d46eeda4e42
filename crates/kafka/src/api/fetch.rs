//! Fetch: stored batches back to consumers, untouched when they are record batches, converted when another tongue wrote
//! them. Waits (a long poll) until there is enough or the time is over.

mod select;
mod session;

use std::time::Duration;

use broker::partition::{Fetched, ToSend, Watched};
use broker::{BrokerError, CallId, Cx, Part, Piece};
use model::{LogId, Mono, Offset, ReadError};

use super::asker::led_log;
use super::{Asker, READ, Row, Waiting, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::format::TAG;
use crate::pending::Answer;
use crate::wire::{Pieces, Text, Uuid, messages};

use select::{Selection, is_in_place, select};
pub(crate) use session::FetchSession;

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

/// The epoch of a request that asks for everything and wants no session, or no more.
const NO_SESSION_EPOCH: i32 = -1;
/// The epoch of a request that asks for everything and begins a session.
const FIRST_EPOCH: i32 = 0;

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
    /// What to read; nothing when a session says it.
    topics: Vec<PlanTopic>,
    session: PlanSession,
}

/// What a fetch has to do with sessions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlanSession {
    /// Nothing.
    None,
    /// It begins one.
    Begins,
    /// It goes on with the one of this id.
    GoesOn(i32),
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
    let (session, wait_for) = match request.session_epoch {
        FIRST_EPOCH => (PlanSession::Begins, asker.calls.next()),
        NO_SESSION_EPOCH => {
            if request.session_id != 0 {
                session::close(asker, cx.broker);
            }
            (PlanSession::None, asker.calls.next())
        }
        _ => match session::take(asker, cx, &request) {
            Ok(call) => (PlanSession::GoesOn(request.session_id), call),
            Err(code) => return Ok(refuse(asker, call.to, code)),
        },
    };
    let topics = match session {
        PlanSession::GoesOn(_) => Vec::new(),
        _ => request.topics.iter().map(|topic| plan_topic(asker, cx, topic)).collect(),
    };
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let plan = Plan {
        deadline: cx.now.mono.plus(wait),
        call: wait_for,
        is_overdue: wait.is_zero(),
        is_watching: false,
        has_given_up: false,
        min_bytes: bytes_of(request.min_bytes),
        max_bytes: bytes_of(request.max_bytes).min(asker.settings.fetch_bytes_max),
        topics,
        session,
    };
    Ok(attempt(asker, cx, call.to, Box::new(plan)))
}

fn refuse(asker: &mut Asker, to: ReplyTo, code: ErrorCode) -> Answer {
    asker.reply(to, &FetchResponse { error_code: code.0, ..FetchResponse::default() })
}

fn respond(asker: &mut Asker, to: ReplyTo, topics: Vec<FetchedTopic<'_>>, session_id: i32) -> Answer {
    asker.reply(to, &FetchResponse { topics, session_id, ..FetchResponse::default() })
}

fn bytes_of(asked: i32) -> usize {
    usize::try_from(asked).unwrap_or(0)
}

fn plan_topic(asker: &Asker, cx: &Cx<'_>, topic: &FetchTopic<'_>) -> PlanTopic {
    let by_id = topic.topic.is_empty();
    let info = match by_id {
        true => asker.topic_by_id(cx.broker, topic.topic_id, READ),
        false => asker.topic(cx.broker, &topic.topic, READ),
    };
    let partitions = topic.partitions.iter().map(|partition| PlanPartition {
        index: partition.partition,
        log: info.and_then(|info| led_log(info, partition.partition, partition.current_leader_epoch)),
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

impl Plan {
    /// Bytes of memory it takes, about.
    pub fn bytes(&self) -> usize {
        let topics = self.topics.iter().map(|topic| {
            size_of::<PlanTopic>() + topic.name.len() + topic.partitions.len() * size_of::<PlanPartition>()
        });
        topics.sum()
    }

    /// Whether what was found is the answer; else it is waited for more.
    fn is_answered(&self, found: &Found, has_partitions: bool) -> bool {
        let nothing_to_wait_for = found.has_error || !has_partitions && !found.pending;
        // An empty answer would be a lie while the disk is still asked, even to a reader that does not want to wait.
        let cold = found.pending && found.bytes == 0 && !self.has_given_up;
        let enough = found.bytes >= self.min_bytes || self.is_overdue;
        nothing_to_wait_for || (enough && !cold)
    }

    /// Begins to wait. Answers whether also for something new, and not only for the disk.
    fn wait(&mut self, now: Mono) -> bool {
        if self.is_overdue {
            self.deadline = now.plus(COLD_WAIT);
        }
        !self.is_overdue
    }
}

fn attempt(asker: &mut Asker, cx: &mut Cx<'_>, to: ReplyTo, mut plan: Box<Plan>) -> Answer {
    if let PlanSession::GoesOn(id) = plan.session {
        return session::attempt(asker, cx, to, plan, id);
    }
    let mut found = Found::default();
    let mut topics = Vec::with_capacity(plan.topics.len());
    for topic in &plan.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            partitions.push(fetch_partition(asker, cx, &plan, partition, &mut found));
        }
        topics.push((topic, partitions));
    }
    if plan.is_answered(&found, !found.watched.is_empty()) {
        let topics = topics.into_iter().map(|(topic, partitions)| FetchedTopic {
            topic: Text::Owned(topic.name.clone()),
            topic_id: topic.id,
            partitions,
        });
        let topics: Vec<FetchedTopic<'_>> = topics.collect();
        let session_id = match plan.session {
            PlanSession::Begins => session::open(asker, cx, &mut plan, &topics),
            _ => 0,
        };
        return respond(asker, to, topics, session_id);
    }
    drop(topics);
    if plan.wait(cx.now.mono) {
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
    let room = plan.max_bytes.min(cx.out.room()).saturating_sub(found.bytes).min(partition.max_bytes);
    if room == 0 && found.bytes > 0 {
        // The answer is full: what there is is told, and nothing read in vain.
        let bounds = cx.broker.bounds(log).map_err(|error| ErrorCode::from(&error))?;
        if from < bounds.start || from > bounds.end {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        found.watched.push(Watched { log, from: bounds.end });
        return Ok(answered(partition.index, (bounds.start, bounds.end), Pieces::default()));
    }
    let refused = |error: BrokerError| ErrorCode::from(&error);
    let wanted = ToSend { log, from, bytes_max: room, format: TAG };
    let mut fetched = cx.broker.fetch_to_send(asker.peer.session, plan.call, &wanted).map_err(refused)?;
    if !fetched.chunks.iter().all(is_in_place) {
        let read = cx.broker.fetch(asker.peer.session, plan.call, log, from, room).map_err(refused)?;
        let chunks = read.chunks.into_iter().map(Part::Chunk).collect();
        fetched = Fetched { chunks, pending: read.pending, start: read.start, end: read.end };
    }
    found.pending |= fetched.pending;
    // The first batch of the answer is served however large it is: a reader must get past it.
    let selection = Selection { from, bytes_max: room, first_whole: found.bytes == 0 };
    let pieces = select(cx.broker.formats(), fetched.chunks, selection).map_err(|error| {
        tracing::warn!(%log, %from, %error, "stored units cannot be served as record batches");
        ErrorCode::CORRUPT_MESSAGE
    })?;
    found.bytes += pieces.0.iter().map(Piece::len).sum::<usize>();
    found.watched.push(Watched { log, from: fetched.end.max(from) });
    Ok(answered(partition.index, (fetched.start, fetched.end), pieces))
}

fn answered(index: i32, (start, end): (Offset, Offset), pieces: Pieces) -> FetchedPartition {
    FetchedPartition {
        partition_index: index,
        high_watermark: end.0 as i64,
        last_stable_offset: end.0 as i64,
        log_start_offset: start.0 as i64,
        aborted_transactions: None,
        records: Some(pieces),
        ..FetchedPartition::default()
    }
}
