//! Policies that are put and removed, and the exchanges under them. Queues under them are `crate::queue`'s.

use cluster::Command;
use model::Name;

use super::effective::alternate;
use super::{Policies, Policy, PolicyKey, PolicyStored, Ruling};
use crate::core::Core;
use crate::queue::Queues;
use crate::{BrokerError, Lsn};

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

    /// Has everything of a tenant act by its policies.
    fn govern(&mut self, core: &mut Core, tenant: &str) {
        self.govern_queues(core, tenant);
        self.govern_exchanges(tenant);
    }

    /// Has all exchanges of a tenant act by the policies that rule them now.
    pub(crate) fn govern_exchanges(&mut self, tenant: &str) {
        // Those that every tenant has are made when they are needed: now, if they send on what they cannot route.
        for name in self.exchanges.builtin_names() {
            if alternate(&self.policies.of_exchange(tenant, &name)).is_some() && !name.is_empty() {
                self.exchanges.id_made(tenant, &name);
            }
        }
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
