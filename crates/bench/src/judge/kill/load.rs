//! The load: producers and publishers that number what they send and write down what is acknowledged, until the
//! connection breaks under them.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use crate::Outcome;
use crate::judge::Chance;
use crate::judge::amqp::{Amqp, Said};
use crate::judge::books::{Books, Done, Message, PARTITIONS, QUEUES, TOPIC};
use crate::judge::kafka::Kafka;
use crate::judge::server::Server;
use crate::judge::wire::until_broken;

const IN_FLIGHT_MAX: usize = 5;
const UNCONFIRMED_MAX: usize = 200;
const PREFETCH: u16 = 50;
/// KAFKA_STORAGE_ERROR.
const STORAGE_ERROR: i64 = 56;

/// The clients at work.
pub(crate) struct Running(Vec<JoinHandle<Outcome<Done>>>);

impl Running {
    /// What all have done, once their connections are broken.
    pub(crate) fn finish(self) -> Outcome<Vec<Done>> {
        let outcomes = self.0.into_iter().map(|one| one.join().map_err(|_| "a client panicked".to_owned())?);
        outcomes.collect()
    }
}

/// Makes the topic and the queues.
pub(crate) fn prepare(server: &Server) -> Outcome<()> {
    Kafka::connect(&server.kafka)?.create(TOPIC, PARTITIONS)?;
    let mut amqp = Amqp::connect(&server.amqp)?;
    QUEUES.iter().try_for_each(|queue| amqp.declare(queue).map(drop))
}

/// Sets all clients to work; what they send goes on from what `books` have.
pub(crate) fn start(server: &Server, chance: &mut Chance, books: &Books) -> Outcome<Running> {
    let mut all = Vec::new();
    for partition in 0..PARTITIONS {
        let place = partition as usize;
        let client = Kafka::connect(&server.kafka)?;
        let mut own = Chance::new(chance.below(u64::MAX));
        let first = books.next(place);
        all.push(std::thread::spawn(move || produce(client, partition, first, &mut own)));
    }
    for (at, queue) in QUEUES.into_iter().enumerate() {
        let place = PARTITIONS as usize + at;
        let client = Amqp::connect(&server.amqp)?;
        let mut own = Chance::new(chance.below(u64::MAX));
        let first = books.next(place);
        all.push(std::thread::spawn(move || publish(client, queue, place, first, &mut own)));
    }
    let consumer = Amqp::connect(&server.amqp)?;
    all.push(std::thread::spawn(move || work(consumer)));
    Ok(Running(all))
}

/// Even partitions ask for acks=all, odd ones for acks=1: a kill must harm neither.
fn produce(mut client: Kafka, partition: i32, first: u64, chance: &mut Chance) -> Outcome<Done> {
    let acks = if partition % 2 == 0 { -1 } else { 1 };
    let mut reader = client.reader()?;
    let (sender, waiting) = mpsc::sync_channel::<Vec<Message>>(IN_FLIGHT_MAX);
    let writer = std::thread::spawn({
        let mut chance = Chance::new(chance.below(u64::MAX));
        move || {
            let mut sent = Vec::new();
            let mut next = first;
            loop {
                let batch: Vec<Message> =
                    (0..=chance.below(40)).map(|n| Message::new(next + n, chance.below(300))).collect();
                next += batch.len() as u64;
                let values: Vec<Vec<u8>> = batch.iter().map(Message::bytes).collect();
                sent.extend(batch.iter().copied());
                if sender.send(batch).is_err() || client.produce(TOPIC, partition, acks, &values).is_err() {
                    return sent;
                }
            }
        }
    });
    let mut acknowledged = Vec::new();
    while let Some((told, batch)) = until_broken(reader.produced_or_refused())?.zip(waiting.recv().ok()) {
        match told {
            Ok(base) => {
                acknowledged.extend(batch.into_iter().zip(base..).map(|(message, offset)| (Some(offset), message)));
            }
            Err(STORAGE_ERROR) => {} // settling lags far behind: refused for a moment, and not stored
            Err(code) => return Err(format!("a produce failed with {code}")),
        }
    }
    drop(waiting);
    let sent = writer.join().map_err(|_| "a writer panicked")?;
    Ok(Done { place: partition as usize, sent, acknowledged, settled: Vec::new() })
}

fn publish(mut client: Amqp, queue: &'static str, place: usize, first: u64, chance: &mut Chance) -> Outcome<Done> {
    // The kill may come before the first publish.
    if until_broken(client.confirm())?.is_none() {
        return Ok(Done { place, sent: Vec::new(), acknowledged: Vec::new(), settled: Vec::new() });
    }
    let mut writer = client.writer()?;
    let (sender, waiting) = mpsc::sync_channel::<Message>(UNCONFIRMED_MAX);
    let mut chance = Chance::new(chance.below(u64::MAX));
    let writer = std::thread::spawn(move || {
        let mut sent = Vec::new();
        for number in first.. {
            let message = Message::new(number, chance.below(300));
            sent.push(message);
            if sender.send(message).is_err() || writer.publish(queue, &message.bytes()).is_err() {
                break;
            }
        }
        sent
    });
    let acknowledged = confirmed(&mut client, waiting)?;
    let sent = writer.join().map_err(|_| "a writer panicked")?;
    Ok(Done { place, sent, acknowledged, settled: Vec::new() })
}

/// Writes down what is confirmed, until the connection breaks.
fn confirmed(client: &mut Amqp, waiting: Receiver<Message>) -> Outcome<Vec<(Option<i64>, Message)>> {
    let mut acknowledged = Vec::new();
    // Published and not confirmed, with its tag.
    let mut open: VecDeque<(u64, Message)> = VecDeque::new();
    let mut published = 0;
    while let Some(said) = until_broken(client.next())? {
        let (tag, multiple, stored) = match said {
            Said::Confirmed { tag, multiple } => (tag, multiple, true),
            Said::Refused { tag, multiple } => (tag, multiple, false), // settling lags far behind
            Said::Delivered { .. } => return Err("a publisher was sent a delivery".to_owned()),
        };
        while published < tag {
            let Ok(message) = waiting.recv() else {
                return Ok(acknowledged);
            };
            published += 1;
            open.push_back((published, message));
        }
        let is_meant = |at: u64| at == tag || multiple && at < tag;
        acknowledged.extend(open.iter().filter(|(at, _)| stored && is_meant(*at)).map(|(_, message)| (None, *message)));
        open.retain(|(at, _)| !is_meant(*at));
    }
    Ok(acknowledged)
}

/// Consumes the second queue and acknowledges each message.
fn work(mut client: Amqp) -> Outcome<Done> {
    let mut settled = Vec::new();
    // The kill may come before the first delivery.
    let mut consumes = until_broken(client.consume(QUEUES[1], PREFETCH))?.is_some();
    while consumes && let Some(said) = until_broken(client.next())? {
        let Said::Delivered { tag, body } = said else {
            return Err("a consumer was sent a confirm".to_owned());
        };
        // Written down before it is sent: once sent, it may count.
        settled.push(Message::parse(&body)?);
        consumes = client.ack(tag).is_ok();
    }
    Ok(Done { place: PARTITIONS as usize + 1, sent: Vec::new(), acknowledged: Vec::new(), settled })
}
