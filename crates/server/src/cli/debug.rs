//! `fourfold debug`: looking at the data folder of a stopped server. Nothing is changed, unless a repair is asked for.

mod dump;
mod repair;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use model::{LogId, Offset, Wall};
use serde_json::{Value, json};
use storage::inspect::Inspection;
use storage::{Damage, Disk, RealDisk, StorageError};

use super::CliError;
use super::output::{Format, print, print_json, print_rows};
use crate::config::Settings;

/// Which folder, and how it is shown.
#[derive(Debug, Args)]
pub struct FolderArgs {
    /// The data folder of a server that is stopped; without it $FOURFOLD_DATA, else the one that `serve` uses
    #[arg(long)]
    data: Option<PathBuf>,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl FolderArgs {
    /// The folder's disk; never made here.
    fn open(&self) -> Result<Arc<dyn Disk>, CliError> {
        let named = self.data.clone().or_else(|| std::env::var_os("FOURFOLD_DATA").map(PathBuf::from));
        let data = named.unwrap_or_else(|| Settings::default().data);
        if !data.join("journal").is_dir() {
            return Err(CliError::Usage(format!("{} is no data folder: name one with --data", data.display())));
        }
        let told = |e: std::io::Error| CliError::Local(format!("{}: {e}", data.display()));
        Ok(Arc::new(RealDisk::new(&data).map_err(told)?))
    }
}

/// What to do with it.
#[derive(Debug, Subcommand)]
pub enum DebugVerb {
    /// List what lies where: topic and partition or queue, offsets, file, bytes, times
    Segments {
        #[command(flatten)]
        folder: FolderArgs,
        /// Only of this TOPIC/PARTITION or queue
        #[arg(long)]
        of: Option<String>,
        /// Only where this offset lies
        #[arg(long, requires = "of")]
        offset: Option<u64>,
    },
    /// Show the messages of a topic's partition or a queue, or what is in one file
    Dump {
        #[command(flatten)]
        folder: FolderArgs,
        /// TOPIC/PARTITION, a queue's name, or a file of the folder such as packs/00000000000000000001
        what: String,
        /// The first offset
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// How many messages, or things in a file, at most
        #[arg(long, default_value_t = 100)]
        count: u64,
    },
    /// Read and check everything; exit code 1 and a list when anything is damaged
    Verify {
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Cut off what is proved to be a torn end and make again what can be made (indexes, headers, a copy of the
    /// checkpoint). What else is damaged is named and left as it is; exit code 1 when there is such. Without --yes it
    /// says what it would do and changes nothing
    Repair {
        #[command(flatten)]
        folder: FolderArgs,
        /// Do it
        #[arg(long)]
        yes: bool,
    },
}

type Names = BTreeMap<LogId, String>;

/// Does what was asked.
pub fn run(verb: DebugVerb) -> Result<(), CliError> {
    match verb {
        DebugVerb::Segments { folder, of, offset } => segments(&folder, of.as_deref(), offset),
        DebugVerb::Dump { folder, what, from, count } => dump::dump(&folder.open()?, &what, from, count),
        DebugVerb::Verify { folder } => verify(&folder),
        DebugVerb::Repair { folder, yes } => repair::repair(&folder, yes),
    }
}

fn inspect(disk: &Arc<dyn Disk>) -> Result<(Inspection, Names), CliError> {
    let inspection = Inspection::open(Arc::clone(disk)).map_err(|why| {
        CliError::Local(format!("the folder cannot be looked at: {why} (a server that uses it must be stopped first)"))
    })?;
    // Without names everything else can still be seen.
    let names = names(&inspection);
    Ok((inspection, names))
}

fn names(inspection: &Inspection) -> Names {
    broker::names::log_names(&inspection.recovered).unwrap_or_else(|why| {
        eprintln!("fourfold: {why}; logs are shown by number");
        Names::new()
    })
}

fn name_of(names: &Names, log: LogId) -> String {
    names.get(&log).cloned().unwrap_or_else(|| format!("log {log}"))
}

/// What is said of a name that nothing in the folder has.
fn unknown(names: &Names, name: &str) -> String {
    let prefix = format!("{name}/");
    let mut partitions = names.values().filter(|known| known.starts_with(&prefix)).collect::<Vec<_>>();
    partitions.sort();
    match partitions.first() {
        Some(first) => {
            format!("'{name}' is a topic with {} partitions: name one of them, such as '{first}'", partitions.len())
        }
        None => format!(
            "there is no '{name}' in the folder: name TOPIC/PARTITION or QUEUE; `fourfold debug segments` without --of \
             shows what there is"
        ),
    }
}

fn segments(folder: &FolderArgs, of: Option<&str>, offset: Option<u64>) -> Result<(), CliError> {
    let (inspection, names) = inspect(&folder.open()?)?;
    let is_meant = |name: &str, known: &String| *known == name || *known == format!("queue '{name}'");
    let named = |name: &str| names.iter().find(|(_, known)| is_meant(name, known)).map(|(log, _)| *log);
    let wanted = match of {
        Some(name) => Some(named(name).ok_or_else(|| CliError::Local(unknown(&names, name)))?),
        None => None,
    };
    let pieces = match (wanted, offset) {
        (Some(log), Some(offset)) => inspection.piece_of(log, Offset(offset)).into_iter().collect(),
        _ => inspection.pieces(),
    };
    let rows: Vec<Value> = pieces
        .iter()
        .filter(|piece| wanted.is_none_or(|log| piece.log == log))
        .map(|piece| {
            json!({
                "log": piece.log.0,
                "name": name_of(&names, piece.log),
                "first": format!("{:020}", piece.first.0),
                "last": piece.last.0,
                "file": piece.file,
                "at": piece.at,
                "bytes": piece.bytes,
                "latest": time(piece.time_max),
                "messages": piece.messages.unwrap_or(piece.last.0 - piece.first.0 + 1),
                "messages_exact": piece.messages.is_some(),
            })
        })
        .collect();
    let rows = Value::Array(rows);
    match folder.output {
        Format::Json => print_json(&json!({ "segments": rows })),
        Format::Table => print_rows(
            &rows,
            &[
                ("OF", "name"),
                ("FIRST OFFSET", "first"),
                ("LAST", "last"),
                ("FILE", "file"),
                ("BYTES", "bytes"),
                ("LATEST", "latest"),
                ("MESSAGES", "messages"),
            ],
        ),
    }
}

/// As UTC, `null` when there is none.
fn time(wall: Wall) -> Value {
    if wall.0 < 0 {
        return Value::Null;
    }
    wall.to_string().into()
}

/// Runs `work` with a progress bar, if anybody looks.
fn with_bar<T>(work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, StorageError>) -> Result<T, CliError> {
    let shows = std::io::stderr().is_terminal();
    let mut shown = u64::MAX;
    let outcome = work(&mut |done: u64, all: u64| {
        let percent = (done * 100).checked_div(all).unwrap_or(100);
        if shows && percent != shown {
            shown = percent;
            let bar = "#".repeat((percent / 2) as usize);
            eprint!("\r[{bar:.<50}] {percent:>3} % of {} MiB ", all >> 20);
            let _ = std::io::stderr().flush(); // only a progress bar
        }
    });
    if shows {
        eprintln!();
    }
    outcome.map_err(|why| CliError::Local(why.to_string()))
}

fn verify(folder: &FolderArgs) -> Result<(), CliError> {
    let (mut inspection, names) = inspect(&folder.open()?)?;
    let damage = with_bar(|progress| inspection.verify(progress))?;
    let rows: Vec<Value> = damage.iter().map(|one| row(one, &names)).collect();
    match folder.output {
        Format::Json => print_json(&json!({ "damage": rows, "torn_bytes": inspection.recovered.torn_bytes }))?,
        Format::Table if rows.is_empty() => {
            let torn = inspection.recovered.torn_bytes;
            print("nothing is damaged\n")?;
            if torn > 0 {
                print(&format!("{torn} bytes at the journal's end were half written: the next start cuts them off\n"))?;
            }
        }
        Format::Table => {
            let columns = [("FILE", "file"), ("AT", "at"), ("BYTES", "bytes"), ("HITS", "names")];
            print_rows(&Value::Array(rows.clone()), &columns)?;
        }
    }
    match damage.len() {
        0 => Ok(()),
        1 => Err(CliError::Local("1 place is damaged: its range is off line, all else is served".to_owned())),
        count => Err(CliError::Local(format!("{count} places are damaged: their ranges are off line"))),
    }
}

fn row(damage: &Damage, names: &Names) -> Value {
    let hit: Vec<String> = damage.logs.iter().map(|log| name_of(names, *log)).collect();
    let logs: Vec<u64> = damage.logs.iter().map(|log| log.0).collect();
    json!({ "file": damage.file, "at": damage.at, "bytes": damage.bytes, "logs": logs, "names": hit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_by_people() {
        assert_eq!(time(Wall(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(Wall(1_709_210_096_789)), "2024-02-29T12:34:56.789Z");
        assert_eq!(time(Wall(-1)), Value::Null);
    }
}
