//! Queues: a shared cursor over a log of its own or over a topic's partitions.

mod api;
#[allow(dead_code)] // wired to the broker in the next step
mod cursor;
#[cfg(test)]
mod cursor_tests;
#[allow(dead_code)]
mod ranges;
#[allow(dead_code)]
mod record;
mod queues;
mod types;

pub(crate) use queues::Queues;
pub use types::*;
