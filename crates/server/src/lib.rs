//! The server as a library: the driver, the configuration, the command line. The binary `fourfold` only calls
//! [`cli::main`]; tests run a [`driver::Driver`] with tongues of their own.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod cli;
pub mod clock;
pub mod config;
pub mod driver;
mod look;
pub mod machine;
pub mod serve;
pub mod tls;
pub mod tongues;

/// A fresh folder for a test, under the system's folder for such.
#[cfg(test)]
pub(crate) fn test_folder(name: &str) -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("fourfold-{name}-{}-{count}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
