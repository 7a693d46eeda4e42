//! What the clients do while a call fails: one after the other, always the same, so that the calls are nearly the same
//! every time. Whatever the broker refuses must be explained by its health; nothing else may go wrong.

use crate::Outcome;
use crate::judge::amqp::{Amqp, Said};
use crate::judge::books::{Books, Done, Message, PARTITIONS, QUEUES, TOPIC};
use crate::judge::kafka::Kafka;
use crate::judge::server::Server;
use crate::judge::wire::until_broken;

/// So many refusals in a row though the broker says that it is well are too many: it does not heal.
const REFUSALS_MAX: u32 = 40;
const BATCH: u64 = 64;
const PADDING: u64 = 900;
const PUBLISHES: u64 = 10;
/// KAFKA_STORAGE_ERROR.
const STORAGE_ERROR: i64 = 56;

/// How a script ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Ended {
    /// Nobody noticed.
    Unharmed,
    /// Something was refused for a while.
    Refused,
    /// The journal closed and the broker said so.
    Closed,
}

/// A run of the script.
pub(super) struct Script<'a> {
    server: &'a Server,
    kafka: Kafka,
    publisher: Option<Amqp>,
    /// By place: what is sent and acknowledged.
    pub(super) done: Vec<Done>,
    next: Vec<u64>,
    refused: bool,
    refusals: u32,
}

/// What one step came to: the answer, or a refusal in the tongue's own words.
type Step = Result<(), String>;

impl<'a> Script<'a> {
    pub(super) fn new(server: &'a Server, books: &Books) -> Outcome<Script<'a>> {
        let places = PARTITIONS as usize + QUEUES.len();
        let done = |place| Done { place, sent: Vec::new(), acknowledged: Vec::new(), settled: Vec::new() };
        Ok(Script {
            server,
            kafka: Kafka::connect(&server.kafka)?,
            publisher: None,
            done: (0..places).map(done).collect(),
            next: (0..places).map(|place| books.next(place)).collect(),
            refused: false,
            refusals: 0,
        })
    }

    /// Runs `steps` steps, or until the journal is closed.
    ///
    /// # Errors
    /// What must not happen.
    pub(super) fn run(&mut self, steps: std::ops::Range<u64>) -> Outcome<Ended> {
        for step in steps {
            let mut acts: Vec<Step> = vec![self.produce(step)?, self.publish(step)?];
            if step % 4 == 1 {
                acts.push(self.consume()?);
            }
            if step % 3 == 2 {
                acts.push(self.fetch(step)?);
            }
            if step % 10 == 7 {
                acts.push(self.doom(step)?);
            }
            for act in acts {
                match act {
                    Ok(()) => self.refusals = 0,
                    Err(why) if self.is_closed(&why)? => return Ok(Ended::Closed),
                    Err(_) => {}
                }
            }
        }
        Ok(if self.refused { Ended::Refused } else { Ended::Unharmed })
    }

    // A refusal must be temporary or explained; answers whether the journal is closed, after checking what that means.
    fn is_closed(&mut self, why: &str) -> Outcome<bool> {
        self.refused = true;
        self.refusals += 1;
        let (status, body) = self.server.get("/api/v1/health")?;
        match status {
            200 if self.refusals < REFUSALS_MAX => Ok(false),
            200 => Err(format!("{why}; {REFUSALS_MAX} refusals in a row though it says that it is well")),
            503 => self.check_closed().map(|()| true).map_err(|e| format!("{e}\nafter: {why}\nhealth: {body}")),
            other => Err(format!("health answers {other}: {body}")),
        }
    }

    // A closed journal: the metrics and the log say so, both tongues refuse to store, reading goes on.
    fn check_closed(&mut self) -> Outcome<()> {
        let (_, metrics) = self.server.get("/metrics")?;
        if !metrics.lines().any(|line| line == "fourfold_journal_failed 1") {
            return Err("the journal is closed and the metrics do not say so".to_owned());
        }
        if !self.server.log().contains("the journal is closed") {
            return Err("the journal is closed and the log does not say so".to_owned());
        }
        if self.produce(0)?.is_ok() {
            return Err("the journal is closed and a produce was acknowledged".to_owned());
        }
        self.publisher = None;
        if self.publish(0)?.is_ok() {
            return Err("the journal is closed and a publish was confirmed".to_owned());
        }
        self.fetch(0)?.map_err(|why| format!("the journal is closed and reading fails: {why}"))
    }

    fn batch(&mut self, place: usize, count: u64) -> Vec<Message> {
        let first = self.next[place];
        self.next[place] += count;
        let batch: Vec<Message> = (first..first + count).map(|number| Message::new(number, PADDING)).collect();
        self.done[place].sent.extend(&batch);
        batch
    }

    fn produce(&mut self, step: u64) -> Outcome<Step> {
        let partition = (step % PARTITIONS as u64) as i32;
        let place = partition as usize;
        let batch = self.batch(place, BATCH);
        let values: Vec<Vec<u8>> = batch.iter().map(Message::bytes).collect();
        // Only synced acknowledgements on even places, as in the kill judge: a kill harms neither.
        let acks = if partition % 2 == 0 { -1 } else { 1 };
        self.kafka.produce(TOPIC, partition, acks, &values)?;
        match self.kafka.produced_or_refused()? {
            Ok(base) => {
                let told = batch.into_iter().zip(base..).map(|(message, offset)| (Some(offset), message));
                self.done[place].acknowledged.extend(told);
                Ok(Ok(()))
            }
            Err(STORAGE_ERROR) => Ok(Err("a produce was refused".to_owned())),
            Err(code) => Err(format!("a produce was refused with {code}, not {STORAGE_ERROR}")),
        }
    }

    fn publish(&mut self, step: u64) -> Outcome<Step> {
        let place = PARTITIONS as usize + (step % QUEUES.len() as u64) as usize;
        let queue = QUEUES[place - PARTITIONS as usize];
        let mut client = match self.publisher.take() {
            Some(client) => client,
            None => {
                let mut client = Amqp::connect(&self.server.amqp)?;
                client.confirm()?;
                client
            }
        };
        let batch = self.batch(place, PUBLISHES);
        for message in &batch {
            // The broker may hang up while we write: the reset then comes before its reason.
            if until_broken(client.publish(queue, &message.bytes()))?.is_none() {
                return Ok(Err("the AMQP connection ended while publishing".to_owned()));
            }
        }
        let mut open: Vec<(u64, Message)> = (client.published + 1..).zip(batch).collect();
        client.published += PUBLISHES;
        let mut refused = false;
        while !open.is_empty() {
            let (tag, multiple) = match client.next() {
                Ok(Said::Confirmed { tag, multiple }) => (tag, multiple),
                Ok(Said::Refused { tag, multiple }) => {
                    refused = true;
                    open.retain(|(at, _)| !(*at == tag || multiple && *at < tag));
                    continue;
                }
                Ok(Said::Delivered { .. }) => return Err("a publisher was sent a delivery".to_owned()),
                Err(why) if until_broken::<()>(Err(why.clone())).is_ok() => {
                    return Ok(Err(format!("the AMQP connection ended: {why}")));
                }
                Err(why) => return Err(why),
            };
            let (told, rest) = open.into_iter().partition(|(at, _)| *at == tag || multiple && *at < tag);
            open = rest;
            let told: Vec<(u64, Message)> = told;
            self.done[place].acknowledged.extend(told.into_iter().map(|(_, message)| (None, message)));
        }
        self.publisher = Some(client);
        Ok(if refused { Err("a publish was refused".to_owned()) } else { Ok(()) })
    }

    fn consume(&mut self) -> Outcome<Step> {
        let place = PARTITIONS as usize + 1;
        let queue = QUEUES[1];
        let mut client = Amqp::connect(&self.server.amqp)?;
        let count = match client.declare(queue) {
            Ok(count) => count.min(5),
            Err(why) => return Ok(Err(format!("declaring again: {why}"))),
        };
        client.consume(queue, 5)?;
        for _ in 0..count {
            match client.next() {
                Ok(Said::Delivered { tag, body }) => {
                    self.done[place].settled.push(Message::parse(&body)?);
                    client.ack(tag)?;
                }
                Ok(_) => return Err("a consumer was sent a confirm".to_owned()),
                Err(why) => return Ok(Err(format!("consuming: {why}"))),
            }
        }
        Ok(Ok(()))
    }

    // From the start: what is settled and cold. An error of the disk may refuse it once.
    fn fetch(&mut self, step: u64) -> Outcome<Step> {
        let partition = (step / 3 % PARTITIONS as u64) as i32;
        for _ in 0..3 {
            match self.kafka.fetch_once(TOPIC, partition, 0) {
                Ok(found) if found.is_empty() => return Err("a fetch from the start gave nothing".to_owned()),
                Ok(found) => {
                    let parsed = found.iter().map(|(_, value)| Message::parse(value));
                    parsed.collect::<Outcome<Vec<_>>>()?;
                    return Ok(Ok(()));
                }
                Err(why) if why.ends_with(&format!("failed with {STORAGE_ERROR}")) => self.refused = true,
                // A read that fails when half of the answer has been sent can only end the connection.
                Err(why) if until_broken::<()>(Err(why.clone())).is_ok() => {
                    self.refused = true;
                    self.kafka = Kafka::connect(&self.server.kafka)?;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(Err("a fetch was refused three times".to_owned()))
    }

    // A topic that lives so long that some of it is settled.
    fn doom(&mut self, step: u64) -> Outcome<Step> {
        let (now, before) = (format!("doomed-{step}"), format!("doomed-{}", step.wrapping_sub(10)));
        let created = self.kafka.try_create(&now, 1)?;
        if created == 0 {
            let values: Vec<Vec<u8>> = (0..BATCH).map(|number| Message::new(number, PADDING).bytes()).collect();
            self.kafka.produce(&now, 0, -1, &values)?;
            let _ = self.kafka.produced_or_refused()?; // it is only there to be deleted
        }
        let deleted = self.kafka.delete(&before)?;
        match (created, deleted) {
            (0, 0 | 3) => Ok(Ok(())), // 3: there is none, its creation was refused
            codes => Ok(Err(format!("creating and deleting topics: {codes:?}"))),
        }
    }
}
