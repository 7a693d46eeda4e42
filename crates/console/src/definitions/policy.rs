//! Policies in RabbitMQ's words: what each key means, which kinds of queues know it, in whose words it is refused.
//!
//! As RabbitMQ 4 does: a key that it does not know is refused; keys that steer what there is none of here (where
//! replicas lie, how many there are, memory that each queue is given) are taken and have no effect.

use std::collections::BTreeMap;

use broker::policy::{AppliesTo, Policy, PolicyOptions};
use broker::queue::{NO_DELIVERY_LIMIT, Overflow, QueueKind};
use model::interval_ms;
use serde_json::{Map, Value, json};

/// Why a policy is refused.
pub type Why = String;

const PLAIN: u8 = 1;
const SAFE: u8 = 2;
const STREAM: u8 = 4;
const ANY: u8 = PLAIN | SAFE | STREAM;

/// Reads a value into the options; false when it is none.
type Read = fn(&Value, &mut PolicyOptions) -> bool;

/// One key of a definition.
struct Key {
    name: &'static str,
    /// Which kinds of queues know it: a policy is passed over for queues of any other.
    kinds: u8,
    /// Operators' policies may have it.
    operator: bool,
    /// What its value is, for the refusal of one that is not.
    what: &'static str,
    read: Read,
}

const fn key(name: &'static str, kinds: u8, operator: bool, what: &'static str, read: Read) -> Key {
    Key { name, kinds, operator, what, read }
}

static KEYS: [Key; 21] = [
    key("alternate-exchange", ANY, false, "alternate exchange name", |v, o| text(v, &mut o.alternate)),
    key("consumer-timeout", PLAIN | SAFE, false, "consumer timeout", |v, o| at_least(0, v, &mut o.settle_ms_max)),
    key("dead-letter-exchange", PLAIN | SAFE, false, "dead letter exchange name", |v, o| {
        text(v, &mut o.dead_letter_exchange)
    }),
    key("dead-letter-routing-key", PLAIN | SAFE, false, "dead letter routing key", |v, o| {
        text(v, &mut o.dead_letter_key)
    }),
    key("dead-letter-strategy", SAFE, false, "dead letter strategy", |v, o| {
        let strategies = [("at-most-once", false), ("at-least-once", true)];
        one_of(v, &strategies, &mut o.dead_letter_at_least_once)
    }),
    key("delivery-limit", SAFE, true, "delivery limit", |v, o| {
        let limit = v.as_i64().map(|limit| u32::try_from(limit).unwrap_or(NO_DELIVERY_LIMIT));
        o.delivery_limit = limit;
        limit.is_some()
    }),
    key("expires", PLAIN | SAFE, true, "queue expiry", |v, o| at_least(1, v, &mut o.expires_ms)),
    key("initial-cluster-size", STREAM, false, "cluster size", |v, _| v.is_u64()),
    key("max-age", STREAM, false, "max age", |v, o| {
        o.age_ms_max = v.as_str().and_then(interval_ms);
        o.age_ms_max.is_some()
    }),
    key("max-in-memory-bytes", SAFE, true, "maximum memory in bytes", |v, _| v.is_u64()),
    key("max-in-memory-length", SAFE, true, "maximum memory in bytes", |v, _| v.is_u64()),
    key("max-length", PLAIN | SAFE, true, "maximum length", |v, o| at_least(0, v, &mut o.length_max)),
    key("max-length-bytes", ANY, true, "maximum length in bytes", |v, o| at_least(0, v, &mut o.bytes_max)),
    key("message-ttl", PLAIN | SAFE, true, "message TTL", |v, o| at_least(0, v, &mut o.message_ttl_ms)),
    key("overflow", PLAIN | SAFE, true, "overflow value", |v, o| {
        let all = [
            ("drop-head", Overflow::DropHead),
            ("reject-publish", Overflow::Reject),
            ("reject-publish-dlx", Overflow::RejectToDeadLetters),
        ];
        one_of(v, &all, &mut o.overflow)
    }),
    key("queue-leader-locator", ANY, false, "queue leader locator value", |v, _| {
        is_word(v, &["client-local", "balanced", "random", "least-leaders"])
    }),
    key("queue-mode", PLAIN, false, "queue-mode value", |v, _| is_word(v, &["default", "lazy"])),
    key("queue-version", PLAIN, false, "queue-version value", |v, _| matches!(v.as_i64(), Some(1 | 2))),
    key("stream-filter-size-bytes", STREAM, false, "filter size", |v, _| v.is_u64()),
    key("stream-max-segment-size-bytes", STREAM, false, "segment size", |v, _| v.is_u64()),
    key("target-group-size", SAFE, true, "target group size", |v, _| v.is_u64()),
];

/// Keys that RabbitMQ had before version 4, or that belong to its plugins: nothing here acts by them.
const GONE: [&str; 10] = [
    "federation-upstream",
    "federation-upstream-pattern",
    "federation-upstream-set",
    "ha-mode",
    "ha-params",
    "ha-promote-on-failure",
    "ha-promote-on-shutdown",
    "ha-sync-batch-size",
    "ha-sync-mode",
    "queue-master-locator",
];

fn text(value: &Value, to: &mut Option<String>) -> bool {
    *to = value.as_str().map(str::to_owned);
    to.is_some()
}

fn at_least(least: u64, value: &Value, to: &mut Option<u64>) -> bool {
    *to = value.as_u64().filter(|number| *number >= least);
    to.is_some()
}

fn one_of<T: Copy>(value: &Value, all: &[(&str, T)], to: &mut Option<T>) -> bool {
    *to = value.as_str().and_then(|word| all.iter().find(|(known, _)| *known == word)).map(|(_, value)| *value);
    to.is_some()
}

fn is_word(value: &Value, words: &[&str]) -> bool {
    value.as_str().is_some_and(|word| words.contains(&word))
}

/// Takes those keys out of a definition that nothing here acts by and that RabbitMQ 4 would refuse: older servers'
/// exports have them. Answers which.
pub fn drop_gone(body: &mut Map<String, Value>) -> Vec<String> {
    let Some(definition) = body.get_mut("definition").and_then(Value::as_object_mut) else { return Vec::new() };
    let gone = definition.keys().filter(|name| GONE.contains(&name.as_str())).cloned().collect::<Vec<_>>();
    for name in &gone {
        definition.remove(name);
    }
    gone
}

/// A policy of that name from what a request or a file says of it.
///
/// # Errors
/// As RabbitMQ says it.
pub fn read(tenant: &str, name: &str, is_operator: bool, body: &Map<String, Value>) -> Result<Policy, Why> {
    let missing = ["pattern", "definition"].into_iter().filter(|key| !body.contains_key(*key));
    let missing = missing.map(|key| format!("{{key_missing,{key}}}")).collect::<Vec<_>>();
    if !missing.is_empty() {
        return Err(format!("[{}]", missing.join(",")));
    }
    let pattern = body.get("pattern").map_or(&Value::Null, |value| value);
    let pattern =
        pattern.as_str().ok_or_else(|| failed(format!("pattern should be a binary but was {}", shown(pattern))))?;
    let applies_to = applies_to(body.get("apply-to"))?;
    let priority = match body.get("priority") {
        None => 0,
        Some(value) => value
            .as_i64()
            .ok_or_else(|| failed(format!("priority should be a number, actually was {}", shown(value))))?,
    };
    let definition = match body.get("definition") {
        Some(Value::Object(definition)) if definition.is_empty() => return Err(failed("no policy provided")),
        Some(Value::Object(definition)) => definition,
        _ => return Err(failed("definition should be a JSON object")),
    };
    let (options, unfit) = options(definition, is_operator)?;
    Ok(Policy {
        tenant: tenant.to_owned(),
        name: name.to_owned(),
        is_operator,
        pattern: pattern.to_owned(),
        applies_to,
        priority,
        definition: definition.clone().into_iter().collect::<BTreeMap<_, _>>(),
        options,
        unfit,
    })
}

fn applies_to(value: Option<&Value>) -> Result<AppliesTo, Why> {
    match value.map_or(Some("all"), Value::as_str) {
        Some("all") => Ok(AppliesTo::All),
        Some("queues") => Ok(AppliesTo::Queues),
        Some("exchanges") => Ok(AppliesTo::Exchanges),
        Some("classic_queues") => Ok(AppliesTo::QueuesOf(QueueKind::Plain)),
        Some("quorum_queues") => Ok(AppliesTo::QueuesOf(QueueKind::Safe)),
        Some("streams") => Ok(AppliesTo::QueuesOf(QueueKind::Stream)),
        _ => Err(failed(format!(
            "apply-to '{}' unrecognised; should be one of: 'queues', 'exchanges', 'classic_queues', 'quorum_queues', \
             'streams' or 'all'",
            value.map(Value::to_string).unwrap_or_default().trim_matches('"')
        ))),
    }
}

fn options(definition: &Map<String, Value>, is_operator: bool) -> Result<(PolicyOptions, Vec<QueueKind>), Why> {
    let known = |name: &str| KEYS.iter().find(|key| key.name == name && (key.operator || !is_operator));
    let unknown = definition.iter().filter(|(name, _)| known(name).is_none());
    let unknown = unknown.map(|(name, value)| format!("{{<<\"{name}\">>,{}}}", shown(value))).collect::<Vec<_>>();
    if !unknown.is_empty() {
        return Err(failed(format!("[{}] are not recognised policy settings", unknown.join(","))));
    }
    let (mut options, mut kinds) = (PolicyOptions::default(), ANY);
    for (name, value) in definition {
        let Some(key) = known(name) else { continue };
        if !(key.read)(value, &mut options) {
            return Err(failed(format!("{} is not a valid {}", shown(value), key.what)));
        }
        kinds &= key.kinds;
    }
    let all = [(PLAIN, QueueKind::Plain), (SAFE, QueueKind::Safe), (STREAM, QueueKind::Stream)];
    Ok((options, all.into_iter().filter(|(bit, _)| kinds & bit == 0).map(|(_, kind)| kind).collect()))
}

fn failed(why: impl std::fmt::Display) -> Why {
    format!("Validation failed\n\n{why}\n")
}

/// A value as the refusals show it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("<<\"{text}\">>"),
        other => other.to_string(),
    }
}

/// A policy as it is listed.
pub fn show(policy: &Policy) -> Value {
    let applies_to = match policy.applies_to {
        AppliesTo::All => "all",
        AppliesTo::Exchanges => "exchanges",
        AppliesTo::Queues => "queues",
        AppliesTo::QueuesOf(QueueKind::Plain) => "classic_queues",
        AppliesTo::QueuesOf(QueueKind::Safe) => "quorum_queues",
        AppliesTo::QueuesOf(QueueKind::Stream) => "streams",
    };
    json!({
        "vhost": policy.tenant,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": applies_to,
        "definition": policy.definition,
        "priority": policy.priority,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(is_operator: bool, body: Value) -> Result<Policy, Why> {
        read("/", "p", is_operator, body.as_object().unwrap())
    }

    /// As answered by the real server, 3.10 where it does not differ from 4.
    #[test]
    fn bad_policies_are_refused_in_rabbitmqs_words() {
        for (body, why) in [
            (json!({}), "[{key_missing,pattern},{key_missing,definition}]"),
            (json!({ "pattern": "a" }), "[{key_missing,definition}]"),
            (json!({ "pattern": "a", "definition": {} }), "Validation failed\n\nno policy provided\n"),
            (
                json!({ "pattern": 1, "definition": { "expires": 3 } }),
                "Validation failed\n\npattern should be a binary but was 1\n",
            ),
            (
                json!({ "pattern": "a", "definition": { "expires": 3 }, "priority": "x" }),
                "Validation failed\n\npriority should be a number, actually was <<\"x\">>\n",
            ),
        ] {
            assert_eq!(asked(false, body).unwrap_err(), why);
        }
        for (name, value, why) in [
            ("message-ttl", json!(-1), "-1 is not a valid message TTL"),
            ("message-ttl", json!("x"), "<<\"x\">> is not a valid message TTL"),
            ("expires", json!(0), "0 is not a valid queue expiry"),
            ("max-length", json!(-3), "-3 is not a valid maximum length"),
            ("max-age", json!("zz"), "<<\"zz\">> is not a valid max age"),
            ("dead-letter-exchange", json!(3), "3 is not a valid dead letter exchange name"),
            ("overflow", json!("zz"), "<<\"zz\">> is not a valid overflow value"),
            ("queue-leader-locator", json!("x"), "<<\"x\">> is not a valid queue leader locator value"),
            ("nope", json!(1), "[{<<\"nope\">>,1}] are not recognised policy settings"),
            ("ha-mode", json!("all"), "[{<<\"ha-mode\">>,<<\"all\">>}] are not recognised policy settings"),
        ] {
            let said = asked(false, json!({ "pattern": "a", "definition": { name: value } })).unwrap_err();
            assert_eq!(said, format!("Validation failed\n\n{why}\n"));
        }
        let limits = |name: &str| asked(true, json!({ "pattern": "a", "definition": { name: 1 } })).is_ok();
        assert!(limits("message-ttl") && limits("delivery-limit") && !limits("consumer-timeout"));
    }

    #[test]
    fn a_definition_means_what_it_says_and_tells_for_whom() {
        let all = json!({ "message-ttl": 5, "max-length": 6, "overflow": "reject-publish", "delivery-limit": -1 });
        let policy = asked(false, json!({ "pattern": "a", "apply-to": "quorum_queues", "definition": all })).unwrap();
        let options = PolicyOptions {
            message_ttl_ms: Some(5),
            length_max: Some(6),
            overflow: Some(Overflow::Reject),
            delivery_limit: Some(NO_DELIVERY_LIMIT),
            ..PolicyOptions::default()
        };
        assert_eq!((policy.options.clone(), policy.applies_to), (options, AppliesTo::QueuesOf(QueueKind::Safe)));
        assert_eq!(policy.unfit, [QueueKind::Plain, QueueKind::Stream]);
        assert_eq!(show(&policy)["definition"], all_of(&policy));
        let lazy = asked(false, json!({ "pattern": "a", "definition": { "queue-mode": "lazy" } })).unwrap();
        assert_eq!((lazy.options, lazy.unfit), (PolicyOptions::default(), vec![QueueKind::Safe, QueueKind::Stream]));
    }

    fn all_of(policy: &Policy) -> Value {
        Value::Object(policy.definition.clone().into_iter().collect())
    }

    #[test]
    fn what_older_servers_had_is_taken_out_by_name() {
        let body =
            json!({ "pattern": "a", "definition": { "ha-mode": "all", "ha-sync-mode": "automatic", "expires": 3 } });
        let mut body = body.as_object().unwrap().clone();
        assert_eq!(drop_gone(&mut body), ["ha-mode", "ha-sync-mode"]);
        assert_eq!(read("/", "p", false, &body).unwrap().options.expires_ms, Some(3));
    }
}
