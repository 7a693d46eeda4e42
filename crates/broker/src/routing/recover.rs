//! Exchanges and bindings as the catalog keeps them, and finding them again after a start.

use std::collections::BTreeMap;

use cluster::meta::{self, Binding};
use model::{LogId, Name};

use super::feed::Feed;
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
        let ruled = catalog.policies(false).keys().chain(catalog.policies(true).keys()).map(|(tenant, _)| tenant);
        for tenant in ruled.collect::<std::collections::BTreeSet<_>>() {
            self.govern_exchanges(tenant);
        }
        for binding in catalog.bindings.iter().filter(|binding| !binding.is_fed()) {
            let dest = self.dest_of(binding);
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

impl Queues {
    /// Topics that feed queues go on from where they had come.
    pub(crate) fn recover_feeds(&mut self, core: &mut Core, positions: &BTreeMap<u64, u64>) {
        let mut fed: BTreeMap<(&str, &str), Vec<&Binding>> = BTreeMap::new();
        for binding in core.catalog.get().bindings.iter().filter(|binding| binding.is_fed()) {
            fed.entry((&binding.tenant, &binding.exchange)).or_default().push(binding);
        }
        for bindings in fed.into_values() {
            if let Err(error) = self.recover_feed(core, &bindings, positions) {
                tracing::error!(topic = bindings.first().map(|one| &one.exchange), %error, "a feed cannot be opened");
            }
        }
    }

    fn recover_feed(
        &mut self,
        core: &Core,
        bindings: &[&Binding],
        positions: &BTreeMap<u64, u64>,
    ) -> Result<(), BrokerError> {
        let Some(first) = bindings.first() else { return Ok(()) };
        // Nothing was fed yet where no position is stored: it begins with the oldest binding.
        let oldest = |log: u64| {
            let since = bindings.iter().flat_map(|one| &one.since).filter(|(of, _)| *of == log);
            since.map(|(_, from)| *from).min()
        };
        // A partition made after a binding is fed from its first message on.
        let topic = core.topics.get(&first.tenant, &first.exchange);
        let logs = topic.map(|topic| topic.partitions.clone()).unwrap_or_default();
        let ends = logs
            .iter()
            .map(|log| log.0)
            .map(|log| (log, positions.get(&log).copied().or_else(|| oldest(log)).unwrap_or(0)));
        let ends = ends.collect::<Vec<_>>();
        let mut feed = Feed::new(&Name::new(&first.tenant)?, &Name::new(&first.exchange)?, &ends);
        for binding in bindings {
            let dest = self.dest_of(binding);
            let (Some(dest), Ok(key)) = (dest, Name::new(&binding.key)) else {
                tracing::error!(topic = binding.exchange, to = ?binding.destination, "a binding leads nowhere");
                continue;
            };
            feed.bind((dest, &key, &binding.arguments), &binding.since, true);
        }
        self.feeds.insert(feed);
        for (log, _) in ends {
            let end = core.partitions.watermark(LogId(log)).unwrap_or_default();
            self.feeds.log_moved(LogId(log), end.0);
        }
        Ok(())
    }

    fn dest_of(&mut self, binding: &Binding) -> Option<Dest> {
        match &binding.destination {
            meta::Destination::Queue(name) => self.id_of(&binding.tenant, name).map(Dest::Queue),
            meta::Destination::ToExchange(name) => self.exchanges.id_made(&binding.tenant, name).map(Dest::Exchange),
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
        number: spec.number,
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
        number: exchange.number,
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
