//! Consumer groups: members, generations, assignments, committed offsets.

mod api;
mod types;

pub use types::*;
