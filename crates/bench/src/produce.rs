//! P1 and P2: producing through the official clients.

use std::process::Command;

use clap::ValueEnum;

use crate::measure::{Meter, median};
use crate::target::Target;
use crate::{Outcome, parse_target, tools};

/// Partitions of the topic.
const PARTITIONS: u32 = 6;

/// What P1 and P2 are told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID; give two to compare: the first against the second.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Records a run.
    #[arg(long, default_value_t = 5_000_000)]
    records: u64,
    /// Bytes of a record's value; 100 in P1, 1024 in P2.
    #[arg(long)]
    bytes: Option<u32>,
    /// Which acknowledgement: 1 or all; 1 in P1, all (and idempotent) in P2.
    #[arg(long)]
    acks: Option<String>,
    /// Runs of each broker, in turn.
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Which clients.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "java,librdkafka")]
    clients: Vec<Client>,
    /// Compressions, as the clients call them; none in P1, none,lz4,zstd in P2.
    #[arg(long, value_delimiter = ',')]
    compression: Vec<String>,
    /// A setting of the topic, as NAME=VALUE; for a peer that is to sync: `kafka:flush.messages=1`.
    #[arg(long = "topic-config")]
    topic_configs: Vec<String>,
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

/// What a row does unless told otherwise.
#[derive(Clone, Copy)]
pub struct Defaults {
    /// Bytes of a value.
    pub bytes: u32,
    /// Which acknowledgement.
    pub acks: &'static str,
    /// Compressions.
    pub codecs: &'static [&'static str],
}

/// P1's work.
pub const P1: Defaults = Defaults { bytes: 100, acks: "1", codecs: &["none"] };
/// P2's work.
pub const P2: Defaults = Defaults { bytes: 1024, acks: "all", codecs: &["none", "lz4", "zstd"] };

/// A client and how it compresses.
struct Case<'a> {
    client: Client,
    compression: &'a str,
    bytes: u32,
    acks: &'a str,
}

/// Runs all pairs and prints the table.
///
/// # Errors
/// When a client cannot be fetched or a run fails.
pub fn run(args: &Args, defaults: Defaults) -> Outcome<()> {
    let (bytes, acks) = (args.bytes.unwrap_or(defaults.bytes), args.acks.as_deref().unwrap_or(defaults.acks));
    let mut codecs: Vec<&str> = args.compression.iter().map(String::as_str).collect();
    if codecs.is_empty() {
        codecs = defaults.codecs.to_vec();
    }
    println!("client      codec  broker     pair  CPU s/M   records/s   peak MiB  others' CPU");
    for &client in &args.clients {
        for &compression in &codecs {
            pairs(args, &Case { client, compression, bytes, acks })?;
        }
    }
    Ok(())
}

fn pairs(args: &Args, case: &Case<'_>) -> Outcome<()> {
    let name = format!("{:?}", case.client).to_lowercase();
    let mut runs: Vec<Vec<Run>> = args.brokers.iter().map(|_| Vec::new()).collect();
    for pair in 1..=args.pairs {
        for (broker, results) in args.brokers.iter().zip(&mut runs) {
            let run = once(args, case, broker, pair)?;
            println!(
                "{name:<11} {:<6} {:<10} {pair:>4} {:>8.3} {:>11.0} {:>10.1} {:>11.0}%",
                case.compression,
                broker.name,
                run.cpu_s_per_million,
                run.records_per_s,
                run.peak_mib,
                run.others_share * 100.0
            );
            results.push(run);
        }
    }
    summary(&format!("{name}, {}", case.compression), &args.brokers, &runs);
    Ok(())
}

fn summary(case: &str, brokers: &[Target], runs: &[Vec<Run>]) {
    for (broker, results) in brokers.iter().zip(runs) {
        let cpu = median(results.iter().map(|run| run.cpu_s_per_million).collect());
        let speed = median(results.iter().map(|run| run.records_per_s).collect());
        println!("{case}: {}: median {cpu:.3} CPU s per million, {speed:.0} records/s", broker.name);
    }
    if let [first, second] = runs {
        let pairs = || first.iter().zip(second);
        let cpu = median(pairs().map(|(a, b)| a.cpu_s_per_million / b.cpu_s_per_million).collect());
        let speed = median(pairs().map(|(a, b)| a.records_per_s / b.records_per_s).collect());
        println!("{case}: median of paired ratios: CPU {cpu:.3}, throughput {speed:.2}");
    }
}

fn once(args: &Args, case: &Case<'_>, broker: &Target, pair: u32) -> Outcome<Run> {
    let topic = format!("bench-{:?}-{}-{pair}-{}", case.client, case.compression, std::process::id()).to_lowercase();
    create_topic(args, broker, &topic)?;
    // Warm up, so that no connection, leader look-up or class loading falls into the measured part.
    tools::output(&mut command(case, broker, &topic, args.records / 50)?)?;
    let mut measured = command(case, broker, &topic, args.records)?;
    let meter = Meter::start(broker.pid)?;
    let printed = tools::output(&mut measured)?;
    let figures = meter.finish()?;
    topic_command(broker, &["--delete", "--topic", &topic])?;
    Ok(Run {
        cpu_s_per_million: figures.cpu_per_million(args.records),
        records_per_s: rate(&printed).unwrap_or(figures.rate(args.records)),
        peak_mib: figures.peak_mib,
        others_share: figures.others_share,
    })
}

/// The last `N records/sec` that the client printed.
fn rate(printed: &str) -> Option<f64> {
    let line = printed.lines().rev().find(|line| line.contains("records/sec"))?;
    line.split("records/sec").next()?.split_whitespace().last()?.parse().ok()
}

fn command(case: &Case<'_>, broker: &Target, topic: &str, records: u64) -> Outcome<Command> {
    let mut command;
    match case.client {
        Client::Java => {
            command = tools::java("org.apache.kafka.tools.ProducerPerformance")?;
            command.args(["--topic", topic, "--throughput", "-1", "--reporting-interval", "600000"]);
            command.args(["--num-records", &records.to_string(), "--record-size", &case.bytes.to_string()]);
            command.args(["--bootstrap-server", &broker.address, "--command-property", "linger.ms=5"]);
            command.arg(format!("acks={}", case.acks)).arg(format!("compression.type={}", case.compression));
            command.arg(format!("enable.idempotence={}", case.acks == "all"));
        }
        Client::Librdkafka => {
            command = Command::new(tools::librdkafka_python()?);
            command.args(["-c", include_str!("librdkafka_produce.py"), &broker.address, topic, case.acks]);
            command.args([records.to_string(), case.bytes.to_string(), case.compression.to_owned()]);
        }
    }
    Ok(command)
}

fn create_topic(args: &Args, broker: &Target, topic: &str) -> Outcome<()> {
    let partitions = PARTITIONS.to_string();
    let mut words = vec!["--create", "--topic", topic, "--partitions", &partitions];
    for config in &args.topic_configs {
        match config.split_once(':') {
            Some((whose, config)) if whose == broker.name => words.extend(["--config", config]),
            Some(_) => {}
            None => words.extend(["--config", config]),
        }
    }
    topic_command(broker, &words)
}

fn topic_command(broker: &Target, args: &[&str]) -> Outcome<()> {
    let mut command = tools::java("org.apache.kafka.tools.TopicCommand")?;
    tools::output(command.args(["--bootstrap-server", &broker.address]).args(args)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_right() {
        let line = "5000 records sent, 1234.5 records/sec (0.12 MB/sec), 1 ms avg latency";
        assert_eq!(rate(line), Some(1234.5));
    }
}
