//! What tongues ask of policies.

use super::{Policy, PolicyKey, PolicyStored, Ruling};
use crate::{Broker, BrokerError, Lsn};

impl Broker {
    /// Puts a policy, in the place of the one of its name if there is one. It acts on all that it matches: what is made
    /// from now on, and what is there, at once where that is little, else a part of it each turn.
    ///
    /// # Errors
    /// [`BrokerError::Invalid`] when its pattern is not a regular expression or too large a one,
    /// [`BrokerError::Name`] when its alternate exchange cannot be one's name, [`BrokerError::Storage`].
    pub fn put_policy(&mut self, policy: &Policy) -> Result<PolicyStored, BrokerError> {
        self.queues.put_policy(&mut self.core, policy)
    }

    /// Whether a policy could be put, if its tenant is there.
    ///
    /// # Errors
    /// As [`Broker::put_policy`].
    pub fn check_policy(&self, policy: &Policy) -> Result<(), BrokerError> {
        super::apply::check(policy)
    }

    /// Removes a policy: what it ruled does what it was declared to do, or what the next policy says.
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Storage`].
    pub fn delete_policy(&mut self, key: &PolicyKey) -> Result<Lsn, BrokerError> {
        self.queues.delete_policy(&mut self.core, key)
    }

    /// A policy by its name.
    #[must_use]
    pub fn policy(&self, key: &PolicyKey) -> Option<&Policy> {
        self.core.catalog.get().policy(key)
    }

    /// The policies of all tenants, or the operators', by tenant and name.
    pub fn policies(&self, is_operator: bool) -> impl Iterator<Item = &Policy> {
        self.core.catalog.get().policies(is_operator).values()
    }

    /// The policies that rule an exchange of that name. Those of a queue are in its [`crate::queue::QueueInfo`].
    #[must_use]
    pub fn exchange_ruling(&self, tenant: &str, name: &str) -> Ruling {
        self.queues.exchange_ruling(tenant, name)
    }
}
