//! P12: how long from nothing to ready and to the first acknowledged record, and what an idle broker costs.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::{Outcome, procfs};

/// What P12 is told.
#[derive(clap::Args)]
pub struct Args {
    /// The binary to start.
    #[arg(long, default_value = "target/release/fourfold")]
    binary: PathBuf,
    /// Starts.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Seconds to look at the idle process.
    #[arg(long, default_value_t = 60)]
    idle_s: u64,
}

/// Starts the binary several times in empty folders and prints the table.
///
/// # Errors
/// When it cannot be started or does not become ready within 30 s.
pub fn run(args: &Args) -> Outcome<()> {
    println!("run  ready ms  RSS MiB");
    let scratch = std::env::temp_dir().join(format!("fourfold-p12-{}", std::process::id()));
    for run in 1..=args.runs {
        let folder = scratch.join(run.to_string());
        let mut server = Server::start(args, &folder)?;
        let usage = procfs::usage(server.child.id())?;
        println!("{run:>3} {:>9.1} {:>8.1}", server.ready.as_secs_f64() * 1e3, usage.rss_mib);
        if run == args.runs {
            sleep(Duration::from_secs(args.idle_s));
            let after = procfs::usage(server.child.id())?;
            let share = (after.cpu_s - usage.cpu_s) / args.idle_s as f64 * 100.0;
            println!("idle for {} s: RSS {:.1} MiB, {share:.2} % of one core", args.idle_s, after.rss_mib);
        }
        server.stop();
    }
    fs::remove_dir_all(&scratch).map_err(|why| format!("{}: {why}", scratch.display()))
}

/// A server of ours, stopped by its own pid.
struct Server {
    child: Child,
    ready: Duration,
}

impl Server {
    fn start(args: &Args, folder: &std::path::Path) -> Outcome<Server> {
        fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let ready_file = folder.join("ready.json");
        let mut command = Command::new(&args.binary);
        command.arg("serve").arg("--data").arg(folder.join("data")).arg("--ready-file").arg(&ready_file);
        command.args(["--kafka", "127.0.0.1:0", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        let begun = Instant::now();
        let started: io::Result<Child> = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = started.map_err(|why| format!("{}: {why}", args.binary.display()))?;
        while !ready_file.exists() {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err("not ready within 30 s".to_owned());
            }
            sleep(Duration::from_micros(500));
        }
        Ok(Server { child, ready: begun.elapsed() })
    }

    fn stop(&mut self) {
        let _ = self.child.kill(); // gone already is as good
        let _ = self.child.wait();
    }
}
