//! Content properties. They are kept as the bytes that came; [`Props`] only finds its way in them.

use model::ByteReader;

use super::text::{long, short_bytes};
use super::{WireError, table};

/// The properties, borrowed: each where the flag says it is there.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Props<'a> {
    /// MIME type.
    pub content_type: Option<&'a [u8]>,
    /// Encoding of the body.
    pub content_encoding: Option<&'a [u8]>,
    /// The table's bytes, without its length; not walked yet.
    pub headers: Option<&'a [u8]>,
    /// 1 transient, 2 persistent.
    pub delivery_mode: Option<u8>,
    /// 0 to 255.
    pub priority: Option<u8>,
    /// Ties an answer to its question.
    pub correlation_id: Option<&'a [u8]>,
    /// Where to answer.
    pub reply_to: Option<&'a [u8]>,
    /// Time to live in milliseconds, as digits.
    pub expiration: Option<&'a [u8]>,
    /// The application's id.
    pub message_id: Option<&'a [u8]>,
    /// Seconds.
    pub timestamp: Option<u64>,
    /// The application's kind of message.
    pub kind: Option<&'a [u8]>,
    /// Must be the user logged in.
    pub user_id: Option<&'a [u8]>,
    /// The application.
    pub app_id: Option<&'a [u8]>,
    /// Nobody knows.
    pub cluster_id: Option<&'a [u8]>,
}

/// Reads flags and properties to their end.
///
/// # Errors
/// [`WireError::Properties`] for flags that do not exist (the continuation bit too) or bytes left over.
pub fn read(bytes: &[u8]) -> Result<Props<'_>, WireError> {
    let mut reader = ByteReader::new(bytes);
    let flags = reader.u16()?;
    // Bit 0 would announce more flags: class basic has none.
    if flags & 0b11 != 0 {
        return Err(WireError::Properties);
    }
    let has = |bit: u16| flags & (1 << bit) != 0;
    let r = &mut reader;
    // Evaluated in the order written, which is the order on the wire.
    let props = Props {
        content_type: if has(15) { Some(short_bytes(r)?) } else { None },
        content_encoding: if has(14) { Some(short_bytes(r)?) } else { None },
        headers: if has(13) { Some(long(r)?) } else { None },
        delivery_mode: if has(12) { Some(r.u8()?) } else { None },
        priority: if has(11) { Some(r.u8()?) } else { None },
        correlation_id: if has(10) { Some(short_bytes(r)?) } else { None },
        reply_to: if has(9) { Some(short_bytes(r)?) } else { None },
        expiration: if has(8) { Some(short_bytes(r)?) } else { None },
        message_id: if has(7) { Some(short_bytes(r)?) } else { None },
        timestamp: if has(6) { Some(r.u64()?) } else { None },
        kind: if has(5) { Some(short_bytes(r)?) } else { None },
        user_id: if has(4) { Some(short_bytes(r)?) } else { None },
        app_id: if has(3) { Some(short_bytes(r)?) } else { None },
        cluster_id: if has(2) { Some(short_bytes(r)?) } else { None },
    };
    if reader.left() > 0 {
        return Err(WireError::Properties);
    }
    Ok(props)
}

/// The properties with another reply-to, which must be there already.
#[must_use]
pub fn with_reply_to(raw: &[u8], props: &Props<'_>, reply_to: &str) -> Vec<u8> {
    let old = props.reply_to.unwrap_or_default();
    // The text lies in `raw`, behind its length: what stands before and behind the two is kept.
    let at = (old.as_ptr() as usize).saturating_sub(raw.as_ptr() as usize);
    let mut out = raw.get(..at.saturating_sub(1)).unwrap_or_default().to_vec();
    super::text::put_short(&mut out, reply_to);
    out.extend_from_slice(raw.get(at + old.len()..).unwrap_or_default());
    out
}

/// The properties with one more header, a whole number. One of that name that was there already goes.
///
/// # Errors
/// As [`read`], [`table::check`].
pub fn with_number(raw: &[u8], name: &str, value: i64) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::with_capacity(raw.len() + name.len() + 16);
    put_with_numbers(&mut out, raw, &[(name, value)])?;
    Ok(out)
}

/// Appends the properties with more headers, whole numbers, in place of those of their names; or nothing.
///
/// # Errors
/// As [`read`], [`table::check`].
pub fn put_with_numbers(out: &mut Vec<u8>, raw: &[u8], numbers: &[(&str, i64)]) -> Result<(), WireError> {
    const HEADERS: usize = 13;
    let (parts, from) = (parts(raw)?, out.len());
    out.extend_from_slice(&(parts.flags | 1 << HEADERS).to_be_bytes());
    for bit in (HEADERS + 1..16).rev() {
        out.extend_from_slice(parts.of(bit));
    }
    let mut copied = Ok(());
    table::put_sized(out, |out| {
        copied = copy_headers(out, parts.of(HEADERS).get(4..).unwrap_or_default(), numbers);
        for (name, value) in numbers {
            super::text::put_short(out, name);
            out.push(b'l');
            out.extend_from_slice(&value.to_be_bytes());
        }
    });
    for bit in (2..HEADERS).rev() {
        out.extend_from_slice(parts.of(bit));
    }
    if copied.is_err() {
        out.truncate(from);
    }
    copied
}

/// Appends the entries of a table but those of these names.
fn copy_headers(out: &mut Vec<u8>, entries: &[u8], without: &[(&str, i64)]) -> Result<(), WireError> {
    let mut reader = ByteReader::new(entries);
    while reader.left() > 0 {
        let rest = reader.clone().rest();
        let known = table::pass(&mut reader)?;
        if without.iter().all(|(name, _)| known != name.as_bytes()) {
            out.extend_from_slice(rest.get(..rest.len() - reader.left()).unwrap_or_default());
        }
    }
    Ok(())
}

/// Where each property lies.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The flags.
    pub flags: u16,
    /// The bytes of each, by its bit; empty where it is not there.
    bytes: [&'a [u8]; 16],
}

impl<'a> Parts<'a> {
    /// The bytes of the property with this bit, lengths included.
    #[must_use]
    pub fn of(&self, bit: usize) -> &'a [u8] {
        self.bytes.get(bit).copied().unwrap_or_default()
    }
}

/// Takes properties apart without reading them.
///
/// # Errors
/// As [`read`].
pub fn parts(bytes: &[u8]) -> Result<Parts<'_>, WireError> {
    let mut reader = ByteReader::new(bytes);
    let flags = reader.u16()?;
    let mut parts = Parts { flags, bytes: [&[]; 16] };
    for bit in (2..16).rev().filter(|bit| flags & (1 << bit) != 0) {
        let from = bytes.len() - reader.left();
        match bit {
            13 => drop(long(&mut reader)?),
            11 | 12 => drop(reader.u8()?),
            6 => drop(reader.u64()?),
            _ => drop(short_bytes(&mut reader)?),
        }
        let part = bytes.get(from..bytes.len() - reader.left()).unwrap_or_default();
        if let Some(place) = parts.bytes.get_mut(bit) {
            *place = part;
        }
    }
    Ok(parts)
}

/// Writes properties in their order, flags first. Give each in the order of the specification.
#[derive(Debug)]
pub struct PropsWriter<'a> {
    out: &'a mut Vec<u8>,
    flags_at: usize,
    flags: u16,
}

impl<'a> PropsWriter<'a> {
    /// Begins at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let flags_at = out.len();
        out.extend_from_slice(&[0; 2]);
        PropsWriter { out, flags_at, flags: 0 }
    }

    /// A short string, unless `None`.
    pub fn short(&mut self, bit: u16, text: Option<&str>) {
        if let Some(text) = text {
            super::text::put_short(self.out, text);
            self.flag(bit);
        }
    }

    /// Whatever `write` appends.
    pub fn other(&mut self, bit: u16, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.out);
        self.flag(bit);
    }

    fn flag(&mut self, bit: u16) {
        self.flags |= 1 << bit;
        if let Some(place) = self.out.get_mut(self.flags_at..self.flags_at + 2) {
            place.copy_from_slice(&self.flags.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_found_by_their_flags() {
        // content-type "a", headers {}, delivery-mode 2, timestamp 1
        let bytes = [0b1011_0000, 0b0100_0000, 1, b'a', 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1];
        let props = read(&bytes).unwrap();
        assert_eq!(props.content_type, Some(&b"a"[..]));
        assert_eq!(props.headers, Some(&b""[..]), "an empty table is not an absent one");
        assert_eq!(props.delivery_mode, Some(2));
        assert_eq!(props.timestamp, Some(1));
        assert_eq!(props.app_id, None);
    }

    #[test]
    fn only_the_reply_to_is_replaced() {
        let bytes = [0b0001_0010, 0b1000_0000, 2, 3, b'o', b'l', b'd', 1, b'm'];
        let made = with_reply_to(&bytes, &read(&bytes).unwrap(), "newer");
        let props = read(&made).unwrap();
        assert_eq!(props.reply_to, Some(&b"newer"[..]));
        assert_eq!((props.delivery_mode, props.message_id), (Some(2), Some(&b"m"[..])));
    }

    #[test]
    fn odd_flags_and_left_over_bytes_are_errors() {
        assert_eq!(read(&[0, 1]), Err(WireError::Properties));
        assert_eq!(read(&[0, 0, 9]), Err(WireError::Properties));
        assert!(read(&[0x80, 0, 5]).is_err());
    }

    #[test]
    fn a_header_is_added_and_all_else_kept() {
        let headers = [1, b'a', b't', 1, 1, b'n', b's', 0, 7];
        let mut raw = Vec::new();
        let mut writer = PropsWriter::new(&mut raw);
        writer.short(15, Some("text"));
        writer.other(13, |out| super::super::text::put_long(out, &headers));
        writer.other(12, |out| out.push(2));
        let made = with_number(&raw, "n", 5).unwrap();
        let props = read(&made).unwrap();
        assert_eq!((props.content_type, props.delivery_mode), (Some(&b"text"[..]), Some(2)));
        assert_eq!(props.headers, Some(&[1, b'a', b't', 1, 1, b'n', b'l', 0, 0, 0, 0, 0, 0, 0, 5][..]));
        let bare = with_number(&[0, 0], "n", 5).unwrap();
        assert_eq!(read(&bare).unwrap().headers.unwrap().len(), 11);
    }

    #[test]
    fn the_writer_sets_a_flag_for_each() {
        let mut out = Vec::new();
        let mut writer = PropsWriter::new(&mut out);
        writer.short(15, Some("a"));
        writer.short(14, None);
        writer.other(12, |out| out.push(2));
        let props = read(&out).unwrap();
        assert_eq!((props.content_type, props.delivery_mode), (Some(&b"a"[..]), Some(2)));
    }
}
