//! Permissions: which names a user may use, and for what, within one tenant.

use serde::{Deserialize, Serialize};

use super::{Catalog, MetaError, missing};

/// What a user may do in a tenant: a regular expression over names for each kind of operation. An empty one lets
/// nothing through. Without a permission a user does not get into the tenant at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// Whose.
    pub user: String,
    /// Where.
    pub tenant: String,
    /// What may be made, changed and removed.
    pub configure: String,
    /// What may be written to.
    pub write: String,
    /// What may be read from.
    pub read: String,
}

/// With which routing keys a user may use an exchange that routes by patterns. Without one every key is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicPermission {
    /// Whose.
    pub user: String,
    /// Where.
    pub tenant: String,
    /// Of which exchange.
    pub exchange: String,
    /// Keys to publish with.
    pub write: String,
    /// Keys to bind with.
    pub read: String,
}

/// Names a topic permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicPermissionKey {
    /// Whose.
    pub user: String,
    /// Where.
    pub tenant: String,
    /// Of which exchange; `None` is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
}

impl Catalog {
    fn check_user_and_tenant(&self, user: &str, tenant: &str) -> Result<(), MetaError> {
        self.check_user(user)?;
        self.check_tenant(tenant)
    }

    pub(super) fn check_put_permission(&self, permission: &Permission) -> Result<(), MetaError> {
        self.check_user_and_tenant(&permission.user, &permission.tenant)
    }

    pub(super) fn put_permission(&mut self, permission: &Permission) {
        self.permissions.insert((permission.user.clone(), permission.tenant.clone()), permission.clone());
    }

    pub(super) fn delete_permission(&mut self, key: &super::Key) {
        self.permissions.remove(key);
    }

    pub(super) fn check_put_topic_permission(&self, permission: &TopicPermission) -> Result<(), MetaError> {
        self.check_user_and_tenant(&permission.user, &permission.tenant)
    }

    pub(super) fn put_topic_permission(&mut self, permission: &TopicPermission) {
        let of_user = self.topic_permissions.entry((permission.user.clone(), permission.tenant.clone())).or_default();
        match of_user.iter_mut().find(|one| one.exchange == permission.exchange) {
            Some(known) => known.clone_from(permission),
            None => of_user.push(permission.clone()),
        }
    }

    pub(super) fn delete_topic_permission(&mut self, key: &TopicPermissionKey) {
        let of_user = (key.user.clone(), key.tenant.clone());
        let Some(known) = self.topic_permissions.get_mut(&of_user) else { return };
        known.retain(|one| key.exchange.as_ref().is_some_and(|exchange| *exchange != one.exchange));
        if known.is_empty() {
            self.topic_permissions.remove(&of_user);
        }
    }

    pub(super) fn check_delete_permission(&self, key: &super::Key) -> Result<(), MetaError> {
        if self.permissions.contains_key(key) { Ok(()) } else { Err(missing("permission of user", &key.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, User};
    use super::*;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        catalog.apply(&Command::PutUser(User { name: "u".into(), ..User::default() })).unwrap();
        catalog
    }

    fn topic(exchange: &str, write: &str) -> Command {
        let (user, tenant, exchange) = ("u".into(), "/".into(), exchange.into());
        Command::PutTopicPermission(TopicPermission { user, tenant, exchange, write: write.into(), read: ".*".into() })
    }

    #[test]
    fn a_permission_needs_its_user_and_its_tenant_and_goes_with_the_user() {
        let mut catalog = catalog();
        let permission = |user: &str, tenant: &str| {
            Command::PutPermission(Permission { user: user.into(), tenant: tenant.into(), ..Permission::default() })
        };
        assert_eq!(catalog.apply(&permission("v", "/")).unwrap_err().to_string(), "no user 'v'");
        assert_eq!(catalog.apply(&permission("u", "t")).unwrap_err().to_string(), "no tenant 't'");
        catalog.apply(&permission("u", "/")).unwrap();
        catalog.apply(&topic("e", "a")).unwrap();
        catalog.apply(&Command::DeleteUser("u".into())).unwrap();
        assert!(catalog.permissions.is_empty() && catalog.topic_permissions.is_empty());
    }

    #[test]
    fn topic_permissions_are_one_for_each_exchange_and_go_one_by_one_or_all() {
        let mut catalog = catalog();
        for (exchange, write) in [("e", "a"), ("f", "b"), ("e", "c")] {
            catalog.apply(&topic(exchange, write)).unwrap();
        }
        let of_user = ("u".to_owned(), "/".to_owned());
        let writes = |catalog: &Catalog| {
            let all = catalog.topic_permissions.get(&of_user).cloned().unwrap_or_default();
            all.iter().map(|one| (one.exchange.clone(), one.write.clone())).collect::<Vec<_>>()
        };
        assert_eq!(writes(&catalog), [("e".into(), "c".into()), ("f".into(), "b".into())]);
        let delete = |exchange: Option<&str>| {
            let exchange = exchange.map(str::to_owned);
            Command::DeleteTopicPermission(TopicPermissionKey { user: "u".into(), tenant: "/".into(), exchange })
        };
        let text = serde_json::to_string(&catalog).unwrap();
        assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), catalog);
        let mut one = catalog.clone();
        one.apply(&delete(Some("e"))).unwrap();
        assert_eq!(writes(&one), [("f".to_owned(), "b".to_owned())]);
        catalog.apply(&delete(None)).unwrap();
        assert!(catalog.topic_permissions.is_empty());
    }
}
