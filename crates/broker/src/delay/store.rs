//! Taking delayed messages in, taking them back, finding them again after a start.

use bytes::Bytes;
use model::{LogId, Offset, Stamp, Wall};
use storage::{Append, Batch, Lsn, Owner, StateChange, SyncPolicy, Target};

use super::bucket::Bucket;
use super::envelope::{self, Envelopes};
use super::{DelayId, Delayed};
use crate::core::Core;
use crate::queue::Queues;
use crate::queue::ranges::RangeSet;
use crate::routing::PublishRequest;
use crate::topic::LogSettings;
use crate::{BrokerError, state};

impl Queues {
    /// See [`crate::Broker::delay`].
    pub(crate) fn delay(
        &mut self,
        core: &mut Core,
        request: &PublishRequest<'_>,
        due: Wall,
    ) -> Result<Delayed, BrokerError> {
        let log = self.bucket_for(core, due, core.now.wall)?;
        let first = core.partitions.next_offset(log).unwrap_or_default();
        let id = DelayId { due, log, offset: first.0 };
        // Who delays it here does it once, whatever it asks for.
        let mut after = Vec::new();
        let asks = request.format.delay(request.unit, &mut after).is_some();
        let request = &PublishRequest { unit: if asks { &after } else { request.unit }, ..*request };
        let mut unit = std::mem::take(&mut core.scratch);
        let number = self.exchanges.number(request.tenant, request.exchange);
        envelope::put(request, (id, number), &mut unit);
        let target = [Target { log, first }];
        let append = Append {
            targets: &target,
            format: &Envelopes,
            units: &unit,
            last_delta: 0,
            count: 1,
            time_max: due,
            stamp: Stamp { base: first, epoch: 0, at: core.now.wall },
        };
        let policy = if request.persistent { request.policy } else { SyncPolicy::None };
        let stored = core.commit(&Batch { appends: &[append], ..Batch::default() }, policy);
        unit.clear();
        core.scratch = unit;
        let lsn = stored?;
        self.delays.added(id, (log, first.0), core.now.wall);
        Ok(Delayed { id, lsn: if policy == request.policy { lsn } else { Lsn::default() } })
    }

    /// The bucket for messages due at `due`, seen from `now`; made if it is not there.
    pub(super) fn bucket_for(&mut self, core: &mut Core, due: Wall, now: Wall) -> Result<LogId, BrokerError> {
        let span = Bucket::span(due, now);
        let known = self.delays.buckets.values().find(|bucket| (bucket.start, bucket.level) == span);
        if let Some(bucket) = known {
            return Ok(bucket.cursor.log);
        }
        let log = core.new_log_id()?;
        let bucket = Bucket::new(log, span);
        let change = [(state::delays_of(log), StateChange::Snapshot(&bucket.snapshot()))];
        core.commit(&Batch { state: &change, ..Batch::default() }, SyncPolicy::None)?;
        core.partitions.add(log, Offset::ZERO, LogSettings::of_broker());
        self.delays.buckets.insert(log, bucket);
        Ok(log)
    }

    /// See [`crate::Broker::cancel_delayed`].
    pub(crate) fn cancel_delayed(&mut self, core: &mut Core, id: DelayId) -> Result<Option<Lsn>, BrokerError> {
        let near = self.delays.near.range((id.due, LogId(0), 0)..=(id.due, LogId(u64::MAX), u64::MAX));
        let place = near.into_iter().find(|(_, known)| **known == id).map(|(place, _)| *place);
        let mut record = Vec::new();
        if let Some((due, log, offset)) = place {
            let Some(bucket) = self.delays.buckets.get_mut(&log) else { return Ok(None) };
            let mut done = RangeSet::default();
            done.insert(offset, offset + 1);
            bucket.put_done(&done, &mut record);
            let change = [(state::delays_of(log), StateChange::Delta(&record))];
            let lsn = core.commit(&Batch { state: &change, ..Batch::default() }, SyncPolicy::None)?;
            bucket.cursor.skip(offset, offset + 1);
            bucket.cursor.recorded();
            self.delays.near.remove(&(due, log, offset));
            return Ok(Some(lsn));
        }
        // Not read yet: every bucket that may hold it is told; one does.
        let holds = |bucket: &&mut Bucket| bucket.start <= id.due.0 && id.due.0 < bucket.end();
        let mut lsn = None;
        for bucket in self.delays.buckets.values_mut().filter(holds) {
            if bucket.read >= bucket.cursor.end() || !bucket.taken.insert((id.log, id.offset)) {
                continue;
            }
            record.clear();
            bucket.put_head(&[(id.log, id.offset)], &mut record);
            let change = [(state::delays_of(bucket.cursor.log), StateChange::Delta(&record))];
            lsn = Some(core.commit(&Batch { state: &change, ..Batch::default() }, SyncPolicy::None)?);
        }
        Ok(lsn)
    }
}

impl super::Delays {
    /// A message was put into a bucket.
    pub(super) fn added(&mut self, id: DelayId, (log, offset): (LogId, u64), now: Wall) {
        let Some(bucket) = self.buckets.get_mut(&log) else { return };
        bucket.cursor.visible(offset + 1);
        // Of a narrow bucket that is open and of which all is read this is read, too.
        if bucket.level == 0 && bucket.read == offset && bucket.opens() <= now.0 {
            bucket.read = offset + 1;
            self.near.insert((id.due, log, offset), id);
        }
    }

    /// At the start: the buckets that were there, from the records of owners of kind [`state::DELAYS`].
    pub(crate) fn recover(&mut self, core: &mut Core, records: Vec<(Owner, Vec<Bytes>)>) {
        for (owner, records) in records {
            let log = LogId(owner.id);
            match Bucket::recover(log, &records) {
                Ok(mut bucket) => {
                    let range = core.storage.range(log);
                    let (start, end) = range.map_or((0, 0), |range| (range.start.0, range.end.0));
                    bucket.cursor.reopen(start, end);
                    bucket.read = bucket.cursor.head();
                    core.partitions.add(log, Offset(end), LogSettings::of_broker());
                    self.buckets.insert(log, bucket);
                }
                Err(why) => tracing::error!(%why, %log, "a bucket of delayed messages cannot be opened"),
            }
        }
    }

    /// The whole state of a bucket; `None` when it is gone.
    pub(crate) fn snapshot(&self, owner: Owner) -> Option<Vec<u8>> {
        self.buckets.get(&LogId(owner.id)).map(Bucket::snapshot)
    }
}
