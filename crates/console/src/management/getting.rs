//! Messages got one after the other: what lies on disk has to be waited for, and all are settled at the end.

use std::sync::Arc;

use broker::dialect::{Dialect, Shown};
use broker::queue::{Delivery, DeliveryKey, Got, Settle};
use broker::{Broker, CallId, Lsn, SessionId};
use model::{Name, Now};
use serde_json::{Value, json};

use super::properties;
use crate::auth;
use crate::http::Response;
use crate::refusal::Refusal;
use crate::work::{Step, Work};

/// Bytes of bodies in one answer: when there are more it ends early.
const BODIES_BYTES_MAX: usize = 32 << 20;

/// Messages got in one turn.
const GETS_A_TURN: u64 = 256;

/// What an item takes beside its body, about.
const ITEM_BYTES: usize = 1024;

/// How bodies are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// As text where they are, else in base64.
    Auto,
    /// In base64.
    Base64,
}

/// A request for messages under way.
#[derive(Debug)]
pub struct Getting {
    tenant: Name,
    queue: Name,
    left: u64,
    how: Settle,
    encoding: Encoding,
    truncate: Option<usize>,
    dialect: Arc<dyn Dialect>,
    keys: Vec<DeliveryKey>,
    items: Vec<Value>,
    bytes: usize,
}

impl Getting {
    /// Nothing is got yet.
    pub fn begin(
        (tenant, queue): (Name, Name),
        (left, how): (u64, Settle),
        (encoding, truncate): (Encoding, Option<usize>),
        dialect: Arc<dyn Dialect>,
    ) -> Getting {
        let (keys, items) = (Vec::new(), Vec::new());
        Getting { tenant, queue, left, how, encoding, truncate, dialect, keys, items, bytes: 0 }
    }
}

impl Work for Getting {
    /// Gets on, until there is no more to get. What was got goes back when the core refuses more.
    fn step(&mut self, broker: &mut Broker, (session, call): (SessionId, CallId), _now: Now) -> Result<Step, Refusal> {
        let mut gets = 0;
        while self.left > 0 && self.bytes < BODIES_BYTES_MAX && gets < GETS_A_TURN {
            gets += 1;
            let got = broker.get(session, call, &self.tenant, &self.queue, false, self.dialect.format());
            match got {
                Ok(Got::Message(delivery, ready)) => {
                    self.left -= 1;
                    self.keys.push(delivery.key);
                    self.take(&delivery, ready);
                }
                Ok(Got::Empty) => break,
                Ok(Got::Pending) => return Ok(Step::Waits),
                Err(error) => {
                    broker.settle(session, &self.keys, Settle::Requeue);
                    return Err(self.dialect.fault(&error, "queue", &self.tenant).into());
                }
            }
        }
        broker.settle(session, &self.keys, self.how);
        let items = Value::Array(std::mem::take(&mut self.items));
        Ok(Step::Done(Response::json(200, &items), Lsn::default()))
    }

    fn memory_bytes(&self) -> usize {
        self.bytes + self.items.capacity() * ITEM_BYTES
    }
}

impl Getting {
    fn take(&mut self, delivery: &Delivery, ready: u64) {
        let shown = self.dialect.show(delivery).unwrap_or_else(|fault| {
            tracing::error!(why = fault.text, "a stored message cannot be read");
            let (exchange, key) = (String::new(), String::new());
            Shown { exchange, key, properties: Vec::new(), body: bytes::Bytes::new() }
        });
        let whole = &shown.body[..];
        let body = self.truncate.and_then(|bytes| whole.get(..bytes)).unwrap_or(whole);
        self.bytes += body.len();
        let (payload, encoding) = match std::str::from_utf8(body) {
            Ok(text) if self.encoding == Encoding::Auto => (text.to_owned(), "string"),
            _ => (auth::base64_of(body), "base64"),
        };
        self.items.push(json!({
            "payload_bytes": whole.len(),
            "redelivered": delivery.redelivered,
            "exchange": shown.exchange,
            "routing_key": shown.key,
            "message_count": ready,
            "properties": properties::shown(&shown.properties),
            "payload": payload,
            "payload_encoding": encoding,
        }));
    }
}
