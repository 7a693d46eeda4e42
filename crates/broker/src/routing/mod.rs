//! Exchanges and bindings: which queues a message published to an exchange goes to.

mod types;

pub use types::*;
