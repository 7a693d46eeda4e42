//! The faults judge: the n-th system call that the real binary makes on its data folder fails, for all n, in each way
//! that such a call can. Nothing acknowledged may be lost and nothing invented; the broker goes on right, or closes its
//! journal and says so, or does not start and says why.
//!
//! Each run starts on a copy of one data folder that was killed under load, so the calls of recovery are among them.

mod report;
mod script;
mod shim;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::Outcome;
use crate::judge::books::{self, Books, Done, PARTITIONS, QUEUES, TOPIC, Tally};
use crate::judge::kafka::Kafka;
use crate::judge::server::{Launch, Server};
use script::{Ended, Script};
use shim::{Counted, Fault};

/// The smallest journal, so that a short script settles, merges and writes checkpoints.
const SMALL: &[&str] =
    &["--storage-journal-file-bytes", "1MiB", "--storage-journal-files-max", "2", "--storage-reserve-bytes", "0"];
/// Steps of the life before the runs, and of each run.
const LIFE: std::ops::Range<u64> = 0..50;
const RUN: std::ops::Range<u64> = 50..90;
/// The number of calls differs a little from run to run: after so many in a row that do not reach n, all n are done.
const UNREACHED_MAX: u64 = 6;

/// What the faults judge is told.
#[derive(clap::Args)]
pub struct Args {
    /// The broker's binary.
    #[arg(long)]
    bin: PathBuf,
    /// Only every so many-th call, beginning with a different one for each kind of fault.
    #[arg(long, default_value_t = 1)]
    step: u64,
    /// Only this kind of fault: eio, enospc, short or eintr.
    #[arg(long)]
    only: Option<String>,
    /// Only this call: to look at one run again.
    #[arg(long)]
    at: Option<u64>,
    /// Runs at the same time.
    #[arg(long, default_value_t = 2)]
    workers: u64,
    /// Write the outcome into this file.
    #[arg(long)]
    report: Option<PathBuf>,
}

/// What became of the runs: by fault, kind of call, and end.
type Ends = BTreeMap<(Fault, &'static str, &'static str), u64>;

/// What all runs share.
struct Judge<'a> {
    bin: &'a Path,
    scratch: &'a Path,
    shim: &'a Path,
    /// What the data folder before the runs holds.
    books: &'a Books,
}

/// Fails every call in turn and says what came of it.
///
/// # Errors
/// When anything acknowledged was lost, anything was invented, or the broker neither goes on nor says why not.
pub fn run(args: &Args) -> Outcome<()> {
    let begun = Instant::now();
    let scratch = std::env::temp_dir().join(format!("fourfold-faults-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let shim = shim::compile(&scratch)?;
    let books = first_life(&args.bin, &scratch.join("before"))?;
    let judge = Judge { bin: &args.bin, scratch: &scratch, shim: &shim, books: &books };
    let counted = judge.count()?;
    let mut ends = Ends::new();
    for (at, fault) in Fault::ALL.into_iter().enumerate() {
        if args.only.as_ref().is_none_or(|only| only == fault.name()) {
            let first = args.at.unwrap_or(1 + at as u64 % args.step);
            judge.all_calls(fault, first, args, &mut ends)?;
        }
    }
    let text = report::text(&ends, &counted, begun.elapsed());
    print!("{text}");
    if let Some(file) = &args.report {
        std::fs::write(file, report::page(&text)).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    std::fs::remove_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))
}

/// A life that ends with a kill, in the middle of things: segments, a checkpoint, and a window that was not synced.
fn first_life(bin: &Path, folder: &Path) -> Outcome<Books> {
    let mut server = Server::start(Launch::new(bin, folder).options(SMALL))?;
    Kafka::connect(&server.kafka)?.create(TOPIC, PARTITIONS)?;
    let mut amqp = crate::judge::amqp::Amqp::connect(&server.amqp)?;
    QUEUES.iter().try_for_each(|queue| amqp.declare(queue).map(drop))?;
    let mut books = Books::default();
    let mut script = Script::new(&server, &books)?;
    let ended = script.run(LIFE)?;
    let done = script.done;
    server.kill()?;
    books.add(done, &mut Tally::default());
    if ended == Ended::Unharmed { Ok(books) } else { Err(format!("the life before the faults: {ended:?}")) }
}

impl Judge<'_> {
    // A run without a fault, to know the calls.
    fn count(&self) -> Outcome<Counted> {
        let (counted, end) = self.one(Fault::Eio, 0)?;
        println!("{} calls of the script can fail", counted.fitting);
        if end == "goes on unharmed" { Ok(counted) } else { Err(format!("without a fault: {end}")) }
    }

    fn all_calls(&self, fault: Fault, first: u64, args: &Args, ends: &mut Ends) -> Outcome<()> {
        let next = AtomicU64::new(first);
        let unreached = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let failed: Mutex<Outcome<()>> = Mutex::new(Ok(()));
        let ends = Mutex::new(ends);
        std::thread::scope(|scope| {
            for _ in 0..args.workers {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) && unreached.load(Ordering::Relaxed) < UNREACHED_MAX {
                        let at = next.fetch_add(args.step, Ordering::Relaxed);
                        match self.one(fault, at) {
                            Ok((Counted { fired: Some(kind), .. }, end)) => {
                                unreached.store(0, Ordering::Relaxed);
                                if let Ok(mut ends) = ends.lock() {
                                    *ends.entry((fault, kind, end)).or_default() += 1;
                                }
                            }
                            Ok(_) => drop(unreached.fetch_add(1, Ordering::Relaxed)),
                            Err(why) => {
                                stop.store(true, Ordering::Relaxed);
                                if let Ok(mut failed) = failed.lock() {
                                    *failed = Err(format!("{} at call {at}: {why}", fault.name()));
                                }
                            }
                        }
                        if args.at.is_some() {
                            return;
                        }
                        if at % 50 < args.step {
                            println!("{} at call {at}", fault.name());
                        }
                    }
                });
            }
        });
        failed.into_inner().map_err(|_| "a worker panicked".to_owned())?
    }

    // One run; answers what the shim counted and how it ended.
    fn one(&self, fault: Fault, at: u64) -> Outcome<(Counted, &'static str)> {
        let folder = self.scratch.join(format!("{}-{at}", fault.name()));
        let before = self.scratch.join("before/data");
        copy(&before, &folder.join("data"))?;
        let state = folder.join("state");
        let launch = Launch::new(self.bin, &folder).options(SMALL).environment(&[
            ("LD_PRELOAD", self.shim.display().to_string()),
            ("FAULT_FOLDER", folder.join("data").display().to_string()),
            ("FAULT_STATE", state.display().to_string()),
            ("FAULT_AT", at.to_string()),
            ("FAULT_KIND", fault.name().to_owned()),
        ]);
        let mut books = self.books.clone();
        let (end, done) = self.live(launch, &books, &state)?;
        let log = std::fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
        if log.contains("panicked") {
            return Err(format!("it panicked\n{log}"));
        }
        books.add(done, &mut Tally::default());
        let counted = shim::counted(&state);
        let _ = std::fs::rename(folder.join("log.txt"), folder.join("log-with-fault.txt"));
        let mut server = Server::start(Launch::new(self.bin, &folder).options(SMALL))?;
        if server.log().contains("damage") {
            return Err(format!("what the fault left is taken for damage\n{}", server.log()));
        }
        books::verify(&server, &mut books, &mut Tally::default()).map_err(|why| {
            format!("{why}\nkind {:?}, it {end}; the data is kept in {}", counted.fired, folder.display())
        })?;
        server.kill()?;
        std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok((counted, end))
    }

    // The life with the fault, ended by a kill.
    fn live(&self, launch: Launch, books: &Books, state: &Path) -> Outcome<(&'static str, Vec<Done>)> {
        let mut server = match Server::start(launch) {
            Ok(server) => server,
            // It may refuse to start on a disk that fails, if it says so; it may not crash.
            Err(why) if why.contains("exit status: 1") && shim::counted(state).fired.is_some() => {
                return Ok(("does not start and says why", Vec::new()));
            }
            Err(why) => return Err(why),
        };
        let mut script = Script::new(&server, books)?;
        let ended = script.run(RUN).map_err(|why| format!("{why}\n{}", server.log()));
        let done = script.done;
        let ended = ended?;
        server.kill()?;
        let end = match ended {
            Ended::Unharmed => "goes on unharmed",
            Ended::Refused => "refuses for a while and heals",
            Ended::Closed => "closes the journal and says so",
        };
        Ok((end, done))
    }
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    let told = |e: std::io::Error| format!("copying {}: {e}", from.display());
    std::fs::create_dir_all(to).map_err(told)?;
    for entry in std::fs::read_dir(from).map_err(told)? {
        let entry = entry.map_err(told)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(told)?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target).map_err(told)?;
        }
    }
    Ok(())
}
