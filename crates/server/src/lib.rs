//! The server as a library: the driver, the configuration, the command line. The binary `fourfold` only calls
//! [`cli::main`]; tests run a [`driver::Driver`] with tongues of their own.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod clock;
pub mod driver;
