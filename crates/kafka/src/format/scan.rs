//! A look at every record of a batch before it is stored: there are as many as the header says, numbered from 0 on, and
//! nothing lies behind them; and which times they carry. Packed records are unpacked for it, as the real broker does;
//! nothing is kept. Keys, values and headers are passed over, and only in packed records is it seen whether they fill
//! theirs: what lies open is many times more, and only its own readers are hurt by it.

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

/// Which times the records of a batch are found to carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scanned {
    /// The earliest time that any carries; [`NO_TIME`] when none does.
    pub time_min: i64,
    /// The latest.
    pub time_max: i64,
}

/// Looks at all records of a whole batch. One that was packed may take `packed_max` bytes.
pub(crate) fn scan(batch: &[u8], header: &BatchHeader, packed_max: usize) -> Result<Scanned, BatchError> {
    let (mut time_min, mut time_max) = (i64::MAX, NO_TIME);
    visit_times(batch, header, packed_max, |_, time| {
        time_max = time_max.max(time);
        if time != NO_TIME {
            time_min = time_min.min(time);
        }
    })?;
    let time_min = if time_min == i64::MAX { NO_TIME } else { time_min };
    Ok(Scanned { time_min, time_max })
}

/// Calls `visit` with each record's number and time.
pub(crate) fn visit_times(
    batch: &[u8],
    header: &BatchHeader,
    packed_max: usize,
    visit: impl FnMut(i32, i64),
) -> Result<(), BatchError> {
    let stored = batch.get(HEADER_BYTES..header.bytes).unwrap_or_default();
    let is_packed = header.codec() != 0;
    let bytes_max = if is_packed { packed_max } else { usize::MAX };
    let mut walk = Walk {
        number: 0,
        count: header.count,
        first_time: header.first_time,
        looks_inside: is_packed,
        bytes_max,
        visit,
    };
    if is_packed {
        return walk.all(&mut Pieces::new(header.codec(), stored, UNPACKED_BYTES_MAX));
    }
    let passed = walk.whole_ones(stored)?;
    match (walk.number == walk.count, passed == stored.len()) {
        (false, _) => Err(FEWER),
        (true, false) => Err(MORE),
        (true, true) => Ok(()),
    }
}

/// How far the look is.
struct Walk<V> {
    number: i32,
    count: i32,
    first_time: i64,
    looks_inside: bool,
    bytes_max: usize,
    visit: V,
}

impl<V: FnMut(i32, i64)> Walk<V> {
    /// Passes over all records, unpacking no further than they go.
    fn all(&mut self, pieces: &mut Pieces<'_>) -> Result<(), BatchError> {
        let mut at = 0;
        loop {
            at += self.whole_ones(pieces.piece().get(at..).unwrap_or_default())?;
            if self.number == self.count {
                break;
            }
            at = self.parted_one(pieces, at)?;
        }
        let has_more = at < pieces.piece().len() || pieces.next().map_err(broken)?;
        if has_more { Err(MORE) } else { Ok(()) }
    }

    /// Passes over the records that lie in `piece` whole; answers how many bytes they take.
    fn whole_ones(&mut self, piece: &[u8]) -> Result<usize, BatchError> {
        let mut rest = Rest(piece);
        while self.number < self.count {
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
            let found = record(&mut Rest(body), self.looks_inside);
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
        let found = record(&mut parted, self.looks_inside);
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
    fn found(&mut self, found: Option<(i64, i64)>) -> Result<(), BatchError> {
        let (number, time_delta) = found.ok_or(FEWER)?;
        if number != i64::from(self.number) {
            return Err(MISNUMBERED);
        }
        (self.visit)(self.number, self.first_time.saturating_add(time_delta));
        self.number += 1;
        Ok(())
    }
}

fn broken(error: FormatError) -> BatchError {
    match error {
        FormatError::TooLarge { .. } => TOO_LARGE,
        _ => NOT_PACKED_SO,
    }
}

/// Reads the body of one record, in which `body` ends; answers its offset's and its time's distance from the batch's
/// first.
#[inline]
fn record(body: &mut impl Body, looks_inside: bool) -> Option<(i64, i64)> {
    body.byte()?; // its attributes say nothing
    let time_delta = body.number()?;
    let offset_delta = body.number()?;
    if looks_inside && !is_filled(body)? {
        return None;
    }
    Some((offset_delta, time_delta))
}

/// Passes over key, value and headers; answers whether they fill the rest.
fn is_filled(body: &mut impl Body) -> Option<bool> {
    pass(body)?;
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

/// Passes over bytes that may be null.
#[inline]
fn pass(body: &mut impl Body) -> Option<()> {
    match body.number()? {
        -1 => Some(()),
        length => body.skip(usize::try_from(length).ok()?),
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
