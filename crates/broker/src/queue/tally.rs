//! What has passed through a queue since the start: counted for operators, with no effect on anything.

/// Messages counted of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Routed to it.
    pub published: u64,
    /// Delivered, to be settled.
    pub delivered: u64,
    /// Delivered to consumers that need not settle.
    pub delivered_settled: u64,
    /// Got, to be settled.
    pub got: u64,
    /// Got by those that need not settle.
    pub got_settled: u64,
    /// Times that nothing was there to get.
    pub got_nothing: u64,
    /// Deliveries that were not the first of their message.
    pub redelivered: u64,
    /// Acknowledged.
    pub acked: u64,
}

/// Of a queue: nothing is kept until something is counted.
#[derive(Debug, Default)]
pub(crate) struct Tallied(Option<Box<Tally>>);

impl Tallied {
    /// To count with.
    pub(crate) fn get(&mut self) -> &mut Tally {
        self.0.get_or_insert_default()
    }

    /// As it stands.
    pub(super) fn read(&self) -> Tally {
        self.0.as_deref().copied().unwrap_or_default()
    }
}
