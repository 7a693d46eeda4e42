//! The management API as RabbitMQ's tools call it: a table of rows like `api/`, a file for each noun. What is where and
//! what differs from the original is in docs/management.md. Texts and codes of refusals are those of the original.
//!
//! Long lists are not made at once: see [`listing`].

mod bindings;
mod call;
mod channels;
mod connections;
mod consumers;
mod definitions;
mod exchanges;
mod getting;
mod health;
mod limits;
pub mod listing;
mod messages;
mod nodes;
mod overview;
mod permissions;
mod policies;
mod prometheus;
mod properties;
mod query;
mod queue_json;
mod queues;
mod rates;
mod routes;
mod scraping;
mod stats;
mod users;
mod vhosts;

pub use call::{Asker, Call, missing};
pub use prometheus::{Detail, scrape};
pub use query::Query;
pub use rates::Sampler;
pub use routes::{Found, find, serves};
pub use scraping::Ours;
