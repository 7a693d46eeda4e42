//! The clients under pressure: good ones that measure how long they wait, steady ones that make the load, and bad ones
//! that take memory and give nothing back.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::amqp::Amqp;
use crate::judge::kafka::Kafka;
use crate::judge::server::Server;
use crate::judge::wire::Writer;

pub(super) const GOOD: &str = "good";
pub(super) const LOAD: &str = "load";
pub(super) const BACKLOG: &str = "backlog";
pub(super) const QUEUE: &str = "backlog-queue";

/// Every good client asks so often.
const PACE: Duration = Duration::from_millis(5);
const IN_FLIGHT: usize = 4;
/// One batch of the load.
const LOAD_BYTES: usize = 60_000;

/// How long each request of a kind took.
#[derive(Default)]
pub(super) struct Waits(pub(super) Vec<Duration>);

impl Waits {
    /// The wait that `part` of all do not exceed, in milliseconds.
    pub(super) fn quantile(&mut self, part: f64) -> f64 {
        self.0.sort_unstable();
        let at = (part * self.0.len().saturating_sub(1) as f64) as usize;
        self.0.get(at).map_or(0.0, |wait| wait.as_secs_f64() * 1000.0)
    }
}

/// A producer with acks=1 and a reader of the tail, for a while; answers how long each waited.
pub(super) fn good(server: &Server, time: Duration) -> Outcome<(Waits, Waits)> {
    let (mut producer, mut reader) = (Kafka::connect(&server.kafka)?, Kafka::connect(&server.kafka)?);
    let end = Instant::now() + time;
    let produces = spawn(move || {
        let mut waits = Waits::default();
        while Instant::now() < end {
            let begun = Instant::now();
            producer.produce(GOOD, 0, 1, &[vec![1; 100]])?;
            producer.produced()?;
            waits.0.push(begun.elapsed());
            sleep(PACE.saturating_sub(begun.elapsed()));
        }
        Ok::<Waits, String>(waits)
    });
    let mut waits = Waits::default();
    let (mut next, _) = reader.fetch(GOOD, 0, 0)?;
    while Instant::now() < end {
        let begun = Instant::now();
        next = reader.fetch(GOOD, 0, next)?.0;
        waits.0.push(begun.elapsed());
        sleep(PACE.saturating_sub(begun.elapsed()));
    }
    let produces = produces.join().map_err(|_| "the good producer panicked")??;
    Ok((produces, waits))
}

/// Producers that send as fast as answers allow.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    acked: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Outcome<()>>>,
}

impl Load {
    /// Starts `count` of them, each with its own partition.
    pub(super) fn start(server: &Server, count: i32, acks: i16) -> Outcome<Load> {
        let (stop, acked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for partition in 0..count {
            let mut client = Kafka::connect(&server.kafka)?;
            let (stop, acked) = (Arc::clone(&stop), Arc::clone(&acked));
            threads.push(spawn(move || {
                let frame = client.produce_frame(LOAD, partition, acks, &[vec![7; LOAD_BYTES]]);
                let mut open = 0;
                while !stop.load(Ordering::Relaxed) {
                    while open < IN_FLIGHT {
                        client.send_frame(&frame)?;
                        open += 1;
                    }
                    client.produced()?;
                    open -= 1;
                    acked.fetch_add(LOAD_BYTES as u64, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        Ok(Load { stop, acked, threads })
    }

    /// Bytes acknowledged so far.
    pub(super) fn acked(&self) -> u64 {
        self.acked.load(Ordering::Relaxed)
    }

    /// Ends them.
    pub(super) fn stop(self) -> Outcome<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a producer panicked".to_owned())?)
    }
}

/// Deletes what the load has written, so that it fits on the disk.
pub(super) fn trim(server: &Server, partitions: i32) -> Outcome<()> {
    let mut client = Kafka::connect(&server.kafka)?;
    let mut body = Writer::default();
    body.i32(1).text16(LOAD).i32(partitions);
    for partition in 0..partitions {
        body.i32(partition).u64(u64::MAX); // all
    }
    body.i32(30_000);
    client.send(21, 0, &body.0)?;
    client.receive().map(drop)
}

/// Fills a topic and a queue that the bad readers ask for.
pub(super) fn fill(server: &Server) -> Outcome<()> {
    let mut kafka = Kafka::connect(&server.kafka)?;
    for _ in 0..3000 {
        kafka.produce(BACKLOG, 0, 1, &[vec![3; 16_000]])?;
        kafka.produced()?;
    }
    let mut amqp = Amqp::connect(&server.amqp)?;
    amqp.declare(QUEUE)?;
    amqp.confirm()?;
    for _ in 0..20_000 {
        amqp.publish(QUEUE, &[5; 1000])?;
    }
    loop {
        if let crate::judge::amqp::Said::Confirmed { tag: 20_000, .. } = amqp.next()? {
            return Ok(());
        }
    }
}

/// Clients that ask for much, or send half of something, and then stand still. They live as long as this does.
pub(super) struct Bad {
    streams: Vec<TcpStream>,
}

impl Bad {
    /// `scale` of each of four kinds.
    pub(super) fn start(server: &Server, scale: usize) -> Outcome<Bad> {
        let mut streams = Vec::new();
        for at in 0..scale {
            let mut deaf = Kafka::connect(&server.kafka)?;
            for _ in 0..20 {
                deaf.ask_fetch(BACKLOG, 0, 0, 50 << 20)?;
            }
            streams.push(deaf.stream().try_clone().map_err(|e| e.to_string())?);
            let mut pushy = Kafka::connect(&server.kafka)?;
            let frame = pushy.produce_frame(LOAD, at as i32 % 4, 1, &[vec![7; LOAD_BYTES]]);
            streams.push(push(pushy.stream(), &frame, 2000)?);
            let mut publisher = Amqp::connect(&server.amqp)?;
            publisher.publish_part(QUEUE, 10 << 20, 9 << 20)?;
            streams.push(publisher.into_stream());
            let mut consumer = Amqp::connect(&server.amqp)?;
            consumer.consume(QUEUE, 0)?;
            streams.push(consumer.into_stream());
        }
        Ok(Bad { streams })
    }

    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }
}

// Sends as much as is taken, in the background, and never reads.
fn push(stream: &TcpStream, frame: &[u8], times: usize) -> Outcome<TcpStream> {
    use std::io::Write as _;
    let kept = stream.try_clone().map_err(|e| e.to_string())?;
    let (mut stream, frame) = (stream.try_clone().map_err(|e| e.to_string())?, frame.to_vec());
    stream.set_write_timeout(Some(Duration::from_secs(5))).map_err(|e| e.to_string())?;
    spawn(move || {
        // The broker stops reading, or hangs up: both are what it should do.
        (0..times).all(|_| stream.write_all(&frame).is_ok())
    });
    Ok(kept)
}
