//! A small blocking HTTP client for the admin API: one request, one connection, everything bounded.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde_json::Value;

use super::secure;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: u64 = 64 << 10;
const BODY_BYTES_MAX: u64 = 256 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server's address makes no sense.
    #[error("'{0}' is not a server's address like http://127.0.0.1:15672")]
    Address(String),
    /// TLS needs to know whom to trust.
    #[error("{0} speaks TLS: name a PEM file with the authority that it comes from, with --ca FILE or FOURFOLD_CA")]
    NoAuthority(String),
    /// The file that says whom to trust is of no use.
    #[error("cannot use the authority in {file}: {why}")]
    Authority {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody answers there.
    #[error(
        "cannot reach the server at {at}: {why}. Is it running? Another address goes with --server or FOURFOLD_SERVER"
    )]
    Unreachable {
        /// The address.
        at: String,
        /// The operating system's word.
        why: io::Error,
    },
    /// Whoever answers there does not speak HTTP as we do.
    #[error("what answers at {0} is not a Fourfold server")]
    NotOurs(String),
    /// The server refused.
    #[error("{reason}")]
    Refused {
        /// The status.
        status: u16,
        /// The server's sentence.
        reason: String,
    },
}

impl ClientError {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            ClientError::Refused { .. } => 1,
            ClientError::Address(_) | ClientError::NoAuthority(_) | ClientError::Authority { .. } => 2,
            ClientError::Unreachable { .. } | ClientError::NotOurs(_) => 3,
        }
    }
}

/// A server, and who asks.
#[derive(Clone, Debug)]
pub struct Client {
    at: String,
    authorization: String,
    /// Set when the server speaks TLS.
    tls: Option<Arc<ClientConfig>>,
}

impl Client {
    /// A client of the server at `url`, which through TLS must be vouched for by an authority in the file `ca`.
    ///
    /// # Errors
    /// [`ClientError::Address`], [`ClientError::NoAuthority`], [`ClientError::Authority`].
    pub fn new(url: &str, ca: Option<&Path>, user: &str, password: &str) -> Result<Client, ClientError> {
        let wrong = || ClientError::Address(url.to_owned());
        let secure = url.strip_prefix("https://");
        let at = secure.or_else(|| url.strip_prefix("http://")).unwrap_or(url).trim_end_matches('/');
        let (host, port) = at.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || at.contains(['/', ' ']) || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        let authorization = base64(format!("{user}:{password}").as_bytes());
        let tls = match (secure, ca) {
            (None, _) => None,
            (Some(_), None) => return Err(ClientError::NoAuthority(url.to_owned())),
            (Some(_), Some(file)) => Some(secure::trust(file).map_err(|why| {
                let file = file.display().to_string();
                ClientError::Authority { file, why }
            })?),
        };
        Ok(Client { at: at.to_owned(), authorization, tls })
    }

    /// Asks; answers the body, `Null` when there is none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let unreachable = |why| ClientError::Unreachable { at: self.at.clone(), why };
        let (status, body) = self.exchange(method, path, body).map_err(|why| match why.kind() {
            io::ErrorKind::InvalidData if why.get_ref().is_none() => ClientError::NotOurs(self.at.clone()),
            _ => unreachable(why),
        })?;
        let value = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&body) };
        let value: Value = value.map_err(|_| ClientError::NotOurs(self.at.clone()))?;
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let reason = match &value["reason"] {
            // The words of RabbitMQ's API, which do not say what was not found.
            Value::String(reason) if reason == "Not Found" => format!("the server has no {path}"),
            Value::String(reason) => reason.trim().replace("\n\n", ": "),
            Value::Null => format!("the server answers {status}"),
            other => other.to_string(),
        };
        Err(ClientError::Refused { status, reason })
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<(u16, Vec<u8>)> {
        let stream = self.connect()?;
        let body = body.map(Value::to_string);
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic {}\r\nConnection: close\r\n",
            self.at, self.authorization
        );
        if let Some(body) = &body {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        } else if method != "GET" {
            head.push_str("Content-Length: 0\r\n");
        }
        head.push_str("\r\n");
        head.push_str(body.as_deref().unwrap_or_default());
        let Some(tls) = &self.tls else { return talk(stream, &head) };
        let host = self.at.rsplit_once(':').map_or("", |(host, _)| host);
        talk(secure::wrap(stream, host, tls)?, &head)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in self.at.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
                    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn talk(mut stream: impl io::Read + io::Write, request: &str) -> io::Result<(u16, Vec<u8>)> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    answer(stream)
}

fn answer(stream: impl io::Read) -> io::Result<(u16, Vec<u8>)> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let mut reader = BufReader::new(stream).take(HEAD_BYTES_MAX);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(wrong)?;
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(wrong());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| wrong())?;
        }
    }
    if length > BODY_BYTES_MAX {
        return Err(wrong());
    }
    let mut body = Vec::new();
    reader.set_limit(length);
    reader.read_to_end(&mut body)?;
    if body.len() as u64 == length { Ok((status, body)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = (bits >> (18 - 6 * at)) & 63;
            text.push(if at > chunk.len() { '=' } else { char::from(DIGITS[digit as usize]) });
        }
    }
    text
}

/// Makes a name fit for one segment of a path.
pub fn encode(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_encoded_as_every_server_expects() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("guest:guest", "Z3Vlc3Q6Z3Vlc3Q=")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_server_is_named_by_host_and_port() {
        for (url, good) in
            [("http://h:1", true), ("h:1", true), ("http://[::1]:1/", true), ("https://h:1", false), ("h", false)]
        {
            assert_eq!(Client::new(url, None, "", "").is_ok(), good, "{url}");
        }
    }

    #[test]
    fn tls_needs_an_authority() {
        let without = Client::new("https://h:1", None, "", "").unwrap_err().to_string();
        assert!(without.contains("--ca FILE"), "{without}");
        let missing = Client::new("https://h:1", Some(Path::new("/nowhere")), "", "").unwrap_err().to_string();
        assert!(missing.contains("/nowhere"), "{missing}");
    }

    #[test]
    fn names_are_one_segment_of_a_path() {
        assert_eq!(encode("a/b é"), "a%2Fb%20%C3%A9");
    }
}
