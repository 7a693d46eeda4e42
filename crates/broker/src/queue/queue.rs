//! One queue: its cursors, its consumers, and the way from the one to the other.
//!
//! It knows nothing of the catalog, of routing or of other queues; `queues.rs` owns it.

use std::collections::{BTreeSet, HashMap};

use model::{FormatTag, LogId, Name, Offset};
use storage::{ReadId, StorageError};

use super::consumers::Consumers;
use super::record;
use super::track::{Next, Track};
use super::{Delivery, DeliveryKey, QueueInfo, QueueSpec, Settle};
use crate::core::Core;
use crate::routing::partition_of;
use crate::{CallId, Event, SessionId};

/// Bytes handed out in one turn before others have theirs.
const PUMP_BYTES_MAX: usize = 1 << 20;

/// A queue.
pub(crate) struct Queue {
    pub(crate) id: u64,
    pub(super) tenant: Name,
    pub(super) info: Box<Facts>,
    /// Its cursors, ascending by log: one, or one for each partition of the topic it shares.
    pub(super) tracks: Vec<Track>,
    /// The track looked into next.
    track_at: usize,
    pub(super) consumers: Consumers,
    /// Calls of `get` that wait for the disk.
    pub(super) getters: Vec<(SessionId, CallId)>,
    /// Sent to consumers that need not settle; settled once their events have left.
    unconfirmed: Vec<(SessionId, DeliveryKey)>,
    /// It stands in the list of queues with something to do.
    pub(super) marked: bool,
    /// Counts messages that came without a key of their own, for partitions in turn.
    pub(super) rounds: usize,
}

/// What a queue was declared with.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) name: Name,
    pub(super) durable: bool,
    pub(super) owner: Option<SessionId>,
    pub(super) auto_delete: bool,
    pub(super) topic: Option<Name>,
    /// The logs of that topic's partitions, by index.
    pub(super) partitions: Vec<LogId>,
    pub(super) arguments: std::collections::BTreeMap<String, serde_json::Value>,
}

impl Queue {
    /// A queue with `tracks`, one for each partition of its topic in their order, or the one of its own log.
    pub(super) fn new(id: u64, spec: &QueueSpec, owner: Option<SessionId>, mut tracks: Vec<Track>) -> Queue {
        let logs = tracks.iter().map(|track| track.cursor.log);
        let partitions = if spec.topic.is_some() { logs.collect() } else { Vec::new() };
        tracks.sort_by_key(|track| track.cursor.log);
        Queue {
            id,
            tenant: spec.tenant.clone(),
            info: Box::new(Facts {
                name: spec.name.clone(),
                durable: spec.durable,
                owner,
                auto_delete: spec.auto_delete,
                topic: spec.topic.clone(),
                partitions,
                arguments: spec.arguments.clone(),
            }),
            tracks,
            track_at: 0,
            consumers: Consumers::default(),
            getters: Vec::new(),
            unconfirmed: Vec::new(),
            marked: false,
            rounds: 0,
        }
    }

    /// Whether it and its cursors survive a restart: durable, and not one connection's own.
    pub(crate) fn is_stored(&self) -> bool {
        self.info.durable && self.info.owner.is_none()
    }

    /// The log to which a message published to it goes: its own, or the partition of the shared topic that `key` picks;
    /// without a key, partitions in turn.
    pub(crate) fn log_for(&mut self, key: Option<&str>) -> Option<LogId> {
        let partitions = &self.info.partitions;
        if partitions.is_empty() {
            return self.own_log();
        }
        let at = match key {
            Some(key) => partition_of(key.as_bytes(), partitions.len()),
            None => self.rounds % partitions.len(),
        };
        self.rounds = self.rounds.wrapping_add(usize::from(key.is_none()));
        self.info.partitions.get(at).copied()
    }

    /// The log that is its own.
    pub(crate) fn own_log(&self) -> Option<LogId> {
        if self.info.topic.is_some() { None } else { self.tracks.first().map(|track| track.cursor.log) }
    }

    pub(super) fn ready(&self) -> u64 {
        self.tracks.iter().map(|track| track.cursor.ready()).sum()
    }

    pub(super) fn describe(&self) -> QueueInfo {
        QueueInfo {
            name: self.info.name.clone(),
            durable: self.info.durable,
            exclusive: self.info.owner,
            auto_delete: self.info.auto_delete,
            topic: self.info.topic.clone(),
            arguments: self.info.arguments.clone(),
            ready: self.ready(),
            unsettled: self.tracks.iter().map(|track| track.cursor.unsettled()).sum(),
            consumers: u32::try_from(self.consumers.count()).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn track(&mut self, log: LogId) -> Option<&mut Track> {
        let at = self.tracks.binary_search_by_key(&log, |track| track.cursor.log).ok()?;
        self.tracks.get_mut(at)
    }

    /// Takes the next message, from each track in turn.
    fn next(
        &mut self,
        session: SessionId,
        wanted: FormatTag,
        reads: &mut HashMap<ReadId, u64>,
        core: &mut Core,
    ) -> Result<Option<Delivery>, Wait> {
        let mut pending = false;
        for _ in 0..self.tracks.len() {
            let at = self.track_at % self.tracks.len();
            self.track_at = at + 1;
            let Some(track) = self.tracks.get_mut(at) else { continue };
            if !track.is_ready() {
                pending |= track.waits.is_some();
                continue;
            }
            match track.next(session, wanted, (self.id, reads), core) {
                Next::Taken(taken, format, body) => {
                    let offset = Offset(taken.offset);
                    let key = DeliveryKey { queue: self.id, log: track.cursor.log, offset };
                    let (redelivered, attempts) = (taken.attempts > 0, taken.attempts);
                    return Ok(Some(Delivery { key, redelivered, attempts, format, body }));
                }
                Next::Empty => {}
                Next::Pending => pending = true,
                Next::Failed(error) => return Err(Wait::Failed(error)),
            }
        }
        if pending { Err(Wait::Pending) } else { Ok(None) }
    }

    /// Hands ready messages to consumers with credit. True when it stopped to let others have their turn.
    pub(super) fn pump(&mut self, reads: &mut HashMap<ReadId, u64>, core: &mut Core) -> bool {
        let mut bytes_left = PUMP_BYTES_MAX;
        let more = loop {
            let Some(consumer) = self.consumers.next_with_credit() else { break false };
            if bytes_left == 0 {
                break true;
            }
            let (session, wanted, auto_settle) = (consumer.session, consumer.wanted, consumer.auto_settle);
            match self.next(session, wanted, reads, core) {
                Ok(Some(delivery)) => {
                    bytes_left = bytes_left.saturating_sub(delivery.body.bytes_about());
                    if auto_settle {
                        self.unconfirmed.push((session, delivery.key));
                    }
                    self.consumers.served(delivery);
                }
                Ok(None) | Err(Wait::Pending) => break false,
                Err(Wait::Failed(error)) => {
                    tracing::error!(queue = %self.info.name, %error, "a queue cannot be read");
                    break false;
                }
            }
        };
        for (session, consumer, batch) in self.consumers.batches() {
            core.events.push(session, Event::Deliver(consumer, batch));
        }
        more
    }

    /// Takes one message for a `get`.
    pub(super) fn get(
        &mut self,
        (session, wanted, auto_settle): (SessionId, FormatTag, bool),
        reads: &mut HashMap<ReadId, u64>,
        core: &mut Core,
    ) -> Result<Option<Delivery>, Wait> {
        let delivery = self.next(session, wanted, reads, core)?;
        if auto_settle && let Some(delivery) = &delivery {
            self.settle(session, delivery.key, Settle::Ack);
        }
        Ok(delivery)
    }

    /// Settles one message; false when the session does not hold it.
    pub(super) fn settle(&mut self, session: SessionId, key: DeliveryKey, how: Settle) -> bool {
        let Some(track) = self.track(key.log) else { return false };
        match how {
            Settle::Ack | Settle::Discard => track.cursor.settle(session, key.offset.0),
            Settle::Requeue => track.cursor.requeue(session, key.offset.0),
        }
    }

    /// The events of the last pump have left: what needs no settling is settled.
    pub(super) fn settle_unconfirmed(&mut self) {
        let mut sent = std::mem::take(&mut self.unconfirmed);
        for (session, key) in sent.drain(..) {
            self.settle(session, key, Settle::Ack);
        }
        self.unconfirmed = sent; // keeps its room
        if self.consumers.count() == 0 {
            self.unconfirmed = Vec::new();
        }
    }

    /// A delivery that lay in the event queue was taken out of it.
    pub(super) fn untake(&mut self, session: SessionId, key: DeliveryKey) {
        if let Some(track) = self.track(key.log) {
            track.cursor.untake(session, key.offset.0);
        }
        self.unconfirmed.retain(|(_, sent)| *sent != key);
    }

    /// Drops all that is ready; answers how many.
    pub(super) fn purge(&mut self) -> u64 {
        self.tracks.iter_mut().map(|track| track.cursor.purge()).sum()
    }

    /// What a session holds is ready again.
    pub(super) fn session_lost(&mut self, session: SessionId) {
        self.getters.retain(|(getter, _)| *getter != session);
        self.settle_unconfirmed();
        for track in &mut self.tracks {
            track.cursor.session_lost(session);
        }
    }

    /// The sessions that hold messages, wait for one, or own it.
    pub(super) fn holders(&self) -> BTreeSet<SessionId> {
        let holding = self.tracks.iter().flat_map(|track| track.cursor.holders());
        holding.chain(self.getters.iter().map(|(session, _)| *session)).chain(self.info.owner).collect()
    }

    /// Whether there is something to record or to settle at the end of the next turn.
    pub(super) fn has_news(&self) -> bool {
        !self.unconfirmed.is_empty() || self.tracks.iter().any(|track| track.cursor.has_news())
    }

    /// Puts what has changed into `out`; false when nothing has.
    pub(super) fn put_delta(&self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        for track in self.tracks.iter().filter(|track| track.cursor.has_news()) {
            if out.len() == before {
                record::begin(out);
            }
            record::put_delta(&track.cursor, out);
        }
        out.len() > before
    }

    /// Puts all of it into `out`.
    pub(super) fn put_snapshot(&self, out: &mut Vec<u8>) {
        record::begin(out);
        for track in &self.tracks {
            record::put_snapshot(&track.cursor, out);
        }
    }

    /// How far its own log can be trimmed, if further than before.
    pub(super) fn trim(&self) -> Option<(LogId, Offset)> {
        let track = self.tracks.first().filter(|_| self.info.topic.is_none())?;
        let head = track.cursor.head();
        (head > track.trimmed).then_some((track.cursor.log, Offset(head)))
    }

    /// What [`Queue::put_delta`] and [`Queue::trim`] said is committed.
    pub(super) fn recorded(&mut self) {
        for track in &mut self.tracks {
            track.cursor.recorded();
            track.trimmed = track.cursor.head();
        }
    }

    /// Bytes read ahead.
    pub(super) fn window_bytes(&self) -> usize {
        self.tracks.iter().map(Track::window_bytes).sum()
    }

    /// Gives the memory of the reading ahead back; answers how much.
    pub(super) fn close_windows(&mut self) -> usize {
        let bytes = self.window_bytes();
        self.tracks.iter_mut().for_each(Track::close_window);
        bytes
    }
}

/// Why there is no message now.
pub(super) enum Wait {
    /// The disk must be waited for.
    Pending,
    /// The disk has failed.
    Failed(StorageError),
}

impl super::Body {
    /// About how much memory it takes.
    fn bytes_about(&self) -> usize {
        const OVERHEAD: usize = 128;
        OVERHEAD
            + match self {
                super::Body::Unit(bytes) => bytes.len(),
                super::Body::Neutral(message) => message.value.as_ref().map_or(0, bytes::Bytes::len),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_queue_is_small() {
        // The promise is 1 KiB with its names, its log and its share of the tables.
        assert!(size_of::<Queue>() + size_of::<Facts>() + size_of::<Track>() <= 512);
    }
}
