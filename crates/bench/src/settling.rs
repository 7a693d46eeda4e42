//! What settling costs those who append meanwhile: a fixed load over many logs, open loop, against brokers that differ
//! only in whether their window is large enough that nothing settles. Each request counts from when it was due.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::judge::kafka::Kafka;
use crate::judge::wire::broken;
use crate::load::produce::{Plan, check, requests};
use crate::load::topics;
use crate::measure::Meter;
use crate::target::Target;
use crate::{Outcome, parse_target};

/// Batches of one request, each to another partition.
const REQUEST_BATCHES: u32 = 10;
const CONNECTIONS: u32 = 2;

/// What it is told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID: one with a window that is never full, one as it comes.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Megabytes a second of values.
    #[arg(long = "rate", value_delimiter = ',', default_value = "100,150")]
    rates: Vec<u64>,
    /// Partitions that the load is dealt to.
    #[arg(long, default_value_t = 1000)]
    partitions: u32,
    /// Records of one batch.
    #[arg(long, default_value_t = 4)]
    batch_records: usize,
    /// Bytes of a record's value.
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// Which acknowledgement: -1 or 1.
    #[arg(long, default_value_t = 1, allow_hyphen_values = true)]
    acks: i16,
    /// Seconds that count.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seconds before, at the same rate, in which the window fills.
    #[arg(long, default_value_t = 10)]
    warm_up: u64,
    /// How often the brokers take turns.
    #[arg(long, default_value_t = 3)]
    pairs: u32,
}

/// Runs it and prints the table.
///
/// # Errors
/// When a broker refuses anything.
pub fn run(args: &Args) -> Outcome<()> {
    println!(
        "MB/s offered  acks  broker           MB/s   ack ms: p50     p99   p99.9      max   CPU s/M  \
         others' CPU  RSS MiB"
    );
    for &rate in &args.rates {
        for pair in 1..=args.pairs {
            for broker in &args.brokers {
                case(args, broker, (rate, pair))?;
            }
        }
    }
    Ok(())
}

fn case(args: &Args, broker: &Target, (rate, pair): (u64, u32)) -> Outcome<()> {
    let topic = format!("settling-{rate}-{pair}-{}", std::process::id());
    let mut admin = Kafka::connect(&broker.address)?;
    let topics = topics(&topic, args.partitions);
    for (name, partitions) in &topics {
        admin.create(name, *partitions as i32)?;
    }
    let plan = Plan {
        address: broker.address.clone(),
        topic,
        partitions: args.partitions,
        batches: 0,
        batch_records: args.batch_records,
        value_bytes: args.bytes,
        request_batches: REQUEST_BATCHES,
        acks: args.acks,
        connections: CONNECTIONS,
        in_flight: 0,
    };
    let request_bytes = args.batch_records as u64 * args.bytes as u64 * u64::from(REQUEST_BATCHES);
    let every = Duration::from_secs_f64(request_bytes as f64 * f64::from(CONNECTIONS) / (rate * 1_000_000) as f64);
    let begun = Instant::now() + Duration::from_millis(200);
    let counts_from = begun + Duration::from_secs(args.warm_up);
    let until = counts_from + Duration::from_secs(args.seconds);
    let senders: Vec<_> = (0..CONNECTIONS)
        .map(|at| {
            let (plan, due) = (plan.clone(), Due { begun: begun + every * at / CONNECTIONS, every, until });
            thread::spawn(move || offer(&plan, at, due))
        })
        .collect();
    thread::sleep(counts_from.saturating_duration_since(Instant::now()));
    let meter = Meter::start(broker.pid)?;
    thread::sleep(until.saturating_duration_since(Instant::now()));
    let figures = meter.finish()?;
    let mut late = Vec::new();
    let mut in_time = 0;
    for sender in senders {
        for (due, answered) in sender.join().map_err(|_| "a sender panicked")?? {
            in_time += u64::from((counts_from..until).contains(&answered));
            if due >= counts_from {
                late.push(answered.saturating_duration_since(due).as_secs_f64() * 1e3);
            }
        }
    }
    late.sort_by(f64::total_cmp);
    let part = |part: f64| late.get((late.len().saturating_sub(1) as f64 * part) as usize).copied().unwrap_or(f64::NAN);
    println!(
        "{rate:>12} {:>5}  {:<14} {:>6.1} {:>14.2} {:>7.2} {:>7.2} {:>8.2} {:>9.2} {:>11.0}% {:>8.1}",
        args.acks,
        broker.name,
        (in_time * request_bytes) as f64 / 1e6 / args.seconds as f64,
        part(0.5),
        part(0.99),
        part(0.999),
        part(1.0),
        figures.cpu_per_million(in_time * args.batch_records as u64 * u64::from(REQUEST_BATCHES)),
        figures.others_share * 100.0,
        figures.rss_mib,
    );
    topics.iter().try_for_each(|(name, _)| admin.delete(name).map(drop))
}

/// When each request is to be sent.
#[derive(Clone, Copy)]
struct Due {
    begun: Instant,
    every: Duration,
    until: Instant,
}

/// When a request was due and when it was answered.
type Answered = (Instant, Instant);

// Sends each request when it is due, or as soon as the socket takes it.
fn offer(plan: &Plan, at: u32, due: Due) -> Outcome<Vec<Answered>> {
    let mut client = Kafka::connect(&plan.address)?;
    let mut reader = client.reader()?;
    let requests = requests(plan);
    let (sent, answers) = std::sync::mpsc::channel::<Instant>();
    let awaiting = thread::spawn(move || {
        let mut all = Vec::new();
        for due in answers {
            check(&reader.receive()?)?;
            all.push((due, Instant::now()));
        }
        Ok::<_, String>(all)
    });
    let from = requests.len() * at as usize / plan.connections as usize;
    let mut next = due.begun;
    for request in requests.iter().cycle().skip(from) {
        if next >= due.until {
            break;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
        if sent.send(next).is_err() {
            break; // the reader has stopped and says why
        }
        client.stream().write_all(request).map_err(broken)?;
        next += due.every;
    }
    drop(sent);
    awaiting.join().map_err(|_| "a reader panicked")?
}
