//! What lies in a bucket: a message's unit and what is needed to publish it when it is due.
//!
//! ```text
//! length(u32, of all that follows)  version=2  due(i64)  time(i64)  log(u64) offset(u64)  of where it was put first
//! number(u64)  of the exchange, if it is a delayed one
//! persistent(u8)  format(u8)  tenant exchange key(u8 + n each)  more keys(u32, {u32 + n})  the unit
//! ```

use model::format::{Visit, VisitUnit};
use model::{ByteReader, ByteWriter, Format, FormatError, FormatTag, LogId, Message, Offset, ReadError, UnitAt, Wall};

use super::DelayId;
use crate::routing::PublishRequest;

const VERSION: u8 = 2;

/// As above, but more keys(u8, {u8 + n}).
const SHORT_KEYS: u8 = 1;

/// The tag of units in buckets. No tongue reads them.
const TAG: FormatTag = FormatTag(255);

/// A delayed message, borrowed.
pub(super) struct Envelope<'a> {
    pub(super) id: DelayId,
    /// Of its exchange.
    pub(super) number: u64,
    pub(super) time: Wall,
    pub(super) persistent: bool,
    pub(super) format: FormatTag,
    pub(super) tenant: &'a str,
    pub(super) exchange: &'a str,
    pub(super) key: &'a str,
    pub(super) more_keys: Vec<&'a str>,
    pub(super) unit: &'a [u8],
}

/// Puts `request` into `out`, to be published at `id.due` if its exchange still has that number.
pub(super) fn put(request: &PublishRequest<'_>, (id, number): (DelayId, u64), out: &mut Vec<u8>) {
    let at = out.len();
    let mut writer = ByteWriter::new(out);
    writer.u32(0);
    writer.u8(VERSION);
    writer.i64(id.due.0);
    writer.i64(request.time.0);
    writer.i64(id.log.0 as i64);
    writer.i64(id.offset as i64);
    writer.i64(number as i64);
    writer.u8(u8::from(request.persistent));
    writer.u8(request.format.tag().0);
    let mut text = |text: &str| {
        writer.u8(text.len().min(255) as u8);
        writer.bytes(text.as_bytes().get(..text.len().min(255)).unwrap_or_default());
    };
    [request.tenant, request.exchange, request.key].into_iter().for_each(&mut text);
    writer.u32(request.more_keys.len() as u32);
    for key in request.more_keys {
        writer.u32(key.len() as u32);
        writer.bytes(key.as_bytes());
    }
    writer.bytes(request.unit);
    let length = (writer.position() - at - 4) as u32;
    writer.patch_u32(at, length);
}

impl<'a> Envelope<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Envelope<'a>, ReadError> {
        let mut reader = ByteReader::new(bytes);
        let length = reader.u32()? as usize;
        let mut r = ByteReader::new(reader.take(length)?);
        let version = r.u8()?;
        if version != VERSION && version != SHORT_KEYS {
            return Err(ReadError::Length(0));
        }
        let (due, time) = (Wall(r.i64()?), Wall(r.i64()?));
        let id = DelayId { due, log: LogId(r.i64()? as u64), offset: r.i64()? as u64 };
        let number = r.i64()? as u64;
        let (persistent, format) = (r.u8()? != 0, FormatTag(r.u8()?));
        let tenant = short(&mut r)?;
        let (exchange, key) = (short(&mut r)?, short(&mut r)?);
        let count = if version == SHORT_KEYS { u32::from(r.u8()?) } else { r.u32()? };
        let mut more_keys = Vec::new();
        for _ in 0..count {
            let length = if version == SHORT_KEYS { usize::from(r.u8()?) } else { r.u32()? as usize };
            more_keys.push(r.text(length)?);
        }
        Ok(Envelope { id, number, time, persistent, format, tenant, exchange, key, more_keys, unit: r.rest() })
    }
}

fn short<'a>(reader: &mut ByteReader<'a>) -> Result<&'a str, ReadError> {
    let count = reader.u8()?;
    reader.text(count.into())
}

/// The format of envelopes.
pub(super) struct Envelopes;

impl Format for Envelopes {
    fn tag(&self) -> FormatTag {
        TAG
    }

    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError> {
        let (mut at, mut first) = (0, base);
        while at < units.len() {
            let rest = units.get(at..).unwrap_or_default();
            let mut reader = ByteReader::new(rest);
            let length = reader.u32().map_err(|_| FormatError::Malformed("a delayed message"))? as usize;
            reader.take(length).map_err(|_| FormatError::Malformed("a delayed message"))?;
            if visit(UnitAt { first, count: 1, at, bytes: 4 + length }).is_break() {
                break;
            }
            at += 4 + length;
            first = first.plus(1);
        }
        Ok(())
    }

    fn open(&self, _units: &bytes::Bytes, _base: Offset, _visit: &mut Visit<'_>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("a delayed message is read by nobody before it is due"))
    }

    fn build(&self, _messages: &[(Offset, Message)], _out: &mut Vec<u8>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("a delayed message is not built from a message"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_of_the_first_version_is_still_read() {
        let mut bytes = vec![0, 0, 0, 0, SHORT_KEYS];
        for number in [7_i64, 8, 9, 10, 11] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&[1, 2, 1, b't', 1, b'e', 1, b'k', 2, 1, b'a', 2, b'b', b'c', b'u']);
        bytes[3] = bytes.len() as u8 - 4;
        let envelope = Envelope::read(&bytes).unwrap();
        assert_eq!((envelope.id.due, envelope.number, envelope.time), (Wall(7), 11, Wall(8)));
        assert_eq!((envelope.tenant, envelope.exchange, envelope.key), ("t", "e", "k"));
        assert_eq!((envelope.more_keys, envelope.unit), (vec!["a", "bc"], &b"u"[..]));
    }
}
