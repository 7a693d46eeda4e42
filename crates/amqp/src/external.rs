//! The SASL mechanism EXTERNAL: who a client is, by the certificate it showed. TLS has checked the certificate; here it
//! becomes a user's name, by the rules of RabbitMQ's plugin for it.

use broker::secured::{AlternativeName, Certificate};

/// Where in a certificate the user's name stands (`ssl_cert_login_from`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoginFrom {
    /// The whole subject as text, `CN=alice,O=Example`.
    #[default]
    DistinguishedName,
    /// The subject's common name; several are joined by commas.
    CommonName,
    /// A name beside the subject.
    AlternativeName,
}

/// Of which kind that name is (`ssl_cert_login_san_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NameKind {
    /// A host.
    #[default]
    Dns,
    /// A mail address.
    Email,
    /// A URI.
    Uri,
    /// An address of the internet.
    Ip,
}

/// How a certificate names a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CertificateLogin {
    /// Where the name stands.
    pub from: LoginFrom,
    /// Of which kind an alternative name is.
    pub kind: NameKind,
    /// Which of several of that kind; 0 is the first (`ssl_cert_login_san_index`).
    pub index: usize,
}

impl CertificateLogin {
    /// Whom the certificate names; `None` when the place is empty.
    #[must_use]
    pub fn user(self, certificate: &Certificate) -> Option<String> {
        let name = match self.from {
            LoginFrom::DistinguishedName => certificate.subject.clone(),
            LoginFrom::CommonName => certificate.common_names.join(","),
            LoginFrom::AlternativeName => {
                let of_kind = certificate.alternative_names.iter().filter_map(|name| self.of_kind(name));
                of_kind.into_iter().nth(self.index)?.to_owned()
            }
        };
        (!name.is_empty()).then_some(name)
    }

    fn of_kind(self, name: &AlternativeName) -> Option<&str> {
        match (self.kind, name) {
            (NameKind::Dns, AlternativeName::Dns(text))
            | (NameKind::Email, AlternativeName::Email(text))
            | (NameKind::Uri, AlternativeName::Uri(text))
            | (NameKind::Ip, AlternativeName::Ip(text)) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn a_user_is_named_by_the_place_that_is_set() {
        let certificate = Certificate {
            subject: "CN=alice,O=Example".into(),
            issuer: "CN=authority".into(),
            common_names: vec!["alice".into(), "a2".into()],
            alternative_names: vec![
                AlternativeName::Email("a@example.org".into()),
                AlternativeName::Dns("one.example".into()),
                AlternativeName::Dns("two.example".into()),
            ],
            not_before: SystemTime::UNIX_EPOCH,
            not_after: SystemTime::UNIX_EPOCH,
            validity: String::new(),
        };
        let user = |from, kind, index| CertificateLogin { from, kind, index }.user(&certificate);
        let alternative = LoginFrom::AlternativeName;
        assert_eq!(CertificateLogin::default().user(&certificate).as_deref(), Some("CN=alice,O=Example"));
        assert_eq!(user(LoginFrom::CommonName, NameKind::Dns, 0).as_deref(), Some("alice,a2"));
        assert_eq!(user(alternative, NameKind::Dns, 1).as_deref(), Some("two.example"));
        assert_eq!(user(alternative, NameKind::Email, 0).as_deref(), Some("a@example.org"));
        assert_eq!(user(alternative, NameKind::Dns, 2), None);
        assert_eq!(user(alternative, NameKind::Uri, 0), None);
    }
}
