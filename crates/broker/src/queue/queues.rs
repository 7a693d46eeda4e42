//! Queues as the broker drives them.

use bytes::Bytes;
use model::{LogId, Mono, Now, Offset};
use storage::{Owner, ReadId};

use crate::SessionId;
use crate::core::Core;

/// All queues, exchanges and bindings of this shard.
#[derive(Default)]
pub(crate) struct Queues {}

#[allow(unused_variables, clippy::needless_pass_by_value, clippy::unused_self)]
impl Queues {
    /// None.
    pub(crate) fn new() -> Queues {
        Queues::default()
    }

    /// At the start: the catalog (`core.catalog.get()`) and the state records of kind [`crate::state::CURSOR`]. Logs
    /// named by the catalog are known to `core.partitions` already.
    pub(crate) fn recover(&mut self, core: &mut Core, records: Vec<(Owner, Vec<Bytes>)>) {}

    /// The turn ends, nothing is written yet: commit the state that changed.
    pub(crate) fn before_flush(&mut self, core: &mut Core) {}

    /// The watermark of `log` has moved to `watermark`.
    pub(crate) fn log_moved(&mut self, core: &mut Core, log: LogId, watermark: Offset) {}

    /// The turn is written (or a sync came back), watermarks have moved: deliver. Not called after a failure.
    pub(crate) fn after_flush(&mut self, core: &mut Core) {}

    /// A read that answered `Pending` can be asked again. Also called for reads of others.
    pub(crate) fn read_ready(&mut self, core: &mut Core, read: ReadId) {}

    /// The whole state of one owner of kind [`crate::state::CURSOR`], since storage asks for a snapshot; `None` when
    /// there is no such queue: then the owner is dropped.
    pub(crate) fn snapshot(&self, owner: Owner) -> Option<Vec<u8>> {
        None
    }

    /// When [`Queues::tick`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        None
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, core: &mut Core, now: Now) {}

    /// A session is gone: consumers, unsettled messages, exclusive queues.
    pub(crate) fn session_closed(&mut self, core: &mut Core, session: SessionId, now: Now) {}

    /// A topic is gone; its logs too, right after this.
    pub(crate) fn topic_deleted(&mut self, core: &mut Core, tenant: &str, topic: &str) {}

    /// Whether a queue has this name, lasting or not.
    pub(crate) fn has(&self, tenant: &str, name: &str) -> bool {
        false
    }
}
