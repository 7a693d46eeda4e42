//! Raw consumers: each follows its partitions with one Fetch request for all of them, and looks only at the batches'
//! headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::kafka::Kafka;
use crate::judge::wire::{Reader, Writer};

/// The most of one answer and of one partition in it, as Kafka's own consumer asks.
const ANSWER_BYTES: i32 = 50 << 20;
const PARTITION_BYTES: i32 = 1 << 20;
/// An answer waits at most so long for something new.
const WAIT_MS: i32 = 500;
/// Nothing for so long: something is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// A topic of many partitions may need so long until all of them answer.
const READY_WITHIN: Duration = Duration::from_secs(240);

/// What to read.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Where.
    pub(crate) address: String,
    /// From which topic; several when there are many partitions, see [`super::place`].
    pub(crate) topic: String,
    /// Partitions of it in all.
    pub(crate) all: u32,
    /// Which of them to read.
    pub(crate) partitions: std::ops::Range<u32>,
    /// Records to read in all.
    pub(crate) records: u64,
    /// Bytes of batches that were read, by all.
    pub(crate) bytes: Arc<AtomicU64>,
}

/// Where a reader of `plan` begins that reads all.
pub(crate) fn start(plan: &Plan) -> Vec<u64> {
    vec![0; plan.partitions.len()]
}

/// Reads from `offsets` on, which move, until it has all.
///
/// # Errors
/// When anything is refused, or nothing comes for long.
pub(crate) fn run(plan: &Plan, offsets: &mut [u64]) -> Outcome<()> {
    let mut client = Kafka::connect(&plan.address)?;
    let mut session = Session { id: 0, epoch: 0 };
    let mut changed: Vec<usize> = (0..offsets.len()).collect();
    let mut records = 0;
    let mut last = Instant::now();
    while records < plan.records {
        client.send(1, 11, &request(plan, session, (&changed, offsets), WAIT_MS))?;
        let answer = client.receive()?;
        changed.clear();
        let taken = take(plan, &answer, offsets, &mut changed)?;
        if session.id != 0 {
            changed.sort_unstable(); // by topic; the broker keeps whose turn it is
        }
        if taken.session != session.id {
            session = Session { id: taken.session, epoch: 0 };
        }
        session.epoch += 1;
        records += taken.records;
        if taken.records > 0 {
            last = Instant::now();
        } else if last.elapsed() > PATIENCE {
            return Err(format!("{}: {records} of {} records came", plan.topic, plan.records));
        }
        if session.id == 0 {
            session.epoch = 0;
            // Whoever was answered stands last in the next request, as clients do it, so that none is starved.
            let is_changed: std::collections::HashSet<usize> = changed.iter().copied().collect();
            let others = (0..offsets.len()).filter(|at| !is_changed.contains(at));
            changed = others.chain(changed.iter().copied()).collect();
        }
    }
    Ok(())
}

/// A fetch session as the client knows it (KIP-227).
#[derive(Clone, Copy)]
struct Session {
    id: i32,
    epoch: i32,
}

/// Waits until every partition can be read.
///
/// # Errors
/// Why not, when that takes too long.
pub(crate) fn await_ready(plan: &Plan) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        match probe(plan) {
            Err(why) if begun.elapsed() > READY_WITHIN => return Err(why),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
            Ok(()) => return Ok(()),
        }
    }
}

/// Asks once for all partitions.
///
/// # Errors
/// When any of them is refused.
pub(crate) fn probe(plan: &Plan) -> Outcome<()> {
    let mut client = Kafka::connect(&plan.address)?;
    let mut offsets = start(plan);
    let all: Vec<usize> = (0..offsets.len()).collect();
    client.send(1, 11, &request(plan, Session { id: 0, epoch: -1 }, (&all, &offsets), 0))?;
    take(plan, &client.receive()?, &mut offsets, &mut Vec::new()).map(drop)
}

/// Asks for the partitions at `changed`; within a session that has begun, the others are asked for too.
fn request(plan: &Plan, session: Session, (changed, offsets): (&[usize], &[u64]), wait_ms: i32) -> Vec<u8> {
    let mut body = Writer::default();
    body.i32(-1).i32(wait_ms).i32(1).i32(ANSWER_BYTES).u8(0).i32(session.id).i32(session.epoch);
    let place = |at: &usize| super::place(&plan.topic, plan.all, plan.partitions.start + *at as u32);
    let of_topics: Vec<&[usize]> = changed.chunk_by(|one, next| place(one).0 == place(next).0).collect();
    body.i32(of_topics.len() as i32);
    for of_topic in of_topics {
        body.text16(&place(&of_topic[0]).0).i32(of_topic.len() as i32);
        for at in of_topic {
            body.i32(place(at).1 as i32).i32(-1).u64(offsets[*at]).u64(u64::MAX).i32(PARTITION_BYTES);
        }
    }
    body.i32(0).text16("");
    body.0
}

#[derive(Default)]
struct Taken {
    records: u64,
    /// The session's id.
    session: i32,
}

/// Moves the offsets of what came, and says which.
fn take(plan: &Plan, answer: &[u8], offsets: &mut [u64], changed: &mut Vec<usize>) -> Outcome<Taken> {
    let mut taken = Taken::default();
    let mut bytes = 0;
    let mut fields = Reader(answer);
    fields.i32()?;
    let error = fields.i16()?;
    if error != 0 {
        return Err(format!("fetching {} failed with {error}", plan.topic));
    }
    taken.session = fields.i32()? as i32;
    for _ in 0..fields.i32()? {
        let name = fields.length::<2>()?;
        let topic = String::from_utf8_lossy(fields.bytes(name)?);
        let number = topic.strip_prefix(&plan.topic).and_then(|rest| rest.strip_prefix('-'));
        let base = number.and_then(|number| number.parse::<u32>().ok()).unwrap_or(0) * super::TOPIC_PARTITIONS;
        for _ in 0..fields.i32()? {
            let partition = fields.i32()?;
            let error = fields.i16()?;
            if error != 0 {
                return Err(format!("fetching {}-{partition} failed with {error}", plan.topic));
            }
            fields.bytes(24)?;
            for _ in 0..fields.i32()?.max(0) {
                fields.bytes(16)?;
            }
            fields.i32()?;
            let size = fields.i32()?.max(0) as usize;
            let batches = fields.bytes(size)?;
            bytes += size as u64;
            let at = (base + partition as u32 - plan.partitions.start) as usize;
            let offset = offsets.get_mut(at).ok_or("an answer names a partition that nobody asked for")?;
            let count = pass(batches, offset)?;
            taken.records += count;
            if count > 0 {
                changed.push(at);
            }
        }
    }
    plan.bytes.fetch_add(bytes, Ordering::Relaxed);
    Ok(taken)
}

/// Counts the records from `offset` on and moves it behind them; a batch cut off at the end is left.
fn pass(batches: &[u8], offset: &mut u64) -> Outcome<u64> {
    let mut rest = Reader(batches);
    let mut records = 0;
    while rest.0.len() >= 61 {
        let mut head = Reader(rest.0);
        let base = head.i64()? as u64;
        let size = head.length::<4>()?;
        if head.0.len() < size {
            break;
        }
        head.bytes(11)?;
        let after = base + head.i32()? as u64 + 1;
        records += after.saturating_sub(base.max(*offset));
        *offset = after.max(*offset);
        rest.bytes(12 + size)?;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::kafka::batch;

    #[test]
    fn records_are_counted_from_the_offset_on() {
        let mut batches = batch(&[vec![1], vec![2], vec![3]]);
        let whole = batches.len();
        batches.extend_from_within(..whole - 1); // cut off
        let mut offset = 1;
        assert_eq!(pass(&batches, &mut offset), Ok(2));
        assert_eq!(offset, 3);
    }
}
