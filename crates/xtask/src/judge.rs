//! `cargo xtask judge NAME`: long trials of one promise, beyond what every change runs.

use crate::args::Args;
use crate::shell::{self, root, say};

const NAMES: &str = "kill, queues, power, damage, faults, full-disk, overload, slow-disk";

/// Runs the judge that the first word names.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    match words.first().map(String::as_str) {
        Some(name @ ("kill" | "queues")) => kill(name, &words[1..]),
        Some("power") => power(&words[1..]),
        Some("damage") => damage(&words[1..]),
        Some("faults") => bench("faults", &["--step", "--only", "--at", "--report"], &words[1..]),
        Some(name @ ("overload" | "slow-disk")) => bench(name, &["--seconds", "--report"], &words[1..]),
        Some("full-disk") => bench("full-disk", &["--report"], &words[1..]),
        Some(other) => Err(format!("there is no judge '{other}'; there are: {NAMES}")),
        None => Err(format!("which judge? there are: {NAMES}")),
    }
}

/// Kills of the real binary under load; what is looked at differs by `name`.
fn kill(name: &str, words: &[String]) -> Result<(), String> {
    let args = Args::parse(words, &["--times", "--seed", "--report"], &[])?;
    let times = args.number("--times")?.unwrap_or(200);
    say("building fourfold and its judge");
    let folder = shell::build(&["server", "bench"])?;
    say(&format!("killing fourfold {times} times under load"));
    let mut command = std::process::Command::new(folder.join("bench"));
    command.current_dir(root()).arg(name).arg("--bin").arg(folder.join("fourfold"));
    command.args(["--times", &times.to_string()]);
    if let Some(seed) = args.number("--seed")? {
        command.args(["--seed", &seed.to_string()]);
    }
    if let Some(report) = args.all("--report").last() {
        command.args(["--report", report]);
    }
    shell::run(command)
}

/// Power cuts of simulated servers; `--seed` is the first one's.
fn power(words: &[String]) -> Result<(), String> {
    let args = Args::parse(words, &["--times", "--seed"], &[])?;
    say("building the simulator");
    let folder = shell::build(&["sim"])?;
    let times = args.number("--times")?.unwrap_or(1000);
    say(&format!("cutting the power of {times} simulated servers"));
    let mut command = std::process::Command::new(folder.join("sim"));
    command.current_dir(root()).arg(times.to_string()).arg(args.number("--seed")?.unwrap_or(1).to_string());
    shell::run(command)
}

/// Cuts and flips at every byte of a small store.
fn damage(words: &[String]) -> Result<(), String> {
    Args::parse(words, &[], &[])?;
    say("building the simulator");
    let folder = shell::build(&["sim"])?;
    say("harming every byte of a small store");
    let mut command = std::process::Command::new(folder.join("sim"));
    command.current_dir(root()).arg("damage");
    shell::run(command)
}

/// A judge of the real binary that takes its options as they come.
fn bench(name: &str, options: &[&str], words: &[String]) -> Result<(), String> {
    let args = Args::parse(words, options, &[])?;
    say("building fourfold and its judge");
    let folder = shell::build(&["server", "bench"])?;
    say(&format!("the judge {name}"));
    let mut command = std::process::Command::new(folder.join("bench"));
    command.current_dir(root()).arg(name).arg("--bin").arg(folder.join("fourfold"));
    for option in options {
        if let Some(value) = args.all(option).last() {
            command.args([option, value]);
        }
    }
    shell::run(command)
}
