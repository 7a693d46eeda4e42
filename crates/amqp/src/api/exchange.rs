//! Class exchange.

use broker::access::{Operation, Resource};
use broker::routing::{BindingSpec, Destination, ExchangeKind, ExchangeSpec};
use broker::{Broker, BrokerError, Lsn};
use model::{ByteReader, Header, HeaderValue, Name};
use serde_json::Value;

use super::bit;
use super::equivalence::arguments;
use crate::conn::{Call, Done, name};
use crate::errors::{Code, Refusal, VHOST};
use crate::wire::{short, table};

/// The default exchange is not to be touched.
pub fn default_exchange() -> Refusal {
    Refusal::new(Code::AccessRefused, "operation not permitted on the default exchange")
}

/// Where messages go that no binding takes.
const ALTERNATE: &str = "alternate-exchange";
/// The type of exchanges that route a message only when its delay is over; how they do then is an argument.
const DELAYED: &str = "x-delayed-message";
const DELAYED_TYPE: &str = "x-delayed-type";

fn kind(text: &str) -> Result<ExchangeKind, Refusal> {
    match text {
        "direct" => Ok(ExchangeKind::Direct),
        "fanout" => Ok(ExchangeKind::Fanout),
        "topic" => Ok(ExchangeKind::Topic),
        "headers" => Ok(ExchangeKind::Headers),
        other => Err(Refusal::precondition(format!("unknown exchange type '{other}'"))),
    }
}

/// How an exchange declared with `text` as its type routes, and whether it delays.
fn kind_and_delay(text: &str, headers: &[Header]) -> Result<(ExchangeKind, bool), Refusal> {
    if text != DELAYED {
        return kind(text).map(|kind| (kind, false));
    }
    let then = headers.iter().find(|header| header.name == DELAYED_TYPE).map(|header| &header.value);
    match then {
        Some(HeaderValue::Text(then)) if then != DELAYED => kind(then).map(|kind| (kind, true)),
        _ => Err(Refusal::precondition("Invalid argument, 'x-delayed-type' must be an existing exchange type")),
    }
}

/// The type that an exchange was declared with.
#[must_use]
pub fn type_of(spec: &ExchangeSpec) -> &'static str {
    if spec.delayed { DELAYED } else { kind_name(spec.kind) }
}

/// The word for a kind of exchange.
#[must_use]
pub fn kind_name(kind: ExchangeKind) -> &'static str {
    match kind {
        ExchangeKind::Direct => "direct",
        ExchangeKind::Fanout => "fanout",
        ExchangeKind::Topic => "topic",
        ExchangeKind::Headers => "headers",
    }
}

/// exchange.declare: (ticket, name, type | passive durable auto_delete internal nowait, arguments).
pub fn declare(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let exchange = name(short(r)?)?;
    let kind_text = short(r)?;
    let bits = r.u8()?;
    let (passive, nowait) = (bit(bits, 0), bit(bits, 4));
    let headers = table::read(table::body(r)?)?;
    if exchange.is_empty() {
        return Err(default_exchange());
    }
    if passive {
        call.may_see(Resource::Exchange(&exchange))?;
        let broker = &call.cx.broker;
        let found = broker.exchange(&call.conn.tenant, &exchange).is_some();
        // A topic answers as an exchange of its own name.
        if !found && broker.topic(&call.conn.tenant, &exchange).is_none() {
            return Err(Refusal::missing("exchange", &exchange));
        }
    } else {
        may_declare(call, &exchange, kind_text, &headers)?;
        let lsn = declared(call.cx.broker, (&call.conn.tenant, &exchange), (kind_text, bits), &headers)?;
        call.hold(lsn);
    }
    if !nowait {
        call.reply(|_| {});
    }
    Ok(())
}

/// Declares an exchange; `bits` are those of the method.
///
/// # Errors
/// 403 for a reserved name, 406 for an unknown type, a bad argument, or an exchange that is not as asked.
pub fn declared(
    broker: &mut Broker,
    (tenant, exchange): (&Name, &Name),
    (kind_text, bits): (&str, u8),
    headers: &[Header],
) -> Result<Lsn, Refusal> {
    let spec = spec_of((tenant, exchange), (kind_text, bits), headers)?;
    if exchange.starts_with("amq.") && broker.exchange(tenant, exchange).is_none() {
        let text = format!("exchange name '{exchange}' contains reserved prefix 'amq.*'");
        return Err(Refusal::new(Code::AccessRefused, text));
    }
    let (current, lsn) = broker.declare_exchange(&spec).map_err(|error| Refusal::of(&error, "exchange"))?;
    equivalent(&spec, &current)?;
    Ok(lsn)
}

/// What a declaration asks for.
///
/// # Errors
/// In RabbitMQ's words, when there is no such thing.
pub fn spec_of(
    (tenant, exchange): (&Name, &Name),
    (kind_text, bits): (&str, u8),
    headers: &[Header],
) -> Result<ExchangeSpec, Refusal> {
    let (kind, delayed) = kind_and_delay(kind_text, headers)?;
    Ok(ExchangeSpec {
        tenant: tenant.clone(),
        alternate: alternate(headers, exchange)?,
        delayed,
        number: 0,
        name: exchange.clone(),
        kind,
        durable: bit(bits, 1),
        auto_delete: bit(bits, 2),
        internal: bit(bits, 3),
        arguments: arguments(headers),
    })
}

/// Who declares an exchange may configure it; who gives a new one an alternate may read from it and write to that.
fn may_declare(call: &mut Call<'_, '_>, exchange: &str, kind_text: &str, headers: &[Header]) -> Done {
    kind_and_delay(kind_text, headers)?; // what is no type at all is said first
    call.may(Operation::Configure, Resource::Exchange(exchange))?;
    let is_new = call.cx.broker.exchange(&call.conn.tenant, exchange).is_none();
    if is_new
        && let Some(header) = headers.iter().find(|header| header.name == ALTERNATE)
        && let HeaderValue::Text(alternate) = &header.value
    {
        call.may(Operation::Read, Resource::Exchange(exchange))?;
        call.may(Operation::Write, Resource::Exchange(alternate))?;
    }
    Ok(())
}

/// Who binds to an exchange may read from it: with that key, if it routes by patterns.
///
/// # Errors
/// 403 when not.
pub fn may_bind_from(call: &mut Call<'_, '_>, exchange: &str, key: &str) -> Done {
    call.may(Operation::Read, Resource::Exchange(exchange))?;
    let denied = call.conn.pass.check_keys(call.cx.broker, exchange, &[key], true);
    denied.map_err(|denied| Refusal::denied(&denied))
}

fn alternate(headers: &[Header], exchange: &str) -> Result<Option<Name>, Refusal> {
    let Some(header) = headers.iter().find(|header| header.name == ALTERNATE) else { return Ok(None) };
    match &header.value {
        HeaderValue::Text(text) => name(text).map(Some),
        other => Err(Refusal::precondition(format!(
            "invalid type '{}' for arg '{ALTERNATE}' in exchange '{exchange}' in vhost '{VHOST}'",
            table::type_name(other)
        ))),
    }
}

/// A second declaration must ask for what there is; of the arguments only those with an effect are compared.
fn equivalent(asked: &ExchangeSpec, current: &ExchangeSpec) -> Done {
    let pairs = [
        ("type", type_of(asked).to_owned(), type_of(current).to_owned()),
        ("durable", asked.durable.to_string(), current.durable.to_string()),
        ("auto_delete", asked.auto_delete.to_string(), current.auto_delete.to_string()),
        ("internal", asked.internal.to_string(), current.internal.to_string()),
    ];
    let differs = |what: &str, asked_value: &str, current_value: &str| {
        Err(Refusal::precondition(format!(
            "inequivalent arg '{what}' for exchange '{}' in vhost '{VHOST}': received {asked_value} but current is \
             {current_value}",
            &*asked.name
        )))
    };
    for (what, asked_value, current_value) in pairs {
        if asked_value != current_value {
            return differs(what, &format!("'{asked_value}'"), &format!("'{current_value}'"));
        }
    }
    if asked.kind != current.kind {
        let shown = |spec: &ExchangeSpec| format!("the value '{}' of type 'longstr'", kind_name(spec.kind));
        return differs(DELAYED_TYPE, &shown(asked), &shown(current));
    }
    if asked.alternate != current.alternate {
        let shown = |value: &Option<Name>| match value {
            Some(name) => format!("the value '{name}' of type 'longstr'"),
            None => "none".to_owned(),
        };
        return differs(ALTERNATE, &shown(&asked.alternate), &shown(&current.alternate));
    }
    Ok(())
}

/// Checks the arguments of a binding from `exchange`: one that goes by headers says how.
///
/// # Errors
/// 406 for an `x-match` that is none.
pub fn check_binding(broker: &Broker, (tenant, exchange): (&str, &str), headers: &[Header]) -> Done {
    let Some(how) = headers.iter().find(|header| header.name == "x-match") else { return Ok(()) };
    let by_headers = |spec: ExchangeSpec| spec.kind == ExchangeKind::Headers;
    if !broker.exchange(tenant, exchange).is_none_or(by_headers) {
        return Ok(());
    }
    match &how.value {
        HeaderValue::Text(text) if ["all", "any", "all-with-x", "any-with-x"].contains(&text.as_str()) => Ok(()),
        HeaderValue::Text(text) => Err(Refusal::precondition(format!(
            "Invalid x-match field value <<\"{text}\">>; expected all, any, all-with-x, or any-with-x"
        ))),
        other => Err(Refusal::precondition(format!(
            "Invalid x-match field type {} (value {}); expected longstr",
            table::type_name(other),
            arguments(headers).get("x-match").map(Value::to_string).unwrap_or_default()
        ))),
    }
}

/// Checks that an exchange can be bound to another one, or to a topic: what a topic feeds is not delayed.
///
/// # Errors
/// 540 for one that delays, to a topic.
pub fn check_destination(broker: &Broker, tenant: &str, (source, destination): (&str, &str)) -> Done {
    let is_topic = broker.exchange(tenant, source).is_none() && broker.topic(tenant, source).is_some();
    if broker.delays(tenant, destination) && is_topic {
        let text = format!("a binding of a topic to exchange '{destination}' of type '{DELAYED}' is");
        return Err(Refusal::not_served(text));
    }
    Ok(())
}

/// exchange.bind and unbind: (ticket, destination, source, key | nowait, arguments). To unbind what is not there is no
/// error.
pub fn bind(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let (destination, source) = (name(short(r)?)?, name(short(r)?)?);
    let key = super::queue::key_name(short(r)?)?;
    let nowait = bit(r.u8()?, 0);
    let headers = table::read(table::body(r)?)?;
    if destination.is_empty() {
        return Err(default_exchange());
    }
    call.may(Operation::Write, Resource::Exchange(&destination))?;
    if source.is_empty() {
        return Err(default_exchange());
    }
    may_bind_from(call, &source, &key)?;
    let unbind = call.method.1 == 40;
    if !unbind {
        check_destination(call.cx.broker, &call.conn.tenant, (&source, &destination))?;
        check_binding(call.cx.broker, (&call.conn.tenant, &source), &headers)?;
    }
    let spec = BindingSpec {
        tenant: call.conn.tenant.clone(),
        exchange: source,
        destination: Destination::Exchange(destination),
        key,
        arguments: arguments(&headers),
    };
    let session = call.conn.session();
    let done = if unbind { call.cx.broker.unbind(session, &spec) } else { call.cx.broker.bind(session, &spec) };
    match done {
        Ok(lsn) => call.hold(lsn),
        Err(BrokerError::Missing { .. }) if unbind => {}
        Err(error) => return Err(Refusal::of(&error, "exchange")),
    }
    if !nowait {
        // The answer to unbind, 40, is 51: an oddity of the original.
        let answer = if unbind { 51 } else { 31 };
        call.say((40, answer), |_| {});
    }
    Ok(())
}

/// Exchanges that are always there stay.
///
/// # Errors
/// 403 for one.
pub fn may_be_deleted(exchange: &str) -> Done {
    if exchange.is_empty() {
        return Err(default_exchange());
    }
    if exchange.starts_with("amq.") {
        let text = format!("deletion of system exchange '{exchange}' in vhost '{VHOST}' not allowed");
        return Err(Refusal::new(Code::AccessRefused, text));
    }
    Ok(())
}

/// exchange.delete: (ticket, name | if_unused nowait). A missing one is no error.
pub fn delete(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let exchange = name(short(r)?)?;
    let bits = r.u8()?;
    let (if_unused, nowait) = (bit(bits, 0), bit(bits, 1));
    may_be_deleted(&exchange)?;
    call.may(Operation::Configure, Resource::Exchange(&exchange))?;
    let deleted = call.cx.broker.delete_exchange(&call.conn.tenant, &exchange, if_unused);
    match deleted {
        Ok(lsn) => call.hold(lsn),
        Err(broker::BrokerError::Missing { .. }) => {}
        Err(error) => return Err(Refusal::of(&error, "exchange")),
    }
    if !nowait {
        call.reply(|_| {});
    }
    Ok(())
}
