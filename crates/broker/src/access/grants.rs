//! What is granted, compiled: the catalog's permissions by user and tenant. Compiled again when they change.

use std::collections::HashMap;
use std::sync::Arc;

use cluster::Catalog;
use cluster::meta::{Permission, TopicPermission};

use super::pattern::Pattern;
use super::{Operation, Resource};
use crate::BrokerError;

/// Grants of all users.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// User → tenant → what is granted. Looked up by borrowed names.
    by_user: HashMap<String, HashMap<String, Grant>>,
    /// Counts changes of users, tenants and permissions.
    version: u64,
}

/// What one user may do in one tenant.
#[derive(Debug)]
struct Grant {
    configure: Arc<Pattern>,
    write: Arc<Pattern>,
    read: Arc<Pattern>,
    keys: Vec<KeyGrant>,
}

/// With which keys one exchange may be used.
#[derive(Debug)]
struct KeyGrant {
    exchange: String,
    write: Pattern,
    read: Pattern,
}

impl Grants {
    /// Changes whenever something that was allowed may be so no more.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Compiles everything that `catalog` grants. A stored pattern that cannot be compiled takes nothing.
    pub(crate) fn read(&mut self, catalog: &Catalog) {
        self.version += 1;
        self.by_user.clear();
        let mut compiled = HashMap::new(); // most users have the same few
        for permission in catalog.permissions.values() {
            self.insert(catalog, permission, &mut compiled);
        }
    }

    /// What is granted to one user in one tenant has changed, or is granted no more.
    pub(super) fn changed(&mut self, catalog: &Catalog, user: &str, tenant: &str) {
        self.version += 1;
        match catalog.permissions.get(&(user.to_owned(), tenant.to_owned())) {
            Some(permission) => self.insert(catalog, permission, &mut HashMap::new()),
            None => self.forget(user, tenant),
        }
    }

    /// A user is gone.
    pub(super) fn user_gone(&mut self, user: &str) {
        self.version += 1;
        self.by_user.remove(user);
    }

    /// A tenant is gone.
    pub(super) fn tenant_gone(&mut self, tenant: &str) {
        self.version += 1;
        self.by_user.retain(|_, tenants| {
            tenants.remove(tenant);
            !tenants.is_empty()
        });
    }

    /// Users or tenants have changed, and what is granted has not.
    pub(super) fn nothing_changed(&mut self) {
        self.version += 1;
    }

    fn forget(&mut self, user: &str, tenant: &str) {
        let Some(tenants) = self.by_user.get_mut(user) else { return };
        tenants.remove(tenant);
        if tenants.is_empty() {
            self.by_user.remove(user);
        }
    }

    fn insert<'t>(
        &mut self,
        catalog: &Catalog,
        permission: &'t Permission,
        compiled: &mut HashMap<&'t str, Arc<Pattern>>,
    ) {
        let mut pattern = |text: &'t str| Arc::clone(compiled.entry(text).or_insert_with(|| Arc::new(lenient(text))));
        let (configure, write) = (pattern(&permission.configure), pattern(&permission.write));
        let read = pattern(&permission.read);
        let key = (permission.user.clone(), permission.tenant.clone());
        let keys = catalog.topic_permissions.get(&key).into_iter().flatten().map(KeyGrant::of).collect();
        self.by_user.entry(key.0).or_default().insert(key.1, Grant { configure, write, read, keys });
    }

    fn get(&self, user: &str, tenant: &str) -> Option<&Grant> {
        self.by_user.get(user)?.get(tenant)
    }

    /// Whether the user gets into the tenant at all.
    pub(super) fn enters(&self, user: &str, tenant: &str) -> bool {
        self.get(user, tenant).is_some()
    }

    /// Whether the user may do that.
    pub(super) fn allows(&self, user: &str, tenant: &str, resource: Resource<'_>, operation: Operation) -> bool {
        self.get(user, tenant).is_some_and(|grant| {
            let pattern = match operation {
                Operation::Configure => &grant.configure,
                Operation::Write => &grant.write,
                Operation::Read => &grant.read,
            };
            pattern.takes(resource.name())
        })
    }

    /// Whether the user may use the exchange with `key`: with any, unless something is said of that exchange.
    pub(super) fn allows_key(&self, user: &str, tenant: &str, (exchange, key): (&str, &str), reads: bool) -> bool {
        let Some(keys) = self.key_grant(user, tenant, exchange) else { return true };
        if reads { keys.read.takes(key) } else { keys.write.takes(key) }
    }

    /// Whether anything is said of the keys of any exchange.
    pub(super) fn has_keys(&self, user: &str, tenant: &str) -> bool {
        self.get(user, tenant).is_some_and(|grant| !grant.keys.is_empty())
    }

    fn key_grant(&self, user: &str, tenant: &str, exchange: &str) -> Option<&KeyGrant> {
        self.get(user, tenant)?.keys.iter().find(|keys| keys.exchange == exchange)
    }
}

/// What was stored was checked; should a later version not take it, it is as if nothing had been granted.
fn lenient(text: &str) -> Pattern {
    Pattern::new(text).unwrap_or_else(|why| {
        tracing::error!(%why, "a stored pattern cannot be compiled: it lets nothing through");
        Pattern::Nothing
    })
}

impl KeyGrant {
    fn of(permission: &TopicPermission) -> KeyGrant {
        KeyGrant {
            exchange: permission.exchange.clone(),
            write: lenient(&expanded(&permission.write, permission)),
            read: lenient(&expanded(&permission.read, permission)),
        }
    }
}

/// Replaces the variables that a pattern for keys may name by what they stand for, taken literally.
fn expanded(pattern: &str, permission: &TopicPermission) -> String {
    let named = [("{username}", &permission.user), ("{vhost}", &permission.tenant)];
    named.iter().fold(pattern.to_owned(), |text, (variable, value)| text.replace(variable, &fancy_regex::escape(value)))
}

/// Whether all patterns of a permission can be compiled.
pub(super) fn check(permission: &Permission) -> Result<(), BrokerError> {
    let all = [&permission.configure, &permission.write, &permission.read];
    all.into_iter().try_for_each(|text| Pattern::new(text).map(drop))
}

/// As [`check`].
pub(super) fn check_keys(permission: &TopicPermission) -> Result<(), BrokerError> {
    let all = [&permission.write, &permission.read];
    all.into_iter().try_for_each(|text| Pattern::new(&expanded(text, permission)).map(drop))
}
