//! What judges that kill have in common: kills in one data folder after the other, by chances that can be repeated, and
//! a report at the end.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::judge::Chance;
use crate::judge::kill::Args;
use crate::judge::server::Launch;

/// Kills of one data folder before a fresh one is begun: each verification reads the folder's whole content.
const KILLS_A_FOLDER: u64 = 10;
/// Every second folder has a journal so small that kills meet it while it settles, all the time.
const SMALL_JOURNAL: &[&str] = &["--storage-journal-file-bytes", "1MiB", "--storage-journal-files-max", "3"];

/// Sums over all kills.
pub(crate) trait Kills: Default {
    /// How many there were.
    fn kills(&self) -> u64;
}

/// One judge.
pub(crate) struct Rounds<T> {
    /// Its name.
    pub(crate) name: &'static str,
    /// Kills so many times in one folder, and checks after each.
    pub(crate) folder: fn(&Args, Launch, u64, &mut Chance, &mut T) -> Outcome<()>,
    /// The outcome in lines: the sums, the seed, how long it took, what failed.
    pub(crate) text: fn(&T, u64, Duration, Option<&String>) -> String,
    /// The page that is kept in `docs/`, around that text.
    pub(crate) page: fn(&str) -> String,
}

impl<T: Kills> Rounds<T> {
    /// Kills `args.times` times and says what was found.
    ///
    /// # Errors
    /// Of the first kill after which not all was as it must be; the data is kept then.
    pub(crate) fn run(&self, args: &Args) -> Outcome<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let seed = args.seed.unwrap_or((now as u64) % 1_000_000_007);
        println!("{} judge: {} kills, seed {seed}", self.name, args.times);
        let begun = Instant::now();
        let scratch = std::env::temp_dir().join(format!("fourfold-{}-{}", self.name, std::process::id()));
        let (mut chance, mut tally, mut outcome) = (Chance::new(seed), T::default(), Ok(()));
        while tally.kills() < args.times && outcome.is_ok() {
            let folder = scratch.join(format!("from-kill-{}", tally.kills()));
            let is_small = (tally.kills() / KILLS_A_FOLDER) % 2 == 1;
            let launch = Launch::new(&args.bin, &folder).options(if is_small { SMALL_JOURNAL } else { &[] });
            let kills = KILLS_A_FOLDER.min(args.times - tally.kills());
            outcome = (self.folder)(args, launch, kills, &mut chance, &mut tally);
            if outcome.is_ok() {
                std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            }
        }
        let text = (self.text)(&tally, seed, begun.elapsed(), outcome.as_ref().err());
        print!("\n{text}");
        if let Some(file) = &args.report {
            std::fs::write(file, (self.page)(&text)).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        let kills = tally.kills();
        outcome.map_err(|why| format!("{why}\n  seed {seed}, kill {kills}; the data is kept in {}", scratch.display()))
    }
}
