//! What a session has been allowed, remembered: a publish to the exchange of the publish before asks for no pattern.
//! What is refused is not remembered: it ends the channel anyway.

use model::Name;

use super::{Denied, Operation, Resource};
use crate::Broker;

/// How many grants are remembered: a channel rarely uses more names. The oldest is forgotten for a new one.
const KNOWN_MAX: usize = 12;

/// Who a session is, where, and what it is known to be allowed. A change of permissions holds from the next call on.
#[derive(Clone, Debug)]
pub struct Pass {
    user: Name,
    tenant: Name,
    /// Of the grants when `known` was learnt.
    version: u64,
    known: Vec<Known>,
    next: usize,
    has_keys: bool,
}

#[derive(Clone, Debug)]
struct Known {
    operation: Operation,
    kind: &'static str,
    name: Name,
}

impl Pass {
    /// Of somebody who has been let into the tenant.
    #[must_use]
    pub fn new(user: &Name, tenant: &Name) -> Pass {
        Pass { user: user.clone(), tenant: tenant.clone(), version: 0, known: Vec::new(), next: 0, has_keys: false }
    }

    /// Who.
    #[must_use]
    pub fn user(&self) -> &Name {
        &self.user
    }

    /// Where.
    #[must_use]
    pub fn tenant(&self) -> &Name {
        &self.tenant
    }

    /// Whether that may be done.
    ///
    /// # Errors
    /// [`Denied`] when it may not.
    pub fn check(&mut self, broker: &Broker, resource: Resource<'_>, operation: Operation) -> Result<(), Denied> {
        self.learn(broker);
        let (kind, name) = (resource.kind(), resource.name());
        if self.known.iter().any(|one| one.operation == operation && one.kind == kind && *one.name == *name) {
            return Ok(());
        }
        broker.authorize((&self.user, &self.tenant), resource, operation)?;
        if let Ok(name) = Name::new(name) {
            let known = Known { operation, kind, name };
            if self.known.len() < KNOWN_MAX {
                self.known.push(known);
            } else if let Some(oldest) = self.known.get_mut(self.next % KNOWN_MAX) {
                *oldest = known;
                self.next += 1;
            }
        }
        Ok(())
    }

    /// Whether anything is said of the routing keys that the user may use: mostly not, then [`Pass::check_keys`] need
    /// not be asked.
    pub fn has_keys(&mut self, broker: &Broker) -> bool {
        self.learn(broker);
        self.has_keys
    }

    /// Whether the exchange may be used with all of these routing keys: to publish with them, or to bind (`reads`).
    /// Only exchanges that route by patterns are looked at.
    ///
    /// # Errors
    /// [`Denied`] when it may not.
    pub fn check_keys(&mut self, broker: &Broker, exchange: &str, keys: &[&str], reads: bool) -> Result<(), Denied> {
        if !self.has_keys(broker) || !broker.routes_by_pattern(&self.tenant, exchange) {
            return Ok(());
        }
        let who = (&self.user, &self.tenant);
        keys.iter().try_for_each(|key| broker.authorize_key(who, (exchange, key), reads))
    }

    /// Forgets what permissions that have changed had allowed.
    fn learn(&mut self, broker: &Broker) {
        let version = broker.access_version();
        if self.version != version {
            self.known.clear();
            self.has_keys = broker.has_keys(&self.user, &self.tenant);
            self.version = version;
        }
    }
}
