//! ListOffsets: offsets by time, and the special times: earliest, latest, that of the latest message.

use broker::partition::TimeAnswer;
use broker::{CallId, Cx};
use model::{LogId, Offset, ReadError, Wall};

use super::asker::{led_log, twice};
use super::{Asker, Row, Using, Waiting, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((2, "ListOffsets"), 1..=11, 6, handle);

messages! {
    ListOffsetsRequest<'a> {
        replica_id: i32, 0+;
        isolation_level: i8, 2+;
        topics: Vec<ListOffsetsTopic<'a>>, 0+;
        timeout_ms: i32, 10+;
    }
    ListOffsetsTopic<'a> {
        name: Text<'a>, 0+;
        partitions: Vec<ListOffsetsPartition>, 0+;
    }
    ListOffsetsPartition {
        partition_index: i32, 0+;
        current_leader_epoch: i32, 4+ or -1;
        timestamp: i64, 0+;
    }
    ListOffsetsResponse<'a> {
        throttle_time_ms: i32, 2+;
        topics: Vec<ListedTopic<'a>>, 0+;
    }
    ListedTopic<'a> {
        name: Text<'a>, 0+;
        partitions: Vec<ListedPartition>, 0+;
    }
    ListedPartition {
        partition_index: i32, 0+;
        error_code: i16, 0+;
        timestamp: i64, 1+ or -1;
        offset: i64, 1+ or -1;
        leader_epoch: i32, 4+ or -1;
    }
}

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
/// Of what lies in remote storage, and of what is to be moved there: nothing does.
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A request under way.
pub(crate) struct Plan {
    call: CallId,
    topics: Vec<PlanTopic>,
}

impl Plan {
    /// Bytes of memory it takes, about.
    pub fn bytes(&self) -> usize {
        let topics = self
            .topics
            .iter()
            .map(|topic| size_of::<PlanTopic>() + topic.name.len() + topic.partitions.len() * size_of::<Asked>());
        topics.sum()
    }
}

struct PlanTopic {
    name: String,
    partitions: Vec<Asked>,
}

struct Asked {
    index: i32,
    log: Result<LogId, ErrorCode>,
    timestamp: i64,
    /// The version asked in knows such a time.
    is_served: bool,
    /// Kept from one try to the next: a search has several steps, each of which may have to wait for the disk.
    search: LatestSearch,
    answer: Option<ListedPartition>,
}

/// Whether a version knows a time: the special ones came one by one.
fn is_served(timestamp: i64, version: i16) -> bool {
    let since = match timestamp {
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        LATEST | EARLIEST | 0.. => 0,
        _ => i16::MAX,
    };
    version >= since
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: ListOffsetsRequest<'_> = call.read_body()?;
    let named = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| (&*topic.name, partition.partition_index)));
    let twice = twice(named);
    let topics = request.topics.iter().map(|topic| {
        let info = asker.topic(cx.broker, &topic.name, Using::Seeing);
        let partitions = topic.partitions.iter().map(|partition| Asked {
            index: partition.partition_index,
            log: match twice.contains(&(&*topic.name, partition.partition_index)) {
                // As the real broker: each may cost a search.
                true => Err(ErrorCode::INVALID_REQUEST),
                false => info.and_then(|info| led_log(info, partition.partition_index, partition.current_leader_epoch)),
            },
            timestamp: partition.timestamp,
            is_served: is_served(partition.timestamp, call.version()),
            search: LatestSearch::Begin,
            answer: None,
        });
        PlanTopic { name: topic.name.to_string(), partitions: partitions.collect() }
    });
    let topics = topics.collect();
    let plan = Plan { call: asker.calls.next(), topics };
    Ok(attempt(asker, cx, call.to, Box::new(plan)))
}

/// Tries to answer what is not answered yet.
pub(crate) fn attempt(asker: &mut Asker, cx: &mut Cx<'_>, to: ReplyTo, mut plan: Box<Plan>) -> Answer {
    let call = plan.call;
    let mut pending = false;
    for asked in plan.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if asked.answer.is_none() {
            asked.answer = look_up(asker, cx, call, asked);
            pending |= asked.answer.is_none();
        }
    }
    if pending {
        return Answer::Later(call, Waiting::ListOffsets(plan));
    }
    let topics = plan.topics.iter().map(|topic| ListedTopic {
        name: Text::Borrowed(&topic.name),
        partitions: topic.partitions.iter().filter_map(|asked| asked.answer.clone()).collect(),
    });
    let response = ListOffsetsResponse { topics: topics.collect(), ..ListOffsetsResponse::default() };
    asker.reply(to, &response)
}

/// `None` when the disk must be waited for.
fn look_up(asker: &Asker, cx: &mut Cx<'_>, call: CallId, asked: &mut Asked) -> Option<ListedPartition> {
    let found = match find(asker, cx, call, asked) {
        Ok(Step::Pending) => return None,
        Ok(Step::Found(found)) => Ok(found),
        Err(code) => Err(code),
    };
    let index = asked.index;
    Some(match found {
        Ok(Some((offset, time))) => ListedPartition {
            partition_index: index,
            timestamp: time.map_or(-1, |time| time.0),
            offset: offset.0 as i64,
            leader_epoch: 0,
            ..ListedPartition::default()
        },
        Ok(None) => ListedPartition { partition_index: index, ..ListedPartition::default() },
        Err(code) => ListedPartition { partition_index: index, error_code: code.0, ..ListedPartition::default() },
    })
}

enum Step {
    Pending,
    Found(Option<(Offset, Option<Wall>)>),
}

fn find(asker: &Asker, cx: &mut Cx<'_>, call: CallId, asked: &mut Asked) -> Result<Step, ErrorCode> {
    let log = asked.log?;
    if !asked.is_served {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    let bounds = cx.broker.bounds(log).map_err(|error| ErrorCode::from(&error))?;
    Ok(match asked.timestamp {
        LATEST => Step::Found(Some((bounds.end, None))),
        EARLIEST | EARLIEST_LOCAL => Step::Found(Some((bounds.start, None))),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Step::Found(None),
        MAX_TIMESTAMP => return asked.search.run(asker, cx, call, log),
        time => match offset_at(asker, cx, call, log, time)? {
            TimeAnswer::Pending => Step::Pending,
            TimeAnswer::Ready(hit) => Step::Found(hit.map(|(offset, time)| (offset, Some(time)))),
        },
    })
}

fn offset_at(asker: &Asker, cx: &mut Cx<'_>, call: CallId, log: LogId, time: i64) -> Result<TimeAnswer, ErrorCode> {
    cx.broker.offset_at(asker.peer.session, call, log, Wall(time)).map_err(|error| ErrorCode::from(&error))
}

/// The search for the message with the latest time. The broker finds the first message not older than a time, so one
/// look-up at the latest time that the indexes know is enough; unless that message is not visible yet or was trimmed.
/// Then this narrows down the latest time at which there is one: first by doubling steps, then by halving.
enum LatestSearch {
    Begin,
    /// The indexes know of this time.
    Known(Wall),
    /// Nothing is known.
    Unknown,
    /// There is a message at `low` or later, found as `best`; whether beyond `low + step` is not known.
    Doubling {
        low: i64,
        step: i64,
        best: (Offset, Wall),
    },
    /// There is none at `high` or later.
    Halving {
        low: i64,
        high: i64,
        best: (Offset, Wall),
    },
}

impl LatestSearch {
    fn run(&mut self, asker: &Asker, cx: &mut Cx<'_>, call: CallId, log: LogId) -> Result<Step, ErrorCode> {
        loop {
            let probe = match *self {
                LatestSearch::Begin => {
                    let segments = cx.broker.segments(log).map_err(|error| ErrorCode::from(&error))?;
                    let known = segments.iter().filter_map(|segment| segment.time_max).max();
                    *self = known.map_or(LatestSearch::Unknown, LatestSearch::Known);
                    continue;
                }
                LatestSearch::Known(time) => time.0,
                LatestSearch::Unknown => i64::MIN,
                LatestSearch::Doubling { low, step, .. } => low.saturating_add(step),
                LatestSearch::Halving { low, high, best } => {
                    if high.saturating_sub(low) <= 1 {
                        let time = (best.1.0 >= 0).then_some(best.1);
                        return Ok(Step::Found(Some((best.0, time))));
                    }
                    low + (high - low) / 2
                }
            };
            let hit = match offset_at(asker, cx, call, log, probe)? {
                TimeAnswer::Pending => return Ok(Step::Pending),
                TimeAnswer::Ready(hit) => hit,
            };
            *self = match (&*self, hit) {
                (LatestSearch::Known(time), Some(best)) if best.1 == *time && time.0 >= 0 => {
                    return Ok(Step::Found(Some((best.0, Some(best.1)))));
                }
                (LatestSearch::Begin | LatestSearch::Known(_), _) => LatestSearch::Unknown,
                (LatestSearch::Unknown, None) => return Ok(Step::Found(None)),
                (LatestSearch::Unknown, Some(best)) => LatestSearch::Doubling { low: best.1.0, step: 1, best },
                // The hit's own time is later than what was asked for, mostly: no need to ask up to there.
                (LatestSearch::Doubling { step, .. }, Some(best)) => {
                    LatestSearch::Doubling { low: best.1.0, step: step.saturating_mul(2), best }
                }
                (LatestSearch::Doubling { low, best, .. }, None) => {
                    LatestSearch::Halving { low: *low, high: probe, best: *best }
                }
                (LatestSearch::Halving { high, .. }, Some(best)) => {
                    LatestSearch::Halving { low: best.1.0, high: *high, best }
                }
                (LatestSearch::Halving { low, best, .. }, None) => {
                    LatestSearch::Halving { low: *low, high: probe, best: *best }
                }
            };
            // A time at the end of all time leaves nothing to ask for.
            if let LatestSearch::Doubling { low: i64::MAX, best, .. } = *self {
                *self = LatestSearch::Halving { low: i64::MAX, high: i64::MAX, best };
            }
        }
    }
}
