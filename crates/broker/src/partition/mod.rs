//! Partitions: a log, its producers and its watermark, composed; each in a file of its own.

mod api;
mod append;
mod compaction;
mod fetch;
mod follow;
mod log;
mod partitions;
mod producers;
mod retention;
mod rolling;
mod times;
mod trim;
mod types;
mod watch;
mod watermark;

pub(crate) use compaction::Compactor;
pub(crate) use fetch::FoundTime;
pub(crate) use partitions::Partitions;
pub(crate) use producers::Producers;
pub(crate) use retention::Sweep;
pub use times::TimeDone;
pub(crate) use times::Times;
pub use types::*;
