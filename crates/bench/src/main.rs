//! `cargo xtask bench`: the rows of the benchmark table, each against a peer in turn on the same machine.
//!
//! The headline is CPU seconds of the broker process per million messages, since wall time on a shared machine says
//! more about the neighbours. Every run's raw line is printed; `docs/benchmarks.md` keeps them.

mod backlog;
mod growth;
mod idle;
mod judge;
mod latency;
mod load;
mod measure;
mod neighbour;
mod procfs;
mod produce;
mod queueing;
mod read;
mod restart;
mod settling;
mod spread;
mod startup;
mod target;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::judge::{faults, full_disk, kill, pressure, queues};
use crate::target::Target;

#[derive(Parser)]
#[command(name = "bench", about = "Rows of the benchmark table. Peers run in turn (A-B-A-B); start them first.")]
struct Cli {
    #[command(subcommand)]
    row: Row,
}

#[derive(Subcommand)]
enum Row {
    /// P1: produce 100-byte records to 6 partitions, acks=1, linger 5 ms, no compression; Java and librdkafka clients.
    P1(produce::Args),
    /// P2: produce 1 KiB records, acks=all, idempotent, with compressions; Java and librdkafka clients.
    P2(produce::Args),
    /// P3: catch up, warm and cold, and follow the tail with five groups.
    P3(read::Args),
    /// P4: one 1 KiB record a batch, dealt over ever more partitions, and a consumer of all.
    P4(spread::Args),
    /// P5: one publisher, one durable queue, one consumer; persistent, confirmed, acknowledged.
    P5(queueing::Args),
    /// P6: the same through direct, topic and fanout exchanges.
    P6(queueing::Args),
    /// P10: latency of deliveries and confirms at a fixed rate.
    P10(latency::Args),
    /// P12: from an empty folder to ready and to the first acknowledged record; memory and CPU when idle.
    P12(startup::Args),
    /// P13: many queues and many connections that do nothing.
    P13(idle::Args),
    /// P14: killed with a long log, many queues and many unacknowledged messages: how long until it works again.
    P14(restart::Args),
    /// P15: what a message costs with more queues, more stored messages, more consumers.
    P15(growth::Args),
    /// What settling costs those who append meanwhile, at fixed rates.
    Settling(settling::Args),
    /// Long backlogs in one queue and one topic.
    Backlog(backlog::Args),
    /// The kill judge: kills the broker under load and reads back all that was acknowledged.
    Kill(kill::Args),
    /// The queues judge: as the kill judge, over dead letters, priorities and transactions.
    Queues(kill::Args),
    /// The faults judge: every system call on the data folder fails once.
    Faults(faults::Args),
    /// The full disk judge: a small volume is filled, freed and filled again. Needs root, to mount it.
    FullDisk(full_disk::Args),
    /// The overload judge: a small memory cgroup and ten times as many clients. Needs root and cgroup v1.
    Overload(pressure::Args),
    /// The slow disk judge: syncs take 300 ms longer.
    SlowDisk(pressure::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().row {
        Row::P1(args) => produce::run(&args, produce::P1),
        Row::P2(args) => produce::run(&args, produce::P2),
        Row::P3(args) => read::run(&args),
        Row::P4(args) => spread::run(&args),
        Row::P5(args) => queueing::straight(&args),
        Row::P6(args) => queueing::routed(&args),
        Row::P10(args) => latency::run(&args),
        Row::P12(args) => startup::run(&args),
        Row::P13(args) => idle::run(&args),
        Row::P14(args) => restart::run(&args),
        Row::P15(args) => growth::run(&args),
        Row::Settling(args) => settling::run(&args),
        Row::Backlog(args) => backlog::run(&args),
        Row::Kill(args) => kill::run(&args),
        Row::Queues(args) => queues::run(&args),
        Row::Faults(args) => faults::run(&args),
        Row::FullDisk(args) => full_disk::run(&args),
        Row::Overload(args) => pressure::overload(&args),
        Row::SlowDisk(args) => pressure::slow_disk(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What a bench run can fail with: one line for a person.
type Outcome<T> = Result<T, String>;

/// Parses `name=host:port@pid`.
fn parse_target(text: &str) -> Outcome<Target> {
    text.parse()
}
