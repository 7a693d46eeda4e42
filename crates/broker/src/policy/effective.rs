//! What a queue does, from what it was declared with and the policies that rule it. Of numbers the smallest holds; of
//! anything else what was declared, then what the operator's policy says, then the other.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Policy, PolicyOptions, Ruling};
use crate::queue::{DeadLetterTo, QueueKind, QueueOptions};

/// What a queue was declared with.
#[derive(Clone, Copy)]
pub(crate) struct Declared<'a> {
    pub(crate) options: &'a QueueOptions,
    /// It shares a topic's logs: how long these keep messages is the topic's own business.
    pub(crate) shares: bool,
}

/// What a queue with these declared options does under these policies.
pub(crate) fn effective(declared: Declared<'_>, ruling: &Ruling) -> QueueOptions {
    let options = declared.options;
    let by = asked(ruling);
    if options.kind == QueueKind::Stream {
        let limited = |one, other| if declared.shares { one } else { least(one, other) };
        return QueueOptions {
            bytes_max: limited(options.bytes_max, by.bytes_max),
            age_ms_max: limited(options.age_ms_max, by.age_ms_max),
            ..options.clone()
        };
    }
    let mut result = QueueOptions {
        message_ttl_ms: least(options.message_ttl_ms, by.message_ttl_ms),
        expires_ms: least(options.expires_ms, by.expires_ms),
        length_max: least(options.length_max, by.length_max),
        bytes_max: least(options.bytes_max, by.bytes_max),
        overflow: match options.kind {
            QueueKind::Safe => by.overflow.or(options.overflow), // as RabbitMQ 4 does for its quorum queues
            QueueKind::Plain | QueueKind::Stream => options.overflow.or(by.overflow),
        },
        dead_letters: letters(options.dead_letters.as_ref(), &by),
        delivery_limit: least(options.delivery_limit, by.delivery_limit),
        settle_ms_max: least(options.settle_ms_max, by.settle_ms_max),
        age_ms_max: least(options.age_ms_max, by.age_ms_max),
        ..options.clone()
    };
    if declared.shares {
        (result.message_ttl_ms, result.length_max) = (options.message_ttl_ms, options.length_max);
        (result.bytes_max, result.age_ms_max) = (options.bytes_max, options.age_ms_max);
    }
    result
}

/// What a policy and an operator's ask for together.
fn asked(ruling: &Ruling) -> PolicyOptions {
    match (ruling.policy.as_deref(), ruling.operator.as_deref()) {
        (None, None) => PolicyOptions::default(),
        (Some(only), None) | (None, Some(only)) => only.options.clone(),
        (Some(policy), Some(operator)) => {
            let (one, limit) = (policy.options.clone(), operator.options.clone());
            PolicyOptions {
                message_ttl_ms: least(one.message_ttl_ms, limit.message_ttl_ms),
                expires_ms: least(one.expires_ms, limit.expires_ms),
                length_max: least(one.length_max, limit.length_max),
                bytes_max: least(one.bytes_max, limit.bytes_max),
                delivery_limit: least(one.delivery_limit, limit.delivery_limit),
                settle_ms_max: least(one.settle_ms_max, limit.settle_ms_max),
                age_ms_max: least(one.age_ms_max, limit.age_ms_max),
                overflow: limit.overflow.or(one.overflow),
                dead_letter_exchange: limit.dead_letter_exchange.or(one.dead_letter_exchange),
                dead_letter_key: limit.dead_letter_key.or(one.dead_letter_key),
                dead_letter_at_least_once: limit.dead_letter_at_least_once.or(one.dead_letter_at_least_once),
                alternate: limit.alternate.or(one.alternate),
            }
        }
    }
}

/// The alternate exchange that policies give to one that was declared without.
pub(super) fn alternate(ruling: &Ruling) -> Option<String> {
    asked(ruling).alternate
}

/// The definitions of a policy and an operator's as one, as shown: of numbers the smaller, of others the operator's.
#[must_use]
pub fn merged(ruling: &Ruling) -> BTreeMap<String, Value> {
    let of = |policy: &Policy| policy.definition.clone();
    let mut all = ruling.policy.as_deref().map(of).unwrap_or_default();
    for (name, limit) in ruling.operator.as_deref().map(of).unwrap_or_default() {
        let is_less = |known: &Value| known.as_i64().zip(limit.as_i64()).is_some_and(|(known, limit)| known < limit);
        if !all.get(&name).is_some_and(is_less) {
            all.insert(name, limit);
        }
    }
    all
}

fn letters(declared: Option<&DeadLetterTo>, by: &PolicyOptions) -> Option<DeadLetterTo> {
    let exchange = declared.map(|to| &to.exchange).or(by.dead_letter_exchange.as_ref())?.clone();
    let key = declared.and_then(|to| to.key.clone()).or_else(|| by.dead_letter_key.clone());
    let asked = declared.is_some_and(|to| to.at_least_once);
    Some(DeadLetterTo { exchange, key, at_least_once: asked || by.dead_letter_at_least_once == Some(true) })
}

fn least<N: Ord>(one: Option<N>, other: Option<N>) -> Option<N> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
