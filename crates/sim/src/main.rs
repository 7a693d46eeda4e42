//! `cargo xtask judge power`: many simulated power cuts, each told by its seed. `judge damage`: cuts and flips at every
//! byte of a small store.

use std::process::ExitCode;

use sim::ledger::End;
use sim::scenario::crash::{self, Tongues};
use sim::scenario::damage;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|word| word == "damage").is_some() {
        return every_byte();
    }
    let times: u64 = args.next().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let first: u64 = args.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (kafka, amqp) = (kafka::KafkaTongue::default(), amqp::Amqp::default());
    let (mut acknowledged, mut images, mut moves) = (0, 0, [0, 0]);
    for seed in first..first + times {
        match crash::run(seed, End::Power, Tongues { kafka: &kafka, amqp: &amqp }) {
            Ok(report) => {
                acknowledged += report.acknowledged;
                images += report.images;
                moves = [moves[0] + report.moves[0], moves[1] + report.moves[1]];
            }
            Err(why) => {
                eprintln!("seed {seed}: {why}");
                return ExitCode::FAILURE;
            }
        }
        if seed % 100 == 0 {
            eprintln!("{} of {times} servers, {acknowledged} acknowledged messages, 0 lost", seed - first + 1);
        }
    }
    println!("{times} servers (seeds {first}..{}), 3 power cuts each under load", first + times - 1);
    println!("{images} images opened, some of them cut again while they were");
    println!("{} times journal files were settled, {} times files of the store merged", moves[0], moves[1]);
    println!("{acknowledged} acknowledged messages: 0 lost, 0 reordered, 0 invented");
    ExitCode::SUCCESS
}

/// Threads that share the bytes.
const WORKERS: usize = 2;

fn every_byte() -> ExitCode {
    let outcomes: Vec<Result<damage::Report, String>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|first| scope.spawn(move || damage::run(first, WORKERS))).collect();
        let join = |one: std::thread::ScopedJoinHandle<'_, _>| one.join().unwrap_or(Err("it panicked".to_owned()));
        workers.into_iter().map(join).collect()
    });
    let mut all = damage::Report::default();
    for outcome in outcomes {
        match outcome {
            Ok(report) => all.add(&report),
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::FAILURE;
            }
        }
    }
    print!("{all}");
    ExitCode::SUCCESS
}
