//! Partitions: a log, its producers and its watermark, composed; each in a file of its own.

mod api;
mod types;

pub use types::*;
