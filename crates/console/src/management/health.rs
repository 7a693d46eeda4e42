//! Health checks: 200 when all is well, 503 with the reason when it is not.

use broker::Broker;
use broker::access::{Operation, Resource};
use broker::dialect::{PublishAsk, QueueAsk};
use model::Name;
use serde_json::{Value, json};

use super::call::{Call, node as node_name, now};
use crate::api::{Answer, Handled, Until};
use crate::http::Response;
use crate::refusal::Refusal;

/// The queue of the aliveness test.
const ALIVENESS: &str = "aliveness-test";

fn ok() -> Handled {
    now(&json!({ "status": "ok" }))
}

fn failed(mut body: Value) -> Handled {
    body["status"] = "failed".into();
    Ok(Answer { response: Response::json(503, &body), until: Until::Synced(broker::Lsn::default()) })
}

/// What is wrong, by the original's names for it.
pub fn raised(broker: &Broker) -> Vec<&'static str> {
    let mut all = Vec::new();
    if broker.full().is_some() || broker.failure().is_some() {
        all.push("disk");
    }
    if broker.is_low_on_memory() {
        all.push("memory");
    }
    all
}

pub fn alarms(call: &mut Call<'_>) -> Handled {
    call.broker.look_for_space();
    let raised = raised(call.broker);
    if raised.is_empty() {
        return ok();
    }
    let alarms: Vec<Value> =
        raised.iter().map(|resource| json!({ "node": node_name(), "resource": resource })).collect();
    failed(json!({ "reason": "There are alarms in effect in the cluster", "alarms": alarms }))
}

pub fn node(call: &mut Call<'_>) -> Handled {
    match call.broker.failure() {
        None => ok(),
        Some(why) => failed(json!({ "reason": why.to_string() })),
    }
}

/// They are never down.
pub fn virtual_hosts(_: &mut Call<'_>) -> Handled {
    ok()
}

/// There is one node: nobody waits for another.
pub fn single(_: &mut Call<'_>) -> Handled {
    now(&json!({ "status": "ok", "reason": "single node cluster" }))
}

pub fn serves(call: &mut Call<'_>) -> Handled {
    node(call)
}

pub fn port_listener(call: &mut Call<'_>) -> Handled {
    let port: u16 = call.parameter(0).parse().map_err(|_| Refusal::bad_request("Invalid port"))?;
    let ports: Vec<u16> = call.counters.listening().iter().map(|one| one.address.port()).collect();
    if ports.contains(&port) {
        return now(&json!({ "status": "ok", "port": port }));
    }
    failed(json!({ "reason": "No active listener", "missing": port, "ports": ports }))
}

pub fn protocol_listener(call: &mut Call<'_>) -> Handled {
    let asked = call.parameter(0).to_lowercase();
    let wanted = match asked.as_str() {
        "amqp091" | "amqp0.9.1" | "amqp0-9-1" | "amqp-0-9-1" => "amqp",
        "amqps" | "amqp091/ssl" => "amqp/ssl",
        other => other,
    };
    let protocols: Vec<&str> = call.counters.listening().iter().map(|one| protocol_of(one.door)).collect();
    if protocols.contains(&wanted) {
        return now(&json!({ "status": "ok", "protocol": wanted }));
    }
    failed(json!({ "reason": "No active listener", "missing": asked, "protocols": protocols }))
}

/// A door by the original's name of what is spoken there.
pub fn protocol_of(door: &str) -> &str {
    match door {
        "amqps" => "amqp/ssl",
        other => other,
    }
}

/// Certificates are loaded by the server, which says in its log when one is about to end.
pub fn certificates(call: &mut Call<'_>) -> Handled {
    let invalid = || Refusal::bad_request("Invalid expiration value.");
    call.parameter(0).parse::<u32>().map_err(|_| invalid())?;
    let units = ["days", "weeks", "months", "years"];
    if !units.contains(&call.parameter(1)) {
        return Err(Refusal::bad_request("Time unit not recognised. Use days, weeks, months, years."));
    }
    let secured = call.counters.listening().iter().any(|one| matches!(one.door, "amqps" | "https" | "kafka-ssl"));
    if secured {
        return Err(Refusal::new(501, "not_implemented", "the end of certificates is not told here"));
    }
    ok()
}

/// A queue is made, a message is routed to it, and both are removed. The original leaves the queue. One that was there
/// may be somebody's: it stays, and nothing is put into it or taken out.
pub fn aliveness(call: &mut Call<'_>) -> Handled {
    let tenant = call.vhost()?;
    let queue = Name::fixed(ALIVENESS);
    for operation in [Operation::Configure, Operation::Write, Operation::Read] {
        call.may(&tenant, Resource::Queue(&queue), operation)?;
    }
    let dialect = call.dialect()?;
    let arguments = Vec::new();
    let (session, name) = (call.session, queue.clone());
    let ask = QueueAsk { session, tenant: tenant.clone(), name, durable: false, auto_delete: false, arguments };
    let (is_new, _) = dialect.declare_queue(call.broker, &ask, call.now)?;
    if !is_new {
        return tell_failure(call.broker);
    }
    let user = call.asker.principal.user.clone();
    let (properties, body): (&[model::Header], &[u8]) = (&[], b"test_message");
    let message =
        PublishAsk { user: &user, impersonates: false, tenant: &tenant, exchange: "", key: &queue, properties, body };
    if dialect.publish(call.broker, &message, call.now)?.queues == 0 {
        return failed(json!({ "reason": "the message was not routed" }));
    }
    // What is published is seen when the turn ends; nobody waits for that: the queue goes with what is in it.
    let removed = call.broker.delete_queue(session, &tenant, &queue, false, false);
    removed.map_err(|error| call.refused(&error, "queue", &tenant))?;
    tell_failure(call.broker)
}

fn tell_failure(broker: &Broker) -> Handled {
    match broker.failure() {
        None => ok(),
        Some(why) => failed(json!({ "reason": why.to_string() })),
    }
}
