//! The format under tag 1: record batches of format 2, kept as their producer sent them. Only base offset and leader
//! epoch are written into them; both lie outside the checksum.
//!
//! Opening unpacks all codecs; building never packs; compaction packs again as it was.

pub(crate) mod batch;
mod codec;
mod lz4;
mod neutral;
mod records;
pub(crate) mod scan;
pub(crate) mod unpack;
pub(crate) mod weed;

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
pub(crate) mod unpack_tests;

use bytes::Bytes;
use model::format::{Visit, VisitUnit};
use model::keyed::{Left, Sieve, VisitKeyed};
use model::{ByteReader, ByteWriter, Format, FormatError, FormatTag, Message, Offset, Sought, Stamp, UnitAt, Wall};

use self::batch::{BatchHeader, HEADER_BYTES, MAGIC};
use self::records::{NewRecord, read_record, write_record};
use self::scan::Wanted;

/// The tag of record batches of format 2.
pub const TAG: FormatTag = FormatTag(1);

/// What one batch may unpack to.
pub(crate) const UNPACKED_BYTES_MAX: usize = 128 << 20;

/// Batches that we build are closed when they grow past this.
const BUILT_BYTES_MAX: usize = 1 << 20;

/// Record batches of format 2.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordFormat;

impl Format for RecordFormat {
    fn tag(&self) -> FormatTag {
        TAG
    }

    fn stamp(&self, units: &mut [u8], stamp: Stamp) {
        batch::stamp(units, stamp);
    }

    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError> {
        let mut first_base = None;
        let whole = batch::walk(units, |at, header| {
            let first = place(base, *first_base.get_or_insert(header.base), header.base);
            let unit = UnitAt { first, count: header.count.max(0) as u32, at, bytes: header.bytes };
            visit(unit).is_continue()
        });
        if whole { Ok(()) } else { Err(NOT_BATCHES) }
    }

    fn open(&self, units: &Bytes, base: Offset, visit: &mut Visit<'_>) -> Result<(), FormatError> {
        let mut first_base = None;
        let mut failed = Ok(());
        let whole = batch::walk(units, |at, header| {
            let first = place(base, *first_base.get_or_insert(header.base), header.base);
            match open_batch(&units.slice(at..at + header.bytes), header, first, visit) {
                Ok(go_on) => go_on,
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        if whole { failed } else { Err(NOT_BATCHES) }
    }

    fn find_time(
        &self,
        units: &Bytes,
        base: Offset,
        sought: &Sought,
        bytes_max: usize,
    ) -> Result<Option<(Offset, Wall)>, FormatError> {
        let (mut first_base, mut found, mut left) = (None, Ok(None), bytes_max);
        let whole = batch::walk(units, |at, header| {
            let first = place(base, *first_base.get_or_insert(header.base), header.base);
            let batch = units.get(at..at + header.bytes).unwrap_or_default();
            found = find_in_batch(batch, header, (first, sought), &mut left);
            matches!(found, Ok(None))
        });
        if whole { found } else { Err(NOT_BATCHES) }
    }

    fn build(&self, messages: &[(Offset, Message)], out: &mut Vec<u8>) -> Result<(), FormatError> {
        let mut rest = messages;
        let mut scratch = Vec::new();
        while !rest.is_empty() {
            let taken = build_batch(rest, &mut scratch, out);
            rest = &rest[taken..];
        }
        Ok(())
    }

    fn allows_gaps(&self) -> bool {
        true
    }

    fn keys(&self, unit: &Bytes, base: Offset, visit: &mut VisitKeyed<'_>) -> Result<(), FormatError> {
        weed::keys(unit, base, visit)
    }

    fn weed(
        &self,
        unit: &Bytes,
        base: Offset,
        sieve: &mut Sieve<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Left>, FormatError> {
        weed::weed(unit, base, sieve, out)
    }
}

const NOT_BATCHES: FormatError = FormatError::Malformed("whole record batches");

/// Where a batch lies: `base` is where the first one lies, and batches keep their distances. (What they carry may be
/// the place in another log, when units were stored once for several.)
fn place(base: Offset, first_base: i64, own_base: i64) -> Offset {
    base.plus(own_base.saturating_sub(first_base).max(0) as u64)
}

/// Opens one whole batch; answers whether to go on.
fn open_batch(unit: &Bytes, header: &BatchHeader, first: Offset, visit: &mut Visit<'_>) -> Result<bool, FormatError> {
    if header.is_control() {
        return Ok(true);
    }
    let records = match header.codec() {
        0 => unit.slice(HEADER_BYTES..),
        codec => Bytes::from(codec::unpack(codec, &unit[HEADER_BYTES..], UNPACKED_BYTES_MAX)?),
    };
    let mut reader = ByteReader::new(&records);
    for _ in 0..header.count {
        let record = read_record(&mut reader, &records)?;
        if record.offset_delta < 0 || record.offset_delta > header.last_delta {
            return Err(FormatError::Malformed("a record lies outside its batch"));
        }
        let time = header.time_of(record.time_delta).map_or(-1, |time| time.0);
        let offset = first.plus(record.offset_delta as u64);
        if visit(offset, neutral::message_of(record, time)).is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// As [`Format::find_time`], in one whole batch; takes from `bytes_left` what it unpacks.
fn find_in_batch(
    batch: &[u8],
    header: &BatchHeader,
    (first, sought): (Offset, &Sought),
    bytes_left: &mut usize,
) -> Result<Option<(Offset, Wall)>, FormatError> {
    if header.is_control() {
        return Ok(None);
    }
    let mut found = None;
    let visited = scan::visit_records(batch, header, *bytes_left, |offset_delta, time_delta| {
        let Ok(delta) = u64::try_from(offset_delta) else { return true };
        found = sought.at(first.plus(delta), header.time_of(time_delta));
        found.is_none()
    });
    match visited {
        Ok(bytes) => *bytes_left = bytes_left.saturating_sub(bytes),
        Err(scan::TOO_LARGE) => return Err(FormatError::TooLarge { limit: *bytes_left }),
        Err(_) => return Err(FormatError::Malformed("records that are as their batch says")),
    }
    Ok(found)
}

/// Writes one batch of as many of `messages` as it takes; answers how many. `messages` is not empty.
fn build_batch(messages: &[(Offset, Message)], scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let base = messages.first().map_or(Offset::ZERO, |(offset, _)| *offset);
    // A batch of which one record has a time gives all of them one: its first record's, or that of the first that has.
    let first_time = messages.iter().find_map(|(_, message)| message.created).map_or(-1, |time| time.0);
    out.resize(start + HEADER_BYTES, 0);
    let (mut taken, mut last_delta, mut max_time) = (0, 0, first_time);
    for (offset, message) in messages {
        let Ok(offset_delta) = i32::try_from(offset.since(base)) else {
            break;
        };
        if taken > 0 && out.len() - start > BUILT_BYTES_MAX {
            break;
        }
        let time = message.created.map_or(first_time, |time| time.0);
        let headers = neutral::headers_of(message);
        let record = NewRecord {
            time_delta: time.saturating_sub(first_time),
            offset_delta,
            key: message.key.as_deref(),
            value: message.value.as_deref(),
            headers: &headers,
        };
        write_record(&record, scratch, out);
        last_delta = offset_delta;
        max_time = max_time.max(time);
        taken += 1;
    }
    let header = BatchHeader {
        base: base.0 as i64,
        bytes: out.len() - start,
        magic: MAGIC,
        crc: 0,
        attributes: 0,
        last_delta,
        first_time,
        max_time,
        producer: -1,
        producer_epoch: -1,
        first_sequence: -1,
        count: taken as i32,
    };
    write_header(&header, &mut out[start..]);
    taken
}

fn write_header(header: &BatchHeader, batch: &mut [u8]) {
    let mut head = Vec::with_capacity(HEADER_BYTES);
    let mut writer = ByteWriter::new(&mut head);
    writer.i64(header.base);
    writer.i32((header.bytes - batch::PREFIX_BYTES) as i32);
    writer.i32(0);
    writer.i8(header.magic);
    writer.u32(0);
    writer.i16(header.attributes);
    writer.i32(header.last_delta);
    writer.i64(header.first_time);
    writer.i64(header.max_time);
    writer.i64(header.producer);
    writer.i16(header.producer_epoch);
    writer.i32(header.first_sequence);
    writer.i32(header.count);
    batch[..HEADER_BYTES].copy_from_slice(&head);
    batch::seal(batch);
}

/// Looks into a batch as before it is stored, for measuring; answers whether it is right.
#[must_use]
pub fn look_into(batch: &[u8]) -> bool {
    let wanted = Wanted {
        record_bytes_max: usize::MAX,
        unpacked_bytes_max: UNPACKED_BYTES_MAX,
        times: (0, i64::MAX),
        needs_keys: false,
    };
    batch::check_produced(batch, usize::MAX).is_ok_and(|header| scan::scan(batch, &header, &wanted).is_ok())
}

/// What fuzzing lets bytes unpack to: it has many to go through.
const FUZZ_BYTES_MAX: usize = 1 << 20;

/// Opens arbitrary bytes as record batches, and as what is packed in one, for fuzzing: must neither panic nor take
/// memory beyond its bound.
pub fn fuzz_batch(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    if sealed.len() >= HEADER_BYTES {
        batch::seal(&mut sealed);
    }
    if let Ok(header) = batch::check_produced(&sealed, usize::MAX) {
        let wanted = Wanted {
            record_bytes_max: FUZZ_BYTES_MAX,
            unpacked_bytes_max: FUZZ_BYTES_MAX,
            times: (0, i64::MAX),
            needs_keys: bytes.len().is_multiple_of(2),
        };
        let _ = scan::scan(&sealed, &header, &wanted);
    }
    for codec in 1..=batch::CODEC_MAX {
        let _ = codec::unpack(codec, bytes, FUZZ_BYTES_MAX);
    }
    let units = Bytes::copy_from_slice(bytes);
    let mut messages = Vec::new();
    let _ = RecordFormat.open(&units, Offset::ZERO, &mut |offset, message| {
        messages.push((offset, message));
        std::ops::ControlFlow::Continue(())
    });
    let mut built = Vec::new();
    let _ = RecordFormat.build(&messages, &mut built);
    let mut keep = |keyed: &model::Keyed<'_>| keyed.offset.0.is_multiple_of(2);
    let mut sieve = Sieve { keep: &mut keep, tombstones_until: Some(model::Wall(1)) };
    let _ = RecordFormat.weed(&units, Offset::ZERO, &mut sieve, &mut built);
}
