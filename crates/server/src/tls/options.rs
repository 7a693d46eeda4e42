//! TLS's options: where the files are, and what is asked of clients.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::options::option;
use crate::config::values::{duration, duration_text};
use crate::config::{Kind, Opt};

/// Whether clients must show a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientAuth {
    /// They are not asked for one.
    #[default]
    None,
    /// They are asked; without one they come in, with a bad one they do not.
    Optional,
    /// Nobody comes in without a good one.
    Required,
}

/// What TLS doors use.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// The server's certificate, with the chain below its root.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The authorities that clients' certificates may come from.
    pub client_ca: Option<PathBuf>,
    /// Certificates that these authorities have taken back.
    pub client_crl: Option<PathBuf>,
    /// What is asked of clients.
    pub client_auth: ClientAuth,
    /// Take TLS 1.2 from clients that know no better.
    pub takes_tls_1_2: bool,
    /// How often it is looked whether the files have changed.
    pub reload_check: Duration,
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings {
            cert: None,
            key: None,
            client_ca: None,
            client_crl: None,
            client_auth: ClientAuth::None,
            takes_tls_1_2: true,
            reload_check: Duration::from_secs(10),
        }
    }
}

fn path(value: &str) -> Option<PathBuf> {
    (!value.is_empty()).then(|| PathBuf::from(value))
}

/// The options of TLS.
#[must_use]
pub fn options() -> Vec<Opt> {
    let mut all = files();
    all.extend(rules());
    all
}

fn files() -> Vec<Opt> {
    let file = |key: &str, doc: &str, set: fn(&mut TlsSettings, Option<PathBuf>)| {
        option(key, Kind::Path, String::new(), doc, move |s, v| {
            set(&mut s.tls, path(v));
            Ok(())
        })
    };
    vec![
        file(
            "tls.cert",
            "The certificate of all TLS doors (amqps, kafka-ssl, https): a PEM file with the server's own first, those \
             that lead to its root behind it. A changed file is taken without a restart, at once with SIGHUP.",
            |tls, path| tls.cert = path,
        ),
        file("tls.key", "The certificate's private key: a PEM file, not encrypted.", |tls, path| tls.key = path),
        file(
            "tls.client_ca",
            "Whose certificates clients may show: a PEM file with one or more authorities. Needs tls.client_auth.",
            |tls, path| tls.client_ca = path,
        ),
        file(
            "tls.client_crl",
            "Clients' certificates that were taken back: a PEM file with revocation lists (X509 CRL).",
            |tls, path| tls.client_crl = path,
        ),
    ]
}

fn rules() -> Vec<Opt> {
    let d = TlsSettings::default();
    vec![
        option(
            "tls.client_auth",
            Kind::Text,
            "none".to_owned(),
            "Whether TLS clients show a certificate: 'none' (they are not asked), 'optional' or 'required'.",
            |s, v| {
                s.tls.client_auth = match v {
                    "none" => ClientAuth::None,
                    "optional" => ClientAuth::Optional,
                    "required" => ClientAuth::Required,
                    _ => return Err(format!("'{v}' is not 'none', 'optional' or 'required'")),
                };
                Ok(())
            },
        ),
        option(
            "tls.min_version",
            Kind::Text,
            "1.2".to_owned(),
            "The oldest version of TLS that clients may use: 1.2 or 1.3.",
            |s, v| {
                s.tls.takes_tls_1_2 = match v {
                    "1.2" => true,
                    "1.3" => false,
                    _ => return Err(format!("'{v}' is not '1.2' or '1.3'")),
                };
                Ok(())
            },
        ),
        option(
            "tls.reload_check",
            Kind::Duration,
            duration_text(d.reload_check),
            "How often it is looked whether the files of TLS have changed.",
            |s, v| {
                s.tls.reload_check = duration(v, Duration::from_millis(100), Duration::from_secs(86_400))?;
                Ok(())
            },
        ),
    ]
}
