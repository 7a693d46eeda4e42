//! The policies of all tenants, compiled: which rule an object of a name. Changed when one is put or removed, asked
//! when an object is made.

use std::collections::HashMap;
use std::sync::Arc;

use cluster::meta::Catalog;

use super::{AppliesTo, Policy, PolicyKey, Ruling};
use crate::BrokerError;
use crate::pattern::Pattern;
use crate::queue::QueueKind;

/// The policies of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// Tenant → its policies, and its operators', each the one that goes before others first.
    by_tenant: HashMap<String, [Vec<Compiled>; 2]>,
}

#[derive(Debug)]
struct Compiled {
    policy: Arc<Policy>,
    pattern: Pattern,
}

impl Policies {
    /// Those of the catalog. One whose pattern is taken no more is passed over, and said.
    pub(crate) fn recover(catalog: &Catalog) -> Policies {
        let mut policies = Policies::default();
        for policy in catalog.policies(false).values().chain(catalog.policies(true).values()) {
            if let Err(error) = policies.put(policy) {
                tracing::error!(policy = policy.name, tenant = policy.tenant, %error, "a policy is passed over");
            }
        }
        policies
    }

    /// Whether `policy` could be put.
    pub(super) fn check(policy: &Policy) -> Result<(), BrokerError> {
        Pattern::new(&policy.pattern).map(drop)
    }

    /// Adds a policy, or puts it in the place of the one of its name.
    pub(super) fn put(&mut self, policy: &Policy) -> Result<(), BrokerError> {
        let pattern = Pattern::new(&policy.pattern)?;
        self.remove(&policy.key());
        let all = self.by_tenant.entry(policy.tenant.clone()).or_default();
        let all = &mut all[usize::from(policy.is_operator)];
        all.push(Compiled { policy: Arc::new(policy.clone()), pattern });
        // Of two of one priority the first by name rules, so that it is the same after every start.
        all.sort_by(|one, other| {
            let (one, other) = (&one.policy, &other.policy);
            (other.priority, &one.name).cmp(&(one.priority, &other.name))
        });
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &PolicyKey) {
        let Some(all) = self.by_tenant.get_mut(&key.tenant) else { return };
        all[usize::from(key.is_operator)].retain(|one| one.policy.name != key.name);
        if all.iter().all(Vec::is_empty) {
            self.by_tenant.remove(&key.tenant);
        }
    }

    /// A tenant is gone.
    pub(crate) fn remove_tenant(&mut self, tenant: &str) {
        self.by_tenant.remove(tenant);
    }

    /// Those that rule a queue.
    pub(crate) fn of_queue(&self, tenant: &str, name: &str, kind: QueueKind) -> Ruling {
        self.find(tenant, |one| one.policy.is_for_queues_of(kind) && one.pattern.is_in(name))
    }

    /// Those that rule an exchange.
    pub(crate) fn of_exchange(&self, tenant: &str, name: &str) -> Ruling {
        let is_for = |policy: &Policy| matches!(policy.applies_to, AppliesTo::All | AppliesTo::Exchanges);
        self.find(tenant, |one| is_for(&one.policy) && one.pattern.is_in(name))
    }

    fn find(&self, tenant: &str, matches: impl Fn(&Compiled) -> bool) -> Ruling {
        let Some([policies, operators]) = self.by_tenant.get(tenant) else { return Ruling::default() };
        let first = |all: &[Compiled]| all.iter().find(|one| matches(one)).map(|one| Arc::clone(&one.policy));
        Ruling { policy: first(policies), operator: first(operators) }
    }
}

trait ForQueues {
    fn is_for_queues_of(&self, kind: QueueKind) -> bool;
}

impl ForQueues for Policy {
    fn is_for_queues_of(&self, kind: QueueKind) -> bool {
        let is_meant = match self.applies_to {
            AppliesTo::All | AppliesTo::Queues => true,
            AppliesTo::QueuesOf(of) => of == kind,
            AppliesTo::Exchanges => false,
        };
        is_meant && !self.unfit.contains(&kind)
    }
}
