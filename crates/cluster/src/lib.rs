//! The catalog: what exists, by name. [`meta`] is a pure state machine: commands in, a new state out. It does no I/O,
//! reads no clock, draws no ids: whoever proposes a command has put into it all that must be the same everywhere.
//!
//! Later this crate gets replication; then the commands of `meta` travel through it.

pub mod meta;

pub use meta::{Catalog, Command, MetaError};
