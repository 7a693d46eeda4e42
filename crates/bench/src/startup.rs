//! P12: how long from nothing to ready and to the first acknowledged record, and what an idle broker costs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::judge::kafka::Kafka;
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
    println!("run  ready ms  first ack ms  RSS MiB");
    let scratch = std::env::temp_dir().join(format!("fourfold-p12-{}", std::process::id()));
    for run in 1..=args.runs {
        let folder = scratch.join(run.to_string());
        let mut server = Server::start(args, &folder)?;
        let usage = procfs::usage(server.child.id())?;
        let ready_ms = server.ready.as_secs_f64() * 1e3;
        println!("{run:>3} {ready_ms:>9.1} {:>13.1} {:>8.1}", server.first_ack.as_secs_f64() * 1e3, usage.rss_mib);
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

/// Makes a topic and produces one record with acks=all.
fn first_ack(ready_file: &Path) -> Outcome<()> {
    let text = fs::read_to_string(ready_file).map_err(|why| format!("{}: {why}", ready_file.display()))?;
    let ready: serde_json::Value = serde_json::from_str(&text).map_err(|why| format!("the ready file: {why}"))?;
    let address = ready["doors"]["kafka"].as_str().ok_or("the ready file names no kafka door")?;
    let mut client = Kafka::connect(address)?;
    client.create("first", 1)?;
    client.produce("first", 0, -1, &[b"first".to_vec()])?;
    client.produced().map(drop)
}

/// A server of ours, stopped by its own pid.
struct Server {
    child: Child,
    /// From the start of the process to the ready file.
    ready: Duration,
    /// From the start of the process to the answer to a first record, synced.
    first_ack: Duration,
}

impl Server {
    fn start(args: &Args, folder: &Path) -> Outcome<Server> {
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
        let ready = begun.elapsed();
        let mut server = Server { child, ready, first_ack: Duration::ZERO };
        match first_ack(&ready_file) {
            Ok(()) => server.first_ack = begun.elapsed(),
            Err(why) => {
                server.stop();
                return Err(why);
            }
        }
        Ok(server)
    }

    fn stop(&mut self) {
        let _ = self.child.kill(); // gone already is as good
        let _ = self.child.wait();
    }
}
