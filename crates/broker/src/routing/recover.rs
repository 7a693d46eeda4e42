//! Exchanges and bindings as the catalog keeps them, and finding them again after a start.

use cluster::meta::{self, Binding};
use model::Name;

use super::table::Dest;
use super::{BindingSpec, Destination, ExchangeSpec};
use crate::BrokerError;
use crate::core::Core;
use crate::queue::Queues;

impl Queues {
    /// At the start, once the queues are back.
    pub(crate) fn recover_exchanges(&mut self, core: &Core) {
        let catalog = core.catalog.get();
        for exchange in catalog.exchanges.values() {
            match spec_of(exchange) {
                Ok(spec) => self.exchanges.insert(spec),
                Err(error) => tracing::error!(exchange = exchange.name, %error, "an exchange cannot be opened"),
            }
        }
        for binding in &catalog.bindings {
            let dest = match &binding.destination {
                meta::Destination::Queue(name) => self.id_of(&binding.tenant, name).map(Dest::Queue),
                meta::Destination::ToExchange(name) => {
                    self.exchanges.id_made(&binding.tenant, name).map(Dest::Exchange)
                }
            };
            let source = self.exchanges.id_made(&binding.tenant, &binding.exchange);
            let source = source.and_then(|id| self.exchanges.of_id(id));
            let (Some(dest), Some(source), Ok(key)) = (dest, source, Name::new(&binding.key)) else {
                tracing::error!(exchange = binding.exchange, to = ?binding.destination, "a binding leads nowhere");
                continue;
            };
            source.bind(dest, &key, &binding.arguments);
        }
    }
}

/// An exchange as the catalog keeps it.
pub(super) fn stored(spec: &ExchangeSpec) -> meta::Exchange {
    meta::Exchange {
        tenant: spec.tenant.to_string(),
        name: spec.name.to_string(),
        kind: spec.kind,
        durable: spec.durable,
        auto_delete: spec.auto_delete,
        internal: spec.internal,
        alternate: spec.alternate.as_ref().map(ToString::to_string),
        delayed: spec.delayed,
        arguments: spec.arguments.clone(),
    }
}

fn spec_of(exchange: &meta::Exchange) -> Result<ExchangeSpec, BrokerError> {
    Ok(ExchangeSpec {
        tenant: Name::new(&exchange.tenant)?,
        name: Name::new(&exchange.name)?,
        kind: exchange.kind,
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        internal: exchange.internal,
        alternate: exchange.alternate.as_deref().map(Name::new).transpose()?,
        delayed: exchange.delayed,
        arguments: exchange.arguments.clone(),
    })
}

/// A binding as the catalog keeps it.
pub(super) fn stored_binding(spec: &BindingSpec) -> Binding {
    Binding {
        tenant: spec.tenant.to_string(),
        exchange: spec.exchange.to_string(),
        destination: match &spec.destination {
            Destination::Queue(name) => meta::Destination::Queue(name.to_string()),
            Destination::Exchange(name) => meta::Destination::ToExchange(name.to_string()),
        },
        key: spec.key.to_string(),
        arguments: spec.arguments.clone(),
        since: Vec::new(),
    }
}
