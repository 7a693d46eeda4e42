//! Exchanges and bindings: which queues a message published to an exchange goes to.

mod api;
mod exchange;
mod manage;
mod partitioner;
mod publish;
mod types;

pub(crate) use exchange::Exchanges;
pub(crate) use partitioner::partition_of;
pub use types::*;
