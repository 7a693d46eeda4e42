//! What tongues and routing ask of delays.

use model::{Now, Wall};

use super::{DelayId, Delayed};
use crate::routing::PublishRequest;
use crate::{Broker, BrokerError, Lsn};

impl Broker {
    /// Publishes a message at `due`: until then no queue has it. That its exchange exists is asked when it is due;
    /// what waits for a delayed exchange (see [`Broker::delays`]) goes with it, and is not for a later one of its name.
    ///
    /// # Errors
    /// [`BrokerError::Storage`]: nothing was stored.
    pub fn delay(&mut self, request: &PublishRequest<'_>, due: Wall, now: Now) -> Result<Delayed, BrokerError> {
        self.core.now = now;
        self.queues.delay(&mut self.core, request, due)
    }

    /// Takes a delayed message back. `None` when it is not there: it was published, or taken back before.
    ///
    /// # Errors
    /// [`BrokerError::Storage`].
    pub fn cancel_delayed(&mut self, id: DelayId) -> Result<Option<Lsn>, BrokerError> {
        self.queues.cancel_delayed(&mut self.core, id)
    }

    /// How many delayed messages wait.
    #[must_use]
    pub fn delayed(&self) -> u64 {
        self.queues.delays.count()
    }
}
