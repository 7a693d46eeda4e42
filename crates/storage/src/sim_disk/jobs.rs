//! Runs storage's jobs on the spot, for tests that have no driver.

use crate::{Completed, Storage, StorageError};

/// Runs every job there is, and those that follow from them, in the order given, background work too. Answers what the
/// outcomes meant.
///
/// # Errors
/// [`StorageError::Closed`] as [`Storage::complete`].
pub fn run_jobs(storage: &mut Storage) -> Result<Vec<Completed>, StorageError> {
    let mut meanings = Vec::new();
    loop {
        while let Some(job) = storage.next_job() {
            meanings.push(storage.complete(job.run())?);
        }
        // Nothing is written while this goes on: what waits for a calm moment has it.
        if storage.wants_tick() {
            storage.tick()?;
        } else {
            return Ok(meanings);
        }
    }
}

/// Flushes, then runs all jobs: afterwards everything committed with [`crate::SyncPolicy::Sync`] is synced.
///
/// # Errors
/// [`StorageError::Closed`] when a write, sync or settling failed.
pub fn settle_down(storage: &mut Storage) -> Result<(), StorageError> {
    storage.flush()?;
    run_jobs(storage)?;
    // A checkpoint may have sealed an entry that only the next flush writes.
    storage.flush()?;
    run_jobs(storage)?;
    Ok(())
}

/// As [`settle_down`], and answers how far the journal has come.
///
/// # Errors
/// [`StorageError::Closed`] when a write, sync or settling failed.
pub fn complete_all(storage: &mut Storage) -> Result<crate::Progress, StorageError> {
    settle_down(storage)?;
    Ok(storage.progress())
}
