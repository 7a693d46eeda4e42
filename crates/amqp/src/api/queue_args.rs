//! Arguments of declarations: which are served, which are refused by name, which are ignored as RabbitMQ ignores them.

use std::collections::BTreeMap;

use model::{Header, HeaderValue, Name};
use serde_json::Value;

use crate::config::VHOST;
use crate::conn::{Done, name};
use crate::errors::Refusal;
use crate::wire::table::type_name;

/// Arguments that change what a queue does and are not served yet. Refused: ignoring them would lose or keep messages
/// against their owner's will.
const NOT_SERVED: [&str; 17] = [
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-priority",
    "x-delivery-limit",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-quorum-initial-group-size",
    "x-queue-leader-locator",
    "x-name-prefix",
];

/// Arguments that two declarations must agree on.
const COMPARED: [&str; 2] = ["x-queue-type", "x-topic"];

/// What the arguments of a queue ask for.
#[derive(Debug)]
pub struct QueueArguments {
    /// Share this topic.
    pub topic: Option<Name>,
    /// All of them, to be kept.
    pub all: BTreeMap<String, Value>,
}

fn invalid(argument: &str, queue: &str, why: impl std::fmt::Display) -> Refusal {
    Refusal::precondition(format!("invalid arg '{argument}' for queue '{queue}' in vhost '{VHOST}': {why}"))
}

/// Checks the arguments of a queue.
///
/// # Errors
/// 406 that names the argument.
pub fn queue_arguments(headers: &[Header], queue: &str) -> Result<QueueArguments, Refusal> {
    let mut topic = None;
    for Header { name: argument, value } in headers {
        match argument.as_str() {
            "x-topic" => topic = Some(name(text(argument, value, queue)?)?),
            "x-queue-type" => queue_type(text(argument, value, queue)?, queue)?,
            // No effect since 3.12, but many clients still send it.
            "x-queue-mode" => match text(argument, value, queue)? {
                "default" | "lazy" => {}
                other => return Err(invalid(argument, queue, format_args!("\"unsupported queue mode '{other}'\""))),
            },
            "x-single-active-consumer" if *value != HeaderValue::Bool(false) => {
                return Err(invalid(argument, queue, "not served yet"));
            }
            refused if NOT_SERVED.contains(&refused) => return Err(invalid(argument, queue, "not served yet")),
            _ => {}
        }
    }
    Ok(QueueArguments { topic, all: arguments(headers) })
}

fn queue_type(kind: &str, queue: &str) -> Done {
    match kind {
        "classic" => Ok(()),
        "quorum" | "stream" => {
            Err(invalid("x-queue-type", queue, format_args!("queue type '{kind}' is not served yet")))
        }
        other => Err(invalid("x-queue-type", queue, format_args!("\"unsupported queue type '{other}'\""))),
    }
}

fn text<'v>(argument: &str, value: &'v HeaderValue, queue: &str) -> Result<&'v str, Refusal> {
    match value {
        HeaderValue::Text(text) => Ok(text),
        other => Err(invalid(argument, queue, format_args!("\"expected longstr, got {}\"", type_name(other)))),
    }
}

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
        let described = |value: Option<&Value>| match value.and_then(Value::as_str) {
            Some(text) => format!("the value '{text}' of type 'longstr'"),
            None => "none".to_owned(),
        };
        return Err(Refusal::precondition(format!(
            "inequivalent arg '{argument}' for queue '{queue}' in vhost '{VHOST}': received {} but current is {}",
            described(asked),
            described(current)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, value: HeaderValue) -> Result<QueueArguments, String> {
        queue_arguments(&[Header { name: name.into(), value }], "q").map_err(|refusal| refusal.reply_text())
    }

    #[test]
    fn arguments_without_effect_yet_are_refused_by_name() {
        for name in NOT_SERVED {
            let text = argument(name, HeaderValue::Int(5)).unwrap_err();
            let expected =
                format!("PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/': not served yet");
            assert_eq!(text, expected);
        }
        assert!(argument("x-single-active-consumer", HeaderValue::Bool(true)).is_err());
        assert!(argument("x-queue-type", HeaderValue::Text("quorum".into())).unwrap_err().contains("not served yet"));
        let text = argument("x-queue-type", HeaderValue::Text("zz".into())).unwrap_err();
        assert!(text.ends_with("\"unsupported queue type 'zz'\""));
        assert!(argument("x-topic", HeaderValue::Int(1)).is_err());
    }

    #[test]
    fn unknown_arguments_are_kept_and_not_compared() {
        let one = argument("x-foo", HeaderValue::Int(1)).unwrap().all;
        let two = argument("x-foo", HeaderValue::Int(2)).unwrap().all;
        assert!(equivalent(&one, &two, "q").is_ok());
        let classic = argument("x-queue-type", HeaderValue::Text("classic".into())).unwrap().all;
        assert!(equivalent(&one, &classic, "q").is_ok());
        let topic = argument("x-topic", HeaderValue::Text("t".into())).unwrap();
        assert_eq!(topic.topic.as_deref(), Some("t"));
        let text = equivalent(&topic.all, &one, "q").unwrap_err().reply_text();
        assert!(text.ends_with("received the value 't' of type 'longstr' but current is none"), "{text}");
    }
}
