//! The AMQP 0-9-1 tongue, as RabbitMQ speaks it. `session.rs` is the connection's state machine and `running.rs` what
//! frames mean once it is open; `handshake.rs` leads there; `channel/` is what a channel remembers; `api/` has one file
//! per class of methods; `wire/` is the bytes; `unit.rs` and `format.rs` are how messages are stored and told to other
//! tongues; `errors.rs` is the one table of refusals.
//!
//! What is not served yet is refused by name, never faked: see [`errors::Refusal::not_served`] and its callers.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod api;
pub mod channel;
pub mod channels;
pub mod config;
pub mod conn;
mod deaths;
mod dialect;
pub mod errors;
mod external;
pub mod format;
pub mod fuzz;
pub mod handshake;
pub mod heartbeat;
pub mod presence;
mod running;
pub mod session;
pub mod unit;
pub mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::routing::{ExchangeKind, ExchangeSpec};
use broker::{Door, Peer, Session, Tongue};
use model::{Format, Name};

pub use config::Config;
pub use external::{CertificateLogin, LoginFrom, NameKind};
pub use format::AmqpFormat;
pub use fuzz::{fuzz_connection, fuzz_table, fuzz_unit};
pub use session::AmqpSession;

/// The tongue.
#[derive(Clone, Debug, Default)]
pub struct Amqp {
    config: Arc<Config>,
}

impl Amqp {
    /// With limits of one's own.
    #[must_use]
    pub fn new(config: Config) -> Amqp {
        Amqp { config: Arc::new(config.bounded()) }
    }
}

impl Tongue for Amqp {
    fn name(&self) -> &'static str {
        "amqp"
    }

    fn doors(&self) -> Vec<Door> {
        vec![
            Door {
                name: "amqp",
                port: 5672,
                try_it: "amqp-declare-queue -u amqp://{addr} -q hello && \
                         amqp-publish -u amqp://{addr} -r hello -b world",
                tls: false,
            },
            Door {
                name: "amqps",
                port: 5671,
                try_it: "amqp-declare-queue -u amqps://{addr} --cacert CA.pem -q hello",
                tls: true,
            },
        ]
    }

    fn format(&self) -> Option<Box<dyn Format>> {
        Some(Box::new(AmqpFormat))
    }

    fn exchanges(&self) -> Vec<ExchangeSpec> {
        use ExchangeKind::{Direct, Fanout, Headers, Topic};
        let all = [
            ("amq.direct", Direct, false),
            ("amq.fanout", Fanout, false),
            ("amq.headers", Headers, false),
            ("amq.match", Headers, false),
            ("amq.rabbitmq.trace", Topic, true),
            ("amq.topic", Topic, false),
        ];
        all.map(|(name, kind, internal)| ExchangeSpec {
            tenant: Name::fixed(broker::access::DEFAULT_TENANT),
            name: Name::fixed(name),
            kind,
            durable: true,
            auto_delete: false,
            internal,
            alternate: None,
            delayed: false,
            number: 0,
            arguments: BTreeMap::new(),
        })
        .into()
    }

    fn dialect(&self) -> Option<Arc<dyn broker::dialect::Dialect>> {
        Some(Arc::new(dialect::AmqpDialect))
    }

    fn session(&self, _door: &'static str, peer: Peer) -> Box<dyn Session> {
        Box::new(AmqpSession::new(self.config.clone(), peer))
    }
}
