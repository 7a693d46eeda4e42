//! The look into the batches of one request before any of them is stored. What takes long is done aside: the request is
//! held, and the connection read no further, until it is known; then the request is handed in again and goes on as if
//! all had been looked into at once. So a batch that unpacks to much delays its own connection, and of others only
//! those whose batches do, too: these take turns.

use std::collections::VecDeque;

use broker::aside::{Allowance, Found};
use broker::topic::Intake;
use broker::{CallId, Cx};
use model::{LogId, Wall};

use super::{ProduceRequest, ProduceTopic, Refusal, Terms, refusal_of};
use crate::api::asker::log_of;
use crate::api::{Asker, WRITE};
use crate::errors::ErrorCode;
use crate::format::UNPACKED_BYTES_MAX;
use crate::format::batch::{BatchError, BatchHeader, check_produced};
use crate::format::scan::{Scanned, TOO_LARGE, Wanted, scan};
use crate::format::unpack::claimed_bytes;

/// What one connection's batches may unpack to in one turn to be looked into at once: 0.1 to 0.2 ms of work, or 0.7 in
/// gzip (the table is in docs/benchmarks.md).
const IN_PLACE_BYTES_MAX: usize = 256 << 10;

/// A batch that takes more than this unpacks to more than may be, mostly.
const PACKED_BYTES_MAX: usize = 64 << 10;

/// Records of a batch that is not packed, to be looked into at once.
const OPEN_RECORDS_MAX: i32 = 64 << 10;

/// Bytes that are gone through aside at one go, and what is left of the batch with the last of them: then others have
/// their turn.
const PIECE_BYTES: usize = 8 << 20;

/// Memory that one partition of a held request takes beside its batch.
pub(crate) const HELD_BYTES_EACH: usize = size_of::<Result<Checked, Refusal>>();

/// Looks of one connection.
#[derive(Default)]
pub(crate) struct Looks {
    in_place: Allowance,
    held: Option<Box<Held>>,
}

/// A request that waits, or has waited, for looks done aside.
struct Held {
    call: CallId,
    checked: Vec<Result<Checked, Refusal>>,
    /// Copied for the other thread.
    bytes: usize,
    waits: bool,
}

/// One partition's batch, as far as it is right.
pub(super) struct Checked {
    pub log: LogId,
    pub header: BatchHeader,
    pub intake: Intake,
    /// `None` while it is not known.
    pub scanned: Option<Scanned>,
    wanted: Wanted,
}

impl Checked {
    /// The earliest and the latest time that its records may carry.
    pub fn times(&self) -> (i64, i64) {
        self.wanted.times
    }
}

/// A batch for the other thread, and its place in the request.
struct Unseen {
    at: usize,
    batch: Vec<u8>,
    header: BatchHeader,
    wanted: Wanted,
}

/// What the other thread answers.
struct Looked {
    /// What was found, by the batches' places.
    found: Vec<(usize, Result<Scanned, BatchError>)>,
    /// What is still to be looked into.
    left: VecDeque<Unseen>,
}

impl Looks {
    /// Whether a request is held, and nothing behind it may be read.
    pub fn are_awaited(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.waits)
    }

    /// Bytes of memory that a held request takes beside itself.
    pub fn bytes(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.bytes + held.checked.capacity() * HELD_BYTES_EACH)
    }
}

/// What was done aside for `call` has come back, and the rest goes behind what others want; false when it failed in
/// itself.
pub(crate) fn come_back(asker: &mut Asker, cx: &mut Cx<'_>, call: CallId, found: Option<Found>) -> bool {
    let Some(held) = asker.looks.held.as_mut().filter(|held| held.call == call) else { return true };
    let Some(looked) = found.and_then(|found| found.downcast::<Looked>().ok()) else { return false };
    let Looked { found, left } = *looked;
    for (at, result) in found {
        let Some(place) = held.checked.get_mut(at) else { continue };
        match (result, place) {
            (Ok(scanned), Ok(checked)) => checked.scanned = Some(scanned),
            (Err(error), place) => *place = Err(refusal_of(error)),
            (Ok(_), Err(_)) => {}
        }
    }
    (held.waits, held.bytes) = (!left.is_empty(), bytes_of(&left));
    if held.waits {
        cx.broker.work_aside(asker.peer.session, call, move || look_aside(left));
    }
    true
}

fn bytes_of(batches: &VecDeque<Unseen>) -> usize {
    batches.iter().map(|one| one.batch.len()).sum()
}

/// Looks into as many batches as one piece takes.
fn look_aside(mut left: VecDeque<Unseen>) -> Looked {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < PIECE_BYTES
        && let Some(one) = left.pop_front()
    {
        let result = scan(&one.batch, &one.header, &one.wanted);
        // How far it came until it failed is not known.
        bytes += result.as_ref().map_or(PIECE_BYTES, |scanned| scanned.bytes);
        found.push((one.at, result));
    }
    Looked { found, left }
}

/// What of a request is right, partition by partition in its order; `None` when it is held until that is known.
pub(super) fn checked(
    asker: &mut Asker,
    cx: &mut Cx<'_>,
    request: &ProduceRequest<'_>,
    terms: Terms,
) -> Option<Vec<Result<Checked, Refusal>>> {
    if let Some(held) = asker.looks.held.take() {
        return Some(held.checked);
    }
    let mut checked = Vec::with_capacity(request.topics.iter().map(|topic| topic.partitions.len()).sum());
    for topic in &request.topics {
        check_topic(asker, cx, topic, terms, &mut checked);
    }
    let waits = |one: &Result<Checked, Refusal>| one.as_ref().is_ok_and(|one| one.scanned.is_none());
    if !checked.iter().any(waits) {
        return Some(checked);
    }
    let batches = request.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.records);
    let unseen: VecDeque<_> = (checked.iter().zip(batches).enumerate())
        .filter(|(_, (one, _))| waits(one))
        .filter_map(|(at, (one, records))| {
            let (one, batch) = (one.as_ref().ok()?, records?.0.to_vec());
            Some(Unseen { at, batch, header: one.header, wanted: one.wanted })
        })
        .collect();
    let (call, bytes) = (asker.calls.next(), bytes_of(&unseen));
    cx.broker.work_aside(asker.peer.session, call, move || look_aside(unseen));
    asker.looks.held = Some(Box::new(Held { call, checked, bytes, waits: true }));
    None
}

fn check_topic(
    asker: &mut Asker,
    cx: &mut Cx<'_>,
    topic: &ProduceTopic<'_>,
    terms: Terms,
    checked: &mut Vec<Result<Checked, Refusal>>,
) {
    let info = match (terms.acks_are_known, topic.name.is_empty()) {
        (false, _) => Err(ErrorCode::INVALID_REQUIRED_ACKS),
        (true, true) => asker.topic_by_id(cx.broker, topic.topic_id, WRITE),
        (true, false) => asker.topic(cx.broker, &topic.name, WRITE),
    };
    let info = match info {
        Ok(info) => info,
        Err(code) => return checked.extend(topic.partitions.iter().map(|_| Err(code.into()))),
    };
    let (intake, first) = (info.intake, checked.len());
    for partition in &topic.partitions {
        let records = partition.records.unwrap_or_default().0;
        let log = log_of(info, partition.index).map_err(Refusal::from);
        checked.push(log.and_then(|log| check(records, (log, intake), terms, cx.now.wall)));
    }
    let found = checked.get_mut(first..).unwrap_or_default();
    for (place, partition) in found.iter_mut().zip(&topic.partitions) {
        let Ok(one) = place else { continue };
        let records = partition.records.unwrap_or_default().0;
        match look(&mut asker.looks.in_place, cx, one, records) {
            Ok(scanned) => one.scanned = scanned,
            Err(error) => *place = Err(refusal_of(error)),
        }
    }
}

/// All that can be said of a batch without a look at its records.
fn check(records: &[u8], (log, intake): (LogId, Intake), terms: Terms, now: Wall) -> Result<Checked, Refusal> {
    if terms.waits_for_all && intake.insync_min > 1 {
        return Err(ErrorCode::NOT_ENOUGH_REPLICAS.into());
    }
    let header = check_produced(records, intake.batch_bytes_max).map_err(refusal_of)?;
    if terms.is_transactional {
        return Err(refusal_of(BatchError::Transactional));
    }
    // Consumers of those versions do not know zstd (KIP-110).
    if header.codec() == 4 && !terms.allows_zstd {
        return Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE.into());
    }
    let times = match intake.has_append_time {
        true => (i64::MIN, i64::MAX),
        false => (now.0.saturating_sub(intake.behind_ms_max), now.0.saturating_add(intake.ahead_ms_max)),
    };
    let wanted = Wanted {
        record_bytes_max: intake.record_bytes_max,
        unpacked_bytes_max: UNPACKED_BYTES_MAX,
        times,
        needs_keys: intake.needs_keys,
    };
    Ok(Checked { log, header, intake, scanned: None, wanted })
}

/// Looks into a batch at once; `None` when that would take long.
fn look(
    in_place: &mut Allowance,
    cx: &mut Cx<'_>,
    one: &Checked,
    records: &[u8],
) -> Result<Option<Scanned>, BatchError> {
    let codec = one.header.codec();
    if codec == 0 {
        let is_short = one.header.count <= OPEN_RECORDS_MAX;
        return if is_short { scan(records, &one.header, &one.wanted).map(Some) } else { Ok(None) };
    }
    let may = in_place.left(IN_PLACE_BYTES_MAX, cx.now.mono).min(cx.broker.may_go_through(cx.now));
    let packed = records.get(crate::format::batch::HEADER_BYTES..).unwrap_or_default();
    let is_long = packed.len() > PACKED_BYTES_MAX.min(may)
        || claimed_bytes(codec, packed).is_some_and(|claimed| claimed > may as u64);
    if is_long {
        return Ok(None);
    }
    let found = scan(records, &one.header, &Wanted { unpacked_bytes_max: may, ..one.wanted });
    let gone_through = found.as_ref().map_or(may, |scanned| scanned.bytes);
    in_place.spend(gone_through);
    cx.broker.gone_through(gone_through);
    match found {
        Err(TOO_LARGE) => Ok(None),
        found => found.map(Some),
    }
}
