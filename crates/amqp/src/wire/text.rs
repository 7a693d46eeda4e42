//! Short and long strings.

use model::{ByteReader, ByteWriter};

use super::WireError;

/// A short string: one byte of length, UTF-8.
///
/// # Errors
/// [`WireError::ShortUtf8`] or too few bytes.
pub fn short<'a>(reader: &mut ByteReader<'a>) -> Result<&'a str, WireError> {
    let bytes = short_bytes(reader)?;
    std::str::from_utf8(bytes).map_err(|_| WireError::ShortUtf8)
}

/// A short string's bytes.
///
/// # Errors
/// Too few bytes.
pub fn short_bytes<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8], WireError> {
    let length = reader.u8()?;
    Ok(reader.take(usize::from(length))?)
}

/// A long string: four bytes of length, any bytes.
///
/// # Errors
/// Too few bytes.
pub fn long<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8], WireError> {
    let length = reader.u32()?;
    let count = reader.count(i64::from(length), 1)?;
    Ok(reader.take(count)?)
}

/// Writes a short string; what exceeds 255 bytes is cut between characters.
pub fn put_short(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(255);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.push(end as u8);
    out.extend_from_slice(text.as_bytes().get(..end).unwrap_or_default());
}

/// Writes a long string. Callers hold no more than messages do: far below 4 GiB.
pub fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut writer = ByteWriter::new(out);
    writer.u32(bytes.len() as u32);
    writer.bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_back_and_bounded_by_what_is_there() {
        let mut out = Vec::new();
        put_short(&mut out, "é");
        put_long(&mut out, b"\xff");
        let mut reader = ByteReader::new(&out);
        assert_eq!(short(&mut reader), Ok("é"));
        assert_eq!(long(&mut reader), Ok(&b"\xff"[..]));
        assert_eq!(short(&mut ByteReader::new(&[1, 0xff])), Err(WireError::ShortUtf8));
        assert!(long(&mut ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 1])).is_err());
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut out = Vec::new();
        put_short(&mut out, &"é".repeat(200));
        assert_eq!(out[0], 254);
        assert_eq!(short(&mut ByteReader::new(&out)), Ok("é".repeat(127).as_str()));
    }
}
