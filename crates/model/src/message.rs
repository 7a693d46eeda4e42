//! The neutral message: the one hub between all formats. N formats convert to and from it; never to each other.

use bytes::Bytes;

use crate::{Name, Wall};

/// A message free of any tongue. A reader of another tongue than the writer's is given what this holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Message {
    /// The key by which order is kept: a record key, a routing key, a sharding key.
    pub key: Option<Bytes>,
    /// The body, untouched. `None` is a tombstone where logs are compacted by key.
    pub value: Option<Bytes>,
    /// When the writer made it.
    pub created: Option<Wall>,
    /// What the user attached, in order; names may repeat. What only one tongue understands comes along under that
    /// tongue's prefix.
    pub headers: Vec<Header>,
    /// Facts that several tongues share, by one neutral name each.
    pub facts: Facts,
    /// The exchange it was published to, if it came by one.
    pub exchange: Option<Name>,
}

/// One header.
#[derive(Clone, PartialEq, Debug)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: HeaderValue,
}

/// A header's value. Tongues that have only text or bytes are given the nearest of these.
#[derive(Clone, PartialEq, Debug)]
pub enum HeaderValue {
    /// Present without a value.
    Null,
    /// True or false.
    Bool(bool),
    /// Any whole number.
    Int(i64),
    /// A float.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes with no more meaning.
    Bytes(Bytes),
    /// A moment.
    Time(Wall),
    /// Several values.
    List(Vec<HeaderValue>),
    /// Named values, in order.
    Table(Vec<Header>),
}

/// Facts that several tongues share.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    /// The application's id of the message.
    pub message_id: Option<String>,
    /// Ties an answer to its question.
    pub correlation_id: Option<String>,
    /// Where an answer should go.
    pub reply_to: Option<String>,
    /// MIME type of the body.
    pub content_type: Option<String>,
    /// How the body is encoded.
    pub content_encoding: Option<String>,
    /// The application's kind of message.
    pub kind: Option<String>,
    /// A filter label.
    pub tag: Option<String>,
    /// 0 (least) to 255.
    pub priority: Option<u8>,
    /// Not to be delivered before.
    pub deliver_at: Option<Wall>,
    /// Lives this many milliseconds in each queue.
    pub time_to_live_ms: Option<u64>,
    /// Whether the writer asked for it to survive a restart.
    pub durable: Option<bool>,
    /// Who says to have written it.
    pub user_id: Option<String>,
    /// The application that wrote it.
    pub app_id: Option<String>,
}

impl HeaderValue {
    /// The value as text, for readers that have only text: numbers in decimal, times in milliseconds, bytes when they
    /// are UTF-8. `None` for lists, tables and other bytes.
    #[must_use]
    pub fn as_text(&self) -> Option<String> {
        match self {
            HeaderValue::Null => Some(String::new()),
            HeaderValue::Bool(value) => Some(value.to_string()),
            HeaderValue::Int(value) => Some(value.to_string()),
            HeaderValue::Float(value) => Some(value.to_string()),
            HeaderValue::Text(value) => Some(value.clone()),
            HeaderValue::Bytes(value) => std::str::from_utf8(value).ok().map(str::to_owned),
            HeaderValue::Time(value) => Some(value.0.to_string()),
            HeaderValue::List(_) | HeaderValue::Table(_) => None,
        }
    }
}
