//! Dead letters: what dies in a queue goes on to an exchange. The dead letter is stored in the same atomic batch as
//! the message's end in its queue, so that after a crash the message is in one of both places and never in none.
//!
//! It knows how the dead are read, stamped, routed and stored; what must die is decided by `crate::queue`.

mod bury;
mod cycle;
pub mod redrive;

use bytes::Bytes;
use model::{FormatTag, LogId, Reason};
use storage::ReadId;

/// A message that is to die.
#[derive(Debug)]
pub(crate) struct Dead {
    /// Where it lies; `None` for one that was never stored.
    pub(crate) place: Option<(LogId, u64)>,
    /// Why it dies.
    pub(crate) reason: Reason,
    /// Its unit, if it was at hand.
    pub(crate) unit: Option<(FormatTag, Bytes)>,
    /// The read it waits for.
    pub(crate) waits: Option<ReadId>,
}

impl Dead {
    /// A stored message, to be read.
    pub(crate) fn at(log: LogId, offset: u64, reason: Reason) -> Dead {
        Dead { place: Some((log, offset)), reason, unit: None, waits: None }
    }
}
