//! `cargo xtask test`: everything that must hold before a change lands, told step by step.

use std::time::{Duration, Instant};

use crate::args::Args;
use crate::shell::{self, cargo, say};
use crate::suites::{SUITES, Suite};
use crate::verdict::{Counts, Reader};

const UNIT: &str = "unit";

struct Line {
    name: &'static str,
    outcome: Result<Counts, String>,
    took: Duration,
}

/// Runs the parts asked for, or all; fails when any part failed.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let args = Args::parse(words, &["--only"], &["--list"])?;
    if args.has("--list") {
        println!("{UNIT}");
        SUITES.iter().for_each(|suite| println!("{}", suite.name));
        return Ok(());
    }
    let only = args.all("--only");
    let unit = only.is_empty() || only.contains(&UNIT);
    let suites: Vec<&Suite> =
        SUITES.iter().filter(|suite| only.is_empty() || only.iter().any(|part| suite.is_in(part))).collect();
    if !unit && suites.is_empty() {
        return Err(format!("--only {}: there is no such part; see --list", only.join(" ")));
    }
    say(&plan(unit, &suites));
    // Before the long work: whoever lacks a runtime should hear it in the first second.
    let missing: Vec<String> =
        suites.iter().flat_map(|suite| suite.needs).filter_map(|need| need.check().err()).fold(vec![], add_new);
    if !missing.is_empty() {
        return Err(format!("some judges cannot run here:\n  {}", missing.join("\n  ")));
    }
    let mut lines = Vec::new();
    if unit {
        say("unit: the workspace's own tests");
        lines.push(timed(UNIT, unit_tests));
    }
    if !suites.is_empty() {
        judges(&suites, &mut lines)?;
    }
    report(&lines)
}

fn plan(unit: bool, suites: &[&Suite]) -> String {
    let mut parts = Vec::new();
    if unit {
        parts.push("the workspace's own tests".to_owned());
    }
    if !suites.is_empty() {
        let names: Vec<_> = suites.iter().map(|suite| suite.name).collect();
        parts.push(format!("the broker's build, then its judges: {}", names.join(", ")));
    }
    format!("to do: {}", parts.join("; "))
}

fn add_new(mut all: Vec<String>, one: String) -> Vec<String> {
    if !all.contains(&one) {
        all.push(one);
    }
    all
}

fn unit_tests() -> Result<Counts, String> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]);
    let (well, said) = shell::tee(command)?;
    let mut counts = Reader::Cargo.read(&said);
    if !well && counts.failed == 0 {
        counts.failed = 1;
    }
    Ok(counts)
}

fn judges(suites: &[&Suite], lines: &mut Vec<Line>) -> Result<(), String> {
    say("building fourfold for the judges");
    let binary = shell::build(&["server"])?.join("fourfold");
    for (at, suite) in suites.iter().enumerate() {
        say(&format!("{} ({} of {}): fetching its libraries", suite.name, at + 1, suites.len()));
        if let Err(why) = suite.fetch() {
            lines.push(Line { name: suite.name, outcome: Err(why), took: Duration::ZERO });
            continue;
        }
        say(&format!("{} ({} of {}): running", suite.name, at + 1, suites.len()));
        lines.push(timed(suite.name, || suite.run(&binary)));
    }
    Ok(())
}

fn timed(name: &'static str, work: impl FnOnce() -> Result<Counts, String>) -> Line {
    let start = Instant::now();
    let outcome = work();
    Line { name, outcome, took: start.elapsed() }
}

fn report(lines: &[Line]) -> Result<(), String> {
    say("results");
    println!("{:<18} {:>7} {:>7} {:>8} {:>8}", "part", "passed", "failed", "skipped", "seconds");
    let mut sum = Counts::default();
    for line in lines {
        let seconds = line.took.as_secs();
        let counts = match &line.outcome {
            Ok(counts) => *counts,
            Err(why) => {
                println!("{:<18} did not run: {why}", line.name);
                sum.failed += 1;
                continue;
            }
        };
        let Counts { passed, failed, skipped } = counts;
        println!("{:<18} {passed:>7} {failed:>7} {skipped:>8} {seconds:>8}", line.name);
        sum.passed += passed;
        sum.failed += failed;
        sum.skipped += skipped;
    }
    println!("\n{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped);
    if sum.failed > 0 { Err("not everything held; see above".to_owned()) } else { Ok(()) }
}
