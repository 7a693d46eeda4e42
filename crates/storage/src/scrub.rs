//! Scrubbing: packs and segments are read through, slowly, and every extent is checked, so that damage is known before
//! anybody asks for what it hit. The caller sets the pace: one step at a time, in a job of the work pool. What is found
//! is noted and said in the log; no read serves it. Where it stands is written to a file of its own after each step, so
//! a restart goes on there; should that be lost, it begins anew.

use std::io;
use std::sync::Arc;

use model::checksum::crc32c;
use model::{ByteReader, ByteWriter, LogId, ReadError};

use crate::engine::Storage;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::journal::files::read_around;
use crate::segment::open::{BlockIndex, open_segment, whole_index};
use crate::segment::{EXTENT_HEADER_BYTES, EXTENTS_AT, ExtentHeader, FileId};
use crate::{Damage, Disk};

/// The file that says where it stands.
const NAME: &str = "scrub";
const MAGIC: [u8; 8] = *b"4FSCRUB1";
const PLACE_BYTES: usize = 28;

/// Where it stands.
#[derive(Default)]
pub(crate) struct Scrub {
    /// The last file that was gone through, and how far in the next.
    done: u64,
    at: u64,
    /// A step is under way.
    busy: bool,
    /// Bytes read, and whole passes, since opening.
    pub(crate) bytes: u64,
    pub(crate) passes: u64,
}

impl Scrub {
    /// Goes on where the file says; at the beginning if there is none, or it cannot be read.
    pub(crate) fn load(disk: &dyn Disk) -> Scrub {
        let mut bytes = [0; PLACE_BYTES];
        let read = disk.open(NAME, false).and_then(|file| file.read_at(0, &mut bytes));
        let place = read.ok().and_then(|_| decode(&bytes).ok().flatten());
        let (done, at) = place.unwrap_or_default();
        Scrub { done, at, ..Scrub::default() }
    }
}

fn encode(done: u64, at: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(PLACE_BYTES);
    let mut writer = ByteWriter::new(&mut out);
    writer.bytes(&MAGIC);
    writer.u64(done);
    writer.u64(at);
    let crc = crc32c(&out);
    ByteWriter::new(&mut out).u32(crc);
    out
}

fn decode(bytes: &[u8]) -> Result<Option<(u64, u64)>, ReadError> {
    let mut reader = ByteReader::new(bytes);
    let body = reader.take(PLACE_BYTES - 4)?;
    let crc = reader.u32()?;
    let mut reader = ByteReader::new(body);
    let is_ours = reader.take(MAGIC.len())? == MAGIC && crc == crc32c(body);
    let place = (reader.u64()?, reader.u64()?);
    Ok(is_ours.then_some(place))
}

/// What a step came to.
#[derive(Default)]
pub(crate) struct Scrubbed {
    file: u64,
    /// Where the next step begins; `None`: the file is done.
    next: Option<u64>,
    bytes: u64,
    damaged: Vec<(u64, LogId)>,
}

impl Storage {
    /// Hands out a job that checks about `bytes` more. Answers false when a pass has just ended (the next step begins
    /// another) or there is nothing to check.
    pub fn scrub(&mut self, bytes: u64) -> bool {
        let scrub = &mut self.scrub;
        if scrub.busy {
            return true;
        }
        let next = self.index.store.iter().map(|(file, _)| file).filter(|file| file.number > scrub.done);
        let Some(file) = next.min_by_key(|file| file.number) else {
            scrub.passes += u64::from(scrub.done > 0);
            (scrub.done, scrub.at) = (0, 0);
            return false;
        };
        scrub.busy = true;
        let (disk, done, at) = (Arc::clone(&self.disk), scrub.done, scrub.at.max(EXTENTS_AT));
        self.jobs.push_back(Job::new(Lane::Idle, move || {
            let result = step(&*disk, file, at, bytes);
            if let Ok(found) = &result {
                let place = found.next.map_or((file.number, 0), |next| (done, next));
                // Never synced, and no harm if it fails: at worst some is read twice.
                let _ = disk.open(NAME, true).and_then(|to| to.write_at(0, &encode(place.0, place.1)));
            }
            JobDone { what: Outcome::Scrubbed { file, result } }
        }));
        true
    }

    /// Takes a step back.
    pub(crate) fn scrubbed(&mut self, file: FileId, result: io::Result<Scrubbed>) {
        self.scrub.busy = false;
        let name = file.name();
        let found = match result {
            Ok(found) => found,
            // Removed meanwhile, or the disk fails: reads will say so.
            Err(error) => {
                if self.index.store.holds(file.number) {
                    tracing::error!(%error, file = %name, "scrubbing cannot read a file");
                    self.note_damage(Damage { file: name, at: 0, bytes: 0, logs: Vec::new() });
                }
                Scrubbed { file: file.number, ..Scrubbed::default() }
            }
        };
        self.scrub.bytes += found.bytes;
        for (at, log) in found.damaged {
            if self.index.store.holds(file.number) {
                tracing::error!(file = %file.name(), at, %log, "scrubbing has found damaged bytes");
                self.note_damage(Damage { file: file.name(), at, bytes: 0, logs: vec![log] });
            }
        }
        match found.next {
            Some(next) => self.scrub.at = next,
            None => (self.scrub.done, self.scrub.at) = (found.file, 0),
        }
    }
}

// Walks the extents from `at` on. Behind a damaged header it goes on with the next block, by the index.
fn step(disk: &dyn Disk, file: FileId, from: u64, bytes: u64) -> io::Result<Scrubbed> {
    let mut found = Scrubbed { file: file.number, ..Scrubbed::default() };
    let Some(open) = open_segment(disk, file, false)? else {
        found.damaged.push((0, file.own.map_or(LogId(0), |(log, _)| log)));
        return Ok(found);
    };
    let (mut at, end) = (from.max(EXTENTS_AT), open.end());
    while at < end {
        if found.bytes >= bytes {
            found.next = Some(at);
            return Ok(found);
        }
        let mut head = [0; EXTENT_HEADER_BYTES];
        read_around(&*open.handle, at, &mut head)?;
        let Some(header) = ExtentHeader::decode(&open.generation, &head) else {
            let (log, next) = open.around(at);
            found.damaged.push((at, log.or(file.own.map(|(log, _)| log)).unwrap_or(LogId(0))));
            at = next.unwrap_or(end);
            continue;
        };
        let mut units = vec![0; header.bytes as usize];
        let got = read_around(&*open.handle, at + EXTENT_HEADER_BYTES as u64, &mut units)?;
        if !header.lost && (got < units.len() || crc32c(&units) != header.crc) {
            found.damaged.push((at, header.log));
        }
        found.bytes += header.whole_bytes();
        at += header.whole_bytes();
    }
    let indexed = matches!(open.index, BlockIndex::Pages(..));
    if indexed && whole_index(&*open.handle, &open.generation)?.is_none() {
        tracing::warn!(file = %file.name(), "scrubbing has found its index damaged; reads build it from the data");
    }
    Ok(found)
}
