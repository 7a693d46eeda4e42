//! Watches the free space of the volume: below the reserve appends are refused, and taken again as soon as there is
//! space. Asks the volume rarely while there is plenty, more often the nearer the reserve is, and at every append while
//! there is none. What waits for space is tried again by [`Storage::look_for_space`].

use crate::engine::Storage;
use crate::{Disk, StorageError};

/// Bytes written between two looks at the volume, at most and at least.
const LOOK_EVERY_BYTES_MAX: u64 = 1 << 20;
const LOOK_EVERY_BYTES_MIN: u64 = 64 << 10;

pub(crate) struct Space {
    reserve: u64,
    /// What a journal file takes, after one could not be made.
    needed: u64,
    /// What was free when it was found to be less than the reserve.
    full: Option<u64>,
    /// What was free when the volume was last looked at.
    seen: u64,
    /// Not looked at again before so many bytes are written.
    look_at_bytes: u64,
}

impl Space {
    pub(crate) fn new(reserve: u64) -> Space {
        Space { reserve, needed: 0, full: None, seen: 0, look_at_bytes: 0 }
    }

    /// Whether an append may be taken, `written_bytes` being what was written so far.
    ///
    /// # Errors
    /// [`StorageError::Full`].
    pub(crate) fn check(&mut self, disk: &dyn Disk, written_bytes: u64) -> Result<(), StorageError> {
        if self.full.is_none() && written_bytes < self.look_at_bytes {
            return Ok(());
        }
        self.look(disk, written_bytes);
        self.refusal().map_or(Ok(()), Err)
    }

    fn look(&mut self, disk: &dyn Disk, written_bytes: u64) {
        // A volume that cannot say is asked again later; the writes themselves will tell.
        let free = disk.free_bytes().unwrap_or(u64::MAX);
        let is_full = free < self.reserve.max(self.needed);
        match (self.full, is_full) {
            (None, true) => tracing::warn!(free, reserve = self.reserve, "the disk is full: messages are refused"),
            (Some(_), false) => tracing::info!(free, "there is space again: messages are taken"),
            (None, false) | (Some(_), true) => {}
        }
        (self.full, self.seen) = (is_full.then_some(free), free);
        self.needed = if is_full { self.needed } else { 0 };
        // Others write to the volume too, and files are reserved whole: so a part of what is left only.
        let room = free.saturating_sub(self.reserve) / 4;
        self.look_at_bytes = written_bytes + room.clamp(LOOK_EVERY_BYTES_MIN, LOOK_EVERY_BYTES_MAX);
    }

    /// The refusal while the volume is full.
    pub(crate) fn refusal(&self) -> Option<StorageError> {
        self.full.map(|free| StorageError::Full { free, reserve: self.reserve })
    }

    /// The refusal when a file of `bytes` could not be made.
    pub(crate) fn refuse(&mut self, disk: &dyn Disk, bytes: u64, why: &std::io::Error) -> StorageError {
        let free = disk.free_bytes().unwrap_or(0);
        if self.full.is_none() {
            tracing::warn!(%why, free, "no journal file can be made ready: messages are refused");
        }
        (self.full, self.seen) = (Some(free), free);
        self.needed = bytes;
        StorageError::Full { free, reserve: self.reserve }
    }

    /// Look again at the next append.
    pub(crate) fn forget(&mut self) {
        self.look_at_bytes = 0;
    }
}

impl Storage {
    /// Why messages are refused for lack of space, if they are.
    #[must_use]
    pub fn full(&self) -> Option<StorageError> {
        // There may be some, and too little of it to settle: then the journal may not grow either.
        let is_stuck = self.settler.starves && self.lag_permille() >= 1000;
        let stuck = StorageError::Full { free: self.space.seen, reserve: self.space.reserve };
        self.space.refusal().or(is_stuck.then_some(stuck))
    }

    /// Whether something waits for space: then [`Storage::look_for_space`] is to be called about every second.
    #[must_use]
    pub fn waits_for_space(&self) -> bool {
        self.failure().is_none() && (self.space.full.is_some() || self.settling_waits())
    }

    /// Looks whether there is space again, and tries again what has waited for it: nobody may be writing any more, so
    /// only time can bring it back.
    pub fn look_for_space(&mut self) {
        if self.failure().is_none() {
            self.space.look(&*self.disk, self.writer.written_bytes);
            self.settle_again();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    #[test]
    fn the_nearer_the_reserve_the_more_often_the_volume_is_asked() {
        let disk = SimDisk::new();
        disk.set_capacity(10 << 20);
        let mut space = Space::new(9 << 20);
        assert!(space.check(&disk, 0).is_ok());
        disk.set_capacity(8 << 20);
        assert!(space.check(&disk, (256 << 10) - 1).is_ok(), "a quarter of what was left");
        assert!(space.check(&disk, 256 << 10).is_err());
        disk.set_capacity(10 << 20);
        assert!(space.check(&disk, 256 << 10).is_ok(), "asked at every append while it is full");
    }
}
