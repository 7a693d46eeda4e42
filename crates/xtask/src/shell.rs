//! Running other programs: with their output passed through as it comes, and kept for counting.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

/// The workspace's root folder.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
    })
}

/// Where client libraries and build results of the judges are kept between runs.
pub(crate) fn cache() -> PathBuf {
    target().join("conformance-cache")
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// A headline for a step that may take long.
pub(crate) fn say(what: &str) {
    static START: OnceLock<Instant> = OnceLock::new();
    let seconds = START.get_or_init(Instant::now).elapsed().as_secs();
    println!("\n── {:02}:{:02}  {what}", seconds / 60, seconds % 60);
}

/// Runs `command` to its end, its output seen as usual.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let shown = show(&command);
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("{shown}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

/// Runs `command`, passes its output through, and answers whether it ended well and all that it said.
pub(crate) fn tee(mut command: Command) -> Result<(bool, String), String> {
    let shown = show(&command);
    let (reader, writer) = std::io::pipe().map_err(|e| e.to_string())?;
    let errors = writer.try_clone().map_err(|e| e.to_string())?;
    command.stdin(Stdio::null()).stdout(writer).stderr(errors);
    let mut child = command.spawn().map_err(|e| format!("{shown}: {e}"))?;
    // The command holds our ends of the pipe: while it lives, reading would never come to an end.
    drop(command);
    let mut said = String::new();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(|e| format!("{shown}: {e}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        said.push_str(&line);
        said.push('\n');
    }
    std::io::stdout().flush().map_err(|e| e.to_string())?;
    let status = child.wait().map_err(|e| format!("{shown}: {e}"))?;
    Ok((status.success(), said))
}

/// What `program` prints for `args`, if it can be run at all.
pub(crate) fn ask<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(text)
}

fn show(command: &Command) -> String {
    let mut shown = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        shown.push(' ');
        shown.push_str(&arg.to_string_lossy());
    }
    shown
}

/// Builds the broker for tests, and the generators: optimised, but quick to build. Answers the folder of the binaries.
pub(crate) fn build(packages: &[&str]) -> Result<PathBuf, String> {
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", "conformance"]);
    for package in packages {
        command.args(["--package", package]);
    }
    run(command)?;
    Ok(target().join("conformance"))
}
