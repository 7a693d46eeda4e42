//! What tongues ask of queues. Exchanges and publishing are in `routing/api.rs`.

use model::{Name, Now};

use super::manage::Deleted;
use super::*;
use crate::{Broker, BrokerError, CallId, Lsn, SessionId};

impl Broker {
    /// Ready messages of topics that retention or a trim deleted before a queue over them had given them out; counted
    /// since opening.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.queues.passed_over
    }

    /// Declares a queue: makes it, or finds the one of that name. The session compares [`QueueInfo`] itself, for its
    /// own exact texts; this only makes or finds. A queue over a topic ([`QueueSpec::topic`]) begins at the topic's
    /// earliest message.
    ///
    /// # Errors
    /// [`BrokerError::Locked`] when it is exclusive to another session, [`BrokerError::Exists`] when a topic has the
    /// name, [`BrokerError::Missing`] when the topic to share does not exist, [`BrokerError::Storage`].
    pub fn declare_queue(&mut self, session: SessionId, spec: &QueueSpec, _now: Now) -> Result<Declared, BrokerError> {
        self.queues.declare(&mut self.core, session, spec)
    }

    /// A queue as it stands.
    ///
    /// # Errors
    /// [`BrokerError::Missing`], or [`BrokerError::Locked`] when it is exclusive to another session.
    pub fn queue(&self, session: SessionId, tenant: &str, name: &str) -> Result<QueueInfo, BrokerError> {
        self.queues.find(session, tenant, name).map(super::queue::Queue::describe)
    }

    /// Whether there is a queue of that name, whoever may use it.
    #[must_use]
    pub fn has_queue(&self, tenant: &str, name: &str) -> bool {
        self.queues.has(tenant, name)
    }

    /// A queue as operators see it, whoever it is exclusive to.
    #[must_use]
    pub fn queue_facts(&self, tenant: &str, name: &str) -> Option<QueueFacts> {
        self.queues.facts(tenant, name)
    }

    /// The names of a tenant's queues, in order.
    #[must_use]
    pub fn queue_names(&self, tenant: &str) -> Vec<Name> {
        self.queues.names(tenant)
    }

    /// How many queues a tenant has, the messages ready in them, and those in flight.
    #[must_use]
    pub fn queue_sums(&self, tenant: &str) -> (usize, u64, u64) {
        self.queues.sums(tenant)
    }

    /// All queues of a tenant, by name.
    #[must_use]
    pub fn queues(&self, tenant: &str) -> Vec<QueueInfo> {
        self.queues.list(tenant)
    }

    /// Drops all ready messages; answers how many. Of a shared topic nothing is dropped: the queue moves to its end.
    ///
    /// # Errors
    /// As [`Broker::queue`]; [`BrokerError::Storage`].
    pub fn purge(&mut self, session: SessionId, tenant: &str, name: &str) -> Result<(u64, Lsn), BrokerError> {
        self.queues.purge(&mut self.core, session, (tenant, name))
    }

    /// Removes a queue; answers how many ready messages it held. A missing queue is no error: 0.
    ///
    /// # Errors
    /// [`BrokerError::InUse`] when a condition does not hold, [`BrokerError::Locked`], [`BrokerError::Storage`].
    pub fn delete_queue(
        &mut self,
        session: SessionId,
        tenant: &str,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<(u64, Lsn), BrokerError> {
        match self.queues.delete(&mut self.core, session, (tenant, name), (if_unused, if_empty))? {
            Deleted::Done(ready, lsn) => Ok((ready, lsn)),
            Deleted::WithTopic(ready, topic) => Ok((ready, self.delete_topic(tenant, &topic, self.core.now)?)),
        }
    }

    /// Starts a consumer; deliveries come as [`crate::Event::Deliver`] while it has credit. `wanted` is the format in
    /// which stored units are handed on as they are.
    ///
    /// # Errors
    /// [`BrokerError::ExclusiveUse`]; as [`Broker::queue`].
    pub fn consume(
        &mut self,
        session: SessionId,
        tenant: &str,
        queue: &str,
        spec: ConsumeSpec,
        wanted: model::FormatTag,
    ) -> Result<ConsumerId, BrokerError> {
        self.queues.consume((session, tenant, queue), spec, None, wanted)
    }

    /// Starts a consumer of a stream at a place of its own; [`Broker::consume`] begins behind all there is. Settling
    /// gives it credit and nothing else.
    ///
    /// # Errors
    /// [`BrokerError::Invalid`] for a queue that is no stream and a place that is none; as [`Broker::consume`].
    pub fn read_stream(
        &mut self,
        (session, tenant, queue): (SessionId, &str, &str),
        spec: ConsumeSpec,
        read: ReadSpec,
        wanted: model::FormatTag,
    ) -> Result<ConsumerId, BrokerError> {
        self.queues.consume((session, tenant, queue), spec, Some(read), wanted)
    }

    /// Grants a consumer `more` messages beyond what it may be sent already.
    pub fn credit(&mut self, consumer: ConsumerId, more: u32) {
        self.queues.credit(consumer, more);
    }

    /// The same for a consumer of a queue that is known ([`DeliveryKey::queue`]), so that it need not be looked up.
    /// Nothing happens if it has ended meanwhile.
    pub fn credit_in(&mut self, queue: u64, consumer: ConsumerId, more: u32) {
        self.queues.credit_in(queue, consumer, more);
    }

    /// Ends a consumer. What it was sent stays unsettled until its session settles it or closes. Deliveries that lie
    /// in the event queue for it go back, as if they had not been made.
    pub fn cancel(&mut self, consumer: ConsumerId) {
        self.queues.cancel(&mut self.core, consumer);
    }

    /// Takes one message from a queue; `call` is named by [`crate::Event::GetReady`] when the disk had to be waited
    /// for.
    ///
    /// # Errors
    /// As [`Broker::queue`]; [`BrokerError::Storage`] when the disk fails.
    pub fn get(
        &mut self,
        session: SessionId,
        call: CallId,
        tenant: &str,
        queue: &str,
        auto_settle: bool,
        wanted: model::FormatTag,
    ) -> Result<Got, BrokerError> {
        self.queues.get(&mut self.core, (session, call), (tenant, queue), (wanted, auto_settle))
    }

    /// Settles delivered messages of one session. Unknown keys (the queue is gone, or the message is not in this
    /// session's hands) are passed over.
    pub fn settle(&mut self, session: SessionId, keys: &[DeliveryKey], how: Settle) {
        self.queues.settle(session, keys, how);
    }

    /// A session is done with the deliveries of an event: their memory serves the next.
    pub fn spent(&mut self, batch: Vec<Delivery>) {
        self.core.events.spent(batch);
    }
}
