//! How the users of a tongue declare, publish and read, for operators who do it by another door: over HTTP, or from a
//! file of definitions. The tongue whose words these are implements [`Dialect`]; whoever needs one asks
//! [`Broker::dialect`]. So no tongue imports another.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use model::{FormatTag, Header, HeaderValue, Name, Now};
use serde_json::Value;

use crate::queue::{Delivery, QueueKind};
use crate::routing::{BindingSpec, ExchangeSpec, Published};
use crate::{Broker, BrokerError, Lsn, SessionId};

/// Why something is refused, as the tongue's own users are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The tongue's code.
    pub code: u16,
    /// The code's name.
    pub name: &'static str,
    /// The sentence, without the code's name.
    pub text: String,
}

/// A queue to declare.
#[derive(Clone, Debug)]
pub struct QueueAsk {
    /// Who asks.
    pub session: SessionId,
    /// Whose it is to be.
    pub tenant: Name,
    /// Its name.
    pub name: Name,
    /// Survives a restart.
    pub durable: bool,
    /// Goes with its last consumer.
    pub auto_delete: bool,
    /// What is asked of it beyond that.
    pub arguments: Vec<Header>,
}

/// An exchange to declare.
#[derive(Clone, Debug)]
pub struct ExchangeAsk {
    /// Whose it is to be.
    pub tenant: Name,
    /// Its name.
    pub name: Name,
    /// Its kind, by the tongue's word.
    pub kind: String,
    /// Survives a restart.
    pub durable: bool,
    /// Goes with its last binding.
    pub auto_delete: bool,
    /// Not to be published to by clients.
    pub internal: bool,
    /// What is asked of it beyond that.
    pub arguments: Vec<Header>,
}

/// A message to publish.
#[derive(Clone, Copy, Debug)]
pub struct PublishAsk<'a> {
    /// Who publishes.
    pub user: &'a Name,
    /// May name other users as the message's.
    pub impersonates: bool,
    /// Whose exchange.
    pub tenant: &'a Name,
    /// The exchange.
    pub exchange: &'a str,
    /// The routing key.
    pub key: &'a str,
    /// Properties by the tongue's names.
    pub properties: &'a [Header],
    /// The body.
    pub body: &'a [u8],
}

/// A message as the tongue's users see it.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// The exchange it was published to.
    pub exchange: String,
    /// Its routing key.
    pub key: String,
    /// Those of its properties that are there, by the tongue's names.
    pub properties: Vec<Header>,
    /// Its body.
    pub body: Bytes,
}

/// What a tongue knows of declaring, publishing and reading.
pub trait Dialect: Send + Sync + Debug {
    /// Declares a queue: true when it was made now. One that is there must be as asked.
    ///
    /// # Errors
    /// What the tongue's users would be told.
    fn declare_queue(&self, broker: &mut Broker, ask: &QueueAsk, now: Now) -> Result<(bool, Lsn), Fault>;

    /// Whether a queue that is not there could be declared so.
    ///
    /// # Errors
    /// As above.
    fn check_queue(&self, broker: &Broker, ask: &QueueAsk) -> Result<(), Fault>;

    /// Whether an exchange that is not there could be declared so.
    ///
    /// # Errors
    /// As above.
    fn check_exchange(&self, ask: &ExchangeAsk) -> Result<(), Fault>;

    /// Declares an exchange, likewise.
    ///
    /// # Errors
    /// As above.
    fn declare_exchange(&self, broker: &mut Broker, ask: &ExchangeAsk) -> Result<(bool, Lsn), Fault>;

    /// Removes an exchange.
    ///
    /// # Errors
    /// As above.
    fn delete_exchange(&self, broker: &mut Broker, tenant: &Name, name: &str, if_unused: bool) -> Result<Lsn, Fault>;

    /// Binds; the arguments of `spec` are taken from `arguments`.
    ///
    /// # Errors
    /// As above.
    fn bind(
        &self,
        broker: &mut Broker,
        session: SessionId,
        spec: BindingSpec,
        arguments: &[Header],
    ) -> Result<Lsn, Fault>;

    /// Publishes a message. Nobody is told when it is on disk.
    ///
    /// # Errors
    /// As above.
    fn publish(&self, broker: &mut Broker, ask: &PublishAsk<'_>, now: Now) -> Result<Published, Fault>;

    /// In which format [`Dialect::show`] wants stored units.
    fn format(&self) -> FormatTag;

    /// Reads a message.
    ///
    /// # Errors
    /// When it is damaged.
    fn show(&self, delivery: &Delivery) -> Result<Shown, Fault>;

    /// The tongue's word for a kind of queue.
    fn queue_kind(&self, kind: QueueKind) -> &'static str;

    /// The tongue's word for a kind of exchange.
    fn exchange_kind(&self, spec: &ExchangeSpec) -> &'static str;

    /// What the tongue's users would be told of an error about a `kind` of thing in `tenant`.
    fn fault(&self, error: &BrokerError, kind: &str, tenant: &str) -> Fault;
}

impl Broker {
    /// The dialect in which operators declare, if one of the tongues has any.
    #[must_use]
    pub fn dialect(&self) -> Option<Arc<dyn Dialect>> {
        self.dialect.clone()
    }
}

/// How deep tables and lists may be nested. The catalog keeps them as JSON, whose reader takes no more than 128 levels:
/// what is nested deeper would be stored and never read again.
const DEPTH_MAX: usize = 31;

/// A value is nested deeper than can be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("tables and lists nested deeper than {DEPTH_MAX}")]
pub struct TooDeep;

/// Named JSON values as headers, in the order of their names. Of numbers, those that are whole become whole.
///
/// # Errors
/// [`TooDeep`].
pub fn headers_of(values: &serde_json::Map<String, Value>) -> Result<Vec<Header>, TooDeep> {
    table_of(values, DEPTH_MAX)
}

fn table_of(values: &serde_json::Map<String, Value>, depth: usize) -> Result<Vec<Header>, TooDeep> {
    values.iter().map(|(name, value)| Ok(Header { name: name.clone(), value: value_of(value, depth)? })).collect()
}

/// A JSON value as a header's, in which values may be nested `depth` times more.
fn value_of(value: &Value, depth: usize) -> Result<HeaderValue, TooDeep> {
    Ok(match value {
        Value::Null => HeaderValue::Null,
        Value::Bool(value) => HeaderValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => HeaderValue::Int(whole),
            None => HeaderValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => HeaderValue::Text(text.clone()),
        Value::Array(values) => {
            let depth = depth.checked_sub(1).ok_or(TooDeep)?;
            HeaderValue::List(values.iter().map(|value| value_of(value, depth)).collect::<Result<_, _>>()?)
        }
        Value::Object(values) => HeaderValue::Table(table_of(values, depth.checked_sub(1).ok_or(TooDeep)?)?),
    })
}

/// Headers as JSON. Bytes become text as far as they are.
#[must_use]
pub fn json_of(headers: &[Header]) -> Value {
    Value::Object(headers.iter().map(|header| (header.name.clone(), json_of_value(&header.value))).collect())
}

fn json_of_value(value: &HeaderValue) -> Value {
    match value {
        HeaderValue::Null => Value::Null,
        HeaderValue::Bool(value) => Value::from(*value),
        HeaderValue::Int(value) => Value::from(*value),
        HeaderValue::Float(value) => Value::from(*value),
        HeaderValue::Text(text) => Value::from(text.as_str()),
        HeaderValue::Bytes(bytes) => Value::from(String::from_utf8_lossy(bytes)),
        HeaderValue::Time(time) => Value::from(time.0.div_euclid(1000)),
        HeaderValue::List(values) => values.iter().map(json_of_value).collect(),
        HeaderValue::Table(headers) => json_of(headers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_becomes_headers_and_json_again() {
        let json = serde_json::json!({ "a": 1, "b": [1.5, "x", null], "c": { "d": true } });
        let headers = headers_of(json.as_object().unwrap()).unwrap();
        assert_eq!(headers[0].value, HeaderValue::Int(1));
        assert_eq!(json_of(&headers), json);
    }

    #[test]
    fn what_is_nested_too_deep_to_be_kept_is_refused() {
        let nested = |depth: usize| (0..depth).fold(Value::from(1), |value, _| serde_json::json!({ "a": [value] }));
        assert!(headers_of(nested(15).as_object().unwrap()).is_ok());
        assert_eq!(headers_of(nested(17).as_object().unwrap()), Err(TooDeep));
    }
}
