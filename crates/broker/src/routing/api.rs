//! What tongues ask of exchanges.

use model::{Name, Now};

use super::*;
use crate::queue::DeliveryKey;
use crate::{Broker, BrokerError, Lsn, SessionId};

impl Broker {
    /// Declares an exchange: makes it or finds it (the session compares for equivalence).
    ///
    /// # Errors
    /// [`BrokerError::Storage`].
    pub fn declare_exchange(&mut self, spec: &ExchangeSpec) -> Result<(ExchangeSpec, Lsn), BrokerError> {
        self.queues.declare_exchange(&mut self.core, spec)
    }

    /// An exchange as it stands; the built-in ones are always there.
    #[must_use]
    pub fn exchange(&self, tenant: &str, name: &str) -> Option<ExchangeSpec> {
        self.queues.exchanges.spec(tenant, name)
    }

    /// Whether there is an exchange of that name whose bindings are patterns.
    #[must_use]
    pub fn routes_by_pattern(&self, tenant: &str, name: &str) -> bool {
        self.queues.exchanges.kind(tenant, name) == Some(ExchangeKind::Topic)
    }

    /// Whether there is a delayed exchange of that name.
    #[must_use]
    pub fn delays(&self, tenant: &str, name: &str) -> bool {
        self.queues.exchanges.number(tenant, name) != 0
    }

    /// All exchanges of a tenant, by name, those that are always there among them.
    #[must_use]
    pub fn exchanges(&self, tenant: &str) -> Vec<ExchangeSpec> {
        self.queues.exchanges.list(tenant)
    }

    /// All bindings of a tenant, ordered by exchange, destination and key.
    #[must_use]
    pub fn bindings(&self, tenant: &str) -> Vec<BindingSpec> {
        self.queues.list_bindings(tenant)
    }

    /// Whether that binding is there.
    #[must_use]
    pub fn is_bound(&self, spec: &BindingSpec) -> bool {
        self.queues.is_bound(spec)
    }

    /// Removes an exchange and its bindings; a missing one is no error. That built-in ones stay is the tongue's to say.
    ///
    /// # Errors
    /// [`BrokerError::InUse`] when something is bound and `if_unused` is set, [`BrokerError::Storage`].
    pub fn delete_exchange(&mut self, tenant: &str, name: &str, if_unused: bool) -> Result<Lsn, BrokerError> {
        self.queues.delete_exchange(&mut self.core, tenant, name, if_unused)
    }

    /// Binds a queue or an exchange to an exchange; doing it twice changes nothing.
    ///
    /// # Errors
    /// [`BrokerError::Missing`] of either end, [`BrokerError::Locked`], [`BrokerError::Storage`].
    pub fn bind(&mut self, session: SessionId, spec: &BindingSpec) -> Result<Lsn, BrokerError> {
        self.queues.bind(&mut self.core, session, spec)
    }

    /// Undoes a binding; what is not bound is no error, nor is a missing queue or exchange.
    ///
    /// # Errors
    /// [`BrokerError::Locked`], [`BrokerError::Storage`].
    pub fn unbind(&mut self, session: SessionId, spec: &BindingSpec) -> Result<Lsn, BrokerError> {
        self.queues.unbind(&mut self.core, session, spec)
    }

    /// Publishes one message: stored once, in all queues it is routed to or in none. Publishes of one turn are one
    /// write and one sync.
    ///
    /// # Errors
    /// [`BrokerError::Missing`] of the exchange, [`BrokerError::Internal`], [`BrokerError::Storage`]; nothing was
    /// stored then.
    pub fn publish(&mut self, request: &PublishRequest<'_>, now: Now) -> Result<Published, BrokerError> {
        self.queues.publish(&mut self.core, request, now)
    }

    /// Publishes all of `requests` and settles `acks`, deliveries that `session` holds, sorted by queue, as one batch:
    /// every message is in all its queues and every ack is stored, or nothing of it is.
    ///
    /// # Errors
    /// As [`Broker::publish`]; then nothing is settled.
    pub fn publish_all(
        &mut self,
        requests: &[PublishRequest<'_>],
        (session, acks): (SessionId, &[DeliveryKey]),
        now: Now,
    ) -> Result<Vec<Published>, BrokerError> {
        self.queues.publish_all(&mut self.core, requests, (session, acks), now)
    }

    /// Whether a message could be published to `exchange` at all, whatever its key.
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Internal`].
    pub fn can_publish(&self, tenant: &str, exchange: &str) -> Result<(), BrokerError> {
        self.queues.can_publish(&self.core, tenant, exchange)
    }

    /// Opens a mailbox: what is published through the default exchange with `name` as its key comes to `session` as
    /// [`crate::Event::Mail`]. The name must be one that nobody has. It closes with its session.
    pub fn open_mailbox(&mut self, session: SessionId, tenant: &Name, name: &Name) -> MailboxId {
        self.queues.mailboxes.open(session, tenant, name)
    }

    /// Closes a mailbox.
    pub fn close_mailbox(&mut self, id: MailboxId) {
        self.queues.mailboxes.close(id);
    }

    /// Whether a mailbox of that name is open.
    #[must_use]
    pub fn has_mailbox(&self, tenant: &str, name: &str) -> bool {
        self.queues.mailboxes.find(tenant, name).is_some()
    }
}
