//! What a channel in tx mode holds until it commits.

use broker::queue::Settle;

use super::assembly::Content;
use super::unacked::Unsettled;

/// One transaction.
#[derive(Debug, Default)]
pub struct Tx {
    /// Messages published, in order.
    pub publishes: Vec<Staged>,
    /// Deliveries settled, in order.
    pub settles: Vec<(Unsettled, Settle)>,
    /// Bytes of the messages.
    pub bytes: u64,
}

/// A message published in a transaction.
#[derive(Debug)]
pub struct Staged {
    /// It, as a unit.
    pub unit: Vec<u8>,
    /// Further routes.
    pub copies: Vec<String>,
    /// How it was published.
    pub content: Content,
}

impl Tx {
    /// One more message.
    pub fn add(&mut self, staged: Staged) {
        self.bytes += staged.unit.len() as u64;
        self.publishes.push(staged);
    }
}
