//! Recovery of the window: finds the entries of all files, decides where the torn end begins, names what is damaged
//! before it, and hands everything else to the index and the state table in order. May be killed at any call and be
//! run again: it changes nothing but what lies beyond the cut, and the cut is the same every time.

use std::io;
use std::sync::Arc;

use super::aside;
use super::files::{JournalFile, Unread, is_unreadable};
use super::frame::{BadHeader, ENTRIES_AT, ENTRY_HEADER_BYTES, EntryHeader, file_name, seeded_crc};
use super::heads::read_head;
use super::scan::{Scanner, gives_too_little};
use super::writer::Start;
use crate::replay::Replay;
use crate::{Damage, Disk, StorageError};

/// Where the window begins, by the checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    /// The first file still needed.
    pub(crate) first_file: u32,
    /// The number of its first entry.
    pub(crate) first_seq: u64,
    /// The checkpoint knows of this entry: it and all before it were durable.
    pub(crate) durable: u64,
}

// Of an entry no more than is needed to find it again: there may be millions.
struct Found {
    seq: u64,
    at: u32,
    end: u32,
    /// Position in `Window::files`.
    file: u32,
}

impl Found {
    fn file(&self) -> usize {
        self.file as usize
    }

    fn at(&self) -> u64 {
        u64::from(self.at)
    }

    fn end(&self) -> u64 {
        u64::from(self.end)
    }
}

/// A file without a usable header.
struct Unreadable {
    number: u32,
    bytes: u64,
    /// Not only unfinished.
    damaged: bool,
}

struct Window {
    files: Vec<Arc<JournalFile>>,
    unreadable: Vec<Unreadable>,
    /// Numbers of files whose headers are lost, but not their entries.
    headless: Vec<u32>,
    /// The last file of which the disk gives nothing, or too little to know what it held, and why.
    silent: Option<(u32, io::Error)>,
    found: Vec<Found>,
    /// Everything up to this entry was durable before the stop.
    durable: u64,
    number_next: u32,
}

impl Window {
    /// Up to this entry whatever is missing or broken is damage, and none of it the torn end. Where the disk does not
    /// give all bytes nobody knows what was there: then it is all that was found.
    fn vouched(&self) -> u64 {
        let has_unread = self.files.iter().any(|file| !file.unread().is_empty());
        let all = self.found.last().filter(|_| has_unread);
        self.durable.max(all.map_or(0, |last| last.seq))
    }

    // Bytes that the disk does not give behind the last entry, in later files too: nobody knows what was in them.
    fn unread_end(&self) -> u64 {
        let last = self.found.last();
        let behind = self.files.iter().enumerate().skip(last.map_or(0, Found::file));
        let bytes = behind.map(|(at, file)| {
            let from = last.filter(|last| last.file() == at).map_or(0, Found::end);
            let beyond = |unread: &Unread| (unread.at + unread.bytes).saturating_sub(unread.at.max(from));
            file.unread().iter().map(beyond).sum::<u64>()
        });
        bytes.sum()
    }
}

/// What recovery leaves.
pub(crate) struct Outcome {
    pub(crate) start: Start,
    pub(crate) damage: Vec<Damage>,
    pub(crate) torn_bytes: u64,
}

pub(crate) fn disk_error(what: &str, error: &io::Error) -> StorageError {
    StorageError::Disk { what: what.to_owned(), why: error.to_string().into() }
}

/// Recovers the window into `replay`.
///
/// # Errors
/// [`StorageError::Unusable`] when a newer program wrote a file, [`StorageError::Disk`] when the disk fails.
pub(crate) fn recover(disk: &dyn Disk, base: Base, replay: &mut Replay<'_>) -> Result<Outcome, StorageError> {
    let window = look(disk, base)?;
    let mut walk = Walk { window: &window, base, damage: Vec::new(), expected: base.first_seq, unsynced: Vec::new() };
    let good = walk.run(replay).map_err(|error| disk_error("reading the journal", &error))?;
    walk.name_lost_end(good);
    walk.name_headless();
    walk.name_unread();
    let Walk { mut damage, expected, unsynced, .. } = walk;
    replay.finish(&mut damage);
    let torn_bytes = window.found[good..].iter().map(|found| found.end() - found.at()).sum();
    let mut seq_next = expected.max(window.durable + 1);
    // Should the disk give it one day after all, no entry in it has a number that was given again.
    seq_next += window.unread_end() / ENTRY_HEADER_BYTES as u64;
    let first_cut = window.found.get(good);
    seq_next += u64::from(first_cut.is_some());
    let cut = Cut { good, mark: seq_next - 1, tidy: damage.is_empty() };
    make_sure(disk, &window, &cut, &unsynced).map_err(|error| disk_error("ending the journal", &error))?;
    let mut start = Start {
        files: Vec::new(),
        first_seqs: Vec::new(),
        unreadable: window.lost(),
        seq_next,
        number_next: window.number_next,
        go_on_at: None,
    };
    let mut last = None;
    for found in window.found[..good].iter().chain(first_cut) {
        if last != Some(found.file()) {
            last = Some(found.file());
            start.files.push(Arc::clone(&window.files[found.file()]));
            start.first_seqs.push(found.seq.min(seq_next - 1));
        }
    }
    // Behind a whole end the last file goes on; behind damage a new one is begun.
    if damage.is_empty() {
        let mark_end = first_cut.map(|mark| mark.at() + ENTRY_HEADER_BYTES as u64);
        start.go_on_at = mark_end.or(window.found[..good].last().map(|found| found.end()));
    }
    Ok(Outcome { start, damage, torn_bytes })
}

fn look(disk: &dyn Disk, base: Base) -> Result<Window, StorageError> {
    let names = disk.list("journal").map_err(|error| disk_error("listing journal", &error))?;
    aside::recover(disk, &names, base.first_file)
        .map_err(|error| disk_error("keeping a journal file that cannot be read everywhere", &error))?;
    let names = disk.list("journal").map_err(|error| disk_error("listing journal", &error))?;
    let mut numbers: Vec<u32> =
        names.iter().filter(|name| name.len() == 20).filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    let number_next = numbers.last().map_or(0, |last| *last).max(base.first_file.saturating_sub(1)) + 1;
    let mut window = Window {
        files: Vec::new(),
        unreadable: Vec::new(),
        headless: Vec::new(),
        silent: None,
        found: Vec::new(),
        durable: base.durable,
        number_next,
    };
    for number in numbers {
        let name = file_name(u64::from(number));
        let failed = |error: io::Error| disk_error(&name, &error);
        if number < base.first_file {
            disk.remove(&name).map_err(failed)?;
            continue;
        }
        let handle = disk.open(&name, false).map_err(failed)?;
        let seq = window.found.last().map_or(base.first_seq - 1, |found| found.seq);
        match read_head(&*handle, number, seq) {
            Ok(Ok(head)) => {
                window.headless.extend(head.is_made.then_some(number));
                window.take(JournalFile::new(number, head.generation, handle), seq).map_err(failed)?;
            }
            Ok(Err(BadHeader::Version(version))) => {
                return Err(StorageError::Unusable(format!(
                    "{name} is of format version {version}; this program knows {}",
                    super::frame::JOURNAL_VERSION
                )));
            }
            Ok(Err(bad)) => {
                let bytes = handle.len().map_err(failed)?;
                window.unreadable.push(Unreadable { number, bytes, damaged: bad == BadHeader::Damaged });
            }
            Err(error) if is_unreadable(&error) => {
                let bytes = handle.len().map_err(failed)?;
                window.unreadable.push(Unreadable { number, bytes, damaged: true });
                window.silent = Some((number, error));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    window.must_go_on_behind_the_silent()?;
    Ok(window)
}

impl Window {
    // Notes the entries of the next file, those with numbers above `seq`.
    fn take(&mut self, file: JournalFile, seq: u64) -> io::Result<()> {
        let (found, durable) = (&mut self.found, &mut self.durable);
        let file_at = self.files.len() as u32;
        Scanner::new(&file)?.headers(seq, |header| {
            *durable = header.synced.max(*durable);
            let (at, end) = (header.at as u32, header.end() as u32); // a file has 1 GiB at most
            found.push(Found { seq: header.seq, at, end, file: file_at });
        })?;
        if gives_too_little(&file) {
            self.silent = Some((file.number, io::Error::other("the disk does not give it")));
        }
        self.files.push(Arc::new(file));
        Ok(())
    }

    // Files whose entries are lost, all of them.
    fn lost(&self) -> Vec<u32> {
        let damaged = self.unreadable.iter().filter(|file| file.damaged).map(|file| file.number);
        let has_entry = |at: usize| self.found.iter().any(|found| found.file() == at);
        let unread = self.files.iter().enumerate().filter(|(at, file)| !file.unread().is_empty() && !has_entry(*at));
        damaged.chain(unread.map(|(_, file)| file.number)).collect()
    }

    // Later entries tell what a file held of which the disk gives too little. At the end nothing does: what was
    // acknowledged there would be gone unnamed, and its offsets and numbers given again. It is for people to say so, by
    // moving the file away.
    fn must_go_on_behind_the_silent(&self) -> Result<(), StorageError> {
        let last = self.found.last().and_then(|found| self.files.get(found.file()));
        match &self.silent {
            Some((number, error)) if last.is_none_or(|last| last.number <= *number) => {
                Err(disk_error(&format!("reading the end of the journal, {}", file_name(u64::from(*number))), error))
            }
            _ => Ok(()),
        }
    }
}

struct Walk<'w> {
    window: &'w Window,
    base: Base,
    damage: Vec<Damage>,
    expected: u64,
    /// Positions of files with entries that were not known to be durable.
    unsynced: Vec<usize>,
}

impl Walk<'_> {
    // Replays entry by entry; answers how many of the found ones stay.
    fn run(&mut self, replay: &mut Replay<'_>) -> io::Result<usize> {
        let window = self.window;
        let mut scanner: Option<(usize, Scanner<'_>)> = None;
        for (at, found) in window.found.iter().enumerate() {
            if found.seq != self.expected {
                let vouched = window.vouched();
                if self.expected > vouched {
                    return Ok(at);
                }
                self.name_gap(at);
                if found.seq > vouched + 1 {
                    return Ok(at); // more is missing than what was durable: nothing after it may stay
                }
            }
            if scanner.as_ref().is_none_or(|(file, _)| *file != found.file()) {
                scanner = Some((found.file(), Scanner::new(&window.files[found.file()])?));
            }
            let Some((_, scanner)) = &mut scanner else { continue };
            let file = &window.files[found.file()];
            let Some(header) = &scanner.header(found.at())? else {
                // The disk has given it a moment ago.
                if found.seq > window.vouched() {
                    return Ok(at);
                }
                self.damage.push(damage(file_name(u64::from(file.number)), found.at(), found.end() - found.at()));
                self.expected = found.seq + 1;
                continue;
            };
            let durable = header.seq <= window.durable;
            // Read once: what is written again below is what is checked here, whatever the disk gives next time.
            let again = if durable { 0 } else { (header.end() - header.at) as usize };
            let bytes = scanner.bytes(header.at, again)?.to_vec();
            let whole = replay.entry(file, header, scanner, durable)?;
            if !whole && header.seq > window.vouched() {
                return Ok(at);
            }
            if !whole {
                let bytes = header.end() - header.at;
                self.damage.push(damage(file_name(u64::from(file.number)), header.at, bytes));
            } else if !durable {
                // A sync that failed before the stop has marked the pages clean though they may not be on disk: what
                // has never been synced is written again before it is.
                file.handle.write_at(header.at, &bytes)?;
                if self.unsynced.last() != Some(&found.file()) {
                    self.unsynced.push(found.file());
                }
            }
            self.expected = header.seq + 1;
        }
        Ok(window.found.len())
    }

    // Entries are missing before the found one at `at`.
    fn name_gap(&mut self, at: usize) {
        let next = &self.window.found[at];
        let before = at.checked_sub(1).and_then(|before| self.window.found.get(before));
        let next_number = self.window.files[next.file()].number;
        match before {
            Some(before) if before.file() == next.file() => {
                let name = file_name(u64::from(next_number));
                self.damage.push(damage(name, before.end(), next.at() - before.end()));
            }
            _ => self.name_between(before.map(|found| found.file()), Some(next_number)),
        }
    }

    // Entries are missing between two files: either whole files, or the end of the first.
    fn name_between(&mut self, before: Option<usize>, next: Option<u32>) {
        let number_before = before.map_or(0, |at| self.window.files[at].number);
        let inside = |number: u32| number > number_before && next.is_none_or(|next| number < next);
        let whole: Vec<_> = self.window.unreadable.iter().filter(|file| inside(file.number)).collect();
        for file in &whole {
            self.damage.push(damage(file_name(u64::from(file.number)), 0, file.bytes));
        }
        if !whole.is_empty() {
            return;
        }
        let last = self.window.found.iter().rev().find(|found| Some(found.file()) == before);
        match last {
            Some(last) => {
                let file = &self.window.files[last.file()];
                let bytes = file.handle.len().unwrap_or(0).saturating_sub(last.end());
                self.damage.push(damage(file_name(u64::from(file.number)), last.end(), bytes));
            }
            None => self.damage.push(damage(file_name(u64::from(self.base.first_file)), 0, 0)),
        }
    }

    // Entries known to be durable are missing at the end.
    fn name_lost_end(&mut self, good: usize) {
        if self.expected <= self.window.durable && good == self.window.found.len() {
            let last = self.window.found.last().map(|found| found.file());
            self.name_between(last, None);
        }
        for file in self.window.unreadable.iter().filter(|file| file.damaged) {
            let name = file_name(u64::from(file.number));
            if !self.damage.iter().any(|damage| damage.file == name) {
                self.damage.push(damage(name, 0, file.bytes));
            }
        }
    }
}

impl Walk<'_> {
    // Headers that are lost, though nothing else is.
    fn name_headless(&mut self) {
        let name = |number: &u32| damage(file_name(u64::from(*number)), 0, ENTRIES_AT);
        self.damage.extend(self.window.headless.iter().map(name));
    }

    // What the disk did not give and is not part of what has been named.
    fn name_unread(&mut self) {
        let of_file = |file: &Arc<JournalFile>| {
            let number = file.number;
            file.unread().into_iter().map(move |unread| (number, unread))
        };
        let all: Vec<_> = self.window.files.iter().flat_map(of_file).collect();
        for (number, unread) in all {
            let name = file_name(u64::from(number));
            let inside = |damage: &Damage| {
                damage.file == name && damage.at <= unread.at && unread.at + unread.bytes <= damage.at + damage.bytes
            };
            if !self.damage.iter().any(inside) {
                self.damage.push(damage(name, unread.at, unread.bytes));
            }
        }
    }
}

pub(crate) fn damage(file: String, at: u64, bytes: u64) -> Damage {
    Damage { file, at, bytes, logs: Vec::new() }
}

/// Where the torn end begins.
struct Cut {
    /// So many of the found entries stay.
    good: usize,
    /// Only what is cut may say how far all before it was durable. So the first entry that is cut becomes an empty one
    /// of this number that says it: else damage before it would be taken for a torn end by the next start.
    mark: u64,
    /// Nothing is damaged. Else no file is removed: it may hold what is missing.
    tidy: bool,
}

// Voids what lies beyond the cut, so that nothing written later can be confused with it, and makes the rest durable. In
// whatever order entries become void, the next start finds the same cut.
fn make_sure(disk: &dyn Disk, window: &Window, cut: &Cut, unsynced: &[usize]) -> io::Result<()> {
    let (kept, mut beyond) = window.found.split_at(cut.good);
    let mut last = kept.last().map(|found| found.file());
    let first_cut = beyond.split_first();
    if let Some((first, rest)) = first_cut {
        // Not whole yet: with the number that is due here, what lies behind and is not void yet would follow on it.
        write_mark(&window.files[first.file()], (first.at(), first.seq), window.durable, false)?;
        (last, beyond) = (Some(first.file()), rest);
    }
    let stays = |file: usize| Some(file) == last || !cut.tidy;
    let mut voided: Vec<usize> = Vec::new();
    for found in beyond.iter().filter(|found| stays(found.file())) {
        window.files[found.file()].handle.write_at(found.at(), &[0; ENTRY_HEADER_BYTES])?;
        if voided.last() != Some(&found.file()) {
            voided.push(found.file());
        }
    }
    for at in unsynced.iter().copied().chain(voided) {
        window.files[at].handle.sync()?;
    }
    for (at, file) in window.files.iter().enumerate() {
        let holds_cut = beyond.iter().any(|found| found.file() == at) && !stays(at);
        let empty = !window.found.iter().any(|found| found.file() == at);
        if holds_cut || (empty && cut.tidy) {
            disk.remove(&file_name(u64::from(file.number)))?;
        }
    }
    for file in window.unreadable.iter().filter(|_| cut.tidy) {
        disk.remove(&file_name(u64::from(file.number)))?;
    }
    if !window.files.is_empty() || !window.unreadable.is_empty() {
        disk.sync_folder("journal")?;
    }
    match first_cut {
        Some((first, _)) => write_mark(&window.files[first.file()], (first.at(), cut.mark), window.durable, true),
        None => Ok(()),
    }
}

// An entry without content, durable before anything else happens. One that is not whole is cut by the next start, too,
// but says how far all before it was durable.
fn write_mark(file: &JournalFile, (at, seq): (u64, u64), synced: u64, whole: bool) -> io::Result<()> {
    let directory_crc = seeded_crc(&file.generation, &[]) ^ u32::from(!whole);
    let header = EntryHeader { seq, synced, at, units_bytes: 0, directory_bytes: 0, directory_crc };
    let mut bytes = [0; ENTRY_HEADER_BYTES];
    header.encode(&file.generation, &mut bytes);
    file.handle.write_at(at, &bytes)?;
    file.handle.sync()
}
