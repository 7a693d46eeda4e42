//! Topics.

use std::collections::BTreeMap;

use broker::topic::{ConfigChange, ConfigEntry, NewTopic, TopicInfo};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, after, name, now};
use crate::refusal::Refusal;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Creation {
    name: String,
    partitions: Option<i64>,
    #[serde(default)]
    config: BTreeMap<String, Value>,
}

pub fn list(call: &mut Call<'_>) -> Handled {
    let tenant = call.tenant()?;
    let topics: Vec<Value> = call.broker.topics(&tenant).into_iter().map(summary).collect();
    now(&json!({ "topics": topics }))
}

fn summary(topic: &TopicInfo) -> Value {
    json!({
        "name": topic.name.as_str(),
        "id": topic.id.to_hex(),
        "partitions": topic.partitions.len(),
        "internal": topic.internal,
    })
}

pub fn create(call: &mut Call<'_>) -> Handled {
    let asked: Creation = call.json()?;
    if !can_be_spelt(&asked.name) {
        let name = &asked.name;
        let rule = "1 to 249 ASCII letters, digits, '.', '_' and '-', not '.' or '..'";
        return Err(Refusal::bad_request(format!("'{name}' is no name that Kafka clients can spell: {rule}")));
    }
    let topic = NewTopic {
        tenant: call.tenant()?,
        name: name(&asked.name)?,
        partitions: asked.partitions.unwrap_or(1),
        config: asked.config.into_iter().map(|(key, value)| (key, text(value))).collect(),
        validate_only: false,
    };
    let (info, lsn) = call.broker.create_topic(&topic, call.now)?;
    after(lsn, 201, &summary(&info))
}

/// Whether the clients that read and write topics can name it.
fn can_be_spelt(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(is_plain)
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Settings by name; null takes one back. Those not named stay as they are.
pub fn alter(call: &mut Call<'_>) -> Handled {
    let asked: BTreeMap<String, Value> = call.json()?;
    let change = |value: Value| if value.is_null() { ConfigChange::Unset } else { ConfigChange::Set(text(value)) };
    let changes: Vec<_> = asked.into_iter().map(|(key, value)| (key, change(value))).collect();
    let tenant = call.tenant()?;
    let topic = call.name().to_owned();
    let lsn = call.broker.alter_topic((&tenant, &topic), &changes, false, call.now)?;
    after(lsn, 204, &Value::Null)
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    let tenant = call.tenant()?;
    let Some(topic) = call.broker.topic(&tenant, call.name()) else {
        return Err(Refusal::not_found(format!("no topic '{}'", call.name())));
    };
    let mut partitions = Vec::new();
    for (index, log) in topic.partitions.iter().enumerate() {
        let bounds = call.broker.bounds(*log)?;
        partitions.push(json!({
            "partition": index,
            "start": bounds.start.0,
            "end": bounds.end.0,
            "messages": bounds.end.since(bounds.start),
        }));
    }
    let config = call.broker.topic_config(&tenant, call.name())?;
    let shown = |entry: &ConfigEntry| {
        let (is_default, doc) = (entry.is_default, entry.doc);
        json!({ "name": entry.name, "value": entry.value, "is_default": is_default, "doc": doc })
    };
    let config: Vec<Value> = config.iter().map(shown).collect();
    let mut body = summary(topic);
    body["partitions"] = partitions.into();
    body["config"] = config.into();
    now(&body)
}

pub fn delete(call: &mut Call<'_>) -> Handled {
    let tenant = call.tenant()?;
    let topic = call.name().to_owned();
    let lsn = call.broker.delete_topic(&tenant, &topic, call.now)?;
    after(lsn, 204, &Value::Null)
}
