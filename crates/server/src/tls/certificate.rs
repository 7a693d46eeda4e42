//! Reads of a certificate what a login or a person needs: names and dates. Whether it is to be trusted is not judged
//! here; bytes from strangers are parsed only once TLS has.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use broker::secured::{AlternativeName, Certificate};
use x509_parser::asn1_rs::{Any, Oid, Tag};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Name};
use x509_parser::time::ASN1Time;

/// Short names of attributes by their object identifier, as RabbitMQ 3.10.8 was seen to write them: users are named by
/// these texts. All others, street and dnQualifier among them, it writes by number.
const ATTRIBUTES: [(&str, &str); 16] = [
    ("2.5.4.4", "SN"),
    ("2.5.4.42", "GIVENNAME"),
    ("2.5.4.43", "INITIALS"),
    ("2.5.4.44", "GENERATIONQUALIFIER"),
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "TITLE"),
    ("2.5.4.6", "C"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.65", "PSEUDONYM"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "EMAILADDRESS"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

const COMMON_NAME: &str = "2.5.4.3";

/// What the certificate says; `None` when it cannot be read.
#[must_use]
pub fn certificate(der: &[u8]) -> Option<Certificate> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let subject = parsed.subject();
    let common_names = subject.iter_attributes().filter(|one| one.attr_type().to_id_string() == COMMON_NAME);
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.map(|extension| extension.value.general_names.iter().filter_map(alternative).collect());
    Some(Certificate {
        subject: distinguished_name(subject),
        issuer: distinguished_name(parsed.issuer()),
        common_names: common_names.filter_map(|one| text(one.attr_value())).collect(),
        alternative_names: names.unwrap_or_default(),
        not_before: time(parsed.validity().not_before),
        not_after: time(parsed.validity().not_after),
        validity: format!("{} - {}", date(parsed.validity().not_before), date(parsed.validity().not_after)),
    })
}

fn time(at: ASN1Time) -> SystemTime {
    let seconds = u64::try_from(at.timestamp()).unwrap_or(0); // before 1970: long over
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A moment as text: `2027-01-31T12:00:00Z`.
fn date(at: ASN1Time) -> String {
    let at = at.to_datetime();
    let (day, time) = (at.date(), at.time());
    let month = u8::from(day.month());
    format!("{:04}-{month:02}-{:02}T{}Z", day.year(), day.day(), clock(time.as_hms()))
}

fn clock((hour, minute, second): (u8, u8, u8)) -> String {
    format!("{hour:02}:{minute:02}:{second:02}")
}

/// The name as text (RFC 4514): the last part first, as RabbitMQ writes it.
#[must_use]
pub fn distinguished_name(name: &X509Name<'_>) -> String {
    let parts = name.iter_rdn().map(|part| {
        let values = part.iter().map(|one| format!("{}={}", short(one.attr_type()), escaped(one.attr_value())));
        values.collect::<Vec<_>>().join("+")
    });
    let mut parts: Vec<String> = parts.collect();
    parts.reverse();
    parts.join(",")
}

fn short(kind: &Oid<'_>) -> String {
    let number = kind.to_id_string();
    let known = ATTRIBUTES.iter().find(|(one, _)| *one == number);
    known.map_or(number, |(_, name)| (*name).to_owned())
}

/// The value of an attribute; `None` for what is no text.
fn text(value: &Any<'_>) -> Option<String> {
    match value.tag() {
        Tag::BmpString => {
            let units = value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            String::from_utf16(&units.collect::<Vec<_>>()).ok()
        }
        Tag::T61String => Some(value.data.iter().map(|byte| char::from(*byte)).collect()),
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::VisibleString => {
            String::from_utf8(value.data.to_vec()).ok()
        }
        _ => None,
    }
}

/// The value as it stands in a name. What is not printable ASCII is written in hexadecimal, byte by byte.
fn escaped(value: &Any<'_>) -> String {
    let Some(text) = text(value) else {
        return value.data.iter().fold("#".to_owned(), |all, byte| format!("{all}{byte:02X}"));
    };
    let last = text.len().saturating_sub(1);
    let mut out = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'#' if at == 0 => out.push_str("\\#"),
            b' ' if at == 0 || at == last => out.push_str("\\ "),
            0..=31 | 126.. => out.push_str(&format!("\\{byte:02X}")),
            _ => out.push(char::from(byte)),
        }
    }
    out
}

fn alternative(name: &GeneralName<'_>) -> Option<AlternativeName> {
    match name {
        GeneralName::DNSName(host) => Some(AlternativeName::Dns((*host).to_owned())),
        GeneralName::RFC822Name(address) => Some(AlternativeName::Email((*address).to_owned())),
        GeneralName::URI(uri) => Some(AlternativeName::Uri((*uri).to_owned())),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(|octets| Ipv4Addr::from(octets).to_string());
            let v6 = <[u8; 16]>::try_from(*bytes).map(|octets| Ipv6Addr::from(octets).to_string());
            v4.or(v6).ok().map(AlternativeName::Ip)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    fn made(parts: &[(DnType, &str)], names: Vec<SanType>) -> Certificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.subject_alt_names = names;
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        certificate(der.der()).unwrap()
    }

    #[test]
    fn a_subject_is_written_as_users_of_rabbitmq_know_it() {
        let uid = DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 1]);
        let street = DnType::CustomDnType(vec![2, 5, 4, 9]);
        let cases = [
            (vec![(street, "st"), (DnType::CommonName, "y")], "CN=y,2.5.4.9=st"),
            (vec![(DnType::OrganizationName, "Example"), (DnType::CommonName, "alice")], "CN=alice,O=Example"),
            (vec![(DnType::CountryName, "DE"), (DnType::CommonName, "a,b=c+d")], "CN=a\\,b=c\\+d,C=DE"),
            (vec![(DnType::CommonName, " x ")], "CN=\\ x\\ "),
            (vec![(DnType::CommonName, "#1")], "CN=\\#1"),
            (vec![(DnType::CommonName, "é~")], "CN=\\C3\\A9\\7E"),
            (vec![(uid, "u1"), (DnType::OrganizationalUnitName, "IT")], "OU=IT,UID=u1"),
        ];
        for (parts, expected) in cases {
            let read = made(&parts, Vec::new());
            assert_eq!((read.subject.as_str(), read.issuer.as_str()), (expected, expected));
        }
    }

    #[test]
    fn names_and_dates_are_found() {
        let names = vec![
            SanType::DnsName("broker.example".try_into().unwrap()),
            SanType::Rfc822Name("a@example.org".try_into().unwrap()),
            SanType::IpAddress("10.0.0.1".parse().unwrap()),
        ];
        let read = made(&[(DnType::CommonName, "alice")], names);
        assert_eq!(read.common_names, ["alice"]);
        let expected = [
            AlternativeName::Dns("broker.example".into()),
            AlternativeName::Email("a@example.org".into()),
            AlternativeName::Ip("10.0.0.1".into()),
        ];
        assert_eq!(read.alternative_names, expected);
        assert_eq!(read.validity, "1975-01-01T00:00:00Z - 4096-01-01T00:00:00Z");
        assert!(read.not_before < SystemTime::now() && read.not_after > SystemTime::now());
    }

    #[test]
    fn what_is_no_certificate_is_none() {
        assert_eq!(certificate(b""), None);
        assert_eq!(certificate(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
