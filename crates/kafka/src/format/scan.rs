//! A look at every record of a batch before it is stored: there are as many as the header says, numbered from 0 on, and
//! nothing lies behind them; and which times they carry. Packed records are unpacked for it, as the real broker does;
//! nothing is kept. Keys, values and headers are passed over, and only in packed records is it seen whether they fill
//! theirs: what lies open is many times more, and only its own readers are hurt by it.

use model::FormatError;

use super::batch::{BatchError, BatchHeader, HEADER_BYTES};
use super::{UNPACKED_BYTES_MAX, codec};

/// No time was given.
pub(crate) const NO_TIME: i64 = -1;

/// What the records of a batch are found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scanned {
    /// The earliest time that any carries; [`NO_TIME`] when none does.
    pub time_min: i64,
    /// The latest.
    pub time_max: i64,
    /// The largest, in bytes; 0 where they are not packed.
    pub unpacked_max: usize,
}

/// Looks at all records of a whole batch; `scratch` is where they are unpacked.
pub(crate) fn scan(batch: &[u8], header: &BatchHeader, scratch: &mut Vec<u8>) -> Result<Scanned, BatchError> {
    let (mut time_min, mut time_max) = (i64::MAX, NO_TIME);
    let unpacked_max = visit_times(batch, header, scratch, |_, time| {
        time_max = time_max.max(time);
        if time != NO_TIME {
            time_min = time_min.min(time);
        }
    })?;
    let time_min = if time_min == i64::MAX { NO_TIME } else { time_min };
    Ok(Scanned { time_min, time_max, unpacked_max })
}

/// Calls `visit` with each record's number and time; answers the size of the largest packed one.
pub(crate) fn visit_times(
    batch: &[u8],
    header: &BatchHeader,
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(i32, i64),
) -> Result<usize, BatchError> {
    let stored = batch.get(HEADER_BYTES..header.bytes).unwrap_or_default();
    let records = match header.codec() {
        0 => stored,
        codec => {
            scratch.clear();
            codec::unpack_into(codec, stored, UNPACKED_BYTES_MAX, scratch).map_err(|error| match error {
                FormatError::TooLarge { .. } => BatchError::Invalid("the records unpack to more than 128 MiB"),
                _ => BatchError::Invalid("the records cannot be unpacked by the codec that the batch names"),
            })?;
            scratch.as_slice()
        }
    };
    let is_packed = header.codec() != 0;
    let mut rest = Rest(records);
    let mut largest = 0;
    for number in 0..header.count {
        let left = rest.0.len();
        let Some((delta, time_delta)) = rest.record(is_packed) else {
            return Err(BatchError::Invalid("the records are fewer than the batch says, or one is malformed"));
        };
        if delta != i64::from(number) {
            return Err(BatchError::Invalid("the records are not numbered 0, 1, 2 … in their order"));
        }
        if is_packed {
            largest = largest.max(left - rest.0.len());
        }
        visit(number, header.first_time.saturating_add(time_delta));
    }
    if !rest.0.is_empty() {
        return Err(BatchError::Invalid("bytes lie behind the last record that the batch says it holds"));
    }
    Ok(largest)
}

/// What is not passed over yet. Not a `ByteReader`: this runs over every record that is produced, most of whose numbers
/// take one byte, and needs no reason for what is wrong.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// Passes over one record; answers its offset's and its time's distance from the batch's first.
    #[inline]
    fn record(&mut self, looks_inside: bool) -> Option<(i64, i64)> {
        let length = usize::try_from(self.number()?).ok()?;
        let (body, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        let mut body = Rest(body.split_first()?.1); // its attributes say nothing
        let time_delta = body.number()?;
        let offset_delta = body.number()?;
        if looks_inside && body.inside().is_none() {
            return None;
        }
        Some((offset_delta, time_delta))
    }

    /// Passes over key, value and headers, which fill the rest.
    fn inside(&mut self) -> Option<()> {
        self.pass()?;
        self.pass()?;
        let headers = self.number()?;
        if headers < 0 {
            return None;
        }
        for _ in 0..headers {
            if self.0.first()? & 1 == 1 {
                return None; // a name is never null: a negative number is odd on the wire
            }
            self.pass()?;
            self.pass()?;
        }
        self.0.is_empty().then_some(())
    }

    /// Passes over bytes that may be null.
    #[inline]
    fn pass(&mut self) -> Option<()> {
        let length = self.number()?;
        if length != -1 {
            self.0 = self.0.get(usize::try_from(length).ok()?..)?;
        }
        Some(())
    }

    /// A number of changing length and either sign, of up to 64 bits.
    #[inline]
    fn number(&mut self) -> Option<i64> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
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
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            raw |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(raw);
            }
        }
        None
    }
}
