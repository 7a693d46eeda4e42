//! Consumer groups: members, generations, assignments, committed offsets.

mod api;
mod coordinator;
mod types;

pub(crate) use coordinator::Coordinator;
pub use types::*;
