//! The rule of equivalence: a second declaration must ask for what there is. Only arguments that mean something are
//! compared; numbers by value, whatever their width on the wire.

use std::collections::BTreeMap;

use model::{Header, HeaderValue};
use serde_json::Value;

use crate::conn::Done;
use crate::errors::{Refusal, VHOST};
use crate::wire::table::{Types, type_in};

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

/// The words for the types of those arguments whose type is not the usual one for such a value.
#[must_use]
pub fn unusual_types(headers: &[Header], types: &Types<'_>) -> BTreeMap<String, String> {
    let unusual = |header: &&Header| type_in(types, header) != usual_type(&json(&header.value));
    let typed = |header: &Header| (header.name.clone(), type_in(types, header).to_owned());
    headers.iter().filter(unusual).map(typed).collect()
}

/// The arguments of one declaration: their values, and the types that are not the usual ones.
#[derive(Clone, Copy, Debug)]
pub struct Declared<'a> {
    /// The values.
    pub values: &'a BTreeMap<String, Value>,
    /// The types.
    pub types: &'a BTreeMap<String, String>,
}

impl<'a> Declared<'a> {
    fn described(&self, argument: &str) -> String {
        let Some(value) = self.values.get(argument) else { return "none".to_owned() };
        let kind = self.types.get(argument).map_or_else(|| usual_type(value), String::as_str);
        let shown = if value.is_null() { "undefined".to_owned() } else { plain(value) };
        format!("the value '{shown}' of type '{kind}'")
    }
}

/// Whether a second declaration's arguments agree with those of the first, as far as they have an effect.
///
/// # Errors
/// 406 in RabbitMQ's words.
pub fn equivalent(asked: Declared<'_>, current: Declared<'_>, queue: &str) -> Done {
    for argument in COMPARED {
        let classic = |value: Option<&Value>| value.is_none_or(|value| value == "classic");
        let values = (asked.values.get(argument), current.values.get(argument));
        if values.0 == values.1 || (argument == "x-queue-type" && classic(values.0) && classic(values.1)) {
            continue;
        }
        let what = match values {
            (Some(Value::Null), Some(current)) => format!("received none but current is '{}'", plain(current)),
            (Some(asked), Some(current)) => format!("received '{}' but current is '{}'", plain(asked), plain(current)),
            _ => format!("received {} but current is {}", asked.described(argument), current.described(argument)),
        };
        return Err(Refusal::precondition(format!(
            "inequivalent arg '{argument}' for queue '{queue}' in vhost '{VHOST}': {what}"
        )));
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) => Value::from(Vec::<Value>::new()).to_string(), // as the original prints an empty one
        other => other.to_string(),
    }
}

/// The type that most clients give a value.
fn usual_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "void",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => "signedint",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "long",
        Value::String(_) => "longstr",
        Value::Array(_) => "array",
        Value::Object(_) => "table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: impl Into<Value>) -> BTreeMap<String, Value> {
        [(name.to_owned(), value.into())].into()
    }

    fn of(values: &BTreeMap<String, Value>) -> Declared<'_> {
        static USUAL: BTreeMap<String, String> = BTreeMap::new();
        Declared { values, types: &USUAL }
    }

    fn said(asked: &BTreeMap<String, Value>, current: &BTreeMap<String, Value>) -> String {
        let text = equivalent(of(asked), of(current), "q").unwrap_err().told("/");
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
        assert!(equivalent(of(&one("x-foo", 1)), of(&one("x-foo", 2)), "q").is_ok());
        assert!(equivalent(of(&none), of(&one("x-queue-type", "classic")), "q").is_ok());
        assert!(equivalent(of(&none), of(&one("x-consumer-timeout", 1000)), "q").is_ok());
    }
}
