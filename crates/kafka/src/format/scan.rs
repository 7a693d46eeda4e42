//! A look at every record of a batch before it is stored: there are as many as the header says, numbered from 0 on, and
//! nothing lies behind them; which times they carry; and, where that is wanted, that each has a key. Packed records are
//! unpacked for it, as the real broker does; nothing is kept. Keys, values and headers are passed over, and only in
//! packed records is it seen whether they fill theirs: what lies open is many times more, and only its own readers are
//! hurt by it.

use model::FormatError;

use super::UNPACKED_BYTES_MAX;
use super::batch::{BatchError, BatchHeader, HEADER_BYTES};
use super::unpack::Pieces;

/// No time was given.
pub(crate) const NO_TIME: i64 = -1;

const FEWER: BatchError = BatchError::Invalid("the records are fewer than the batch says, or one is malformed");
const MORE: BatchError = BatchError::Invalid("bytes lie behind the last record that the batch says it holds");
const MISNUMBERED: BatchError = BatchError::Invalid("the records are not numbered 0, 1, 2 … in their order");
/// One record is larger than its topic allows.
pub(crate) const RECORD_TOO_LARGE: BatchError =
    BatchError::Invalid("a record is larger, unpacked, than the topic's max.decompressed.message.bytes");
/// All are.
pub(crate) const TOO_LARGE: BatchError = BatchError::Invalid("the records unpack to more than 128 MiB");
const NOT_PACKED_SO: BatchError =
    BatchError::Invalid("the records cannot be unpacked by the codec that the batch names");

const UNKEYED: BatchError = BatchError::Invalid("a compacted topic takes no record without a key");

/// Records of one batch that are told to be at fault at most, one by one.
const UNTIMELY_MAX: usize = 100;

/// What a batch must be to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// What one record that was packed may take, in bytes.
    pub record_bytes_max: usize,
    /// What all of them may.
    pub unpacked_bytes_max: usize,
    /// The earliest and the latest time that a record may carry, if it carries one.
    pub times: (i64, i64),
    /// Whether each must have a key.
    pub needs_keys: bool,
}

impl Wanted {
    /// Anything that is in itself right.
    #[cfg(test)]
    pub const ANY: Wanted = Wanted {
        record_bytes_max: usize::MAX,
        unpacked_bytes_max: UNPACKED_BYTES_MAX,
        times: (i64::MIN, i64::MAX),
        needs_keys: false,
    };
}

/// What a look has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Scanned {
    /// The latest time that a record carries; [`NO_TIME`] when none does.
    pub time_max: i64,
    /// Number and time of records whose time is not wanted: the first ones.
    pub untimely: Vec<(i32, i64)>,
    /// Bytes gone through.
    pub bytes: usize,
}

/// Looks at all records of a whole batch.
pub(crate) fn scan(batch: &[u8], header: &BatchHeader, wanted: &Wanted) -> Result<Scanned, BatchError> {
    let (stored, is_packed) = (batch.get(HEADER_BYTES..header.bytes).unwrap_or_default(), header.codec() != 0);
    let look = Look {
        number: 0,
        first_time: header.first_time,
        times: wanted.times,
        scanned: Scanned { time_max: NO_TIME, untimely: Vec::new(), bytes: stored.len() },
    };
    let mut walk = Walk {
        seen: 0,
        count: header.count,
        looks_for: LooksFor { keys: wanted.needs_keys, ends: is_packed },
        bytes_max: if is_packed { wanted.record_bytes_max } else { usize::MAX },
        visit: look,
    };
    let bytes = walk.batch((stored, header.codec()), wanted.unpacked_bytes_max.min(UNPACKED_BYTES_MAX))?;
    Ok(Scanned { bytes, ..walk.visit.scanned })
}

/// Goes through the records of a batch as it is stored, calling `visit` with each one's distance from the batch's first
/// offset and time until it answers false. No more than `bytes_max` are unpacked for it;
/// answers how many.
pub(crate) fn visit_records(
    batch: &[u8],
    header: &BatchHeader,
    bytes_max: usize,
    visit: impl FnMut(i64, i64) -> bool,
) -> Result<usize, BatchError> {
    let stored = batch.get(HEADER_BYTES..header.bytes).unwrap_or_default();
    let looks_for = LooksFor { keys: false, ends: false };
    let mut walk = Walk { seen: 0, count: header.count, looks_for, bytes_max: usize::MAX, visit: Each(visit) };
    let bytes = walk.batch((stored, header.codec()), bytes_max)?;
    Ok(if header.codec() == 0 { 0 } else { bytes })
}

/// Who is shown the records.
trait Visit {
    /// Takes one; answers whether to go on.
    fn takes(&mut self, record: &Record) -> Result<bool, BatchError>;
}

/// The look before a batch is stored.
struct Look {
    number: i32,
    first_time: i64,
    times: (i64, i64),
    scanned: Scanned,
}

impl Look {
    #[cold]
    fn untimely(&mut self, time: i64) {
        if self.scanned.untimely.len() < UNTIMELY_MAX {
            self.scanned.untimely.push((self.number, time));
        }
    }
}

impl Visit for Look {
    #[inline]
    fn takes(&mut self, record: &Record) -> Result<bool, BatchError> {
        if record.number != i64::from(self.number) {
            return Err(MISNUMBERED);
        }
        if !record.is_keyed {
            return Err(UNKEYED);
        }
        let time = self.first_time.saturating_add(record.time_delta);
        self.scanned.time_max = self.scanned.time_max.max(time);
        if time != NO_TIME && !(self.times.0..=self.times.1).contains(&time) {
            self.untimely(time);
        }
        self.number += 1;
        Ok(true)
    }
}

struct Each<F>(F);

impl<F: FnMut(i64, i64) -> bool> Visit for Each<F> {
    #[inline]
    fn takes(&mut self, record: &Record) -> Result<bool, BatchError> {
        Ok((self.0)(record.number, record.time_delta))
    }
}

/// How far the records have been gone through.
struct Walk<V> {
    seen: i32,
    /// How many there are, or are still wanted.
    count: i32,
    looks_for: LooksFor,
    bytes_max: usize,
    visit: V,
}

/// What is looked for in a record behind its number.
#[derive(Clone, Copy)]
struct LooksFor {
    /// A key.
    keys: bool,
    /// Whether key, value and headers fill it.
    ends: bool,
}

impl<V: Visit> Walk<V> {
    /// Goes through what a batch has behind its header, by its codec; answers how many bytes those are, unpacked.
    fn batch(&mut self, (stored, codec): (&[u8], i16), unpacked_max: usize) -> Result<usize, BatchError> {
        let count = self.count;
        if codec != 0 {
            let mut pieces = Pieces::new(codec, stored, unpacked_max);
            self.all(&mut pieces)?;
            return Ok(pieces.bytes());
        }
        let passed = self.whole_ones(stored)?;
        match (self.seen == self.count, passed == stored.len() || self.count < count) {
            (false, _) => Err(FEWER),
            (true, false) => Err(MORE),
            (true, true) => Ok(stored.len()),
        }
    }

    /// Passes over all packed records, unpacking no further than they go.
    fn all(&mut self, pieces: &mut Pieces<'_>) -> Result<(), BatchError> {
        let (mut at, count) = (0, self.count);
        loop {
            at += self.whole_ones(pieces.piece().get(at..).unwrap_or_default())?;
            if self.seen == self.count {
                break;
            }
            at = self.parted_one(pieces, at)?;
        }
        let is_left = self.count < count; // nobody wants to know of the rest
        let has_more = !is_left && (at < pieces.piece().len() || pieces.next().map_err(broken)?);
        if has_more { Err(MORE) } else { Ok(()) }
    }

    /// Passes over the records that lie in `piece` whole; answers how many bytes they take.
    fn whole_ones(&mut self, piece: &[u8]) -> Result<usize, BatchError> {
        let mut rest = Rest(piece);
        while self.seen < self.count {
            let before = rest.0;
            let whole = rest.number().and_then(|length| {
                let Ok(length) = usize::try_from(length) else { return Some(Err(FEWER)) };
                if before.len() - rest.0.len() + length.min(u32::MAX as usize) > self.bytes_max {
                    return Some(Err(RECORD_TOO_LARGE));
                }
                rest.0.split_at_checked(length).map(Ok)
            });
            let Some(whole) = whole else { return Ok(piece.len() - before.len()) };
            let (body, after) = whole?;
            let found = record(&mut Rest(body), self.looks_for);
            self.found(found)?;
            rest.0 = after;
        }
        Ok(piece.len() - rest.0.len())
    }

    /// Passes over a record that begins at `at` and goes on in the next piece; answers where in its last piece it ends.
    fn parted_one(&mut self, pieces: &mut Pieces<'_>, at: usize) -> Result<usize, BatchError> {
        let mut parted = Parted { pieces, at, left: usize::MAX, broken: None };
        let length = parted.number().and_then(|length| usize::try_from(length).ok());
        let Some(length) = length else { return Err(parted.broken.unwrap_or(FEWER)) };
        if (usize::MAX - parted.left).saturating_add(length) > self.bytes_max {
            return Err(RECORD_TOO_LARGE);
        }
        parted.left = length;
        let found = record(&mut parted, self.looks_for);
        // What was not looked at is passed over here; a record that was is at its end.
        let left = parted.left;
        let passed = found.and_then(|found| parted.skip(left).map(|()| found));
        if let Some(broken) = parted.broken {
            return Err(broken);
        }
        let at = parted.at;
        self.found(passed)?;
        Ok(at)
    }

    #[inline]
    fn found(&mut self, found: Option<Record>) -> Result<(), BatchError> {
        self.seen += 1;
        if !self.visit.takes(&found.ok_or(FEWER)?)? {
            self.count = self.seen;
        }
        Ok(())
    }
}

fn broken(error: FormatError) -> BatchError {
    match error {
        FormatError::TooLarge { .. } => TOO_LARGE,
        _ => NOT_PACKED_SO,
    }
}

/// What is found in one record: its time's and its own distance from the batch's first, and that it has a key, if one
/// was looked for.
struct Record {
    time_delta: i64,
    number: i64,
    is_keyed: bool,
}

/// Reads the body of one record, in which `body` ends.
#[inline]
fn record(body: &mut impl Body, looks_for: LooksFor) -> Option<Record> {
    body.byte()?; // its attributes say nothing
    let time_delta = body.number()?;
    let number = body.number()?;
    let mut is_keyed = true;
    if looks_for.keys || looks_for.ends {
        is_keyed = pass(body)? || !looks_for.keys;
        if looks_for.ends && !is_filled(body)? {
            return None;
        }
    }
    Some(Record { time_delta, number, is_keyed })
}

/// Passes over value and headers; answers whether they fill the rest.
fn is_filled(body: &mut impl Body) -> Option<bool> {
    pass(body)?;
    let headers = body.number()?;
    if headers < 0 {
        return None;
    }
    for _ in 0..headers {
        let name = body.number()?;
        body.skip(usize::try_from(name).ok()?)?; // never null
        pass(body)?;
    }
    Some(body.is_at_end())
}

/// Passes over bytes that may be null; answers whether they are there.
#[inline]
fn pass(body: &mut impl Body) -> Option<bool> {
    match body.number()? {
        -1 => Some(false),
        length => body.skip(usize::try_from(length).ok()?).map(|()| true),
    }
}

/// The bytes of one record. Not a `ByteReader`: this runs over every record that is produced, most of whose numbers
/// take one byte, and needs no reason for what is wrong.
trait Body {
    fn byte(&mut self) -> Option<u8>;
    fn skip(&mut self, bytes: usize) -> Option<()>;
    fn is_at_end(&self) -> bool;

    /// A number of changing length and either sign, of up to 64 bits.
    #[inline]
    fn number(&mut self) -> Option<i64> {
        let first = self.byte()?;
        let mut raw = u64::from(first & 0x7f);
        if first >= 0x80 {
            raw |= self.more()?;
        }
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// What follows the first byte of a number.
    fn more(&mut self) -> Option<u64> {
        let mut raw = 0;
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            raw |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(raw);
            }
        }
        None
    }
}

/// In one piece.
struct Rest<'a>(&'a [u8]);

impl Body for Rest<'_> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    #[inline]
    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Over several pieces.
struct Parted<'a, 'p> {
    pieces: &'a mut Pieces<'p>,
    /// Place in the piece at hand.
    at: usize,
    /// Bytes up to the end, in whatever piece that is.
    left: usize,
    /// Why there are no more pieces.
    broken: Option<BatchError>,
}

impl Parted<'_, '_> {
    /// What there is of the piece at hand, or of the next one; `None` at the end.
    fn ready(&mut self) -> Option<&[u8]> {
        if self.at >= self.pieces.piece().len() {
            self.at = 0;
            match self.pieces.next() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.broken = Some(broken(error));
                    return None;
                }
            }
        }
        self.pieces.piece().get(self.at..)
    }
}

impl Body for Parted<'_, '_> {
    fn byte(&mut self) -> Option<u8> {
        self.left = self.left.checked_sub(1)?;
        let byte = *self.ready()?.first()?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        let mut missing = bytes;
        while missing > 0 {
            let passed = self.ready()?.len().min(missing);
            self.at += passed;
            missing -= passed;
        }
        Some(())
    }

    fn is_at_end(&self) -> bool {
        self.left == 0
    }
}
