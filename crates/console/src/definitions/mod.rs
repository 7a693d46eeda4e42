//! Definitions: all that exists, as RabbitMQ exports and imports it. Writing it, reading it, and what came of reading.
//!
//! It knows no HTTP: `management` and `api` hand it a body and send what it says.

mod export;
mod import;
mod importing;
mod objects;
mod policies;
pub mod policy;
mod report;
pub mod users;

pub use export::{all, of_tenant};
pub use importing::{File, Importing, Scope};
pub use policies::parameters;
