//! Bindings by headers: the arguments of a binding held against the headers of a message.

use model::{Header, HeaderValue};
use serde_json::Value;

use super::exchange::Arguments;

/// The argument that says how many of the others must match.
const MATCH: &str = "x-match";

/// A binding's arguments, compiled.
#[derive(Debug)]
pub(super) struct Pattern {
    /// All of the conditions must hold, or any of them.
    all: bool,
    conditions: Vec<(String, Value)>,
}

impl Pattern {
    /// Whether arguments ask for headers at all.
    pub(super) fn is_in(arguments: &Arguments) -> bool {
        arguments.contains_key(MATCH)
    }

    /// Compiles a binding's arguments. Unless `x-match` says `…-with-x`, those whose names begin with `x-` are not held
    /// against headers.
    pub(super) fn new(arguments: &Arguments) -> Pattern {
        let how = arguments.get(MATCH).and_then(Value::as_str).unwrap_or("all");
        let with_x = how.ends_with("-with-x");
        let counts = |name: &str| name != MATCH && (with_x || !name.starts_with("x-"));
        let conditions = arguments.iter().filter(|(name, _)| counts(name));
        Pattern {
            all: !how.starts_with("any"),
            conditions: conditions.map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }

    /// Whether a message with these headers goes by this binding.
    pub(super) fn matches(&self, headers: &[Header]) -> bool {
        let mut holds = self.conditions.iter().map(|(name, wanted)| {
            let mut named = headers.iter().filter(|header| header.name == *name);
            named.any(|header| wanted.is_null() || same(wanted, &header.value))
        });
        if self.all { holds.all(|holds| holds) } else { holds.any(|holds| holds) }
    }
}

/// Whether a value is what an argument asks for: of the same class and equal. Bytes equal the same text, since some
/// tongues have only bytes.
fn same(wanted: &Value, value: &HeaderValue) -> bool {
    match (wanted, value) {
        (Value::Bool(wanted), HeaderValue::Bool(value)) => wanted == value,
        (Value::Number(wanted), HeaderValue::Int(value)) => wanted.as_i64() == Some(*value),
        (Value::Number(wanted), HeaderValue::Float(value)) => wanted.is_f64() && wanted.as_f64() == Some(*value),
        (Value::Number(wanted), HeaderValue::Time(value)) => wanted.as_i64() == Some(value.0),
        (Value::String(wanted), HeaderValue::Text(value)) => wanted == value,
        (Value::String(wanted), HeaderValue::Bytes(value)) => wanted.as_bytes() == &value[..],
        (Value::Array(wanted), HeaderValue::List(values)) => {
            wanted.len() == values.len() && wanted.iter().zip(values).all(|(wanted, value)| same(wanted, value))
        }
        (Value::Array(wanted), HeaderValue::Bytes(bytes)) => {
            wanted.len() == bytes.len()
                && wanted.iter().zip(bytes).all(|(one, byte)| one.as_u64() == Some((*byte).into()))
        }
        (Value::Object(wanted), HeaderValue::Table(fields)) => {
            wanted.len() == fields.len()
                && fields.iter().all(|field| wanted.get(&field.name).is_some_and(|one| same(one, &field.value)))
        }
        (Value::Null, HeaderValue::Null) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(arguments: Value, headers: &[(&str, HeaderValue)]) -> bool {
        let Value::Object(arguments) = arguments else { unreachable!() };
        let headers = headers.iter().map(|(name, value)| Header { name: (*name).into(), value: value.clone() });
        Pattern::new(&arguments.into_iter().collect()).matches(&headers.collect::<Vec<_>>())
    }

    fn text(text: &str) -> HeaderValue {
        HeaderValue::Text(text.into())
    }

    #[test]
    fn all_or_any_of_the_arguments_must_be_there_and_equal() {
        let both = [("a", text("1")), ("b", HeaderValue::Int(2)), ("c", HeaderValue::Null)];
        for how in [json!({"a": "1", "b": 2}), json!({"x-match": "all", "a": "1", "b": 2, "x-no": 3})] {
            assert!(matches(how.clone(), &both));
            assert!(!matches(how.clone(), &both[..1]));
            assert!(!matches(how, &[]));
        }
        let any = json!({"x-match": "any", "a": "1", "b": 3});
        assert!(matches(any.clone(), &both[..1]));
        assert!(!matches(any, &both[1..]));
    }

    #[test]
    fn nothing_asked_for_is_all_but_not_any() {
        assert!(matches(json!({}), &[]));
        assert!(matches(json!({"x-match": "all", "x-a": 1}), &[]));
        assert!(!matches(json!({"x-match": "any"}), &[("a", text("1"))]));
        assert!(!matches(json!({"x-match": "any", "x-a": 1}), &[("x-a", HeaderValue::Int(1))]));
    }

    #[test]
    fn names_with_x_count_when_asked_for() {
        let headers = [("x-a", HeaderValue::Int(1))];
        assert!(matches(json!({"x-match": "any-with-x", "x-a": 1}), &headers));
        assert!(!matches(json!({"x-match": "all-with-x", "x-a": 2}), &headers));
    }

    #[test]
    fn an_argument_without_value_asks_for_presence_and_classes_must_agree() {
        assert!(matches(json!({"a": null}), &[("a", text("anything"))]));
        assert!(!matches(json!({"a": null}), &[("b", text("anything"))]));
        assert!(!matches(json!({"a": 1}), &[("a", text("1"))]));
        assert!(!matches(json!({"a": "1"}), &[("a", HeaderValue::Int(1))]));
        assert!(!matches(json!({"a": 1}), &[("a", HeaderValue::Float(1.0))]));
        assert!(matches(json!({"a": 1.5}), &[("a", HeaderValue::Float(1.5))]));
        assert!(matches(json!({"a": "v"}), &[("a", HeaderValue::Bytes(bytes::Bytes::from_static(b"v")))]));
        assert!(matches(json!({"a": true}), &[("a", HeaderValue::Bool(true))]));
    }
}
