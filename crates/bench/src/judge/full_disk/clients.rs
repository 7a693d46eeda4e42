//! The clients of the full disk judge: they write until they are refused, and know what is allowed to be refused.

use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::amqp::{Amqp, Said};
use crate::judge::books::{Books, Done, Message, PARTITIONS, QUEUES, TOPIC};
use crate::judge::kafka::Kafka;
use crate::judge::server::Server;

const BATCH: u64 = 64;
const PADDING: u64 = 900;
const PUBLISHES: u64 = 20;
/// KAFKA_STORAGE_ERROR: clients try again.
const STORAGE_ERROR: i64 = 56;
/// Acknowledgements are taken within this.
const PATIENCE: Duration = Duration::from_secs(5);
/// A publish that has no answer within this is held by the broker.
const HELD_AFTER: Duration = Duration::from_millis(30);
/// Batches that fill the largest volume many times over.
const BATCHES_MAX: u64 = 5_000;

/// What a write came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrote {
    Stored,
    Refused,
}

/// Both tongues' clients and what they have done.
pub(super) struct Clients {
    kafka: Kafka,
    publisher: Amqp,
    /// Publishes without an answer: number, place, message.
    held: Vec<(u64, usize, Message)>,
    /// By place, since the books were last told.
    done: Vec<Done>,
    next: Vec<u64>,
    turn: u64,
    /// Writes refused or held in the tongue's own way, by tongue.
    pub(super) refused: [u64; 2],
}

impl Clients {
    pub(super) fn connect(server: &Server, books: &Books) -> Outcome<Clients> {
        let mut publisher = Amqp::connect(&server.amqp)?;
        publisher.confirm()?;
        let places = PARTITIONS as usize + QUEUES.len();
        let kafka = Kafka::connect(&server.kafka)?;
        let next = (0..places).map(|place| books.next(place)).collect();
        Ok(Clients { kafka, publisher, held: Vec::new(), done: fresh(), next, turn: 0, refused: [0; 2] })
    }

    /// What was done since the last call.
    pub(super) fn take_done(&mut self) -> Vec<Done> {
        std::mem::replace(&mut self.done, fresh())
    }

    fn batch(&mut self, place: usize, count: u64) -> Vec<Message> {
        let first = self.next[place];
        self.next[place] += count;
        let batch: Vec<Message> = (first..first + count).map(|number| Message::new(number, PADDING)).collect();
        self.done[place].sent.extend(&batch);
        batch
    }

    /// Produces one batch.
    ///
    /// # Errors
    /// Any refusal but that of the disk.
    pub(super) fn produce(&mut self) -> Outcome<Wrote> {
        self.turn += 1;
        let partition = (self.turn % PARTITIONS as u64) as i32;
        let batch = self.batch(partition as usize, BATCH);
        let values: Vec<Vec<u8>> = batch.iter().map(Message::bytes).collect();
        self.kafka.produce(TOPIC, partition, -1, &values)?;
        match self.kafka.produced_or_refused()? {
            Ok(base) => {
                let told = batch.into_iter().zip(base..).map(|(message, offset)| (Some(offset), message));
                self.done[partition as usize].acknowledged.extend(told);
                Ok(Wrote::Stored)
            }
            Err(STORAGE_ERROR) => {
                self.refused[0] += 1;
                Ok(Wrote::Refused)
            }
            Err(code) => Err(format!("a produce was refused with {code}, not {STORAGE_ERROR}")),
        }
    }

    /// Publishes a few messages and waits for their confirms. On a full disk these do not come: the broker holds the
    /// publishes until there is room, and no further ones are sent before. While settling lags far behind it refuses.
    ///
    /// # Errors
    /// When the connection ends.
    pub(super) fn publish(&mut self) -> Outcome<Wrote> {
        if self.held.is_empty() {
            let queue = (self.turn % QUEUES.len() as u64) as usize;
            let place = PARTITIONS as usize + queue;
            let batch = self.batch(place, PUBLISHES);
            for message in &batch {
                self.publisher.publish(QUEUES[queue], &message.bytes())?;
            }
            self.held =
                (self.publisher.published + 1..).zip(batch).map(|(tag, message)| (tag, place, message)).collect();
            self.publisher.published += PUBLISHES;
        }
        let mut wrote = Wrote::Stored;
        while !self.held.is_empty() {
            if !self.publisher.has_answer(HELD_AFTER)? {
                self.refused[1] += 1;
                return Ok(Wrote::Refused);
            }
            let (tag, multiple, stored) = match self.publisher.next()? {
                Said::Confirmed { tag, multiple } => (tag, multiple, true),
                Said::Refused { tag, multiple } => (tag, multiple, false),
                Said::Delivered { .. } => return Err("a publisher was sent a delivery".to_owned()),
            };
            let is_meant = |at: u64| at == tag || multiple && at < tag;
            for (_, place, message) in self.held.iter().filter(|(at, ..)| stored && is_meant(*at)) {
                self.done[*place].acknowledged.push((None, *message));
            }
            if !stored {
                wrote = Wrote::Refused;
            }
            self.held.retain(|(at, ..)| !is_meant(*at));
        }
        self.refused[1] += u64::from(wrote == Wrote::Refused);
        Ok(wrote)
    }

    /// Writes in both tongues until both are refused.
    ///
    /// # Errors
    /// When they never are.
    pub(super) fn fill(&mut self) -> Outcome<()> {
        let mut both = 0;
        for _ in 0..BATCHES_MAX {
            let wrote = [self.produce()?, self.publish()?];
            // Settling may give space back once or twice.
            both = if wrote == [Wrote::Refused; 2] { both + 1 } else { 0 };
            if both == 20 {
                return Ok(());
            }
        }
        Err("the volume does not fill".to_owned())
    }

    /// What must go on while the disk is full: reading, acknowledging, deleting.
    ///
    /// # Errors
    /// What does not.
    pub(super) fn go_on(&mut self, server: &Server, topic: &str) -> Outcome<()> {
        for partition in 0..PARTITIONS {
            let found = self.kafka.fetch_once(TOPIC, partition, 0)?;
            found.iter().try_for_each(|(_, value)| Message::parse(value).map(drop))?;
            if found.is_empty() {
                return Err(format!("full: nothing is read of partition {partition}"));
            }
        }
        self.work(server)?;
        match self.kafka.delete(topic)? {
            0 => Ok(()),
            code => Err(format!("full: deleting '{topic}' is refused with {code}")),
        }
    }

    // A consumer's acknowledgements are taken: what it acknowledged is not ready again.
    fn work(&mut self, server: &Server) -> Outcome<()> {
        let mut worker = Amqp::connect(&server.amqp)?;
        let before = worker.declare(QUEUES[1])?;
        worker.consume(QUEUES[1], 10)?;
        let settled = &mut self.done[PARTITIONS as usize + 1].settled;
        let count = before.min(50);
        for _ in 0..count {
            let Said::Delivered { tag, body } = worker.next()? else { return Err("no delivery".to_owned()) };
            settled.push(Message::parse(&body)?);
            worker.ack(tag)?;
        }
        drop(worker);
        let begun = Instant::now();
        loop {
            let ready = Amqp::connect(&server.amqp)?.declare(QUEUES[1])?;
            if ready == before - count {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("full: {count} of {before} messages were acknowledged and {ready} are ready"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes a topic with a few batches in it; answers how many were stored.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn make(&mut self, topic: &str, batches: u64) -> Outcome<u64> {
        self.kafka.create(topic, 1)?;
        let values: Vec<Vec<u8>> = (0..BATCH).map(|number| Message::new(number, PADDING).bytes()).collect();
        let mut stored = 0;
        for _ in 0..batches {
            self.kafka.produce(topic, 0, -1, &values)?;
            stored += u64::from(self.kafka.produced_or_refused()?.is_ok());
        }
        Ok(stored)
    }

    /// How long it takes from now until both tongues' writes are stored again.
    ///
    /// # Errors
    /// When that is longer than `within`.
    pub(super) fn heal(&mut self, within: Duration) -> Outcome<Duration> {
        let begun = Instant::now();
        loop {
            let wrote = [self.produce()?, self.publish()?];
            if wrote == [Wrote::Stored; 2] {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > within {
                return Err(format!("space is back for {within:?} and writes are still refused: {wrote:?}"));
            }
            std::thread::sleep(Duration::from_millis(20)); // a client's back-off
        }
    }
}

fn fresh() -> Vec<Done> {
    let done = |place| Done { place, sent: Vec::new(), acknowledged: Vec::new(), settled: Vec::new() };
    (0..PARTITIONS as usize + QUEUES.len()).map(done).collect()
}
