//! AMQP units and the neutral message. Only readers of another tongue than the writer's come through here; AMQP
//! clients are given properties and body back byte for byte.
//!
//! What only this tongue understands travels as headers under `amqp.`: the exchange, the routing key, the cluster id.

use std::ops::ControlFlow;

use bytes::Bytes;
use model::format::{Visit, VisitUnit};
use model::{
    DeadLetters, Facts, Format, FormatError, FormatTag, Header, HeaderValue, Marks, Message, Name, Offset, Stamp,
    UnitAt, Wall,
};

use crate::api::basic::delay;
use crate::unit::{TAG, Unit, UnitBuilder};
use crate::wire::props::{Props, PropsWriter};
use crate::wire::table;

/// Headers of this tongue alone.
pub const EXCHANGE: &str = "amqp.exchange";
/// As above.
pub const ROUTING_KEY: &str = "amqp.routing-key";
/// As above.
pub const CLUSTER_ID: &str = "amqp.cluster-id";

/// The longest short string.
const SHORT_BYTES_MAX: usize = 255;

/// The format of AMQP units.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmqpFormat;

/// The one there is.
pub static FORMAT: AmqpFormat = AmqpFormat;

impl Format for AmqpFormat {
    fn tag(&self) -> FormatTag {
        TAG
    }

    /// A message is published when it is stored: one that waited before has its life before it.
    fn stamp(&self, units: &mut [u8], stamp: Stamp) {
        let mut rest = units;
        while let Ok(length) = Unit::length(rest) {
            let (unit, others) = rest.split_at_mut(length);
            Unit::restamp(unit, stamp.at);
            rest = others;
        }
    }

    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError> {
        let (mut at, mut first) = (0, base);
        while at < units.len() {
            let bytes = Unit::length(units.get(at..).unwrap_or_default())?;
            if visit(UnitAt { first, count: 1, at, bytes }) == ControlFlow::Break(()) {
                break;
            }
            at += bytes;
            first = first.plus(1);
        }
        Ok(())
    }

    fn open(&self, units: &Bytes, base: Offset, visit: &mut Visit<'_>) -> Result<(), FormatError> {
        let (mut at, mut offset) = (0, base);
        while at < units.len() {
            let (unit, bytes) = Unit::first(units.get(at..).unwrap_or_default())?;
            if visit(offset, neutral(&unit, units)?) == ControlFlow::Break(()) {
                break;
            }
            at += bytes;
            offset = offset.plus(1);
        }
        Ok(())
    }

    fn marks(&self, unit: &Bytes) -> Result<Marks, FormatError> {
        let (unit, _) = Unit::first(unit)?;
        let props = unit.properties()?;
        Ok(Marks {
            persistent: unit.persistent,
            priority: props.priority.unwrap_or(0),
            time_to_live_ms: time_to_live(&props),
            published: unit.published,
            body_bytes: u32::try_from(unit.body.len()).unwrap_or(u32::MAX),
        })
    }

    fn delay(&self, unit: &[u8], out: &mut Vec<u8>) -> Option<i64> {
        delay::taken(unit, out)
    }

    fn dead_letters(&self) -> Option<&dyn DeadLetters> {
        Some(self)
    }

    fn build(&self, messages: &[(Offset, Message)], out: &mut Vec<u8>) -> Result<(), FormatError> {
        let mut builder = UnitBuilder::default();
        for (_, message) in messages {
            build_one(message, &mut builder);
            out.extend_from_slice(builder.bytes());
        }
        Ok(())
    }
}

/// The neutral message in a unit; its body stays shared with `owner`.
fn neutral(unit: &Unit<'_>, owner: &Bytes) -> Result<Message, FormatError> {
    let props = unit.properties()?;
    let mut headers = match props.headers {
        Some(bytes) => table::read(bytes).map_err(|_| FormatError::Malformed("headers of an AMQP unit"))?,
        None => Vec::new(),
    };
    let mut own = |name: &str, value: &str| {
        headers.push(Header { name: name.to_owned(), value: HeaderValue::Text(value.to_owned()) });
    };
    own(EXCHANGE, unit.exchange);
    own(ROUTING_KEY, unit.key);
    if let Some(id) = text(props.cluster_id) {
        own(CLUSTER_ID, &id);
    }
    // Through the default exchange the routing key is an address, not a key that readers would order by.
    let named = !unit.exchange.is_empty();
    Ok(Message {
        key: (named && !unit.key.is_empty()).then(|| Bytes::copy_from_slice(unit.key.as_bytes())),
        value: Some(owner.slice_ref(unit.body)),
        created: Some(unit.created(&props)),
        headers,
        facts: facts(&props),
        exchange: if named { Name::new(unit.exchange).ok() } else { None },
    })
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// How long the message lives in each queue, in milliseconds.
pub fn time_to_live(props: &Props<'_>) -> Option<u64> {
    props.expiration.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
}

fn facts(props: &Props<'_>) -> Facts {
    Facts {
        message_id: text(props.message_id),
        correlation_id: text(props.correlation_id),
        reply_to: text(props.reply_to),
        content_type: text(props.content_type),
        content_encoding: text(props.content_encoding),
        kind: text(props.kind),
        tag: None,
        priority: props.priority,
        deliver_at: None,
        time_to_live_ms: time_to_live(props),
        durable: props.delivery_mode.map(|mode| mode == 2),
        user_id: text(props.user_id),
        app_id: text(props.app_id),
    }
}

/// Builds a unit in `builder`: for a message of this tongue what it was, for others the nearest there is.
pub fn build_one(message: &Message, builder: &mut UnitBuilder) {
    let own = |name: &str| {
        let header = message.headers.iter().rev().find(|header| header.name == name)?;
        match &header.value {
            HeaderValue::Text(text) if text.len() <= SHORT_BYTES_MAX => Some(text.as_str()),
            HeaderValue::Bytes(bytes) if bytes.len() <= SHORT_BYTES_MAX => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    };
    let exchange = own(EXCHANGE).or(message.exchange.as_deref()).unwrap_or_default();
    let key = message.key.as_deref().filter(|key| key.len() <= SHORT_BYTES_MAX);
    let key = own(ROUTING_KEY).or(key.and_then(|key| std::str::from_utf8(key).ok())).unwrap_or_default();
    let persistent = message.facts.durable.unwrap_or(true);
    let mut props = Vec::new();
    write_props(message, persistent, own(CLUSTER_ID), &mut props);
    builder.begin(exchange, key);
    builder.props(&props);
    builder.body(message.value.as_deref().unwrap_or_default());
    builder.finish(persistent, message.created.unwrap_or_default());
}

fn is_own(header: &Header) -> bool {
    [EXCHANGE, ROUTING_KEY, CLUSTER_ID].contains(&header.name.as_str())
}

fn write_props(message: &Message, persistent: bool, cluster_id: Option<&str>, out: &mut Vec<u8>) {
    let facts = &message.facts;
    let time_to_live = facts.time_to_live_ms.map(|ms| ms.to_string());
    let mut writer = PropsWriter::new(out);
    writer.short(15, facts.content_type.as_deref());
    writer.short(14, facts.content_encoding.as_deref());
    if message.headers.iter().any(|header| !is_own(header)) {
        writer.other(13, |out| table::put(out, message.headers.iter().filter(|header| !is_own(header))));
    }
    writer.other(12, |out| out.push(if persistent { 2 } else { 1 }));
    if let Some(priority) = facts.priority {
        writer.other(11, |out| out.push(priority));
    }
    writer.short(10, facts.correlation_id.as_deref());
    writer.short(9, facts.reply_to.as_deref());
    writer.short(8, time_to_live.as_deref());
    writer.short(7, facts.message_id.as_deref());
    if let Some(Wall(created)) = message.created {
        writer.other(6, |out| out.extend_from_slice(&created.div_euclid(1000).max(0).to_be_bytes()));
    }
    writer.short(5, facts.kind.as_deref());
    writer.short(4, facts.user_id.as_deref());
    writer.short(3, facts.app_id.as_deref());
    writer.short(2, cluster_id);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(units: &[u8]) -> Vec<(Offset, Message)> {
        let mut all = Vec::new();
        let units = Bytes::copy_from_slice(units);
        let visit = &mut |offset, message| {
            all.push((offset, message));
            ControlFlow::Continue(())
        };
        FORMAT.open(&units, Offset(5), visit).unwrap();
        all
    }

    fn kafka_like() -> Message {
        Message {
            key: Some(Bytes::from_static(b"k1")),
            value: Some(Bytes::from_static(b"v")),
            created: Some(Wall(12_345)),
            headers: vec![
                Header { name: "h".into(), value: HeaderValue::Bytes(Bytes::from_static(b"text")) },
                Header { name: "b".into(), value: HeaderValue::Bytes(Bytes::from_static(&[0xff])) },
            ],
            ..Message::default()
        }
    }

    #[test]
    fn a_foreign_message_becomes_a_persistent_one_with_its_key_as_routing_key() {
        let mut out = Vec::new();
        FORMAT.build(&[(Offset(9), kafka_like())], &mut out).unwrap();
        let (unit, _) = Unit::first(&out).unwrap();
        assert_eq!((unit.exchange, unit.key, unit.body, unit.persistent), ("", "k1", &b"v"[..], true));
        let props = unit.properties().unwrap();
        assert_eq!((props.delivery_mode, props.timestamp), (Some(2), Some(12)));
        let headers = table::read(props.headers.unwrap()).unwrap();
        assert_eq!(headers[0].value, HeaderValue::Text("text".into()));
        assert_eq!(headers[1].value, HeaderValue::Bytes(Bytes::from_static(&[0xff])));
    }

    #[test]
    fn a_key_that_is_no_short_text_gives_an_empty_routing_key() {
        for key in [vec![b'a'; 256], vec![0xff]] {
            let mut out = Vec::new();
            let message = Message { key: Some(key.into()), ..Message::default() };
            FORMAT.build(&[(Offset(0), message)], &mut out).unwrap();
            assert_eq!(Unit::first(&out).unwrap().0.key, "");
        }
    }

    fn unit(exchange: &str, key: &str, props: &[u8], body: &[u8]) -> Vec<u8> {
        let mut builder = UnitBuilder::default();
        builder.begin(exchange, key);
        builder.props(props);
        builder.body(body);
        builder.finish(false, Wall(1_000));
        builder.bytes().to_vec()
    }

    #[test]
    fn the_routing_key_is_a_key_only_through_a_named_exchange() {
        let units = [unit("", "q", &[0, 0], b"1"), unit("logs", "a.b", &[0, 0], b"2")].concat();
        let all = open(&units);
        assert_eq!(all[0].0, Offset(5));
        assert_eq!((&all[0].1.key, &all[0].1.exchange), (&None, &None));
        assert_eq!(all[0].1.created, Some(Wall(1_000)));
        assert_eq!(all[1].0, Offset(6));
        assert_eq!(all[1].1.key.as_deref(), Some(&b"a.b"[..]));
        assert_eq!(all[1].1.exchange.as_deref(), Some("logs"));
        let mut borders = Vec::new();
        let visit = &mut |unit: UnitAt| {
            borders.push((unit.first.0, unit.at, unit.bytes));
            ControlFlow::Continue(())
        };
        FORMAT.split(&units, Offset(5), visit).unwrap();
        let first = unit("", "q", &[0, 0], b"1").len();
        assert_eq!(borders, [(5, 0, first), (6, first, units.len() - first)]);
    }

    #[test]
    fn a_message_that_went_through_the_neutral_form_is_told_the_same() {
        let mut props = Vec::new();
        let mut writer = PropsWriter::new(&mut props);
        writer.short(15, Some("text/plain"));
        writer.other(12, |out| out.push(1));
        writer.other(11, |out| out.push(7));
        writer.short(10, Some("corr"));
        writer.other(6, |out| out.extend_from_slice(&9u64.to_be_bytes()));
        writer.short(2, Some("cl"));
        let before = unit("", "q", &props, b"body");
        let mut after = Vec::new();
        FORMAT.build(&open(&before), &mut after).unwrap();
        let (before, after) = (Unit::first(&before).unwrap().0, Unit::first(&after).unwrap().0);
        assert_eq!((after.exchange, after.key, after.body), (before.exchange, before.key, before.body));
        assert_eq!(after.properties().unwrap(), before.properties().unwrap());
    }
}
