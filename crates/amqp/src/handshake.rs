//! From the protocol header to an open connection: what is said to a new client, and what its answers mean. The order
//! of these steps is `session.rs`.

use broker::Broker;
use model::{ByteReader, Header, HeaderValue, Name};

use crate::config::{Config, FRAME_BYTES_MIN};
use crate::errors::{Code, Refusal};
use crate::wire::text::{put_long, put_short};
use crate::wire::{frame, long, short, table};

/// connection.start: version 0.9, properties, mechanisms, locales. EXTERNAL is for clients that showed a certificate.
pub fn put_start(out: &mut Vec<u8>, config: &Config, broker: &Broker, has_certificate: bool) {
    let text = |name: &str, value: &str| Header { name: name.into(), value: HeaderValue::Text(value.into()) };
    // Only what is honoured: clients use what they are shown.
    let capabilities = [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ]
    .map(|name| Header { name: name.into(), value: HeaderValue::Bool(true) });
    let properties = [
        Header { name: "capabilities".into(), value: HeaderValue::Table(capabilities.into()) },
        text("cluster_name", &format!("fourfold@{}", broker.cluster_id())),
        text("copyright", "The Fourfold authors"),
        text("information", "Fourfold speaks AMQP 0-9-1 as RabbitMQ does"),
        text("platform", "Rust"),
        // Clients switch features by this name: it says whose dialect is spoken.
        text("product", "RabbitMQ"),
        text("version", config.version),
    ];
    frame::put_method(out, 0, (10, 10), |out| {
        out.extend_from_slice(&[0, 9]);
        table::put(out, &properties);
        put_long(out, if has_certificate { b"AMQPLAIN PLAIN EXTERNAL" } else { b"AMQPLAIN PLAIN" });
        put_long(out, b"en_US");
    });
}

/// How a client proves who it is.
#[derive(Debug, PartialEq)]
pub enum Proof {
    /// By a name and a password.
    Password(String, Vec<u8>),
    /// By the certificate it has shown already.
    Certificate,
    /// Not at all: the response holds neither.
    None,
}

/// What a client says of itself in connection.start-ok.
#[derive(Debug, PartialEq)]
pub struct StartOk {
    /// PLAIN, AMQPLAIN or EXTERNAL.
    pub mechanism: String,
    /// What the response holds.
    pub proof: Proof,
    /// What the client says of itself.
    pub properties: Vec<Header>,
    /// The client takes basic.cancel from the server.
    pub cancel_notify: bool,
    /// The client takes connection.blocked.
    pub blocked_notify: bool,
    /// The client wants to be told that its login failed.
    pub failure_close: bool,
}

/// Reads connection.start-ok: (properties, mechanism, response, locale).
///
/// # Errors
/// 502 for malformed fields, 503 for an unknown mechanism.
pub fn start_ok(fields: &[u8], has_certificate: bool) -> Result<StartOk, Refusal> {
    let mut r = ByteReader::new(fields);
    let properties = table::read(table::body(&mut r)?)?;
    let mechanism = short(&mut r)?;
    let response = long(&mut r)?;
    let password = |found: Option<(String, Vec<u8>)>| found.map_or(Proof::None, |(user, pw)| Proof::Password(user, pw));
    let proof = match mechanism {
        "PLAIN" => password(plain(response)),
        "AMQPLAIN" => password(amqplain(response)),
        // Whom else a client would like to be is not looked at, as RabbitMQ does not.
        "EXTERNAL" if has_certificate => Proof::Certificate,
        other => {
            let text = format!("unknown authentication mechanism '{other}'");
            return Err(Refusal::new(Code::CommandInvalid, text));
        }
    };
    let capable = |name: &str| {
        properties.iter().any(|property| {
            property.name == "capabilities"
                && matches!(&property.value, HeaderValue::Table(all)
                    if all.iter().any(|one| one.name == name && one.value == HeaderValue::Bool(true)))
        })
    };
    let (cancel_notify, blocked_notify) = (capable("consumer_cancel_notify"), capable("connection.blocked"));
    let failure_close = capable("authentication_failure_close");
    let mechanism = mechanism.to_owned();
    Ok(StartOk { mechanism, proof, properties, cancel_notify, blocked_notify, failure_close })
}

/// `\0user\0password`.
fn plain(response: &[u8]) -> Option<(String, Vec<u8>)> {
    let rest = response.strip_prefix(&[0])?;
    let at = rest.iter().position(|byte| *byte == 0)?;
    let (user, password) = (rest.get(..at)?, rest.get(at + 1..)?);
    Some((String::from_utf8(user.to_vec()).ok()?, password.to_vec()))
}

/// A table's bytes without their length: LOGIN and PASSWORD.
fn amqplain(response: &[u8]) -> Option<(String, Vec<u8>)> {
    let fields = table::read(response).ok()?;
    let find = |name: &str| fields.iter().find(|field| field.name == name).map(|field| &field.value);
    let Some(HeaderValue::Text(user)) = find("LOGIN") else {
        return None;
    };
    let password = match find("PASSWORD")? {
        HeaderValue::Text(text) => text.clone().into_bytes(),
        HeaderValue::Bytes(bytes) => bytes.to_vec(),
        _ => return None,
    };
    Some((user.clone(), password))
}

/// The login failed: 403, without a reason.
#[must_use]
pub fn refused(mechanism: &str) -> Refusal {
    Refusal::new(
        Code::AccessRefused,
        format!("Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."),
    )
}

/// connection.tune: what the server offers.
pub fn put_tune(out: &mut Vec<u8>, config: &Config) {
    frame::put_method(out, 0, (10, 30), |out| {
        out.extend_from_slice(&config.channel_count_max.to_be_bytes());
        out.extend_from_slice(&config.frame_bytes_max.to_be_bytes());
        out.extend_from_slice(&config.heartbeat_seconds.to_be_bytes());
    });
}

/// What was agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// The most channels open at once; 0 is any number.
    pub channel_count_max: u16,
    /// The largest frame.
    pub frame_bytes_max: u32,
    /// Seconds; 0 is none.
    pub heartbeat: u16,
}

/// Reads connection.tune-ok: the client may only lower what it was offered.
///
/// # Errors
/// 530 when it does not.
pub fn tune_ok(fields: &[u8], config: &Config) -> Result<Tuned, Refusal> {
    let mut r = ByteReader::new(fields);
    let (channel_max, frame_max, heartbeat) = (r.u16()?, r.u32()?, r.u16()?);
    lowered("channel_max", channel_max.into(), 1, config.channel_count_max.into())?;
    lowered("frame_max", frame_max, FRAME_BYTES_MIN, config.frame_bytes_max)?;
    Ok(Tuned { channel_count_max: channel_max, frame_bytes_max: frame_max, heartbeat })
}

fn lowered(what: &str, asked: u32, min: u32, max: u32) -> Result<(), Refusal> {
    let (direction, bound, limit) = if asked != 0 && asked < min {
        ("lower", "minimum", min)
    } else if max != 0 && (asked == 0 || asked > max) {
        ("higher", "maximum", max)
    } else {
        return Ok(());
    };
    let no_limit = if asked == 0 { " (no limit)" } else { "" };
    Err(Refusal::new(
        Code::NotAllowed,
        format!("negotiated {what} = {asked}{no_limit} is {direction} than the {bound} allowed value ({limit})"),
    ))
}

/// Reads connection.open: (vhost, …).
///
/// # Errors
/// 502 for malformed fields, 530 for what can be no virtual host.
pub fn open(fields: &[u8]) -> Result<Name, Refusal> {
    let vhost = short(&mut ByteReader::new(fields))?;
    Name::new(vhost).map_err(|_| Refusal::new(Code::NotAllowed, format!("vhost {} not found", vhost.escape_debug())))
}

/// connection.open-ok.
pub fn put_open_ok(out: &mut Vec<u8>) {
    frame::put_method(out, 0, (10, 41), |out| put_short(out, ""));
}

/// connection.close or channel.close: (code, text, class, method).
pub fn put_close(out: &mut Vec<u8>, channel: u16, refusal: &Refusal, vhost: &str) {
    let method = if channel == 0 { (10, 50) } else { (20, 40) };
    frame::put_method(out, channel, method, |out| {
        out.extend_from_slice(&refusal.code.wire().0.to_be_bytes());
        put_short(out, &refusal.reply_text(vhost));
        out.extend_from_slice(&refusal.method.0.to_be_bytes());
        out.extend_from_slice(&refusal.method.1.to_be_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_in_both_mechanisms() {
        assert_eq!(plain(b"\0guest\0pa\0ss"), Some(("guest".into(), b"pa\0ss".to_vec())));
        assert_eq!(plain(b"guest\0guest"), None);
        assert_eq!(plain(b"\0guest"), None);
        let table = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x02pw";
        assert_eq!(amqplain(table), Some(("guest".into(), b"pw".to_vec())));
        assert_eq!(amqplain(b"\x05LOGIN"), None);
    }

    #[test]
    fn tune_ok_may_only_lower() {
        let config = Config::default();
        let fields = |channels: u16, frame: u32| {
            [&channels.to_be_bytes()[..], &frame.to_be_bytes(), &0u16.to_be_bytes()].concat()
        };
        assert!(tune_ok(&fields(2047, 131_072), &config).is_ok());
        assert!(tune_ok(&fields(1, 4096), &config).is_ok());
        let text = |channels, frame| tune_ok(&fields(channels, frame), &config).unwrap_err().text.into_owned();
        assert_eq!(
            text(2047, 131_073),
            "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"
        );
        assert_eq!(text(10, 4095), "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)");
        assert_eq!(
            text(0, 4096),
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"
        );
    }
}
