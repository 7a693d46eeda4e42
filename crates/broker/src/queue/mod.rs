//! Queues: a shared cursor over a log of its own or over a topic's partitions.

mod api;
mod types;

pub use types::*;
