//! Several lives of one server, each ended by a power cut or a kill under load in both tongues. Each acknowledgement is
//! written down by the client; the next life must show every one of them, in order, and nothing else. The window is so
//! small that the cuts meet settling, merging and checkpoints; and half of the starts are themselves cut, at any call.

use broker::Tongue;
use storage::sim_disk::{Fault, SimDisk};

use crate::client::{amqp, kafka};
use crate::ledger::{End, Ledger, number_of};
use crate::random::Random;
use crate::world::{ConnectionId, World};

/// Partitions of the topic.
const PARTITIONS: usize = 2;
/// Lives of one server.
const LIVES: u64 = 3;
const TOPIC: &str = "sim-topic";
/// The length of a large message.
const LARGE: usize = 9_000;
/// So many starts in a row may be cut.
const CUTS_OF_A_START: u64 = 3;

/// The correlation id of requests whose answers nobody looks at.
const IGNORED: i32 = -7;

/// The tongues under test.
#[derive(Clone, Copy)]
pub struct Tongues<'a> {
    /// Kafka's.
    pub kafka: &'a dyn Tongue,
    /// AMQP's.
    pub amqp: &'a dyn Tongue,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Images that were opened: one for each stop, and one for each stop of a start.
    pub images: u64,
    /// How often journal files were settled, and files of the store merged.
    pub moves: [u64; 2],
    /// Messages acknowledged in all lives, checked after each.
    pub acknowledged: usize,
}

/// All that the clients know.
#[derive(Default)]
struct Clients {
    partitions: [Ledger; PARTITIONS],
    queue: Ledger,
    topic_made: bool,
    in_flight: Vec<(i32, usize, Vec<u64>)>,
    correlation: i32,
}

/// One life's connections.
struct Life {
    world: World,
    producer: ConnectionId,
    publisher: ConnectionId,
    publisher_ears: amqp::Listener,
    /// Numbers of this life's publishes, by publish tag less one.
    published: Vec<u64>,
    confirmed: u64,
}

/// Runs all lives of `seed`.
///
/// # Errors
/// A sentence that says which promise was broken.
pub fn run(seed: u64, end: End, tongues: Tongues<'_>) -> Result<Report, String> {
    let mut random = Random::new(seed);
    let mut clients = Clients::default();
    let mut disk = SimDisk::new();
    let (mut images, mut moves) = (0, [0, 0]);
    for life in 0..=LIVES {
        if life > 0 {
            images += 1;
            disk = cut_starts(disk, tongues, &mut random, &mut images, end);
        }
        let world = World::open(disk, &[tongues.kafka, tongues.amqp], random.draw());
        let mut world = world.map_err(|why| format!("life {life} does not open: {why}"))?;
        if life > 0 {
            check_topic(&mut world, &clients, tongues, end)?;
            check_queue(&mut world, &mut clients, tongues, &mut random, end)?;
        }
        clients.in_flight.clear();
        let mut running = Life::begin(world, tongues);
        running.load(&mut clients, &mut random, end)?;
        let stats = running.world.storage_stats();
        moves = [moves[0] + stats.settles, moves[1] + stats.merges];
        disk = match end {
            End::Power => running.world.power_cut(random.draw()),
            End::Kill => running.world.kill(),
        };
    }
    let acknowledged = clients.partitions.iter().chain([&clients.queue]).map(Ledger::acknowledged).sum();
    Ok(Report { acknowledged, images, moves })
}

// Opens that do not come to their end: the process dies at some call, and what it had done meanwhile is half there.
fn cut_starts(mut disk: SimDisk, tongues: Tongues<'_>, random: &mut Random, images: &mut u64, end: End) -> SimDisk {
    for _ in 0..CUTS_OF_A_START {
        if random.once_in(2) {
            break;
        }
        let whole = disk.kill();
        drop(World::open(whole.clone(), &[tongues.kafka, tongues.amqp], 1)); // only to know how many calls it makes
        let calls = whole.calls().all;
        let at = 1 + random.draw() % calls.max(1);
        disk.fail_at(at, Fault::Death);
        drop(World::open(disk.clone(), &[tongues.kafka, tongues.amqp], 1)); // an error: it is dead
        disk = match end {
            End::Power => disk.crash(random.draw()),
            End::Kill => disk.kill(),
        };
        *images += 1;
    }
    disk
}

impl Life {
    fn begin(mut world: World, tongues: Tongues<'_>) -> Life {
        let producer = world.connect(tongues.kafka);
        let publisher = world.connect(tongues.amqp);
        world.send(publisher, &amqp::handshake());
        let mut publisher_ears = amqp::Listener::default();
        world.until("queue.declare-ok", |world| {
            heard(world, publisher, &mut publisher_ears).contains(&amqp::Heard::Method(50, 11))
        });
        Life { world, producer, publisher, publisher_ears, published: Vec::new(), confirmed: 0 }
    }

    fn load(&mut self, clients: &mut Clients, random: &mut Random, end: End) -> Result<(), String> {
        self.make_topic(clients)?;
        // Some lives are long enough for merges.
        let acts = if random.once_in(6) { 900 } else { 120 };
        for _ in 0..10 + random.below(acts) {
            match random.below(16) {
                0..=7 => self.produce(clients, random, end),
                8..=11 => self.publish(clients, random),
                12 => self.doom(),
                _ => self.world.turn(),
            }
            self.hear_acks(clients)?;
        }
        Ok(())
    }

    fn make_topic(&mut self, clients: &mut Clients) -> Result<(), String> {
        if clients.topic_made {
            return Ok(());
        }
        self.world.send(self.producer, &kafka::create_topic(1, TOPIC, PARTITIONS as i32));
        let mut body = Vec::new();
        self.world.until("the topic's creation", |world| {
            kafka::answer(world.received(self.producer)).map(|answer| body = answer.1).is_some()
        });
        clients.topic_made = true;
        match kafka::read_created(&body) {
            Ok(0) => Ok(()),
            other => Err(format!("the topic cannot be made: {other:?}")),
        }
    }

    fn produce(&mut self, clients: &mut Clients, random: &mut Random, end: End) {
        let partition = random.below(PARTITIONS);
        let ledger = &mut clients.partitions[partition];
        let size = if random.once_in(3) { LARGE } else { 0 };
        let first = ledger.sent;
        let values: Vec<String> = (0..=random.below(4)).map(|_| ledger.write(&pad(partition, size))).collect();
        // Unsynced acknowledgements promise nothing when the power fails.
        let acks = if end == End::Kill && random.once_in(2) { 1 } else { -1 };
        clients.correlation += 1;
        clients.in_flight.push((clients.correlation, partition, (first..first + values.len() as u64).collect()));
        self.world.send(self.producer, &kafka::produce(clients.correlation, acks, TOPIC, partition as i32, &values));
    }

    // A topic is deleted and made again: what it held dies, in the window and behind it. Nobody waits for the answers.
    fn doom(&mut self) {
        let values: Vec<String> = (0..4).map(|_| "d".repeat(LARGE)).collect();
        for request in [
            kafka::delete_topic(IGNORED, "doomed"),
            kafka::create_topic(IGNORED, "doomed", 1),
            kafka::produce(IGNORED, -1, "doomed", 0, &values),
        ] {
            self.world.send(self.producer, &request);
        }
    }

    fn publish(&mut self, clients: &mut Clients, random: &mut Random) {
        for _ in 0..=random.below(5) {
            self.published.push(clients.queue.sent);
            let body = clients.queue.write("q");
            self.world.send(self.publisher, &amqp::publish(&body));
        }
    }

    fn hear_acks(&mut self, clients: &mut Clients) -> Result<(), String> {
        while let Some((correlation, body)) = kafka::answer(self.world.received(self.producer)) {
            if correlation == IGNORED {
                continue;
            }
            let ack = kafka::read_ack(correlation, &body).map_err(|why| format!("produce answer: {why}"))?;
            let at = clients.in_flight.iter().position(|flight| flight.0 == correlation);
            let Some(at) = at else { return Err(format!("an answer to nothing: {ack:?}")) };
            let (_, partition, numbers) = clients.in_flight.remove(at);
            if ack.error != 0 {
                return Err(format!("produce failed: {ack:?}"));
            }
            for (nth, number) in (0u64..).zip(numbers) {
                clients.partitions[partition].acknowledge(number, Some(ack.base.unsigned_abs() + nth));
            }
        }
        for heard in heard(&mut self.world, self.publisher, &mut self.publisher_ears) {
            match heard {
                amqp::Heard::Ack { tag, multiple } => {
                    let from = if multiple { self.confirmed + 1 } else { tag };
                    for tag in from..=tag {
                        let number = self.published.get(tag as usize - 1).ok_or("a confirm of nothing")?;
                        clients.queue.acknowledge(*number, None);
                    }
                    self.confirmed = self.confirmed.max(tag);
                }
                other => return Err(format!("the publisher heard {other:?}")),
            }
        }
        Ok(())
    }
}

/// The place's name, long enough to make the message as large as asked.
fn pad(partition: usize, size: usize) -> String {
    format!("p{partition}{}", "-".repeat(size))
}

fn heard(world: &mut World, id: ConnectionId, ears: &mut amqp::Listener) -> Vec<amqp::Heard> {
    let mut all = Vec::new();
    while let Ok(Some(one)) = ears.next(world.received(id)) {
        all.push(one);
    }
    all
}

fn check_topic(world: &mut World, clients: &Clients, tongues: Tongues<'_>, end: End) -> Result<(), String> {
    let reader = world.connect(tongues.kafka);
    for (partition, ledger) in clients.partitions.iter().enumerate() {
        let mut read = Vec::new();
        loop {
            let from = read.last().map_or(0, |(_, offset): &(String, Option<u64>)| offset.unwrap_or(0) + 1);
            world.send(reader, &kafka::fetch(9, TOPIC, partition as i32, from));
            let mut body = Vec::new();
            world.until("a fetch's answer", |world| {
                kafka::answer(world.received(reader)).map(|answer| body = answer.1).is_some()
            });
            let (error, records) = kafka::read_records(&body).map_err(|why| format!("fetch answer: {why}"))?;
            if error != 0 {
                return Err(format!("fetch of partition {partition} from {from} failed with {error}"));
            }
            let fresh: Vec<_> = records.into_iter().filter(|record| record.offset >= from).collect();
            if fresh.is_empty() {
                break;
            }
            read.extend(fresh.into_iter().map(|record| (record.value.replace('-', ""), Some(record.offset))));
        }
        ledger.check(&format!("p{partition}"), &read, end)?;
    }
    Ok(())
}

fn check_queue(
    world: &mut World,
    clients: &mut Clients,
    tongues: Tongues<'_>,
    random: &mut Random,
    end: End,
) -> Result<(), String> {
    let consumer = world.connect(tongues.amqp);
    let mut ears = amqp::Listener::default();
    world.send(consumer, &amqp::handshake());
    world.send(consumer, &amqp::consume());
    let (mut read, mut tags, mut quiet) = (Vec::new(), Vec::new(), 0u64);
    while quiet < 40 {
        world.turn();
        // Messages may still be on their way from the disk.
        quiet += u64::from(!world.is_busy());
        for heard in heard(world, consumer, &mut ears) {
            match heard {
                amqp::Heard::Delivery { tag, body, .. } => {
                    tags.push((tag, number_of(&body).unwrap_or(u64::MAX)));
                    read.push((body, None));
                    quiet = 0;
                }
                amqp::Heard::Closed(code, text) => return Err(format!("the consumer was closed: {code} {text}")),
                _ => {}
            }
        }
    }
    clients.queue.check("q", &read, end)?;
    for (tag, number) in tags {
        if random.once_in(2) {
            world.send(consumer, &amqp::ack(tag));
            clients.queue.settle(number);
        }
    }
    // One turn takes the acks in and writes them: from here on a kill may not bring them back.
    world.turn();
    world.turn();
    Ok(())
}
