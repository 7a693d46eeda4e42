//! Policies: options that queues and exchanges have by their names, beside those they were declared with.

mod api;
mod apply;
mod effective;
mod policies;
mod types;

pub(crate) use apply::Governing;
pub use effective::merged;
pub(crate) use effective::{Declared, effective};
pub(crate) use policies::Policies;
pub use types::*;
