//! Access: tenants, permissions, and whether somebody may do something. One model for every tongue: a principal, a
//! tenant, a resource in it, an operation.
//!
//! What is granted is in the catalog; [`grants`] is that, compiled. Sessions ask through a [`Pass`], which remembers
//! what they were allowed, so that nothing is matched for every message.

mod api;
mod grants;
mod pass;
mod pattern;
mod tenants;
mod types;

pub(crate) use grants::Grants;
pub use pass::Pass;
pub use types::*;
