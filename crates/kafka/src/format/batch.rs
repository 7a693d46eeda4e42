//! The header of a record batch of format 2 (61 bytes): read, checked, stamped. The records are not looked at here.

use std::fmt;

use model::checksum::crc32c;
use model::{ByteReader, Offset, Stamp, Wall};

/// Bytes of the header, up to the first record.
pub(crate) const HEADER_BYTES: usize = 61;
/// The base offset and the length field: what is not counted by the length.
pub(crate) const PREFIX_BYTES: usize = 12;
/// The one format served. It stands in the same place in all formats.
pub(crate) const MAGIC: i8 = 2;

const EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const MAX_TIME_AT: usize = 35;

const CODEC_MASK: i16 = 0x07;
const APPEND_TIME_BIT: i16 = 0x08;
const TRANSACTIONAL_BIT: i16 = 0x10;
const CONTROL_BIT: i16 = 0x20;

/// The largest codec number known (zstd).
pub(crate) const CODEC_MAX: i16 = 4;

/// What a batch says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BatchHeader {
    pub base: i64,
    /// The whole batch, prefix included.
    pub bytes: usize,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_delta: i32,
    pub first_time: i64,
    pub max_time: i64,
    pub producer: i64,
    pub producer_epoch: i16,
    pub first_sequence: i32,
    pub count: i32,
}

/// Why a producer's batch is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BatchError {
    /// No batch, half a batch, or more than one where one is allowed.
    NotOne,
    /// Too small for its header, or its sum is wrong.
    Corrupt(&'static str),
    /// An older format.
    Magic(i8),
    /// A codec nobody knows.
    Codec(i16),
    /// It contradicts itself, or says what a client may not say.
    Invalid(&'static str),
    /// Larger than the topic allows.
    TooLarge { bytes: usize, bytes_max: usize },
    /// Part of a transaction.
    Transactional,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::NotOne => f.write_str("a partition's records must be exactly one whole record batch"),
            BatchError::Corrupt(why) => write!(f, "the record batch is corrupt: {why}"),
            BatchError::Magic(magic) => write!(f, "record batches must have magic 2, not {magic}"),
            BatchError::Codec(codec) => write!(f, "no compression codec has number {codec}"),
            BatchError::Invalid(why) => f.write_str(why),
            BatchError::TooLarge { bytes, bytes_max } => {
                write!(f, "the record batch takes {bytes} bytes; this topic's max.message.bytes is {bytes_max}")
            }
            BatchError::Transactional => f.write_str("transactions are not served yet"),
        }
    }
}

impl BatchHeader {
    /// Reads the header of the batch at the front of `bytes`; `None` when there is no whole batch of format 2.
    pub fn read(bytes: &[u8]) -> Option<BatchHeader> {
        let mut reader = ByteReader::new(bytes);
        let base = reader.i64().ok()?;
        let length = usize::try_from(reader.i32().ok()?).ok()?;
        let _epoch = reader.i32().ok()?;
        let header = BatchHeader {
            base,
            bytes: PREFIX_BYTES.checked_add(length)?,
            magic: reader.i8().ok()?,
            crc: reader.u32().ok()?,
            attributes: reader.i16().ok()?,
            last_delta: reader.i32().ok()?,
            first_time: reader.i64().ok()?,
            max_time: reader.i64().ok()?,
            producer: reader.i64().ok()?,
            producer_epoch: reader.i16().ok()?,
            first_sequence: reader.i32().ok()?,
            count: reader.i32().ok()?,
        };
        let whole = header.bytes >= HEADER_BYTES && header.bytes <= bytes.len();
        (whole && header.magic == MAGIC && header.last_delta >= 0).then_some(header)
    }

    /// Offset of the last message.
    pub fn last(&self) -> i64 {
        self.base.saturating_add(i64::from(self.last_delta))
    }

    /// The codec's number.
    pub fn codec(&self) -> i16 {
        self.attributes & CODEC_MASK
    }

    /// All records carry the time of their append.
    pub fn has_append_time(&self) -> bool {
        self.attributes & APPEND_TIME_BIT != 0
    }

    /// Holds markers, not messages.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// The time of a record by its distance from the batch's first; `None` when it carries none.
    pub fn time_of(&self, delta: i64) -> Option<Wall> {
        let time = match self.has_append_time() {
            true => self.max_time,
            false if self.first_time < 0 => -1,
            false => self.first_time.saturating_add(delta),
        };
        (time >= 0).then_some(Wall(time))
    }

    /// Sequence of the last message: sequences wrap from 2³¹−1 to 0.
    pub fn last_sequence(&self) -> i32 {
        (i64::from(self.first_sequence) + i64::from(self.last_delta)).rem_euclid(1 << 31) as i32
    }
}

/// Checks what a producer sent for one partition: one whole batch, as a client may write it. The records are looked at
/// by [`super::scan`].
pub(crate) fn check_produced(bytes: &[u8], bytes_max: usize) -> Result<BatchHeader, BatchError> {
    let mut reader = ByteReader::new(bytes);
    let (Ok(_), Ok(length)) = (reader.i64(), reader.i32()) else {
        return Err(BatchError::NotOne);
    };
    if bytes.len() > MAGIC_AT && bytes[MAGIC_AT] as i8 != MAGIC {
        return Err(BatchError::Magic(bytes[MAGIC_AT] as i8));
    }
    let whole = usize::try_from(length).unwrap_or(0).saturating_add(PREFIX_BYTES);
    if whole < HEADER_BYTES {
        return Err(BatchError::Corrupt("its length is less than a header's"));
    }
    if whole != bytes.len() {
        return Err(BatchError::NotOne);
    }
    if whole > bytes_max {
        return Err(BatchError::TooLarge { bytes: whole, bytes_max });
    }
    let header = BatchHeader::read(bytes).ok_or(BatchError::Invalid("lastOffsetDelta is negative"))?;
    check_claims(&header)?;
    if crc32c(&bytes[ATTRIBUTES_AT..]) != header.crc {
        return Err(BatchError::Corrupt("its checksum does not match"));
    }
    Ok(header)
}

fn check_claims(header: &BatchHeader) -> Result<(), BatchError> {
    if header.base != 0 {
        return Err(BatchError::Invalid("the base offset of a produced batch must be 0"));
    }
    if header.count <= 0 || i64::from(header.count) != i64::from(header.last_delta) + 1 {
        return Err(BatchError::Invalid("the record count does not match lastOffsetDelta"));
    }
    if header.codec() > CODEC_MAX {
        return Err(BatchError::Codec(header.codec()));
    }
    if header.is_control() {
        return Err(BatchError::Invalid("clients may not write control records"));
    }
    if header.attributes & TRANSACTIONAL_BIT != 0 {
        return Err(BatchError::Transactional);
    }
    if header.producer >= 0 && (header.first_sequence < 0 || header.producer_epoch < 0) {
        return Err(BatchError::Invalid("an idempotent producer's batch needs an epoch and a sequence"));
    }
    Ok(())
}

/// Visits the headers of batches back to back; ends early when `visit` answers false. False when the bytes are not
/// whole batches.
pub(crate) fn walk(bytes: &[u8], mut visit: impl FnMut(usize, &BatchHeader) -> bool) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let Some(header) = BatchHeader::read(&bytes[at..]) else {
            return false;
        };
        if !visit(at, &header) {
            return true;
        }
        at += header.bytes;
    }
    true
}

/// Writes base offsets (ascending over the batches) and the epoch. Both lie outside the sum.
pub(crate) fn stamp(units: &mut [u8], stamp: Stamp) {
    let mut at = 0;
    let mut base = stamp.base;
    while let Some(header) = units.get(at..).and_then(BatchHeader::read) {
        units[at..at + 8].copy_from_slice(&base.0.to_be_bytes());
        units[at + EPOCH_AT..at + EPOCH_AT + 4].copy_from_slice(&stamp.epoch.to_be_bytes());
        base = base.plus(u64::from(header.last_delta as u32) + 1);
        at += header.bytes;
    }
}

/// Moves batches to another first offset, keeping the distances between them.
pub(crate) fn rebase(units: &mut [u8], first: Offset) {
    let Some(old) = BatchHeader::read(units).map(|header| header.base) else {
        return;
    };
    let mut at = 0;
    while let Some(header) = units.get(at..).and_then(BatchHeader::read) {
        let base = first.plus(header.base.saturating_sub(old).max(0) as u64);
        units[at..at + 8].copy_from_slice(&base.0.to_be_bytes());
        at += header.bytes;
    }
}

/// Whose time the records of a batch carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimeKind {
    /// Each its own, as its producer gave it.
    Create,
    /// All the batch's latest: that of their append.
    Append,
}

/// Says in the header of one batch whose time its records carry and which is the latest, and gives it a new sum.
pub(crate) fn set_time(batch: &mut [u8], kind: TimeKind, max_time: i64) {
    if batch.len() < HEADER_BYTES {
        return;
    }
    let attributes = i16::from_be_bytes([batch[ATTRIBUTES_AT], batch[ATTRIBUTES_AT + 1]]);
    let attributes = match kind {
        TimeKind::Create => attributes & !APPEND_TIME_BIT,
        TimeKind::Append => attributes | APPEND_TIME_BIT,
    };
    batch[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&attributes.to_be_bytes());
    batch[MAX_TIME_AT..MAX_TIME_AT + 8].copy_from_slice(&max_time.to_be_bytes());
    seal(batch);
}

/// Gives `batch` the leader's epoch of another one. It lies outside the sum.
pub(crate) fn take_epoch(batch: &mut [u8], from: &[u8]) {
    let place = EPOCH_AT..EPOCH_AT + 4;
    if let (Some(epoch), Some(other)) = (batch.get_mut(place.clone()), from.get(place)) {
        epoch.copy_from_slice(other);
    }
}

/// Writes the sum of a batch that is otherwise complete.
pub(crate) fn seal(batch: &mut [u8]) {
    let crc = crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
}
