//! The consumers of one queue: who has credit and whose turn it is.

use model::FormatTag;

use super::{ConsumeSpec, ConsumerId, Delivery};
use crate::SessionId;
use crate::events::Events;

/// One consumer.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) id: ConsumerId,
    pub(super) session: SessionId,
    pub(super) auto_settle: bool,
    /// Messages it may still be sent.
    pub(super) credit: u32,
    /// The format in which stored units are handed on as they are.
    pub(super) wanted: FormatTag,
    priority: i32,
    /// What this turn has for it.
    pub(super) batch: Vec<Delivery>,
}

/// What operators want to know of a consumer.
#[derive(Clone, Copy)]
pub(super) struct ConsumerFacts {
    pub(super) auto_settle: bool,
    pub(super) exclusive: bool,
    pub(super) active: bool,
}

/// All consumers of a queue.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    /// By priority, the highest first; of one priority in the order they came.
    list: Vec<Consumer>,
    /// Whose turn it is.
    at: usize,
    /// Only one is served: the one that came first.
    single: bool,
    /// The one that is served, if only one is.
    active: Option<ConsumerId>,
    /// The one consumer there is wants to stay alone.
    exclusive: bool,
}

impl Consumers {
    /// No consumers; only one at a time is served if `single`.
    pub(super) fn new(single: bool) -> Consumers {
        Consumers { single, ..Consumers::default() }
    }

    /// Adds a consumer; false when it cannot be because one of them is, or would be, exclusive. Where only one is
    /// served nobody can be exclusive.
    pub(super) fn add(&mut self, id: ConsumerId, session: SessionId, spec: ConsumeSpec, wanted: FormatTag) -> bool {
        if self.exclusive || (spec.exclusive && (self.single || !self.list.is_empty())) {
            return false;
        }
        self.exclusive = spec.exclusive;
        let ConsumeSpec { auto_settle, credit, priority, .. } = spec;
        let at = self.list.partition_point(|other| other.priority >= priority);
        if at < self.at {
            self.at += 1; // the next in turn stays the next in turn
        }
        self.list.insert(at, Consumer { id, session, auto_settle, credit, wanted, priority, batch: Vec::new() });
        self.elect();
        true
    }

    /// Removes a consumer; answers whose it was.
    pub(super) fn remove(&mut self, id: ConsumerId) -> Option<SessionId> {
        let at = self.list.iter().position(|consumer| consumer.id == id)?;
        self.at -= usize::from(at < self.at); // the next in turn stays the next in turn
        let gone = self.list.remove(at);
        self.exclusive &= !self.list.is_empty();
        self.elect();
        Some(gone.session)
    }

    /// Removes all consumers of a session; answers their names.
    pub(super) fn remove_session(&mut self, session: SessionId) -> Vec<ConsumerId> {
        let is_its = |consumer: &Consumer| consumer.session == session;
        self.at -= self.list.iter().take(self.at).filter(|consumer| is_its(consumer)).count(); // as above
        let (gone, kept) = std::mem::take(&mut self.list).into_iter().partition::<Vec<_>, _>(is_its);
        self.list = kept;
        self.exclusive &= !self.list.is_empty();
        self.elect();
        gone.into_iter().map(|consumer| consumer.id).collect()
    }

    /// Removes all consumers; answers whose they were.
    pub(super) fn remove_all(&mut self) -> Vec<(SessionId, ConsumerId)> {
        self.exclusive = false;
        self.at = 0;
        self.active = None;
        self.list.drain(..).map(|consumer| (consumer.session, consumer.id)).collect()
    }

    /// Where only one is served: keeps it while it is there, else takes the next.
    fn elect(&mut self) {
        if self.single && !self.active.is_some_and(|id| self.list.iter().any(|consumer| consumer.id == id)) {
            self.active = self.list.first().map(|consumer| consumer.id);
        }
    }

    /// One of them.
    pub(super) fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.list.iter_mut().find(|consumer| consumer.id == id)
    }

    /// Grants credit.
    pub(super) fn grant(&mut self, id: ConsumerId, more: u32) {
        if let Some(consumer) = self.get_mut(id) {
            consumer.credit = consumer.credit.saturating_add(more);
        }
    }

    /// The next in turn that has credit, of the highest priority that has any. It stays in turn until
    /// [`Consumers::served`].
    pub(super) fn next_with_credit(&mut self) -> Option<&mut Consumer> {
        if self.single {
            let active = self.active?;
            self.at = self.list.iter().position(|consumer| consumer.id == active)?;
            return self.list.get_mut(self.at).filter(|consumer| consumer.credit > 0);
        }
        // The list is cut into runs of one priority; within one, from whose turn it is.
        let mut from = 0;
        while let Some(first) = self.list.get(from) {
            let priority = first.priority;
            let to = from + self.list[from..].partition_point(|consumer| consumer.priority == priority);
            let start = if (from..to).contains(&self.at) { self.at } else { from };
            let found = (start..to).chain(from..start).find(|&at| self.list[at].credit > 0);
            if let Some(at) = found {
                self.at = at;
                return self.list.get_mut(at);
            }
            from = to;
        }
        None
    }

    /// The one in turn was served with `delivery`: the turn goes on.
    pub(super) fn served(&mut self, delivery: Delivery, events: &mut Events) {
        if let Some(consumer) = self.list.get_mut(self.at) {
            consumer.credit -= 1;
            if consumer.batch.capacity() == 0 {
                consumer.batch = events.batch();
            }
            consumer.batch.push(delivery);
        }
        self.at += 1;
    }

    /// Whether one of them could be served.
    pub(super) fn has_credit(&self) -> bool {
        let served = |consumer: &&Consumer| !self.single || self.active == Some(consumer.id);
        self.list.iter().filter(served).any(|consumer| consumer.credit > 0)
    }

    /// Takes out what was gathered for each since the last call.
    pub(super) fn batches(&mut self) -> impl Iterator<Item = (SessionId, ConsumerId, Vec<Delivery>)> {
        let filled = self.list.iter_mut().filter(|consumer| !consumer.batch.is_empty());
        filled.map(|consumer| (consumer.session, consumer.id, std::mem::take(&mut consumer.batch)))
    }

    /// Of one of them: whether it settles, whether it is alone, whether it is served.
    pub(super) fn facts_of(&self, id: ConsumerId) -> Option<ConsumerFacts> {
        let consumer = self.list.iter().find(|consumer| consumer.id == id)?;
        let active = !self.single || self.active == Some(id);
        Some(ConsumerFacts { auto_settle: consumer.auto_settle, exclusive: self.exclusive, active })
    }

    /// The one that is alone, and the one that is served where only one is.
    pub(super) fn special(&self) -> (Option<ConsumerId>, Option<ConsumerId>) {
        let alone = self.list.first().filter(|_| self.exclusive).map(|consumer| consumer.id);
        (alone, self.active.filter(|_| self.single))
    }

    /// All of them, those that are served first in front.
    pub(super) fn ids(&self) -> Vec<ConsumerId> {
        self.list.iter().map(|consumer| consumer.id).collect()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(credit: u32, exclusive: bool) -> ConsumeSpec {
        ConsumeSpec { auto_settle: false, exclusive, credit, priority: 0 }
    }

    fn add(all: &mut Consumers, id: u64, credit: u32, exclusive: bool) -> bool {
        all.add(ConsumerId(id), SessionId(id / 10), spec(credit, exclusive), FormatTag(2))
    }

    fn serve(all: &mut Consumers) -> Option<u64> {
        let next = all.next_with_credit()?;
        next.credit -= 1;
        let id = next.id.0;
        all.at += 1;
        Some(id)
    }

    #[test]
    fn those_with_credit_are_served_in_turn() {
        let mut all = Consumers::default();
        for (id, credit) in [(1, 2), (2, 0), (3, 3)] {
            assert!(add(&mut all, id, credit, false));
        }
        let order: Vec<_> = std::iter::from_fn(|| serve(&mut all)).collect();
        assert_eq!(order, [1, 3, 1, 3, 3]);
        all.grant(ConsumerId(2), 1);
        assert_eq!(serve(&mut all), Some(2));
    }

    #[test]
    fn an_exclusive_consumer_is_alone_until_it_leaves() {
        let mut all = Consumers::default();
        assert!(add(&mut all, 10, 1, false));
        assert!(!add(&mut all, 20, 1, true), "others have consumers");
        assert_eq!(all.remove_session(SessionId(1)), [ConsumerId(10)]);
        assert!(add(&mut all, 20, 1, true));
        assert!(!add(&mut all, 30, 1, false));
        assert_eq!(all.remove(ConsumerId(20)), Some(SessionId(2)));
        assert_eq!(all.remove(ConsumerId(20)), None);
        assert!(add(&mut all, 30, 1, false));
        assert_eq!(all.remove_all(), [(SessionId(3), ConsumerId(30))]);
        assert_eq!(serve(&mut all), None);
    }

    #[test]
    fn leaving_does_not_skip_the_next_in_turn() {
        let mut all = Consumers::default();
        for id in 1..=3 {
            add(&mut all, id, 9, false);
        }
        assert_eq!((serve(&mut all), serve(&mut all)), (Some(1), Some(2)));
        all.remove(ConsumerId(1));
        assert_eq!(serve(&mut all), Some(3));
        all.remove(ConsumerId(3));
        assert_eq!(serve(&mut all), Some(2));
    }

    #[test]
    fn lower_priorities_are_served_when_all_higher_ones_lack_credit() {
        let mut all = Consumers::default();
        for (id, credit, priority) in [(1, 9, 0), (2, 2, 5), (3, 1, 5), (4, 9, -1)] {
            let spec = ConsumeSpec { priority, ..spec(credit, false) };
            assert!(all.add(ConsumerId(id), SessionId(1), spec, FormatTag(2)));
        }
        let order: Vec<_> = std::iter::from_fn(|| serve(&mut all)).take(6).collect();
        assert_eq!(order, [2, 3, 2, 1, 1, 1]);
        all.grant(ConsumerId(3), 1);
        assert_eq!(serve(&mut all), Some(3));
    }

    #[test]
    fn a_single_active_consumer_keeps_its_place_until_it_leaves() {
        let mut all = Consumers::new(true);
        for id in [1, 2, 3] {
            assert!(add(&mut all, id, 2, false));
        }
        assert!(!add(&mut all, 4, 1, true), "nobody can be exclusive beside others that wait");
        assert_eq!((serve(&mut all), serve(&mut all), serve(&mut all)), (Some(1), Some(1), None));
        assert!(!all.has_credit());
        all.remove(ConsumerId(1));
        assert_eq!(serve(&mut all), Some(2));
    }
}
