//! P1: producing small records through the official clients.

use std::process::Command;
use std::time::Instant;

use clap::ValueEnum;

use crate::target::Target;
use crate::{Outcome, parse_target, procfs, tools};

/// Partitions of the topic.
const PARTITIONS: u32 = 6;

/// What P1 is told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID; give two to compare: the first against the second.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Records a run.
    #[arg(long, default_value_t = 5_000_000)]
    records: u64,
    /// Bytes of a record's value.
    #[arg(long, default_value_t = 100)]
    bytes: u32,
    /// Which acknowledgement: 1 (page cache) or all.
    #[arg(long, default_value = "1")]
    acks: String,
    /// Runs of each broker, in turn.
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Which clients.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "java,librdkafka")]
    clients: Vec<Client>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Client {
    /// Kafka's own ProducerPerformance.
    Java,
    /// librdkafka, through its Python binding.
    Librdkafka,
}

/// One run of one broker.
struct Run {
    cpu_s_per_million: f64,
    records_per_s: f64,
    peak_mib: f64,
    others_share: f64,
}

/// Runs all pairs and prints the table.
///
/// # Errors
/// When a client cannot be fetched or a run fails.
pub fn run(args: &Args) -> Outcome<()> {
    println!("client      broker     pair  CPU s/M   records/s   peak MiB  others' CPU");
    for &client in &args.clients {
        let mut runs: Vec<Vec<Run>> = args.brokers.iter().map(|_| Vec::new()).collect();
        for pair in 1..=args.pairs {
            for (broker, results) in args.brokers.iter().zip(&mut runs) {
                let run = once(args, client, broker, pair)?;
                println!(
                    "{:<11} {:<10} {pair:>4} {:>8.3} {:>11.0} {:>10.1} {:>11.0}%",
                    format!("{client:?}").to_lowercase(),
                    broker.name,
                    run.cpu_s_per_million,
                    run.records_per_s,
                    run.peak_mib,
                    run.others_share * 100.0
                );
                results.push(run);
            }
        }
        summary(client, &args.brokers, &runs);
    }
    Ok(())
}

fn summary(client: Client, brokers: &[Target], runs: &[Vec<Run>]) {
    for (broker, results) in brokers.iter().zip(runs) {
        let cpu = median(results.iter().map(|run| run.cpu_s_per_million).collect());
        let speed = median(results.iter().map(|run| run.records_per_s).collect());
        println!("{client:?} {}: median {cpu:.3} CPU s per million, {speed:.0} records/s", broker.name);
    }
    if let [first, second] = runs {
        let pairs = || first.iter().zip(second);
        let cpu = median(pairs().map(|(a, b)| a.cpu_s_per_million / b.cpu_s_per_million).collect());
        let speed = median(pairs().map(|(a, b)| a.records_per_s / b.records_per_s).collect());
        println!("{client:?}: median of paired ratios: CPU {cpu:.3}, throughput {speed:.2}");
    }
}

fn once(args: &Args, client: Client, broker: &Target, pair: u32) -> Outcome<Run> {
    let topic = format!("p1-{client:?}-{pair}-{}", std::process::id()).to_lowercase();
    create_topic(broker, &topic)?;
    // Warm up, so that no connection, leader look-up or class loading falls into the measured part.
    let mut warm_up = command(args, client, broker, &topic, args.records / 50)?;
    tools::output(&mut warm_up)?;
    let mut measured = command(args, client, broker, &topic, args.records)?;
    let (before, busy, begun) = (procfs::usage(broker.pid)?, procfs::machine_busy_s(), Instant::now());
    let children = children_cpu_s();
    let printed = tools::output(&mut measured)?;
    let wall_s = begun.elapsed().as_secs_f64();
    let after = procfs::usage(broker.pid)?;
    let broker_s = after.cpu_s - before.cpu_s;
    let others_s = procfs::machine_busy_s() - busy - broker_s - (children_cpu_s() - children);
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    delete_topic(broker, &topic)?;
    Ok(Run {
        cpu_s_per_million: broker_s / (args.records as f64 / 1e6),
        records_per_s: rate(&printed).unwrap_or(args.records as f64 / wall_s),
        peak_mib: after.peak_mib,
        others_share: (others_s / (wall_s * cores)).max(0.0),
    })
}

/// The last `N records/sec` that the client printed.
fn rate(printed: &str) -> Option<f64> {
    let line = printed.lines().rev().find(|line| line.contains("records/sec"))?;
    line.split("records/sec").next()?.split_whitespace().last()?.parse().ok()
}

fn command(args: &Args, client: Client, broker: &Target, topic: &str, records: u64) -> Outcome<Command> {
    let mut command;
    match client {
        Client::Java => {
            command = java("org.apache.kafka.tools.ProducerPerformance")?;
            command.args(["--topic", topic, "--throughput", "-1", "--reporting-interval", "600000"]);
            command.args(["--num-records", &records.to_string(), "--record-size", &args.bytes.to_string()]);
            command.args(["--bootstrap-server", &broker.address, "--command-property", "linger.ms=5"]);
            command.arg(format!("acks={}", args.acks));
            if args.acks != "all" {
                command.arg("enable.idempotence=false");
            }
        }
        Client::Librdkafka => {
            command = Command::new(tools::librdkafka_python()?);
            command.args(["-c", include_str!("librdkafka_produce.py"), &broker.address, topic, &args.acks]);
            command.args([records.to_string(), args.bytes.to_string()]);
        }
    }
    Ok(command)
}

fn create_topic(broker: &Target, topic: &str) -> Outcome<()> {
    topic_command(broker, &["--create", "--topic", topic, "--partitions", &PARTITIONS.to_string()])
}

fn delete_topic(broker: &Target, topic: &str) -> Outcome<()> {
    topic_command(broker, &["--delete", "--topic", topic])
}

fn topic_command(broker: &Target, args: &[&str]) -> Outcome<()> {
    let mut command = java("org.apache.kafka.tools.TopicCommand")?;
    tools::output(command.args(["--bootstrap-server", &broker.address]).args(args)).map(drop)
}

fn java(class: &str) -> Outcome<Command> {
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-cp", &tools::kafka_tools()?, class]);
    Ok(command)
}

/// CPU seconds of this process's finished children and itself.
fn children_cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse().ok())
        .collect();
    fields.iter().sum::<f64>() / 100.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (Some(below), Some(above)) if values.len().is_multiple_of(2) => (below + above) / 2.0,
        (_, Some(value)) => *value,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_rates_are_read_right() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        let line = "5000 records sent, 1234.5 records/sec (0.12 MB/sec), 1 ms avg latency";
        assert_eq!(rate(line), Some(1234.5));
    }
}
