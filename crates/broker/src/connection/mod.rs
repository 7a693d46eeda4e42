//! Who is connected, with which channels and consumers: what operators look at and what limits count. Sessions say what
//! they are; nothing here decides what they may do.

mod api;
mod registry;
mod types;

pub use registry::Connection;
pub(crate) use registry::Connections;
pub use types::*;
