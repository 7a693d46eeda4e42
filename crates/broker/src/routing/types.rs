//! What tongues say to exchanges and hear from them.

use std::collections::BTreeMap;

use model::{Format, Name, Wall};
use storage::{Lsn, SyncPolicy};

pub use cluster::meta::ExchangeKind;

/// An exchange to declare.
#[derive(Clone, Debug)]
pub struct ExchangeSpec {
    /// Whose it is.
    pub tenant: Name,
    /// Its name.
    pub name: Name,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Survives a restart.
    pub durable: bool,
    /// Goes when its last binding has gone.
    pub auto_delete: bool,
    /// Not to be published to by clients.
    pub internal: bool,
    /// Arguments as declared.
    pub arguments: BTreeMap<String, serde_json::Value>,
}

/// A binding to make or undo.
#[derive(Clone, Debug)]
pub struct BindingSpec {
    /// Whose it is.
    pub tenant: Name,
    /// The exchange.
    pub exchange: Name,
    /// The queue.
    pub queue: Name,
    /// The key.
    pub key: Name,
    /// Arguments.
    pub arguments: BTreeMap<String, serde_json::Value>,
}

/// One message to publish to an exchange.
#[derive(Clone, Copy)]
pub struct PublishRequest<'a> {
    /// Whose exchange.
    pub tenant: &'a str,
    /// The exchange; empty for the default one, which routes to the queue named by the key.
    pub exchange: &'a str,
    /// The routing key.
    pub key: &'a str,
    /// What the unit is.
    pub format: &'a dyn Format,
    /// One unit that holds this one message.
    pub unit: &'a [u8],
    /// The time it carries, or now.
    pub time: Wall,
    /// Must survive a restart in durable queues.
    pub persistent: bool,
    /// When the answer may go out: [`SyncPolicy::Sync`] when somebody waits for a confirmation of a persistent message.
    pub policy: SyncPolicy,
}

/// The answer to a publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// How many queues took it; 0 when nothing matched.
    pub queues: u32,
    /// Hold the confirmation back until progress has reached this, by the request's policy. [`Lsn`] 0 when nothing
    /// was stored.
    pub lsn: Lsn,
}
