//! HTTP's Basic authentication (RFC 7617): a user and a password in base64.

/// Who a request says to be.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Vec<u8>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What an `Authorization` header says; `None` when it is not Basic or malformed.
pub fn parse(header: &[u8]) -> Option<Credentials> {
    let text = std::str::from_utf8(header).ok()?;
    let (scheme, encoded) = text.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = base64(encoded.trim().as_bytes())?;
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let (user, password) = bytes.split_at(colon);
    Some(Credentials { user: String::from_utf8(user.to_vec()).ok()?, password: password.get(1..)?.to_vec() })
}

/// Base64 with or without padding; `None` when it is none.
pub fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let (mut bits, mut held) = (0_u32, 0);
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8); // the mask of a byte is the cast itself
        }
    }
    Some(out)
}

/// Writes base64.
pub fn base64_of(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * at)) as usize & 63).copied().unwrap_or(b'=');
            out.push(if at > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

/// Bytes as hexadecimal digits.
pub fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits.
pub fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_are_split_at_the_first_colon() {
        let got = parse(b"Basic Z3Vlc3Q6YTpi").unwrap();
        assert_eq!((got.user.as_str(), got.password.as_slice()), ("guest", b"a:b".as_slice()));
        assert_eq!(parse(b"basic Z3Vlc3Q6").unwrap().password, b"");
        for text in ["", "f", "fo", "foo", "foob"] {
            assert_eq!(base64(base64_of(text.as_bytes()).as_bytes()).unwrap(), text.as_bytes());
            assert_eq!(bytes_of_hex(&hex_of(text.as_bytes())).unwrap(), text.as_bytes());
        }
        assert_eq!(base64_of(b"foob"), "Zm9vYg==");
        for bad in ["Bearer x", "Basic", "Basic !!!", "Basic Z3Vlc3Q"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
