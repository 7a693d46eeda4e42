//! The catalog's nouns and commands. Stored as JSON (see FORMAT.md): one snapshot and the commands since.

mod bindings;
mod exchange;
mod permission;
mod policy;
mod queue;
mod queues;
mod tenant;
#[cfg(test)]
mod tests;
mod topic;
mod user;

pub use bindings::Bindings;
pub use exchange::{Binding, Destination, Exchange, ExchangeKind};
pub use permission::{Permission, TopicPermission, TopicPermissionKey};
pub use policy::{AppliesTo, Policy, PolicyKey, PolicyOptions};
pub use queue::{DeadLetterTo, NO_DELIVERY_LIMIT, Overflow, Queue, QueueKind, QueueOptions, QueueSource};
pub use queues::Queues;
pub use tenant::{DEFAULT_TENANT, Tenant, TenantLimits};
pub use topic::{Partition, Topic, TopicChange, TopicConfig, TopicGrowth};
pub use user::{Credential, User, UserLimits};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A tenant's and an object's name: every object belongs to one tenant.
pub type Key = (String, String);

/// Whether a field is at its default: such ones are left out of the catalog's JSON.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// All that exists. Invariant: topics and queues share one name space within a tenant, but for a stream and the topic
/// that it shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// This cluster's id: 22 characters of URL-safe base64, given once.
    pub cluster_id: String,
    /// The last log id given. Never reused.
    pub last_log: u64,
    /// Topics by (tenant, name).
    #[serde(with = "pairs")]
    pub topics: BTreeMap<Key, Topic>,
    /// Queues by (tenant, name).
    pub queues: Queues,
    /// Exchanges by (tenant, name); those that always exist are not in it.
    #[serde(with = "pairs")]
    pub exchanges: BTreeMap<Key, Exchange>,
    /// Bindings, in the order made.
    pub bindings: Bindings,
    /// Users by name.
    pub users: BTreeMap<String, User>,
    /// Tenants by name. A catalog older than tenants has none, see [`Catalog::tenant`].
    #[serde(default)]
    pub tenants: BTreeMap<String, Tenant>,
    /// Permissions by (user, tenant).
    #[serde(default, with = "pairs")]
    pub permissions: BTreeMap<Key, Permission>,
    /// Topic permissions by (user, tenant), one for each exchange.
    #[serde(default, with = "pairs")]
    pub topic_permissions: BTreeMap<Key, Vec<TopicPermission>>,
    /// Policies by (tenant, name).
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<Key, Policy>,
    /// Operators' policies by (tenant, name).
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub operator_policies: BTreeMap<Key, Policy>,
}

/// A change of the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Names the cluster. Once.
    Found {
        /// The cluster's id.
        cluster_id: String,
    },
    /// Makes a topic. Its partitions' log ids must be new.
    CreateTopic(Topic),
    /// Changes a topic's settings.
    AlterTopic(TopicChange),
    /// Adds partitions to a topic. Their log ids must be new.
    GrowTopic(TopicGrowth),
    /// Removes a topic and the bindings that it feeds.
    DeleteTopic(Key),
    /// Makes a queue.
    CreateQueue(Queue),
    /// Makes a topic and the queue that shows it, under one name.
    CreateStream {
        /// The topic.
        topic: Topic,
        /// The queue, whose source it is.
        queue: Queue,
    },
    /// Removes a queue and its bindings.
    DeleteQueue(Key),
    /// Makes an exchange.
    CreateExchange(Exchange),
    /// Removes an exchange and its bindings.
    DeleteExchange(Key),
    /// Binds; doing it twice changes nothing.
    Bind(Binding),
    /// Unbinds; what is not bound is no error.
    Unbind(Binding),
    /// Makes or replaces a user.
    PutUser(User),
    /// Removes a user and its permissions.
    DeleteUser(String),
    /// Makes or replaces a tenant.
    PutTenant(Tenant),
    /// Removes a tenant and all that is its own.
    DeleteTenant(String),
    /// Makes or replaces what a user may do in a tenant.
    PutPermission(Permission),
    /// Takes a user's permission, named by (user, tenant), away.
    DeletePermission(Key),
    /// Makes or replaces with which keys a user may use an exchange.
    PutTopicPermission(TopicPermission),
    /// Takes topic permissions away; what is not there is no error.
    DeleteTopicPermission(TopicPermissionKey),
    /// Makes or replaces a policy.
    PutPolicy(Policy),
    /// Removes a policy.
    DeletePolicy(PolicyKey),
}

/// Why a command does not apply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MetaError {
    /// The name is taken by a topic or queue (or exchange, or user) already.
    #[error("{kind} '{name}' exists")]
    Exists {
        /// What has the name.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// There is no such object.
    #[error("no {kind} '{name}'")]
    Missing {
        /// What was looked for.
        kind: &'static str,
        /// Under which name.
        name: String,
    },
    /// A log id that was given before.
    #[error("log {0} was given before")]
    LogReused(u64),
    /// What cannot be done without.
    #[error("{0} is needed and cannot be removed")]
    Needed(&'static str),
}

/// Maps with pair keys as lists, since JSON's keys are strings: every value knows its own key.
mod pairs {
    use super::{BTreeMap, Deserialize, Key, Serialize};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer, V: Serialize>(map: &BTreeMap<Key, V>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(map.iter())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
        from: D,
    ) -> Result<BTreeMap<Key, V>, D::Error> {
        Ok(Vec::<(Key, V)>::deserialize(from)?.into_iter().collect())
    }
}

impl Catalog {
    /// Whether `command` would apply.
    ///
    /// # Errors
    /// [`MetaError`] when it does not fit the state.
    pub fn check(&self, command: &Command) -> Result<(), MetaError> {
        match command {
            Command::Found { .. } => self.check_found(),
            Command::CreateTopic(topic) => self.check_create_topic(topic),
            Command::AlterTopic(change) => self.check_topic(&(change.tenant.clone(), change.name.clone())),
            Command::GrowTopic(growth) => self.check_grow_topic(growth),
            Command::DeleteTopic(key) => self.check_topic(key),
            Command::CreateQueue(queue) => self.check_create_queue(queue),
            Command::CreateStream { topic, queue } => self.check_create_stream(topic, queue),
            Command::DeleteQueue(key) => self.check_queue(key),
            Command::CreateExchange(exchange) => self.check_create_exchange(exchange),
            Command::DeleteExchange(key) => self.check_exchange(key),
            Command::Bind(binding) => self.check_bind(binding),
            Command::Unbind(_) | Command::PutUser(_) | Command::PutTenant(_) | Command::DeleteTopicPermission(_) => {
                Ok(())
            }
            Command::DeleteUser(name) => self.check_user(name),
            Command::DeleteTenant(name) => self.check_delete_tenant(name),
            Command::PutPermission(permission) => self.check_put_permission(permission),
            Command::DeletePermission(key) => self.check_delete_permission(key),
            Command::PutTopicPermission(permission) => self.check_put_topic_permission(permission),
            Command::PutPolicy(policy) => self.check_tenant(&policy.tenant),
            Command::DeletePolicy(key) => self.check_policy(key),
        }
    }

    /// Applies `command`, or changes nothing.
    ///
    /// # Errors
    /// [`MetaError`] when it does not fit the state.
    pub fn apply(&mut self, command: &Command) -> Result<(), MetaError> {
        self.check(command)?;
        match command {
            Command::Found { cluster_id } => self.cluster_id.clone_from(cluster_id),
            Command::CreateTopic(topic) => self.create_topic(topic),
            Command::AlterTopic(change) => self.alter_topic(change),
            Command::GrowTopic(growth) => self.grow_topic(growth),
            Command::DeleteTopic(key) => self.delete_topic(key),
            Command::CreateQueue(queue) => self.create_queue(queue),
            Command::CreateStream { topic, queue } => {
                self.create_topic(topic);
                self.create_queue(queue);
            }
            Command::DeleteQueue(key) => self.delete_queue(key),
            Command::CreateExchange(exchange) => self.create_exchange(exchange),
            Command::DeleteExchange(key) => self.delete_exchange(key),
            Command::Bind(binding) => self.bind(binding),
            Command::Unbind(binding) => self.unbind(binding),
            Command::PutUser(user) => self.put_user(user),
            Command::DeleteUser(name) => self.delete_user(name),
            Command::PutTenant(tenant) => self.put_tenant(tenant),
            Command::DeleteTenant(name) => self.delete_tenant(name),
            Command::PutPermission(permission) => self.put_permission(permission),
            Command::DeletePermission(key) => self.delete_permission(key),
            Command::PutTopicPermission(permission) => self.put_topic_permission(permission),
            Command::DeleteTopicPermission(key) => self.delete_topic_permission(key),
            Command::PutPolicy(policy) => self.put_policy(policy),
            Command::DeletePolicy(key) => self.delete_policy(key),
        }
        Ok(())
    }

    fn check_found(&self) -> Result<(), MetaError> {
        if self.cluster_id.is_empty() { Ok(()) } else { Err(exists("cluster", &self.cluster_id)) }
    }

    /// Topics and queues share one name space.
    fn check_name_free(&self, key: &Key) -> Result<(), MetaError> {
        if self.topics.contains_key(key) {
            return Err(exists("topic", &key.1));
        }
        self.check_no_queue(key)
    }

    fn check_no_queue(&self, key: &Key) -> Result<(), MetaError> {
        if self.queues.contains_key(key) { Err(exists("queue", &key.1)) } else { Ok(()) }
    }
}

fn exists(kind: &'static str, name: &str) -> MetaError {
    MetaError::Exists { kind, name: name.to_owned() }
}

fn missing(kind: &'static str, name: &str) -> MetaError {
    MetaError::Missing { kind, name: name.to_owned() }
}
