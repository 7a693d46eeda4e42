//! Exchanges and bindings: which queues a message published to an exchange goes to.

mod api;
mod exchange;
mod exchanges;
mod feed;
mod feeding;
mod headers;
mod mailbox;
mod manage;
mod partitioner;
mod publish;
mod recover;
mod table;
mod together;
mod trie;
mod types;

pub(crate) use exchanges::Exchanges;
pub(crate) use feed::Feeds;
pub(crate) use mailbox::Mailboxes;
pub use mailbox::{Mail, MailboxId};
pub(crate) use partitioner::partition_of;
pub(crate) use together::Ends;
pub use types::*;
