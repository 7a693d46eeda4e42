//! The Kafka tongue: wire, sessions, format and the bytes of `__consumer_offsets`.
//!
//! Sans-IO: sessions are handed bytes and events and answer with bytes. What clients may ask is in [`api`], one file a
//! request, versions beside the code; what a code means is in `errors.rs`; nothing else here knows the broker.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod api;
mod call;
mod config;
mod errors;
mod format;
mod ledger;
mod pending;
mod presence;
mod session;
mod silence;
mod wire;

use std::sync::Arc;

use broker::group::LedgerCodec;
use broker::{Door, Peer, Session, Tongue};
use model::Format;

pub use api::fuzz_request;
pub use config::Settings;
pub use errors::ErrorCode;
pub use format::{RecordFormat, TAG, fuzz_batch, look_into};
pub use ledger::OffsetsCodec;

/// The door of clients with `security.protocol=SSL`.
const SSL_DOOR: &str = "kafka-ssl";

/// Kafka clients' way in.
#[derive(Debug, Default)]
pub struct KafkaTongue {
    settings: Arc<Settings>,
    /// The same for clients that came through TLS: they are told another address.
    ssl: Arc<Settings>,
}

impl KafkaTongue {
    /// The tongue with `settings` for all its sessions.
    #[must_use]
    pub fn new(settings: Settings) -> KafkaTongue {
        let ssl = Settings { advertised: settings.advertised_ssl.clone(), ..settings.clone() };
        KafkaTongue { settings: Arc::new(settings), ssl: Arc::new(ssl) }
    }
}

impl Tongue for KafkaTongue {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn doors(&self) -> Vec<Door> {
        vec![
            Door {
                name: "kafka",
                port: 9092,
                try_it: "echo hello | kcat -P -b {addr} -t demo && kcat -C -b {addr} -t demo -e",
                tls: false,
            },
            Door {
                name: SSL_DOOR,
                port: 9093,
                try_it: "kcat -L -b {addr} -X security.protocol=ssl -X ssl.ca.location=CA.pem",
                tls: true,
            },
        ]
    }

    fn format(&self) -> Option<Box<dyn Format>> {
        Some(Box::new(RecordFormat))
    }

    fn ledger(&self) -> Option<Box<dyn LedgerCodec>> {
        Some(Box::new(OffsetsCodec))
    }

    fn session(&self, door: &'static str, peer: Peer) -> Box<dyn Session> {
        let settings = if door == SSL_DOOR { &self.ssl } else { &self.settings };
        Box::new(session::KafkaSession::new(peer, Arc::clone(settings)))
    }
}
