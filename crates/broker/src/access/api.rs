//! What tongues ask of access: whether somebody may, and the tenants and permissions themselves.

use cluster::Command;
use model::{Name, Now};

use super::{Denied, NoEntry, Operation, Permission, Resource, Tenant, TopicPermission, TopicPermissionKey, grants};
use crate::{Broker, BrokerError, Lsn};

impl Broker {
    /// Whether `user` gets into `tenant` at all: there is such a tenant, and something is granted there.
    #[must_use]
    pub fn may_enter(&self, user: &str, tenant: &str) -> bool {
        self.core.grants.enters(user, tenant)
    }

    /// Whether one more connection of `user` may use `tenant` now.
    ///
    /// # Errors
    /// [`NoEntry`] when it may not.
    pub fn enter(&self, user: &str, tenant: &str) -> Result<(), NoEntry> {
        let catalog = self.core.catalog.get();
        let limits = catalog.tenant(tenant).ok_or(NoEntry::NoTenant)?.limits;
        let is_full = |max: u64, open: usize| open as u64 >= max;
        if let Some(max) = limits.connections_max.filter(|max| is_full(*max, self.open_of_tenant(tenant).0)) {
            return Err(NoEntry::TenantFull(max));
        }
        let limits = catalog.users.get(user).map(|user| user.limits).unwrap_or_default();
        if let Some(max) = limits.connections_max.filter(|max| is_full(*max, self.open_of_user(user).0)) {
            return Err(NoEntry::UserFull(max));
        }
        if self.may_enter(user, tenant) { Ok(()) } else { Err(NoEntry::NotGranted) }
    }

    /// How many channels `user` may have open at once, when they have that many.
    #[must_use]
    pub fn channels_full(&self, user: &str) -> Option<u64> {
        let max = self.core.catalog.get().users.get(user)?.limits.channels_max?;
        (self.open_of_user(user).1 as u64 >= max).then_some(max)
    }

    /// Whether `user` may do `operation` with `resource` in `tenant`. Sessions ask through a [`super::Pass`].
    ///
    /// # Errors
    /// [`Denied`] when they may not.
    pub fn authorize(
        &self,
        (user, tenant): (&Name, &Name),
        resource: Resource<'_>,
        operation: Operation,
    ) -> Result<(), Denied> {
        if self.core.grants.allows(user, tenant, resource, operation) {
            return Ok(());
        }
        let (kind, name) = (resource.kind(), resource.name().to_owned());
        Err(Denied::Resource { kind, name, tenant: tenant.clone(), user: user.clone() })
    }

    /// Whether `user` may use `exchange` with the routing key `key`: to publish with it, or to bind (`reads`). Asked
    /// only of exchanges that route by patterns.
    ///
    /// # Errors
    /// [`Denied`] when they may not.
    pub fn authorize_key(
        &self,
        (user, tenant): (&Name, &Name),
        (exchange, key): (&str, &str),
        reads: bool,
    ) -> Result<(), Denied> {
        if self.core.grants.allows_key(user, tenant, (exchange, key), reads) {
            return Ok(());
        }
        let (key, exchange) = (key.to_owned(), exchange.to_owned());
        Err(Denied::Key { key, exchange, tenant: tenant.clone(), user: user.clone() })
    }

    /// Whether anything is said of the routing keys that `user` may use in `tenant`.
    #[must_use]
    pub fn has_keys(&self, user: &str, tenant: &str) -> bool {
        self.core.grants.has_keys(user, tenant)
    }

    /// Changes whenever something that was allowed may be so no more.
    #[must_use]
    pub fn access_version(&self) -> u64 {
        self.core.grants.version()
    }

    /// All tenants, by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<Tenant> {
        let catalog = self.core.catalog.get();
        let mut all: Vec<Tenant> = catalog.tenants.values().cloned().collect();
        if !catalog.tenants.contains_key(super::DEFAULT_TENANT) {
            all.extend(catalog.tenant(super::DEFAULT_TENANT));
        }
        all
    }

    /// One tenant.
    #[must_use]
    pub fn tenant(&self, name: &str) -> Option<Tenant> {
        self.core.catalog.get().tenant(name)
    }

    /// Whether there is such a tenant.
    #[must_use]
    pub fn has_tenant(&self, name: &str) -> bool {
        self.core.catalog.get().has_tenant(name)
    }

    /// Makes a tenant or changes all that is said of one; true when it is new. The answer is held back until synced
    /// up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Name`], [`BrokerError::Storage`].
    pub fn put_tenant(&mut self, tenant: &Tenant) -> Result<(bool, Lsn), BrokerError> {
        Name::new(&tenant.name)?;
        let is_new = !self.has_tenant(&tenant.name);
        Ok((is_new, self.core.change_access(&Command::PutTenant(tenant.clone()))?))
    }

    /// Removes a tenant and all that is its own: queues, exchanges, bindings, topics, permissions. Who is connected
    /// to it is cut off. The answer is held back until synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Invalid`] for the default one, [`BrokerError::Storage`].
    pub fn delete_tenant(&mut self, name: &str, now: Now) -> Result<Lsn, BrokerError> {
        self.core.now = now;
        self.remove_tenant(name, now)
    }

    /// All permissions, by user and tenant.
    #[must_use]
    pub fn permissions(&self) -> Vec<Permission> {
        self.core.catalog.get().permissions.values().cloned().collect()
    }

    /// What a user may do in a tenant.
    #[must_use]
    pub fn permission(&self, user: &str, tenant: &str) -> Option<Permission> {
        self.core.catalog.get().permissions.get(&(user.to_owned(), tenant.to_owned())).cloned()
    }

    /// Grants, or changes what is granted; true when it is new. It holds from the next call of any session on. The
    /// answer is held back until synced up to the [`Lsn`].
    ///
    /// # Errors [`BrokerError::Missing`] of the user or the tenant, [`BrokerError::Invalid`] for a pattern,
    /// [`BrokerError::Storage`].
    pub fn put_permission(&mut self, permission: &Permission) -> Result<(bool, Lsn), BrokerError> {
        grants::check(permission)?;
        let is_new = self.permission(&permission.user, &permission.tenant).is_none();
        Ok((is_new, self.core.change_access(&Command::PutPermission(permission.clone()))?))
    }

    /// Whether a permission could be put, if its user and its tenant are there.
    ///
    /// # Errors
    /// [`BrokerError::Invalid`] for a pattern.
    pub fn check_permission(&self, permission: &Permission) -> Result<(), BrokerError> {
        grants::check(permission)
    }

    /// As [`Broker::check_permission`], of a topic permission.
    ///
    /// # Errors
    /// As there.
    pub fn check_topic_permission(&self, permission: &TopicPermission) -> Result<(), BrokerError> {
        grants::check_keys(permission)
    }

    /// Takes a permission away.
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Storage`].
    pub fn delete_permission(&mut self, user: &str, tenant: &str) -> Result<Lsn, BrokerError> {
        self.core.change_access(&Command::DeletePermission((user.to_owned(), tenant.to_owned())))
    }

    /// All topic permissions, by user and tenant.
    #[must_use]
    pub fn topic_permissions(&self) -> Vec<TopicPermission> {
        self.core.catalog.get().topic_permissions.values().flatten().cloned().collect()
    }

    /// Those of one user in one tenant.
    #[must_use]
    pub fn topic_permissions_of(&self, user: &str, tenant: &str) -> &[TopicPermission] {
        let of_user = (user.to_owned(), tenant.to_owned());
        self.core.catalog.get().topic_permissions.get(&of_user).map(Vec::as_slice).unwrap_or_default()
    }

    /// Says with which keys a user may use an exchange; true when nothing was said of it before.
    ///
    /// # Errors
    /// As [`Broker::put_permission`].
    pub fn put_topic_permission(&mut self, permission: &TopicPermission) -> Result<(bool, Lsn), BrokerError> {
        grants::check_keys(permission)?;
        let known = self.topic_permissions_of(&permission.user, &permission.tenant);
        let is_new = !known.iter().any(|one| one.exchange == permission.exchange);
        Ok((is_new, self.core.change_access(&Command::PutTopicPermission(permission.clone()))?))
    }

    /// Takes topic permissions away: of one exchange or of all. What is not there is no error.
    ///
    /// # Errors
    /// [`BrokerError::Storage`].
    pub fn delete_topic_permission(&mut self, key: &TopicPermissionKey) -> Result<Lsn, BrokerError> {
        self.core.change_access(&Command::DeleteTopicPermission(key.clone()))
    }
}
