//! Queues.

use broker::access::{Operation, Resource};
use broker::dialect::QueueAsk;
use serde_json::Value;

use super::call::{Call, arguments, done, flag, missing, not_authorised, put};
use super::listing::{self, Key};
use super::queue_json;
use super::stats::Scale;
use crate::api::Handled;
use crate::refusal::Refusal;

pub fn list(call: &mut Call<'_>) -> Handled {
    let mut keys = Vec::new();
    for tenant in call.vhosts() {
        keys.extend(call.broker.queue_names(&tenant).into_iter().map(|name| Key::Queue(tenant.clone(), name)));
    }
    listing::answer(call, keys)
}

pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = call.vhost()?;
    let names = call.broker.queue_names(&tenant);
    listing::answer(call, names.into_iter().map(|name| Key::Queue(tenant.clone(), name)).collect())
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    let (tenant, name) = (call.vhost()?, call.name(1)?);
    let scale = Scale { sampler: call.sampler, now: call.now.mono };
    let whose = (&tenant, &name);
    let item = if call.query.is_true("disable_stats") {
        queue_json::brief(call.broker, whose, scale, listing::Show { no_stats: true, with_totals: false })
    } else {
        queue_json::full(call.broker, whose, scale)
    };
    listing::one(call, item)
}

pub fn declare(call: &mut Call<'_>) -> Handled {
    let (tenant, name) = (declaring_in(call)?, call.name(1)?);
    let asked = call.object()?;
    let ask = QueueAsk {
        session: call.session,
        durable: flag(&asked, "durable", false)?,
        auto_delete: flag(&asked, "auto_delete", false)?,
        arguments: arguments(&asked)?,
        tenant,
        name,
    };
    call.may(&ask.tenant, Resource::Queue(&ask.name), Operation::Configure)?;
    let text = |key: &str| match ask.arguments.iter().find(|header| header.name == key).map(|header| &header.value) {
        Some(model::HeaderValue::Text(text)) => Some(text.clone()),
        _ => None,
    };
    if let Some(exchange) = text("x-dead-letter-exchange") {
        call.may(&ask.tenant, Resource::Queue(&ask.name), Operation::Read)?;
        call.may(&ask.tenant, Resource::Exchange(&exchange), Operation::Write)?;
    }
    if let Some(topic) = text("x-topic") {
        call.may(&ask.tenant, Resource::Topic(&topic), Operation::Read)?;
    }
    let (is_new, lsn) = call.dialect()?.declare_queue(call.broker, &ask, call.now)?;
    put(is_new, lsn)
}

/// The virtual host of something to be declared; a missing one is told in other words there.
pub fn declaring_in(call: &Call<'_>) -> Result<model::Name, Refusal> {
    let tenant = call.name(0)?;
    if !call.broker.has_tenant(&tenant) {
        return Err(Refusal::not_found("vhost_not_found"));
    }
    if !call.enters(&tenant) {
        return Err(not_authorised("User not authorised to access virtual host"));
    }
    Ok(tenant)
}

pub fn delete(call: &mut Call<'_>) -> Handled {
    let (tenant, name) = (call.vhost()?, call.name(1)?);
    if call.broker.queue_facts(&tenant, &name).is_none() {
        return Err(missing());
    }
    call.may(&tenant, Resource::Queue(&name), Operation::Configure)?;
    let (if_unused, if_empty) = (call.query.is_true("if-unused"), call.query.is_true("if-empty"));
    let deleted = call.broker.delete_queue(call.session, &tenant, &name, if_unused, if_empty);
    let (_, lsn) = deleted.map_err(|error| call.refused(&error, "queue", &tenant))?;
    done(204, lsn)
}

pub fn purge(call: &mut Call<'_>) -> Handled {
    let (tenant, name) = (call.vhost()?, call.name(1)?);
    if call.broker.queue_facts(&tenant, &name).is_none() {
        return Err(missing());
    }
    call.may(&tenant, Resource::Queue(&name), Operation::Read)?;
    let purged = call.broker.purge(call.session, &tenant, &name);
    let (_, lsn) = purged.map_err(|error| call.refused(&error, "queue", &tenant))?;
    done(204, lsn)
}

/// What was done to mirrors, of which there are none: nothing is out of step.
pub fn act(call: &mut Call<'_>) -> Handled {
    let (tenant, name) = (call.vhost()?, call.name(1)?);
    if call.broker.queue_facts(&tenant, &name).is_none() {
        return Err(missing());
    }
    match call.object()?.get("action") {
        Some(Value::String(action)) if action == "sync" || action == "cancel_sync" => done(204, broker::Lsn::default()),
        other => Err(Refusal::listed("unknown", other.cloned().unwrap_or(Value::Null))),
    }
}
