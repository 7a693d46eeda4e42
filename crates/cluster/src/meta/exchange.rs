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
        self.bindings.retain(|binding| (&binding.tenant, &binding.exchange) != (&key.0, &key.1));
    }

    /// The exchange is not looked for: those that always exist are not in the catalog.
    pub(super) fn check_bind(&self, binding: &Binding) -> Result<(), MetaError> {
        self.check_queue(&(binding.tenant.clone(), binding.queue.clone()))
    }

    pub(super) fn bind(&mut self, binding: &Binding) {
        if !self.bindings.contains(binding) {
            self.bindings.push(binding.clone());
        }
    }

    pub(super) fn unbind(&mut self, binding: &Binding) {
        self.bindings.retain(|other| other != binding);
    }
}
