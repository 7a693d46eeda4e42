//! The owner of all parts. It only routes: each part keeps its own state in its own folder, and the calls that tongues
//! make stand beside it (`topic/api.rs`, `group/api.rs`, `queue/api.rs` …).

use std::sync::Arc;

use model::{Formats, Now};
use storage::{Disk, Progress, StorageError};

use crate::group::LedgerCodec;
use crate::{BrokerError, Event, Job, JobDone, SessionId};

/// Settings of the core.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Storage's own settings.
    pub storage: storage::Options,
}

/// One shard: the core on one journal. All calls are made from its data thread.
pub struct Broker {}

#[allow(unused_variables, clippy::needless_pass_by_value)]
impl Broker {
    /// Opens the storage and brings back everything in it.
    ///
    /// # Errors
    /// [`BrokerError::Storage`] when the data folder cannot be used.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        formats: Formats,
        ledger: Box<dyn LedgerCodec>,
        now: Now,
    ) -> Result<Broker, BrokerError> {
        unimplemented!()
    }

    /// Ends a turn: one write; moves watermarks; makes events for whoever waits. Call again while events lead to work.
    pub fn end_turn(&mut self, now: Now) {
        unimplemented!()
    }

    /// The next event for a session, if any.
    pub fn next_event(&mut self) -> Option<(SessionId, Event)> {
        unimplemented!()
    }

    /// The next job for another thread, if any.
    pub fn next_job(&mut self) -> Option<Job> {
        unimplemented!()
    }

    /// Takes back the outcome of a job.
    pub fn complete(&mut self, done: JobDone, now: Now) {
        unimplemented!()
    }

    /// When [`Broker::tick`] must be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<model::Mono> {
        unimplemented!()
    }

    /// Time has passed: session time-outs, rebalances.
    pub fn tick(&mut self, now: Now) {
        unimplemented!()
    }

    /// How far the journal has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        unimplemented!()
    }

    /// Why storage takes no more, if so: replies held back must become errors.
    #[must_use]
    pub fn failure(&self) -> Option<&StorageError> {
        unimplemented!()
    }

    /// The formats of all tongues.
    #[must_use]
    pub fn formats(&self) -> &Arc<Formats> {
        unimplemented!()
    }

    /// Everything that a session held is released: watches, consumers (unsettled messages go back), exclusive queues.
    pub fn session_closed(&mut self, session: SessionId, now: Now) {
        unimplemented!()
    }

    /// The cluster's id: 22 characters.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        unimplemented!()
    }
}
