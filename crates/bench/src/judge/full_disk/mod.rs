//! The full disk judge: the data folder lies on a small volume, which two tongues fill, and which then gets space again
//! in three ways. While it is full writes are refused by each tongue's retriable error and all else goes on; when there
//! is space it heals alone; nothing acknowledged is lost, not by a kill on the full disk either.

mod clients;
mod official;
mod volume;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::books::{self, Books, PARTITIONS, QUEUES, TOPIC, Tally};
use crate::judge::kafka::Kafka;
use crate::judge::server::{Launch, Server};
use clients::Clients;
use volume::Volume;

const VOLUME_BYTES: u64 = 64 << 20;
const HEALS_WITHIN: Duration = Duration::from_secs(5);
const SMALL: &[&str] = &["--storage-journal-file-bytes", "1MiB", "--storage-journal-files-max", "4"];
/// Space that comes back by itself is filled again so often.
const FILLS_MAX: usize = 8;
/// Reserves under trial, in MiB, and whether all that is promised of a full disk must hold: with a reserve smaller than
/// two journal files there may be no room left for acks and deletes.
const RESERVES: [(u64, bool); 4] = [(0, false), (1, false), (4, true), (16, true)];

/// What the full disk judge is told.
#[derive(clap::Args)]
pub struct Args {
    /// The broker's binary.
    #[arg(long)]
    bin: PathBuf,
    /// Write the outcome into this file.
    #[arg(long)]
    report: Option<PathBuf>,
}

/// One trial.
struct Trial<'a> {
    server: Server,
    clients: Clients,
    books: Books,
    volume: &'a Volume,
    strict: bool,
    lines: Vec<String>,
}

/// Runs the trials and says what was found.
///
/// # Errors
/// What does not hold.
pub fn run(args: &Args) -> Outcome<()> {
    let scratch = std::env::temp_dir().join(format!("fourfold-full-disk-{}", std::process::id()));
    let begun = Instant::now();
    let mut text = String::new();
    for (reserve, strict) in RESERVES {
        let lines = trial(&args.bin, &scratch.join(format!("reserve-{reserve}")), reserve, strict)
            .map_err(|why| format!("with a reserve of {reserve} MiB: {why}\nthe log is in {}", scratch.display()))?;
        for line in lines {
            println!("reserve {reserve:>2} MiB: {line}");
            text.push_str(&format!("reserve {reserve:>2} MiB: {line}\n"));
        }
    }
    let lines = official::trial(&args.bin, &scratch.join("official"))
        .map_err(|why| format!("official clients: {why}\nthe log is in {}", scratch.display()))?;
    for line in lines {
        println!("official clients: {line}");
        text.push_str(&format!("official clients: {line}\n"));
    }
    text.push_str(&format!("took {} s\nverdict: 0 lost, 0 reordered, 0 invented\n", begun.elapsed().as_secs()));
    if let Some(file) = &args.report {
        std::fs::write(file, page(&text)).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    std::fs::remove_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))
}

fn trial(bin: &Path, folder: &Path, reserve: u64, strict: bool) -> Outcome<Vec<String>> {
    let volume = Volume::mount(&folder.join("volume"), VOLUME_BYTES)?;
    let reserve = format!("{reserve}MiB");
    let launch = Launch::new(bin, folder).data(&volume.path.join("data")).options(SMALL);
    let server = Server::start(launch.options(&["--storage-reserve-bytes", &reserve]))?;
    Kafka::connect(&server.kafka)?.create(TOPIC, PARTITIONS)?;
    let mut amqp = crate::judge::amqp::Amqp::connect(&server.amqp)?;
    QUEUES.iter().try_for_each(|queue| amqp.declare(queue).map(drop))?;
    let books = Books::default();
    let clients = Clients::connect(&server, &books)?;
    let mut trial = Trial { server, clients, books, volume: &volume, strict, lines: Vec::new() };
    let outcome = trial.run();
    let Trial { server, lines, .. } = trial;
    outcome.map_err(|why| format!("{why}\n{}", server.log()))?;
    drop(server);
    Ok(lines)
}

impl Trial<'_> {
    fn run(&mut self) -> Outcome<()> {
        // Deleted while the disk is full: what was settled of it, and what is in the window still.
        self.clients.make("deleted-0", 150)?;
        self.clients.make("deleted-1", 2)?;
        self.clients.fill()?;
        self.full("deleted-1")?;
        if self.strict {
            self.clients.go_on(&self.server, "deleted-0")?;
            self.heal("a topic of 9 MiB is deleted")?;
        } else {
            self.volume.resize(VOLUME_BYTES + (8 << 20))?;
            self.heal("the volume grows by 8 MiB")?;
        }

        self.clients.make("deleted-2", 2)?;
        self.clients.fill()?;
        self.full("deleted-2")?;
        self.volume.resize(VOLUME_BYTES + (24 << 20))?;
        self.heal("the volume grows by 24 MiB")?;

        self.clients.make("deleted-3", 2)?;
        self.volume.take_the_rest()?;
        self.clients.fill()?;
        self.full("deleted-3").or_else(|why| self.excuse(why))?;
        self.volume.give_back()?;
        self.heal("others take the last byte and give it back")?;

        self.clients.fill()?;
        self.check("after a kill on the full disk")?;
        self.volume.resize(VOLUME_BYTES + (48 << 20))?;
        self.heal("the volume grows after a restart on the full disk")?;
        self.check("after the last kill")
    }

    // Without a reserve there is no room for what should go on.
    fn excuse(&mut self, why: String) -> Outcome<()> {
        if self.strict {
            return Err(why);
        }
        self.lines.push(format!("(not promised without a reserve: {why})"));
        Ok(())
    }

    fn full(&mut self, topic: &str) -> Outcome<()> {
        let (mut status, mut health) = self.server.get("/api/v1/health")?;
        for _ in 0..FILLS_MAX {
            if health.contains("\"full\"") {
                break;
            }
            // Settling and merging have given space back since.
            self.clients.fill()?;
            (status, health) = self.server.get("/api/v1/health")?;
        }
        if status != 200 || !health.contains("\"full\"") {
            return Err(format!("full: health answers {status} {health}"));
        }
        let (_, metrics) = self.server.get("/metrics")?;
        if !metrics.lines().any(|line| line == "fourfold_disk_full 1") {
            return Err("full: the metrics do not say so".to_owned());
        }
        let gone_on = self.clients.go_on(&self.server, topic);
        gone_on.or_else(|why| self.excuse(why))
    }

    fn heal(&mut self, how: &str) -> Outcome<()> {
        let refused = self.clients.refused;
        let took = self.clients.heal(HEALS_WITHIN).map_err(|why| format!("{how}: {why}"))?;
        let [kafka, amqp] = refused;
        self.lines.push(format!(
            "{how}: heals in {} ms ({kafka} produces, {amqp} publishes refused or held)",
            took.as_millis()
        ));
        Ok(())
    }

    fn check(&mut self, when: &str) -> Outcome<()> {
        let mut tally = Tally::default();
        self.books.add(self.clients.take_done(), &mut tally);
        self.server.kill()?;
        self.server.restart()?;
        books::verify(&self.server, &mut self.books, &mut tally).map_err(|why| format!("{when}: {why}"))?;
        self.clients = Clients::connect(&self.server, &self.books)?;
        self.lines.push(format!("{when}: {} messages read back, none lost", tally.read_back));
        Ok(())
    }
}

fn page(text: &str) -> String {
    format!(
        "# The full disk judge\n\n\
         `cargo xtask judge full-disk` (root is needed, to mount a volume of 64 MiB in memory) puts the data folder\n\
         of the real binary on a small volume. Raw clients of both tongues write until they are refused: Kafka by\n\
         KAFKA_STORAGE_ERROR, which clients try again; AMQP is held: publishes wait until there is room. While it is\n\
         full, health and metrics say so, and fetching, consuming, acknowledging and deleting topics go on. Then\n\
         space returns: by a deletion, a larger volume, by others who had taken the last byte. It must heal alone\n\
         within 5 s of that. A kill on the full disk and one at the end show that nothing acknowledged is lost.\n\n\
         The journal's files are of 1 MiB here. A reserve of less than two of them leaves no room for acks and\n\
         deletes: what then fails is said below and not counted.\n\n\
         The same is then shown by the official clients: pika with confirms and the callbacks of a blocked\n\
         connection, librdkafka and kafka-python, which try again by themselves. They fill a volume with a reserve\n\
         of 16 MiB, look at alarms and connections through the management API, and go on when space returns; a kill\n\
         while it is full and one later show that what they were acknowledged is there, once and in order.\n\n\
         The last run:\n\n```\n{text}```\n"
    )
}
