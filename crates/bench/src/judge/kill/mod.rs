//! The kill judge: a real broker under load in both tongues is killed (SIGKILL) again and again; after each restart
//! everything that was acknowledged must be there, in order, and nothing that nobody sent.
//!
//! The clients are small and raw, so that what they believe is only what came over the wire: an acknowledgement is
//! written down the moment it is read. It says nothing of power cuts: those are simulated by `sim`.

mod load;
mod report;
pub(crate) mod timed;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::judge::Chance;
use crate::judge::books::{self, Books, Tally};
use crate::judge::server::{Launch, Server};

/// Kills of one data folder before a fresh one is begun: each verification reads the folder's whole content.
const KILLS_A_FOLDER: u64 = 10;
/// Every second folder has a journal so small that kills meet it while it settles, all the time.
const SMALL_JOURNAL: &[&str] = &["--storage-journal-file-bytes", "1MiB", "--storage-journal-files-max", "3"];
/// Load runs at least and at most so long before the kill.
const KILL_AFTER_MS: std::ops::Range<u64> = 5..400;

/// What the kill judge is told.
#[derive(clap::Args)]
pub struct Args {
    /// The broker's binary.
    #[arg(long)]
    pub(crate) bin: PathBuf,
    /// How many times to kill it.
    #[arg(long, default_value_t = 200)]
    pub(crate) times: u64,
    /// The seed of all chances, to run the same trial again (the machine's timing stays its own).
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Write the outcome into this file.
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
}

/// Kills `args.times` times and says what was found.
///
/// # Errors
/// When anything acknowledged was lost or moved, anything was invented, or the broker does not start again.
pub fn run(args: &Args) -> Outcome<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let seed = args.seed.unwrap_or((now as u64) % 1_000_000_007);
    println!("kill judge: {} kills, seed {seed}", args.times);
    let begun = Instant::now();
    let scratch = std::env::temp_dir().join(format!("fourfold-kill-{}", std::process::id()));
    let mut chance = Chance::new(seed);
    let mut tally = Tally::default();
    let mut outcome = Ok(());
    while tally.kills < args.times && outcome.is_ok() {
        let folder = scratch.join(format!("from-kill-{}", tally.kills));
        let kills = KILLS_A_FOLDER.min(args.times - tally.kills);
        outcome = folder_of_kills(args, &folder, kills, &mut chance, &mut tally);
        if outcome.is_ok() {
            std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
    }
    println!();
    let text = report::text(&tally, seed, begun.elapsed(), outcome.as_ref().err());
    print!("{text}");
    if let Some(file) = &args.report {
        std::fs::write(file, report::page(&text)).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    outcome
        .map_err(|why| format!("{why}\n  seed {seed}, kill {}; the data is kept in {}", tally.kills, scratch.display()))
}

/// One data folder: load, kill, restart, verify, `kills` times.
fn folder_of_kills(args: &Args, folder: &Path, kills: u64, chance: &mut Chance, tally: &mut Tally) -> Outcome<()> {
    let is_small = (tally.kills / KILLS_A_FOLDER) % 2 == 1;
    let launch = Launch::new(&args.bin, folder).options(if is_small { SMALL_JOURNAL } else { &[] });
    let mut server = Server::start(launch)?;
    load::prepare(&server)?;
    timed::prepare(&server)?;
    let (mut books, mut next) = (Books::default(), 0);
    for _ in 0..kills {
        let wait = KILL_AFTER_MS.start + chance.below(KILL_AFTER_MS.end - KILL_AFTER_MS.start);
        let running = load::start(&server, chance, &books)?;
        let timed = timed::start(&server, chance, next)?;
        std::thread::sleep(Duration::from_millis(wait));
        server.kill()?;
        tally.kills += 1;
        books.add(running.finish()?, tally);
        let timed = timed.finish()?;
        next = timed.next();
        let down = Instant::now();
        server.restart()?;
        tally.restart_longest = tally.restart_longest.max(down.elapsed());
        books::verify(&server, &mut books, tally)?;
        timed::verify(&server, &timed, &mut tally.timed)?;
        progress(tally, args.times);
    }
    server.kill()
}

fn progress(tally: &Tally, times: u64) {
    const WIDTH: u64 = 40;
    let done = (tally.kills * WIDTH / times.max(1)) as usize;
    let bar = format!("{}{}", "#".repeat(done), ".".repeat(WIDTH as usize - done));
    let acknowledged = tally.kafka_acknowledged + tally.amqp_confirmed;
    print!("\r[{bar}] {}/{times} kills, {acknowledged} acknowledged, 0 lost ", tally.kills);
    let _ = std::io::stdout().flush(); // only a progress line
}
