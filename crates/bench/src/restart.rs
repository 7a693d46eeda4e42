//! P14: killed under a long log, many queues and a million unacknowledged messages: how long until it works again.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::judge::amqp::Amqp;
use crate::judge::kafka::Kafka;
use crate::judge::server::{Launch, Server};
use crate::load::amqp::{Consuming, PER_WRITE, Publishing, consume, publish};
use crate::load::produce;
use crate::{Outcome, procfs, tools};

/// What P14 is told.
#[derive(clap::Args)]
pub struct Args {
    /// The binary to start.
    #[arg(long, default_value = "target/release/fourfold")]
    binary: PathBuf,
    /// Where the data is put; it is removed at the end.
    #[arg(long)]
    folder: PathBuf,
    /// Gigabytes (10⁹) in a topic of 100 partitions.
    #[arg(long, default_value_t = 20)]
    gigabytes: u64,
    /// Queues with a message each.
    #[arg(long, default_value_t = 10_000)]
    queues: u32,
    /// Messages delivered and not acknowledged when it is killed.
    #[arg(long, default_value_t = 1_000_000)]
    unacked: u64,
    /// Kills and starts, one after the other.
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

const TOPIC: &str = "long";
const QUEUE: &str = "in-flight";

/// Fills, kills, restarts, and prints the table.
///
/// # Errors
/// When the broker refuses anything or does not start.
pub fn run(args: &Args) -> Outcome<()> {
    let mut server = Server::start(Launch::new(&args.binary, &args.folder))?;
    fill(args, &server)?;
    println!("run  data GB  ready s  first ack s  first fetch s  first redelivery s  RSS before  RSS after MiB  CPU s");
    for run in 1..=args.runs {
        let held = in_flight(args, &server)?;
        let before = procfs::usage(server.pid())?;
        let data = disk_bytes(args)? as f64 / 1e9;
        server.kill()?;
        drop(held);
        let begun = Instant::now();
        server.restart()?;
        let ready = begun.elapsed();
        let mut client = Kafka::connect(&server.kafka)?;
        client.produce(TOPIC, 0, -1, &[b"after".to_vec()])?;
        client.produced()?;
        let acked = begun.elapsed();
        client.fetch(TOPIC, 1, 0)?;
        let fetched = begun.elapsed();
        drop(consume(&consuming(&server, 1, 100))?);
        let delivered = begun.elapsed();
        let after = procfs::usage(server.pid())?;
        let s = |time: Duration| time.as_secs_f64();
        println!(
            "{run:>3} {data:>8.1} {:>8.3} {:>12.3} {:>14.3} {:>19.3} {:>11.1} {:>14.1} {:>6.2}",
            s(ready),
            s(acked),
            s(fetched),
            s(delivered),
            before.rss_mib,
            after.rss_mib,
            after.cpu_s
        );
    }
    server.kill()?;
    std::fs::remove_dir_all(&args.folder).map_err(|why| format!("{}: {why}", args.folder.display()))
}

fn fill(args: &Args, server: &Server) -> Outcome<()> {
    const PARTITIONS: u32 = 100;
    const VALUE_BYTES: u64 = 1024;
    const BATCH_RECORDS: u64 = 16;
    let mut client = Kafka::connect(&server.kafka)?;
    client.create(TOPIC, PARTITIONS as i32)?;
    produce::run(&produce::Plan {
        address: server.kafka.clone(),
        topic: TOPIC.to_owned(),
        partitions: PARTITIONS,
        batches: args.gigabytes * 1_000_000_000 / VALUE_BYTES / BATCH_RECORDS,
        batch_records: BATCH_RECORDS as usize,
        value_bytes: VALUE_BYTES as usize,
        request_batches: 10,
        acks: 1,
        connections: 1,
        in_flight: 3,
    })?;
    let queues: Vec<String> = (0..args.queues).map(|at| format!("queue-{at}")).collect();
    let mut admin = Amqp::connect(&server.amqp)?;
    for queue in queues.iter().map(String::as_str).chain([QUEUE]) {
        admin.declare(queue)?;
    }
    publish(&publishing(server, queues.clone(), u64::from(args.queues)))?;
    publish(&publishing(server, vec![QUEUE.to_owned()], args.unacked))
}

fn publishing(server: &Server, queues: Vec<String>, messages: u64) -> Publishing {
    let address = server.amqp.clone();
    let (exchange, confirmed) = (String::new(), Arc::default());
    Publishing { address, exchange, queues, messages, bytes: 100, window: 4096, per_write: PER_WRITE, confirmed }
}

fn consuming(server: &Server, messages: u64, prefetch: u16) -> Consuming {
    Consuming {
        address: server.amqp.clone(),
        queues: vec![QUEUE.to_owned()],
        consumers: 1,
        prefetch,
        ack_every: 0,
        messages,
        received: Arc::new(AtomicU64::new(0)),
    }
}

/// Takes all of the queue and keeps it unacknowledged.
fn in_flight(args: &Args, server: &Server) -> Outcome<std::net::TcpStream> {
    consume(&consuming(server, args.unacked, 0))
}

fn disk_bytes(args: &Args) -> Outcome<u64> {
    let told = tools::output(Command::new("du").args(["-sb", &args.folder.display().to_string()]))?;
    told.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).ok_or_else(|| format!("du: {told}"))
}
