//! What operators are shown of queues beside what their users are.

use model::{Name, Wall};

use super::queue::Queue;
use super::queues::Queues;
use super::{ConsumerId, QueueInfo, Tally};
use crate::connection::{ConsumerInfo, ConsumerLabel};

/// A queue as operators see it.
#[derive(Clone, Debug)]
pub struct QueueFacts {
    /// What its users see.
    pub info: QueueInfo,
    /// What has passed through it.
    pub tally: Tally,
    /// Bytes of ready messages and of those in flight, where they are counted: of queues with limits, lives or
    /// messages that a restart ends.
    pub bytes: Option<(u64, u64)>,
    /// Bytes of memory it takes, about.
    pub memory_bytes: u64,
    /// The consumer that is alone, if one asked for that.
    pub exclusive_consumer: Option<ConsumerId>,
    /// The one that is served, where only one is.
    pub active_consumer: Option<ConsumerId>,
    /// One of its consumers could be sent more.
    pub has_credit: bool,
    /// When something last happened to it, or it was declared or opened, to the second.
    pub moved_at: Wall,
}

impl Queue {
    /// Bytes of ready messages and of those in flight, if they are counted.
    fn counted_bytes(&self) -> Option<(u64, u64)> {
        self.tracks.iter().try_fold((0, 0), |(ready, held), track| {
            if track.cursor.uncounted().is_some() {
                return None;
            }
            let (all, waiting) = (track.cursor.sums()?.bytes, track.cursor.ready_bytes());
            Some((ready + waiting, held + all.saturating_sub(waiting)))
        })
    }

    /// Bytes of memory it takes, about.
    fn memory_bytes(&self) -> u64 {
        let fixed = size_of::<Queue>() + self.tracks.memory_bytes();
        (fixed + self.window_bytes()) as u64
    }
}

impl Queues {
    /// A consumer as it stands.
    pub(crate) fn consumer(&self, id: ConsumerId, label: &ConsumerLabel) -> Option<ConsumerInfo> {
        let queue = self.by_id.get(self.consumers.get(&id)?)?;
        let facts = queue.consumers.facts_of(id)?;
        Some(ConsumerInfo {
            id,
            tenant: queue.tenant.clone(),
            queue: queue.info.name.clone(),
            auto_settle: facts.auto_settle,
            exclusive: facts.exclusive,
            active: facts.active,
            label: label.clone(),
        })
    }

    /// The consumers of a queue.
    pub(crate) fn consumers_of(&self, tenant: &str, name: &str) -> Vec<ConsumerId> {
        let queue = self.id_of(tenant, name).and_then(|id| self.by_id.get(&id));
        queue.map_or_else(Vec::new, |queue| queue.consumers.ids())
    }

    /// The names of a tenant's queues, in order.
    pub(super) fn names(&self, tenant: &str) -> Vec<Name> {
        let mut all: Vec<Name> = self.names.get(tenant).into_iter().flat_map(|names| names.keys().cloned()).collect();
        all.sort_unstable();
        all
    }

    /// A queue as operators see it, whoever it is exclusive to.
    pub(super) fn facts(&self, tenant: &str, name: &str) -> Option<QueueFacts> {
        let queue = self.by_id.get(&self.id_of(tenant, name)?)?;
        let (exclusive_consumer, active_consumer) = queue.consumers.special();
        Some(QueueFacts {
            info: queue.describe(),
            tally: queue.tally.read(),
            bytes: queue.counted_bytes(),
            memory_bytes: queue.memory_bytes(),
            exclusive_consumer,
            active_consumer,
            has_credit: queue.consumers.has_credit(),
            moved_at: Wall(i64::from(queue.moved_s) * 1000),
        })
    }

    /// How many queues there are, messages ready in them, and in flight.
    pub(super) fn sums(&self, tenant: &str) -> (usize, u64, u64) {
        let ids = self.names.get(tenant).into_iter().flat_map(|names| names.values());
        ids.filter_map(|id| self.by_id.get(id)).fold((0, 0, 0), |(count, ready, flight), queue| {
            (count + 1, ready + queue.ready(), flight + queue.unsettled())
        })
    }
}
