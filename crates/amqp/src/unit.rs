//! The AMQP unit: one published message as stored. [`FormatTag`] 2, its layout fixed for ever (see FORMAT.md):
//!
//! | bytes | field |
//! |---|---|
//! | 4 | length of all that follows |
//! | 1 | flags: bit 0 = persistent; bit 1 = a dead letter; bits 6–7 = layout, 0; the others 0 |
//! | 0 or 1 | of a dead letter: how many entries of x-death, from the front, the broker wrote since it was published |
//! | 8 | when it was published, wall milliseconds, signed |
//! | 1 + n | exchange it was published to; empty for the default exchange |
//! | 1 + n | routing key |
//! | 4 + n | content properties exactly as received: flags, then values |
//! | rest | body |
//!
//! All numbers are big-endian. The unit delimits itself; units lie back to back. The channel builds it in place while
//! frames arrive ([`UnitBuilder`]); readers borrow from it ([`Unit`]). Conversion to the neutral form is `format.rs`.

use model::{ByteReader, FormatError, FormatTag, Wall};

use crate::wire::props::{self, Props};
use crate::wire::table::seconds;

/// The tag of these units.
pub const TAG: FormatTag = FormatTag(2);

const PERSISTENT: u8 = 1;
const DEAD: u8 = 2;

/// A stored message, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// Asked to survive a restart.
    pub persistent: bool,
    /// How many of the deaths in its headers, from the front, are the broker's own word.
    pub deaths: u8,
    /// When it was published.
    pub published: Wall,
    /// The exchange.
    pub exchange: &'a str,
    /// The routing key.
    pub key: &'a str,
    /// Properties as received, flags first.
    pub props: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// A layout newer than this program, or not a unit at all.
const MALFORMED: FormatError = FormatError::Malformed("not an AMQP unit");

impl<'a> Unit<'a> {
    /// No properties, no body.
    pub const EMPTY: Unit<'static> =
        Unit { persistent: false, deaths: 0, published: Wall(0), exchange: "", key: "", props: &[0, 0], body: &[] };

    /// Reads the first unit of `bytes`; answers its whole length too.
    ///
    /// # Errors
    /// [`FormatError::Malformed`].
    pub fn first(bytes: &'a [u8]) -> Result<(Unit<'a>, usize), FormatError> {
        let mut reader = ByteReader::new(bytes);
        let unit = Unit::read(&mut reader).ok_or(MALFORMED)?;
        Ok((unit, bytes.len() - reader.left()))
    }

    fn read(reader: &mut ByteReader<'a>) -> Option<Unit<'a>> {
        let length = reader.u32().ok()? as usize;
        let mut fields = ByteReader::new(reader.take(length).ok()?);
        let flags = fields.u8().ok()?;
        if flags & !(PERSISTENT | DEAD) != 0 {
            return None;
        }
        let deaths = if flags & DEAD != 0 { fields.u8().ok()? } else { 0 };
        let published = Wall(fields.i64().ok()?);
        let count = fields.u8().ok()?;
        let exchange = fields.text(count.into()).ok()?;
        let count = fields.u8().ok()?;
        let key = fields.text(count.into()).ok()?;
        let count = fields.u32().ok()? as usize;
        let props = fields.take(count).ok()?;
        let body = fields.rest();
        Some(Unit { persistent: flags & PERSISTENT != 0, deaths, published, exchange, key, props, body })
    }

    /// Writes when it was published into a whole unit.
    pub fn restamp(unit: &mut [u8], published: Wall) {
        let dead = unit.get(4).is_some_and(|flags| flags & DEAD != 0);
        let at = 5 + usize::from(dead);
        if let Some(place) = unit.get_mut(at..at + 8) {
            place.copy_from_slice(&published.0.to_be_bytes());
        }
    }

    /// The length of the first unit of `bytes`, without reading it.
    ///
    /// # Errors
    /// [`FormatError::Malformed`] when it is not whole.
    pub fn length(bytes: &[u8]) -> Result<usize, FormatError> {
        let mut reader = ByteReader::new(bytes);
        let length = reader.u32().map_err(|_| MALFORMED)? as usize;
        reader.take(length).map_err(|_| MALFORMED)?;
        Ok(4 + length)
    }

    /// The properties, found.
    ///
    /// # Errors
    /// [`FormatError::Malformed`].
    pub fn properties(&self) -> Result<Props<'a>, FormatError> {
        props::read(self.props).map_err(|_| FormatError::Malformed("properties of an AMQP unit"))
    }

    /// When the writer made it: its timestamp, else when it was published.
    #[must_use]
    pub fn created(&self, props: &Props<'_>) -> Wall {
        props.timestamp.map_or(self.published, seconds)
    }
}

/// A unit in the making, in memory that is used again for the next one.
#[derive(Debug, Default)]
pub struct UnitBuilder {
    bytes: Vec<u8>,
}

/// Length, flags, time: what stands before the exchange.
const EXCHANGE_AT: usize = 4 + 1 + 8;

impl UnitBuilder {
    /// Begins a unit. Short strings are at most 255 bytes long; what exceeds them is an error of the caller and cut.
    pub fn begin(&mut self, exchange: &str, key: &str) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; EXCHANGE_AT]);
        debug_assert!(exchange.len() <= 255 && key.len() <= 255);
        crate::wire::text::put_short(&mut self.bytes, exchange);
        crate::wire::text::put_short(&mut self.bytes, key);
    }

    /// The exchange it was begun with.
    #[must_use]
    pub fn exchange(&self) -> &str {
        self.short_at(EXCHANGE_AT)
    }

    /// The routing key it was begun with.
    #[must_use]
    pub fn key(&self) -> &str {
        self.short_at(EXCHANGE_AT + 1 + self.exchange().len())
    }

    fn short_at(&self, at: usize) -> &str {
        let length = self.bytes.get(at).map_or(0, |length| usize::from(*length));
        let text = self.bytes.get(at + 1..at + 1 + length).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// The properties, flags first.
    pub fn props(&mut self, props: &[u8]) {
        crate::wire::text::put_long(&mut self.bytes, props);
    }

    /// A piece of the body.
    pub fn body(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// It is a dead letter: so many of the deaths in its headers, from the front, are the broker's own word.
    pub fn deaths(&mut self, count: u8) {
        if let Some(flags) = self.bytes.get_mut(4) {
            *flags |= DEAD;
            self.bytes.insert(5, count);
        }
    }

    /// Fills in what is known at the end.
    pub fn finish(&mut self, persistent: bool, published: Wall) {
        let length = (self.bytes.len() - 4) as u32;
        if let Some(head) = self.bytes.first_chunk_mut::<{ EXCHANGE_AT + 1 }>() {
            head[..4].copy_from_slice(&length.to_be_bytes());
            head[4] = head[4] & DEAD | u8::from(persistent);
            let time_at = 5 + usize::from(head[4] & DEAD != 0);
            head[time_at..time_at + 8].copy_from_slice(&published.0.to_be_bytes());
        }
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The bytes; a unit after [`UnitBuilder::finish`].
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, given away.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Gives memory back when the last message was large.
    pub fn shrink(&mut self, bytes_max: usize) {
        if self.bytes.capacity() > bytes_max {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_read_back_as_built() {
        let mut builder = UnitBuilder::default();
        builder.begin("x", "key");
        builder.props(&[0x10, 0, 2]);
        builder.body(b"bo");
        builder.body(b"dy");
        builder.finish(true, Wall(77));
        assert_eq!(
            builder.bytes(),
            b"\x00\x00\x00\x1a\x01\x00\x00\x00\x00\x00\x00\x00\x4d\x01x\x03key\x00\x00\x00\x03\x10\x00\x02body",
            "the layout is fixed for ever"
        );
        let (unit, length) = Unit::first(builder.bytes()).unwrap();
        assert_eq!(length, builder.bytes().len());
        assert_eq!((unit.persistent, unit.published, unit.exchange, unit.key), (true, Wall(77), "x", "key"));
        assert_eq!((unit.props, unit.body), (&[0x10, 0, 2][..], &b"body"[..]));
        for end in 0..length {
            assert!(Unit::first(&builder.bytes()[..end]).is_err());
            assert!(Unit::length(&builder.bytes()[..end]).is_err());
        }
    }

    #[test]
    fn an_unknown_layout_is_refused() {
        let mut builder = UnitBuilder::default();
        builder.begin("", "");
        builder.props(&[0, 0]);
        builder.finish(false, Wall(0));
        let mut bytes = builder.bytes().to_vec();
        assert!(Unit::first(&bytes).is_ok());
        bytes[4] = 0x40;
        assert!(Unit::first(&bytes).is_err());
    }
}
