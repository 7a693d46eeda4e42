//! Sequences of ids that are never given twice, also after a crash: a block is reserved durably, then given from.

use bytes::Bytes;
use model::ByteReader;
use storage::{Batch, Lsn, Owner, StateChange, Storage, StorageError, SyncPolicy};

use crate::{BrokerError, state};

/// Ids reserved by one state record.
const BLOCK: u64 = 1000;

/// The owner's id of the sequence of log and queue ids.
pub(crate) const LOGS: u64 = 0;
/// The owner's id of the sequence of producer ids.
pub(crate) const PRODUCERS: u64 = 1;

/// One sequence.
#[derive(Debug)]
pub(crate) struct Ids {
    sequence: u64,
    /// The next id to give. Invariant: next ≤ end.
    next: u64,
    /// The first id not reserved.
    end: u64,
    /// Where the reservation of the running block lies.
    lsn: Lsn,
}

impl Ids {
    /// The sequence after a start: `records` are its owner's. Nothing below `least` is given.
    pub(crate) fn recover(sequence: u64, records: &[Bytes], least: u64) -> Ids {
        let reserved = records.iter().filter_map(|record| ByteReader::new(record).u64().ok()).max().unwrap_or(0);
        let next = reserved.max(least);
        Ids { sequence, next, end: next, lsn: Lsn::default() }
    }

    /// An id never given before. What depends on it must not be answered for before the [`Lsn`] is synced.
    pub(crate) fn give(&mut self, storage: &mut Storage) -> Result<(u64, Lsn), StorageError> {
        if self.next == self.end {
            self.end = self.end.saturating_add(BLOCK);
            let stored = self.store(storage, SyncPolicy::Sync);
            self.lsn = stored.inspect_err(|_| self.end = self.next)?;
        }
        let id = self.next;
        self.next += 1;
        Ok((id, self.lsn))
    }

    /// Stores how far ids are reserved; harmless when it was said before.
    pub(crate) fn store(&self, storage: &mut Storage, policy: SyncPolicy) -> Result<Lsn, StorageError> {
        let owner = Owner { kind: state::IDS, id: self.sequence };
        let record = self.snapshot();
        storage.commit(&Batch { state: &[(owner, StateChange::Snapshot(&record))], ..Batch::default() }, policy)
    }

    /// Whether `id` may have been given.
    pub(crate) fn was_given(&self, id: u64) -> bool {
        id < self.next
    }

    /// The state as one record.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        self.end.to_be_bytes().to_vec()
    }
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], BrokerError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| BrokerError::Invalid(format!("no random numbers: {why}")))?;
    Ok(bytes)
}
