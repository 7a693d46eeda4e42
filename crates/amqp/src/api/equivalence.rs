//! The rule of equivalence: a second declaration must ask for what there is. Only arguments that mean something are
//! compared; numbers by value, whatever their width on the wire.

use std::collections::BTreeMap;

use model::{Header, HeaderValue};
use serde_json::Value;

use crate::conn::Done;
use crate::errors::{Refusal, VHOST};

/// Arguments of queues that two declarations must agree on.
const COMPARED: [&str; 21] = [
    "x-queue-type",
    "x-topic",
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-max-priority",
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-queue-mode",
    "x-queue-version",
    "x-quorum-initial-group-size",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
];

/// Arguments as the catalog keeps them.
#[must_use]
pub fn arguments(headers: &[Header]) -> BTreeMap<String, Value> {
    headers.iter().map(|header| (header.name.clone(), json(&header.value))).collect()
}

fn json(value: &HeaderValue) -> Value {
    match value {
        HeaderValue::Null => Value::Null,
        HeaderValue::Bool(value) => Value::from(*value),
        HeaderValue::Int(value) => Value::from(*value),
        HeaderValue::Float(value) => Value::from(*value),
        HeaderValue::Text(text) => Value::from(text.as_str()),
        HeaderValue::Bytes(bytes) => Value::from(bytes.to_vec()),
        HeaderValue::Time(time) => Value::from(time.0),
        HeaderValue::List(values) => values.iter().map(json).collect(),
        HeaderValue::Table(headers) => arguments(headers).into_iter().collect(),
    }
}

/// Whether a second declaration's arguments agree with those of the first, as far as they have an effect.
///
/// # Errors
/// 406 in RabbitMQ's words.
pub fn equivalent(asked: &BTreeMap<String, Value>, current: &BTreeMap<String, Value>, queue: &str) -> Done {
    for argument in COMPARED {
        let classic = |value: Option<&Value>| value.is_none_or(|value| value == "classic");
        let (asked, current) = (asked.get(argument), current.get(argument));
        if asked == current || (argument == "x-queue-type" && classic(asked) && classic(current)) {
            continue;
        }
        let what = match (asked, current) {
            (Some(asked), Some(current)) => format!("received '{}' but current is '{}'", plain(asked), plain(current)),
            (asked, current) => format!("received {} but current is {}", described(asked), described(current)),
        };
        return Err(Refusal::precondition(format!(
            "inequivalent arg '{argument}' for queue '{queue}' in vhost '{VHOST}': {what}"
        )));
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn described(value: Option<&Value>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    let kind = match value {
        Value::Null => "void",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => "signedint",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "long",
        Value::String(_) => "longstr",
        Value::Array(_) => "array",
        Value::Object(_) => "table",
    };
    format!("the value '{}' of type '{kind}'", plain(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: impl Into<Value>) -> BTreeMap<String, Value> {
        [(name.to_owned(), value.into())].into()
    }

    fn said(asked: &BTreeMap<String, Value>, current: &BTreeMap<String, Value>) -> String {
        let text = equivalent(asked, current, "q").unwrap_err().told("/");
        text.split_once("vhost '/': ").unwrap().1.to_owned()
    }

    /// As answered by the real server.
    #[test]
    fn what_differs_is_said_in_rabbitmqs_words() {
        let none = BTreeMap::new();
        let ttl = one("x-message-ttl", 1000);
        assert_eq!(said(&none, &ttl), "received none but current is the value '1000' of type 'signedint'");
        assert_eq!(said(&ttl, &none), "received the value '1000' of type 'signedint' but current is none");
        let longer = one("x-message-ttl", 3_000_000_000_i64);
        assert_eq!(said(&longer, &ttl), "received '3000000000' but current is '1000'");
        let exchange = |name: &str| one("x-dead-letter-exchange", name);
        assert_eq!(said(&exchange("b"), &exchange("a")), "received 'b' but current is 'a'");
        let single = |value: bool| one("x-single-active-consumer", value);
        assert_eq!(said(&single(false), &single(true)), "received 'false' but current is 'true'");
        let quorum = one("x-queue-type", "quorum");
        assert_eq!(said(&none, &quorum), "received none but current is the value 'quorum' of type 'longstr'");
    }

    #[test]
    fn unknown_arguments_and_a_default_type_are_not_compared() {
        let none = BTreeMap::new();
        assert!(equivalent(&one("x-foo", 1), &one("x-foo", 2), "q").is_ok());
        assert!(equivalent(&none, &one("x-queue-type", "classic"), "q").is_ok());
        assert!(equivalent(&none, &one("x-consumer-timeout", 1000), "q").is_ok());
    }
}
