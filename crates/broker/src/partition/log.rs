//! One log as the broker sees it: where the next message goes, and the limits that its topic sets.

use model::Offset;

/// What is known of a log beside its watermark and producers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// The offset the next message gets. Invariant: never below the watermark.
    pub(crate) next: Offset,
    /// The largest batch it takes, in bytes.
    pub(crate) batch_bytes_max: usize,
}
