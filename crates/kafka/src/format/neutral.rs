//! Between records and the neutral message: headers both ways, and the facts that other tongues keep apart from
//! headers.
//!
//! Reading, a header that bears a fact's name sets the fact and stays a header, so that nothing is lost for either kind
//! of reader. Writing, a fact becomes a header unless the message has one of that name.

use bytes::Bytes;
use model::{Facts, Header, HeaderValue, Message, Wall};

use super::records::Record;

/// Headers under which facts travel.
mod names {
    pub const MESSAGE_ID: &str = "message-id";
    pub const CORRELATION_ID: &str = "correlation-id";
    pub const REPLY_TO: &str = "reply-to";
    pub const CONTENT_TYPE: &str = "content-type";
    pub const CONTENT_ENCODING: &str = "content-encoding";
    pub const KIND: &str = "type";
    pub const TAG: &str = "tag";
    pub const PRIORITY: &str = "priority";
    pub const DELIVER_AT: &str = "deliver-at";
    pub const TIME_TO_LIVE: &str = "time-to-live";
    pub const USER_ID: &str = "user-id";
    pub const APP_ID: &str = "app-id";
    pub const EXCHANGE: &str = "amqp.exchange";
}

/// The neutral form of a record made at `time` (−1: no time).
pub(crate) fn message_of(record: Record, time: i64) -> Message {
    let mut facts = Facts::default();
    let mut headers = Vec::with_capacity(record.headers.len());
    for (name, value) in record.headers {
        if let Some(text) = value.as_deref().and_then(|value| std::str::from_utf8(value).ok()) {
            set_fact(&mut facts, &name, text);
        }
        headers.push(Header { name, value: value.map_or(HeaderValue::Null, HeaderValue::Bytes) });
    }
    Message {
        key: record.key,
        value: record.value,
        created: (time >= 0).then_some(Wall(time)),
        headers,
        facts,
        exchange: None,
    }
}

fn set_fact(facts: &mut Facts, name: &str, text: &str) {
    let place = match name {
        names::MESSAGE_ID => &mut facts.message_id,
        names::CORRELATION_ID => &mut facts.correlation_id,
        names::REPLY_TO => &mut facts.reply_to,
        names::CONTENT_TYPE => &mut facts.content_type,
        names::CONTENT_ENCODING => &mut facts.content_encoding,
        names::KIND => &mut facts.kind,
        names::TAG => &mut facts.tag,
        names::USER_ID => &mut facts.user_id,
        names::APP_ID => &mut facts.app_id,
        names::PRIORITY => {
            facts.priority = text.parse().ok();
            return;
        }
        _ => return,
    };
    *place = Some(text.to_owned());
}

/// The record headers of a neutral message.
pub(crate) fn headers_of(message: &Message) -> Vec<(String, Option<Bytes>)> {
    let mut headers: Vec<(String, Option<Bytes>)> =
        message.headers.iter().map(|header| (header.name.clone(), bytes_of(&header.value))).collect();
    let facts = &message.facts;
    let texts = [
        (names::MESSAGE_ID, &facts.message_id),
        (names::CORRELATION_ID, &facts.correlation_id),
        (names::REPLY_TO, &facts.reply_to),
        (names::CONTENT_TYPE, &facts.content_type),
        (names::CONTENT_ENCODING, &facts.content_encoding),
        (names::KIND, &facts.kind),
        (names::TAG, &facts.tag),
        (names::USER_ID, &facts.user_id),
        (names::APP_ID, &facts.app_id),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            add(&mut headers, name, value.clone());
        }
    }
    if let Some(priority) = facts.priority {
        add(&mut headers, names::PRIORITY, priority.to_string());
    }
    if let Some(at) = facts.deliver_at {
        add(&mut headers, names::DELIVER_AT, at.0.to_string());
    }
    if let Some(ms) = facts.time_to_live_ms {
        add(&mut headers, names::TIME_TO_LIVE, ms.to_string());
    }
    if let Some(exchange) = &message.exchange {
        add(&mut headers, names::EXCHANGE, exchange.to_string());
    }
    headers
}

fn add(headers: &mut Vec<(String, Option<Bytes>)>, name: &str, value: String) {
    if !headers.iter().any(|(present, _)| present == name) {
        headers.push((name.to_owned(), Some(Bytes::from(value))));
    }
}

fn bytes_of(value: &HeaderValue) -> Option<Bytes> {
    match value {
        HeaderValue::Null => None,
        HeaderValue::Bytes(bytes) => Some(bytes.clone()),
        other => {
            let mut text = String::new();
            write_text(other, &mut text, true);
            Some(Bytes::from(text))
        }
    }
}

/// Plain text for one value; lists and tables as JSON, the nearest thing that readers of text know.
fn write_text(value: &HeaderValue, out: &mut String, outermost: bool) {
    match value {
        HeaderValue::List(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(value, out, false);
            }
            out.push(']');
        }
        HeaderValue::Table(fields) => {
            out.push('{');
            for (at, field) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_quoted(&field.name, out);
                out.push(':');
                write_text(&field.value, out, false);
            }
            out.push('}');
        }
        HeaderValue::Null if !outermost => out.push_str("null"),
        HeaderValue::Text(text) if !outermost => write_quoted(text, out),
        HeaderValue::Bytes(bytes) if !outermost => write_quoted(&String::from_utf8_lossy(bytes), out),
        plain => out.push_str(&plain.as_text().unwrap_or_default()),
    }
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            control if control.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}
