//! Making, finding again after a start, emptying and removing queues.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use cluster::Command;
use cluster::meta::{self, QueueSource};
use model::{LogId, Name, Offset};
use storage::{Batch, Lsn, Owner, StateChange, SyncPolicy};

use super::count::count_rest;
use super::cursor::Cursor;
use super::queue::Queue;
use super::queues::{Queues, mark};
use super::record;
use super::track::Track;
use super::{Declared, QueueInfo, QueueKind, QueueSpec};
use crate::core::Core;
use crate::topic::LogSettings;
use crate::{BrokerError, Event, SessionId, state};

/// Queues taken out of the catalog together at the start: as it shows them they are large.
const REOPENED_AT_ONCE: usize = 64;

/// What becomes of a queue to be deleted.
pub(super) enum Deleted {
    /// It is gone; so many ready messages were in it.
    Done(u64, Lsn),
    /// It goes with this topic, which is to be deleted.
    WithTopic(u64, Name),
}

impl Queues {
    /// At the start: queues, exchanges and bindings of the catalog, cursors from the state records. What was in flight
    /// is ready again.
    pub(crate) fn recover(
        &mut self,
        core: &mut Core,
        records: Vec<(Owner, Vec<Bytes>)>,
        positions: &BTreeMap<u64, u64>,
    ) {
        let mut records = records.into_iter().map(|(owner, records)| (owner.id, records)).collect::<BTreeMap<_, _>>();
        self.recover_policies(core);
        let count = core.catalog.get().queues.len();
        self.by_id.reserve(count);
        self.by_log.reserve(count);
        let mut known = VecDeque::new();
        let mut last = None;
        loop {
            if known.is_empty() {
                known.extend(core.catalog.get().queues.after(last.as_ref()).take(REOPENED_AT_ONCE));
            }
            let Some(queue) = known.pop_front() else { break };
            last = Some((queue.tenant.clone(), queue.name.clone()));
            let mut cursors = Vec::new();
            for bytes in records.remove(&queue.id).unwrap_or_default() {
                if let Err(error) = record::replay(&bytes, &mut cursors) {
                    tracing::error!(queue = queue.name, %error, "a record of the queue's state is passed over");
                }
            }
            if let Err(error) = self.reopen(core, &queue, cursors) {
                tracing::error!(queue = queue.name, %error, "a queue cannot be opened");
            }
        }
        self.recover_exchanges(core);
        self.recover_feeds(core, positions);
        // Deleted just before the stop: the catalog has forgotten them, their state was still there.
        let gone = records.into_keys().map(|id| (state::cursor_of(id), StateChange::Drop)).collect::<Vec<_>>();
        if !gone.is_empty()
            && let Err(error) = core.commit(&Batch { state: &gone, ..Batch::default() }, SyncPolicy::None)
        {
            tracing::warn!(%error, "the state of deleted queues could not be dropped now");
        }
    }

    fn reopen(&mut self, core: &mut Core, queue: &meta::Queue, cursors: Vec<Cursor>) -> Result<(), BrokerError> {
        let key = (queue.tenant.clone(), queue.name.clone());
        let owns_topic = matches!(queue.source, QueueSource::Topic { owned: true, .. });
        let (topic, logs) = match &queue.source {
            QueueSource::Own { .. } => (None, queue.source.own_logs().map(LogId).collect::<Vec<_>>()),
            QueueSource::Topic { topic, .. } => {
                let Some(found) = core.catalog.get().topics.get(&(queue.tenant.clone(), topic.clone())) else {
                    // Its topic was deleted just before the stop.
                    core.run(&Command::DeleteQueue(key))?;
                    return Ok(());
                };
                (Some(Name::new(topic)?), found.partitions.iter().map(|partition| LogId(partition.log)).collect())
            }
        };
        let mut cursors = cursors.into_iter().map(|cursor| (cursor.log, cursor)).collect::<HashMap<_, _>>();
        let tracks = logs.iter().map(|&log| {
            let (start, end) = visible(core, log);
            let mut cursor = cursors.remove(&log).unwrap_or_else(|| Cursor::new(log, 0));
            count_rest(core, &mut cursor, end, queue.options().kind);
            cursor.reopen(start, end);
            Track::new(cursor)
        });
        let tracks = tracks.collect();
        let spec = QueueSpec {
            tenant: Name::new(&queue.tenant)?,
            name: Name::new(&queue.name)?,
            durable: queue.durable,
            exclusive: false,
            auto_delete: queue.auto_delete,
            topic,
            arguments: queue.arguments.clone(),
            argument_types: queue.argument_types.clone(),
            options: queue.options(),
        };
        let mut queue = Queue::new(queue.id, &spec, None, tracks, core.now);
        queue.info.own_topic(owns_topic);
        if queue.rules.is_some() {
            mark(&mut queue, &mut self.marked); // sets its timers
        }
        let id = queue.id;
        self.insert(queue);
        self.govern_queue(core, id);
        Ok(())
    }

    /// Makes a queue, or finds it.
    pub(super) fn declare(
        &mut self,
        core: &mut Core,
        session: SessionId,
        spec: &QueueSpec,
    ) -> Result<Declared, BrokerError> {
        match self.find(session, &spec.tenant, &spec.name) {
            Ok(queue) => {
                core.connections.past.queues_declared += 1;
                let lsn = if queue.is_stored() { core.catalog.last_change() } else { Lsn::default() };
                let declared = Declared { info: queue.describe(), created: false, lsn };
                self.find_mut(session, &spec.tenant, &spec.name)?.used(core.now);
                return Ok(declared);
            }
            Err(BrokerError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        self.has_room_for(core, spec)?;
        if spec.options.kind == QueueKind::Stream {
            return self.make_stream(core, spec);
        }
        if core.topics.get(&spec.tenant, &spec.name).is_some() {
            return Err(BrokerError::Exists { kind: "topic", name: spec.name.as_str().to_owned() });
        }
        let logs = match &spec.topic {
            None => None,
            Some(topic) => {
                let missing = || BrokerError::Missing { kind: "topic", name: topic.as_str().to_owned() };
                Some(core.topics.get(&spec.tenant, topic).ok_or_else(missing)?.partitions.clone())
            }
        };
        let id = core.new_log_id()?.0;
        let (tracks, source) = match logs {
            Some(logs) => {
                let topic = spec.topic.as_ref().map_or("", Name::as_str).to_owned();
                (logs.iter().map(|&log| shared_track(core, log)).collect(), QueueSource::Topic { topic, owned: false })
            }
            None => {
                let more = spec.options.priority_max.unwrap_or(0);
                let log = core.new_log_id()?;
                // Ids are given one after the other: those of the higher priorities follow.
                let mut logs = vec![log];
                for _ in 0..more {
                    logs.push(core.new_log_id()?);
                }
                let tracks = logs.into_iter().map(|log| Track::new(Cursor::new(log, 0))).collect();
                (tracks, QueueSource::Own { log: log.0, more })
            }
        };
        let owner = spec.exclusive.then_some(session);
        let mut queue = Queue::new(id, spec, owner, tracks, core.now);
        let lsn =
            if queue.is_stored() { core.run(&Command::CreateQueue(stored(id, spec, source)))? } else { Lsn::default() };
        for log in queue.own_logs() {
            core.partitions.add(log, Offset::ZERO, LogSettings::of_queue(queue.kind()));
        }
        if queue.rules.is_some() {
            mark(&mut queue, &mut self.marked); // sets its timers
        }
        if owner.is_some() {
            self.sessions.entry(session).or_default().insert(id);
        }
        self.insert(queue);
        core.connections.past.queues_declared += 1;
        core.connections.past.queues_created += 1;
        self.govern_queue(core, id);
        let info = self.find(session, &spec.tenant, &spec.name)?.describe();
        Ok(Declared { info, created: true, lsn })
    }

    /// Whether the tenant is there and may have one more queue.
    fn has_room_for(&self, core: &Core, spec: &QueueSpec) -> Result<(), BrokerError> {
        let max = core.tenant_of(&spec.tenant)?.limits.queues_max;
        let count = self.names.get(&spec.tenant).map_or(0, HashMap::len) as u64;
        match max {
            Some(max) if count >= max => Err(BrokerError::Limit { kind: "queue", name: spec.name.to_string(), max }),
            _ => Ok(()),
        }
    }

    /// Makes a queue findable.
    pub(super) fn insert(&mut self, queue: Queue) {
        let tenant = self.names.entry(queue.tenant.clone()).or_default();
        tenant.insert(queue.info.name.clone(), queue.id);
        queue.tracks.iter().for_each(|track| self.by_log.insert(track.cursor.log, queue.id));
        self.by_id.insert(queue.id, Box::new(queue));
    }

    /// All queues of a tenant, by name.
    pub(super) fn list(&self, tenant: &str) -> Vec<QueueInfo> {
        let ids = self.names.get(tenant).into_iter().flat_map(HashMap::values);
        let mut all = ids.filter_map(|id| self.by_id.get(id)).map(|queue| queue.describe()).collect::<Vec<_>>();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Drops all ready messages.
    pub(super) fn purge(
        &mut self,
        core: &mut Core,
        session: SessionId,
        (tenant, name): (&str, &str),
    ) -> Result<(u64, Lsn), BrokerError> {
        let queue = self.find_mut(session, tenant, name)?;
        if queue.is_stream() {
            return Err(BrokerError::Invalid(format!("queue '{name}' is a stream: what it keeps, it keeps for all")));
        }
        let count = queue.purge();
        // Recorded with this turn, as acks are; an empty batch says which turn that is.
        let lsn = core.commit(&Batch::default(), SyncPolicy::None)?;
        Ok((count, lsn))
    }

    /// Removes a queue if the conditions hold; a missing one is no error. One that has a topic of its own is left to
    /// whoever removes that.
    pub(super) fn delete(
        &mut self,
        core: &mut Core,
        session: SessionId,
        (tenant, name): (&str, &str),
        (if_unused, if_empty): (bool, bool),
    ) -> Result<Deleted, BrokerError> {
        let queue = match self.find(session, tenant, name) {
            Ok(queue) => queue,
            Err(BrokerError::Missing { .. }) => return Ok(Deleted::Done(0, core.catalog.last_change())),
            Err(error) => return Err(error),
        };
        let (id, ready) = (queue.id, queue.ready());
        let in_use = |why| Err(BrokerError::InUse { name: name.to_owned(), why });
        if if_unused && queue.consumers.count() > 0 {
            return in_use("in use");
        }
        if if_empty && ready > 0 {
            return in_use("not empty");
        }
        if let Some(topic) = queue.info.topic().filter(|_| queue.info.owns_topic()) {
            return Ok(Deleted::WithTopic(ready, topic.clone()));
        }
        Ok(Deleted::Done(ready, self.remove(core, id)?))
    }

    /// A topic is gone; its logs too, right after this. Queues that shared it go with it.
    pub(crate) fn topic_deleted(&mut self, core: &mut Core, tenant: &str, topic: &str) {
        self.feed_deleted(core, tenant, topic);
        let shares = |queue: &&Queue| &*queue.tenant == tenant && queue.info.topic().map(|name| &**name) == Some(topic);
        let mut gone =
            self.by_id.values().map(|queue| &**queue).filter(shares).map(|queue| queue.id).collect::<Vec<_>>();
        gone.sort_unstable(); // the same order on every run
        for id in gone {
            self.remove_or_log(core, id);
        }
    }

    /// A topic has got partitions: queues over it run over them too.
    pub(crate) fn topic_grown(&mut self, tenant: &str, topic: &str, logs: &[LogId]) {
        for queue in self.by_id.values_mut() {
            if &*queue.tenant == tenant && queue.info.topic().map(|name| &**name) == Some(topic) {
                if let Some(readers) = queue.rules.as_deref_mut().and_then(|rules| rules.readers.as_deref_mut()) {
                    readers.grown(queue.info.partitions().len(), logs);
                }
                if let Some(shares) = &mut queue.info.shares {
                    shares.partitions.extend(logs);
                }
                // Behind the others, since ids ascend.
                queue.tracks.extend(logs.iter().map(|log| Track::new(Cursor::new(*log, 0))));
                logs.iter().for_each(|log| self.by_log.insert(*log, queue.id));
            }
        }
    }

    /// A tenant goes: its queues, exchanges, bindings and mailboxes with it. Its topics go right after this.
    pub(crate) fn remove_all_of(&mut self, core: &mut Core, tenant: &str) -> Result<(), BrokerError> {
        let mut gone = self.names.get(tenant).into_iter().flat_map(HashMap::values).copied().collect::<Vec<_>>();
        gone.sort_unstable(); // the same order on every run
        for id in gone {
            self.remove(core, id)?;
        }
        self.names.remove(tenant);
        self.remove_exchanges_of(core, tenant)?;
        self.mailboxes.tenant_gone(tenant);
        Ok(())
    }

    /// Removes a queue where nobody waits for an answer.
    pub(super) fn remove_or_log(&mut self, core: &mut Core, id: u64) {
        if let Err(error) = self.remove(core, id) {
            tracing::error!(queue = id, %error, "a queue could not be removed");
        }
    }

    /// Removes a queue, its bindings, its log and its state; tells its consumers.
    fn remove(&mut self, core: &mut Core, id: u64) -> Result<Lsn, BrokerError> {
        let Some(queue) = self.by_id.get(&id) else { return Ok(Lsn::default()) };
        let (tenant, name) = (queue.tenant.clone(), queue.info.name.clone());
        let mut lsn = Lsn::default();
        if queue.is_stored() {
            lsn = core.run(&Command::DeleteQueue((tenant.to_string(), name.to_string())))?;
        }
        let Some(mut queue) = self.by_id.remove(&id) else { return Ok(lsn) };
        core.connections.past.queues_deleted += 1;
        if let Some(names) = self.names.get_mut(&*tenant) {
            names.remove(&*name);
        }
        for track in &queue.tracks {
            self.by_log.remove(track.cursor.log, id);
        }
        self.windows_bytes = self.windows_bytes.saturating_sub(queue.close_windows());
        self.disarm(&queue);
        let mut sessions = queue.holders();
        for (session, consumer) in queue.consumers.remove_all() {
            sessions.insert(session);
            self.consumers.remove(&consumer);
            core.connections.consumer_closed(consumer);
            let its = |event: &Event| matches!(event, Event::Deliver(whose, _) if *whose == consumer);
            drop(core.events.take_where(session, its));
            core.events.push(session, Event::ConsumerCancelled(consumer));
        }
        for (session, call) in queue.getters.take() {
            core.events.push(session, Event::GetReady(call)); // asked again, it is told that there is no queue
        }
        for session in sessions {
            if let Some(touched) = self.sessions.get_mut(&session) {
                touched.remove(&id);
            }
        }
        lsn = lsn.max(self.unbind_queue(core, &tenant, id)?);
        if queue.is_stored() {
            let dropped = [(state::cursor_of(id), StateChange::Drop)];
            core.commit(&Batch { state: &dropped, ..Batch::default() }, SyncPolicy::None)?;
        }
        let logs = queue.own_logs().collect::<Vec<_>>();
        if !logs.is_empty() {
            core.drop_logs(&logs);
        }
        Ok(lsn)
    }
}

/// What readers may see of a log.
fn visible(core: &Core, log: LogId) -> (u64, u64) {
    let start = core.storage.range(log).map_or(0, |range| range.start.0);
    (start, core.partitions.watermark(log).map_or(start, |end| end.0))
}

/// A cursor over a topic's partition, from the earliest message on.
pub(super) fn shared_track(core: &Core, log: LogId) -> Track {
    let (start, end) = visible(core, log);
    let mut cursor = Cursor::new(log, start);
    cursor.visible(end);
    Track::new(cursor)
}

/// A queue as the catalog keeps it.
pub(super) fn stored(id: u64, spec: &QueueSpec, source: QueueSource) -> meta::Queue {
    meta::Queue {
        tenant: spec.tenant.to_string(),
        name: spec.name.to_string(),
        id,
        source,
        durable: spec.durable,
        auto_delete: spec.auto_delete,
        exclusive: false,
        arguments: spec.arguments.clone(),
        argument_types: spec.argument_types.clone(),
        options: spec.options.clone().stored(),
    }
}
