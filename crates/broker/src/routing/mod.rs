//! Exchanges and bindings: which queues a message published to an exchange goes to.

mod api;
mod exchange;
mod exchanges;
mod headers;
mod manage;
mod partitioner;
mod publish;
mod recover;
mod table;
mod trie;
mod types;

pub(crate) use exchanges::Exchanges;
pub(crate) use partitioner::partition_of;
pub use types::*;
