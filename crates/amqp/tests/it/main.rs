//! What a client meets on the wire, against a broker on the simulated disk: raw frames in, raw frames out.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod arguments;
mod blocked;
mod connections;
mod delays;
mod exchanges;
mod external;
mod foreign;
mod frames;
mod messages;
mod queue_model;
mod queues;
mod random;
mod replies;
mod rig;
mod transactions;
mod vhosts;
