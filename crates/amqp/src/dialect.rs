//! RabbitMQ's words for whoever declares, publishes or reads by another door than AMQP's: the management API and files
//! of definitions. What the methods check is checked here by the same functions; only the wire is left out.

use broker::dialect::{Dialect, ExchangeAsk, Fault, PublishAsk, QueueAsk, Shown};
use broker::queue::{Body, Delivery, QueueKind, QueueSpec};
use broker::routing::{BindingSpec, Destination, ExchangeSpec, PublishRequest, Published};
use broker::{Broker, BrokerError, Lsn, SessionId, SyncPolicy};
use bytes::Bytes;
use model::{Format, FormatTag, Header, HeaderValue, Name, Now};

use crate::api::basic::{copies, delay, publish};
use crate::api::equivalence::arguments;
use crate::api::{exchange, queue};
use crate::errors::{Code, Refusal};
use crate::format::{FORMAT, build_one};
use crate::unit::{TAG, Unit, UnitBuilder};
use crate::wire::props::{self, PropsWriter};
use crate::wire::table::{self, Types};

/// The dialect.
#[derive(Clone, Copy, Debug)]
pub struct AmqpDialect;

/// A refusal of something in `tenant`.
fn fault(refusal: &Refusal, tenant: &str) -> Fault {
    let (code, name) = refusal.code.wire();
    Fault { code, name, text: refusal.told(tenant) }
}

/// The bits of queue.declare that say the same.
fn bits(ask: &QueueAsk) -> u8 {
    u8::from(ask.durable) << 1 | u8::from(ask.auto_delete) << 3
}

/// The bits of exchange.declare that say the same.
fn exchange_bits(ask: &ExchangeAsk) -> u8 {
    u8::from(ask.durable) << 1 | u8::from(ask.auto_delete) << 2 | u8::from(ask.internal) << 3
}

fn queue_spec(broker: &Broker, ask: &QueueAsk) -> Result<QueueSpec, Refusal> {
    queue::not_reserved(&ask.name)?;
    let arguments = queue::typed(broker, &ask.tenant, bits(ask), ask.arguments.clone());
    let asked = (arguments.as_slice(), &Types::new());
    let mut spec = queue::asked_for(&ask.tenant, ask.name.clone(), bits(ask), asked);
    queue::mean(&mut spec, asked, ask.name.is_empty())?;
    Ok(spec)
}

impl Dialect for AmqpDialect {
    fn declare_queue(&self, broker: &mut Broker, ask: &QueueAsk, now: Now) -> Result<(bool, Lsn), Fault> {
        declare_queue(broker, ask, now).map_err(|refusal| fault(&refusal, &ask.tenant))
    }

    fn check_queue(&self, broker: &Broker, ask: &QueueAsk) -> Result<(), Fault> {
        let missing = |topic: &Name| broker.topic(&ask.tenant, topic).is_none();
        let checked = queue_spec(broker, ask).and_then(|spec| match spec.topic {
            Some(topic) if missing(&topic) => Err(Refusal::missing("topic", &topic)),
            _ => Ok(()),
        });
        checked.map_err(|refusal| fault(&refusal, &ask.tenant))
    }

    fn check_exchange(&self, ask: &ExchangeAsk) -> Result<(), Fault> {
        let spec = exchange::spec_of((&ask.tenant, &ask.name), (&ask.kind, exchange_bits(ask)), &ask.arguments);
        spec.map(drop).map_err(|refusal| fault(&refusal, &ask.tenant))
    }

    fn declare_exchange(&self, broker: &mut Broker, ask: &ExchangeAsk) -> Result<(bool, Lsn), Fault> {
        declare_exchange(broker, ask).map_err(|refusal| fault(&refusal, &ask.tenant))
    }

    fn delete_exchange(
        &self,
        broker: &mut Broker,
        tenant: &model::Name,
        name: &str,
        if_unused: bool,
    ) -> Result<Lsn, Fault> {
        exchange::may_be_deleted(name).map_err(|refusal| fault(&refusal, tenant))?;
        broker.delete_exchange(tenant, name, if_unused).map_err(|error| self.fault(&error, "exchange", tenant))
    }

    fn bind(
        &self,
        broker: &mut Broker,
        session: SessionId,
        spec: BindingSpec,
        headers: &[Header],
    ) -> Result<Lsn, Fault> {
        let tenant = spec.tenant.clone();
        bind(broker, session, spec, headers).map_err(|refusal| fault(&refusal, &tenant))
    }

    fn publish(&self, broker: &mut Broker, ask: &PublishAsk<'_>, now: Now) -> Result<Published, Fault> {
        publish_one(broker, ask, now).map_err(|refusal| fault(&refusal, ask.tenant))
    }

    fn format(&self) -> FormatTag {
        TAG
    }

    fn show(&self, delivery: &Delivery) -> Result<Shown, Fault> {
        show(delivery).map_err(|refusal| fault(&refusal, ""))
    }

    fn queue_kind(&self, kind: QueueKind) -> &'static str {
        queue::kind_name(kind)
    }

    fn exchange_kind(&self, spec: &ExchangeSpec) -> &'static str {
        exchange::type_of(spec)
    }

    fn fault(&self, error: &BrokerError, kind: &str, tenant: &str) -> Fault {
        fault(&Refusal::of(error, kind), tenant)
    }
}

fn declare_queue(broker: &mut Broker, ask: &QueueAsk, now: Now) -> Result<(bool, Lsn), Refusal> {
    let declared = queue::declared(broker, (ask.session, now), &queue_spec(broker, ask)?)?;
    Ok((declared.created, declared.lsn))
}

fn declare_exchange(broker: &mut Broker, ask: &ExchangeAsk) -> Result<(bool, Lsn), Refusal> {
    if ask.name.is_empty() {
        return Err(exchange::default_exchange());
    }
    let is_new = broker.exchange(&ask.tenant, &ask.name).is_none();
    let named = (&ask.tenant, &ask.name);
    let lsn = exchange::declared(broker, named, (&ask.kind, exchange_bits(ask)), &ask.arguments)?;
    Ok((is_new, lsn))
}

fn bind(broker: &mut Broker, session: SessionId, spec: BindingSpec, headers: &[Header]) -> Result<Lsn, Refusal> {
    let is_exchange = matches!(spec.destination, Destination::Exchange(_));
    if spec.exchange.is_empty() || (is_exchange && spec.to().is_empty()) {
        return Err(exchange::default_exchange());
    }
    exchange::check_binding(broker, (&spec.tenant, &spec.exchange), headers)?;
    if is_exchange {
        exchange::check_destination(broker, &spec.tenant, (&spec.exchange, spec.to()))?;
    }
    let spec = BindingSpec { arguments: arguments(headers), ..spec };
    let kind = if is_exchange { "exchange" } else { "queue" };
    broker.bind(session, &spec).map_err(|error| Refusal::of(&error, kind))
}

/// Bytes of a routing key.
const KEY_BYTES_MAX: usize = 255;

fn publish_one(broker: &mut Broker, ask: &PublishAsk<'_>, now: Now) -> Result<Published, Refusal> {
    if ask.key.len() > KEY_BYTES_MAX {
        // Kept as a short string: its end would be cut off, and the message routed by what it is not stored with.
        return Err(Refusal::precondition(format!("invalid message: a routing key has at most {KEY_BYTES_MAX} bytes")));
    }
    let mut raw = Vec::new();
    put_properties(ask.properties, &mut raw);
    let found = props::read(&raw).map_err(Refusal::from)?;
    publish::check_props(&found, (ask.user, ask.impersonates))?;
    let mut routes = Vec::new();
    let hides = found.headers.map_or(Ok(false), |headers| copies::collect(headers, &mut routes))?;
    delay::check(broker, (ask.tenant, ask.exchange), &found)?;
    let raw = if hides { copies::without_bcc(&raw, &found).map_err(Refusal::from)? } else { raw.clone() };
    let persistent = found.delivery_mode == Some(2);
    let mut unit = UnitBuilder::default();
    unit.begin(ask.exchange, ask.key);
    unit.props(&raw);
    unit.body(ask.body);
    unit.finish(persistent, now.wall);
    let Ok((stored, _)) = Unit::first(unit.bytes()) else { return Err(broken()) };
    let marks = FORMAT.marks(&Bytes::copy_from_slice(unit.bytes())).map_err(|_| broken())?;
    let more_keys = routes.iter().map(String::as_str).collect::<Vec<_>>();
    let request = PublishRequest {
        tenant: ask.tenant,
        exchange: ask.exchange,
        key: ask.key,
        more_keys: &more_keys,
        headers: &|| publish::headers_of(&stored),
        format: &FORMAT,
        unit: unit.bytes(),
        time: found.timestamp.map_or(now.wall, table::seconds),
        persistent,
        marks,
        policy: if persistent { SyncPolicy::Sync } else { SyncPolicy::None },
    };
    broker.publish(&request, now).map_err(|error| Refusal::of(&error, "exchange"))
}

fn show(delivery: &Delivery) -> Result<Shown, Refusal> {
    let bytes = match &delivery.body {
        Body::Unit(bytes) => bytes.clone(),
        Body::Neutral(message) => {
            let mut builder = UnitBuilder::default();
            build_one(message, &mut builder);
            Bytes::from(builder.into_bytes())
        }
    };
    let (unit, _) = Unit::first(&bytes).map_err(|_| broken())?;
    Ok(Shown {
        exchange: unit.exchange.to_owned(),
        key: unit.key.to_owned(),
        properties: properties_of(&unit).map_err(|_| broken())?,
        body: bytes.slice_ref(unit.body),
    })
}

fn broken() -> Refusal {
    Refusal::new(Code::InternalError, "a message cannot be read")
}

/// Properties in the order of the specification, with their bits.
const PROPERTIES: [(&str, u16); 14] = [
    ("content_type", 15),
    ("content_encoding", 14),
    ("headers", 13),
    ("delivery_mode", 12),
    ("priority", 11),
    ("correlation_id", 10),
    ("reply_to", 9),
    ("expiration", 8),
    ("message_id", 7),
    ("timestamp", 6),
    ("type", 5),
    ("user_id", 4),
    ("app_id", 3),
    ("cluster_id", 2),
];

/// Writes the properties that have a name and a type of ours; others are not there.
fn put_properties(properties: &[Header], out: &mut Vec<u8>) {
    let mut writer = PropsWriter::new(out);
    for (name, bit) in PROPERTIES {
        let Some(property) = properties.iter().find(|property| property.name == name) else { continue };
        match (&property.value, bit) {
            (HeaderValue::Table(headers), 13) => writer.other(bit, |out| table::put(out, headers)),
            (HeaderValue::Int(number), 11 | 12) => {
                let number = u8::try_from(*number).unwrap_or(u8::MAX);
                writer.other(bit, |out| out.push(number));
            }
            (HeaderValue::Int(number), 6) => {
                writer.other(bit, |out| out.extend_from_slice(&(*number).max(0).to_be_bytes()));
            }
            (HeaderValue::Text(text), 2..=5 | 7..=10 | 14 | 15) => writer.short(bit, Some(text)),
            _ => {}
        }
    }
}

/// The properties of a unit by their names.
fn properties_of(unit: &Unit<'_>) -> Result<Vec<Header>, Refusal> {
    let found = props::read(unit.props)?;
    let mut all = Vec::new();
    let mut add = |name: &str, value| all.push(Header { name: name.to_owned(), value });
    let text = |bytes: &[u8]| HeaderValue::Text(String::from_utf8_lossy(bytes).into_owned());
    let short = [
        ("cluster_id", found.cluster_id),
        ("app_id", found.app_id),
        ("user_id", found.user_id),
        ("type", found.kind),
        ("message_id", found.message_id),
        ("expiration", found.expiration),
        ("reply_to", found.reply_to),
        ("correlation_id", found.correlation_id),
        ("content_encoding", found.content_encoding),
        ("content_type", found.content_type),
    ];
    for (name, bytes) in short {
        if let Some(bytes) = bytes {
            add(name, text(bytes));
        }
    }
    if let Some(seconds) = found.timestamp {
        add("timestamp", HeaderValue::Int(i64::try_from(seconds).unwrap_or(i64::MAX)));
    }
    for (name, number) in [("priority", found.priority), ("delivery_mode", found.delivery_mode)] {
        if let Some(number) = number {
            add(name, HeaderValue::Int(number.into()));
        }
    }
    if let Some(headers) = found.headers {
        add("headers", HeaderValue::Table(table::read(headers)?));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_back_as_they_were_named() {
        let text = |name: &str| Header { name: name.into(), value: HeaderValue::Text(name.into()) };
        let int = |name: &str, value| Header { name: name.into(), value: HeaderValue::Int(value) };
        let headers = vec![int("n", 1), text("t")];
        let mut all: Vec<Header> = ["app_id", "content_type", "correlation_id", "type"].map(text).into();
        all.extend([int("priority", 3), int("delivery_mode", 2), int("timestamp", 7)]);
        all.push(Header { name: "headers".into(), value: HeaderValue::Table(headers) });
        let mut raw = Vec::new();
        put_properties(&all, &mut raw);
        let unit = Unit { props: &raw, ..Unit::EMPTY };
        let mut back = properties_of(&unit).unwrap();
        back.sort_by(|a, b| a.name.cmp(&b.name));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(back, all);
        let mut none = Vec::new();
        put_properties(&[text("unknown")], &mut none);
        assert_eq!(none, [0, 0]);
    }
}
