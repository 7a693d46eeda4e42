//! The judges of pressure. *Overload*: inside a memory cgroup ten times as many clients as fill the broker, most of
//! which never read or never finish: nothing is killed, memory stays within the limit, the others go on. *Slow disk*:
//! every sync takes 300 ms longer: who does not wait for a sync feels nothing.

mod clients;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::kafka::Kafka;
use crate::judge::server::{Launch, Server};
use crate::procfs;
use clients::{BACKLOG, Bad, GOOD, LOAD, Load, Waits, fill, good, trim};

const LIMIT_BYTES: u64 = 256 << 20;
const BUDGET: &str = "64MiB";
/// Producers that fill the broker by themselves.
const PRODUCERS: i32 = 4;
/// Bad clients of each of four kinds: with them there are ten times as many.
const BAD: usize = 20;
/// Waits shorter than this are the machine's own noise.
const NOISE_MS: f64 = 2.0;

const SHIM: &str = r#"#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int fdatasync(int fd) { int done = ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); usleep(300000); return done; }
int fsync(int fd) { int done = ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); usleep(300000); return done; }
"#;

/// What the judges of pressure are told.
#[derive(clap::Args)]
pub struct Args {
    /// The broker's binary.
    #[arg(long)]
    bin: PathBuf,
    /// Write the outcome into this file.
    #[arg(long)]
    report: Option<PathBuf>,
    /// How long each phase lasts.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// A memory cgroup (version 1), removed at the end.
struct Group(PathBuf);

impl Group {
    fn make(bytes: u64) -> Outcome<Group> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/memory/fourfold-overload-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("{}: {e} (cgroup v1 and root are needed)", path.display()))?;
        let group = Group(path);
        group.write("memory.limit_in_bytes", &bytes.to_string())?;
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> Outcome<()> {
        fs::write(self.0.join(file), text).map_err(|e| format!("{file}: {e}"))
    }

    fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("memory.oom_control")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0); // a process that is still in it keeps it: then a reboot removes it
    }
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fourfold-{name}-{}", std::process::id()))
}

fn topics(server: &Server) -> Outcome<()> {
    let mut kafka = Kafka::connect(&server.kafka)?;
    [(GOOD, 1), (BACKLOG, 1), (LOAD, PRODUCERS)].into_iter().try_for_each(|(topic, count)| kafka.create(topic, count))
}

/// The overload judge.
///
/// # Errors
/// What does not hold.
pub fn overload(args: &Args) -> Outcome<()> {
    let folder = scratch("overload");
    let group = Group::make(LIMIT_BYTES)?;
    // Whoever starts it is in the group for that moment: so is the child from its first byte on.
    let root = PathBuf::from("/sys/fs/cgroup/memory/cgroup.procs");
    group.write("cgroup.procs", &std::process::id().to_string())?;
    let launch =
        Launch::new(&args.bin, &folder).options(&["--memory", BUDGET, "--storage-journal-file-bytes", "32MiB"]);
    let server = Server::start(launch);
    fs::write(&root, std::process::id().to_string()).map_err(|e| format!("{}: {e}", root.display()))?;
    let mut server = server?;
    topics(&server)?;
    fill(&server)?;
    let time = Duration::from_secs(args.seconds);
    let (peak, mut before) = phase(&server, time / 3)?;
    let bad = Bad::start(&server, BAD)?;
    let (under, mut during) = phase(&server, time)?;
    let usage = procfs::usage(server.pid())?;
    let (_, metrics) = server.get("/metrics")?;
    let let_go =
        metrics.lines().find_map(|line| line.strip_prefix("fourfold_connections_let_go_total ")).unwrap_or("?");
    let mut lines = vec![
        format!(
            "limit {} MiB, budget {BUDGET}, {} bad clients beside {PRODUCERS} producers",
            LIMIT_BYTES >> 20,
            bad.count()
        ),
        format!(
            "peak resident memory {:.0} MiB, killed {} times, {let_go} connections let go",
            usage.peak_mib,
            group.kills()
        ),
        format!("load: {:.0} MB/s before, {:.0} MB/s under overload ({:.0} %)", peak, under, 100.0 * under / peak),
    ];
    lines.extend(compare(&mut before, &mut during));
    let mut faults = Vec::new();
    if group.kills() > 0 || server.ended()?.is_some() {
        faults.push("the broker was killed".to_owned());
    }
    if usage.peak_mib > (LIMIT_BYTES >> 20) as f64 {
        faults.push("more memory than the limit".to_owned());
    }
    if under < 0.8 * peak {
        faults.push("less than 80 % of the peak".to_owned());
    }
    faults.extend(late(&mut before, &mut during));
    drop(bad);
    drop(server);
    finish(args, &folder, "Overload", OVERLOAD, (&lines, &faults))
}

const OVERLOAD: &str = "Four producers (60 kB batches, acks=1, four in flight) fill the broker; then come ten times as \
many connections that never read or never finish: fetchers of 50 MB, producers without an eye for answers, AMQP \
consumers without prefetch, publishers of 10 MB that stop before the end. Good clients: a producer of single records \
(acks=1) and a reader at the tail, every 5 ms each.\n\n    \
cargo xtask judge overload --report docs/judge-overload.md";

/// A while of load beside good clients: megabytes a second, and their waits.
fn phase(server: &Server, time: Duration) -> Outcome<(f64, (Waits, Waits))> {
    let load = Load::start(server, PRODUCERS, 1)?;
    let begun = Instant::now();
    let done = std::sync::atomic::AtomicBool::new(false);
    let waits = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = trim(server, PRODUCERS); // what is left fills the disk, and the load says so
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        let waits = good(server, time);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        waits
    })?;
    let rate = load.acked() as f64 / 1e6 / begun.elapsed().as_secs_f64();
    load.stop()?;
    Ok((rate, waits))
}

fn compare(before: &mut (Waits, Waits), during: &mut (Waits, Waits)) -> Vec<String> {
    let line = |name: &str, before: &mut Waits, during: &mut Waits| {
        let [p50, p99, q50, q99] =
            [before.quantile(0.5), before.quantile(0.99), during.quantile(0.5), during.quantile(0.99)];
        format!("{name}: p50 {p50:.2} ms, p99 {p99:.2} ms before; p50 {q50:.2} ms, p99 {q99:.2} ms under pressure")
    };
    vec![line("produce, acks=1", &mut before.0, &mut during.0), line("fetch at the tail", &mut before.1, &mut during.1)]
}

fn late(before: &mut (Waits, Waits), during: &mut (Waits, Waits)) -> Vec<String> {
    let pairs = [("producers", &mut before.0, &mut during.0), ("readers", &mut before.1, &mut during.1)];
    let slow = |(name, before, during): (&str, &mut Waits, &mut Waits)| {
        let (then, now) = (before.quantile(0.99).max(NOISE_MS), during.quantile(0.99));
        (now > 2.0 * then).then(|| format!("p99 of {name} is {:.1} times what it was", now / then))
    };
    pairs.into_iter().filter_map(slow).collect()
}

/// The slow disk judge.
///
/// # Errors
/// What does not hold.
pub fn slow_disk(args: &Args) -> Outcome<()> {
    let folder = scratch("slow-disk");
    let time = Duration::from_secs(args.seconds) / 2;
    let mut outcomes = Vec::new();
    for (name, environment) in [("fast", Vec::new()), ("slow", vec![("LD_PRELOAD", shim(&folder)?)])] {
        let launch = Launch::new(&args.bin, &folder.join(name)).environment(&environment);
        let server = Server::start(launch.options(&["--storage-journal-file-bytes", "32MiB"]))?;
        topics(&server)?;
        // Others wait for syncs all the time, and write enough that files are settled meanwhile.
        let load = Load::start(&server, PRODUCERS, -1)?;
        let waits = good(&server, time)?;
        let rate = load.acked() as f64 / 1e6 / time.as_secs_f64();
        load.stop()?;
        outcomes.push((rate, waits));
    }
    let [(fast_rate, mut fast), (slow_rate, mut slow)] =
        <[_; 2]>::try_from(outcomes).map_err(|_| "two phases".to_owned())?;
    let mut lines = vec![format!("synced load beside it: {fast_rate:.0} MB/s, with the slow disk {slow_rate:.0} MB/s")];
    lines.extend(compare(&mut fast, &mut slow));
    let faults = late(&mut fast, &mut slow);
    finish(args, &folder, "A slow disk", SLOW_DISK, (&lines, &faults))
}

const SLOW_DISK: &str = "Four producers with acks=all wait for a sync each time; the disk's every fdatasync and fsync \
takes 300 ms longer. Beside them a producer with acks=1 and a reader at the tail ask every 5 ms. *Before* is the same \
without the delay.\n\n    cargo xtask judge slow-disk --report docs/judge-slow-disk.md";

fn shim(folder: &Path) -> Outcome<String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let (source, library) = (folder.join("slow.c"), folder.join("slow.so"));
    fs::write(&source, SHIM).map_err(|e| e.to_string())?;
    let mut command = Command::new("cc");
    command.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    match command.status() {
        Ok(status) if status.success() => Ok(library.display().to_string()),
        other => Err(format!("cc could not compile the shim: {other:?}")),
    }
}

fn finish(args: &Args, folder: &Path, name: &str, text: &str, found: (&[String], &[String])) -> Outcome<()> {
    let (lines, faults) = found;
    lines.iter().chain(faults).for_each(|line| println!("{line}"));
    let verdict = if faults.is_empty() { "holds".to_owned() } else { format!("does not hold: {}", faults.join("; ")) };
    if let Some(file) = &args.report {
        let page = format!("# The judge: {name}\n\n{text}\n\n```\n{}\nverdict: {verdict}\n```\n", lines.join("\n"));
        fs::write(file, page).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    if faults.is_empty() { Ok(()) } else { Err(verdict) }
}
