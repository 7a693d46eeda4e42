//! One log as the broker sees it: where the next message goes, and the settings of its topic.

use std::sync::Arc;

use model::Offset;

use crate::topic::LogSettings;

/// What is known of a log beside its watermark and producers.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// The offset the next message gets. Invariant: never below the watermark.
    pub(crate) next: Offset,
    /// What its topic sets.
    pub(crate) settings: Arc<LogSettings>,
}
