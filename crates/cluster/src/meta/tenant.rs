//! Tenants: who owns what, and how much of it there may be.

use serde::{Deserialize, Serialize};

use super::{Catalog, MetaError, QueueKind, is_default, missing};

/// The tenant that always exists.
pub const DEFAULT_TENANT: &str = "/";

/// A tenant: a name space of topics, queues, exchanges and bindings of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// What people say it is for.
    #[serde(skip_serializing_if = "is_default")]
    pub description: String,
    /// Words by which people find it; they have no effect.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: Vec<String>,
    /// What queues promise that do not say it themselves.
    #[serde(skip_serializing_if = "is_default")]
    pub default_queue_kind: Option<QueueKind>,
    /// How much of anything.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: TenantLimits,
}

/// How much of anything a tenant may have; without a number there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct TenantLimits {
    /// Connections open at once.
    #[serde(skip_serializing_if = "is_default")]
    pub connections_max: Option<u64>,
    /// Queues.
    #[serde(skip_serializing_if = "is_default")]
    pub queues_max: Option<u64>,
}

impl Catalog {
    /// A tenant by name. The default one is there though nobody has made it.
    #[must_use]
    pub fn tenant(&self, name: &str) -> Option<Tenant> {
        let made = self.tenants.get(name).cloned();
        made.or_else(|| (name == DEFAULT_TENANT).then(|| Tenant { name: name.to_owned(), ..Tenant::default() }))
    }

    /// Whether there is a tenant of that name.
    #[must_use]
    pub fn has_tenant(&self, name: &str) -> bool {
        name == DEFAULT_TENANT || self.tenants.contains_key(name)
    }

    pub(super) fn check_tenant(&self, name: &str) -> Result<(), MetaError> {
        if self.has_tenant(name) { Ok(()) } else { Err(missing("tenant", name)) }
    }

    pub(super) fn check_delete_tenant(&self, name: &str) -> Result<(), MetaError> {
        if name == DEFAULT_TENANT { Err(MetaError::Needed("tenant '/'")) } else { self.check_tenant(name) }
    }

    pub(super) fn put_tenant(&mut self, tenant: &Tenant) {
        self.tenants.insert(tenant.name.clone(), tenant.clone());
    }

    /// All that is the tenant's goes with it.
    pub(super) fn delete_tenant(&mut self, name: &str) {
        self.tenants.remove(name);
        self.topics.retain(|key, _| key.0 != name);
        self.queues.remove_tenant(name);
        self.exchanges.retain(|key, _| key.0 != name);
        self.bindings.remove_tenant(name);
        self.permissions.retain(|key, _| key.1 != name);
        self.topic_permissions.retain(|key, _| key.1 != name);
        self.policies.retain(|key, _| key.0 != name);
        self.operator_policies.retain(|key, _| key.0 != name);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Binding, Command, Destination, Permission};
    use super::*;

    fn tenant(name: &str) -> Command {
        Command::PutTenant(Tenant { name: name.to_owned(), ..Tenant::default() })
    }

    #[test]
    fn the_default_tenant_is_there_and_stays() {
        let mut catalog = Catalog::default();
        assert_eq!(catalog.tenant("/").unwrap().name, "/");
        let gone = catalog.apply(&Command::DeleteTenant("/".into())).unwrap_err();
        assert_eq!(gone.to_string(), "tenant '/' is needed and cannot be removed");
        let missing = catalog.apply(&Command::DeleteTenant("t".into())).unwrap_err();
        assert_eq!(missing.to_string(), "no tenant 't'");
    }

    #[test]
    fn what_a_tenant_has_goes_with_it_and_nothing_else() {
        let mut catalog = Catalog::default();
        let user = super::super::User { name: "u".into(), ..super::super::User::default() };
        catalog.apply(&Command::PutUser(user)).unwrap();
        for name in ["a", "b"] {
            catalog.apply(&tenant(name)).unwrap();
            let binding = Binding {
                tenant: name.into(),
                exchange: "amq.direct".into(),
                destination: Destination::ToExchange("amq.fanout".into()),
                key: String::new(),
                arguments: Default::default(),
                since: Vec::new(),
            };
            catalog.apply(&Command::Bind(binding)).unwrap();
            let permission = Permission { user: "u".into(), tenant: name.into(), ..Permission::default() };
            catalog.apply(&Command::PutPermission(permission)).unwrap();
        }
        let mut only_b = catalog.clone();
        only_b.apply(&Command::DeleteTenant("a".into())).unwrap();
        assert!(only_b.tenant("a").is_none() && only_b.tenant("b").is_some());
        assert_eq!(only_b.bindings.len(), 1);
        assert_eq!(only_b.permissions.keys().collect::<Vec<_>>(), [&("u".to_owned(), "b".to_owned())]);
    }
}
