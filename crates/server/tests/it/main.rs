//! The binary and its driver, from outside: doors, the command line, TLS.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod child;
mod cli;
mod debug;
mod definitions;
mod driver;
mod fifth_tongue;
mod idle;
mod rig;
mod serve;
mod tls;
