//! The server as a whole: health, overview, metrics.

use broker::Lsn;
use serde_json::{Value, json};

use super::{Answer, Call, Handled, after, now};
use crate::http::decode;
use crate::management::{Detail, Ours, scrape};
use crate::metrics;

pub fn health(call: &mut Call<'_>) -> Handled {
    call.broker.look_for_space();
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
    call.broker.look_for_space();
    let ours = Ours::Text(metrics::text(call.broker, call.counters));
    scraped(call, Detail::Sums, ours)
}

/// Figures of each object, under the names of RabbitMQ's plugin.
pub fn metrics_per_object(call: &mut Call<'_>) -> Handled {
    let ours = Ours::Objects(metrics::Objects::begin());
    scraped(call, Detail::Objects, ours)
}

/// Those of chosen families: `?family=queue_coarse_metrics&vhost=/`.
pub fn metrics_detailed(call: &mut Call<'_>) -> Handled {
    let all = |name: &str| {
        let pairs = call.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).filter_map(|(_, value)| decode(value)).collect::<Vec<_>>()
    };
    let detail = Detail::Families(all("family"), all("vhost"));
    scraped(call, detail, Ours::Nothing)
}

fn scraped(call: &Call<'_>, detail: Detail, ours: Ours) -> Handled {
    let page = scrape((call.broker, call.counters), call.now.mono, detail, ours);
    Ok(Answer::worked(call.call, page))
}
