//! The list of tongues and their options. A new one is a crate and a line here.

use std::sync::Arc;

use broker::Tongue;
use console::counters::Counters;

use crate::config::options::option;
use crate::config::values::{bytes, bytes_text, count};
use crate::config::{Kind, Opt, Settings};

/// All tongues, as the settings want them.
#[must_use]
pub fn all(settings: &Settings, counters: &Arc<Counters>) -> Vec<Box<dyn Tongue>> {
    vec![Box::new(amqp::Amqp::new(settings.amqp.clone())), Box::new(console::Console::new(Arc::clone(counters)))]
}

/// Their options.
#[must_use]
pub fn options() -> Vec<Opt> {
    amqp_options()
}

fn amqp_options() -> Vec<Opt> {
    let d = amqp::Config::default();
    vec![
        option(
            "amqp.frame_bytes_max",
            Kind::Bytes,
            bytes_text(d.frame_bytes_max.into()),
            "The largest frame offered to clients (frame_max); they may lower it.",
            |s, v| {
                s.amqp.frame_bytes_max = bytes(v, 4096, 128 << 20)? as u32;
                Ok(())
            },
        ),
        option(
            "amqp.channel_count_max",
            Kind::Count,
            d.channel_count_max.to_string(),
            "The most channels open at once on one connection (channel_max).",
            |s, v| {
                s.amqp.channel_count_max = count(v, 1, 65_535)? as u16;
                Ok(())
            },
        ),
        option(
            "amqp.heartbeat_seconds",
            Kind::Count,
            d.heartbeat_seconds.to_string(),
            "The heartbeat proposed to clients, in seconds; theirs rules. 0: none.",
            |s, v| {
                s.amqp.heartbeat_seconds = count(v, 0, 65_535)? as u16;
                Ok(())
            },
        ),
        option(
            "amqp.message_bytes_max",
            Kind::Bytes,
            bytes_text(d.message_bytes_max),
            "The largest message body.",
            |s, v| {
                s.amqp.message_bytes_max = bytes(v, 1, 128 << 20)?;
                Ok(())
            },
        ),
    ]
}
