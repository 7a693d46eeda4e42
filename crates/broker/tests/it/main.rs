//! The broker by its own calls, on the simulated disk.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use broker as api; // `shard` serves the tests inside the crate too, where it is `crate`

mod access;
mod aside;
mod byte_limits;
mod delays;
mod feeds;
mod groups;
mod model;
mod partitions;
mod policies;
mod queues;
mod redrive;
mod retention;
mod rig;
mod routing;
mod rules;
mod shard;
mod storm;
mod streams;
mod topics;
