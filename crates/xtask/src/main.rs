//! The project's own chores: `cargo xtask test`, `tidy`, `judge`, `bench`.
//!
//! Called by people and by `.ci/run`. Knows how to build, which runtimes and client libraries the judges need, and the
//! rules of the house; it links none of the broker's crates.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod args;
mod bench;
mod judge;
mod runtimes;
mod shell;
mod suites;
mod test;
mod tidy;
mod verdict;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--only PART]… [--list]   unit tests, then every official client against the built broker
                                 PART: unit, kafka, amqp, or one suite such as kafka/java
  tidy                           the rules of the house (also run by cargo test -p xtask)
  judge kill [--times N] [--seed N]
                                 kills the broker under load and reads back everything that was acknowledged;
                                 --report FILE writes the outcome down
  judge power [--times N] [--seed N]
                                 cuts the power of simulated servers, one seed each
  judge damage                   cuts the files of a small store and flips bits, at every byte of each
  judge faults [--step N] [--only eio|enospc|short|eintr] [--at N]
                                 fails every system call of a scripted run on the data folder once, in each way
  judge full-disk                fills a small volume, frees it, fills it again; needs root, to mount it
  bench [ARGUMENTS]              load generators against a broker of its own; see cargo xtask bench --help
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.first().map(String::as_str) {
        Some("test") => test::run(&words[1..]),
        Some("tidy") => tidy::run(),
        Some("judge") => judge::run(&words[1..]),
        Some("bench") => bench::run(&words[1..]),
        None | Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("there is no command '{other}'\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\nfailed: {why}");
            ExitCode::FAILURE
        }
    }
}
