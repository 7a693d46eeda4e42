//! The group coordinator as the broker drives it.

use model::{Mono, Now};

use super::LedgerEntry;
use crate::SessionId;
use crate::core::Core;

/// All groups of this shard.
#[derive(Default)]
pub(crate) struct Coordinator {}

#[allow(unused_variables, clippy::needless_pass_by_value, clippy::unused_self)]
impl Coordinator {
    /// No groups.
    pub(crate) fn new() -> Coordinator {
        Coordinator::default()
    }

    /// At the start: one record of the ledger, oldest first within its partition.
    pub(crate) fn recover(&mut self, entry: LedgerEntry) {}

    /// At the start: all records have been told.
    pub(crate) fn recovered(&mut self, core: &mut Core, now: Now) {}

    /// When [`Coordinator::tick`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        None
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, core: &mut Core, now: Now) {}

    /// A session is gone: nobody waits for the answers to its joins and syncs. (Members live on until their time-out.)
    pub(crate) fn session_closed(&mut self, core: &mut Core, session: SessionId, now: Now) {}

    /// A topic is gone: its committed offsets go too.
    pub(crate) fn topic_deleted(&mut self, core: &mut Core, tenant: &str, topic: &str, now: Now) {}

    /// Everything that the ledger's `partition` must still say, for writing it again.
    pub(crate) fn ledger_entries(&self, partition: u32) -> Vec<LedgerEntry> {
        Vec::new()
    }

    /// How many entries [`Coordinator::ledger_entries`] would answer; asked often, must be cheap. `None` while unknown:
    /// then nothing is written again.
    pub(crate) fn ledger_count(&self, partition: u32) -> Option<usize> {
        None
    }
}
