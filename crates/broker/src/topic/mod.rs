//! Topics: making, removing, describing them, their settings.

mod api;
mod config;
mod make;
mod settings;
mod topics;
mod types;

pub(crate) use make::{NewTopicParts, random_id, topic_info};
pub(crate) use settings::{Compaction, LogSettings, Retention, Rolling};
pub(crate) use topics::Topics;
pub use types::*;
