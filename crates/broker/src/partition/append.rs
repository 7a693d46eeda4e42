//! Appending: a producer's sequence is checked, offsets are given, units and the producer's mark go into one batch.

use model::{LogId, Stamp};
use storage::{Append, Batch, StateChange, StorageError, SyncPolicy, Target};

use super::producers::{Producers, Verdict};
use super::watermark::is_safe;
use super::{AppendRequest, Appended, ProducerBatch};
use crate::core::Core;
use crate::{BrokerError, Lsn, state};

impl Core {
    /// See [`crate::Broker::append`].
    pub(crate) fn append(&mut self, request: &AppendRequest<'_>) -> Result<Appended, BrokerError> {
        let partition = self.partitions.get(request.log).ok_or_else(|| unknown(request.log))?;
        let bytes_max = partition.log.settings.batch_bytes_max;
        if request.units.len() > bytes_max {
            return Err(StorageError::TooLarge { bytes: request.units.len(), bytes_max }.into());
        }
        if request.count == 0 || request.units.is_empty() {
            return Err(BrokerError::Invalid("a batch holds at least one message".to_owned()));
        }
        let base = partition.log.next;
        let Some(batch) = request.producer else {
            let lsn = self.store(request, base, &[])?;
            return Ok(Appended { base, log_start: self.log_start(request.log), lsn });
        };
        match partition.producers.as_deref().map_or(Ok(Verdict::New), |producers| producers.check(batch))? {
            Verdict::New => self.store_marked(request, batch),
            Verdict::Duplicate { base, lsn, policy } => {
                let lsn = self.confirm(lsn, policy, request.policy)?;
                Ok(Appended { base, log_start: self.log_start(request.log), lsn })
            }
        }
    }

    /// Stores a batch of an idempotent producer together with the mark by which a retry is known.
    fn store_marked(&mut self, request: &AppendRequest<'_>, batch: ProducerBatch) -> Result<Appended, BrokerError> {
        let base = self.partitions.next_offset(request.log).ok_or_else(|| unknown(request.log))?;
        let mut record = std::mem::take(&mut self.scratch);
        Producers::write_batch(batch, base, self.now.wall, &mut record);
        let stored = self.store(request, base, &[(state::producers_of(request.log), StateChange::Delta(&record))]);
        record.clear();
        self.scratch = record;
        let lsn = stored?;
        if let Some(producers) = self.partitions.producers_for(request.log, batch.id) {
            producers.stored(batch, base, self.now.wall, lsn, request.policy);
        }
        Ok(Appended { base, log_start: self.log_start(request.log), lsn })
    }

    fn store(
        &mut self,
        request: &AppendRequest<'_>,
        base: model::Offset,
        state: &[(storage::Owner, StateChange<'_>)],
    ) -> Result<Lsn, StorageError> {
        let append = Append {
            targets: &[Target { log: request.log, first: base }],
            format: request.format,
            units: request.units,
            last_delta: request.count - 1,
            count: request.count,
            time_max: request.time_max,
            stamp: Stamp { base, epoch: 0, at: self.now.wall },
        };
        self.commit(&Batch { appends: &[append], state, ..Batch::default() }, request.policy)
    }

    /// The turn to wait for before a batch stored before under `had` is answered for under `wanted`.
    fn confirm(&mut self, lsn: Lsn, had: SyncPolicy, wanted: SyncPolicy) -> Result<Lsn, StorageError> {
        if let Some(why) = self.storage.failure() {
            return Err(why.clone());
        }
        if wanted <= had || is_safe(lsn, wanted, self.storage.progress()) {
            return Ok(lsn);
        }
        // Stored without asking for a sync, and now one is wanted: something small that is committed after it asks.
        self.log_ids.store(&mut self.storage, wanted)
    }

    /// See [`crate::Broker::init_producer`].
    pub(crate) fn init_producer(&mut self, current: Option<(i64, i16)>) -> Result<(i64, i16, Lsn), BrokerError> {
        if let Some((id, epoch)) = current {
            let given = u64::try_from(id).is_ok_and(|id| self.producer_ids.was_given(id));
            // The last epoch is kept back: a peer's clients take it for "used up".
            if given && (0..i16::MAX - 1).contains(&epoch) {
                return Ok((id, epoch + 1, Lsn::default()));
            }
        }
        let (id, lsn) = self.producer_ids.give(&mut self.storage)?;
        let id = i64::try_from(id).map_err(|_| BrokerError::Invalid("producer ids are used up".to_owned()))?;
        Ok((id, 0, lsn))
    }

    /// The first offset that `log` holds.
    pub(crate) fn log_start(&self, log: LogId) -> model::Offset {
        self.storage.range(log).map_or(model::Offset::ZERO, |range| range.start)
    }
}

/// There is no such log (any more).
pub(crate) fn unknown(log: LogId) -> BrokerError {
    BrokerError::UnknownPartition { topic: format!("of log {log}"), partition: None }
}
