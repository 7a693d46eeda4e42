//! What the clients wrote down, and what the broker gives back: they must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::amqp::{Amqp, Said};
use super::kafka::Kafka;
use super::rounds::Kills;
use super::server::Server;
use crate::Outcome;

/// The topic that is written to.
pub(crate) const TOPIC: &str = "judged";
/// Its partitions, each with a producer of its own.
pub(crate) const PARTITIONS: i32 = 4;
/// A queue that is only filled, and one whose messages are consumed and acknowledged.
pub(crate) const QUEUES: [&str; 2] = ["filled", "worked"];

/// What one client has done.
pub(crate) struct Done {
    /// The partition or, behind those, the queue that it wrote to.
    pub(crate) place: usize,
    /// All that it sent, in order.
    pub(crate) sent: Vec<Message>,
    /// What was acknowledged: for partitions with its offset.
    pub(crate) acknowledged: Vec<(Option<i64>, Message)>,
    /// What it acknowledged itself, as a consumer.
    pub(crate) settled: Vec<Message>,
}

/// One message: its number within its place, and how much padding it has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Message {
    number: u64,
    padding: u64,
}

impl Message {
    pub(crate) fn new(number: u64, padding: u64) -> Message {
        Message { number, padding }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Its bytes: number, padding's length, padding that follows from both.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + self.padding as usize);
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(self.padding.to_be_bytes());
        bytes.extend((0..self.padding).map(|n| (n.wrapping_mul(31).wrapping_add(self.number)) as u8));
        bytes
    }

    /// Reads it back.
    ///
    /// # Errors
    /// When these are not the bytes of any message.
    pub(crate) fn parse(bytes: &[u8]) -> Outcome<Message> {
        let word = |at: usize| bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map(u64::from_be_bytes);
        let message = word(0).zip(word(8)).map(|(number, padding)| Message { number, padding });
        match message {
            Some(one) if one.padding < 1000 && one.bytes() == bytes => Ok(one),
            _ => Err(format!("invented: {} bytes that nobody sent", bytes.len())),
        }
    }
}

/// What is summed up over all kills.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) kills: u64,
    pub(crate) kafka_acknowledged: u64,
    pub(crate) amqp_confirmed: u64,
    pub(crate) settled: u64,
    /// Stored though the acknowledgement was lost with the connection: allowed, and worth knowing that it occurs.
    pub(crate) unacknowledged_kept: u64,
    /// Acknowledged by a consumer whose ack was lost with the connection: allowed.
    pub(crate) came_again: u64,
    pub(crate) read_back: u64,
    pub(crate) restart_longest: Duration,
    /// Messages with lives and delays.
    pub(crate) timed: super::kill::timed::Found,
}

impl Kills for Tally {
    fn kills(&self) -> u64 {
        self.kills
    }
}

/// One partition or queue in the clients' books.
#[derive(Clone, Default)]
struct Place {
    next: u64,
    sent: BTreeSet<Message>,
    acknowledged: BTreeMap<Message, Option<i64>>,
    /// Acknowledged by our consumer: may be there, or not.
    settled: BTreeSet<Message>,
    /// What was read back the last time: it must all be there again, at the same offsets.
    known: Vec<(i64, Message)>,
}

/// The books of one data folder.
#[derive(Clone, Default)]
pub(crate) struct Books(BTreeMap<usize, Place>);

impl Books {
    /// The first number not used at `place`.
    pub(crate) fn next(&self, place: usize) -> u64 {
        self.0.get(&place).map_or(0, |one| one.next)
    }

    /// Enters what the clients have done until the kill.
    pub(crate) fn add(&mut self, all: Vec<Done>, tally: &mut Tally) {
        for done in all {
            let place = self.0.entry(done.place).or_default();
            place.next += done.sent.len() as u64;
            place.sent.extend(done.sent);
            let count = done.acknowledged.len() as u64;
            let is_partition = done.place < PARTITIONS as usize;
            *(if is_partition { &mut tally.kafka_acknowledged } else { &mut tally.amqp_confirmed }) += count;
            tally.settled += done.settled.len() as u64;
            place.acknowledged.extend(done.acknowledged.into_iter().map(|(offset, message)| (message, offset)));
            place.settled.extend(done.settled);
        }
    }
}

/// Reads everything back and compares.
///
/// # Errors
/// What is lost, reordered or invented.
pub(crate) fn verify(server: &Server, books: &mut Books, tally: &mut Tally) -> Outcome<()> {
    let mut kafka = Kafka::connect(&server.kafka)?;
    for partition in 0..PARTITIONS {
        let place = books.0.entry(partition as usize).or_default();
        let found = kafka.read_all(TOPIC, partition)?;
        let found = found.into_iter().map(|(offset, value)| Ok((offset, Message::parse(&value)?)));
        let found: Vec<(i64, Message)> = found.collect::<Outcome<_>>()?;
        let name = format!("{TOPIC}-{partition}");
        if let Some((at, (offset, _))) = found.iter().enumerate().find(|(at, (offset, _))| *at as i64 != *offset) {
            return Err(format!("{name}: offset {offset} stands where {at} should"));
        }
        place.compare(&name, found, tally)?;
    }
    for (at, queue) in QUEUES.into_iter().enumerate() {
        let place = books.0.entry(PARTITIONS as usize + at).or_default();
        // A queue has no offsets to see: messages are compared by their order alone.
        let found = read_queue(server, queue)?.into_iter().map(|message| (-1, message)).collect();
        place.compare(queue, found, tally)?;
    }
    Ok(())
}

/// All messages of a queue; none is acknowledged, so all go back.
fn read_queue(server: &Server, queue: &str) -> Outcome<Vec<Message>> {
    let mut amqp = Amqp::connect(&server.amqp)?;
    let count = amqp.declare(queue)?;
    amqp.consume(queue, 0)?;
    let mut found = Vec::with_capacity(count);
    while found.len() < count {
        if let Said::Delivered { body, .. } =
            amqp.next().map_err(|e| format!("{queue}: {} of {count} came: {e}", found.len()))?
        {
            found.push(Message::parse(&body)?);
        }
    }
    Ok(found)
}

impl Place {
    fn compare(&mut self, name: &str, found: Vec<(i64, Message)>, tally: &mut Tally) -> Outcome<()> {
        let mut there = BTreeMap::new();
        let mut before: Option<u64> = None;
        for (offset, message) in &found {
            if !self.sent.contains(message) {
                return Err(format!("{name}: invented: message {}", message.number));
            }
            if before.is_some_and(|number| number >= message.number) {
                return Err(format!("{name}: reordered or doubled: {} after {before:?}", message.number));
            }
            before = Some(message.number);
            there.insert(*message, *offset);
        }
        for (message, offset) in &self.acknowledged {
            match there.get(message) {
                Some(at) if offset.is_none_or(|offset| offset == *at) => {}
                Some(at) => return Err(format!("{name}: message {} moved: {offset:?} to {at}", message.number)),
                None if self.settled.contains(message) => {}
                None => return Err(format!("{name}: lost: message {} was acknowledged", message.number)),
            }
        }
        for (offset, message) in &self.known {
            if there.get(message) != Some(offset) && !self.settled.contains(message) {
                return Err(format!("{name}: message {} was read before and is gone or moved", message.number));
            }
        }
        let fresh = found.len().saturating_sub(self.known.len()) as u64;
        tally.read_back += found.len() as u64;
        let kept = found.iter().skip(self.known.len()).filter(|(_, one)| !self.acknowledged.contains_key(one)).count();
        tally.unacknowledged_kept += fresh.min(kept as u64);
        tally.came_again += found.iter().filter(|(_, one)| self.settled.contains(one)).count() as u64;
        self.known = found;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(acknowledged: &[u64]) -> Place {
        let message = |number| Message::new(number, 3);
        let mut place = Place { sent: (0..9).map(message).collect(), ..Place::default() };
        place.acknowledged = acknowledged.iter().map(|&number| (message(number), Some(number as i64))).collect();
        place
    }

    fn check(acknowledged: &[u64], found: &[u64], wanted: &str) {
        let found = found.iter().zip(0..).map(|(&number, offset)| (offset, Message::new(number, 3))).collect();
        let outcome = place(acknowledged).compare("p", found, &mut Tally::default());
        assert_eq!(outcome.is_ok(), wanted.is_empty(), "{outcome:?}");
        assert!(outcome.err().unwrap_or_default().contains(wanted));
    }

    #[test]
    fn loss_disorder_and_invention_are_found() {
        check(&[0, 1], &[0, 1, 2], "");
        check(&[0, 1], &[0], "lost: message 1");
        check(&[], &[1, 0], "reordered");
        check(&[], &[0, 0], "reordered");
        check(&[], &[12], "invented");
        check(&[1], &[0, 2, 1], "reordered");
        check(&[2], &[0, 2], "moved");
    }

    #[test]
    fn a_message_is_its_bytes() {
        let one = Message::new(77, 200);
        assert_eq!(Message::parse(&one.bytes()), Ok(one));
        assert!(Message::parse(&one.bytes()[..100]).is_err());
    }
}
