//! Reading buckets whose time comes near: the places of a narrow one go into memory, a wide one is spread over
//! narrower ones. One step a turn.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use model::{Format, LogId, Offset, Stamp, UnitAt, Wall};
use storage::{Append, Batch, Chunk, Read, ReadRequest, StateChange, StorageError, SyncPolicy, Target};

use super::bucket::Bucket;
use super::envelope::{Envelope, Envelopes};
use super::{DelayId, Delays};
use crate::core::Core;
use crate::queue::Queues;
use crate::queue::ranges::RangeSet;
use crate::{BrokerError, state};

/// Bytes read in one step.
const READ_BYTES: usize = 256 << 10;

impl Queues {
    /// Reads the next of what comes near; true when there may be more to do at once.
    pub(super) fn come_near(&mut self, core: &mut Core) -> Result<bool, BrokerError> {
        let now = core.now.wall;
        self.drop_done(core);
        let due = |bucket: &&Bucket| bucket.read < bucket.cursor.end() && bucket.opens() <= now.0;
        let next = self.delays.buckets.values().filter(due).min_by_key(|bucket| bucket.start);
        let Some((log, from, end)) = next.map(|bucket| (bucket.cursor.log, bucket.read, bucket.cursor.end())) else {
            return Ok(false);
        };
        let request = ReadRequest { log, from: Offset(from), until: Offset(end), bytes_max: READ_BYTES };
        let chunks = match core.storage.read(&request) {
            Ok(Read::Ready(chunks)) => chunks,
            Ok(Read::Pending(read)) => {
                self.delays.waits = Some(read);
                return Ok(false);
            }
            Err(StorageError::Damaged { file, at }) => {
                tracing::error!(%log, from, file, at, "a damaged delayed message is passed over");
                self.delays.pass(log, from, from + 1);
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        let Some(last) = chunks.last().map(|chunk| chunk.last.0 + 1) else {
            self.delays.pass(log, from, end);
            return Ok(true);
        };
        let found = self.delays.found(log, from, &chunks);
        let level = self.delays.buckets.get(&log).map_or(0, |bucket| bucket.level);
        if level == 0 {
            self.delays.near.extend(found.iter().map(|found| ((found.id.due, log, found.offset), found.id)));
        } else {
            self.spread(core, log, &found)?;
        }
        if let Some(bucket) = self.delays.buckets.get_mut(&log) {
            bucket.read = last.max(from + 1);
        }
        Ok(true)
    }

    /// Moves messages of a wide bucket to narrower ones: one batch of the copies and the end of the originals.
    fn spread(&mut self, core: &mut Core, log: LogId, found: &[Found<'_>]) -> Result<(), BrokerError> {
        let start = self.delays.buckets.get(&log).map_or(0, |bucket| bucket.start);
        // As seen from its start, whatever is in it belongs to a narrower one.
        let seen_from = core.now.wall.max(Wall(start));
        let mut parts: BTreeMap<LogId, Part> = BTreeMap::new();
        let (mut done, mut placed) = (RangeSet::default(), Vec::with_capacity(found.len()));
        for one in found {
            let to = self.bucket_for(core, one.id.due, seen_from)?;
            let first = core.partitions.next_offset(to).unwrap_or_default();
            let part =
                parts.entry(to).or_insert_with(|| Part { target: [Target { log: to, first }], ..Part::default() });
            placed.push((one.id, (to, first.0 + u64::from(part.count))));
            part.units.extend_from_slice(one.unit);
            part.count += 1;
            part.time_max = part.time_max.max(one.id.due);
            done.insert(one.offset, one.offset + 1);
        }
        let appends = parts.values().map(|part| Append {
            targets: &part.target,
            format: &Envelopes,
            units: &part.units,
            last_delta: part.count - 1,
            count: part.count,
            time_max: part.time_max,
            stamp: Stamp { base: part.target[0].first, epoch: 0, at: core.now.wall },
        });
        let appends = appends.collect::<Vec<_>>();
        if appends.is_empty() {
            return Ok(());
        }
        let mut record = Vec::new();
        if let Some(bucket) = self.delays.buckets.get(&log) {
            bucket.put_done(&done, &mut record);
        }
        let change = [(state::delays_of(log), StateChange::Delta(&record))];
        core.commit(&Batch { appends: &appends, state: &change, ..Batch::default() }, SyncPolicy::None)?;
        if let Some(bucket) = self.delays.buckets.get_mut(&log) {
            done.iter().for_each(|(from, to)| bucket.cursor.skip(from, to));
            bucket.cursor.recorded();
        }
        for (id, place) in placed {
            self.delays.added(id, place, core.now.wall);
        }
        Ok(())
    }

    /// Drops buckets that are done with and whose time is over.
    fn drop_done(&mut self, core: &mut Core) {
        let now = core.now.wall.0;
        let is_done = |bucket: &&Bucket| bucket.cursor.ready() == 0 && bucket.end() <= now;
        let done = self.delays.buckets.values().filter(is_done).map(|bucket| bucket.cursor.log).collect::<Vec<_>>();
        for log in done {
            let change = [(state::delays_of(log), StateChange::Drop)];
            if let Err(error) = core.commit(&Batch { state: &change, ..Batch::default() }, SyncPolicy::None) {
                tracing::warn!(%error, %log, "a bucket of delayed messages could not be dropped now");
                return;
            }
            core.drop_logs(&[log]);
            self.delays.buckets.remove(&log);
        }
    }
}

/// What goes to one narrower bucket.
struct Part {
    target: [Target; 1],
    /// Envelopes, back to back.
    units: Vec<u8>,
    count: u32,
    time_max: Wall,
}

impl Default for Part {
    fn default() -> Part {
        let target = [Target { log: LogId(0), first: Offset::ZERO }];
        Part { target, units: Vec::new(), count: 0, time_max: Wall(0) }
    }
}

/// A message found in a bucket.
struct Found<'c> {
    id: DelayId,
    offset: u64,
    unit: &'c [u8],
}

impl Delays {
    /// What `chunks` of a bucket hold that still waits.
    fn found<'c>(&mut self, log: LogId, from: u64, chunks: &'c [Chunk]) -> Vec<Found<'c>> {
        let mut all = Vec::new();
        let Some(bucket) = self.buckets.get_mut(&log) else { return all };
        let mut gone = Vec::new();
        for chunk in chunks {
            let visit = &mut |unit: UnitAt| {
                let offset = unit.first.0;
                let bytes = chunk.units.get(unit.at..unit.at + unit.bytes).unwrap_or_default();
                if offset >= from && bucket.cursor.is_waiting(offset) {
                    match Envelope::read(bytes) {
                        Ok(envelope) if !bucket.taken.contains(&(envelope.id.log, envelope.id.offset)) => {
                            all.push(Found { id: envelope.id, offset, unit: bytes });
                        }
                        Ok(_) => gone.push(offset),
                        Err(error) => {
                            tracing::error!(%log, offset, %error, "an unreadable delayed message is passed over");
                            gone.push(offset);
                        }
                    }
                }
                ControlFlow::Continue(())
            };
            if let Err(error) = Envelopes.split(&chunk.units, chunk.first, visit) {
                tracing::error!(%log, first = %chunk.first, %error, "unreadable delayed messages are passed over");
            }
        }
        for offset in gone {
            bucket.cursor.skip(offset, offset + 1);
        }
        all
    }

    /// What cannot be read is passed over.
    fn pass(&mut self, log: LogId, from: u64, to: u64) {
        if let Some(bucket) = self.buckets.get_mut(&log) {
            bucket.cursor.skip(from, to);
            bucket.read = to;
        }
    }

    /// Whether something is to be done now.
    pub(super) fn is_due(&self, now: Wall) -> bool {
        let near = self.near.first_key_value().is_some_and(|(place, _)| place.0 <= now);
        near || self.buckets.values().any(|bucket| bucket.wakes().is_some_and(|at| at <= now))
    }
}
