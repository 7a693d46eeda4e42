//! `message_stats` and its kin: counts, each with the rate at which it grows.

use std::sync::Mutex;

use broker::connection::Sums;
use broker::queue::Tally;
use model::Mono;
use serde_json::{Map, Value, json};

use super::call::rates;
use super::rates::Sampler;

/// With what rates are told.
#[derive(Clone, Copy)]
pub struct Scale<'a> {
    /// What was counted before.
    pub sampler: &'a Mutex<Sampler>,
    /// What time it is.
    pub now: Mono,
}

/// Counts by their names, each with its rate, added to `out`.
pub fn add<const N: usize>(out: &mut Map<String, Value>, scale: Scale<'_>, whose: &str, counts: [(&str, u64); N]) {
    let grown = rates(scale.sampler, (whose, counts.map(|(_, count)| count)), scale.now);
    for ((name, count), rate) in counts.into_iter().zip(grown) {
        out.insert(name.to_owned(), count.into());
        out.insert(format!("{name}_details"), json!({ "rate": rate }));
    }
}

/// The same as an object of its own; `None` while nothing is counted.
fn of<const N: usize>(scale: Scale<'_>, whose: &str, counts: [(&str, u64); N]) -> Option<Value> {
    if counts.iter().all(|(_, count)| *count == 0) {
        return None;
    }
    let mut out = Map::new();
    add(&mut out, scale, whose, counts);
    Some(Value::Object(out))
}

/// Of a queue.
pub fn of_queue(scale: Scale<'_>, whose: &str, tally: &Tally) -> Option<Value> {
    let deliver_get = tally.delivered + tally.delivered_settled + tally.got + tally.got_settled;
    let counts = [
        ("publish", tally.published),
        ("deliver", tally.delivered),
        ("deliver_no_ack", tally.delivered_settled),
        ("get", tally.got),
        ("get_no_ack", tally.got_settled),
        ("get_empty", tally.got_nothing),
        ("deliver_get", deliver_get),
        ("ack", tally.acked),
        ("redeliver", tally.redelivered),
    ];
    of(scale, whose, counts)
}

/// Of a channel, a virtual host, or everything.
pub fn of_sums(scale: Scale<'_>, whose: &str, sums: &Sums) -> Option<Value> {
    let deliver_get = sums.delivered + sums.delivered_settled + sums.got + sums.got_settled;
    let counts = [
        ("publish", sums.published),
        ("confirm", sums.confirmed),
        ("return_unroutable", sums.returned),
        ("drop_unroutable", sums.dropped),
        ("deliver", sums.delivered),
        ("deliver_no_ack", sums.delivered_settled),
        ("get", sums.got),
        ("get_no_ack", sums.got_settled),
        ("get_empty", sums.got_nothing),
        ("deliver_get", deliver_get),
        ("ack", sums.acked),
        ("redeliver", sums.redelivered),
    ];
    of(scale, whose, counts)
}
