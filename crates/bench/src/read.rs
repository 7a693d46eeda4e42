//! P3: reading: a long catch-up, warm and cold, and the tail with several groups.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::judge::kafka::Kafka;
use crate::load::{fetch, produce};
use crate::measure::{Figures, Meter};
use crate::target::Target;
use crate::{Outcome, neighbour, parse_target, tools};

const PARTITIONS: u32 = 6;
const VALUE_BYTES: usize = 1024;
/// Records of one batch: 16 KiB, as producers make them unless told otherwise.
const BATCH_RECORDS: usize = 16;
const GROUPS: u32 = 5;
/// A broker that takes less CPU than this in a second is idle; so long is waited for that.
const IDLE_CPU_S: f64 = 0.03;
/// So long at least a tail is watched.
const ALONE: Duration = Duration::from_secs(10);
const IDLE_WITHIN: Duration = Duration::from_secs(120);

/// What P3 is told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Its data folder, as NAME=PATH: brought into the page cache for the warm reading, dropped from it for the cold.
    #[arg(long = "data", value_parser = parse_data)]
    data: Vec<(String, PathBuf)>,
    /// Gigabytes (10⁹) to read.
    #[arg(long, default_value_t = 5)]
    gigabytes: u64,
    /// Records that the groups follow.
    #[arg(long, default_value_t = 1_000_000)]
    followed: u64,
    /// Connections that read at once, each some of the partitions.
    #[arg(long, default_value_t = 2)]
    readers: u32,
    /// Runs of each broker, in turn.
    #[arg(long, default_value_t = 3)]
    pairs: u32,
    /// Only these cases.
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// The topic to catch up on: filled if it is not there yet, and kept.
    #[arg(long)]
    topic: Option<String>,
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    Warm,
    Cold,
    Java,
    Tail,
    Groups,
    Neighbour,
}

fn parse_data(text: &str) -> Outcome<(String, PathBuf)> {
    let (name, path) = text.split_once('=').ok_or("NAME=PATH is wanted")?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

/// Runs all cases and prints the table.
///
/// # Errors
/// When a broker refuses anything.
pub fn run(args: &Args) -> Outcome<()> {
    println!("case                       broker     pair       GB  CPU s/GB      MB/s  peak MiB  others' CPU");
    let mut filled = Vec::new();
    for broker in &args.brokers {
        filled.push(fill(args, broker)?);
    }
    for pair in 1..=args.pairs {
        for (broker, topic) in args.brokers.iter().zip(&filled) {
            let show = |what: &str, (bytes, figures): (u64, Figures)| show(what, broker, pair, bytes, figures);
            let wants = |case| args.cases.is_empty() || args.cases.contains(&case);
            let data = args.data.iter().find(|(name, _)| *name == broker.name);
            if wants(Case::Warm) {
                data.map_or(Ok(()), |(_, folder)| warm_up(folder))?;
                show("catch up, warm", catch_up(args, broker, topic)?);
            }
            if let Some((_, folder)) = data.filter(|_| wants(Case::Cold)) {
                evict(folder)?;
                show("catch up, cold", catch_up(args, broker, topic)?);
            }
            if wants(Case::Java) {
                show("catch up, Java", java(args, broker, topic, pair)?);
            }
            if wants(Case::Tail) {
                show("tail, 5 raw readers", follow(args, broker, pair)?);
            }
            if wants(Case::Groups) {
                show("tail, 5 librdkafka groups", groups(args, broker, pair)?);
            }
            if let Some((_, folder)) = data.filter(|_| wants(Case::Neighbour)) {
                neighbour(args, broker, topic, folder)?;
            }
        }
    }
    if args.topic.is_none() {
        for (broker, topic) in args.brokers.iter().zip(&filled) {
            Kafka::connect(&broker.address)?.delete(topic)?;
        }
    }
    Ok(())
}

fn show(what: &str, broker: &Target, pair: u32, bytes: u64, figures: Figures) {
    let gigabytes = bytes as f64 / 1e9;
    println!(
        "{what:<26} {:<10} {pair:>4} {gigabytes:>8.1} {:>9.3} {:>9.0} {:>9.1} {:>11.0}%",
        broker.name,
        figures.cpu_s / gigabytes,
        gigabytes * 1e3 / figures.wall_s,
        figures.peak_mib,
        figures.others_share * 100.0
    );
}

fn records(args: &Args) -> u64 {
    let round = u64::from(PARTITIONS) * BATCH_RECORDS as u64 * 2;
    args.gigabytes * 1_000_000_000 / VALUE_BYTES as u64 / round * round
}

fn producing(broker: &Target, topic: &str, records: u64) -> produce::Plan {
    produce::Plan {
        address: broker.address.clone(),
        topic: topic.to_owned(),
        partitions: PARTITIONS,
        batches: records / BATCH_RECORDS as u64,
        batch_records: BATCH_RECORDS,
        value_bytes: VALUE_BYTES,
        request_batches: PARTITIONS,
        acks: 1,
        connections: 1,
        in_flight: 3,
    }
}

fn fill(args: &Args, broker: &Target) -> Outcome<String> {
    let topic = args.topic.clone().unwrap_or_else(|| format!("p3-{}", std::process::id()));
    if args.topic.is_none() || !is_there(broker, &topic) {
        create(broker, &topic)?;
        produce::run(&producing(broker, &topic, records(args)))?;
        await_idle(broker.pid)?;
    }
    Ok(topic)
}

fn is_there(broker: &Target, topic: &str) -> bool {
    fetch::probe(&reading_all(broker, topic)).is_ok()
}

/// Waits until the broker has done what it still had to do with what was written.
fn await_idle(pid: u32) -> Outcome<()> {
    let begun = Instant::now();
    while begun.elapsed() < IDLE_WITHIN {
        let meter = Meter::start(pid)?;
        thread::sleep(Duration::from_secs(1));
        if meter.finish()?.cpu_s < IDLE_CPU_S {
            break;
        }
    }
    Ok(())
}

/// Makes a topic, and waits until all its partitions can be read.
fn create(broker: &Target, topic: &str) -> Outcome<()> {
    Kafka::connect(&broker.address)?.create(topic, PARTITIONS as i32)?;
    fetch::await_ready(&reading_all(broker, topic))
}

fn reading_all(broker: &Target, topic: &str) -> fetch::Plan {
    fetch::Plan {
        address: broker.address.clone(),
        topic: topic.to_owned(),
        all: PARTITIONS,
        partitions: 0..PARTITIONS,
        records: 0,
        bytes: Default::default(),
    }
}

/// Reads `records` of the topic with several readers, each its partitions; answers the bytes.
fn catch_up(args: &Args, broker: &Target, topic: &str) -> Outcome<(u64, Figures)> {
    let each = PARTITIONS / args.readers.clamp(1, PARTITIONS);
    let plan = |first: u32| fetch::Plan {
        address: broker.address.clone(),
        topic: topic.to_owned(),
        all: PARTITIONS,
        partitions: first..first + each,
        records: records(args) / u64::from(PARTITIONS) * u64::from(each),
        bytes: Default::default(),
    };
    read(broker, (0..PARTITIONS).step_by(each as usize).map(plan).collect(), None)
}

/// Five readers of everything while it is produced.
fn follow(args: &Args, broker: &Target, pair: u32) -> Outcome<(u64, Figures)> {
    let topic = format!("p3-tail-{pair}-{}", std::process::id());
    create(broker, &topic)?;
    let producing = producing(broker, &topic, args.followed / 96 * 96);
    let plan = |_| fetch::Plan {
        address: broker.address.clone(),
        topic: topic.clone(),
        all: PARTITIONS,
        partitions: 0..PARTITIONS,
        records: producing.batches / u64::from(PARTITIONS) * u64::from(PARTITIONS) * BATCH_RECORDS as u64,
        bytes: Default::default(),
    };
    let done = read(broker, (0..GROUPS).map(plan).collect(), Some(producing.clone()))?;
    Kafka::connect(&broker.address)?.delete(&topic)?;
    Ok(done)
}

fn read(broker: &Target, plans: Vec<fetch::Plan>, writing: Option<produce::Plan>) -> Outcome<(u64, Figures)> {
    let meter = Meter::start(broker.pid)?;
    let reading: Vec<_> =
        plans.iter().cloned().map(|plan| thread::spawn(move || fetch::run(&plan, &mut fetch::start(&plan)))).collect();
    if let Some(plan) = writing {
        produce::run(&plan)?;
    }
    for reader in reading {
        reader.join().map_err(|_| "a reader panicked")??;
    }
    Ok((plans.iter().map(|plan| plan.bytes.load(Ordering::Relaxed)).sum(), meter.finish()?))
}

fn java(args: &Args, broker: &Target, topic: &str, pair: u32) -> Outcome<(u64, Figures)> {
    let records = records(args).min(2_000_000);
    let mut command = tools::java("org.apache.kafka.tools.ConsumerPerformance")?;
    command.args(["--bootstrap-server", &broker.address, "--topic", topic, "--timeout", "60000"]);
    command.args(["--num-records", &records.to_string(), "--group", &format!("{topic}-java-{pair}")]);
    let meter = Meter::start(broker.pid)?;
    tools::output(&mut command)?;
    Ok((records * VALUE_BYTES as u64, meter.finish()?))
}

/// Five groups of an official client follow the producer.
fn groups(args: &Args, broker: &Target, pair: u32) -> Outcome<(u64, Figures)> {
    let topic = format!("p3-groups-{pair}-{}", std::process::id());
    create(broker, &topic)?;
    let records = args.followed / 96 * 96;
    let producing = producing(broker, &topic, records);
    let mut command = Command::new(tools::librdkafka_python()?);
    command.args(["-c", include_str!("librdkafka_groups.py"), &broker.address, &topic, &GROUPS.to_string()]);
    command.arg(records.to_string());
    let meter = Meter::start(broker.pid)?;
    let reading = thread::spawn(move || tools::output(&mut command));
    produce::run(&producing)?;
    reading.join().map_err(|_| "the readers panicked")??;
    let figures = meter.finish()?;
    Kafka::connect(&broker.address)?.delete(&topic)?;
    Ok((records * VALUE_BYTES as u64 * u64::from(GROUPS), figures))
}

/// A tail alone, and beside a reader of the cold backlog.
fn neighbour(args: &Args, broker: &Target, backlog: &str, folder: &Path) -> Outcome<()> {
    let topic = format!("p3-neighbour-{}", std::process::id());
    create(broker, &topic)?;
    for what in ["a tail alone", "a tail beside a cold reader"] {
        evict(folder)?;
        let stop = AtomicBool::new(false);
        let latencies = thread::scope(|scope| {
            let tail = scope.spawn(|| neighbour::follow(broker, &topic, &stop));
            let begun = Instant::now();
            let read = match what {
                "a tail alone" => Ok(()),
                _ => catch_up(args, broker, backlog).map(drop),
            };
            thread::sleep(ALONE.saturating_sub(begun.elapsed()));
            stop.store(true, Ordering::Relaxed);
            let latencies = tail.join().map_err(|_| "the tail panicked")?;
            read.and(latencies)
        })?;
        println!(
            "{what:<28} {:<10} {:>7} records, from due to fetched: p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms",
            broker.name,
            latencies.count(),
            latencies.at(0.5),
            latencies.at(0.99),
            latencies.at(0.999),
        );
    }
    Kafka::connect(&broker.address)?.delete(&topic).map(drop)
}

/// Drops every file below `folder` from the page cache, by way of `dd`.
fn evict(folder: &Path) -> Outcome<()> {
    each_file(folder, &|path| {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", path.display())).args(["iflag=nocache", "count=0", "status=none"]);
        let _ = tools::output(&mut command); // a file that is gone by now needs no dropping
    })
}

/// Reads every file below `folder` into the page cache: a broker that reads past it does not do so itself.
fn warm_up(folder: &Path) -> Outcome<()> {
    each_file(folder, &|path| {
        let file = fs::File::open(path); // one that is gone by now needs no warming
        let _ = file.and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
    })
}

fn each_file(folder: &Path, what: &dyn Fn(&Path)) -> Outcome<()> {
    for entry in fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() { each_file(&path, what)? } else { what(&path) }
    }
    Ok(())
}
