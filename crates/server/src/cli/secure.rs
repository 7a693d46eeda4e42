//! The command line's side of TLS: whom it trusts is a file, since nothing is taken from the system.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// What the authorities in `file` vouch for is trusted.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn trust(file: &Path) -> Result<Arc<ClientConfig>, String> {
    let bytes = std::fs::read(file).map_err(|why| why.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|why| format!("it is not PEM: {why}"))?;
        roots.add(certificate).map_err(|why| why.to_string())?;
    }
    if roots.is_empty() {
        return Err("there is no certificate in it ('-----BEGIN CERTIFICATE-----')".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|why| why.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Speaks TLS on `stream` with a server that must be `host`.
///
/// # Errors
/// When `host` is no name that a certificate could hold.
pub fn wrap(
    stream: TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}
