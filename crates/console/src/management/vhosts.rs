//! Virtual hosts: tenants by their name here.

use broker::Broker;
use broker::access::{Role, Tenant};
use broker::connection::Sums;
use broker::queue::QueueKind;
use serde_json::{Map, Value, json};

use super::call::{Call, done, missing, node, put as answer_put};
use super::listing::{self, Key};
use super::stats::{self, Scale};
use crate::api::Handled;
use crate::refusal::Refusal;

fn kind_name(broker: &Broker, kind: Option<QueueKind>) -> Value {
    kind.zip(broker.dialect()).map_or_else(|| "undefined".into(), |(kind, dialect)| dialect.queue_kind(kind).into())
}

pub fn json(broker: &Broker, tenant: &Tenant, scale: Scale<'_>) -> Value {
    let name = &tenant.name;
    let kind = kind_name(broker, tenant.default_queue_kind);
    let description = match name.as_str() {
        "/" if tenant.description.is_empty() => "Default virtual host",
        _ => &tenant.description,
    };
    let mut metadata = json!({ "description": description, "tags": tenant.tags });
    if tenant.default_queue_kind.is_some() {
        metadata["default_queue_type"] = kind.clone();
    }
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| out.insert(name.to_owned(), value);
    set("name", name.as_str().into());
    set("description", description.into());
    set("tags", json!(tenant.tags));
    set("default_queue_type", kind);
    set("metadata", metadata);
    set("tracing", false.into());
    set("cluster_state", json!({ node(): "running" }));
    let (_, ready, unsettled) = broker.queue_sums(name);
    let counts = [("messages", ready + unsettled), ("messages_ready", ready), ("messages_unacknowledged", unsettled)];
    stats::add(&mut out, scale, &format!("vhost {name} messages"), counts);
    let (mut received, mut sent, mut sums) = (0, 0, Sums::default());
    for connection in broker.connections().filter(|one| one.info.tenant.as_str() == name) {
        received += connection.figures.received_bytes.get();
        sent += connection.figures.sent_bytes.get();
        connection.channels.values().for_each(|figures| sums.add(&figures.sums()));
    }
    stats::add(&mut out, scale, &format!("vhost {name} bytes"), [("recv_oct", received), ("send_oct", sent)]);
    if let Some(stats) = stats::of_sums(scale, &format!("vhost {name}"), &sums) {
        out.insert("message_stats".to_owned(), stats);
    }
    Value::Object(out)
}

pub fn list(call: &mut Call<'_>) -> Handled {
    let sees_all = Role::Monitoring.is_in(&call.asker.principal.tags);
    let all = call.broker.tenants().into_iter().filter(|tenant| sees_all || call.enters(&tenant.name));
    let keys = all.map(|tenant| Key::Tenant(tenant.name)).collect();
    listing::answer(call, keys)
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    let scale = Scale { sampler: call.sampler, now: call.now.mono };
    let item = call.broker.tenant(call.parameter(0)).map(|tenant| json(call.broker, &tenant, scale));
    listing::one(call, item)
}

/// Words, as a list or as one text with commas.
pub fn words(value: Option<&Value>) -> Vec<String> {
    let split =
        |text: &str| text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect();
    match value {
        Some(Value::String(text)) => split(text),
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

pub fn put(call: &mut Call<'_>) -> Handled {
    let name = call.name(0)?;
    let asked = call.object()?;
    let before = call.broker.tenant(&name);
    if asked.get("tracing").is_some_and(|tracing| tracing == &Value::Bool(true)) {
        return Err(Refusal::new(501, "not_implemented", "tracing (the firehose) is not served"));
    }
    // What is not said stays as it is.
    let kind = match asked.get("default_queue_type").and_then(Value::as_str) {
        None => before.as_ref().and_then(|tenant| tenant.default_queue_kind),
        Some("" | "undefined") => None,
        Some("classic") => Some(QueueKind::Plain),
        Some("quorum") => Some(QueueKind::Safe),
        Some("stream") => Some(QueueKind::Stream),
        Some(other) => return Err(Refusal::bad_request(format!("Unsupported default queue type: {other}"))),
    };
    let tenant = Tenant {
        name: name.to_string(),
        description: match asked.get("description").and_then(Value::as_str) {
            Some(description) => description.to_owned(),
            None => before.as_ref().map(|tenant| tenant.description.clone()).unwrap_or_default(),
        },
        tags: match asked.get("tags") {
            None => before.as_ref().map(|tenant| tenant.tags.clone()).unwrap_or_default(),
            tags => words(tags),
        },
        default_queue_kind: kind,
        limits: before.map(|tenant| tenant.limits).unwrap_or_default(),
    };
    let put = call.broker.put_tenant(&tenant);
    let (is_new, mut lsn) = put.map_err(|error| Refusal::bad_request(error.to_string()))?;
    if is_new {
        // Whoever makes one gets into it.
        let all = || ".*".to_owned();
        let (user, tenant) = (call.asker.principal.user.to_string(), tenant.name);
        let grant = broker::access::Permission { user, tenant, configure: all(), write: all(), read: all() };
        let granted = call.broker.put_permission(&grant);
        lsn = lsn.max(granted.map_err(|error| Refusal::bad_request(error.to_string()))?.1);
    }
    answer_put(is_new, lsn)
}

pub fn delete(call: &mut Call<'_>) -> Handled {
    let name = call.parameter(0).to_owned();
    if !call.broker.has_tenant(&name) {
        return Err(missing());
    }
    let deleted = call.broker.delete_tenant(&name, call.now);
    done(204, deleted.map_err(|error| Refusal::bad_request(error.to_string()))?)
}

/// Virtual hosts are never down.
pub fn start(call: &mut Call<'_>) -> Handled {
    call.any_vhost()?;
    done(204, broker::Lsn::default())
}
