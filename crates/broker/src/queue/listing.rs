//! What operators are shown of queues beside what their users are.

use super::ConsumerId;
use super::queues::Queues;
use crate::connection::{ConsumerInfo, ConsumerLabel};

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
}
