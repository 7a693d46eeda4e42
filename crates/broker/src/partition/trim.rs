//! Trimming on request: what lies before an offset is gone for every reader. Retention and queues trim their own ways.

use model::{LogId, Offset};
use storage::{Batch, SyncPolicy};

use super::Bounds;
use crate::core::Core;
use crate::{BrokerError, Lsn};

impl Core {
    /// See [`crate::Broker::trim`].
    pub(crate) fn trim(&mut self, log: LogId, before: Option<Offset>) -> Result<(Offset, Lsn), BrokerError> {
        let Bounds { start, end } = self.bounds(log)?;
        let before = before.unwrap_or(end);
        if before > end {
            return Err(BrokerError::OutOfRange { asked: before, start, end });
        }
        // Stored also where nothing changes: what made it so a moment ago may not be on disk yet.
        let start = start.max(before);
        let lsn = self.commit(&Batch { trims: &[(log, start)], ..Batch::default() }, SyncPolicy::Sync)?;
        Ok((start, lsn))
    }
}
