//! The neutral core: append, fetch, groups, queues, routing, users. Tongues talk to it through [`Broker`], the driver
//! through [`Broker::end_turn`], [`Broker::next_event`] and [`Broker::next_job`].
//!
//! It knows nothing of any tongue, socket, thread or clock. Nothing in it waits: what must wait answers with an
//! [`Lsn`] to hold the reply back for, or comes later as an [`Event`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod access;
pub mod aside;
pub mod broker;
mod catalog;
pub mod connection;
mod core;
mod dead_letter;
pub mod delay;
pub mod dialect;
pub mod error;
pub mod event;
mod events;
pub mod group;
mod id_map;
mod ids;
pub mod job;
mod ledger;
#[cfg(test)]
mod ledger_tests;
pub mod names;
mod open;
pub mod partition;
mod pattern;
pub mod policy;
pub mod queue;
pub mod routing;
#[cfg(test)]
use crate as api; // the rig of the tests outside serves those inside too
pub mod secured;
#[cfg(test)]
#[allow(dead_code, clippy::unwrap_used, clippy::expect_used)] // the tests inside use a part of it
#[path = "../tests/it/shard/mod.rs"]
mod shard;
mod state;
mod timer;
pub mod tongue;
pub mod topic;
pub mod user;

pub use broker::{Broker, Options};
pub use dead_letter::redrive;
pub use error::BrokerError;
pub use event::{CallId, Event, Evicted, SessionId};
pub use id_map::IdMap;
pub use job::{Job, JobDone};
pub use secured::Secured;
pub use storage::{Chunk, FileRange, Lsn, Part, Progress, StorageError, StoredChunk, SyncPolicy};
pub use tongue::{Cx, Door, Input, OUTPUT_BYTES_MAX, OUTPUT_ROOM_BYTES, Outbox, Peer, Piece, Session, Tongue};
