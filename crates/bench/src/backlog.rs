//! Long backlogs: many small messages in one AMQP queue and one topic; memory must stay flat and draining fast.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::judge::amqp::Amqp;
use crate::judge::kafka::Kafka;
use crate::load::amqp::{Consuming, PER_WRITE, Publishing, consume, publish};
use crate::load::{fetch, produce};
use crate::measure::{HEAD, Meter, Row};
use crate::target::Target;
use crate::{Outcome, parse_target, procfs};

/// Records of one batch in the topic: about 16 KiB.
const BATCH_RECORDS: u64 = 146;

/// What the backlog is told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID: of its AMQP door for a queue, of its Kafka door for a topic.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    broker: Target,
    /// A topic instead of a queue.
    #[arg(long)]
    topic: bool,
    /// Sizes of the backlog, one after the other; the first is what the others are compared with.
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000")]
    messages: Vec<u64>,
    /// Bytes of a body.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Seconds between looks at the memory.
    #[arg(long, default_value_t = 5)]
    look_s: u64,
}

/// Fills and drains, and prints the table and how the memory went.
///
/// # Errors
/// When the broker refuses anything.
pub fn run(args: &Args) -> Outcome<()> {
    println!("{HEAD}");
    for &messages in &args.messages {
        let looks = Looks::begin(args);
        if args.topic {
            topic(args, messages)?
        } else {
            queue(args, messages)?
        }
        println!("RSS in MiB every {} s: {}", args.look_s, looks.end());
    }
    Ok(())
}

fn show(args: &Args, what: &str, messages: u64, meter: &Meter) -> Outcome<()> {
    println!("{}", Row { what, broker: &args.broker.name, count: messages, figures: meter.finish()? });
    Ok(())
}

fn queue(args: &Args, messages: u64) -> Outcome<()> {
    let mut admin = Amqp::connect(&args.broker.address)?;
    let name = format!("backlog-{messages}-{}", std::process::id());
    admin.declare(&name)?;
    let address = &args.broker.address;
    let meter = Meter::start(args.broker.pid)?;
    publish(&Publishing {
        address: address.clone(),
        exchange: String::new(),
        queues: vec![name.clone()],
        messages,
        bytes: args.bytes,
        window: 4096,
        per_write: PER_WRITE,
        confirmed: Arc::default(),
    })?;
    show(args, "fill a queue", messages, &meter)?;
    let meter = Meter::start(args.broker.pid)?;
    consume(&Consuming {
        address: address.clone(),
        queues: vec![name.clone()],
        consumers: 1,
        prefetch: 4096,
        ack_every: 1024,
        messages,
        received: Arc::new(AtomicU64::new(0)),
    })?;
    show(args, "drain it", messages, &meter)?;
    admin.delete(&name)
}

fn topic(args: &Args, messages: u64) -> Outcome<()> {
    let mut admin = Kafka::connect(&args.broker.address)?;
    let name = format!("backlog-{messages}-{}", std::process::id());
    admin.create(&name, 1)?;
    let address = &args.broker.address;
    let batches = messages.div_ceil(BATCH_RECORDS);
    let meter = Meter::start(args.broker.pid)?;
    produce::run(&produce::Plan {
        address: address.clone(),
        topic: name.clone(),
        partitions: 1,
        batches,
        batch_records: BATCH_RECORDS as usize,
        value_bytes: args.bytes,
        request_batches: 1,
        acks: 1,
        connections: 1,
        in_flight: 5,
    })?;
    let messages = batches * BATCH_RECORDS;
    show(args, "fill a topic", messages, &meter)?;
    let plan = fetch::Plan {
        address: address.clone(),
        topic: name.clone(),
        all: 1,
        partitions: 0..1,
        records: messages,
        bytes: Arc::default(),
    };
    let meter = Meter::start(args.broker.pid)?;
    fetch::run(&plan, &mut fetch::start(&plan))?;
    show(args, "read it", messages, &meter)?;
    admin.delete(&name).map(drop)
}

/// Looks at the broker's memory again and again.
struct Looks {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<String>>,
}

impl Looks {
    fn begin(args: &Args) -> Looks {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, pid, every) = (Arc::clone(&stop), args.broker.pid, Duration::from_secs(args.look_s));
        let thread = thread::spawn(move || {
            let mut seen = Vec::new();
            let mut next = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                if Instant::now() >= next {
                    next += every;
                    seen.extend(procfs::usage(pid).map(|usage| format!("{:.0}", usage.rss_mib)));
                }
                thread::sleep(Duration::from_millis(50));
            }
            seen
        });
        Looks { stop, thread }
    }

    fn end(self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default().join(" ")
    }
}
