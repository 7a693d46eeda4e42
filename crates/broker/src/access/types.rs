//! What is said of access.

use std::fmt;

use model::Name;

pub use cluster::meta::{
    DEFAULT_TENANT, Permission, Tenant, TenantLimits, TopicPermission, TopicPermissionKey, UserLimits,
};

/// What somebody wants to do with a resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// Make, change or remove it.
    Configure,
    /// Put messages into it, or lead them there.
    Write,
    /// Take messages out of it, or lead them away.
    Read,
}

/// Something in a tenant, by name. Patterns are held against the name, whatever has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource<'a> {
    /// A queue.
    Queue(&'a str),
    /// An exchange; the default one has no name here, and [`DEFAULT_EXCHANGE`] before patterns.
    Exchange(&'a str),
    /// A topic.
    Topic(&'a str),
    /// A consumer group.
    Group(&'a str),
}

/// What patterns are held against for the default exchange.
pub const DEFAULT_EXCHANGE: &str = "amq.default";

impl<'a> Resource<'a> {
    /// The name that patterns are held against.
    #[must_use]
    pub fn name(self) -> &'a str {
        match self {
            Resource::Exchange("") => DEFAULT_EXCHANGE,
            Resource::Queue(name) | Resource::Exchange(name) | Resource::Topic(name) | Resource::Group(name) => name,
        }
    }

    /// The word for what it is.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Resource::Queue(_) => "queue",
            Resource::Exchange(_) => "exchange",
            Resource::Topic(_) => "topic",
            Resource::Group(_) => "group",
        }
    }
}

/// Somebody may not do what they asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Denied {
    /// Not with this resource.
    #[error("access to {kind} '{name}' in tenant '{tenant}' refused for user '{user}'")]
    Resource {
        /// `queue`, `exchange`, `topic`, `group`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Where.
        tenant: Name,
        /// Whom.
        user: Name,
    },
    /// Not with this routing key.
    #[error("access to routing key '{key}' of exchange '{exchange}' in tenant '{tenant}' refused for user '{user}'")]
    Key {
        /// The key.
        key: String,
        /// The exchange.
        exchange: String,
        /// Where.
        tenant: Name,
        /// Whom.
        user: Name,
    },
}

/// Somebody does not get into a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoEntry {
    /// There is no such tenant.
    #[error("there is no such tenant")]
    NoTenant,
    /// It has as many connections as it may.
    #[error("the tenant has the {0} connections that it may have")]
    TenantFull(u64),
    /// The user has as many connections as they may.
    #[error("the user has the {0} connections that they may have")]
    UserFull(u64),
    /// Nothing is granted to the user there.
    #[error("nothing is granted to the user there")]
    NotGranted,
}

/// Words for users that say what they may do beyond using messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Everything.
    Administrator,
    /// Sees all connections, nodes and figures.
    Monitoring,
    /// Sets policies and parameters of the tenants it gets into.
    Policymaker,
    /// Sees and changes, over HTTP, what it could over its protocol.
    Management,
    /// Publishes under other users' names.
    Impersonator,
}

impl Role {
    /// The tag that says it.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Role::Administrator => "administrator",
            Role::Monitoring => "monitoring",
            Role::Policymaker => "policymaker",
            Role::Management => "management",
            Role::Impersonator => "impersonator",
        }
    }

    /// Whether whoever has `tags` may do what this role may: administrators may all that monitors and policymakers may,
    /// and each of these all that the management role may. Only the tag itself makes an impersonator.
    #[must_use]
    pub fn is_in(self, tags: &[String]) -> bool {
        let has = |role: Role| tags.iter().any(|tag| tag == role.tag());
        match self {
            Role::Impersonator | Role::Administrator => has(self),
            Role::Monitoring | Role::Policymaker => has(self) || has(Role::Administrator),
            Role::Management => {
                has(self) || has(Role::Administrator) || has(Role::Monitoring) || has(Role::Policymaker)
            }
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Configure => "configure",
            Operation::Write => "write",
            Operation::Read => "read",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_hold_each_other_but_none_makes_an_impersonator() {
        let tags = |tag: &str| vec![tag.to_owned()];
        for role in [Role::Monitoring, Role::Policymaker, Role::Management, Role::Administrator] {
            assert!(role.is_in(&tags("administrator")), "{role:?}");
            assert!(!role.is_in(&tags("impersonator")), "{role:?}");
        }
        assert!(!Role::Impersonator.is_in(&tags("administrator")));
        assert!(Role::Management.is_in(&tags("policymaker")) && !Role::Monitoring.is_in(&tags("policymaker")));
        assert!(!Role::Administrator.is_in(&tags("monitoring")) && !Role::Policymaker.is_in(&tags("monitoring")));
    }
}
