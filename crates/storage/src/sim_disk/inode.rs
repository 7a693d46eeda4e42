//! One file of the simulated disk: what the process sees, what is durable, and the changes between.

use std::ops::Range;

use super::Random;

const SECTOR_BYTES: usize = 512;

/// A change that is not synced yet.
#[derive(Clone)]
pub(super) enum Pending {
    /// Bytes at a place.
    Write(u64, Vec<u8>),
    /// The length.
    Length(u64),
}

#[derive(Clone, Default)]
pub(super) struct Inode {
    /// What the process sees.
    pub(super) now: Vec<u8>,
    /// What a power cut leaves for certain.
    pub(super) durable: Vec<u8>,
    /// Changes since, in order. Invariant: `durable` with all of them applied is `now`, unless a sync has failed.
    pub(super) pending: Vec<Pending>,
    /// Bytes reserved.
    pub(super) allocated: u64,
    /// Bytes that cannot be read.
    pub(super) unreadable: Option<Range<u64>>,
    /// So many reads of them succeed still.
    pub(super) spared: u64,
}

fn write(bytes: &mut Vec<u8>, at: u64, new: &[u8]) {
    let at = at as usize;
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

impl Inode {
    pub(super) fn change(&mut self, change: Pending) {
        match &change {
            Pending::Write(at, new) => write(&mut self.now, *at, new),
            Pending::Length(bytes) => self.now.resize(*bytes as usize, 0),
        }
        self.pending.push(change);
    }

    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let rest = self.now.get(at as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }

    pub(super) fn cannot_read(&mut self, at: u64, count: usize) -> bool {
        let hits = self.unreadable.as_ref().is_some_and(|bad| at < bad.end && bad.start < at + count as u64);
        let is_spared = hits && self.spared > 0;
        self.spared -= u64::from(is_spared);
        hits && !is_spared
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            match change {
                Pending::Write(at, new) => write(&mut self.durable, at, &new),
                Pending::Length(bytes) => self.durable.resize(bytes as usize, 0),
            }
        }
    }

    /// Bytes the volume counts for it.
    pub(super) fn space(&self) -> u64 {
        self.allocated.max(self.now.len() as u64)
    }

    /// Bytes more the volume would count if it reached to `end`.
    pub(super) fn growth(&self, end: u64) -> u64 {
        end.saturating_sub(self.space())
    }

    pub(super) fn after_crash(&self, random: &mut Random) -> Inode {
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            let fate = random.below(3);
            match change {
                _ if fate == 0 => {}
                Pending::Length(length) => bytes.resize(*length as usize, 0),
                Pending::Write(at, new) if fate == 1 => write(&mut bytes, *at, new),
                Pending::Write(at, new) => write_torn(&mut bytes, *at, new, random),
            }
        }
        let (unreadable, spared) = (self.unreadable.clone(), self.spared);
        Inode { now: bytes.clone(), durable: bytes, pending: Vec::new(), allocated: 0, unreadable, spared }
    }
}

// Sectors are whole or not at all; they lie at multiples of 512 of the file, not of the write.
fn write_torn(bytes: &mut Vec<u8>, at: u64, new: &[u8], random: &mut Random) {
    let mut done = 0;
    while done < new.len() {
        let place = at as usize + done;
        let count = (SECTOR_BYTES - place % SECTOR_BYTES).min(new.len() - done);
        if random.below(2) == 0 {
            write(bytes, place as u64, &new[done..done + count]);
        }
        done += count;
    }
}
