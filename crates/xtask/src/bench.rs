//! `cargo xtask bench`: builds the broker and the load generators as released, and hands the arguments on.

use crate::shell::{self, cargo, root, say, target};

/// Builds, then runs the generators with `words`.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    if words.first().is_some_and(|row| row == "look") {
        let mut command = cargo();
        command.args(["bench", "--locked", "--package", "kafka", "--bench", "look"]);
        return shell::run(command);
    }
    say("building fourfold and the load generators (release)");
    let mut command = cargo();
    command.args(["build", "--locked", "--release", "--package", "server", "--package", "bench"]);
    shell::run(command)?;
    let folder = target().join("release");
    let mut command = std::process::Command::new(folder.join("bench"));
    command.current_dir(root()).args(words);
    shell::run(command)
}
