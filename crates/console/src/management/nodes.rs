//! Nodes: there is one.

use serde_json::{Map, Value, json};

use super::call::{Call, missing, node};
use super::health;
use super::listing::{self, Key};
use super::stats::{self, Scale};
use crate::api::Handled;

/// Kinds of exchanges there are.
pub fn exchange_types() -> Value {
    let kind = |name: &str, description: &str| json!({ "name": name, "description": description, "enabled": true });
    json!([
        kind("direct", "AMQP direct exchange, as per the AMQP specification"),
        kind("fanout", "AMQP fanout exchange, as per the AMQP specification"),
        kind("headers", "AMQP headers exchange, as per the AMQP specification"),
        kind("topic", "AMQP topic exchange, as per the AMQP specification"),
        kind("x-delayed-message", "Delayed Message Exchange."),
    ])
}

/// Counts of comings and goings, with their rates.
pub fn churn(call: &Call<'_>) -> Map<String, Value> {
    let totals = call.broker.totals();
    let counts = [
        ("connection_created", totals.connections_opened),
        ("connection_closed", totals.connections_closed),
        ("channel_created", totals.channels_opened),
        ("channel_closed", totals.channels_closed),
        ("queue_declared", totals.queues_declared),
        ("queue_created", totals.queues_created),
        ("queue_deleted", totals.queues_deleted),
    ];
    let mut out = Map::new();
    let scale = Scale { sampler: call.sampler, now: call.now.mono };
    stats::add(&mut out, scale, "churn", counts);
    out
}

fn json(call: &Call<'_>) -> Value {
    let machine = call.counters.machine();
    let sockets: u64 = call.counters.read().map(|door| door.open).sum();
    let raised = health::raised(call.broker);
    let mut out = json!({
        "name": node(),
        "type": "disc",
        "running": true,
        "os_pid": std::process::id().to_string(),
        "uptime": call.counters.uptime_ms(call.now.mono),
        "processors": machine.processors,
        "run_queue": 0,
        "mem_used": machine.memory_used,
        "mem_limit": machine.memory_limit,
        "mem_alarm": raised.contains(&"memory"),
        "mem_calculation_strategy": "rss",
        "disk_free": machine.disk_free,
        "disk_free_limit": machine.disk_free_limit,
        "disk_free_alarm": raised.contains(&"disk"),
        "fd_used": machine.files_open,
        "fd_total": machine.files_max,
        "sockets_used": sockets,
        "sockets_total": machine.files_max,
        "proc_used": machine.threads,
        "proc_total": machine.threads_max,
        "rates_mode": "basic",
        "net_ticktime": 60,
        "partitions": [],
        "cluster_links": [],
        "db_dir": call.counters.data_folder(),
        "config_files": [],
        "log_files": ["<stderr>"],
        "applications": [{ "name": "fourfold", "description": "Fourfold", "version": env!("CARGO_PKG_VERSION") }],
        "contexts": contexts(call),
        "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus"],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            { "name": "AMQPLAIN", "description": "QPid AMQPLAIN mechanism", "enabled": true },
            { "name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": true },
        ],
    });
    let storage = call.broker.storage_stats();
    let mut figures = churn(call);
    let counts = [
        ("io_write_bytes", storage.journal_bytes + storage.settled_bytes + storage.merged_bytes),
        ("io_sync_count", storage.syncs),
    ];
    let scale = Scale { sampler: call.sampler, now: call.now.mono };
    stats::add(&mut figures, scale, "node", counts);
    if let Some(out) = out.as_object_mut() {
        out.extend(figures);
    }
    out
}

/// Where HTTP is served.
pub fn contexts(call: &Call<'_>) -> Vec<Value> {
    let doors = call.counters.listening().iter().filter(|one| matches!(one.door, "http" | "https"));
    let shown = doors.map(|one| {
        json!({
            "node": node(),
            "description": "RabbitMQ Management",
            "path": "/",
            "ip": one.address.ip().to_string(),
            "port": one.address.port().to_string(),
            "ssl_opts": [],
        })
    });
    shown.collect()
}

pub fn list(call: &mut Call<'_>) -> Handled {
    call.broker.look_for_space();
    let keys = vec![Key::Made(json(call))];
    listing::answer(call, keys)
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    if call.parameter(0) != node() {
        return Err(missing());
    }
    call.broker.look_for_space();
    let item = json(call);
    listing::one(call, Some(item))
}
