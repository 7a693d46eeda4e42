//! Produce: record batches into partitions. Batches are checked as borrowed bytes and stored as they came, but for the
//! times in their headers where those must be the broker's or are not true.

pub(crate) mod look;

use broker::partition::{AppendRequest, Appended, ProducerBatch};
use broker::{Cx, Lsn, SyncPolicy};
use model::{ReadError, Wall};

use self::look::Checked;
use super::asker::error_text;
use super::{Asker, Row};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::format::RecordFormat;
use crate::format::batch::{BatchError, BatchHeader, TimeKind, set_time};
use crate::format::scan::Scanned;
use crate::pending::{Answer, Gate};
use crate::wire::{RawRecords, Sink, Text, Uuid, messages};

/// The API's key.
pub(crate) const PRODUCE: i16 = 0;

/// Shown from 0, since older librdkafka take a table without it for a broker that cannot compress (KAFKA-18659); a
/// request before 3 closes the connection, as with the real broker.
pub(crate) static ROW: Row =
    Row { api: PRODUCE, name: "Produce", shown: 0..=13, served_since: 3, flexible_since: 9, handle };

messages! {
    ProduceRequest<'a> {
        transactional_id: Option<Text<'a>>, 3+ null 3;
        acks: i16, 0+;
        timeout_ms: i32, 0+;
        topics: Vec<ProduceTopic<'a>>, 0+;
    }
    ProduceTopic<'a> {
        name: Text<'a>, 0-12;
        topic_id: Uuid, 13+;
        partitions: Vec<ProducePartition<'a>>, 0+;
    }
    ProducePartition<'a> {
        index: i32, 0+;
        records: Option<RawRecords<'a>>, 0+ null 0;
    }
    ProduceResponse<'a> {
        topics: Vec<ProducedTopic<'a>>, 0+;
        throttle_time_ms: i32, 1+;
        node_endpoints: Vec<NodeEndpoint<'a>>, 10+ tag 0;
    }
    ProducedTopic<'a> {
        name: Text<'a>, 0-12;
        topic_id: Uuid, 13+;
        partitions: Vec<ProducedPartition<'a>>, 0+;
    }
    ProducedPartition<'a> {
        index: i32, 0+;
        error_code: i16, 0+;
        base_offset: i64, 0+;
        log_append_time_ms: i64, 2+ or -1;
        log_start_offset: i64, 5+ or -1;
        record_errors: Vec<RecordError<'a>>, 8+;
        error_message: Option<Text<'a>>, 8+ null 8;
        current_leader: LeaderIdAndEpoch, 10+ tag 0;
    }
    RecordError<'a> {
        batch_index: i32, 8+;
        message: Option<Text<'a>>, 8+ null 8;
    }
    LeaderIdAndEpoch {
        leader_id: i32, 10+ or -1;
        leader_epoch: i32, 10+ or -1;
    }
    NodeEndpoint<'a> {
        node_id: i32, 10+;
        host: Text<'a>, 10+;
        port: i32, 10+;
        rack: Option<Text<'a>>, 10+ null 10;
    }
}

/// Acks that mean "all".
const ACKS_ALL: i16 = -1;

/// Partitions that one request may name: each takes some hundred bytes of memory until it is answered, whatever it
/// brings.
const PARTITIONS_MAX: usize = 100_000;

/// Scratch memory that a connection keeps between two requests.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;

/// Why one partition's records were not stored.
#[derive(Default)]
struct Refusal {
    code: ErrorCode,
    text: Option<Text<'static>>,
    records: Vec<RecordError<'static>>,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal { code, ..Refusal::default() }
    }
}

/// What one request asks of all its partitions.
#[derive(Clone, Copy)]
struct Terms {
    acks_are_known: bool,
    waits_for_all: bool,
    allows_zstd: bool,
    is_transactional: bool,
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: ProduceRequest<'_> = call.read_body()?;
    if request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > PARTITIONS_MAX {
        return Ok(Answer::Close("a produce request names more than 100,000 partitions"));
    }
    let policy = if request.acks == ACKS_ALL { asker.settings.acks_all } else { asker.settings.acks_one };
    let terms = Terms {
        acks_are_known: matches!(request.acks, ACKS_ALL | 0 | 1),
        waits_for_all: request.acks == ACKS_ALL,
        allows_zstd: call.version() >= 7,
        is_transactional: request.transactional_id.is_some(),
    };
    let Some(checked) = look::checked(asker, cx, &request, terms) else {
        return Ok(Answer::Held);
    };
    let mut checked = checked.into_iter();
    let mut outcome = Outcome { gate: None, failed: false };
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let partitions = topic.partitions.iter().zip(&mut checked);
        let partitions = partitions.map(|(partition, checked)| {
            let records = partition.records.unwrap_or_default().0;
            let stored = checked.and_then(|checked| store(asker, cx, (records, &checked), policy));
            outcome.note(partition.index, stored)
        });
        let partitions = partitions.collect();
        topics.push(ProducedTopic { name: topic.name.clone(), topic_id: topic.topic_id, partitions });
    }
    if asker.scratch.capacity() > SCRATCH_BYTES_KEPT {
        asker.scratch = Vec::new();
    }
    if request.acks == 0 {
        // Nobody reads a reply; the only way to tell of a failure is to hang up.
        return Ok(if outcome.failed { Answer::Close("a produce with acks=0 failed") } else { Answer::Silent });
    }
    let response = ProduceResponse { topics, ..ProduceResponse::default() };
    let gate = outcome.gate.map(|lsn| Gate::of(policy, lsn));
    Ok(asker.reply_gated(call.to, &response, gate, fail))
}

/// What all partitions together mean for the reply.
struct Outcome {
    gate: Option<Lsn>,
    failed: bool,
}

impl Outcome {
    fn note(&mut self, index: i32, stored: Result<(Appended, i64), Refusal>) -> ProducedPartition<'static> {
        match stored {
            Ok((appended, log_append_time_ms)) => {
                self.gate = self.gate.max(Some(appended.lsn));
                ProducedPartition {
                    index,
                    base_offset: appended.base.0 as i64,
                    log_append_time_ms,
                    log_start_offset: appended.log_start.0 as i64,
                    ..ProducedPartition::default()
                }
            }
            Err(refusal) => {
                self.failed = true;
                refused(index, refusal)
            }
        }
    }
}

/// Stores one partition's batch; answers where, and the time of its append if its records carry that.
fn store(
    asker: &mut Asker,
    cx: &mut Cx<'_>,
    (records, checked): (&[u8], &Checked),
    policy: SyncPolicy,
) -> Result<(Appended, i64), Refusal> {
    let Checked { log, header, intake, scanned, .. } = checked;
    let scanned = scanned.as_ref().ok_or(ErrorCode::UNKNOWN_SERVER_ERROR)?; // it is known when this is called
    check_times(scanned, checked.times())?;
    let (kind, time_max) = match intake.has_append_time {
        true => (TimeKind::Append, cx.now.wall),
        false => (TimeKind::Create, Wall(scanned.time_max)),
    };
    // What the header says is what look-ups by time and retention go by.
    let is_true = header.has_append_time() == intake.has_append_time && header.max_time == time_max.0;
    let units = match is_true {
        true => records,
        false => {
            asker.scratch.clear();
            asker.scratch.extend_from_slice(records);
            set_time(&mut asker.scratch, kind, time_max.0);
            asker.scratch.as_slice()
        }
    };
    let request = AppendRequest {
        log: *log,
        format: &RecordFormat,
        units,
        count: header.count as u32,
        time_max,
        producer: producer_of(header),
        policy,
    };
    let appended = cx.broker.append(&request, cx.now).map_err(|error| Refusal {
        code: ErrorCode::from(&error),
        text: error_text(&error),
        records: Vec::new(),
    })?;
    Ok((appended, if intake.has_append_time { cx.now.wall.0 } else { -1 }))
}

/// Refuses records whose time is too far from the clock for the topic.
fn check_times(scanned: &Scanned, (earliest, latest): (i64, i64)) -> Result<(), Refusal> {
    if scanned.untimely.is_empty() {
        return Ok(());
    }
    let wrong = scanned.untimely.iter().map(|(number, time)| {
        let text = format!("the record's time {time} lies outside {earliest}..={latest}, which the topic allows now");
        RecordError { batch_index: *number, message: Some(Text::Owned(text)) }
    });
    let text = "records carry times that lie too far from the clock (message.timestamp.before.max.ms, after.max.ms)";
    Err(Refusal { code: ErrorCode::INVALID_TIMESTAMP, text: Some(Text::Borrowed(text)), records: wrong.collect() })
}

fn producer_of(header: &BatchHeader) -> Option<ProducerBatch> {
    (header.producer >= 0).then(|| ProducerBatch {
        id: header.producer,
        epoch: header.producer_epoch,
        first_sequence: header.first_sequence,
        last_sequence: header.last_sequence(),
    })
}

fn refusal_of(error: BatchError) -> Refusal {
    let code = match error {
        BatchError::Corrupt(_) => ErrorCode::CORRUPT_MESSAGE,
        BatchError::NotOne | BatchError::Magic(_) | BatchError::Invalid(_) => ErrorCode::INVALID_RECORD,
        BatchError::Codec(_) => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        BatchError::TooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
        BatchError::Transactional => ErrorCode::INVALID_TXN_STATE,
    };
    Refusal { code, text: error_text(&error), records: Vec::new() }
}

fn refused(index: i32, refusal: Refusal) -> ProducedPartition<'static> {
    ProducedPartition {
        index,
        error_code: refusal.code.0,
        base_offset: -1,
        record_errors: refusal.records,
        error_message: refusal.text,
        ..ProducedPartition::default()
    }
}

/// The journal failed before the records were safe.
fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: ProduceResponse<'_> = to.decode(frame)?;
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if partition.error_code == ErrorCode::NONE.0 {
            *partition = refused(partition.index, ErrorCode::KAFKA_STORAGE_ERROR.into());
        }
    }
    Some(to.encode(&response, Vec::new()))
}
