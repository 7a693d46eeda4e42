//! Scenarios over a simulated disk and clock, in one thread, and their checkers: the real sessions, core and storage,
//! with raw clients of both tongues, broken by seed.
//!
//! A failure is a seed: the same seed gives the same run. Nothing here is part of the product.

pub mod client;
pub mod ledger;
pub mod random;
pub mod scenario;
pub mod world;
