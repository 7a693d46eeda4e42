//! From PEM files to what a TLS door shows and asks for. Everything is checked when it is read: a server that starts
//! can also answer.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use broker::secured::Certificate;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::certificate;
use super::options::{ClientAuth, TlsSettings};

/// No file of these is larger.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// So long before a certificate ends it is said.
const SOON: Duration = Duration::from_secs(30 * 86_400);

/// Why TLS cannot be used as it is set.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// An option is missing.
    #[error("{needs} needs {option}: give it with --{flag} FILE")]
    Missing {
        /// What needs it.
        needs: &'static str,
        /// What is missing.
        option: &'static str,
        /// Its flag.
        flag: &'static str,
    },
    /// An option would have no effect.
    #[error("{option} has no effect while tls.client_auth is 'none': set that to 'optional' or 'required'")]
    NoEffect {
        /// The option.
        option: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {option} = {}: {why}", file.display())]
    Unreadable {
        /// The option.
        option: &'static str,
        /// The file.
        file: PathBuf,
        /// The operating system's word.
        why: io::Error,
    },
    /// A file holds something else.
    #[error("{option} = {}: {why}", file.display())]
    Content {
        /// The option.
        option: &'static str,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// What TLS doors use until the files change.
#[derive(Debug)]
pub struct Identity {
    /// For the driver.
    pub config: Arc<ServerConfig>,
    /// What the server's own certificate says.
    pub certificate: Certificate,
}

impl Identity {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// [`TlsError`], naming the option.
    pub fn load(settings: &TlsSettings) -> Result<Identity, TlsError> {
        let missing = |needs, option, flag| TlsError::Missing { needs, option, flag };
        let cert = settings.cert.as_deref().ok_or_else(|| missing("a TLS door", "tls.cert", "tls-cert"))?;
        let key = settings.key.as_deref().ok_or_else(|| missing("tls.cert", "tls.key", "tls-key"))?;
        let provider = Arc::new(ring::default_provider());
        let chain = read_certificates("tls.cert", cert)?;
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions(settings))
            .map_err(|why| content("tls.min_version", cert, &why))?
            .with_client_cert_verifier(verifier(settings, &provider)?);
        let first = chain.first().and_then(|der| certificate(der));
        let first = first.ok_or_else(|| content("tls.cert", cert, &"its first certificate cannot be read"))?;
        let read = read_key(key)?;
        let mut config = config.with_single_cert(chain, read).map_err(|why| match why {
            rustls::Error::InconsistentKeys(_) => {
                let why = format!("it is not the key of the certificate in {} (tls.cert)", cert.display());
                content("tls.key", key, &why)
            }
            why => content("tls.key", key, &format!("it cannot be used: {why}")),
        })?;
        if settings.client_auth == ClientAuth::None {
            // Clients that come again save us the signature.
            config.ticketer = ring::Ticketer::new().map_err(|why| content("tls.key", key, &why))?;
        } else {
            // A resumed connection would not show its certificate again, though that may have ended or been revoked.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Identity { config: Arc::new(config), certificate: first })
    }

    /// When it ends, for people.
    #[must_use]
    pub fn until(&self) -> &str {
        self.certificate.validity.split_once(" - ").map_or("", |(_, until)| until)
    }

    /// The same in seconds since 1970.
    #[must_use]
    pub fn ends(&self) -> u64 {
        self.certificate.not_after.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |ends| ends.as_secs())
    }

    /// What is to be said about the dates of the certificate at `now`, if anything.
    #[must_use]
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        let (subject, until) = (&self.certificate.subject, self.until());
        if self.certificate.not_after < now {
            return Some(format!("the TLS certificate of {subject} has ended ({until}): clients will refuse it"));
        }
        if self.certificate.not_before > now {
            return Some(format!("the TLS certificate of {subject} is not valid yet: clients will refuse it"));
        }
        let left = self.certificate.not_after.duration_since(now).unwrap_or_default();
        let days = left.as_secs() / 86_400;
        (left < SOON).then(|| format!("the TLS certificate of {subject} ends in {days} days ({until})"))
    }
}

fn content(option: &'static str, file: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::Content { option, file: file.to_owned(), why: why.to_string() }
}

fn versions(settings: &TlsSettings) -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];
    if settings.takes_tls_1_2 { &ALL } else { &ALL[..1] }
}

fn read(option: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |why| TlsError::Unreadable { option, file: file.to_owned(), why };
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(unreadable)?;
    opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn read_certificates(option: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(option, file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|why| content(option, file, &format!("it is not PEM: {why}")))?;
    if all.is_empty() {
        return Err(content(option, file, &"there is no certificate in it ('-----BEGIN CERTIFICATE-----')"));
    }
    Ok(all)
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read("tls.key", file)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        let encrypted = bytes.windows(9).any(|window| window == b"ENCRYPTED");
        let why = match encrypted {
            true => "the key in it is encrypted; write one without a password ('openssl pkey -in OLD -out NEW')",
            false => "there is no private key in it ('-----BEGIN PRIVATE KEY-----')",
        };
        content("tls.key", file, &why)
    })
}

fn verifier(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let files = [("tls.client_ca", &settings.client_ca), ("tls.client_crl", &settings.client_crl)];
    if settings.client_auth == ClientAuth::None {
        return match files.into_iter().find(|(_, file)| file.is_some()) {
            Some((option, _)) => Err(TlsError::NoEffect { option }),
            None => Ok(WebPkiClientVerifier::no_client_auth()),
        };
    }
    let needs = "tls.client_auth other than 'none'";
    let missing = TlsError::Missing { needs, option: "tls.client_ca", flag: "tls-client-ca" };
    let file = settings.client_ca.as_deref().ok_or(missing)?;
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates("tls.client_ca", file)? {
        roots.add(certificate).map_err(|why| content("tls.client_ca", file, &why))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if let Some(file) = &settings.client_crl {
        // Of an authority without a list nothing is known to be taken back.
        builder =
            builder.with_crls(read_lists(file)?).only_check_end_entity_revocation().allow_unknown_revocation_status();
    }
    if settings.client_auth == ClientAuth::Optional {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|why| match (why, &settings.client_crl) {
        (VerifierBuilderError::InvalidCrl(why), Some(list)) => content("tls.client_crl", list, &format!("{why:?}")),
        (why, _) => content("tls.client_ca", file, &why),
    })
}

fn read_lists(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = read("tls.client_crl", file)?;
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|why| content("tls.client_crl", file, &format!("it is not PEM: {why}")))?;
    if all.is_empty() {
        return Err(content("tls.client_crl", file, &"there is no list in it ('-----BEGIN X509 CRL-----')"));
    }
    Ok(all)
}
