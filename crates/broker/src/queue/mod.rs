//! Queues: a shared cursor over a log of its own or over a topic's partitions.

mod admit;
mod api;
mod consumers;
mod count;
pub(crate) mod cursor;
#[cfg(test)]
mod cursor_tests;
mod held;
mod listing;
mod manage;
mod over;
#[allow(clippy::module_inception)] // a queue among what belongs to queues
mod queue;
mod queues;
pub(crate) mod ranges;
pub(crate) mod rare;
pub(crate) mod record;
pub(crate) mod ruled;
mod rules;
mod settling;
mod stored;
mod stream;
mod sums;
mod tally;
mod track;
mod tracks;
mod types;
pub(crate) mod window;
mod words;

pub(crate) use admit::Place;
pub use listing::QueueFacts;
pub(crate) use queues::{Queues, mark};
pub use stream::{ReadFilter, ReadFrom, ReadSpec};
pub use tally::Tally;
pub use types::*;
