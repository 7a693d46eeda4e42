//! The server as a whole.

use serde_json::{Map, Value, json};

use super::call::{Call, node, now};
use super::health::protocol_of;
use super::nodes::{churn, contexts, exchange_types};
use super::stats::{self, Scale};
use crate::api::Handled;

/// Clients switch features by these: they say whose dialect is spoken, and in which version.
const PRODUCT: &str = "RabbitMQ";
/// As told over AMQP.
pub const VERSION: &str = "4.0.0";

pub fn cluster_name_of(call: &Call<'_>) -> String {
    format!("fourfold@{}", call.broker.cluster_id())
}

pub fn overview(call: &mut Call<'_>) -> Handled {
    let (mut queues, mut ready, mut unsettled, mut exchanges) = (0, 0, 0, 0);
    for tenant in call.vhosts() {
        let (count, its_ready, its_unsettled) = call.broker.queue_sums(&tenant);
        (queues, ready, unsettled) = (queues + count, ready + its_ready, unsettled + its_unsettled);
        exchanges += call.broker.exchanges(&tenant).len() + 1;
    }
    let seen = |one: &&broker::connection::Connection| super::connections::sees(call, &one.info.user);
    let connections = call.broker.connections().filter(seen);
    let (count, channels) =
        connections.fold((0, 0), |(count, channels), one| (count + 1, channels + one.channels.len()));
    let scale = Scale { sampler: call.sampler, now: call.now.mono };
    let mut totals = Map::new();
    let counts = [("messages", ready + unsettled), ("messages_ready", ready), ("messages_unacknowledged", unsettled)];
    stats::add(&mut totals, scale, "overview messages", counts);
    let totals_of = call.broker.totals();
    let mut out = json!({
        "management_version": VERSION,
        "rabbitmq_version": VERSION,
        "product_name": PRODUCT,
        "product_version": VERSION,
        "fourfold_version": env!("CARGO_PKG_VERSION"),
        "erlang_version": "none",
        "erlang_full_version": "none: Fourfold is written in Rust",
        "release_series_support_status": "supported",
        "cluster_name": cluster_name_of(call),
        "node": node(),
        "rates_mode": "basic",
        "sample_retention_policies": { "global": [], "basic": [], "detailed": [] },
        "statistics_db_event_queue": 0,
        "disable_stats": false,
        "enable_queue_totals": false,
        "exchange_types": exchange_types(),
        "message_stats": stats::of_sums(scale, "overview", &totals_of.messages).unwrap_or_else(|| json!({})),
        "churn_rates": churn(call),
        "queue_totals": if queues == 0 { Map::new() } else { totals },
        "object_totals": {
            "connections": count,
            "channels": channels,
            "consumers": call.broker.consumers_count(),
            "exchanges": exchanges,
            "queues": queues,
        },
    });
    if call.sees_all() {
        out["listeners"] = listeners(call).into();
        out["contexts"] = contexts(call).into();
    }
    super::listing::one(call, Some(out))
}

fn listeners(call: &Call<'_>) -> Vec<Value> {
    let shown = call.counters.listening().iter().map(|one| {
        let (ip, port) = (one.address.ip().to_string(), one.address.port());
        json!({ "node": node(), "protocol": protocol_of(one.door), "ip_address": ip, "port": port, "socket_opts": {} })
    });
    shown.collect()
}

pub fn cluster_name(call: &mut Call<'_>) -> Handled {
    let name = cluster_name_of(call);
    now(&json!({ "name": name }))
}

pub fn whoami(call: &mut Call<'_>) -> Handled {
    let who = &call.asker.principal;
    now(&json!({ "name": who.user.as_str(), "tags": who.tags }))
}

/// Pages beyond those of the original: none.
pub fn extensions(_: &mut Call<'_>) -> Handled {
    now(&json!([]))
}

/// Other ways to log in: none.
pub fn auth(_: &mut Call<'_>) -> Handled {
    now(&json!({ "enable_uaa": false, "oauth_enabled": false, "uaa_client_id": "", "uaa_location": "" }))
}

/// Logins are counted all together: doors are not told apart.
pub fn auth_attempts(call: &mut Call<'_>) -> Handled {
    let totals = call.broker.totals();
    now(&json!([{
        "protocol": "all",
        "auth_attempts": totals.logins + totals.logins_refused,
        "auth_attempts_failed": totals.logins_refused,
        "auth_attempts_succeeded": totals.logins,
    }]))
}

/// Features that could be switched: none.
pub fn nothing(_: &mut Call<'_>) -> Handled {
    now(&json!([]))
}

pub fn global_parameters(call: &mut Call<'_>) -> Handled {
    let id = call.broker.cluster_id().to_owned();
    now(&json!([{ "name": "internal_cluster_id", "value": format!("rabbitmq-cluster-id-{id}") }]))
}
