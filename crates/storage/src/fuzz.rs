//! The readers of stored bytes, open to fuzzing behind their checksums. Not for anybody else.

use model::ByteReader;

use crate::journal::frame::{EntryHeader, FileHeader, JOURNAL, SEGMENT};
use crate::journal::record::read_record;
use crate::segment::ExtentHeader;
use crate::segment::pages::{IndexAt, Page};

/// The directory of a journal entry, and its header.
pub fn journal_entry(data: &[u8]) {
    let _ = EntryHeader::decode(&[0; 16], 4096, data);
    let _ = FileHeader::decode(&JOURNAL, data);
    let mut reader = ByteReader::new(data);
    while let Ok(Some(_)) = read_record(&mut reader) {}
}

/// The index of a pack or segment, and the header of an extent.
pub fn footer(data: &[u8]) {
    let _ = FileHeader::decode(&SEGMENT, data);
    let _ = ExtentHeader::decode(&[0; 16], data);
    let _ = IndexAt::decode(&[0; 16], data, 1 << 40);
    let number = data.first_chunk().copied().map_or(0, u32::from_be_bytes);
    let _ = Page::decode(&[0; 16], number, data);
}

/// A checkpoint's body.
pub fn checkpoint(data: &[u8]) {
    let _ = crate::checkpoint::decode(data);
    let _ = crate::checkpoint::read_body(data);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(data in prop::collection::vec(any::<u8>(), 0..2000), kind in 0u8..9) {
            // Records begin with a small number: most random bytes would end at the first.
            let mut data = data;
            if let Some(first) = data.first_mut() { *first = kind; }
            super::journal_entry(&data);
            super::footer(&data);
            super::checkpoint(&data);
        }
    }
}
