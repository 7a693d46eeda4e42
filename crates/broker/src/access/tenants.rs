//! Changes of access in the catalog, and the end of a tenant with all that it has.

use cluster::meta::{DEFAULT_TENANT, Permission, Tenant};
use cluster::{Command, MetaError};
use model::Now;

use crate::connection::ConnectionInfo;
use crate::core::Core;
use crate::{Broker, BrokerError, Event, Evicted, Lsn};

impl Core {
    /// Runs a command that says who may do what: it holds at once.
    pub(crate) fn change_access(&mut self, command: &Command) -> Result<Lsn, BrokerError> {
        let lsn = self.run(command)?;
        let catalog = self.catalog.get();
        // Only what the command touches: many are changed one by one, and compiling all each time would cost the
        // square.
        match command {
            Command::PutPermission(permission) => self.grants.changed(catalog, &permission.user, &permission.tenant),
            Command::DeletePermission((user, tenant)) => self.grants.changed(catalog, user, tenant),
            Command::PutTopicPermission(keys) => self.grants.changed(catalog, &keys.user, &keys.tenant),
            Command::DeleteTopicPermission(keys) => self.grants.changed(catalog, &keys.user, &keys.tenant),
            Command::DeleteUser(user) => self.grants.user_gone(user),
            Command::DeleteTenant(tenant) => self.grants.tenant_gone(tenant),
            _ => self.grants.nothing_changed(),
        }
        Ok(lsn)
    }

    /// The tenant in which something is to be made.
    pub(crate) fn tenant_of(&self, name: &str) -> Result<Tenant, BrokerError> {
        let missing = || BrokerError::Missing { kind: "tenant", name: name.to_owned() };
        self.catalog.get().tenant(name).ok_or_else(missing)
    }

    /// At the start. A catalog that does not name its default tenant is new, or older than permissions: then everybody
    /// could use everything, and goes on to.
    pub(crate) fn recover_access(&mut self) -> Result<(), BrokerError> {
        if !self.catalog.get().tenants.contains_key(DEFAULT_TENANT) {
            let users: Vec<String> = self.catalog.get().users.keys().cloned().collect();
            for user in users {
                self.run(&Command::PutPermission(all_of(&user)))?;
            }
            // The last: should we stop before it, this is done again.
            self.run(&Command::PutTenant(Tenant { name: DEFAULT_TENANT.to_owned(), ..Tenant::default() }))?;
        }
        self.grants.read(self.catalog.get());
        Ok(())
    }
}

/// Everything in the default tenant.
fn all_of(user: &str) -> Permission {
    let all = || ".*".to_owned();
    let (user, tenant) = (user.to_owned(), DEFAULT_TENANT.to_owned());
    Permission { user, tenant, configure: all(), write: all(), read: all() }
}

impl Broker {
    /// Ends the sessions of those for whom `gone` says so.
    pub(crate) fn evict(&mut self, why: Evicted, gone: impl Fn(&ConnectionInfo) -> bool) {
        let sessions: Vec<_> = self.connections().map(|one| &one.info).filter(|info| gone(info)).collect();
        let sessions: Vec<_> = sessions.into_iter().map(|info| info.session).collect();
        for session in sessions {
            self.core.events.push(session, Event::Evicted(why));
        }
    }

    /// Removes what a tenant has, one by one, then the tenant: should we stop in between, it is there with less, and
    /// nobody was told that it is gone.
    pub(super) fn remove_tenant(&mut self, name: &str, now: Now) -> Result<Lsn, BrokerError> {
        if name == DEFAULT_TENANT {
            return Err(MetaError::Needed("tenant '/'").into());
        }
        if !self.has_tenant(name) {
            return Err(BrokerError::Missing { kind: "tenant", name: name.to_owned() });
        }
        self.evict(Evicted::Tenant, |info| &*info.tenant == name);
        self.queues.remove_all_of(&mut self.core, name)?;
        let topics: Vec<String> = self.core.topics.of_tenant(name).map(|topic| topic.name.to_string()).collect();
        for topic in topics {
            self.delete_topic(name, &topic, now)?;
        }
        let lsn = self.core.change_access(&Command::DeleteTenant(name.to_owned()))?;
        self.queues.policies.remove_tenant(name);
        Ok(lsn)
    }
}
