//! HTTP: the admin API and `/metrics`, a tongue like the others. It writes and reads no messages.
//!
//! It knows no socket: `server` drives its sessions and keeps the [`counters::Counters`] it shows.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod counters;
