//! Topics: making, removing, describing them, their settings.

mod api;
mod config;
mod make;
mod topics;
mod types;

pub(crate) use config::batch_bytes_max;
pub(crate) use make::{random_id, topic_info};
pub(crate) use topics::Topics;
pub use types::*;
