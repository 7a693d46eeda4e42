//! The protocol's primitive types: fixed numbers, text, bytes, arrays, record data; classic and compact lengths.

use std::borrow::Cow;

use broker::Piece;
use bytes::Bytes;
use model::{ByteReader, ReadError};

use super::{Form, Sink, Wire};

/// Text, borrowed from the frame where it came from one.
pub(crate) type Text<'a> = Cow<'a, str>;

/// Bytes, borrowed from the frame where they came from one.
pub(crate) type Blob<'a> = Cow<'a, [u8]>;

/// A UUID; all zeros where there is none.
pub(crate) type Uuid = [u8; 16];

/// Record data as a producer sent it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct RawRecords<'a>(pub &'a [u8]);

/// Record data for a reader: stored pieces, not copied.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Pieces(pub Vec<Piece>);

/// Elements to reserve memory for at once, whatever count was claimed (and checked): a long list grows as it is read.
const RESERVE_COUNT_MAX: usize = 256;

/// The most elements of one list: far more than any client has partitions, and no longer to go through than a turn may
/// take.
const LIST_COUNT_MAX: usize = 1_000_000;

macro_rules! fixed {
    ($($type:ident)*) => {$(
        impl Wire<'_> for $type {
            const BYTES_MIN: usize = size_of::<$type>();

            fn read(reader: &mut ByteReader<'_>, _: Form) -> Result<Self, ReadError> {
                reader.$type()
            }

            fn write(&self, sink: &mut Sink, _: Form) {
                sink.writer().$type(*self);
            }
        }
    )*};
}
fixed! { i8 i16 i32 i64 }

impl Wire<'_> for bool {
    const BYTES_MIN: usize = 1;

    fn read(reader: &mut ByteReader<'_>, _: Form) -> Result<Self, ReadError> {
        Ok(reader.u8()? != 0)
    }

    fn write(&self, sink: &mut Sink, _: Form) {
        sink.writer().u8(u8::from(*self));
    }
}

impl Wire<'_> for Uuid {
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut ByteReader<'_>, _: Form) -> Result<Self, ReadError> {
        reader.id()
    }

    fn write(&self, sink: &mut Sink, _: Form) {
        sink.writer().bytes(self);
    }
}

/// A value with its length before it.
trait Lengthy<'a>: Sized {
    /// Its classic length takes two bytes, not four.
    const SHORT: bool;

    /// Reads the body of the length found.
    fn read_body(reader: &mut ByteReader<'a>, length: i64, form: Form) -> Result<Self, ReadError>;

    /// The length to write.
    fn length(&self, form: Form) -> usize;

    /// Writes the body.
    fn write_body(&self, sink: &mut Sink, form: Form);
}

/// −1 is null.
fn read_length(reader: &mut ByteReader<'_>, form: Form, short: bool) -> Result<i64, ReadError> {
    match (form.flexible, short) {
        (true, _) => Ok(i64::from(reader.uvarint()?) - 1),
        (false, true) => reader.i16().map(i64::from),
        (false, false) => reader.i32().map(i64::from),
    }
}

fn write_length(sink: &mut Sink, length: Option<usize>, form: Form, short: bool) {
    let mut writer = sink.writer();
    match (form.flexible, short) {
        (true, _) => writer.uvarint(length.map_or(0, |length| length as u32 + 1)),
        (false, true) => writer.i16(length.map_or(-1, |length| length as i16)),
        (false, false) => writer.i32(length.map_or(-1, |length| length as i32)),
    }
}

fn read_some<'a, T: Lengthy<'a>>(reader: &mut ByteReader<'a>, form: Form) -> Result<T, ReadError> {
    let length = read_length(reader, form, T::SHORT)?;
    if length < 0 {
        return Err(ReadError::Length(length));
    }
    T::read_body(reader, length, form)
}

fn write_some<'a, T: Lengthy<'a>>(value: &T, sink: &mut Sink, form: Form) {
    write_length(sink, Some(value.length(form)), form, T::SHORT);
    value.write_body(sink, form);
}

impl<'a, T: Lengthy<'a>> Wire<'a> for Option<T> {
    const BYTES_MIN: usize = 1;

    fn read(reader: &mut ByteReader<'a>, form: Form) -> Result<Self, ReadError> {
        let length = read_length(reader, form, T::SHORT)?;
        if length == -1 && form.nullable {
            return Ok(None);
        }
        if length < 0 {
            return Err(ReadError::Length(length));
        }
        T::read_body(reader, length, form).map(Some)
    }

    fn write(&self, sink: &mut Sink, form: Form) {
        match self {
            Some(value) => write_some(value, sink, form),
            None if form.nullable => write_length(sink, None, form, T::SHORT),
            None => write_length(sink, Some(0), form, T::SHORT),
        }
    }
}

macro_rules! lengthy {
    ($($type:ty;)*) => {$(
        impl<'a> Wire<'a> for $type {
            const BYTES_MIN: usize = 1;

            fn read(reader: &mut ByteReader<'a>, form: Form) -> Result<Self, ReadError> {
                read_some(reader, form)
            }

            fn write(&self, sink: &mut Sink, form: Form) {
                write_some(self, sink, form);
            }
        }
    )*};
}
lengthy! { Text<'a>; Blob<'a>; RawRecords<'a>; Pieces; }

/// What of a text can be told: its classic length has no more than two bytes, the compact one of whoever sent it had.
fn writable<'t>(text: &'t Text<'_>, form: Form) -> &'t str {
    if form.flexible { text } else { &text[..text.floor_char_boundary(i16::MAX as usize)] }
}

impl<'a> Lengthy<'a> for Text<'a> {
    const SHORT: bool = true;

    fn read_body(reader: &mut ByteReader<'a>, length: i64, _: Form) -> Result<Self, ReadError> {
        let count = reader.count(length, 1)?;
        reader.text(count).map(Cow::Borrowed)
    }

    fn length(&self, form: Form) -> usize {
        writable(self, form).len()
    }

    fn write_body(&self, sink: &mut Sink, form: Form) {
        sink.writer().bytes(writable(self, form).as_bytes());
    }
}

impl<'a> Lengthy<'a> for Blob<'a> {
    const SHORT: bool = false;

    fn read_body(reader: &mut ByteReader<'a>, length: i64, _: Form) -> Result<Self, ReadError> {
        let count = reader.count(length, 1)?;
        reader.take(count).map(Cow::Borrowed)
    }

    fn length(&self, _: Form) -> usize {
        self.len()
    }

    fn write_body(&self, sink: &mut Sink, _: Form) {
        sink.writer().bytes(self);
    }
}

impl<'a> Lengthy<'a> for RawRecords<'a> {
    const SHORT: bool = false;

    fn read_body(reader: &mut ByteReader<'a>, length: i64, _: Form) -> Result<Self, ReadError> {
        let count = reader.count(length, 1)?;
        reader.take(count).map(RawRecords)
    }

    fn length(&self, _: Form) -> usize {
        self.0.len()
    }

    fn write_body(&self, sink: &mut Sink, _: Form) {
        sink.writer().bytes(self.0);
    }
}

#[cfg(test)]
impl Pieces {
    /// All of them, from memory.
    pub fn bytes(&self) -> Vec<u8> {
        let in_memory = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.to_vec(),
            Piece::File(range) => range.read().unwrap().to_vec(),
        };
        self.0.iter().flat_map(in_memory).collect()
    }
}

impl<'a> Lengthy<'a> for Pieces {
    const SHORT: bool = false;

    fn read_body(reader: &mut ByteReader<'a>, length: i64, _: Form) -> Result<Self, ReadError> {
        let count = reader.count(length, 1)?;
        let bytes = reader.take(count)?;
        Ok(Pieces(if bytes.is_empty() { Vec::new() } else { vec![Piece::Bytes(Bytes::copy_from_slice(bytes))] }))
    }

    fn length(&self, _: Form) -> usize {
        self.0.iter().map(Piece::len).sum()
    }

    fn write_body(&self, sink: &mut Sink, _: Form) {
        for piece in &self.0 {
            sink.share(piece);
        }
    }
}

impl<'a, T: Wire<'a>> Lengthy<'a> for Vec<T> {
    const SHORT: bool = false;

    fn read_body(reader: &mut ByteReader<'a>, length: i64, form: Form) -> Result<Self, ReadError> {
        let count = reader.count(length, T::BYTES_MIN)?;
        if count > LIST_COUNT_MAX {
            return Err(ReadError::Length(length));
        }
        let mut elements = Vec::with_capacity(count.min(RESERVE_COUNT_MAX));
        for _ in 0..count {
            elements.push(T::read(reader, Form { nullable: false, ..form })?);
        }
        Ok(elements)
    }

    fn length(&self, _: Form) -> usize {
        self.len()
    }

    fn write_body(&self, sink: &mut Sink, form: Form) {
        for element in self {
            element.write(sink, Form { nullable: false, ..form });
        }
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Vec<T> {
    const BYTES_MIN: usize = 1;

    fn read(reader: &mut ByteReader<'a>, form: Form) -> Result<Self, ReadError> {
        read_some(reader, form)
    }

    fn write(&self, sink: &mut Sink, form: Form) {
        write_some(self, sink, form);
    }
}
