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
    }))
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
