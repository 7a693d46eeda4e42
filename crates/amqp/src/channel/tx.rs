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
    /// Bytes that the messages take.
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
    /// One more message; answers how many bytes it takes. One without a body takes many times what its client sent.
    pub fn add(&mut self, staged: Staged) -> u64 {
        let copies = staged.copies.iter().map(|copy| copy.len() + size_of::<String>()).sum::<usize>();
        let bytes = (size_of::<Staged>() + staged.unit.len() + copies) as u64;
        self.bytes += bytes;
        self.publishes.push(staged);
        bytes
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let settles = self.settles.capacity() * size_of::<(Unsettled, Settle)>();
        usize::try_from(self.bytes).unwrap_or(usize::MAX).saturating_add(settles)
    }
}
