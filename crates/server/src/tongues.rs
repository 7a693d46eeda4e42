//! The list of tongues. A new one is a crate and a line here.

use std::sync::Arc;

use broker::Tongue;
use console::counters::Counters;

use crate::config::{Opt, Settings};

/// All tongues, as the settings want them.
#[must_use]
pub fn all(_settings: &Settings, counters: &Arc<Counters>) -> Vec<Box<dyn Tongue>> {
    vec![Box::new(console::Console::new(Arc::clone(counters)))]
}

/// Their options.
#[must_use]
pub fn options() -> Vec<Opt> {
    Vec::new()
}
