//! Watches the free space of the volume: below the reserve appends are refused, and taken again as soon as there is
//! space. Asks the volume rarely while there is enough and at every append while there is not.

use crate::{Disk, StorageError};

/// Bytes written between two looks at the volume.
const LOOK_EVERY_BYTES: u64 = 1 << 20;

pub(crate) struct Space {
    reserve: u64,
    full: bool,
    looked_at_bytes: Option<u64>,
}

impl Space {
    pub(crate) fn new(reserve: u64) -> Space {
        Space { reserve, full: false, looked_at_bytes: None }
    }

    /// Whether an append may be taken, `written_bytes` being what was written so far.
    ///
    /// # Errors
    /// [`StorageError::Full`].
    pub(crate) fn check(&mut self, disk: &dyn Disk, written_bytes: u64) -> Result<(), StorageError> {
        let fresh = self.looked_at_bytes.is_some_and(|then| written_bytes.saturating_sub(then) < LOOK_EVERY_BYTES);
        if fresh && !self.full {
            return Ok(());
        }
        self.looked_at_bytes = Some(written_bytes);
        // A volume that cannot say is asked again later; the writes themselves will tell.
        let free = disk.free_bytes().unwrap_or(u64::MAX);
        self.full = free < self.reserve;
        if self.full { Err(StorageError::Full { free, reserve: self.reserve }) } else { Ok(()) }
    }

    /// The refusal when a file could not be made, whatever the volume says.
    pub(crate) fn refuse(&mut self, disk: &dyn Disk) -> StorageError {
        self.looked_at_bytes = None;
        StorageError::Full { free: disk.free_bytes().unwrap_or(0), reserve: self.reserve }
    }

    /// Look again at the next append.
    pub(crate) fn forget(&mut self) {
        self.looked_at_bytes = None;
    }
}
