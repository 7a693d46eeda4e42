//! A queue under policies: what it does then, from when on, and what changes at once for what is in it.

use model::Now;

use super::QueueOptions;
use super::queue::Queue;
use super::queues::{Queues, mark};
use super::rules::{Rules, pause};
use crate::core::Core;
use crate::policy::{Declared, Ruling, effective};

/// What is remembered of a queue that a policy rules.
#[derive(Debug)]
pub(crate) struct Ruled {
    /// What it was declared with.
    declared: QueueOptions,
    ruling: Ruling,
}

impl Queue {
    /// The policies that rule it.
    pub(super) fn ruling(&self) -> Ruling {
        let ruled = self.rules.as_ref().and_then(|rules| rules.ruled.as_ref());
        ruled.map(|ruled| ruled.ruling.clone()).unwrap_or_default()
    }

    /// From now on these policies rule it; false when that changes nothing. What is in it is looked at when it is
    /// marked next.
    fn govern(&mut self, ruling: Ruling, now: Now) -> bool {
        if self.ruling() == ruling {
            return false;
        }
        let shares = self.info.topic().is_some() && !self.info.owns_topic();
        let rules = self.rules.get_or_insert_default();
        let declared = match rules.ruled.take() {
            Some(ruled) => ruled.declared,
            None => rules.options.clone(),
        };
        rules.change(effective(Declared { options: &declared, shares }, &ruling), now);
        if rules.options.bytes_max.is_none() && !rules.mixed {
            // Its messages are not looked at any more.
            self.tracks.iter_mut().for_each(|track| track.cursor.drop_sums());
        }
        if !ruling.is_empty() {
            rules.ruled = Some(Box::new(Ruled { declared, ruling }));
        }
        if rules.options.dead_letters.is_none() && !rules.dying.is_empty() {
            // Nobody wants their letters any more.
            let dying = std::mem::take(&mut rules.dying);
            rules.retry_at = None;
            self.buried(&dying);
        }
        true
    }

    /// Whether it needs no rules any more.
    fn is_simple(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| {
            let idle = !rules.mixed && rules.dying.is_empty() && rules.ruled.is_none();
            idle && rules.options == QueueOptions::default()
        })
    }
}

impl Rules {
    /// It does this from now on.
    fn change(&mut self, options: QueueOptions, now: Now) {
        self.life = None; // its head's end is found anew
        if options.expires_ms != self.options.expires_ms {
            self.used_at = now.mono; // it is unused for that long from now on
        }
        if options.settle_ms_max != self.options.settle_ms_max {
            self.late_at = options.settle_ms_max.map(|ms| now.mono.plus(pause(ms)));
        }
        self.options = options;
    }
}

impl Queues {
    /// Finds the policies that rule a queue and has it act by them.
    pub(crate) fn govern_queue(&mut self, core: &mut Core, id: u64) {
        let Some(queue) = self.by_id.get_mut(&id) else { return };
        let ruling = self.policies.of_queue(&queue.tenant, &queue.info.name, queue.kind());
        if !queue.govern(ruling, core.now) {
            return;
        }
        mark(queue, &mut self.marked); // sets its timers
        if queue.is_simple() {
            let timer = queue.rules.take().and_then(|rules| rules.timer);
            self.timers.set(id, timer, None);
        }
        self.apply_retention(core, id);
    }

    /// The queues of a tenant.
    pub(crate) fn ids_of(&self, tenant: &str) -> Vec<u64> {
        let mut ids = self.names.get(tenant).into_iter().flat_map(|names| names.values().copied()).collect::<Vec<_>>();
        ids.sort_unstable(); // the same order on every run
        ids
    }

    /// How many queues a tenant has.
    pub(crate) fn count_of(&self, tenant: &str) -> usize {
        self.names.get(tenant).map_or(0, std::collections::HashMap::len)
    }
}
