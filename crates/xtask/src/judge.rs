//! `cargo xtask judge NAME`: long trials of one promise, beyond what every change runs.

use crate::args::Args;
use crate::shell::{self, root, say};

/// Runs the judge that the first word names.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    match words.first().map(String::as_str) {
        Some("kill") => kill(&words[1..]),
        Some(other) => Err(format!("there is no judge '{other}'; there is: kill")),
        None => Err("which judge? there is: kill".to_owned()),
    }
}

fn kill(words: &[String]) -> Result<(), String> {
    let args = Args::parse(words, &["--times", "--seed", "--report"], &[])?;
    let times = args.number("--times")?.unwrap_or(200);
    say("building fourfold and its judge");
    let folder = shell::build(&["server", "bench"])?;
    say(&format!("killing fourfold {times} times under load"));
    let mut command = std::process::Command::new(folder.join("bench"));
    command.current_dir(root()).arg("kill").arg("--bin").arg(folder.join("fourfold"));
    command.args(["--times", &times.to_string()]);
    if let Some(seed) = args.number("--seed")? {
        command.args(["--seed", &seed.to_string()]);
    }
    if let Some(report) = args.all("--report").last() {
        command.args(["--report", report]);
    }
    shell::run(command)
}
