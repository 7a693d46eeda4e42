//! Messages, published and got over HTTP: for trying out, not for traffic.

use broker::access::{Operation, Resource, Role};
use broker::dialect::PublishAsk;
use broker::queue::Settle;
use broker::routing::ExchangeKind;
use serde_json::{Value, json};

use super::call::{Call, need, now};
use super::exchanges::{find, named};
use super::getting::{Encoding, Getting};
use super::properties;
use crate::api::{Answer, Handled};
use crate::auth;
use crate::refusal::Refusal;

/// The most messages that one request gets.
const GET_MAX: u64 = 10_000;

pub fn publish(call: &mut Call<'_>) -> Handled {
    let (tenant, exchange) = (call.vhost()?, named(call, 1)?);
    let asked = call.object()?;
    need(&asked, &["routing_key", "properties", "payload", "payload_encoding"])?;
    let text = |key: &str| asked.get(key).and_then(Value::as_str).unwrap_or_default();
    let (key, payload) = (text("routing_key"), text("payload"));
    let body = match text("payload_encoding") {
        "string" => payload.as_bytes().to_vec(),
        "base64" => auth::base64(payload.as_bytes()).ok_or_else(|| Refusal::listed("not_base64", payload.into()))?,
        other => return Err(Refusal::listed("unsupported_encoding", other.into())),
    };
    let properties = properties::read(asked.get("properties").unwrap_or(&Value::Null))?;
    call.may(&tenant, Resource::Exchange(&exchange), Operation::Write)?;
    may_use_key(call, &tenant, &exchange, key)?;
    let principal = &call.asker.principal;
    let ask = PublishAsk {
        user: &principal.user,
        impersonates: Role::Impersonator.is_in(&principal.tags),
        tenant: &tenant,
        exchange: &exchange,
        key,
        properties: &properties,
        body: &body,
    };
    let published = call.dialect()?.publish(call.broker, &ask, call.now);
    // Here the original tells what the channel was closed with.
    let published =
        published.map_err(|fault| Refusal::bad_request(format!("{} {} - {}", fault.code, fault.name, fault.text)))?;
    let mut answer = now(&json!({ "routed": published.queues > 0 }))?;
    answer.until = crate::api::Until::Synced(published.lsn);
    Ok(answer)
}

/// Keys of exchanges that route by patterns may be limited.
fn may_use_key(call: &Call<'_>, tenant: &model::Name, exchange: &str, key: &str) -> Result<(), Refusal> {
    let is_topic = find(call.broker, tenant, exchange).is_some_and(|spec| spec.kind == ExchangeKind::Topic);
    if !is_topic {
        return Ok(());
    }
    let whose = (&call.asker.principal.user, tenant);
    let allowed = call.broker.authorize_key(whose, (exchange, key), false);
    allowed.map_err(|_| super::call::not_authorised("Access refused."))
}

/// What becomes of what was got.
fn settle(ackmode: &str) -> Option<Settle> {
    match ackmode {
        "ack_requeue_true" | "reject_requeue_true" => Some(Settle::Requeue),
        "ack_requeue_false" => Some(Settle::Ack),
        "reject_requeue_false" => Some(Settle::Discard),
        _ => None,
    }
}

pub fn get(call: &mut Call<'_>) -> Handled {
    let (tenant, queue) = (call.vhost()?, call.name(1)?);
    let asked = call.object()?;
    need(&asked, &["count", "ackmode", "encoding"])?;
    let count = match asked.get("count") {
        Some(Value::Number(number)) if number.is_u64() => number.as_u64().unwrap_or_default().min(GET_MAX),
        Some(Value::String(text)) if text.parse::<u64>().is_ok() => text.parse().unwrap_or(0).min(GET_MAX),
        other => return Err(Refusal::listed("not_integer", other.cloned().unwrap_or(Value::Null))),
    };
    let ackmode = asked.get("ackmode").and_then(Value::as_str).unwrap_or_default();
    let Some(how) = settle(ackmode) else {
        return Err(Refusal::bad_request(
            "ackmode is one of ack_requeue_true, ack_requeue_false, reject_requeue_true, reject_requeue_false",
        ));
    };
    let encoding = match asked.get("encoding").and_then(Value::as_str) {
        Some("auto") => Encoding::Auto,
        Some("base64") => Encoding::Base64,
        _ => return Err(Refusal::bad_request("Unsupported encoding. Please use auto or base64.")),
    };
    let truncate = asked.get("truncate").and_then(Value::as_u64).and_then(|bytes| usize::try_from(bytes).ok());
    if call.broker.queue_facts(&tenant, &queue).is_none() {
        return Err(Refusal::not_found(format!("NOT_FOUND - no queue '{queue}' in vhost '{tenant}'")));
    }
    call.may(&tenant, Resource::Queue(&queue), Operation::Read).map_err(|_| {
        let user = &call.asker.principal.user;
        let text = format!("ACCESS_REFUSED - access to queue '{queue}' in vhost '{tenant}' refused for user '{user}'");
        super::call::not_authorised(&text)
    })?;
    let dialect = call.dialect()?;
    let work = Getting::begin((tenant, queue), (count, how), (encoding, truncate), dialect);
    Ok(Answer::worked(call.call, work))
}
