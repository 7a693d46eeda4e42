//! What tongues ask of queues and exchanges.

use model::Now;

use super::*;
use crate::routing::*;
use crate::{Broker, BrokerError, CallId, Lsn, SessionId};

#[allow(unused_variables, clippy::needless_pass_by_value)]
impl Broker {
    /// Declares a queue: makes it, or checks that it is equal (the differing field is named by `BrokerError::Invalid`

    /// in the caller's words: the session compares [`QueueInfo`] itself for exact texts, this only makes or finds).
    pub fn declare_queue(&mut self, session: SessionId, spec: &QueueSpec, now: Now) -> Result<Declared, BrokerError> {
        unimplemented!()
    }

    /// A queue as it stands; `Locked` when it is exclusive to another session.
    pub fn queue(&self, session: SessionId, tenant: &str, name: &str) -> Result<QueueInfo, BrokerError> {
        unimplemented!()
    }

    /// All queues of a tenant, by name.
    pub fn queues(&self, tenant: &str) -> Vec<QueueInfo> {
        unimplemented!()
    }

    /// Drops all ready messages; answers how many.
    pub fn purge(&mut self, session: SessionId, tenant: &str, name: &str) -> Result<(u64, Lsn), BrokerError> {
        unimplemented!()
    }

    /// Removes a queue; answers how many ready messages it held. A missing queue is no error: 0.
    pub fn delete_queue(
        &mut self,
        session: SessionId,
        tenant: &str,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<(u64, Lsn), BrokerError> {
        unimplemented!()
    }

    /// Declares an exchange: makes it or finds it (the session compares for equivalence).
    pub fn declare_exchange(&mut self, spec: &ExchangeSpec) -> Result<(ExchangeSpec, Lsn), BrokerError> {
        unimplemented!()
    }

    /// An exchange as it stands; the built-in ones are always there.
    #[must_use]
    pub fn exchange(&self, tenant: &str, name: &str) -> Option<ExchangeSpec> {
        unimplemented!()
    }

    /// Removes an exchange and its bindings; a missing one is no error.
    pub fn delete_exchange(&mut self, tenant: &str, name: &str, if_unused: bool) -> Result<Lsn, BrokerError> {
        unimplemented!()
    }

    /// Binds a queue to an exchange.
    pub fn bind(&mut self, session: SessionId, spec: &BindingSpec) -> Result<Lsn, BrokerError> {
        unimplemented!()
    }

    /// Undoes a binding; what is not bound is no error.
    pub fn unbind(&mut self, session: SessionId, spec: &BindingSpec) -> Result<Lsn, BrokerError> {
        unimplemented!()
    }

    /// Publishes one message. Publishes of one turn are one write and one sync.
    pub fn publish(&mut self, request: &PublishRequest<'_>, now: Now) -> Result<Published, BrokerError> {
        unimplemented!()
    }

    /// Starts a consumer; deliveries come as [`Event::Deliver`] while it has credit. `wanted` is the format in which

    /// stored units are handed on as they are.
    pub fn consume(
        &mut self,
        session: SessionId,
        tenant: &str,
        queue: &str,
        spec: ConsumeSpec,
        wanted: model::FormatTag,
    ) -> Result<ConsumerId, BrokerError> {
        unimplemented!()
    }

    /// Grants a consumer `more` messages beyond what it may be sent already.
    pub fn credit(&mut self, consumer: ConsumerId, more: u32) {
        unimplemented!()
    }

    /// Ends a consumer. What it was sent stays unsettled until its session settles it or closes. Deliveries that lie

    /// in the event queue for it go back.
    pub fn cancel(&mut self, consumer: ConsumerId) {
        unimplemented!()
    }

    /// Takes one message from a queue; `call` is named by [`Event::GetReady`] when the disk had to be waited for.
    pub fn get(
        &mut self,
        session: SessionId,
        call: CallId,
        tenant: &str,
        queue: &str,
        auto_settle: bool,
        wanted: model::FormatTag,
    ) -> Result<Got, BrokerError> {
        unimplemented!()
    }

    /// Settles delivered messages of one session and queue. Unknown keys (the queue is gone) are passed over.
    pub fn settle(&mut self, session: SessionId, keys: &[DeliveryKey], how: Settle) {
        unimplemented!()
    }
}
