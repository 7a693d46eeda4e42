//! Users: credentials, logins.

mod api;
mod types;

pub use types::*;
