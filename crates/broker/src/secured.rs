//! What is known of a connection that goes through TLS: neutral words for tongues that log in by certificate and for
//! whoever shows connections. It parses nothing and checks nothing: the server does, before a session begins.

use std::time::SystemTime;

/// What TLS has established about a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secured {
    /// The version of the protocol: `TLSv1.2`, `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by its standard name.
    pub cipher_suite: String,
    /// The client's certificate, if it showed one: it was issued by an authority that the server trusts.
    pub certificate: Option<Certificate>,
}

/// What a client's certificate says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// Whose it is: a distinguished name as text (RFC 4514), such as `CN=alice,O=Example`.
    pub subject: String,
    /// Who vouches for it, written the same way.
    pub issuer: String,
    /// The subject's common names, in the order of the certificate.
    pub common_names: Vec<String>,
    /// Its other names, in the order of the certificate.
    pub alternative_names: Vec<AlternativeName>,
    /// Valid from …
    pub not_before: SystemTime,
    /// … until.
    pub not_after: SystemTime,
    /// Both, for people.
    pub validity: String,
}

/// A name beside the subject (subjectAltName).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AlternativeName {
    /// A host.
    Dns(String),
    /// A mail address.
    Email(String),
    /// A URI.
    Uri(String),
    /// An address of the internet.
    Ip(String),
}
