//! `cargo xtask bench`: the rows of the benchmark table, each against a peer in turn on the same machine.
//!
//! The headline is CPU seconds of the broker process per million messages, since wall time on a shared machine says
//! more about the neighbours. Every run's raw line is printed; `docs/benchmarks.md` keeps them.

mod judge;
mod procfs;
mod produce;
mod startup;
mod target;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::judge::{faults, kill};
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
    /// P12: from an empty folder to ready and to the first acknowledged record; memory and CPU when idle.
    P12(startup::Args),
    /// The kill judge: kills the broker under load and reads back all that was acknowledged.
    Kill(kill::Args),
    /// The faults judge: every system call on the data folder fails once.
    Faults(faults::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().row {
        Row::P1(args) => produce::run(&args),
        Row::P12(args) => startup::run(&args),
        Row::Kill(args) => kill::run(&args),
        Row::Faults(args) => faults::run(&args),
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
