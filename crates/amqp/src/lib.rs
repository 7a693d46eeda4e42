//! The AMQP 0-9-1 tongue, as RabbitMQ speaks it. `session.rs` is the connection's state machine; `handshake.rs` leads
//! to an open connection; `channel/` is what a channel remembers; `api/` has one file per class of methods; `wire/`
//! is the bytes; `unit.rs` and `format.rs` are how messages are stored and told to other tongues; `errors.rs` is the
//! one table of refusals.
//!
//! What is not served yet is refused by name, never faked: see `errors::Refusal::not_served` and its callers.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod config;
pub mod errors;
pub mod format;
pub mod unit;
pub mod wire;

use std::sync::Arc;

use broker::Door;

pub use config::Config;
pub use format::AmqpFormat;
