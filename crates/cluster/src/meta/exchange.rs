//! Exchanges and bindings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Catalog, Key, MetaError, exists, missing};

/// How an exchange picks among its bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeKind {
    /// The routing key must equal the binding's.
    Direct,
    /// Every binding.
    Fanout,
    /// The routing key, cut into words at its dots, must match the binding's pattern.
    Topic,
    /// The message's headers must match the binding's arguments.
    Headers,
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
    /// Where a message goes that none of its bindings takes: an exchange, which need not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternate: Option<String>,
    /// It routes a message only when the delay that the message asks for is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delayed: bool,
    /// Of a delayed one: tells it from an earlier one of its name.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub number: u64,
    /// Arguments it was declared with.
    pub arguments: BTreeMap<String, serde_json::Value>,
}

/// What a binding leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destination {
    /// The queue of that name.
    Queue(String),
    /// The exchange of that name.
    ToExchange(String),
}

/// A binding of a queue or an exchange to an exchange, or of a queue to a topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// Whose it is.
    pub tenant: String,
    /// The name of the exchange (or topic) that messages come from.
    pub exchange: String,
    /// Where they go.
    #[serde(flatten)]
    pub destination: Destination,
    /// The key it was bound with.
    pub key: String,
    /// Arguments it was bound with; two bindings that differ only here are two.
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// The name is a topic's, and these are the ends of its logs when the binding was made: it is fed with what came
    /// after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub since: Vec<(u64, u64)>,
}

impl Binding {
    /// Whether its messages come from a topic and not from an exchange.
    #[must_use]
    pub fn is_fed(&self) -> bool {
        !self.since.is_empty()
    }

    /// Whether it is the same binding as `other`, whenever both were made.
    #[must_use]
    pub fn is_same(&self, other: &Binding) -> bool {
        self.key == other.key
            && self.destination == other.destination
            && self.exchange == other.exchange
            && self.tenant == other.tenant
            && self.is_fed() == other.is_fed()
            && self.arguments == other.arguments
    }
}

impl Catalog {
    pub(super) fn check_create_exchange(&self, exchange: &Exchange) -> Result<(), MetaError> {
        if self.exchanges.contains_key(&(exchange.tenant.clone(), exchange.name.clone())) {
            return Err(exists("exchange", &exchange.name));
        }
        Ok(())
    }

    pub(super) fn create_exchange(&mut self, exchange: &Exchange) {
        self.exchanges.insert((exchange.tenant.clone(), exchange.name.clone()), exchange.clone());
    }

    pub(super) fn check_exchange(&self, key: &Key) -> Result<(), MetaError> {
        if self.exchanges.contains_key(key) { Ok(()) } else { Err(missing("exchange", &key.1)) }
    }

    pub(super) fn delete_exchange(&mut self, key: &Key) {
        self.exchanges.remove(key);
        self.bindings.remove_from(key, false);
        self.bindings.remove_to(&key.0, &Destination::ToExchange(key.1.clone()));
    }

    /// The exchanges are not looked for: those that always exist are not in the catalog.
    pub(super) fn check_bind(&self, binding: &Binding) -> Result<(), MetaError> {
        if binding.is_fed() {
            self.check_topic(&(binding.tenant.clone(), binding.exchange.clone()))?;
        }
        match &binding.destination {
            Destination::Queue(queue) => self.check_queue(&(binding.tenant.clone(), queue.clone())),
            Destination::ToExchange(_) => Ok(()),
        }
    }

    pub(super) fn bind(&mut self, binding: &Binding) {
        self.bindings.insert(binding);
    }

    pub(super) fn unbind(&mut self, binding: &Binding) {
        self.bindings.remove(binding);
    }
}
