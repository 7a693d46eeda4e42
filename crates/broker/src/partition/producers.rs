//! The idempotent producers of one log: which of their batches are stored already, so that a retry is answered with the
//! old place instead of being stored twice. Known by bytes committed together with the append itself.
//!
//! How many are remembered is bounded, for each log and for all: those that have not written for longest are forgotten
//! first. To a forgotten one the same happens as to one that has been idle for a day.
//!
//! The rules are those that Kafka's clients rely on: the last 5 batches of a producer are remembered; a producer not
//! known may begin anywhere; a newer epoch begins at 0 and fences the older; sequences wrap from 2³¹−1 to 0.

use std::collections::HashMap;

use bytes::Bytes;
use model::{ByteReader, ByteWriter, Offset, ReadError, Wall};
use storage::{Lsn, SyncPolicy};

use super::ProducerBatch;
use crate::BrokerError;

/// Batches remembered of each producer: as many as a client may have in flight.
const BATCHES_MAX: usize = 5;

/// A producer that has not written for this long is forgotten, in milliseconds.
pub(crate) const IDLE_MS_MAX: i64 = 24 * 3_600_000;

/// The record says one batch.
const TAG_BATCH: u8 = 1;
/// The record says all producers.
const TAG_SNAPSHOT: u8 = 2;

/// One batch as remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    first: i32,
    last: i32,
    base: Offset,
    /// Where it was committed; 0 when before this start: storage syncs what it recovers.
    lsn: Lsn,
    synced: bool,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    epoch: i16,
    /// Oldest first; never empty once stored, at most [`BATCHES_MAX`].
    batches: Vec<Seen>,
    used: Wall,
}

/// What a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// To be stored.
    New,
    /// Stored before.
    Duplicate {
        /// Where it begins.
        base: Offset,
        /// When it was committed.
        lsn: Lsn,
        /// The policy it was committed with.
        policy: SyncPolicy,
    },
}

/// The producers of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
}

/// The sequence after `last`.
fn next_sequence(last: i32) -> i32 {
    if last == i32::MAX { 0 } else { last + 1 }
}

impl Producers {
    /// What `batch` is.
    ///
    /// # Errors
    /// [`BrokerError::SequenceGap`], [`BrokerError::FencedProducer`].
    pub(crate) fn check(&self, batch: ProducerBatch) -> Result<Verdict, BrokerError> {
        let gap = |expected| BrokerError::SequenceGap { producer: batch.id, got: batch.first_sequence, expected };
        let Some(producer) = self.by_id.get(&batch.id) else {
            return Ok(Verdict::New);
        };
        if batch.epoch < producer.epoch {
            let (producer, got, current) = (batch.id, batch.epoch, producer.epoch);
            return Err(BrokerError::FencedProducer { producer, got, current });
        }
        if batch.epoch > producer.epoch {
            return if batch.first_sequence == 0 { Ok(Verdict::New) } else { Err(gap(0)) };
        }
        let same = |seen: &&Seen| seen.first == batch.first_sequence && seen.last == batch.last_sequence;
        if let Some(seen) = producer.batches.iter().rev().find(same) {
            let policy = if seen.synced { SyncPolicy::Sync } else { SyncPolicy::None };
            return Ok(Verdict::Duplicate { base: seen.base, lsn: seen.lsn, policy });
        }
        let expected = producer.batches.last().map_or(0, |seen| next_sequence(seen.last));
        if batch.first_sequence == expected { Ok(Verdict::New) } else { Err(gap(expected)) }
    }

    /// Whether it is one that is remembered.
    pub(crate) fn knows(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    /// How many are remembered.
    pub(crate) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// When each of them last wrote.
    pub(crate) fn used(&self) -> impl Iterator<Item = Wall> {
        self.by_id.values().map(|producer| producer.used)
    }

    /// Forgets those that last wrote before `since`, and of those that wrote just then no more than `ties`; takes from
    /// `ties` how many those were.
    pub(crate) fn forget_before(&mut self, since: Wall, ties: &mut usize) {
        self.by_id.retain(|_, producer| {
            let is_tie = producer.used == since && *ties > 0;
            *ties -= usize::from(is_tie);
            producer.used >= since && !is_tie
        });
    }

    /// Remembers that `batch` was stored at `base`.
    pub(crate) fn stored(&mut self, batch: ProducerBatch, base: Offset, at: Wall, lsn: Lsn, policy: SyncPolicy) {
        let seen = Seen {
            first: batch.first_sequence,
            last: batch.last_sequence,
            base,
            lsn,
            synced: policy == SyncPolicy::Sync,
        };
        let producer = self.by_id.entry(batch.id).or_default();
        if producer.epoch != batch.epoch {
            producer.batches.clear();
            producer.epoch = batch.epoch;
        }
        if producer.batches.len() == BATCHES_MAX {
            producer.batches.remove(0);
        }
        producer.batches.push(seen);
        producer.used = at;
    }

    /// Forgets who has not written for [`IDLE_MS_MAX`].
    pub(crate) fn expire(&mut self, now: Wall) {
        self.by_id.retain(|_, producer| now.0.saturating_sub(producer.used.0) < IDLE_MS_MAX);
    }

    /// Whether none is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The record of one batch, into `out`.
    pub(crate) fn write_batch(batch: ProducerBatch, base: Offset, at: Wall, out: &mut Vec<u8>) {
        let mut writer = ByteWriter::new(out);
        writer.u8(TAG_BATCH);
        writer.i64(batch.id);
        writer.i16(batch.epoch);
        writer.i32(batch.first_sequence);
        writer.i32(batch.last_sequence);
        writer.u64(base.0);
        writer.i64(at.0);
    }

    /// All producers as one record.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + self.by_id.len() * (19 + 16 * BATCHES_MAX));
        let mut writer = ByteWriter::new(&mut out);
        writer.u8(TAG_SNAPSHOT);
        for (id, producer) in &self.by_id {
            writer.i64(*id);
            writer.i16(producer.epoch);
            writer.i64(producer.used.0);
            writer.u8(producer.batches.len() as u8); // at most BATCHES_MAX
            for seen in &producer.batches {
                writer.i32(seen.first);
                writer.i32(seen.last);
                writer.u64(seen.base.0);
            }
        }
        out
    }

    /// The producers that `records` tell of.
    ///
    /// # Errors
    /// [`ReadError`] when a record is cut short or of an unknown kind.
    pub(crate) fn recover(records: &[Bytes]) -> Result<Producers, ReadError> {
        let mut producers = Producers::default();
        for record in records {
            let mut reader = ByteReader::new(record);
            match reader.u8()? {
                TAG_BATCH => producers.read_batch(&mut reader)?,
                TAG_SNAPSHOT => producers.read_snapshot(&mut reader)?,
                other => return Err(ReadError::Length(i64::from(other))),
            }
        }
        Ok(producers)
    }

    fn read_batch(&mut self, reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
        let batch = ProducerBatch {
            id: reader.i64()?,
            epoch: reader.i16()?,
            first_sequence: reader.i32()?,
            last_sequence: reader.i32()?,
        };
        let base = Offset(reader.u64()?);
        let at = Wall(reader.i64()?);
        self.stored(batch, base, at, Lsn::default(), SyncPolicy::Sync);
        Ok(())
    }

    fn read_snapshot(&mut self, reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
        self.by_id.clear();
        while reader.left() > 0 {
            let id = reader.i64()?;
            let mut producer = Producer { epoch: reader.i16()?, used: Wall(reader.i64()?), batches: Vec::new() };
            for _ in 0..reader.u8()? {
                let (first, last, base) = (reader.i32()?, reader.i32()?, Offset(reader.u64()?));
                producer.batches.push(Seen { first, last, base, lsn: Lsn::default(), synced: true });
            }
            self.by_id.insert(id, producer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(id: i64, sequence: i32) -> ProducerBatch {
        ProducerBatch { id, epoch: 2, first_sequence: sequence, last_sequence: sequence + 1 }
    }

    #[test]
    fn a_batch_is_stored_as_format_md_says() {
        let mut out = Vec::new();
        Producers::write_batch(batch(7, 3), Offset(9), Wall(5), &mut out);
        let expected = [
            &[1][..],
            &7i64.to_be_bytes(),
            &2i16.to_be_bytes(),
            &3i32.to_be_bytes(),
            &4i32.to_be_bytes(),
            &9u64.to_be_bytes(),
            &5i64.to_be_bytes(),
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn a_snapshot_says_what_its_batches_said_and_damage_is_an_error() {
        let mut records = Vec::new();
        for (id, sequence) in [(7, 0), (8, 0), (7, 2), (7, 4), (7, 6), (7, 8), (7, 10)] {
            let mut out = Vec::new();
            Producers::write_batch(batch(id, sequence), Offset(sequence as u64), Wall(5), &mut out);
            records.push(Bytes::from(out));
        }
        let by_batches = Producers::recover(&records).unwrap();
        let snapshot = Bytes::from(by_batches.snapshot());
        let by_snapshot = Producers::recover(std::slice::from_ref(&snapshot)).unwrap();
        for producers in [by_batches, by_snapshot] {
            let seen = |sequence| match producers.check(batch(7, sequence)) {
                Ok(Verdict::Duplicate { base, .. }) => Some(base.0),
                _ => None,
            };
            assert_eq!([0, 2, 10].map(seen), [None, Some(2), Some(10)]);
            assert_eq!(producers.check(batch(7, 12)), Ok(Verdict::New));
        }
        for end in 0..snapshot.len() {
            let cut = Producers::recover(&[snapshot.slice(..end)]);
            assert!(cut.is_err() || cut.is_ok_and(|cut| cut.by_id.len() < 2), "cut at {end}");
        }
        assert!(Producers::recover(&[Bytes::from_static(&[9])]).is_err());
    }

    #[test]
    fn who_is_idle_for_a_day_is_forgotten() {
        let mut producers = Producers::default();
        producers.stored(batch(7, 0), Offset(0), Wall(0), Lsn(1), SyncPolicy::None);
        producers.stored(batch(8, 0), Offset(2), Wall(1), Lsn(1), SyncPolicy::None);
        producers.expire(Wall(IDLE_MS_MAX));
        assert!(producers.check(batch(7, 0)) == Ok(Verdict::New) && producers.check(batch(8, 0)) != Ok(Verdict::New));
        producers.expire(Wall(IDLE_MS_MAX + 1));
        assert!(producers.is_empty());
    }
}
