//! Topics that feed queues: what is bound to a topic, and how far each of its logs has been fed. The topic's producers
//! know nothing of it.
//!
//! Pure state: reading, converting and storing is in `feeding.rs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{LogId, Name};
use storage::ReadId;

use super::exchange::{Arguments, Exchange};
use super::headers::Pattern;
use super::table::{Dest, Opened};
use super::{ExchangeKind, ExchangeSpec};
use crate::id_map::IdMap;

/// One binding.
pub(super) type Bound<'a> = (Dest, &'a Name, &'a Arguments);

/// Bindings by key pattern, and those whose arguments ask for headers.
pub(super) struct Bindings {
    by_key: Exchange,
    by_headers: Exchange,
}

impl Bindings {
    fn new(tenant: &Name, topic: &Name) -> Bindings {
        let empty = |kind| {
            Exchange::new(ExchangeSpec {
                tenant: tenant.clone(),
                name: topic.clone(),
                kind,
                durable: true,
                auto_delete: false,
                internal: true,
                alternate: None,
                delayed: false,
                number: 0,
                arguments: BTreeMap::new(),
            })
        };
        Bindings { by_key: empty(ExchangeKind::Topic), by_headers: empty(ExchangeKind::Headers) }
    }

    fn of(&mut self, arguments: &Arguments) -> &mut Exchange {
        if Pattern::is_in(arguments) { &mut self.by_headers } else { &mut self.by_key }
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = Bound<'_>> {
        self.by_key.bindings().chain(self.by_headers.bindings())
    }

    /// Whether that binding is there.
    pub(super) fn has(&self, (dest, key, arguments): Bound<'_>) -> bool {
        self.by_key.has(dest, key, arguments) || self.by_headers.has(dest, key, arguments)
    }

    fn bind(&mut self, (dest, key, arguments): Bound<'_>) {
        self.of(arguments).bind(dest, key, arguments);
    }

    fn unbind(&mut self, (dest, key, arguments): Bound<'_>) {
        self.of(arguments).unbind(dest, key, arguments);
    }

    fn unbind_all(&mut self, dest: Dest) {
        self.by_key.unbind_all(dest);
        self.by_headers.unbind_all(dest);
    }

    fn is_empty(&self) -> bool {
        self.by_key.is_unused() && self.by_headers.is_unused()
    }

    /// Calls `visit` with the destinations of a message; perhaps twice with one.
    fn find(&mut self, key: &str, headers: &mut Opened<'_>, mut visit: impl FnMut(Dest)) {
        self.by_key.find(key, headers, &mut visit);
        if !self.by_headers.is_unused() {
            self.by_headers.find(key, headers, visit);
        }
    }
}

/// How far one log has been fed.
pub(super) struct Lane {
    /// The log.
    pub(super) log: LogId,
    /// Everything before has been fed.
    pub(super) next: u64,
    /// What may be read ends here.
    pub(super) end: u64,
    /// The read it waits for.
    pub(super) waits: Option<ReadId>,
    /// Set while bindings do not count yet.
    later: Option<Box<Later>>,
}

/// Bindings of a log that has not been fed as far as it went when they were made.
struct Later {
    /// By where the log ended then.
    due: BTreeMap<u64, Vec<Owned>>,
    /// Those that count already.
    now: Bindings,
}

type Owned = (Dest, Name, Arguments);

impl Lane {
    fn new(log: LogId, next: u64) -> Lane {
        Lane { log, next, end: next, waits: None, later: None }
    }

    /// Whether there is something to feed that can be read.
    pub(super) fn is_ready(&self) -> bool {
        self.waits.is_none() && self.next < self.end
    }
}

/// One topic that feeds.
pub(super) struct Feed {
    pub(super) tenant: Name,
    pub(super) topic: Name,
    /// In the order of the topic's partitions.
    pub(super) lanes: Vec<Lane>,
    bindings: Bindings,
    /// Destinations that survive a restart: while there is one, the position is stored.
    lasting: BTreeSet<Dest>,
}

impl Feed {
    /// Of a topic whose logs end at `ends`.
    pub(super) fn new(tenant: &Name, topic: &Name, ends: &[(u64, u64)]) -> Feed {
        let lane = |&(log, next): &(u64, u64)| Lane::new(LogId(log), next);
        Feed {
            tenant: tenant.clone(),
            topic: topic.clone(),
            lanes: ends.iter().map(lane).collect(),
            bindings: Bindings::new(tenant, topic),
            lasting: BTreeSet::new(),
        }
    }

    /// Whether its position survives a restart.
    pub(super) fn is_stored(&self) -> bool {
        !self.lasting.is_empty()
    }

    /// What is bound.
    pub(super) fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// Adds a binding that counts from `since` on in each log.
    pub(super) fn bind(&mut self, bound: Bound<'_>, since: &[(u64, u64)], lasts: bool) {
        for lane in &mut self.lanes {
            let from = since.iter().find(|(log, _)| *log == lane.log.0).map_or(0, |(_, from)| *from);
            if from <= lane.next {
                if let Some(later) = &mut lane.later {
                    later.now.bind(bound);
                }
                continue;
            }
            let later = lane.later.get_or_insert_with(|| {
                let mut now = Bindings::new(&self.tenant, &self.topic);
                self.bindings.all().for_each(|bound| now.bind(bound));
                Box::new(Later { due: BTreeMap::new(), now })
            });
            let (dest, key, arguments) = bound;
            later.due.entry(from).or_default().push((dest, key.clone(), arguments.clone()));
        }
        self.bindings.bind(bound);
        if lasts {
            self.lasting.insert(bound.0);
        }
    }

    /// Removes a binding.
    pub(super) fn unbind(&mut self, bound: Bound<'_>) {
        self.bindings.unbind(bound);
        for later in self.lanes.iter_mut().filter_map(|lane| lane.later.as_mut()) {
            later.now.unbind(bound);
            for all in later.due.values_mut() {
                all.retain(|(dest, key, arguments)| (*dest, key, arguments) != bound);
            }
        }
        if !self.bindings.all().any(|(dest, ..)| dest == bound.0) {
            self.lasting.remove(&bound.0);
        }
    }

    /// Removes all bindings to a destination; true when none are left at all.
    pub(super) fn unbind_all(&mut self, dest: Dest) -> bool {
        self.bindings.unbind_all(dest);
        for later in self.lanes.iter_mut().filter_map(|lane| lane.later.as_mut()) {
            later.now.unbind_all(dest);
            later.due.values_mut().for_each(|all| all.retain(|(known, ..)| *known != dest));
        }
        self.lasting.remove(&dest);
        self.bindings.is_empty()
    }

    /// Calls `visit` with the destinations of the message at `offset` of lane `at`; perhaps twice with one. Offsets
    /// must not go back.
    pub(super) fn find(
        &mut self,
        (at, offset): (usize, u64),
        key: &str,
        headers: &mut Opened<'_>,
        visit: impl FnMut(Dest),
    ) {
        let Some(lane) = self.lanes.get_mut(at) else { return };
        if let Some(later) = &mut lane.later {
            while let Some(due) = later.due.first_entry().filter(|due| *due.key() <= offset) {
                due.remove().iter().for_each(|(dest, key, arguments)| later.now.bind((*dest, key, arguments)));
            }
            if !later.due.is_empty() {
                return later.now.find(key, headers, visit);
            }
            lane.later = None;
        }
        self.bindings.find(key, headers, visit);
    }
}

/// All topics that feed.
#[derive(Default)]
pub(crate) struct Feeds {
    /// Tenant → topic → number.
    names: HashMap<Name, HashMap<Name, u64>>,
    pub(super) by_number: BTreeMap<u64, Feed>,
    by_log: IdMap<LogId, (u64, usize)>,
    last: u64,
    /// Lanes that may have something to feed.
    pub(super) ready: Vec<(u64, usize)>,
    /// Feeding failed for now: it is tried again then.
    pub(super) again_at: Option<model::Mono>,
}

impl Feeds {
    /// Whether nothing waits to be fed now.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty()
    }

    /// The feed of a topic.
    pub(super) fn get(&self, tenant: &str, topic: &str) -> Option<&Feed> {
        self.by_number.get(self.names.get(tenant)?.get(topic)?)
    }

    /// The feed of a topic, to change it.
    pub(super) fn get_mut(&mut self, tenant: &str, topic: &str) -> Option<&mut Feed> {
        self.by_number.get_mut(self.names.get(tenant)?.get(topic)?)
    }

    /// Adds a feed.
    pub(super) fn insert(&mut self, feed: Feed) {
        self.last += 1;
        self.names.entry(feed.tenant.clone()).or_default().insert(feed.topic.clone(), self.last);
        self.by_log.extend(feed.lanes.iter().enumerate().map(|(at, lane)| (lane.log, (self.last, at))));
        self.by_number.insert(self.last, feed);
    }

    /// A topic has got partitions: what is appended to them is fed from the first message on.
    pub(crate) fn grown(&mut self, tenant: &str, topic: &str, logs: &[LogId]) {
        let Some(&number) = self.names.get(tenant).and_then(|names| names.get(topic)) else { return };
        let Some(feed) = self.by_number.get_mut(&number) else { return };
        for log in logs {
            self.by_log.insert(*log, (number, feed.lanes.len()));
            feed.lanes.push(Lane::new(*log, 0));
        }
    }

    /// Removes the feed of a topic.
    pub(super) fn remove(&mut self, tenant: &str, topic: &str) -> Option<Feed> {
        let number = self.names.get_mut(tenant)?.remove(topic)?;
        let feed = self.by_number.remove(&number)?;
        for lane in &feed.lanes {
            self.by_log.remove(&lane.log);
        }
        self.ready.retain(|(known, _)| *known != number);
        Some(feed)
    }

    /// All feeds of a tenant.
    pub(super) fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = &Feed> {
        self.names.get(tenant).into_iter().flat_map(HashMap::values).filter_map(|number| self.by_number.get(number))
    }

    /// Removes all bindings to a destination; answers the topics that feed nothing any more.
    pub(super) fn unbind_all(&mut self, tenant: &str, dest: Dest) -> Vec<Name> {
        let numbers = self.names.get(tenant).into_iter().flat_map(HashMap::values);
        let mut idle = Vec::new();
        for number in numbers {
            if let Some(feed) = self.by_number.get_mut(number)
                && feed.unbind_all(dest)
            {
                idle.push(feed.topic.clone());
            }
        }
        idle
    }

    /// The watermark of a log has moved.
    pub(crate) fn log_moved(&mut self, log: LogId, end: u64) {
        let Some(&(number, at)) = self.by_log.get(&log) else { return };
        if let Some(lane) = self.by_number.get_mut(&number).and_then(|feed| feed.lanes.get_mut(at)) {
            lane.end = lane.end.max(end);
            if !self.ready.contains(&(number, at)) {
                self.ready.push((number, at));
            }
        }
    }

    /// A read can be asked again. Also called for reads of others.
    pub(crate) fn read_ready(&mut self, read: ReadId) {
        for (number, feed) in &mut self.by_number {
            for (at, lane) in feed.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.waits == Some(read)) {
                lane.waits = None;
                self.ready.push((*number, at));
            }
        }
    }

    /// The stored position of a log that feeds; `None` when it does not, or nothing of it is stored.
    pub(crate) fn position(&self, log: LogId) -> Option<u64> {
        let (number, at) = self.by_log.get(&log)?;
        let feed = self.by_number.get(number).filter(|feed| feed.is_stored())?;
        feed.lanes.get(*at).map(|lane| lane.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::no_headers;

    fn found(feed: &mut Feed, offset: u64, key: &str) -> Vec<Dest> {
        let mut all = Vec::new();
        feed.find((0, offset), key, &mut Opened::new(&no_headers), |dest| all.push(dest));
        all
    }

    #[test]
    fn a_binding_made_while_the_feed_lags_counts_from_where_the_log_ended_then() {
        let (name, none) = (Name::fixed("t"), Arguments::new());
        let mut feed = Feed::new(&name, &name, &[(1, 10)]);
        let key = Name::fixed("#");
        feed.bind((Dest::Queue(1), &key, &none), &[(1, 10)], true);
        feed.bind((Dest::Queue(2), &key, &none), &[(1, 12)], false);
        feed.bind((Dest::Queue(3), &key, &none), &[(1, 13)], true);
        feed.bind((Dest::Queue(4), &key, &none), &[(1, 13)], true);
        feed.unbind((Dest::Queue(4), &key, &none));
        let queues = |all: &[u64]| all.iter().copied().map(Dest::Queue).collect::<Vec<_>>();
        assert_eq!(found(&mut feed, 11, "k"), queues(&[1]));
        assert_eq!(found(&mut feed, 12, "k"), queues(&[1, 2]));
        assert!(feed.lanes[0].later.is_some());
        assert_eq!(found(&mut feed, 13, "k"), queues(&[1, 2, 3]));
        assert!(feed.lanes[0].later.is_none());
        assert!(!feed.unbind_all(Dest::Queue(1)) && !feed.unbind_all(Dest::Queue(2)) && feed.is_stored());
        assert!(feed.unbind_all(Dest::Queue(3)) && !feed.is_stored());
    }
}
