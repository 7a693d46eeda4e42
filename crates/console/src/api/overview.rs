//! The server as a whole: health, overview, metrics.

use broker::Lsn;
use serde_json::{Value, json};

use super::{Answer, Call, Handled, Until, after, now};
use crate::http::Response;
use crate::metrics;

pub fn health(call: &mut Call<'_>) -> Handled {
    let (status, body) = match call.broker.failure() {
        // Still well: reads, acks and deletes go on, and it heals alone.
        None => match call.broker.full() {
            None => (200, json!({ "status": "ok" })),
            Some(why) => (200, json!({ "status": "ok", "full": why.to_string() })),
        },
        Some(why) => (503, json!({ "status": "failed", "error": "unavailable", "reason": why.to_string() })),
    };
    after(Lsn::default(), status, &body)
}

pub fn overview(call: &mut Call<'_>) -> Handled {
    let tenant = call.tenant()?;
    let progress = call.broker.progress();
    let doors: Vec<Value> = call
        .counters
        .read()
        .map(|door| {
            json!({
                "name": door.name,
                "connections": door.open,
                "accepted": door.accepted,
                "received_bytes": door.received_bytes,
                "sent_bytes": door.sent_bytes,
            })
        })
        .collect();
    now(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cluster_id": call.broker.cluster_id(),
        "topics": call.broker.topics(&tenant).len(),
        "queues": call.broker.queues(&tenant).len(),
        "groups": call.broker.groups().len(),
        "users": call.broker.users().len(),
        "doors": doors,
        "journal": { "written": progress.written.0, "synced": progress.synced.0 },
        "storage": storage_of(call),
    }))
}

// What was written for what came in, and what it takes on disk.
fn storage_of(call: &Call<'_>) -> Value {
    let stats = call.broker.storage_stats();
    json!({
        "stored_bytes": stats.unit_bytes,
        "journal_bytes": stats.journal_bytes,
        "settled_bytes": stats.settled_bytes,
        "merged_bytes": stats.merged_bytes,
        "checkpoint_bytes": stats.checkpoint_bytes,
        "write_cost_permille": stats.write_amplification_permille(),
        "window_bytes": stats.window_bytes,
        "store_files": stats.segments,
        "store_bytes": stats.segment_bytes,
        "store_live_bytes": stats.segment_live_bytes,
        "space_cost_permille": stats.space_amplification_permille(),
        "settling_lag_permille": call.broker.lag_permille(),
        "logs": stats.logs,
        "damaged_ranges": call.broker.damage().len(),
    })
}

/// The damaged places: nothing in them is served, everything else is.
pub fn damage(call: &mut Call<'_>) -> Handled {
    let places: Vec<Value> = call
        .broker
        .damage()
        .iter()
        .map(|damage| {
            let logs: Vec<u64> = damage.logs.iter().map(|log| log.0).collect();
            json!({ "file": damage.file, "at": damage.at, "bytes": damage.bytes, "logs": logs })
        })
        .collect();
    now(&json!(places))
}

/// Answers whoever is logged in that they are: what `fourfold` asks to check a password.
pub fn whoami(_: &mut Call<'_>) -> Handled {
    now(&json!({ "status": "ok" }))
}

pub fn metrics(call: &mut Call<'_>) -> Handled {
    let body = metrics::text(call.broker, call.counters).into_bytes();
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    let response = Response { status: 200, content_type, allow: None, body };
    Ok(Answer { response, until: Until::Synced(Lsn::default()) })
}
