//! The headers of journal files and of entries, as bytes. Every checksum here is seeded with the file's random
//! generation, so neither the stale bytes of a recycled file nor a payload can pass as an entry.

use model::checksum::crc32c_of;
use model::{ByteReader, ByteWriter, ReadError};

/// Entries begin at multiples of this, so that after damage a reader finds the next one by looking at such places only.
pub(crate) const ALIGN: u64 = 64;
/// Bytes of an entry's header.
pub(crate) const ENTRY_HEADER_BYTES: usize = 64;
/// Where the first entry of a file begins: the file's header has a page of its own, which no entry's write touches.
pub(crate) const ENTRIES_AT: u64 = 4096;
/// Bytes of a file's header.
pub(crate) const FILE_HEADER_BYTES: usize = 64;
/// Where the second copy of a journal file's header lies: one flipped bit must not cost a whole file.
pub(crate) const HEADER_COPY_AT: usize = 2048;
/// The version of the journal's format.
pub(crate) const JOURNAL_VERSION: u32 = 1;
/// The version of the format of packs and segments: 2 since their index is in pages.
const SEGMENT_VERSION: u32 = 2;

/// What a file is, in its first bytes.
pub(crate) type Magic = [u8; 8];
/// A journal file.
pub(crate) const JOURNAL: Magic = *b"4FJOURNL";
/// A segment.
pub(crate) const SEGMENT: Magic = *b"4FSEGMNT";
const ENTRY_MAGIC: [u8; 4] = *b"4Fen";

/// The random number of one use of a file.
pub(crate) type Generation = [u8; 16];

/// The next place on or after `at` where an entry may begin.
pub(crate) fn align(at: u64) -> u64 {
    at.div_ceil(ALIGN) * ALIGN
}

/// The checksum of `bytes` in a file of `generation`.
pub(crate) fn seeded_crc(generation: &Generation, bytes: &[u8]) -> u32 {
    crc32c_of(&[generation, bytes])
}

/// The name of the journal file `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("journal/{number:020}")
}

/// Head of a journal file or segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileHeader {
    pub(crate) number: u64,
    pub(crate) generation: Generation,
}

/// Why a file's header is not usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadHeader {
    /// Of another file, or blank: making this file ready was not finished.
    Unfinished,
    /// Damaged.
    Damaged,
    /// Of another version of the format.
    Version(u32),
}

impl From<ReadError> for BadHeader {
    fn from(_: ReadError) -> BadHeader {
        BadHeader::Damaged
    }
}

// The version that is written, and the only one that is read.
fn version_of(magic: &Magic) -> u32 {
    if *magic == SEGMENT { SEGMENT_VERSION } else { JOURNAL_VERSION }
}

impl FileHeader {
    /// The header as bytes.
    pub(crate) fn encode(&self, magic: &Magic) -> Vec<u8> {
        let mut out = Vec::with_capacity(FILE_HEADER_BYTES);
        let mut writer = ByteWriter::new(&mut out);
        writer.bytes(magic);
        writer.u32(version_of(magic));
        writer.u64(self.number);
        writer.bytes(&self.generation);
        writer.bytes(&[0; 24]);
        let crc = crc32c_of(&[&out]);
        ByteWriter::new(&mut out).u32(crc);
        out
    }

    /// Reads a header back.
    ///
    /// # Errors
    /// [`BadHeader`].
    pub(crate) fn decode(magic: &Magic, bytes: &[u8]) -> Result<FileHeader, BadHeader> {
        let mut reader = ByteReader::new(bytes);
        let body = reader.take(FILE_HEADER_BYTES - 4)?;
        if body.iter().all(|byte| *byte == 0) {
            return Err(BadHeader::Unfinished);
        }
        if reader.u32()? != crc32c_of(&[body]) {
            return Err(BadHeader::Damaged);
        }
        let mut reader = ByteReader::new(body);
        if reader.take(8)? != magic {
            return Err(BadHeader::Damaged);
        }
        let version = reader.u32()?;
        if version != version_of(magic) {
            return Err(BadHeader::Version(version));
        }
        Ok(FileHeader { number: reader.u64()?, generation: reader.id()? })
    }
}

/// The header of the file `number`, out of its copies.
///
/// # Errors
/// [`BadHeader`] when none is usable.
pub(crate) fn pick_header(magic: &Magic, number: u64, copies: [&[u8]; 2]) -> Result<FileHeader, BadHeader> {
    let mut outcome = Err(BadHeader::Unfinished);
    for copy in copies {
        match FileHeader::decode(magic, copy) {
            Ok(header) if header.number == number => return Ok(header),
            Ok(_) | Err(BadHeader::Unfinished) => {}
            // One that is whole says more than one that is not.
            Err(_) if matches!(outcome, Err(BadHeader::Version(_))) => {}
            Err(bad) => outcome = Err(bad),
        }
    }
    outcome
}

/// Head of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryHeader {
    /// Its place in the order of all entries ever written here: 1, 2, 3 …
    pub(crate) seq: u64,
    /// Every entry up to this one was durable when this was written.
    pub(crate) synced: u64,
    /// Its own position in the file: an entry copied elsewhere does not pass.
    pub(crate) at: u64,
    pub(crate) units_bytes: u32,
    pub(crate) directory_bytes: u32,
    pub(crate) directory_crc: u32,
}

impl EntryHeader {
    /// Writes the header over the first bytes of an entry.
    pub(crate) fn encode(&self, generation: &Generation, out: &mut [u8]) {
        let mut bytes = Vec::with_capacity(ENTRY_HEADER_BYTES);
        let mut writer = ByteWriter::new(&mut bytes);
        writer.bytes(&ENTRY_MAGIC);
        writer.u64(self.seq);
        writer.u64(self.synced);
        writer.u64(self.at);
        writer.u32(self.units_bytes);
        writer.u32(self.directory_bytes);
        writer.u32(self.directory_crc);
        writer.bytes(&[0; 20]);
        let crc = seeded_crc(generation, &bytes);
        ByteWriter::new(&mut bytes).u32(crc);
        if let Some(place) = out.get_mut(..ENTRY_HEADER_BYTES) {
            place.copy_from_slice(&bytes);
        }
    }

    /// Reads a header that should lie at `at`; `None` when there is none.
    pub(crate) fn decode(generation: &Generation, at: u64, bytes: &[u8]) -> Option<EntryHeader> {
        if !bytes.starts_with(&ENTRY_MAGIC) {
            return None;
        }
        let mut reader = ByteReader::new(bytes);
        let body = reader.take(ENTRY_HEADER_BYTES - 4).ok()?;
        if reader.u32().ok()? != seeded_crc(generation, body) {
            return None;
        }
        let mut reader = ByteReader::new(body.get(4..)?);
        let header = EntryHeader {
            seq: reader.u64().ok()?,
            synced: reader.u64().ok()?,
            at: reader.u64().ok()?,
            units_bytes: reader.u32().ok()?,
            directory_bytes: reader.u32().ok()?,
            directory_crc: reader.u32().ok()?,
        };
        (header.at == at).then_some(header)
    }

    /// Where its directory begins.
    pub(crate) fn directory_at(&self) -> u64 {
        self.at + ENTRY_HEADER_BYTES as u64 + u64::from(self.units_bytes)
    }

    /// Where the next entry may begin.
    pub(crate) fn end(&self) -> u64 {
        align(self.directory_at() + u64::from(self.directory_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_header_reads_back_and_no_flipped_bit_passes() {
        let header = FileHeader { number: 7, generation: [9; 16] };
        let bytes = header.encode(&JOURNAL);
        assert_eq!(bytes.len(), FILE_HEADER_BYTES);
        assert_eq!(FileHeader::decode(&JOURNAL, &bytes), Ok(header));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHeader::decode(&JOURNAL, &bad), Err(BadHeader::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn another_version_is_told_though_one_copy_is_damaged() {
        let mut whole = FileHeader { number: 7, generation: [9; 16] }.encode(&JOURNAL);
        whole[11] += 1;
        let crc = crc32c_of(&[&whole[..60]]);
        whole[60..].copy_from_slice(&crc.to_be_bytes());
        let mut damaged = whole.clone();
        damaged[20] ^= 1;
        for copies in [[&whole[..], &damaged[..]], [&damaged, &whole]] {
            assert_eq!(pick_header(&JOURNAL, 7, copies), Err(BadHeader::Version(JOURNAL_VERSION + 1)));
        }
    }

    #[test]
    fn an_entry_header_passes_only_at_its_place_in_its_generation() {
        let header =
            EntryHeader { seq: 3, synced: 2, at: 4096, units_bytes: 10, directory_bytes: 20, directory_crc: 5 };
        let mut bytes = vec![0; 64];
        header.encode(&[1; 16], &mut bytes);
        assert_eq!(EntryHeader::decode(&[1; 16], 4096, &bytes), Some(header));
        assert_eq!(EntryHeader::decode(&[1; 16], 4160, &bytes), None);
        assert_eq!(EntryHeader::decode(&[2; 16], 4096, &bytes), None);
        assert_eq!(header.end(), 4096 + 128);
    }
}
