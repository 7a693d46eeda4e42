//! Policies that are put and removed, and the exchanges under them. Queues under them are `crate::queue`'s.

use std::collections::BTreeSet;

use cluster::Command;
use model::Name;

use super::effective::alternate;
use super::{Policies, Policy, PolicyKey, PolicyStored, Ruling};
use crate::core::Core;
use crate::queue::Queues;
use crate::{BrokerError, Lsn};

/// Queues and exchanges that are held against their tenant's policies in one turn: a pattern may take long for each.
const GOVERNED_A_TURN: usize = 32;

/// Tenants whose policies have changed, and how far that has come in the first of them.
#[derive(Debug, Default)]
pub(crate) struct Governing {
    tenants: BTreeSet<String>,
    queues: Vec<u64>,
    exchanges: Vec<Name>,
    /// The lists are those of the first tenant.
    is_listed: bool,
}

/// Whether a policy says only what can be done.
pub(super) fn check(policy: &Policy) -> Result<(), BrokerError> {
    Policies::check(policy)?;
    Name::new(&policy.name)?;
    policy.options.alternate.iter().try_for_each(|alternate| Name::new(alternate).map(drop))?;
    Ok(())
}

impl Queues {
    /// At the start, before there are queues and exchanges.
    pub(crate) fn recover_policies(&mut self, core: &Core) {
        self.policies = Policies::recover(core.catalog.get());
    }

    /// See [`crate::Broker::put_policy`].
    pub(super) fn put_policy(&mut self, core: &mut Core, policy: &Policy) -> Result<PolicyStored, BrokerError> {
        check(policy)?;
        let created = core.catalog.get().policy(&policy.key()).is_none();
        let lsn = core.run(&Command::PutPolicy(policy.clone()))?;
        self.policies.put(policy)?;
        self.govern(core, &policy.tenant);
        Ok(PolicyStored { created, lsn })
    }

    /// See [`crate::Broker::delete_policy`].
    pub(super) fn delete_policy(&mut self, core: &mut Core, key: &PolicyKey) -> Result<Lsn, BrokerError> {
        let lsn = core.run(&Command::DeletePolicy(key.clone()))?;
        self.policies.remove(key);
        self.govern(core, &key.tenant);
        Ok(lsn)
    }

    /// Has everything of a tenant act by its policies: what is little at once, the rest over the next turns.
    fn govern(&mut self, core: &mut Core, tenant: &str) {
        // What was listed for earlier policies is begun anew.
        self.governing.is_listed &= self.governing.tenants.first().is_some_and(|first| first.as_str() < tenant);
        self.governing.tenants.insert(tenant.to_owned());
        if self.count_of(tenant) <= GOVERNED_A_TURN {
            self.govern_on(core);
        }
    }

    /// Whether something is still to be held against changed policies.
    pub(crate) fn is_governing(&self) -> bool {
        !self.governing.tenants.is_empty()
    }

    /// Holds the next queues and exchanges against changed policies.
    pub(crate) fn govern_on(&mut self, core: &mut Core) {
        let Some(tenant) = self.governing.tenants.first().cloned() else { return };
        if !std::mem::replace(&mut self.governing.is_listed, true) {
            self.list_governed(&tenant);
        }
        for _ in 0..GOVERNED_A_TURN {
            if let Some(id) = self.governing.queues.pop() {
                self.govern_queue(core, id);
            } else if let Some(name) = self.governing.exchanges.pop() {
                self.govern_exchange(&tenant, &name);
            } else {
                self.governing.tenants.pop_first();
                self.governing.is_listed = false;
                return;
            }
        }
    }

    /// All that is ruled in a tenant, the last first.
    fn list_governed(&mut self, tenant: &str) {
        self.governing.queues = self.ids_of(tenant);
        self.governing.queues.reverse();
        self.make_builtin(tenant);
        self.governing.exchanges = self.exchanges.made(tenant).map(|exchange| exchange.spec.name.clone()).collect();
    }

    /// Exchanges that every tenant has are made when they are needed: now, if they send on what they cannot route.
    fn make_builtin(&mut self, tenant: &str) {
        for name in self.exchanges.builtin_names() {
            if alternate(&self.policies.of_exchange(tenant, &name)).is_some() && !name.is_empty() {
                self.exchanges.id_made(tenant, &name);
            }
        }
    }

    /// At the start: has all exchanges of a tenant act by the policies that rule them.
    pub(crate) fn govern_exchanges(&mut self, tenant: &str) {
        self.make_builtin(tenant);
        let names = self.exchanges.made(tenant).map(|exchange| exchange.spec.name.clone()).collect::<Vec<_>>();
        for name in names {
            self.govern_exchange(tenant, &name);
        }
    }

    /// Finds the policies that rule an exchange and has it act by them.
    pub(crate) fn govern_exchange(&mut self, tenant: &str, name: &str) {
        let ruling = self.policies.of_exchange(tenant, name);
        let named = alternate(&ruling).and_then(|text| Name::new(&text).ok());
        let id = self.exchanges.id_of(tenant, name);
        if let Some(exchange) = id.and_then(|id| self.exchanges.of_id(id)) {
            exchange.alternate = exchange.spec.alternate.clone().or(named);
        }
    }

    /// The policies that rule an exchange.
    pub(super) fn exchange_ruling(&self, tenant: &str, name: &str) -> Ruling {
        self.policies.of_exchange(tenant, name)
    }
}
