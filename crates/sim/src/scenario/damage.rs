//! Surgery on the files of a small store: cuts and flipped bits at every byte of the journal's headers and entries, of
//! packs, segments, their indexes, and of the checkpoint. Each image is opened and read whole. What is served must be
//! what was written; what is missing must be named; everything that does not lie in what was hit must be there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use model::format::{Visit, VisitUnit};
use model::{Format, FormatError, FormatTag, LogId, Message, Offset, Stamp, UnitAt, Wall};
use storage::sim_disk::{SimDisk, run_jobs, settle_down};
use storage::{
    Append, Batch, Options, Owner, Read, ReadRequest, StateChange, Storage, StorageError, SyncPolicy, Target,
};

/// Bytes of a journal file: the smallest.
const FILE_BYTES: u64 = 64 << 10;
/// Where entries begin in a journal file, and at multiples of what.
const ENTRIES_AT: usize = 4096;
const ALIGN: usize = 64;
/// Bytes of an entry's header.
const ENTRY_HEADER: usize = 64;
/// Bytes of a journal file's header, and where the second copy of it lies.
const HEADER: usize = 64;
const HEADER_COPY_AT: usize = 2048;
/// Units from this size on are not harmed at every byte: they only fill the journal.
const LARGE: usize = 5000;
/// Where extents begin in a file of the store, and the bytes of their headers.
const EXTENTS_AT: usize = 64;
const EXTENT_HEADER: usize = 48;
/// A log whose messages die at once: it fills the journal.
const FILLER: u64 = 90;
/// Logs of the packs, and one that is big enough for segments of its own.
const SMALL_LOGS: u64 = 4;
const BIG_LOG: u64 = 50;

/// One message is one unit: its offset in eight bytes, its length in four, its content.
struct Toy;

impl Format for Toy {
    fn tag(&self) -> FormatTag {
        FormatTag(9)
    }

    fn stamp(&self, units: &mut [u8], stamp: Stamp) {
        if let Some(place) = units.get_mut(..8) {
            place.copy_from_slice(&stamp.base.0.to_be_bytes());
        }
    }

    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError> {
        let (mut at, mut first) = (0, base);
        while let Some(length) = units.get(at + 8..at + 12).and_then(|four| four.try_into().ok()) {
            let bytes = 12 + u32::from_be_bytes(length) as usize;
            if let ControlFlow::Break(()) = visit(UnitAt { first, count: 1, at, bytes }) {
                break;
            }
            at += bytes;
            first = first.plus(1);
        }
        Ok(())
    }

    fn open(&self, _: &Bytes, _: Offset, _: &mut Visit<'_>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("nobody opens these"))
    }

    fn build(&self, _: &[(Offset, Message)], _: &mut Vec<u8>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("nobody builds these"))
    }
}

/// By log and offset.
type Messages = BTreeMap<(u64, u64), Vec<u8>>;

/// The store before surgery.
struct Store {
    disk: SimDisk,
    written: Messages,
    newest_journal: Option<String>,
}

/// What is done to a file at a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Harm {
    /// This bit is another.
    Flip(u8),
    /// Everything from here on is gone (in the journal, whose files are reserved: zero).
    Cut,
}

/// What all images together showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Images opened.
    pub images: u64,
    /// Of which something was missing.
    pub costly: u64,
    /// The most messages that one image missed.
    pub worst: u64,
    /// Messages in the store.
    pub messages: u64,
    /// Images by what was hit: journal, packs, segments, checkpoint.
    pub of: [u64; 4],
}

impl Report {
    /// Takes what another run over other bytes of the same store showed.
    pub fn add(&mut self, other: &Report) {
        self.images += other.images;
        self.costly += other.costly;
        self.worst = self.worst.max(other.worst);
        self.messages = self.messages.max(other.messages);
        self.of.iter_mut().zip(other.of).for_each(|(all, more)| *all += more);
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "a store of {} messages, one cut and two flipped bits at every byte", self.messages)?;
        let [journal, packs, segments, checkpoint] = self.of;
        writeln!(
            out,
            "{} images: journal {journal}, packs {packs}, segments {segments}, checkpoint {checkpoint}",
            self.images
        )?;
        writeln!(out, "{} of them miss something, at most {} messages, each said by name", self.costly, self.worst)?;
        writeln!(out, "0 panics, 0 wrong or invented messages served, 0 unnamed, 0 lost that were not hit")
    }
}

fn options() -> Options {
    Options {
        journal_file_bytes: FILE_BYTES,
        journal_files_max: 2,
        reserve_bytes: 0,
        tail_cache_bytes: 4 << 10,
        ..Options::default()
    }
}

fn put(storage: &mut Storage, log: u64, content: &[u8], policy: SyncPolicy) -> Result<u64, StorageError> {
    let first = storage.range(LogId(log)).map_or(Offset(0), |range| range.end);
    let mut units = vec![0; 8];
    units.extend_from_slice(&(content.len() as u32).to_be_bytes());
    units.extend_from_slice(content);
    let append = Append {
        targets: &[Target { log: LogId(log), first }],
        format: &Toy,
        units: &units,
        last_delta: 0,
        count: 1,
        time_max: Wall(first.0 as i64),
        stamp: Stamp { base: first, epoch: 0, at: Wall(0) },
    };
    let owner = Owner { kind: 1, id: log % 3 };
    let state = [(owner, StateChange::Delta(&content[..content.len().min(9)]))];
    storage.commit(&Batch { appends: &[append], state: &state, ..Batch::default() }, policy)?;
    Ok(first.0)
}

// Two generations of packs and segments, a checkpoint, and a window whose last entries are of every log.
fn build() -> Result<Store, StorageError> {
    let disk = SimDisk::new();
    let (mut storage, _) = Storage::open(Arc::new(disk.clone()), options())?;
    let mut written = Messages::new();
    let mut number = 0u64;
    let mut write = |storage: &mut Storage, log: u64, bytes: usize| {
        number += 1;
        let content: Vec<u8> = (0..bytes as u64).map(|at| (number * 31 + at * 7) as u8).collect();
        let offset = put(storage, log, &content, SyncPolicy::Sync)?;
        if log != FILLER {
            written.insert((log, offset), content);
        }
        storage.flush()?;
        run_jobs(storage).map(drop)
    };
    for round in 0..12 {
        for log in 0..SMALL_LOGS {
            write(&mut storage, log, 60 + 40 * (round as usize % 3))?;
        }
        // Now and then enough at once for a segment.
        for _ in 0..if round % 4 == 1 { 16 } else { 3 } {
            write(&mut storage, BIG_LOG, 300)?;
        }
        for _ in 0..3 {
            write(&mut storage, FILLER, 12_000)?;
        }
        let end = storage.range(LogId(FILLER)).map_or(Offset(0), |range| range.end);
        let batch = Batch { trims: &[(LogId(FILLER), end)], ..Batch::default() };
        storage.commit(&batch, SyncPolicy::Sync)?;
        settle_down(&mut storage)?;
    }
    for log in (0..SMALL_LOGS).chain([BIG_LOG]) {
        write(&mut storage, log, 200)?;
    }
    Ok(Store { disk: disk.kill(), written, newest_journal: newest_journal(&disk) })
}

// The places to harm, by file: of the journal the headers and the entries, but for what fills it.
fn places(disk: &SimDisk) -> Vec<(String, Vec<usize>)> {
    let mut places = Vec::new();
    for name in disk.names() {
        let bytes = disk.bytes_of(&name).unwrap_or_default();
        if !name.starts_with("journal/") {
            places.push((name, (0..bytes.len()).collect()));
            continue;
        }
        let mut of_file: Vec<usize> = (0..HEADER).chain(HEADER_COPY_AT..HEADER_COPY_AT + HEADER).collect();
        for at in entries(&bytes) {
            let (units, directory) = (half(&bytes, at + 28) as usize, half(&bytes, at + 32) as usize);
            let directory_at = at + ENTRY_HEADER + units;
            if units < LARGE {
                of_file.extend(at..directory_at);
            } else {
                of_file.extend(at..at + ENTRY_HEADER);
            }
            of_file.extend(directory_at..(directory_at + directory).min(bytes.len()));
        }
        places.push((name, of_file));
    }
    places
}

// The journal file that holds the newest entry: others may hold what they held before they were used again.
fn newest_journal(disk: &SimDisk) -> Option<String> {
    let newest = |name: &String| {
        let bytes = disk.bytes_of(name).unwrap_or_default();
        entries(&bytes).into_iter().map(|at| word(&bytes, at + 4)).max()
    };
    disk.names().into_iter().filter(|name| name.starts_with("journal/")).max_by_key(newest)
}

fn entries(bytes: &[u8]) -> Vec<usize> {
    (ENTRIES_AT..bytes.len()).step_by(ALIGN).filter(|at| bytes[*at..].starts_with(b"4Fen")).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Harms every `step`-th byte, from `first` on, in every way.
///
/// # Errors
/// The first image that breaks a promise: file, byte, and what was wrong.
pub fn run(first: usize, step: usize) -> Result<Report, String> {
    let store = build().map_err(|why| format!("the store cannot be made: {why}"))?;
    let mut report = Report { messages: store.written.len() as u64, ..Report::default() };
    for (name, places) in places(&store.disk) {
        let bytes = store.disk.bytes_of(&name).unwrap_or_default();
        for at in places.into_iter().skip(first).step_by(step) {
            for harm in [Harm::Cut, Harm::Flip((at % 8) as u8), Harm::Flip((at + 3) as u8 % 8)] {
                store
                    .image(&name, &bytes, (at, harm), &mut report)
                    .map_err(|why| format!("{name}, byte {at} of {}, {harm:?}: {why}", bytes.len()))?;
            }
        }
    }
    Ok(report)
}

impl Store {
    fn image(&self, name: &str, bytes: &[u8], (at, harm): (usize, Harm), report: &mut Report) -> Result<(), String> {
        let disk = self.disk.kill();
        disk.put_bytes(name, harmed(name, bytes, at, harm));
        report.images += 1;
        let kinds = ["journal/", "packs/", "segments/", "checkpoint"];
        let kind = kinds.iter().position(|kind| name.starts_with(kind)).ok_or("a file of no known kind")?;
        report.of[kind] += 1;
        let (mut storage, recovered) =
            Storage::open(Arc::new(disk.clone()), options()).map_err(|why| format!("it does not open: {why}"))?;
        let mut named = !recovered.damage.is_empty();
        let found = read_all(&mut storage, &mut named)?;
        for (place, content) in &found {
            if self.written.get(place) != Some(content) {
                return Err(format!("invented or changed: {place:?}"));
            }
        }
        let missing: Vec<(u64, u64)> =
            self.written.keys().filter(|place| !found.contains_key(place)).copied().collect();
        report.costly += u64::from(!missing.is_empty());
        report.worst = report.worst.max(missing.len() as u64);
        if name.starts_with("journal/") {
            let is_newest = self.newest_journal.as_deref() == Some(name);
            judge_journal(bytes, (at, harm, is_newest), &missing, named)?;
        } else if name.starts_with("checkpoint") {
            if !missing.is_empty() || !named {
                return Err(format!("one of two copies is hit: {missing:?} missing, named: {named}"));
            }
        } else {
            judge_store(bytes, (at, harm), &missing, named)?;
        }
        self.goes_on(&disk, storage, report.images)
    }

    // Whatever was hit: what is written now is there after the next stop.
    fn goes_on(&self, disk: &SimDisk, mut storage: Storage, seed: u64) -> Result<(), String> {
        if !seed.is_multiple_of(8) {
            return Ok(());
        }
        let told = |why: StorageError| format!("it does not go on: {why}");
        put(&mut storage, 99, b"after", SyncPolicy::Sync).map_err(told)?;
        settle_down(&mut storage).map_err(told)?;
        let (mut storage, _) = Storage::open(Arc::new(disk.crash(seed)), options()).map_err(told)?;
        let found = read_all(&mut storage, &mut false)?;
        match found.get(&(99, 0)).map(Vec::as_slice) {
            Some(b"after") => Ok(()),
            _ => Err("what was written afterwards is lost".to_owned()),
        }
    }
}

// A cut loses what lies behind it in the file, a flip only the entry it hits, and none in a header. What later entries
// vouch for is named.
fn judge_journal(
    bytes: &[u8],
    (at, harm, is_newest): (usize, Harm, bool),
    missing: &[(u64, u64)],
    named: bool,
) -> Result<(), String> {
    let entries = entries(bytes);
    let hit = entries.iter().rposition(|entry| *entry <= at);
    let behind = entries.len() - hit.unwrap_or(0);
    let bound = match (harm, hit) {
        (Harm::Cut, _) => behind,
        (Harm::Flip(_), Some(_)) => 1,
        (Harm::Flip(_), None) => 0,
    };
    if missing.len() > bound {
        return Err(format!("{} messages missing, at most {bound} were hit", missing.len()));
    }
    // The last entry nobody vouches for: whether it was ever whole cannot be known.
    let vouched = !is_newest || (harm != Harm::Cut && behind > 1);
    if vouched && !missing.is_empty() && !named { Err(format!("{missing:?} missing and not named")) } else { Ok(()) }
}

fn harmed(name: &str, bytes: &[u8], at: usize, harm: Harm) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match harm {
        Harm::Flip(bit) => bytes[at] ^= 1 << bit,
        Harm::Cut if name.starts_with("journal/") => bytes[at..].fill(0),
        Harm::Cut => bytes.truncate(at),
    }
    bytes
}

// A flip costs at most the extent it hits; a cut what does not lie wholly before it. Whatever is missing is named.
fn judge_store(bytes: &[u8], (at, harm): (usize, Harm), missing: &[(u64, u64)], named: bool) -> Result<(), String> {
    if !missing.is_empty() && !named {
        return Err(format!("{missing:?} missing and not named"));
    }
    if harm != Harm::Cut && missing.iter().any(|(log, _)| Some(*log) != missing.first().map(|(first, _)| *first)) {
        return Err(format!("one flipped bit costs several logs: {missing:?}"));
    }
    let (word, half) = (|at| word(bytes, at), |at| half(bytes, at));
    let mut from = EXTENTS_AT;
    while bytes.get(from).is_some_and(|tag| *tag == Toy.tag().0) {
        let (log, first, last_delta) = (word(from + 4), word(from + 12), u64::from(half(from + 32)));
        let end = from + EXTENT_HEADER + half(from + 28) as usize;
        if end <= at
            && let Some(lost) = missing.iter().find(|(of, at)| *of == log && (first..=first + last_delta).contains(at))
        {
            return Err(format!("{lost:?} is missing though it lies before what was hit"));
        }
        from = end;
    }
    Ok(())
}

fn read_all(storage: &mut Storage, named: &mut bool) -> Result<Messages, String> {
    let mut found = Messages::new();
    for log in (0..SMALL_LOGS).chain([BIG_LOG, 99]).map(LogId) {
        let Some(range) = storage.range(log) else { continue };
        let mut from = range.start;
        while from < range.end {
            match storage.read(&ReadRequest { log, from, until: range.end, bytes_max: 2000 }) {
                Ok(Read::Ready(chunks)) if chunks.is_empty() => break,
                Ok(Read::Ready(chunks)) => {
                    for chunk in chunks {
                        let units = chunk.units.clone();
                        let split = Toy.split(&units, chunk.first, &mut |unit| {
                            let content = units.get(unit.at + 12..unit.at + unit.bytes).unwrap_or_default();
                            found.insert((log.0, unit.first.0), content.to_vec());
                            ControlFlow::Continue(())
                        });
                        split.map_err(|why| format!("units of {log} at {}: {why}", chunk.first))?;
                        from = chunk.last.plus(1);
                    }
                }
                Ok(Read::Pending(_)) => drop(run_jobs(storage).map_err(|why| why.to_string())?),
                Err(StorageError::Damaged { .. }) => {
                    *named = true;
                    from = storage.after_damage(log, from);
                }
                Err(why) => return Err(format!("reading log {log} at {from}: {why}")),
            }
        }
        found.retain(|(of, offset), _| *of != log.0 || *offset >= range.start.0);
    }
    Ok(found)
}
