//! Exchanges and bindings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How an exchange picks among its bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeKind {
    /// The routing key must equal the binding's.
    Direct,
    /// Every binding.
    Fanout,
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Survives a restart.
    pub durable: bool,
    /// Goes when its last binding has gone.
    pub auto_delete: bool,
    /// Not to be published to by clients.
    pub internal: bool,
    /// Arguments it was declared with.
    pub arguments: BTreeMap<String, serde_json::Value>,
}

/// A binding of a queue to an exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// Whose it is.
    pub tenant: String,
    /// The exchange's name.
    pub exchange: String,
    /// The queue's name.
    pub queue: String,
    /// The key it was bound with.
    pub key: String,
    /// Arguments it was bound with; two bindings that differ only here are two.
    pub arguments: BTreeMap<String, serde_json::Value>,
}
