//! HTTP/1.1 on bytes (RFC 9112): one request in, one response out. It knows no path and no user.

use crate::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::refusal::Refusal;

/// A complete request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// `GET` …
    pub method: String,
    /// The path, not decoded.
    pub path: String,
    /// What stood behind the question mark, not decoded.
    pub query: String,
    /// The `Authorization` header.
    pub authorization: Option<Vec<u8>>,
    /// A page of another site made a browser send it.
    pub is_foreign: bool,
    /// The body is said to be JSON.
    pub is_json: bool,
    /// Why a connection is to be closed (`X-Reason`).
    pub reason: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// The client will send another request on this connection.
    pub keep_alive: bool,
}

impl Request {
    /// Bytes of memory it takes, about.
    pub fn memory_bytes(&self) -> usize {
        HEAD_BYTES_MAX + self.body.capacity()
    }
}

/// What bytes turned out to be.
#[derive(Debug)]
pub enum Parsed {
    /// A request and how many bytes it took.
    Request(Request, usize),
    /// More is to come; true when the client waits for a word before it sends the body.
    Partial(bool),
    /// Not to be answered but with this; the connection is of no more use.
    Refused(Refusal),
}

/// Reads one request from the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(bytes) {
        Ok(httparse::Status::Complete(count)) if count <= HEAD_BYTES_MAX => count,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Parsed::Partial(false),
        Ok(_) => return Parsed::Refused(head_too_large()),
        Err(httparse::Error::TooManyHeaders) => return Parsed::Refused(head_too_large()),
        Err(error) => return Parsed::Refused(Refusal::bad_request(format!("not an HTTP request: {error}"))),
    };
    match complete(&head, bytes, head_bytes) {
        Ok(parsed) => parsed,
        Err(refusal) => Parsed::Refused(refusal),
    }
}

fn head_too_large() -> Refusal {
    let reason = format!("a request's head has at most {HEAD_BYTES_MAX} bytes and {HEADERS_MAX} headers");
    Refusal::new(431, "head_too_large", reason)
}

fn complete(head: &httparse::Request<'_, '_>, bytes: &[u8], head_bytes: usize) -> Result<Parsed, Refusal> {
    let method = head.method.unwrap_or_default();
    if header(head, "transfer-encoding").is_some() {
        return Err(Refusal::new(501, "not_implemented", "send the body with a Content-Length, not in chunks"));
    }
    let length = body_length(head)?;
    let length = length.unwrap_or(0); // without one there is no body (RFC 9112 section 6.3)
    if length > BODY_BYTES_MAX as u64 {
        return Err(Refusal::new(413, "too_large", format!("a body has at most {BODY_BYTES_MAX} bytes")));
    }
    let end = head_bytes + length as usize; // at most BODY_BYTES_MAX
    let Some(body) = bytes.get(head_bytes..end) else {
        let expects = header(head, "expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        return Ok(Parsed::Partial(expects && bytes.len() == head_bytes));
    };
    let target = origin_form(head.path.unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let keep_alive = match head.version {
        Some(0) => says(head, "keep-alive") && !says(head, "close"),
        _ => !says(head, "close"),
    };
    let request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        authorization: header(head, "authorization").map(<[u8]>::to_vec),
        is_foreign: is_foreign(head),
        is_json: header(head, "content-type").is_some_and(is_json),
        reason: header(head, "x-reason").map(|text| String::from_utf8_lossy(text).into_owned()),
        body: body.to_vec(),
        keep_alive,
    };
    Ok(Parsed::Request(request, end))
}

/// Whether a `Connection` header names `option`, among others perhaps (RFC 9110 section 7.6.1).
fn says(head: &httparse::Request<'_, '_>, option: &str) -> bool {
    let all = head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection"));
    let mut options = all.flat_map(|header| header.value.split(|byte| *byte == b','));
    options.any(|given| given.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
}

/// A target without scheme and authority, which proxies send (RFC 9112 section 3.2.2).
fn origin_form(target: &str) -> &str {
    let Some(rest) = target.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http")) else {
        return target;
    };
    rest.1.find(['/', '?']).map_or("/", |at| &rest.1[at..])
}

/// Browsers say of a request of another site's page where it comes from, and send the password along all the same.
fn is_foreign(head: &httparse::Request<'_, '_>) -> bool {
    if header(head, "sec-fetch-site").is_some_and(|site| !matches!(site, b"same-origin" | b"none")) {
        return true;
    }
    let host = header(head, "host").unwrap_or_default();
    header(head, "origin").is_some_and(|origin| {
        let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        authority.is_none_or(|authority| !authority.eq_ignore_ascii_case(host))
    })
}

fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// The one length all `Content-Length` headers agree on (RFC 9112 section 6.3: else somebody smuggles).
fn body_length(head: &httparse::Request<'_, '_>) -> Result<Option<u64>, Refusal> {
    let mut length = None;
    for header in head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("content-length")) {
        let digits = std::str::from_utf8(header.value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let Some(value) = digits.and_then(|text| text.parse::<u64>().ok()) else {
            return Err(Refusal::bad_request("Content-Length is not a number"));
        };
        if length.is_some_and(|before| before != value) {
            return Err(Refusal::bad_request("two different Content-Length headers"));
        }
        length = Some(value);
    }
    Ok(length)
}

fn header<'h>(head: &httparse::Request<'_, 'h>, name: &str) -> Option<&'h [u8]> {
    head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// A response before it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A JSON response.
    pub fn json(status: u16, body: &serde_json::Value) -> Response {
        let body = if body.is_null() { Vec::new() } else { format!("{body}\n").into_bytes() };
        Response { status, content_type: "application/json", headers: Vec::new(), body }
    }

    /// A response of another kind, or of JSON that is text already.
    pub fn text(status: u16, content_type: &'static str, body: Vec<u8>) -> Response {
        Response { status, content_type, headers: Vec::new(), body }
    }

    /// Writes it; `with_body` is false for HEAD.
    pub fn write(&self, keep_alive: bool, with_body: bool, out: &mut Vec<u8>) {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        if self.status != 204 {
            head.push_str(&format!("Content-Type: {}\r\nContent-Length: {}\r\n", self.content_type, self.body.len()));
        }
        if self.status == 401 {
            head.push_str("WWW-Authenticate: Basic realm=\"fourfold\"\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
        head.push_str(if keep_alive { "\r\n" } else { "Connection: close\r\n\r\n" });
        out.extend_from_slice(head.as_bytes());
        if with_body && self.status != 204 {
            out.extend_from_slice(&self.body);
        }
    }
}

impl From<&Refusal> for Response {
    fn from(refusal: &Refusal) -> Response {
        let body = match refusal.parts.is_empty() {
            true => serde_json::json!({ "error": refusal.error, "reason": refusal.reason }),
            false => serde_json::json!({ "error": refusal.error, "reason": refusal.parts }),
        };
        Response::json(refusal.status, &body)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        507 => "Insufficient Storage",
        _ => "Internal Server Error",
    }
}

/// Percent-encodes all that is not a letter, a digit, or one of `-`, `.`, `_`.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Undoes percent-encoding; `None` when it is not valid or not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push((high << 4 | low) as u8); // two hexadecimal digits are one byte
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(bytes: &[u8]) -> u16 {
        match parse(bytes) {
            Parsed::Request(..) => 200,
            Parsed::Partial(_) => 0,
            Parsed::Refused(refusal) => refusal.status,
        }
    }

    #[test]
    fn a_request_is_read_whole_or_not_at_all() {
        let whole = b"POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET";
        for cut in 0..whole.len() - 3 {
            assert_eq!(status(&whole[..cut]), 0, "{cut}");
        }
        let Parsed::Request(request, bytes) = parse(whole) else { panic!("a request") };
        assert_eq!(bytes, whole.len() - 3);
        assert_eq!((request.path.as_str(), request.query.as_str()), ("/a%20b", "x=1"));
        assert_eq!(request.body, b"abc");
        assert!(request.keep_alive);
    }

    #[test]
    fn bad_requests_are_refused_with_the_right_status() {
        let cases: [(&[u8], u16); 7] = [
            (b"\x00\x01\x02\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\n\r\n", 200),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
            (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n\r\n", 200),
        ];
        for (bytes, expected) in cases {
            assert_eq!(status(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
        let long = [b"GET / HTTP/1.1\r\nA: ".as_slice(), &[b'x'; HEAD_BYTES_MAX]].concat();
        assert_eq!(status(&long), 431);
    }

    fn read(bytes: &str) -> Request {
        let Parsed::Request(request, _) = parse(bytes.as_bytes()) else { panic!("a request: {bytes}") };
        request
    }

    #[test]
    fn a_connection_goes_on_unless_it_is_said_to_end() {
        for (version, connection, goes_on) in [
            (1, "x: y", true),
            (1, "Connection: close", false),
            (1, "Connection: TE, Close", false),
            (1, "Connection: keep-alive", true),
            (0, "x: y", false),
            (0, "Connection: Keep-Alive, TE", true),
        ] {
            let request = read(&format!("GET / HTTP/1.{version}\r\n{connection}\r\n\r\n"));
            assert_eq!(request.keep_alive, goes_on, "{version} {connection}");
        }
    }

    #[test]
    fn a_target_with_scheme_and_host_is_the_same_path() {
        for (target, path, query) in [
            ("http://h:1/a/b?x=1", "/a/b", "x=1"),
            ("HTTP://h", "/", ""),
            ("http://h?x=1", "", "x=1"),
            ("/a?u=http://h/b", "/a", "u=http://h/b"),
        ] {
            let request = read(&format!("GET {target} HTTP/1.1\r\n\r\n"));
            assert_eq!((request.path.as_str(), request.query.as_str()), (path, query), "{target}");
        }
    }

    #[test]
    fn what_another_sites_page_sends_is_told_from_our_own() {
        for (headers, foreign) in [
            ("", false),
            ("Origin: http://h:1\r\n", false),
            ("Origin: https://H:1\r\nSec-Fetch-Site: same-origin\r\n", false),
            ("Sec-Fetch-Site: none\r\n", false),
            ("Origin: http://other:1\r\n", true),
            ("Origin: http://h:2\r\n", true),
            ("Origin: null\r\n", true),
            ("Sec-Fetch-Site: cross-site\r\n", true),
            ("Sec-Fetch-Site: same-site\r\n", true),
        ] {
            let request = read(&format!("POST / HTTP/1.1\r\nHost: h:1\r\n{headers}\r\n"));
            assert_eq!(request.is_foreign, foreign, "{headers}");
        }
        for (kind, json) in
            [("application/json", true), ("Application/JSON ; charset=utf-8", true), ("text/plain", false)]
        {
            assert_eq!(read(&format!("POST / HTTP/1.1\r\nContent-Type: {kind}\r\n\r\n")).is_json, json);
        }
    }

    #[test]
    fn percent_encoding_is_undone_or_refused() {
        assert_eq!(decode("a%2Fb%20c").as_deref(), Some("a/b c"));
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
