//! Consumer groups: members, generations, assignments, committed offsets.

mod api;
mod coordinator;
mod desk;
mod groups;
mod join;
mod ledger;
mod member;
mod offsets;
mod options;
mod presence;
mod rebalance;
mod state;
mod sync;
#[cfg(test)]
mod tests;
mod timers;
mod types;

pub(crate) use coordinator::Coordinator;
pub(crate) use groups::Groups;
pub(crate) use ledger::LedgerCursor;
pub use options::GroupOptions;
pub use types::*;
