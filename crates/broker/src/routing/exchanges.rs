//! The exchanges of all tenants, and the way of a message through them: along bindings between exchanges, whatever
//! circles these make, and to alternate exchanges.

use std::collections::HashMap;

use model::{Format, Header, Name};

use super::exchange::Exchange;
use super::table::{Dest, Opened};
use super::{ExchangeKind, ExchangeSpec, PublishRequest};

/// What is routed.
#[derive(Clone, Copy)]
pub(super) struct Routing<'a> {
    pub(super) tenant: &'a str,
    pub(super) key: &'a str,
    pub(super) more_keys: &'a [&'a str],
    pub(super) headers: &'a dyn Fn() -> Vec<Header>,
    /// Asked how long it waits in delayed exchanges; what is not given waits in none.
    pub(super) unit: Option<(&'a dyn Format, &'a [u8])>,
}

/// The delayed exchanges in which the message that was routed last has to wait, and how long.
#[derive(Default)]
pub(crate) struct Waits {
    /// Their ids.
    pub(crate) at: Vec<u64>,
    /// Milliseconds; what the message said, once it was asked.
    pub(crate) ms: Option<Option<i64>>,
    /// The unit as it is when the wait is over.
    pub(crate) unit: Vec<u8>,
}

impl Waits {
    /// Nothing waits.
    pub(super) fn clear(&mut self) {
        self.at.clear();
        self.ms = None;
    }

    /// Whether what is routed has to wait in a delayed exchange.
    fn asked(&mut self, routing: &Routing<'_>) -> bool {
        let Some((format, unit)) = routing.unit else { return false };
        if self.ms.is_none() {
            self.unit.clear();
            self.ms = Some(format.delay(unit, &mut self.unit));
        }
        self.ms.flatten().is_some()
    }
}

/// The exchanges of all tenants. Looked up by borrowed names: nothing is allocated for a publish.
#[derive(Default)]
pub(crate) struct Exchanges {
    /// Exchanges that every tenant always has. Their spec's tenant says nothing.
    builtin: Vec<ExchangeSpec>,
    /// Tenant → name → id.
    names: HashMap<Name, HashMap<Name, u64>>,
    by_id: HashMap<u64, Exchange>,
    last: u64,
    /// The exchanges that a message has come through, kept for its memory.
    way: Vec<u64>,
    /// Where the latest message waits.
    pub(crate) waits: Waits,
}

impl Exchanges {
    /// No exchanges but those that every tenant always has.
    pub(crate) fn new(builtin: Vec<ExchangeSpec>) -> Exchanges {
        Exchanges { builtin, ..Exchanges::default() }
    }

    /// Whether every tenant always has it.
    pub(crate) fn is_builtin(&self, name: &str) -> bool {
        self.builtin(name).is_some()
    }

    /// The names of the exchanges that every tenant always has.
    pub(crate) fn builtin_names(&self) -> Vec<Name> {
        self.builtin.iter().map(|spec| spec.name.clone()).collect()
    }

    /// An exchange that every tenant always has.
    pub(super) fn builtin(&self, name: &str) -> Option<&ExchangeSpec> {
        self.builtin.iter().find(|spec| spec.name.as_str() == name)
    }

    /// The id of an exchange that was declared, or is built in and has been bound to.
    pub(crate) fn id_of(&self, tenant: &str, name: &str) -> Option<u64> {
        self.names.get(tenant)?.get(name).copied()
    }

    /// As [`Exchanges::id_of`]; a built-in one is made for the tenant when first asked for.
    pub(crate) fn id_made(&mut self, tenant: &str, name: &str) -> Option<u64> {
        if self.id_of(tenant, name).is_none() {
            let spec = self.spec(tenant, name)?;
            self.insert(spec);
        }
        self.id_of(tenant, name)
    }

    /// An exchange that was declared, or is built in and has been bound to.
    pub(crate) fn get(&self, tenant: &str, name: &str) -> Option<&Exchange> {
        self.by_id.get(&self.id_of(tenant, name)?)
    }

    /// One to change.
    pub(crate) fn of_id(&mut self, id: u64) -> Option<&mut Exchange> {
        self.by_id.get_mut(&id)
    }

    /// The number of a delayed exchange; 0 of any other, and of none.
    pub(crate) fn number(&self, tenant: &str, name: &str) -> u64 {
        self.get(tenant, name).map_or(0, |exchange| exchange.spec.number)
    }

    /// How an exchange routes.
    pub(super) fn kind(&self, tenant: &str, name: &str) -> Option<ExchangeKind> {
        let made = self.get(tenant, name).map(|exchange| exchange.spec.kind);
        made.or_else(|| self.builtin(name).map(|spec| spec.kind))
    }

    /// An exchange's declaration.
    pub(crate) fn spec(&self, tenant: &str, name: &str) -> Option<ExchangeSpec> {
        if let Some(exchange) = self.get(tenant, name) {
            return Some(exchange.spec.clone());
        }
        let builtin = self.builtin(name)?;
        Some(ExchangeSpec { tenant: Name::new(tenant).ok()?, ..builtin.clone() })
    }

    /// The declarations of all exchanges of a tenant, by name.
    pub(super) fn list(&self, tenant: &str) -> Vec<ExchangeSpec> {
        let made = self.names.get(tenant).into_iter().flat_map(HashMap::keys);
        let mut names = made.chain(self.builtin.iter().map(|spec| &spec.name)).collect::<Vec<_>>();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter_map(|name| self.spec(tenant, name)).collect()
    }

    /// The exchanges of a tenant that have been made.
    pub(crate) fn made(&self, tenant: &str) -> impl Iterator<Item = &Exchange> {
        let ids = self.names.get(tenant).into_iter().flat_map(HashMap::values);
        ids.filter_map(|id| self.by_id.get(id))
    }

    /// The name and the number of the exchange with that id.
    pub(crate) fn numbered(&self, id: u64) -> Option<(Name, u64)> {
        self.by_id.get(&id).map(|exchange| (exchange.spec.name.clone(), exchange.spec.number))
    }

    /// The name of the exchange with that id.
    pub(super) fn name_of(&self, id: u64) -> Option<&Name> {
        self.by_id.get(&id).map(|exchange| &exchange.spec.name)
    }

    /// Adds an exchange without bindings.
    pub(crate) fn insert(&mut self, spec: ExchangeSpec) {
        self.last += 1;
        self.names.entry(spec.tenant.clone()).or_default().insert(spec.name.clone(), self.last);
        self.by_id.insert(self.last, Exchange::new(spec));
    }

    /// Removes an exchange; answers its id.
    pub(super) fn remove(&mut self, tenant: &str, name: &str) -> Option<u64> {
        let id = self.names.get_mut(tenant)?.remove(name)?;
        self.by_id.remove(&id);
        Some(id)
    }

    /// A tenant is gone, and its exchanges are.
    pub(super) fn forget_tenant(&mut self, tenant: &str) {
        self.names.remove(tenant);
    }

    /// Removes all bindings to a destination; answers the exchanges whose last binding that was and that go with it.
    pub(super) fn unbind_all(&mut self, tenant: &str, dest: Dest) -> Vec<Name> {
        let ids = self.names.get(tenant).into_iter().flat_map(HashMap::values);
        let mut names = Vec::new();
        for id in ids {
            let Some(exchange) = self.by_id.get_mut(id) else { continue };
            if exchange.unbind_all(dest) && exchange.spec.auto_delete && exchange.is_unused() {
                names.push(exchange.spec.name.clone());
            }
        }
        names.sort_unstable(); // the same order on every run
        names
    }

    /// Puts the queues that a message published to exchange `id` goes to into `queues`, each once.
    pub(super) fn route(&mut self, id: u64, request: &PublishRequest<'_>, queues: &mut Vec<u64>) {
        let &PublishRequest { tenant, key, more_keys, headers, format, unit, .. } = request;
        self.route_by(id, &Routing { tenant, key, more_keys, headers, unit: Some((format, unit)) }, queues);
    }

    /// As [`Exchanges::route`]. Where it waits is added to what waits.
    pub(super) fn route_by(&mut self, id: u64, routing: &Routing<'_>, queues: &mut Vec<u64>) {
        let &Routing { tenant, key, more_keys, headers, .. } = routing;
        let mut headers = Opened::new(headers);
        let mut way = std::mem::take(&mut self.way);
        way.clear();
        way.push(id);
        let mut at = 0;
        while let Some(exchange) = way.get(at).and_then(|id| self.by_id.get_mut(id)) {
            at += 1;
            if exchange.spec.number != 0 && self.waits.asked(routing) {
                self.waits.at.extend(way.get(at - 1));
                continue;
            }
            let mut found = false;
            let mut visit = |dest| {
                found = true;
                match dest {
                    Dest::Queue(id) => queues.push(id),
                    Dest::Exchange(id) if !way.contains(&id) => way.push(id),
                    Dest::Exchange(_) => {}
                }
            };
            exchange.find(key, &mut headers, &mut visit);
            for key in more_keys {
                exchange.find(key, &mut headers, &mut visit);
            }
            if !found
                && let Some(alternate) = &exchange.alternate
                && let Some(id) = self.names.get(tenant).and_then(|names| names.get(alternate))
                && !way.contains(id)
            {
                way.push(*id);
            }
        }
        if way.len() > 1 || !more_keys.is_empty() {
            queues.sort_unstable();
            queues.dedup();
        }
        self.way = way;
    }
}
