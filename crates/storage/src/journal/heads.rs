//! The head of a journal file: out of its two copies, or, when neither is left, out of its first entry: the checksums
//! there are seeded with the file's generation, so they say all of it that matters. Called by recovery, and by whoever
//! looks at a folder.

use std::io;

use super::files::{is_unreadable, read_again};
use super::frame::{
    BadHeader, ENTRIES_AT, ENTRY_HEADER_BYTES, EntryHeader, FILE_HEADER_BYTES, Generation, HEADER_COPY_AT, JOURNAL,
    pick_header, seeded_crc,
};
use crate::DiskFile;

/// What is known of a journal file before its entries are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// The file's generation, or one by which the same checksums are right.
    pub(crate) generation: Generation,
    /// Neither copy of the header is left.
    pub(crate) is_made: bool,
}

/// The two copies of the header; zeros stand for what the disk does not give, and the error for why.
pub(crate) struct Copies {
    pub(crate) bytes: [[u8; FILE_HEADER_BYTES]; 2],
    unread: Option<io::Error>,
}

/// Reads both copies.
///
/// # Errors
/// The disk's, unless it is only that it cannot give these bytes.
pub(crate) fn read_copies(handle: &dyn DiskFile) -> io::Result<Copies> {
    let mut copies = Copies { bytes: [[0; FILE_HEADER_BYTES]; 2], unread: None };
    for (copy, at) in copies.bytes.iter_mut().zip([0, HEADER_COPY_AT as u64]) {
        match read_again(handle, at, copy) {
            Ok(_) => {}
            Err(error) if is_unreadable(&error) => (*copy, copies.unread) = ([0; FILE_HEADER_BYTES], Some(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(copies)
}

/// The head of the journal file `number`. Where no copy is left, that of a file whose first entry has a number above
/// `seq`: else it is what the file held before it was to be used again.
///
/// # Errors
/// The disk's; also when it gives neither the header nor the first entry.
pub(crate) fn read_head(handle: &dyn DiskFile, number: u32, seq: u64) -> io::Result<Result<Head, BadHeader>> {
    let Copies { bytes: [first, copy], unread } = read_copies(handle)?;
    let bad = match pick_header(&JOURNAL, u64::from(number), [&first, &copy]) {
        Ok(header) => return Ok(Ok(Head { generation: header.generation, is_made: false })),
        Err(bad @ BadHeader::Version(_)) => return Ok(Err(bad)),
        Err(bad) => bad,
    };
    match (of_first_entry(handle, seq), unread) {
        (Ok(Some(generation)), _) => Ok(Ok(Head { generation, is_made: true })),
        (Ok(None), None) => Ok(Err(bad)),
        (_, Some(error)) | (Err(error), None) => Err(error),
    }
}

// The entry at the place of the first one proves itself: what its header's checksum says of the generation must make
// its directory's right, too. No sender can aim at this place.
fn of_first_entry(handle: &dyn DiskFile, seq: u64) -> io::Result<Option<Generation>> {
    let mut bytes = [0; ENTRY_HEADER_BYTES];
    let got = read_again(handle, ENTRIES_AT, &mut bytes)?;
    let Some((body, crc)) = bytes.split_last_chunk().filter(|_| got == bytes.len()) else { return Ok(None) };
    let generation = generation_of(u32::from_be_bytes(*crc), body);
    let len = handle.len()?;
    let header = EntryHeader::decode(&generation, ENTRIES_AT, &bytes);
    let Some(header) = header.filter(|header| header.seq > seq && header.end() <= len) else { return Ok(None) };
    let mut directory = vec![0; header.directory_bytes as usize]; // the file is at least as long
    let got = read_again(handle, header.directory_at(), &mut directory)?;
    let is_right = got == directory.len() && seeded_crc(&generation, &directory) == header.directory_crc;
    Ok(is_right.then_some(generation))
}

/// The polynomial of CRC-32C, lowest bit first.
const POLYNOMIAL: u32 = 0x82F6_3B78;

// The register of the checksum before `bytes`, if it is `after` behind them.
fn undo(after: u32, bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(after, |mut register, byte| {
        for _ in 0..8 {
            let carry = register >> 31;
            register = ((register ^ (POLYNOMIAL * carry)) << 1) | carry;
        }
        register ^ u32::from(*byte)
    })
}

// A generation by which `crc` is the seeded checksum of `bytes`. Whatever generation it was: the checksum of anything
// behind it depends on the 32 bits of the register alone, so all others in the file are right by this one, too.
fn generation_of(crc: u32, bytes: &[u8]) -> Generation {
    let mut generation = Generation::default();
    // Twelve zeros, then what takes the register from there to where it must be.
    let (zeros, rest) = generation.split_at_mut(12);
    let before = !model::checksum::crc32c(zeros);
    let after = undo(!crc, bytes);
    rest.copy_from_slice(&(undo(after, &[0; 4]) ^ before).to_le_bytes());
    generation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_made_from_one_checksum_makes_all_others_right() {
        for seed in 0..200u8 {
            let generation: Generation = std::array::from_fn(|at| seed.wrapping_mul(31).wrapping_add(at as u8 * 7));
            let bytes: Vec<u8> = (0..seed).map(|byte| byte.wrapping_mul(seed)).collect();
            let made = generation_of(seeded_crc(&generation, &bytes), &bytes);
            for other in [&b""[..], b"x", b"another entry altogether"] {
                assert_eq!(seeded_crc(&made, other), seeded_crc(&generation, other));
            }
        }
    }
}
