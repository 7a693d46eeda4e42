//! HTTP: the admin API and `/metrics`, a tongue like the others. It writes and reads no messages.
//!
//! It knows no socket: `server` drives its sessions and keeps the [`counters::Counters`] it shows.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod api;
mod auth;
pub mod counters;
mod definitions;
mod http;
mod limits;
pub mod machine;
mod management;
mod metrics;
mod refusal;
mod session;
mod work;

use std::sync::{Arc, Mutex};

use broker::{Door, Peer, Session, Tongue};
use counters::Counters;

/// The HTTP tongue.
#[derive(Debug)]
pub struct Console {
    counters: Arc<Counters>,
    sampler: Arc<Mutex<management::Sampler>>,
}

impl Console {
    /// A console that shows these counts.
    #[must_use]
    pub fn new(counters: Arc<Counters>) -> Console {
        Console { counters, sampler: Arc::default() }
    }
}

impl Tongue for Console {
    fn name(&self) -> &'static str {
        "http"
    }

    fn doors(&self) -> Vec<Door> {
        let (plain, secure) = ("curl http://{addr}/api/v1/health", "curl --cacert CA.pem https://{addr}/api/v1/health");
        vec![
            Door { name: "http", port: 15672, try_it: plain, tls: false },
            Door { name: "https", port: 15671, try_it: secure, tls: true },
        ]
    }

    fn session(&self, _door: &'static str, peer: Peer) -> Box<dyn Session> {
        Box::new(session::HttpSession::new(peer, Arc::clone(&self.counters), Arc::clone(&self.sampler)))
    }
}
