//! Policies: options for all queues and exchanges whose name matches a pattern, beside those that each was declared
//! with.
//!
//! What a queue's options come to be by them is the business of whoever runs queues.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Catalog, Key, MetaError, Overflow, QueueKind, missing};

/// Options for all objects of a tenant whose name matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// It limits what other policies and declarations ask for, and stands in a name space of its own.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub is_operator: bool,
    /// A regular expression, looked for anywhere in a name.
    pub pattern: String,
    /// What it is for.
    pub applies_to: AppliesTo,
    /// Of several that match one object the highest rules it, the others do not.
    pub priority: i64,
    /// As it was put, as (name, JSON value): to be shown.
    pub definition: BTreeMap<String, serde_json::Value>,
    /// What that means.
    pub options: PolicyOptions,
    /// Kinds of queues that do not know all of it: for those it is passed over.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub unfit: Vec<QueueKind>,
}

/// What a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppliesTo {
    /// Queues and exchanges.
    All,
    /// Exchanges.
    Exchanges,
    /// Queues of every kind.
    Queues,
    /// Queues of one kind.
    QueuesOf(QueueKind),
}

/// What a policy asks for; see [`super::QueueOptions`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct PolicyOptions {
    /// Messages die after so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_ttl_ms: Option<u64>,
    /// A queue goes when nobody has used it for so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The most messages that may wait in a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_max: Option<u64>,
    /// The most bytes of bodies that may wait in a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    /// What happens when a queue is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
    /// The exchange to which dead messages go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_exchange: Option<String>,
    /// The key they get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_key: Option<String>,
    /// A dead message that no queue takes stays where it is and is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_at_least_once: Option<bool>,
    /// A message given back more often than this dies; [`super::NO_DELIVERY_LIMIT`]: none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_limit: Option<u32>,
    /// A delivery must be settled within so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_ms_max: Option<u64>,
    /// A stream forgets messages older than so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms_max: Option<u64>,
    /// The exchange to which a message goes that none of an exchange's bindings takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternate: Option<String>,
}

/// Names a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyKey {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Whether it is an operator's.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub is_operator: bool,
}

impl Policy {
    /// Its name in full.
    #[must_use]
    pub fn key(&self) -> PolicyKey {
        PolicyKey { tenant: self.tenant.clone(), name: self.name.clone(), is_operator: self.is_operator }
    }
}

impl Catalog {
    /// The policies, or the operator's.
    #[must_use]
    pub fn policies(&self, is_operator: bool) -> &BTreeMap<Key, Policy> {
        if is_operator { &self.operator_policies } else { &self.policies }
    }

    fn policies_mut(&mut self, is_operator: bool) -> &mut BTreeMap<Key, Policy> {
        if is_operator { &mut self.operator_policies } else { &mut self.policies }
    }

    /// A policy by its name.
    #[must_use]
    pub fn policy(&self, key: &PolicyKey) -> Option<&Policy> {
        self.policies(key.is_operator).get(&(key.tenant.clone(), key.name.clone()))
    }

    pub(super) fn put_policy(&mut self, policy: &Policy) {
        let key = (policy.tenant.clone(), policy.name.clone());
        self.policies_mut(policy.is_operator).insert(key, policy.clone());
    }

    pub(super) fn check_policy(&self, key: &PolicyKey) -> Result<(), MetaError> {
        if self.policy(key).is_some() { Ok(()) } else { Err(missing("policy", &key.name)) }
    }

    pub(super) fn delete_policy(&mut self, key: &PolicyKey) {
        self.policies_mut(key.is_operator).remove(&(key.tenant.clone(), key.name.clone()));
    }
}
