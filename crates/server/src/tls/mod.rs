//! What doors that speak TLS need beside the driver: options, certificates, and getting new ones without a restart.
//! The bytes of connections are the driver's (`driver/tls.rs`). It knows no protocol above TLS.

mod certificate;
mod identity;
mod keeper;
mod options;

pub use certificate::{certificate, distinguished_name};
pub use identity::{Identity, TlsError};
pub use keeper::Keeper;
pub use options::{ClientAuth, TlsSettings, options};
