//! A message on its way into queues: which log it goes to, whether the queue is too full for it, and what must be
//! counted of it. Routing asks before it stores and tells after.

use model::{LogId, Marks};
use storage::{Batch, StateChange, SyncPolicy, Target};

use super::Overflow;
use super::queue::Queue;
use super::queues::{Queues, mark};
use super::record;
use super::sums::Weight;
use crate::core::Core;
use crate::dead_letter::Dead;
use crate::routing::{PublishRequest, partition_of};
use crate::state;

/// Where a message goes in one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// To this log.
    Log(LogId),
    /// The queue is full and refuses it.
    Full,
    /// The queue takes no messages.
    Nowhere,
}

impl Queue {
    /// The log to which a message published to it goes: of its own the one of its priority, or the partition of the
    /// shared topic that `key` picks; without a key, partitions in turn.
    pub(crate) fn place(&mut self, key: Option<&str>, request: &PublishRequest<'_>, core: &Core) -> Place {
        let partitions = self.info.partitions();
        if partitions.is_empty() {
            if self.refuses(&request.marks, core) {
                return Place::Full;
            }
            let level = usize::from(request.marks.priority).min(self.tracks.len().saturating_sub(1));
            return self.tracks.get(level).map_or(Place::Nowhere, |track| Place::Log(track.cursor.log));
        }
        let at = match key {
            Some(key) => partition_of(key.as_bytes(), partitions.len()),
            None => self.rounds % partitions.len(),
        };
        self.rounds = self.rounds.wrapping_add(usize::from(key.is_none()));
        self.info.partitions().get(at).map_or(Place::Nowhere, |log| Place::Log(*log))
    }

    /// Whether it has no room for one more message. One that a consumer takes at once needs none.
    fn refuses(&self, marks: &Marks, core: &Core) -> bool {
        let Some(rules) = self.rules.as_deref().filter(|rules| rules.refuses()) else { return false };
        let (mut count, mut bytes) = (1, u64::from(marks.body_bytes));
        for track in &self.tracks {
            let cursor = &track.cursor;
            let stored = core.partitions.next_offset(cursor.log).map_or(cursor.end(), |next| next.0);
            count += cursor.ready() + stored.saturating_sub(cursor.end());
            bytes += cursor.ready_bytes();
        }
        rules.is_over(count, bytes) && !(count == 1 && self.consumers.has_credit())
    }

    /// It was too full for a message: it may want that among its dead letters.
    pub(crate) fn refused(&mut self, request: &PublishRequest<'_>) {
        let Some(rules) = self.rules.as_deref_mut() else { return };
        if rules.options.overflow != Some(Overflow::RejectToDeadLetters) || rules.options.dead_letters.is_none() {
            return;
        }
        let unit = (request.format.tag(), bytes::Bytes::copy_from_slice(request.unit));
        rules.dying.push(Dead { place: None, reason: model::Reason::MaxLength, unit: Some(unit), waits: None });
    }

    /// Whether messages with these marks must be counted one by one.
    fn counts(&self, marks: &Marks) -> bool {
        let Some(rules) = self.rules.as_deref() else { return self.is_special(marks, true) };
        rules.options.bytes_max.is_some() || rules.mixed || self.is_special(marks, rules.forgets())
    }

    fn is_special(&self, marks: &Marks, forgets: bool) -> bool {
        marks.time_to_live_ms.is_some() || (forgets && !marks.persistent && self.is_stored())
    }
}

impl Queues {
    /// Whether a queue takes one more message with these marks, and whether that depends on how many are in it; `None`
    /// when there is none.
    pub(crate) fn takes(&self, core: &Core, (tenant, name): (&str, &str), marks: &Marks) -> Option<(bool, bool)> {
        let queue = self.by_id.get(&self.id_of(tenant, name)?)?;
        let is_limited = queue.rules.as_deref().is_some_and(super::rules::Rules::refuses);
        Some((!queue.refuses(marks, core), is_limited))
    }

    /// Before messages with these marks are stored in `targets`: a queue that must count them from now on says so on
    /// disk first.
    pub(crate) fn expect(&mut self, core: &mut Core, targets: &[Target], marks: &Marks) {
        for target in targets {
            for &id in self.by_log.of(target.log) {
                let Some(queue) = self.by_id.get_mut(&id) else { continue };
                if queue.info.topic().is_some() || !queue.counts(marks) {
                    continue;
                }
                let is_stored = queue.is_stored();
                let rules = queue.rules.get_or_insert_default();
                rules.mixed |= marks.time_to_live_ms.is_some() || is_stored;
                let is_limited = rules.options.bytes_max.is_some();
                let Some(track) = queue.track(target.log).filter(|track| track.cursor.sums().is_none()) else {
                    continue;
                };
                if !is_stored && !is_limited {
                    continue; // nothing of it survives a restart: there is nothing to count
                }
                track.cursor.keep_sums(target.first.0);
                if !is_stored {
                    continue;
                }
                let mut out = Vec::new();
                record::begin(&mut out);
                record::put_sums(&track.cursor, &mut out);
                let change = [(state::cursor_of(id), StateChange::Delta(&out))];
                if let Err(error) = core.commit(&Batch { state: &change, ..Batch::default() }, SyncPolicy::None) {
                    tracing::debug!(%error, "that a queue counts could not be stored; nor can its message be");
                }
            }
        }
    }

    /// A message with these marks is stored in `targets`.
    pub(crate) fn note(&mut self, targets: &[Target], marks: &Marks) {
        for target in targets {
            for &id in self.by_log.of(target.log) {
                let Some(queue) = self.by_id.get_mut(&id).filter(|queue| queue.info.topic().is_none()) else {
                    continue;
                };
                let weight = Weight::of(marks, queue.kind());
                let weight = Weight { transient: weight.transient && queue.is_stored(), ..weight };
                let Some(track) = queue.track(target.log).filter(|track| track.cursor.sums().is_some()) else {
                    continue;
                };
                track.cursor.appended(target.first.0, weight);
                mark(queue, &mut self.marked);
            }
        }
    }
}
