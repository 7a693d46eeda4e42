//! Making and removing exchanges and bindings, and finding them again after a start.

use cluster::Command;
use cluster::meta::{self, Binding};
use model::Name;
use storage::Lsn;

use super::{BindingSpec, ExchangeSpec};
use crate::core::Core;
use crate::queue::Queues;
use crate::{BrokerError, SessionId};

impl Queues {
    /// At the start, once the queues are back.
    pub(crate) fn recover_exchanges(&mut self, core: &Core) {
        let catalog = core.catalog.get();
        for exchange in catalog.exchanges.values() {
            match stored_spec(exchange) {
                Ok(spec) => self.exchanges.insert(spec),
                Err(error) => tracing::error!(exchange = exchange.name, %error, "an exchange cannot be opened"),
            }
        }
        for binding in &catalog.bindings {
            let queue = self.id_of(&binding.tenant, &binding.queue);
            let exchange = self.exchanges.get_mut(&binding.tenant, &binding.exchange);
            let (Some(queue), Some(exchange), Ok(key)) = (queue, exchange, Name::new(&binding.key)) else {
                tracing::error!(exchange = binding.exchange, queue = binding.queue, "a binding leads nowhere");
                continue;
            };
            exchange.bind(queue, &key, &binding.arguments);
        }
    }

    pub(super) fn declare_exchange(
        &mut self,
        core: &mut Core,
        spec: &ExchangeSpec,
    ) -> Result<(ExchangeSpec, Lsn), BrokerError> {
        if let Some(found) = self.exchanges.spec(&spec.tenant, &spec.name) {
            return Ok((found, core.catalog.last_change()));
        }
        let lsn = if spec.durable { core.run(&Command::CreateExchange(stored(spec)))? } else { Lsn::default() };
        self.exchanges.insert(spec.clone());
        Ok((spec.clone(), lsn))
    }

    pub(super) fn delete_exchange(
        &mut self,
        core: &mut Core,
        tenant: &str,
        name: &str,
        if_unused: bool,
    ) -> Result<Lsn, BrokerError> {
        match self.exchanges.get(tenant, name) {
            Some(exchange) if if_unused && !exchange.is_unused() => {
                Err(BrokerError::InUse { name: name.to_owned(), why: "in use" })
            }
            Some(_) => self.remove_exchange(core, tenant, name),
            None => Ok(core.catalog.last_change()),
        }
    }

    /// Removes an exchange with its bindings.
    pub(crate) fn remove_exchange(&mut self, core: &mut Core, tenant: &str, name: &str) -> Result<Lsn, BrokerError> {
        let durable = self.exchanges.get(tenant, name).is_some_and(|exchange| exchange.spec.durable);
        let lsn = if durable && !self.exchanges.is_builtin(name) {
            core.run(&Command::DeleteExchange((tenant.to_owned(), name.to_owned())))?
        } else {
            Lsn::default()
        };
        self.exchanges.remove(tenant, name);
        Ok(lsn)
    }

    pub(super) fn bind(&mut self, core: &mut Core, session: SessionId, spec: &BindingSpec) -> Result<Lsn, BrokerError> {
        let queue = self.find(session, &spec.tenant, &spec.queue)?;
        let (id, is_stored) = (queue.id, queue.is_stored());
        let missing = || BrokerError::Missing { kind: "exchange", name: spec.exchange.as_str().to_owned() };
        let exchange = self.exchanges.get_mut(&spec.tenant, &spec.exchange).ok_or_else(missing)?;
        if exchange.has(id, &spec.key, &spec.arguments) {
            return Ok(core.catalog.last_change());
        }
        // A binding lasts as long as both its ends.
        let lasts = is_stored && exchange.spec.durable;
        let lsn = if lasts { core.run(&Command::Bind(stored_binding(spec)))? } else { Lsn::default() };
        exchange.bind(id, &spec.key, &spec.arguments);
        Ok(lsn)
    }

    pub(super) fn unbind(
        &mut self,
        core: &mut Core,
        session: SessionId,
        spec: &BindingSpec,
    ) -> Result<Lsn, BrokerError> {
        let queue = match self.find(session, &spec.tenant, &spec.queue) {
            Ok(queue) => queue,
            Err(BrokerError::Missing { .. }) => return Ok(core.catalog.last_change()),
            Err(error) => return Err(error),
        };
        let (id, is_stored) = (queue.id, queue.is_stored());
        let Some(exchange) = self.exchanges.get_mut(&spec.tenant, &spec.exchange) else {
            return Ok(core.catalog.last_change());
        };
        if !exchange.has(id, &spec.key, &spec.arguments) {
            return Ok(core.catalog.last_change());
        }
        let lasts = is_stored && exchange.spec.durable;
        let lsn = if lasts { core.run(&Command::Unbind(stored_binding(spec)))? } else { Lsn::default() };
        exchange.unbind(id, &spec.key, &spec.arguments);
        if exchange.spec.auto_delete && exchange.is_unused() {
            return Ok(lsn.max(self.remove_exchange(core, &spec.tenant, &spec.exchange)?));
        }
        Ok(lsn)
    }
}

fn stored(spec: &ExchangeSpec) -> meta::Exchange {
    meta::Exchange {
        tenant: spec.tenant.to_string(),
        name: spec.name.to_string(),
        kind: spec.kind,
        durable: spec.durable,
        auto_delete: spec.auto_delete,
        internal: spec.internal,
        arguments: spec.arguments.clone(),
    }
}

fn stored_spec(exchange: &meta::Exchange) -> Result<ExchangeSpec, BrokerError> {
    Ok(ExchangeSpec {
        tenant: Name::new(&exchange.tenant)?,
        name: Name::new(&exchange.name)?,
        kind: exchange.kind,
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        internal: exchange.internal,
        arguments: exchange.arguments.clone(),
    })
}

fn stored_binding(spec: &BindingSpec) -> Binding {
    Binding {
        tenant: spec.tenant.to_string(),
        exchange: spec.exchange.to_string(),
        queue: spec.queue.to_string(),
        key: spec.key.to_string(),
        arguments: spec.arguments.clone(),
    }
}
