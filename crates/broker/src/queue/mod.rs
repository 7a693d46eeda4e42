//! Queues: a shared cursor over a log of its own or over a topic's partitions.

mod api;
mod consumers;
mod cursor;
#[cfg(test)]
mod cursor_tests;
mod manage;
#[allow(clippy::module_inception)]
mod queue;
mod queues;
mod ranges;
mod record;
mod track;
mod types;
mod window;

pub(crate) use queues::Queues;
pub use types::*;
