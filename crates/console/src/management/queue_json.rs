//! A queue as JSON: the fields of the original. Those that speak of its insides (garbage collection, reductions) are
//! there and empty.

use broker::Broker;
use broker::queue::{ConsumerId, QueueFacts, QueueKind};
use model::Name;
use serde_json::{Map, Value, json};

use super::call::node;
use super::consumers;
use super::listing::Show;
use super::stats::{self, Scale};

/// As in a list.
pub fn brief(broker: &Broker, (tenant, name): (&Name, &Name), scale: Scale<'_>, show: Show) -> Option<Value> {
    let facts = broker.queue_facts(tenant, name)?;
    let mut out = fixed(broker, tenant, &facts);
    if show.no_stats {
        let state = if show.with_totals { "running" } else { "live" };
        out.insert("state".to_owned(), state.into());
        if show.with_totals {
            totals(&mut out, &facts);
        }
        return Some(Value::Object(out));
    }
    figures(&mut out, broker, (tenant, &facts), scale);
    Some(Value::Object(out))
}

/// Alone, with its consumers.
pub fn full(broker: &Broker, (tenant, name): (&Name, &Name), scale: Scale<'_>) -> Option<Value> {
    let mut out = brief(broker, (tenant, name), scale, Show::default())?;
    let all = broker.consumers_of(tenant, name);
    out["consumer_details"] = all.iter().map(|consumer| consumers::json(broker, consumer)).collect();
    out["incoming"] = json!([]);
    out["deliveries"] = json!([]);
    Some(out)
}

/// What does not change.
fn fixed(broker: &Broker, tenant: &Name, facts: &QueueFacts) -> Map<String, Value> {
    let info = &facts.info;
    let kind = broker.dialect().map_or("classic", |dialect| dialect.queue_kind(info.kind));
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| out.insert(name.to_owned(), value);
    set("name", info.name.as_str().into());
    set("vhost", tenant.as_str().into());
    set("type", kind.into());
    set("node", node().into());
    set("durable", info.durable.into());
    set("auto_delete", info.auto_delete.into());
    set("exclusive", info.exclusive.is_some().into());
    set("arguments", json!(info.arguments));
    out
}

fn totals(out: &mut Map<String, Value>, facts: &QueueFacts) {
    let (ready, unsettled) = (facts.info.ready, facts.info.unsettled);
    out.insert("messages".to_owned(), (ready + unsettled).into());
    out.insert("messages_ready".to_owned(), ready.into());
    out.insert("messages_unacknowledged".to_owned(), unsettled.into());
}

/// The name of a consumer.
fn tag(broker: &Broker, (tenant, name): (&Name, &Name), id: Option<ConsumerId>) -> Value {
    let Some(id) = id else { return Value::Null };
    let all = broker.consumers_of(tenant, name);
    all.into_iter().find(|consumer| consumer.id == id).map_or(Value::Null, |consumer| consumer.label.tag.into())
}

fn figures(out: &mut Map<String, Value>, broker: &Broker, (tenant, facts): (&Name, &QueueFacts), scale: Scale<'_>) {
    let info = &facts.info;
    let (ready, unsettled) = (info.ready, info.unsettled);
    let whose = format!("queue {tenant} {}", info.name);
    let counts = [("messages", ready + unsettled), ("messages_ready", ready), ("messages_unacknowledged", unsettled)];
    stats::add(out, scale, &format!("{whose} messages"), counts);
    if let Some(stats) = stats::of_queue(scale, &whose, &facts.tally) {
        out.insert("message_stats".to_owned(), stats);
    }
    let mut set = |name: &str, value: Value| out.insert(name.to_owned(), value);
    set("state", "running".into());
    set("consumers", info.consumers.into());
    let capacity = if facts.has_credit { 1 } else { 0 };
    set("consumer_capacity", capacity.into());
    set("consumer_utilisation", capacity.into());
    set("exclusive_consumer_tag", tag(broker, (tenant, &info.name), facts.exclusive_consumer));
    set("single_active_consumer_tag", tag(broker, (tenant, &info.name), facts.active_consumer));
    let policy = info.ruling.policy.as_ref();
    let operator = info.ruling.operator.as_ref();
    set("policy", policy.map_or(Value::Null, |policy| policy.name.as_str().into()));
    set("operator_policy", operator.map_or(Value::Null, |policy| policy.name.as_str().into()));
    set("effective_policy_definition", json!(broker::policy::merged(&info.ruling)));
    let all = facts.bytes.map_or(Value::Null, |(ready, held)| (ready + held).into());
    set("message_bytes", all.clone());
    set("message_bytes_ready", facts.bytes.map_or(Value::Null, |(ready, _)| ready.into()));
    set("message_bytes_unacknowledged", facts.bytes.map_or(Value::Null, |(_, held)| held.into()));
    let lasts = info.durable && info.exclusive.is_none();
    set("message_bytes_persistent", if lasts { all } else { 0.into() });
    set("messages_persistent", if lasts { ready + unsettled } else { 0 }.into());
    // Messages are on disk, or in the system's page cache: none is in our memory because it is in a queue.
    for name in ["message_bytes_ram", "messages_ram", "messages_ready_ram", "messages_unacknowledged_ram"] {
        set(name, 0.into());
    }
    set("message_bytes_paged_out", 0.into());
    set("messages_paged_out", 0.into());
    set("memory", facts.memory_bytes.into());
    set("idle_since", facts.moved_at.to_string().into());
    set("head_message_timestamp", Value::Null);
    set("recoverable_slaves", Value::Null);
    set("reductions", 0.into());
    set("reductions_details", json!({ "rate": 0.0 }));
    set("garbage_collection", json!({}));
    if info.kind == QueueKind::Plain {
        set("backing_queue_status", json!({ "mode": "default", "len": ready, "version": 2 }));
    } else {
        set("leader", node().into());
        set("members", json!([node()]));
        set("online", json!([node()]));
    }
}
