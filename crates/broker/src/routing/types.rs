//! What tongues say to exchanges and hear from them.

use std::collections::BTreeMap;

use model::{Format, Header, Marks, Name, Wall};
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
    /// Where a message goes that none of its bindings takes: an exchange, which need not exist.
    pub alternate: Option<Name>,
    /// It routes a message only when the delay that the message asks for is over.
    pub delayed: bool,
    /// Of a delayed one: tells it from an earlier one of its name. Given when it is made, whatever is asked.
    pub number: u64,
    /// Arguments as declared.
    pub arguments: BTreeMap<String, serde_json::Value>,
}

/// What a binding leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The queue of that name.
    Queue(Name),
    /// The exchange of that name.
    Exchange(Name),
}

/// A binding to make or undo.
#[derive(Clone, Debug)]
pub struct BindingSpec {
    /// Whose it is.
    pub tenant: Name,
    /// The exchange that messages come from; or a topic, if no exchange has the name.
    pub exchange: Name,
    /// Where they go.
    pub destination: Destination,
    /// The key.
    pub key: Name,
    /// Arguments. Those under `x-match` and beside it are what a message's headers are held against.
    pub arguments: BTreeMap<String, serde_json::Value>,
}

impl BindingSpec {
    /// The name of what it leads to.
    #[must_use]
    pub fn to(&self) -> &Name {
        match &self.destination {
            Destination::Queue(name) | Destination::Exchange(name) => name,
        }
    }
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
    /// Further keys by which it is routed, too.
    pub more_keys: &'a [&'a str],
    /// Reads its headers: called only when an exchange on its way routes by them.
    pub headers: &'a dyn Fn() -> Vec<Header>,
    /// What the unit is.
    pub format: &'a dyn Format,
    /// One unit that holds this one message.
    pub unit: &'a [u8],
    /// The time it carries, or now.
    pub time: Wall,
    /// Must survive a restart in durable queues.
    pub persistent: bool,
    /// What queues must know of it.
    pub marks: Marks,
    /// When the answer may go out: [`SyncPolicy::Sync`] when somebody waits for a confirmation.
    pub policy: SyncPolicy,
}

/// Of a message that has no headers.
#[must_use]
pub fn no_headers() -> Vec<Header> {
    Vec::new()
}

/// The answer to a publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// How many queues it matched; 0 when nothing did.
    pub queues: u32,
    /// Something was stored, which queues show when the turn ends.
    pub stored: bool,
    /// How many of them were too full and refused it: the publisher is told that it was not taken.
    pub refused: u32,
    /// Hold the confirmation back until progress has reached this, by `policy`. [`Lsn`] 0 when nothing was stored.
    pub lsn: Lsn,
    /// The request's policy, or a weaker one where the message would not survive a restart anyway.
    pub policy: SyncPolicy,
}

impl Published {
    /// Of a message for which nothing was stored.
    #[must_use]
    pub fn unstored(queues: u32, refused: u32) -> Published {
        Published { queues, stored: false, refused, lsn: Lsn::default(), policy: SyncPolicy::None }
    }
}
