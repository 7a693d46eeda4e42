//! Topics: making, removing, describing them, their settings.

mod api;
mod types;

pub use types::*;
