//! The kill judge: a real broker under load in both tongues is killed (SIGKILL) again and again; after each restart
//! everything that was acknowledged must be there, in order, and nothing that nobody sent.
//!
//! The clients are small and raw, so that what they believe is only what came over the wire: an acknowledgement is
//! written down the moment it is read. It says nothing of power cuts: those are simulated by `sim`.

mod load;
mod report;
pub(crate) mod timed;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::Chance;
use crate::judge::books::{self, Books, Tally};
use crate::judge::rounds::Rounds;
use crate::judge::server::{Launch, Server};

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
    Rounds { name: "kill", folder: folder_of_kills, text: report::text, page: report::page }.run(args)
}

/// One data folder: load, kill, restart, verify, `kills` times.
fn folder_of_kills(args: &Args, launch: Launch, kills: u64, chance: &mut Chance, tally: &mut Tally) -> Outcome<()> {
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
