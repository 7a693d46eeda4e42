//! P4: the same messages dealt evenly over ever more partitions, one 1 KiB record a batch, and a consumer of all.

use std::thread;

use crate::judge::kafka::Kafka;
use crate::load::{TOPIC_PARTITIONS, fetch, produce, topics};
use crate::measure::{HEAD, Meter, Row};
use crate::target::Target;
use crate::{Outcome, parse_target, tools};

/// Batches of one request; the smallest number of partitions there is.
const REQUEST_BATCHES: u32 = 10;

/// What P4 is told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Numbers of partitions.
    #[arg(long, value_delimiter = ',', default_value = "10,1000,10000,50000")]
    partitions: Vec<u32>,
    /// Records of each case.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Bytes of a record's value.
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// Which acknowledgement: -1, 0 or 1.
    #[arg(long, default_value_t = 1, allow_hyphen_values = true)]
    acks: i16,
    /// Runs of each broker, in turn.
    #[arg(long, default_value_t = 3)]
    pairs: u32,
    /// Read with Kafka's own consumer too.
    #[arg(long)]
    java: bool,
}

/// Runs all cases and prints the table.
///
/// # Errors
/// When a broker refuses anything.
pub fn run(args: &Args) -> Outcome<()> {
    println!("{HEAD}");
    for pair in 1..=args.pairs {
        for &partitions in &args.partitions {
            for broker in &args.brokers {
                if let Err(why) = case(args, broker, partitions, pair) {
                    println!("{partitions} partitions: {} failed: {why}", broker.name);
                }
            }
        }
    }
    Ok(())
}

fn case(args: &Args, broker: &Target, partitions: u32, pair: u32) -> Outcome<()> {
    let topic = format!("p4-{partitions}-{pair}-{}", std::process::id());
    let show = |what: &str, meter: &Meter| {
        let figures = meter.finish()?;
        let what = format!("{partitions}: {what}");
        println!("{}", Row { what: &what, broker: &broker.name, count: args.records, figures });
        Ok::<(), String>(())
    };
    let fetch_plan = fetch::Plan {
        address: broker.address.clone(),
        topic: topic.clone(),
        all: partitions,
        partitions: 0..partitions,
        records: args.records,
        bytes: Default::default(),
    };
    let meter = Meter::start(broker.pid)?;
    let mut admin = Kafka::connect(&broker.address)?;
    for (name, partitions) in topics(&topic, partitions) {
        admin.create(&name, partitions as i32)?;
    }
    let created = meter.finish()?;
    fetch::await_ready(&fetch_plan)?;
    let ready = meter.finish()?;
    println!(
        "{partitions}: made in {:.2} s, all ready after {:.2} s, {:.2} CPU s, RSS {:.1} MiB ({})",
        created.wall_s, ready.wall_s, ready.cpu_s, ready.rss_mib, broker.name
    );
    let produce_plan = produce::Plan {
        address: broker.address.clone(),
        topic: topic.clone(),
        partitions,
        batches: args.records,
        batch_records: 1,
        value_bytes: args.bytes,
        request_batches: REQUEST_BATCHES,
        acks: args.acks,
        connections: 2,
        in_flight: 5,
    };
    let meter = Meter::start(broker.pid)?;
    produce::run(&produce_plan)?;
    show("produce", &meter)?;
    let meter = Meter::start(broker.pid)?;
    let mut offsets = fetch::start(&fetch_plan);
    fetch::run(&fetch_plan, &mut offsets)?;
    show("catch up", &meter)?;
    if args.java && partitions <= TOPIC_PARTITIONS {
        let meter = Meter::start(broker.pid)?;
        java(args, broker, &topic)?;
        show("catch up, Java", &meter)?;
    }
    let meter = Meter::start(broker.pid)?;
    let reader = thread::spawn(move || fetch::run(&fetch_plan, &mut offsets));
    produce::run(&produce_plan)?;
    reader.join().map_err(|_| "the consumer panicked")??;
    show("produce and follow", &meter)?;
    topics(&topic, partitions).iter().try_for_each(|(name, _)| admin.delete(name).map(drop))
}

fn java(args: &Args, broker: &Target, topic: &str) -> Outcome<()> {
    let mut command = tools::java("org.apache.kafka.tools.ConsumerPerformance")?;
    command.args(["--bootstrap-server", &broker.address, "--topic", topic, "--timeout", "60000"]);
    command.args(["--num-records", &args.records.to_string(), "--group", &format!("group-of-{topic}")]);
    tools::output(&mut command).map(drop)
}
