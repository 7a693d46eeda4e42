//! Properties of messages as JSON, and back, each with its type.

use model::{Header, HeaderValue};
use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// Those that are whole numbers.
const INTS: [&str; 3] = ["delivery_mode", "priority", "timestamp"];

/// Those that are texts.
const TEXTS: [&str; 10] = [
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
];

/// Reads the properties of a message. A name that is none of them is passed over, as the original does.
///
/// # Errors
/// 400 for one of another type.
pub fn read(given: &Value) -> Result<Vec<Header>, Refusal> {
    let empty = Map::new();
    let given = match given {
        Value::Object(given) => given,
        Value::Array(list) if list.is_empty() => &empty,
        other => return Err(Refusal::listed("not_table", other.clone())),
    };
    let mut all = Vec::new();
    for (name, value) in given {
        let value = match (name.as_str(), value) {
            ("headers", Value::Object(headers)) => {
                let headers = broker::dialect::headers_of(headers);
                HeaderValue::Table(headers.map_err(|why| Refusal::bad_request(why.to_string()))?)
            }
            ("headers", Value::Array(list)) if list.is_empty() => continue,
            ("headers", _) => return Err(Refusal::listed("not_table", name.clone().into())),
            (int, Value::Number(number)) if INTS.contains(&int) && number.is_i64() => {
                HeaderValue::Int(number.as_i64().unwrap_or_default())
            }
            (int, _) if INTS.contains(&int) => return Err(Refusal::listed("not_int", name.clone().into())),
            (text, Value::String(value)) if TEXTS.contains(&text) => short(text, value)?,
            (text, _) if TEXTS.contains(&text) => return Err(Refusal::listed("not_string", name.clone().into())),
            _ => continue,
        };
        all.push(Header { name: name.clone(), value });
    }
    Ok(all)
}

fn short(name: &str, value: &str) -> Result<HeaderValue, Refusal> {
    if value.len() > 255 {
        return Err(Refusal::bad_request(format!("{name} has at most 255 bytes")));
    }
    Ok(HeaderValue::Text(value.to_owned()))
}

/// Properties as they are shown: an empty list where there are none, as the original does.
pub fn shown(properties: &[Header]) -> Value {
    if properties.is_empty() { Value::Array(Vec::new()) } else { broker::dialect::json_of(properties) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_property_of_another_type_is_refused_by_its_name() {
        let said = |given: Value| read(&given).map_err(|refusal| refusal.parts);
        assert_eq!(said(json!({ "priority": "x" })), Err(vec!["not_int".into(), "priority".into()]));
        assert_eq!(said(json!({ "app_id": 1 })), Err(vec!["not_string".into(), "app_id".into()]));
        assert_eq!(said(json!([])), Ok(Vec::new()));
        let all = json!({ "priority": 3, "headers": { "a": 1 }, "type": "t" });
        assert_eq!(shown(&said(all.clone()).unwrap()), all);
    }
}
