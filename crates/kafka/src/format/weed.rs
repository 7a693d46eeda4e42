//! Compaction of one record batch: which keys it has, and the batch again without some of its records. A batch keeps
//! its place: base offset, last offset and the producer's marks stay, so readers find what they found before.
//!
//! Tombstones that stay get the moment until which they do as the batch's base time (attribute bit 6, KIP-534).
//! Control batches are markers, not messages: they stay as they are.

use bytes::Bytes;
use model::keyed::VisitKeyed;
use model::{ByteReader, ByteWriter, FormatError, Keyed, Left, Offset, ReadError, Sieve, Wall};

use super::batch::{self, BatchHeader, HEADER_BYTES};
use super::{NOT_BATCHES, UNPACKED_BYTES_MAX, codec, write_header};

/// The base time is the moment until which tombstones stay.
const HORIZON_BIT: i16 = 0x40;

/// A record as far as compaction looks into it.
struct RecordView<'a> {
    attributes: i8,
    time_delta: i64,
    offset_delta: i32,
    key: Option<&'a [u8]>,
    is_tombstone: bool,
    /// With its length.
    whole: &'a [u8],
    /// From the offset on.
    behind_time: &'a [u8],
}

fn header_of(unit: &[u8]) -> Result<BatchHeader, FormatError> {
    BatchHeader::read(unit).filter(|header| header.bytes == unit.len()).ok_or(NOT_BATCHES)
}

fn records_of(unit: &Bytes, header: &BatchHeader) -> Result<Bytes, FormatError> {
    match header.codec() {
        0 => Ok(unit.slice(HEADER_BYTES..)),
        codec => {
            codec::unpack(codec, unit.get(HEADER_BYTES..).unwrap_or_default(), UNPACKED_BYTES_MAX).map(Bytes::from)
        }
    }
}

fn read_view<'a>(reader: &mut ByteReader<'a>) -> Result<RecordView<'a>, ReadError> {
    let from = reader.rest();
    let claimed = i64::from(reader.varint()?);
    let length = reader.count(claimed, 1)?;
    let mut body = ByteReader::new(reader.take(length)?);
    let whole = from.get(..from.len() - reader.left()).unwrap_or_default();
    let attributes = body.i8()?;
    let time_delta = body.varlong()?;
    let behind_time = body.rest();
    let offset_delta = body.varint()?;
    let key = match i64::from(body.varint()?) {
        -1 => None,
        claimed => {
            let length = body.count(claimed, 1)?;
            Some(body.take(length)?)
        }
    };
    let is_tombstone = body.varint()? == -1;
    Ok(RecordView { attributes, time_delta, offset_delta, key, is_tombstone, whole, behind_time })
}

/// Calls `visit` with each record, its offset and whether its batch has said until when tombstones stay.
fn walk(
    records: &[u8],
    header: &BatchHeader,
    base: Offset,
    mut visit: impl FnMut(&RecordView<'_>, &Keyed<'_>),
) -> Result<(), FormatError> {
    let stays_until = (header.attributes & HORIZON_BIT != 0).then_some(Wall(header.first_time));
    let mut reader = ByteReader::new(records);
    for _ in 0..header.count {
        let malformed = |_| FormatError::Malformed("a record does not fit its bytes");
        let record = read_view(&mut reader).map_err(malformed)?;
        let delta = u64::try_from(record.offset_delta).ok().filter(|_| record.offset_delta <= header.last_delta);
        let delta = delta.ok_or(FormatError::Malformed("a record lies outside its batch"))?;
        let (key, is_tombstone) = (record.key, record.is_tombstone);
        visit(&record, &Keyed { offset: base.plus(delta), key, is_tombstone, stays_until });
    }
    Ok(())
}

/// See [`model::Format::keys`].
pub(super) fn keys(unit: &Bytes, base: Offset, visit: &mut VisitKeyed<'_>) -> Result<(), FormatError> {
    let header = header_of(unit)?;
    if header.is_control() {
        return Ok(());
    }
    walk(&records_of(unit, &header)?, &header, base, |_, keyed| visit(keyed))
}

/// See [`model::Format::weed`].
pub(super) fn weed(
    unit: &Bytes,
    base: Offset,
    sieve: &mut Sieve<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Left>, FormatError> {
    let header = header_of(unit)?;
    let last = base.plus(header.last_delta.max(0) as u64);
    if header.is_control() {
        copy(unit, base, out);
        return Ok(Some(Left { last, count: header.count.max(0) as u32, time_max: Wall(header.max_time) }));
    }
    let records = records_of(unit, &header)?;
    let mut kept = Kept::new(&header, sieve.tombstones_until);
    walk(&records, &header, base, |record, keyed| {
        if (sieve.keep)(keyed) {
            kept.note(record);
        }
    })?;
    if kept.count == 0 {
        return Ok(None);
    }
    if kept.count == header.count && kept.new_horizon().is_none() {
        copy(unit, base, out);
        return Ok(Some(Left { last, count: kept.count as u32, time_max: Wall(header.max_time) }));
    }
    let header = kept.header(base);
    let mut rest = Vec::with_capacity(records.len());
    let mut scratch = Vec::new();
    walk(&records, &header_of(unit)?, base, |record, keyed| {
        if (sieve.keep)(keyed) {
            write(record, kept.shift(), &mut scratch, &mut rest);
        }
    })?;
    seal(&header, unit, &rest, out)?;
    Ok(Some(Left { last, count: kept.count as u32, time_max: Wall(header.max_time) }))
}

fn copy(unit: &[u8], base: Offset, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(unit);
    batch::rebase(out.get_mut(at..).unwrap_or_default(), base);
}

/// What stays of a batch, and the header that this makes.
struct Kept<'h> {
    old: &'h BatchHeader,
    tombstones_until: Option<Wall>,
    count: i32,
    max_time: i64,
    has_tombstone: bool,
}

impl Kept<'_> {
    fn new(old: &BatchHeader, tombstones_until: Option<Wall>) -> Kept<'_> {
        Kept { old, tombstones_until, count: 0, max_time: -1, has_tombstone: false }
    }

    fn note(&mut self, record: &RecordView<'_>) {
        self.count += 1;
        self.max_time = self.max_time.max(self.old.first_time.saturating_add(record.time_delta));
        self.has_tombstone |= record.is_tombstone;
    }

    /// Until when tombstones stay from now on, if that was not said before.
    fn new_horizon(&self) -> Option<Wall> {
        self.tombstones_until.filter(|_| self.has_tombstone && self.old.attributes & HORIZON_BIT == 0)
    }

    /// By how much the base time moves.
    fn shift(&self) -> i64 {
        self.new_horizon().map_or(0, |until| until.0.saturating_sub(self.old.first_time))
    }

    fn header(&self, base: Offset) -> BatchHeader {
        let horizon = if self.new_horizon().is_some() { HORIZON_BIT } else { self.old.attributes & HORIZON_BIT };
        let horizon = if self.has_tombstone { horizon } else { 0 };
        BatchHeader {
            base: base.0 as i64,
            attributes: (self.old.attributes & !HORIZON_BIT) | horizon,
            first_time: self.old.first_time.saturating_add(self.shift()),
            max_time: if self.old.has_append_time() { self.old.max_time } else { self.max_time },
            count: self.count,
            ..*self.old
        }
    }
}

fn write(record: &RecordView<'_>, shift: i64, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    if shift == 0 {
        out.extend_from_slice(record.whole);
        return;
    }
    scratch.clear();
    let mut body = ByteWriter::new(scratch);
    body.i8(record.attributes);
    body.varlong(record.time_delta.saturating_sub(shift));
    body.bytes(record.behind_time);
    let mut out = ByteWriter::new(out);
    out.varint(scratch.len() as i32);
    out.bytes(scratch);
}

// The leader's epoch is taken over from `unit`.
fn seal(header: &BatchHeader, unit: &[u8], records: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    let at = out.len();
    out.resize(at + HEADER_BYTES, 0);
    match header.codec() {
        0 => out.extend_from_slice(records),
        number => codec::pack(number, unit.get(HEADER_BYTES..).unwrap_or_default(), records, out)?,
    }
    let header = BatchHeader { bytes: out.len() - at, ..*header };
    let whole = out.get_mut(at..).unwrap_or_default();
    write_header(&header, whole);
    batch::take_epoch(whole, unit);
    Ok(())
}
