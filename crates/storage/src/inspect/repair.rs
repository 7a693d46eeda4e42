//! Repair of a data folder whose server is stopped. What is *proved* torn goes (the end that nothing vouches for, cut
//! by the same code that cuts it at a start); what is there twice or can be made from the data is made whole (headers,
//! indexes, a copy of the checkpoint). Nothing else is touched: damaged bytes that were acknowledged stay as they are,
//! off line and named, for they may still be read by somebody or something better. Each step may be killed at any call
//! and be done again.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use model::{LogId, Offset};

use super::files::{Item, items, window};
use super::{Inspection, Overlay};
use crate::engine::recover_all;
use crate::index::Index;
use crate::journal::files::{JournalFile, is_unreadable};
use crate::journal::frame::{
    ENTRIES_AT, EntryHeader, FILE_HEADER_BYTES, FileHeader, HEADER_COPY_AT, JOURNAL, Magic, SEGMENT, pick_header,
};
use crate::journal::heads::{read_copies, read_head};
use crate::journal::recover::disk_error;
use crate::journal::scan::Scanner;
use crate::segment::FileId;
use crate::segment::footer::Footer;
use crate::segment::open::{read_heads, rebuild, whole_index};
use crate::segment::pages::encode;
use crate::{Damage, Disk, StorageError, checkpoint};

/// An entry of the journal's end that goes: nothing says that it was ever durable, and it is not whole or stands behind
/// one that is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Torn {
    /// The file's name within the data folder.
    pub file: String,
    /// Where it begins in the file.
    pub at: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Its number.
    pub number: u64,
    /// It is whole itself, but an entry before it is not.
    pub whole: bool,
    /// What is lost with it, as far as it says: log, first and last offset.
    pub lost: Vec<(LogId, Offset, Offset)>,
}

/// Something damaged that can be made again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebuild {
    /// The file's name within the data folder.
    pub file: String,
    /// Where the damage is.
    pub at: u64,
    /// What it is and from what it is made, for people.
    pub what: &'static str,
    part: Part,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// These bytes, at this place.
    Bytes(u64, Vec<u8>),
    /// The end of a file of the store: index, trailer, header.
    End(u64, Vec<u8>),
    /// The checkpoint of this name is written anew, with these bytes.
    Checkpoint(Vec<u8>),
}

/// What a repair will do.
pub struct Repair {
    disk: Arc<dyn Disk>,
    /// Entries that go.
    pub torn: Vec<Torn>,
    /// What is made whole.
    pub rebuilds: Vec<Rebuild>,
    /// What stays damaged: acknowledged, off line, not touched.
    pub damage: Vec<Damage>,
    inspection: Inspection,
}

impl Repair {
    /// Looks what a repair of the folder of `disk` would do, and does nothing; `progress` is told of bytes read and of
    /// all. Holds the folder until it is dropped.
    ///
    /// # Errors
    /// As [`Inspection::open`] and [`Inspection::verify`].
    pub fn plan(disk: Arc<dyn Disk>, progress: &mut dyn FnMut(u64, u64)) -> Result<Repair, StorageError> {
        let mut inspection = Inspection::open(Arc::clone(&disk))?;
        let mut damage = inspection.verify(progress)?;
        let torn = torn(&*disk, &inspection.overlay)?;
        let mut rebuilds = checkpoints(&*disk)?;
        rebuilds.extend(journal_headers(&*disk, &inspection.overlay, &damage)?);
        for (file, _) in inspection.storage.index.store.iter() {
            let told = |error: io::Error| disk_error(&file.name(), &error);
            rebuilds.extend(store_file(&*disk, file, &inspection.storage.index).map_err(told)?);
        }
        damage.retain(|found| !rebuilds.iter().any(|made| (&made.file, made.at) == (&found.file, found.at)));
        Ok(Repair { disk, torn, rebuilds, damage, inspection })
    }

    /// The folder as a start would find it.
    #[must_use]
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// Whether there is anything to do.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        !self.torn.is_empty() || !self.rebuilds.is_empty()
    }

    /// Does it. Killed at any call, it can be planned and done again.
    ///
    /// # Errors
    /// [`StorageError::Disk`] when the disk fails.
    pub fn apply(&self) -> Result<(), StorageError> {
        if !self.torn.is_empty() {
            recover_all(&*self.disk)?;
        }
        for made in &self.rebuilds {
            self.make(made).map_err(|error| disk_error(&made.file, &error))?;
        }
        Ok(())
    }

    fn make(&self, made: &Rebuild) -> io::Result<()> {
        match &made.part {
            Part::Bytes(at, bytes) => {
                let file = self.disk.open(&made.file, false)?;
                file.write_at(*at, bytes)?;
                file.sync()
            }
            // Until the new end is whole the file has a damaged one still, made again from the data.
            // The header in front is whole by now.
            Part::End(at, bytes) => {
                let file = self.disk.open(&made.file, false)?;
                file.write_at(*at, bytes)?;
                file.sync()?;
                file.set_len(at + bytes.len() as u64)?;
                file.sync()
            }
            Part::Checkpoint(bytes) => checkpoint::put_copy(&*self.disk, &made.file, bytes),
        }
    }
}

fn headers(file: &JournalFile) -> io::Result<Vec<EntryHeader>> {
    let mut found = Vec::new();
    Scanner::new(file)?.headers(0, |header| found.push(*header))?;
    Ok(found)
}

// Entries that are in the folder and not in what a start makes of it.
fn torn(disk: &dyn Disk, after: &Overlay) -> Result<Vec<Torn>, StorageError> {
    let mut torn = Vec::new();
    let known = checkpoint::load(disk)?.checkpoint;
    let mut durable = known.as_ref().map_or(0, |known| known.last_seq);
    let mut last = known.map_or(0, |known| known.first_seq - 1);
    for (number, name) in window(disk)? {
        let told = |error: io::Error| disk_error(&name, &error);
        let handle = disk.open(&name, false).map_err(told)?;
        let head = match read_head(&*handle, number, last) {
            Ok(head) => head,
            Err(error) if is_unreadable(&error) => continue, // of what it held nothing is known
            Err(error) => return Err(told(error)),
        };
        let Ok(head) = head else { continue };
        let of = |handle| JournalFile::new(number, head.generation, handle);
        let there = headers(&of(handle)).map_err(told)?;
        durable = there.iter().fold(durable, |durable, header| durable.max(header.synced));
        last = there.last().map_or(last, |header| header.seq);
        let kept = match after.open(&name, false) {
            Ok(handle) => headers(&of(handle)).map_err(told)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(told(error)),
        };
        // Another one may stand in the place of the first that goes: see recovery.
        let stays = there.iter().filter(|header| kept.contains(header)).map(|header| header.at);
        let stays: BTreeSet<u64> = stays.collect();
        if there.iter().any(|header| !stays.contains(&header.at)) {
            describe(disk, &name, &stays, &mut torn)?;
        }
    }
    // No cut reaches so far; should one ever, nothing is done.
    match torn.iter().find(|entry| entry.number <= durable) {
        None => Ok(torn),
        Some(entry) => {
            let Torn { number, file, at, .. } = entry;
            Err(StorageError::Unusable(format!(
                "entry {number} in {file} at {at} is known to be durable: not repaired"
            )))
        }
    }
}

fn describe(disk: &dyn Disk, name: &str, stays: &BTreeSet<u64>, torn: &mut Vec<Torn>) -> Result<(), StorageError> {
    let mut goes = false;
    items(disk, name, &mut |item| {
        match item {
            Item::Entry { at, number, bytes, whole, .. } => {
                goes = !stays.contains(&at);
                if goes {
                    torn.push(Torn { file: name.to_owned(), at, bytes, number, whole, lost: Vec::new() });
                }
            }
            Item::Extent { targets, last_delta, units, .. } if goes => {
                if let Some(entry) = torn.last_mut() {
                    entry.whole &= units.is_some();
                    let last = u64::from(last_delta);
                    entry.lost.extend(targets.iter().map(|(log, first)| (*log, *first, first.plus(last))));
                }
            }
            _ => {}
        }
        true
    })
}

fn checkpoints(disk: &dyn Disk) -> Result<Vec<Rebuild>, StorageError> {
    let damaged = checkpoint::load(disk)?.damaged;
    let mut made = Vec::new();
    for (file, _) in damaged {
        let whole = checkpoint::whole_copy(disk)?;
        let what = "a copy of the checkpoint, from the other";
        made.push(Rebuild { file, at: 0, what, part: Part::Checkpoint(whole) });
    }
    Ok(made)
}

// One of two headers is damaged: it is written again from the other.
fn header(
    name: &str,
    number: u64,
    magic: &Magic,
    copies: &[[u8; FILE_HEADER_BYTES]; 2],
    at: [u64; 2],
) -> Option<Rebuild> {
    let good = |copy: &[u8]| FileHeader::decode(magic, copy).is_ok_and(|header| header.number == number);
    let [first, copy] = copies;
    let (at, bytes) = match (good(first), good(copy)) {
        (true, false) => (at[1], first),
        (false, true) => (at[0], copy),
        _ => return None,
    };
    let what = "one of the file's two headers, from the other";
    Some(Rebuild { file: name.to_owned(), at, what, part: Part::Bytes(at, bytes.to_vec()) })
}

fn journal_headers(disk: &dyn Disk, after: &Overlay, damage: &[Damage]) -> Result<Vec<Rebuild>, StorageError> {
    let mut made = Vec::new();
    for (number, name) in window(disk)? {
        let told = |error: io::Error| disk_error(&name, &error);
        match after.open(&name, false) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // it goes
            Err(error) => return Err(told(error)),
        }
        let handle = disk.open(&name, false).map_err(told)?;
        let copies = read_copies(&*handle).map_err(told)?.bytes;
        made.extend(header(&name, u64::from(number), &JOURNAL, &copies, [0, HEADER_COPY_AT as u64]));
        // Recovery has found neither copy, but the entries.
        if damage.iter().any(|damage| damage.file == name && (damage.at, damage.bytes) == (0, ENTRIES_AT))
            && let Ok(head) = read_head(&*handle, number, 0).map_err(told)?
        {
            let mut bytes = FileHeader { number: u64::from(number), generation: head.generation }.encode(&JOURNAL);
            bytes.resize(HEADER_COPY_AT, 0);
            bytes.extend_from_within(..FILE_HEADER_BYTES);
            let what = "the file's header, from its first entry";
            made.push(Rebuild { file: name, at: 0, what, part: Part::Bytes(0, bytes) });
        }
    }
    Ok(made)
}

// What can be made whole of a file of the store.
fn store_file(disk: &dyn Disk, file: FileId, index: &Index) -> io::Result<Vec<Rebuild>> {
    let name = file.name();
    let handle = match disk.open(&name, false) {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let copy_at = handle.len()?.saturating_sub(FILE_HEADER_BYTES as u64);
    let copies = read_heads(&*handle)?;
    let [first, copy] = &copies;
    let Ok(head) = pick_header(&SEGMENT, file.number, [first, copy]) else { return Ok(Vec::new()) };
    let header = header(&name, file.number, &SEGMENT, &copies, [0, copy_at]);
    if whole_index(&*handle, &head.generation)?.is_some() {
        return Ok(header.into_iter().collect());
    }
    // The header in front comes first: the other one is written over with the new end.
    let mut made: Vec<Rebuild> = header.into_iter().filter(|made| made.at == 0).collect();
    let footer = rebuild(&*handle, &head.generation)?;
    if reaches_all(&footer, file, index) {
        let at = footer.end();
        let mut bytes = encode(footer.entries(), &head.generation, at);
        bytes.extend_from_slice(&head.encode(&SEGMENT));
        let what = "the file's index, from its data";
        made.push(Rebuild { file: name, at: copy_at, what, part: Part::End(at, bytes) });
    } // else an extent's header is damaged: what lies behind it was found by the old index only
    Ok(made)
}

fn reaches_all(footer: &Footer, file: FileId, index: &Index) -> bool {
    let mut runs = index.iter().flat_map(|(id, log)| log.runs.iter().map(move |run| (id, run)));
    runs.all(|(id, run)| {
        let found = || footer.run(id, run.first).is_some_and(|found| found.last >= run.last);
        run.segment != file.number || found()
    })
}
