//! Class exchange.

use broker::routing::{ExchangeKind, ExchangeSpec};
use model::ByteReader;

use super::bit;
use super::queue_args::arguments;
use crate::config::VHOST;
use crate::conn::{Call, Done, name};
use crate::errors::{Code, Refusal};
use crate::wire::{short, table};

/// The default exchange is not to be touched.
pub fn default_exchange() -> Refusal {
    Refusal::new(Code::AccessRefused, "operation not permitted on the default exchange")
}

fn kind(text: &str) -> Result<ExchangeKind, Refusal> {
    match text {
        "direct" => Ok(ExchangeKind::Direct),
        "fanout" => Ok(ExchangeKind::Fanout),
        "topic" | "headers" => Err(Refusal::not_served(format_args!("exchange type '{text}' is"))),
        other => Err(Refusal::precondition(format!("unknown exchange type '{other}'"))),
    }
}

fn kind_name(kind: ExchangeKind) -> &'static str {
    match kind {
        ExchangeKind::Direct => "direct",
        ExchangeKind::Fanout => "fanout",
    }
}

/// exchange.declare: (ticket, name, type | passive durable auto_delete internal nowait, arguments).
pub fn declare(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let exchange = name(short(r)?)?;
    let kind_text = short(r)?;
    let bits = r.u8()?;
    let (passive, durable, auto_delete, internal, nowait) =
        (bit(bits, 0), bit(bits, 1), bit(bits, 2), bit(bits, 3), bit(bits, 4));
    let headers = table::read(table::body(r)?)?;
    if exchange.is_empty() {
        return Err(default_exchange());
    }
    let found = call.cx.broker.exchange(&call.conn.tenant, &exchange);
    if passive {
        // A topic answers as an exchange of its own name.
        if found.is_none() && call.cx.broker.topic(&call.conn.tenant, &exchange).is_none() {
            return Err(Refusal::missing("exchange", &exchange));
        }
    } else {
        let kind = kind(kind_text)?;
        if found.is_none() && exchange.starts_with("amq.") {
            let text = format!("exchange name '{}' contains reserved prefix 'amq.*'", &*exchange);
            return Err(Refusal::new(Code::AccessRefused, text));
        }
        if headers.iter().any(|header| header.name == "alternate-exchange") {
            return Err(Refusal::not_served("argument 'alternate-exchange' is"));
        }
        if internal {
            // Only bindings between exchanges could reach it, and those are not served.
            return Err(Refusal::not_served("internal exchanges are"));
        }
        let spec = ExchangeSpec {
            tenant: call.conn.tenant.clone(),
            name: exchange,
            kind,
            durable,
            auto_delete,
            internal,
            arguments: arguments(&headers),
        };
        let (current, lsn) = call.cx.broker.declare_exchange(&spec).map_err(|error| Refusal::of(&error, "exchange"))?;
        equivalent(&spec, &current)?;
        call.hold(lsn);
    }
    if !nowait {
        call.reply(|_| {});
    }
    Ok(())
}

fn equivalent(asked: &ExchangeSpec, current: &ExchangeSpec) -> Done {
    let pairs = [
        ("type", kind_name(asked.kind).to_owned(), kind_name(current.kind).to_owned()),
        ("durable", asked.durable.to_string(), current.durable.to_string()),
        ("auto_delete", asked.auto_delete.to_string(), current.auto_delete.to_string()),
        ("internal", asked.internal.to_string(), current.internal.to_string()),
    ];
    for (what, asked_value, current_value) in pairs {
        if asked_value != current_value {
            return Err(Refusal::precondition(format!(
                "inequivalent arg '{what}' for exchange '{}' in vhost '{VHOST}': received '{asked_value}' but current \
                 is '{current_value}'",
                &*asked.name
            )));
        }
    }
    Ok(())
}

/// exchange.delete: (ticket, name | if_unused nowait). A missing one is no error.
pub fn delete(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let exchange = name(short(r)?)?;
    let bits = r.u8()?;
    let (if_unused, nowait) = (bit(bits, 0), bit(bits, 1));
    if exchange.is_empty() {
        return Err(default_exchange());
    }
    if exchange.starts_with("amq.") {
        let text = format!("deletion of system exchange '{}' in vhost '{VHOST}' not allowed", &*exchange);
        return Err(Refusal::new(Code::AccessRefused, text));
    }
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
