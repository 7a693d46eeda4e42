//! Field tables, with every type letter RabbitMQ knows: walked without memory on the hot path, read into neutral
//! headers and written from them where somebody wants to see.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::{ByteReader, ByteWriter, Header, HeaderValue, Wall};

use super::WireError;
use super::text::{long, put_long, put_short, short, short_bytes};
use crate::config::TABLE_DEPTH_MAX;

/// A table's bytes, without its length.
///
/// # Errors
/// Too few bytes.
pub fn body<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8], WireError> {
    long(reader)
}

/// Walks a table's bytes to their end, calling `visit` with each name and type letter of the first level.
///
/// # Errors
/// [`WireError`] when anything in it is malformed.
pub fn check<'a>(table: &'a [u8], mut visit: impl FnMut(&'a [u8], u8)) -> Result<(), WireError> {
    let mut reader = ByteReader::new(table);
    while reader.left() > 0 {
        let name = short_bytes(&mut reader)?;
        let letter = reader.u8()?;
        visit(name, letter);
        skip(&mut reader, letter, 1)?;
    }
    Ok(())
}

/// Passes over one field; answers its name.
///
/// # Errors
/// As [`check`].
pub fn pass<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8], WireError> {
    let name = short_bytes(reader)?;
    let letter = reader.u8()?;
    skip(reader, letter, 1)?;
    Ok(name)
}

/// Skips one value with its letter.
///
/// # Errors
/// As [`check`].
pub fn skip_value(reader: &mut ByteReader<'_>) -> Result<(), WireError> {
    let letter = reader.u8()?;
    skip(reader, letter, 1)
}

fn skip(reader: &mut ByteReader<'_>, letter: u8, depth: usize) -> Result<(), WireError> {
    let bytes = match letter {
        b'V' => 0,
        b't' | b'b' | b'B' => 1,
        b's' | b'u' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 5,
        b'l' | b'L' | b'd' | b'T' => 8,
        b'S' | b'x' => return long(reader).map(|_| ()),
        b'F' => return skip_nested(long(reader)?, depth, true),
        b'A' => return skip_nested(long(reader)?, depth, false),
        other => return Err(WireError::Letter(other)),
    };
    reader.take(bytes)?;
    Ok(())
}

fn skip_nested(bytes: &[u8], depth: usize, named: bool) -> Result<(), WireError> {
    if depth >= TABLE_DEPTH_MAX {
        return Err(WireError::Depth);
    }
    let mut reader = ByteReader::new(bytes);
    while reader.left() > 0 {
        if named {
            short_bytes(&mut reader)?;
        }
        let letter = reader.u8()?;
        skip(&mut reader, letter, depth + 1)?;
    }
    Ok(())
}

/// Reads a table's bytes.
///
/// # Errors
/// As [`check`], and [`WireError::ShortUtf8`] for a name that is not text.
pub fn read(table: &[u8]) -> Result<Vec<Header>, WireError> {
    read_table(table, 0)
}

fn read_table(table: &[u8], depth: usize) -> Result<Vec<Header>, WireError> {
    if depth >= TABLE_DEPTH_MAX {
        return Err(WireError::Depth);
    }
    let mut reader = ByteReader::new(table);
    let mut headers = Vec::new();
    while reader.left() > 0 {
        let name = short(&mut reader)?.to_owned();
        headers.push(Header { name, value: read_value(&mut reader, depth)? });
    }
    Ok(headers)
}

fn read_list(bytes: &[u8], depth: usize) -> Result<Vec<HeaderValue>, WireError> {
    if depth >= TABLE_DEPTH_MAX {
        return Err(WireError::Depth);
    }
    let mut reader = ByteReader::new(bytes);
    let mut values = Vec::new();
    while reader.left() > 0 {
        values.push(read_value(&mut reader, depth)?);
    }
    Ok(values)
}

fn read_value(reader: &mut ByteReader<'_>, depth: usize) -> Result<HeaderValue, WireError> {
    let letter = reader.u8()?;
    Ok(match letter {
        b'V' => HeaderValue::Null,
        b't' => HeaderValue::Bool(reader.u8()? != 0),
        b'b' => HeaderValue::Int(reader.i8()?.into()),
        b'B' => HeaderValue::Int(reader.u8()?.into()),
        b's' => HeaderValue::Int(reader.i16()?.into()),
        b'u' => HeaderValue::Int(reader.u16()?.into()),
        b'I' => HeaderValue::Int(reader.i32()?.into()),
        b'i' => HeaderValue::Int(reader.u32()?.into()),
        b'l' | b'L' => HeaderValue::Int(reader.i64()?),
        b'f' => HeaderValue::Float(reader.f32()?.into()),
        b'd' => HeaderValue::Float(reader.f64()?),
        b'D' => {
            let scale = reader.u8()?;
            HeaderValue::Float(f64::from(reader.u32()?) / 10f64.powi(scale.into()))
        }
        b'T' => HeaderValue::Time(seconds(reader.u64()?)),
        b'S' => {
            let bytes = long(reader)?;
            match std::str::from_utf8(bytes) {
                Ok(text) => HeaderValue::Text(text.to_owned()),
                Err(_) => HeaderValue::Bytes(Bytes::copy_from_slice(bytes)),
            }
        }
        b'x' => HeaderValue::Bytes(Bytes::copy_from_slice(long(reader)?)),
        b'F' => HeaderValue::Table(read_table(long(reader)?, depth + 1)?),
        b'A' => HeaderValue::List(read_list(long(reader)?, depth + 1)?),
        other => return Err(WireError::Letter(other)),
    })
}

/// The word for the type of a value that came without a letter, as refusals say it.
#[must_use]
pub fn type_name(value: &HeaderValue) -> &'static str {
    type_of(match value {
        HeaderValue::Null => b'V',
        HeaderValue::Bool(_) => b't',
        HeaderValue::Int(_) => b'l',
        HeaderValue::Float(_) => b'd',
        HeaderValue::Text(_) => b'S',
        HeaderValue::Bytes(_) => b'x',
        HeaderValue::Time(_) => b'T',
        HeaderValue::List(_) => b'A',
        HeaderValue::Table(_) => b'F',
    })
}

/// The word for the type of values with this letter, as refusals say it.
#[must_use]
pub fn type_of(letter: u8) -> &'static str {
    match letter {
        b't' => "bool",
        b'b' => "byte",
        b'B' => "unsignedbyte",
        b's' => "short",
        b'u' => "unsignedshort",
        b'I' => "signedint",
        b'i' => "unsignedint",
        b'l' | b'L' => "long",
        b'f' => "float",
        b'd' => "double",
        b'D' => "decimal",
        b'T' => "timestamp",
        b'S' => "longstr",
        b'x' => "binary",
        b'A' => "array",
        b'F' => "table",
        _ => "void",
    }
}

/// The words for the types of a table's values, by their names.
pub type Types<'a> = BTreeMap<&'a [u8], &'static str>;

/// The word for the type of one value of those.
#[must_use]
pub fn type_in(types: &Types<'_>, header: &Header) -> &'static str {
    types.get(header.name.as_bytes()).copied().unwrap_or_else(|| type_name(&header.value))
}

/// The words for the types of a table's values.
///
/// # Errors
/// As [`check`].
pub fn types(table: &[u8]) -> Result<Types<'_>, WireError> {
    let mut types = BTreeMap::new();
    check(table, |name, letter| {
        types.entry(name).or_insert(type_of(letter));
    })?;
    Ok(types)
}

/// A moment in whole seconds as milliseconds.
#[must_use]
pub fn seconds(seconds: u64) -> Wall {
    Wall(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000))
}

/// Writes a table with its length.
pub fn put<'h>(out: &mut Vec<u8>, headers: impl IntoIterator<Item = &'h Header>) {
    put_sized(out, |out| {
        for header in headers {
            put_field(out, header);
        }
    });
}

/// Writes one field: its name and its value with its letter.
pub fn put_field(out: &mut Vec<u8>, header: &Header) {
    put_short(out, &header.name);
    put_value(out, &header.value);
}

/// Writes what `write` appends with its length before it.
pub fn put_sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let size = (out.len() - at - 4) as u32;
    ByteWriter::new(out).patch_u32(at, size);
}

/// Writes a value with its letter.
fn put_value(out: &mut Vec<u8>, value: &HeaderValue) {
    match value {
        HeaderValue::Null => out.push(b'V'),
        HeaderValue::Bool(value) => out.extend_from_slice(&[b't', u8::from(*value)]),
        HeaderValue::Int(value) => put_eight(out, b'l', value.to_be_bytes()),
        HeaderValue::Float(value) => put_eight(out, b'd', value.to_be_bytes()),
        HeaderValue::Time(value) => put_eight(out, b'T', (value.0.div_euclid(1000).max(0)).to_be_bytes()),
        HeaderValue::Text(text) => {
            out.push(b'S');
            put_long(out, text.as_bytes());
        }
        HeaderValue::Bytes(bytes) => {
            // Tongues that have only bytes mostly mean text; clients here show long strings as text.
            out.push(if std::str::from_utf8(bytes).is_ok() { b'S' } else { b'x' });
            put_long(out, bytes);
        }
        HeaderValue::List(values) => {
            out.push(b'A');
            put_sized(out, |out| values.iter().for_each(|value| put_value(out, value)));
        }
        HeaderValue::Table(headers) => {
            out.push(b'F');
            put(out, headers);
        }
    }
}

fn put_eight(out: &mut Vec<u8>, letter: u8, bytes: [u8; 8]) {
    out.push(letter);
    out.extend_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(letter: u8, value: &[u8]) -> Vec<u8> {
        [&[1, b'k', letter][..], value].concat()
    }

    #[test]
    fn every_letter_of_rabbitmq_is_read() {
        let cases: [(u8, &[u8], HeaderValue); 18] = [
            (b'S', &[0, 0, 0, 1, b'v'], HeaderValue::Text("v".into())),
            (b'I', &[0xff, 0xff, 0xff, 0xff], HeaderValue::Int(-1)),
            (b'i', &[0xff, 0xff, 0xff, 0xff], HeaderValue::Int(4_294_967_295)),
            (b'l', &[0xff; 8], HeaderValue::Int(-1)),
            (b'L', &[0, 0, 0, 0, 0, 0, 0, 2], HeaderValue::Int(2)),
            (b's', &[0xff, 0xfe], HeaderValue::Int(-2)),
            (b'u', &[0xff, 0xfe], HeaderValue::Int(65534)),
            (b'b', &[0xff], HeaderValue::Int(-1)),
            (b'B', &[0xff], HeaderValue::Int(255)),
            (b't', &[1], HeaderValue::Bool(true)),
            (b'd', &1.5f64.to_be_bytes(), HeaderValue::Float(1.5)),
            (b'f', &1.5f32.to_be_bytes(), HeaderValue::Float(1.5)),
            (b'D', &[2, 0, 0, 0, 150], HeaderValue::Float(1.5)),
            (b'T', &[0, 0, 0, 0, 0, 0, 0, 9], HeaderValue::Time(Wall(9000))),
            (b'F', &[0, 0, 0, 0], HeaderValue::Table(vec![])),
            (b'A', &[0, 0, 0, 1, b'V'], HeaderValue::List(vec![HeaderValue::Null])),
            (b'x', &[0, 0, 0, 1, 7], HeaderValue::Bytes(Bytes::from_static(&[7]))),
            (b'V', &[], HeaderValue::Null),
        ];
        for (letter, bytes, value) in cases {
            let table = field(letter, bytes);
            assert_eq!(read(&table), Ok(vec![Header { name: "k".into(), value }]), "letter {}", letter as char);
            let mut seen = Vec::new();
            check(&table, |name, letter| seen.push((name.to_vec(), letter))).unwrap();
            assert_eq!(seen, [(b"k".to_vec(), letter)]);
        }
    }

    #[test]
    fn an_unknown_letter_is_an_error() {
        assert_eq!(read(&field(b'z', &[])), Err(WireError::Letter(b'z')));
        assert_eq!(check(&field(b'z', &[]), |_, _| ()), Err(WireError::Letter(b'z')));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut table = Vec::new();
        for _ in 0..1000 {
            let mut outer = vec![0, b'F'];
            put_long(&mut outer, &table);
            table = outer;
        }
        assert_eq!(read(&table), Err(WireError::Depth));
        assert_eq!(check(&table, |_, _| ()), Err(WireError::Depth));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let headers = vec![
            Header { name: "a".into(), value: HeaderValue::Int(-5) },
            Header {
                name: "b".into(),
                value: HeaderValue::List(vec![
                    HeaderValue::Table(vec![Header { name: "c".into(), value: HeaderValue::Float(0.5) }]),
                    HeaderValue::Time(Wall(5000)),
                ]),
            },
            Header { name: "d".into(), value: HeaderValue::Bytes(Bytes::from_static(&[0xff])) },
        ];
        let mut out = Vec::new();
        put(&mut out, &headers);
        assert_eq!(read(long(&mut ByteReader::new(&out)).unwrap()), Ok(headers));
    }
}
