//! All queues of this shard: by id, by name, by log; what the broker tells them at each turn.
//!
//! Making and removing them is in `manage.rs`, exchanges are in `crate::routing`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{LogId, Mono, Name, Now, Offset};
use storage::{Batch, Owner, ReadId, StateChange, StorageError, SyncPolicy, Target};

use super::count::Counting;
use super::over::Over;
use super::queue::{Queue, Wait, seconds};
use super::stored::Form;
use super::window::Ahead;
use super::{ConsumeSpec, ConsumerId, DeliveryKey, Got, ReadSpec, Settle};
use crate::core::Core;
use crate::delay::Delays;
use crate::id_map::IdMap;
use crate::policy::{Governing, Policies};
use crate::routing::{ExchangeSpec, Exchanges, Feeds, Mailboxes};
use crate::timer::Timers;
use crate::{BrokerError, CallId, Event, SessionId, state};

/// Bytes that all queues together keep read ahead between turns.
const WINDOWS_BYTES_MAX: usize = 64 << 20;

/// All queues, exchanges and bindings of this shard.
#[derive(Default)]
pub(crate) struct Queues {
    /// In boxes: the table has room for twice as many.
    pub(crate) by_id: IdMap<u64, Box<Queue>>,
    /// Tenant → name → id. Looked up by borrowed names.
    pub(super) names: HashMap<Name, HashMap<Name, u64>>,
    /// Which queues run over a log.
    pub(crate) by_log: Over,
    pub(super) consumers: IdMap<ConsumerId, u64>,
    last_consumer: u64,
    /// The queues in which a session has consumers or messages, or that are its own.
    pub(super) sessions: HashMap<SessionId, BTreeSet<u64>>,
    /// Queues with something to do at the end of the turn.
    pub(crate) marked: Vec<u64>,
    /// One of them stopped to let others have their turn: it goes on in the next, which perhaps nobody else asks for.
    more: bool,
    /// Queues whose bytes are being counted.
    pub(super) counting: Counting,
    /// Reading ahead.
    pub(crate) ahead: Ahead,
    /// Dead letters were written, which their queues do not show yet.
    pub(crate) buried: bool,
    /// Messages that are published later.
    pub(crate) delays: Delays,
    /// Queues that must be looked at at a moment.
    pub(super) timers: Timers<u64>,
    /// Bytes read ahead.
    pub(crate) windows_bytes: usize,
    pub(crate) exchanges: Exchanges,
    pub(crate) policies: Policies,
    /// What is still to be held against policies that have changed.
    pub(crate) governing: Governing,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) feeds: Feeds,
    /// Counts messages for topics that came without a key, for partitions in turn.
    pub(crate) spread: usize,
    /// Room for a publish's queues and targets and for a turn's records, kept from one to the next.
    pub(crate) found: Vec<u64>,
    pub(crate) targets: Vec<Target>,
    records: Vec<u8>,
    /// Ready messages of topics that were deleted before a queue over them had given them out.
    pub(crate) passed_over: u64,
}

impl Queues {
    /// No queues, and the exchanges that every tenant always has.
    pub(crate) fn new(builtin: Vec<ExchangeSpec>) -> Queues {
        Queues { exchanges: Exchanges::new(builtin), ..Queues::default() }
    }

    /// The turn ends: settles what has left, and publishes what has waited for its time.
    pub(crate) fn begin_end(&mut self, core: &mut Core) {
        self.count_on(core);
        let left = core.events.left();
        for at in 0..self.marked.len() {
            if let Some(queue) = self.marked.get(at).and_then(|id| self.by_id.get_mut(id)) {
                queue.settle_unconfirmed(left);
            }
        }
        self.fire(core);
    }

    /// Nothing of the turn is written yet: hands out what is ready, or will be by the write, and commits what has
    /// changed.
    pub(crate) fn before_flush(&mut self, core: &mut Core) {
        self.pump(core);
        self.bury(core);
        self.record(core);
    }

    /// The watermark of `log` has moved to `watermark`.
    pub(crate) fn log_moved(&mut self, _core: &mut Core, log: LogId, watermark: Offset) {
        for id in self.by_log.of(log) {
            if let Some(queue) = self.by_id.get_mut(id)
                && queue.track(log).is_some_and(|track| track.visible(watermark.0))
            {
                mark(queue, &mut self.marked);
            }
        }
    }

    /// What `log` holds begins at `start` now: what was before is gone, also for queues.
    pub(crate) fn start_moved(&mut self, log: LogId, start: Offset) {
        for id in self.by_log.of(log) {
            if let Some(queue) = self.by_id.get_mut(id)
                && let Some(track) = queue.track(log)
            {
                let before = track.cursor.ready();
                track.cursor.start_moved(start.0);
                let gone = before.saturating_sub(track.cursor.ready());
                self.passed_over += if queue.is_stream() { 0 } else { gone };
                mark(queue, &mut self.marked);
            }
        }
    }

    /// For each of `logs` that queues run over where the first message lies that one of them still needs. Streams only
    /// look on.
    pub(crate) fn heads(&mut self, logs: &BTreeSet<LogId>) -> BTreeMap<LogId, Offset> {
        let mut heads = BTreeMap::new();
        for log in logs {
            for id in self.by_log.of(*log) {
                let queue = self.by_id.get_mut(id).filter(|queue| !queue.is_stream());
                if let Some(track) = queue.and_then(|queue| queue.track(*log)) {
                    let head = Offset(track.cursor.head());
                    let least = heads.entry(*log).or_insert(head);
                    *least = head.min(*least);
                }
            }
        }
        heads
    }

    /// The turn is written (or a sync came back), watermarks have moved: delivers. What this changes is committed by
    /// [`Queues::record`] before the turn ends.
    pub(crate) fn after_flush(&mut self, core: &mut Core) {
        self.pump(core);
        self.bury(core);
    }

    /// A read that answered `Pending` can be asked again. Also called for reads of others.
    pub(crate) fn read_ready(&mut self, core: &mut Core, read: ReadId) {
        self.delays.read_ready(read);
        self.counting.read_ready(read);
        for id in self.ahead.reads.take(read) {
            let Some(queue) = self.by_id.get_mut(&id) else { continue };
            queue.read_ready(read);
            for (session, call) in queue.getters.take() {
                core.events.push(session, Event::GetReady(call));
            }
            mark(queue, &mut self.marked);
        }
    }

    /// The whole state of one owner of kind [`state::CURSOR`], since storage asks for a snapshot; `None` when there is
    /// no such queue: then the owner is dropped.
    pub(crate) fn snapshot(&self, owner: Owner) -> Option<Vec<u8>> {
        let queue = self.by_id.get(&owner.id).filter(|queue| queue.is_recorded())?;
        let mut record = Vec::new();
        queue.put_snapshot(&mut record);
        Some(record)
    }

    /// When [`Queues::tick`] must be called at the latest.
    pub(crate) fn deadline(&self, now: Now) -> Option<Mono> {
        let again = (self.more || self.is_governing() || self.counting.is_busy()).then_some(now.mono);
        [again, self.timers.next(), self.delays.deadline(now)].into_iter().flatten().min()
    }

    /// Time has passed: queues whose time has come are looked at when the turn ends; those that nobody uses go.
    pub(crate) fn tick(&mut self, core: &mut Core, now: Now) {
        while let Some(id) = self.timers.pop(now.mono) {
            let Some(queue) = self.by_id.get_mut(&id) else { continue };
            let is_used = queue.consumers.count() > 0;
            let Some(rules) = queue.rules.as_deref_mut() else { continue };
            rules.timer = None;
            if rules.is_expired(now.mono, is_used) {
                tracing::debug!(queue = %queue.info.name, "a queue that nobody uses goes");
                self.remove_or_log(core, id);
                continue;
            }
            queue.tell_late(core, now);
            mark(queue, &mut self.marked);
        }
    }

    /// Sets the timer of a queue for what it needs next.
    pub(super) fn arm(&mut self, id: u64, now: Now) {
        let Some(queue) = self.by_id.get_mut(&id) else { return };
        let is_used = queue.consumers.count() > 0;
        let Some(rules) = queue.rules.as_deref_mut() else { return };
        let alarm = rules.alarm(now, is_used);
        self.timers.set(id, rules.timer, alarm);
        rules.timer = alarm;
    }

    /// A queue is gone: its timer too.
    pub(super) fn disarm(&mut self, queue: &Queue) {
        let timer = queue.rules.as_ref().and_then(|rules| rules.timer);
        self.timers.set(queue.id, timer, None);
    }

    /// A session is gone: consumers, unsettled messages, exclusive queues.
    pub(crate) fn session_closed(&mut self, core: &mut Core, session: SessionId, _now: Now) {
        let touched = self.sessions.remove(&session).unwrap_or_default();
        if touched.is_empty() {
            return;
        }
        let unsent = core.events.take_where(session, |event| matches!(event, Event::Deliver(..)));
        self.give_back(session, unsent);
        for id in touched {
            let Some(queue) = self.by_id.get_mut(&id) else { continue };
            let gone = queue.consumers.remove_session(session);
            for consumer in &gone {
                self.consumers.remove(consumer);
            }
            queue.forget_readers();
            queue.session_lost(session);
            queue.used(core.now);
            mark(queue, &mut self.marked);
            let unused = queue.info.auto_delete && !gone.is_empty() && queue.consumers.count() == 0;
            if unused || queue.info.owner == Some(session) {
                self.remove_or_log(core, id);
            }
        }
    }

    /// Whether a queue has this name, lasting or not.
    pub(crate) fn has(&self, tenant: &str, name: &str) -> bool {
        self.id_of(tenant, name).is_some()
    }

    /// The id of a queue.
    pub(crate) fn id_of(&self, tenant: &str, name: &str) -> Option<u64> {
        self.names.get(tenant)?.get(name).copied()
    }

    /// The name of the queue with that id.
    pub(crate) fn name_of(&self, id: u64) -> Option<Name> {
        self.by_id.get(&id).map(|queue| queue.info.name.clone())
    }

    /// A queue that `session` may use.
    pub(crate) fn find(&self, session: SessionId, tenant: &str, name: &str) -> Result<&Queue, BrokerError> {
        let queue = self.id_of(tenant, name).and_then(|id| self.by_id.get(&id));
        let queue = queue.ok_or_else(|| BrokerError::Missing { kind: "queue", name: name.to_owned() })?;
        match queue.info.owner {
            Some(owner) if owner != session => Err(BrokerError::Locked(name.to_owned())),
            _ => Ok(queue),
        }
    }

    /// A queue that `session` may use, to change it: it is marked.
    pub(super) fn find_mut(&mut self, session: SessionId, tenant: &str, name: &str) -> Result<&mut Queue, BrokerError> {
        let id = self.find(session, tenant, name)?.id;
        let missing = || BrokerError::Missing { kind: "queue", name: name.to_owned() };
        let queue = self.by_id.get_mut(&id).ok_or_else(missing)?;
        mark(queue, &mut self.marked);
        Ok(queue)
    }

    /// Starts a consumer; of a stream with a place.
    pub(super) fn consume(
        &mut self,
        (session, tenant, name): (SessionId, &str, &str),
        spec: ConsumeSpec,
        read: Option<ReadSpec>,
        wanted: model::FormatTag,
    ) -> Result<ConsumerId, BrokerError> {
        let consumer = ConsumerId(self.last_consumer + 1);
        let queue = self.find_mut(session, tenant, name)?;
        if queue.is_stream() && spec.auto_settle {
            return Err(BrokerError::Invalid("what is read of a stream must be settled: it gives credit".to_owned()));
        }
        if !queue.is_stream() && read.is_some() {
            return Err(BrokerError::Invalid(format!("queue '{name}' is no stream: it has no places to read from")));
        }
        if !queue.consumers.add(consumer, session, spec, wanted) {
            return Err(BrokerError::ExclusiveUse(name.to_owned()));
        }
        if queue.is_stream()
            && let Err(error) = queue.add_reader(consumer, read.unwrap_or_default())
        {
            queue.consumers.remove(consumer);
            return Err(error);
        }
        let id = queue.id;
        self.last_consumer = consumer.0;
        self.consumers.insert(consumer, id);
        self.sessions.entry(session).or_default().insert(id);
        Ok(consumer)
    }

    /// Grants a consumer credit.
    pub(super) fn credit(&mut self, consumer: ConsumerId, more: u32) {
        if let Some(queue) = self.consumers.get(&consumer) {
            self.credit_in(*queue, consumer, more);
        }
    }

    /// Grants a consumer of `queue` credit.
    pub(super) fn credit_in(&mut self, queue: u64, consumer: ConsumerId, more: u32) {
        if let Some(queue) = self.by_id.get_mut(&queue) {
            queue.consumers.grant(consumer, more);
            mark(queue, &mut self.marked);
        }
    }

    /// Ends a consumer; what lies in the event queue for it goes back.
    pub(super) fn cancel(&mut self, core: &mut Core, consumer: ConsumerId) {
        core.connections.consumer_closed(consumer);
        let Some(id) = self.consumers.remove(&consumer) else { return };
        let Some(queue) = self.by_id.get_mut(&id) else { return };
        let Some(session) = queue.consumers.remove(consumer) else { return };
        queue.forget_readers();
        queue.used(core.now);
        let unsent =
            core.events.take_where(session, |event| matches!(event, Event::Deliver(whose, _) if *whose == consumer));
        mark(queue, &mut self.marked);
        let unused = queue.info.auto_delete && queue.consumers.count() == 0;
        self.give_back(session, unsent);
        if unused {
            self.remove_or_log(core, id);
        }
    }

    /// Takes one message.
    pub(super) fn get(
        &mut self,
        core: &mut Core,
        (session, call): (SessionId, CallId),
        (tenant, name): (&str, &str),
        (wanted, auto_settle): (model::FormatTag, bool),
    ) -> Result<Got, BrokerError> {
        let id = self.find(session, tenant, name)?.id;
        let Some(queue) = self.by_id.get_mut(&id) else { return Ok(Got::Empty) };
        if queue.is_stream() {
            return Err(BrokerError::Invalid(format!("queue '{name}' is a stream: consume from it")));
        }
        queue.used(core.now);
        mark(queue, &mut self.marked);
        let before = queue.window_bytes();
        let got = queue.get((session, wanted, auto_settle), &mut self.ahead, core);
        self.windows_bytes = (self.windows_bytes + queue.window_bytes()).saturating_sub(before);
        match got {
            Ok(Some(delivery)) => {
                let left = queue.ready();
                self.sessions.entry(session).or_default().insert(id);
                Ok(Got::Message(delivery, left))
            }
            Ok(None) => Ok(Got::Empty),
            Err(Wait::Pending | Wait::Enough) => {
                queue.getters.push((session, call));
                self.sessions.entry(session).or_default().insert(id);
                Ok(Got::Pending)
            }
            Err(Wait::Failed(error)) => Err(error.into()),
        }
    }

    /// Settles messages of one session.
    pub(crate) fn settle(&mut self, session: SessionId, keys: &[DeliveryKey], how: Settle) {
        for of_one_queue in keys.chunk_by(|one, next| one.queue == next.queue) {
            let Some(queue) = of_one_queue.first().and_then(|key| self.by_id.get_mut(&key.queue)) else { continue };
            for key in of_one_queue {
                queue.settle(session, *key, how);
            }
            mark(queue, &mut self.marked);
        }
    }

    /// Puts messages that a session has got, and nobody has seen, back to their places.
    pub(crate) fn put_back(&mut self, session: SessionId, keys: &[DeliveryKey]) {
        for key in keys {
            if let Some(queue) = self.by_id.get_mut(&key.queue) {
                queue.untake(session, *key);
                mark(queue, &mut self.marked);
            }
        }
    }

    /// Puts deliveries that never left back to their places.
    pub(super) fn give_back(&mut self, session: SessionId, events: Vec<Event>) {
        for event in events {
            let Event::Deliver(_, deliveries) = event else { continue };
            let keys = deliveries.iter().map(|delivery| delivery.key).collect::<Vec<_>>();
            self.put_back(session, &keys);
        }
    }

    fn pump(&mut self, core: &mut Core) {
        let mut at = 0;
        let marked = std::mem::take(&mut self.marked);
        let mut again = Vec::new();
        self.more = false;
        while let Some(&id) = marked.get(at) {
            at += 1;
            let Some(queue) = self.by_id.get_mut(&id) else { continue };
            queue.marked = false;
            queue.moved_s = seconds(core.now);
            if !std::mem::take(&mut queue.wants_pump) && queue.rules.is_none() {
                note_news(queue, &mut again);
                continue;
            }
            let before = queue.window_bytes();
            if queue.begins_count(core) {
                self.counting.add(id);
            }
            let mut more = queue.pump(&mut self.ahead, core);
            more |= queue.tend(&mut self.ahead, core);
            self.windows_bytes = (self.windows_bytes + queue.window_bytes()).saturating_sub(before);
            if self.windows_bytes > WINDOWS_BYTES_MAX {
                self.windows_bytes = self.windows_bytes.saturating_sub(queue.close_windows());
            }
            let has_rules = queue.rules.is_some();
            self.more |= more && !queue.is_stuck(core.now.mono);
            if more {
                mark(queue, &mut again);
            } else {
                note_news(queue, &mut again);
            }
            if has_rules {
                self.arm(id, core.now);
            }
        }
        self.marked = again;
    }

    /// Whether letters were written since the last call.
    pub(crate) fn has_buried(&mut self) -> bool {
        std::mem::take(&mut self.buried)
    }

    /// Whether letters of the dead are still to be written, and can be now.
    pub(crate) fn is_burying(&self, now: Mono) -> bool {
        let ids = self.marked.iter().filter_map(|id| self.by_id.get(id)?.rules.as_deref());
        ids.into_iter().any(|rules| rules.can_bury(now))
    }

    /// Commits what has changed in all marked queues as one batch; false when nothing has.
    pub(crate) fn record(&mut self, core: &mut Core) -> bool {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        let (mut places, mut trims) = (Vec::new(), Vec::new());
        for queue in self.marked.iter().filter_map(|id| self.by_id.get(id)) {
            let from = records.len();
            if queue.is_recorded()
                && let Some(form) = queue.put_news(&mut records)
            {
                places.push((state::cursor_of(queue.id), form, from..records.len()));
            }
            trims.extend(queue.trims());
        }
        let change = |(owner, form, range): &(Owner, Form, std::ops::Range<usize>)| match form {
            Form::Delta => (*owner, StateChange::Delta(&records[range.clone()])),
            Form::Snapshot => (*owner, StateChange::Snapshot(&records[range.clone()])),
        };
        let changes = places.iter().map(change).collect::<Vec<_>>();
        let something = !changes.is_empty() || !trims.is_empty();
        let batch = Batch { state: &changes, trims: &trims, ..Batch::default() };
        match if something { core.commit(&batch, SyncPolicy::None).map(drop) } else { Ok(()) } {
            Ok(()) => self.recorded(),
            Err(StorageError::Closed(_)) => {} // said once, by whoever noticed
            // The changes stay and are tried again with the next turn.
            Err(error) => tracing::error!(%error, "the state of queues cannot be stored"),
        }
        self.records = records;
        something
    }

    fn recorded(&mut self) {
        for id in &self.marked {
            if let Some(queue) = self.by_id.get_mut(id) {
                queue.recorded();
            }
        }
    }
}

/// A queue that has nothing to hand out stays in the list while something of it is to be recorded.
fn note_news(queue: &mut Queue, marked: &mut Vec<u64>) {
    if queue.has_news() && !std::mem::replace(&mut queue.marked, true) {
        marked.push(queue.id);
    }
}

/// Puts a queue into the list of those with something to do, once.
pub(crate) fn mark(queue: &mut Queue, marked: &mut Vec<u64>) {
    queue.wants_pump = true;
    if !queue.marked {
        queue.marked = true;
        marked.push(queue.id);
    }
}
