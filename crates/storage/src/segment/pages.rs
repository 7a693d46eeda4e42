//! The index at the end of a segment: pages of a fixed size, each with its own checksum, as a tree. The lowest level
//! has an entry for each block, in the order of the file, which is by log and offset; above it each entry stands for a
//! page. A look-up takes a page of each level, and two levels reach 4 GiB of blocks of 64 KiB. Pages are bytes here:
//! who reads and keeps them is elsewhere (`blocks`).

use model::{ByteReader, ByteWriter, LogId, Offset, Wall};

use crate::journal::frame::{Generation, seeded_crc};

/// Bytes of a page; the last one of an index is cut to what is in it.
pub(crate) const PAGE_BYTES: usize = 8 << 10;
/// Bytes of the last piece of a segment.
pub(crate) const TRAILER_BYTES: usize = 32;

const TRAILER_MAGIC: [u8; 8] = *b"4FSEGEND";
const HEAD_BYTES: usize = 16;
const ENTRY_BYTES: usize = 32;
/// Entries of a page.
const ENTRIES_MAX: usize = (PAGE_BYTES - HEAD_BYTES) / ENTRY_BYTES;

/// A block, or a page below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) log: LogId,
    /// First offset of the block, or of the first block below.
    pub(crate) first: Offset,
    /// The latest time in it.
    pub(crate) time_max: Wall,
    /// Where the block lies; or the number of the page.
    pub(crate) at: u64,
}

impl Entry {
    /// What entries are in the order of.
    pub(crate) fn key(&self) -> (LogId, Offset) {
        (self.log, self.first)
    }
}

/// A page of the index.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Page {
    /// 0: its entries are blocks.
    pub(crate) level: u16,
    pub(crate) entries: Vec<Entry>,
}

impl Page {
    /// The page `number`, if these are its bytes.
    pub(crate) fn decode(generation: &Generation, number: u32, bytes: &[u8]) -> Option<Page> {
        let mut reader = ByteReader::new(bytes);
        if reader.u32().ok()? != seeded_crc(generation, bytes.get(4..)?) || reader.u32().ok()? != number {
            return None;
        }
        let (level, count) = (reader.u16().ok()?, reader.u16().ok()?);
        reader.u32().ok()?;
        let count = reader.count(i64::from(count), ENTRY_BYTES).ok()?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(Entry {
                log: LogId(reader.u64().ok()?),
                first: Offset(reader.u64().ok()?),
                time_max: Wall(reader.i64().ok()?),
                at: reader.u64().ok()?,
            });
        }
        // Whoever walks the tree goes down with each step.
        let goes_down = |entry: &Entry| level == 0 || entry.at < u64::from(number);
        entries.iter().all(goes_down).then_some(Page { level, entries })
    }

    fn encode(&self, generation: &Generation, number: u32, out: &mut Vec<u8>) {
        let from = out.len();
        let mut writer = ByteWriter::new(out);
        writer.u32(0);
        writer.u32(number);
        writer.u16(self.level);
        writer.u16(self.entries.len() as u16);
        writer.u32(0);
        for entry in &self.entries {
            writer.u64(entry.log.0);
            writer.u64(entry.first.0);
            writer.i64(entry.time_max.0);
            writer.u64(entry.at);
        }
        seal(generation, out, from);
    }

    /// Bytes it takes in memory, about.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Page>() + self.entries.capacity() * size_of::<Entry>()
    }

    /// The last entry that does not come after `key`.
    pub(crate) fn before(&self, key: (LogId, Offset)) -> Option<usize> {
        self.entries.partition_point(|entry| entry.key() <= key).checked_sub(1)
    }
}

// The checksum of a page whose bytes end `out`.
fn seal(generation: &Generation, out: &mut [u8], from: usize) {
    let crc = seeded_crc(generation, out.get(from + 4..).unwrap_or_default());
    if let Some(place) = out.get_mut(from..from + 4) {
        place.copy_from_slice(&crc.to_be_bytes());
    }
}

/// Where an index lies in its file. The last page is the root; behind the last extent the first one begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexAt {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

impl IndexAt {
    /// Number of the page at the top.
    pub(crate) fn root(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(PAGE_BYTES as u64).saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Where page `number` lies, and its bytes.
    pub(crate) fn place(&self, number: u32) -> (u64, usize) {
        let from = u64::from(number) * PAGE_BYTES as u64;
        (self.at + from, self.bytes.saturating_sub(from).min(PAGE_BYTES as u64) as usize)
    }

    /// Reads a trailer; `None` when it is none of a file of `generation` with so many bytes.
    pub(crate) fn decode(generation: &Generation, trailer: &[u8], file_bytes: u64) -> Option<IndexAt> {
        let mut reader = ByteReader::new(trailer);
        let body = reader.take(TRAILER_BYTES - 4).ok()?;
        if reader.u32().ok()? != seeded_crc(generation, body) || !body.starts_with(&TRAILER_MAGIC) {
            return None;
        }
        let mut reader = ByteReader::new(body.get(8..)?);
        let index = IndexAt { at: reader.u64().ok()?, bytes: reader.u64().ok()? };
        index.at.checked_add(index.bytes).is_some_and(|end| end <= file_bytes).then_some(index)
    }
}

/// The index of these blocks and the trailer as bytes, `at` being where they will lie.
pub(crate) fn encode(entries: Vec<Entry>, generation: &Generation, at: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut entries, mut level, mut number) = (entries, 0, 0);
    loop {
        let is_root = entries.len() <= ENTRIES_MAX;
        let mut above = Vec::with_capacity(entries.len().div_ceil(ENTRIES_MAX));
        let mut rest = entries.as_slice();
        while !rest.is_empty() || is_root {
            let (these, others) = rest.split_at(rest.len().min(ENTRIES_MAX));
            let from = out.len();
            Page { level, entries: these.to_vec() }.encode(generation, number, &mut out);
            if is_root {
                break;
            }
            out.resize(from + PAGE_BYTES, 0);
            seal(generation, &mut out, from);
            let time_max = these.iter().map(|entry| entry.time_max).max();
            if let (Some(first), Some(time_max)) = (these.first(), time_max) {
                above.push(Entry { time_max, at: u64::from(number), ..*first });
            }
            number += 1;
            rest = others;
        }
        if is_root {
            break;
        }
        (entries, level) = (above, level + 1);
    }
    let bytes = out.len() as u64;
    let from = out.len();
    let mut writer = ByteWriter::new(&mut out);
    writer.bytes(&TRAILER_MAGIC);
    writer.u64(at);
    writer.u64(bytes);
    writer.u32(0);
    let crc = seeded_crc(generation, out.get(from..).unwrap_or_default());
    ByteWriter::new(&mut out).u32(crc);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATION: Generation = [3; 16];

    fn entries(count: u64) -> Vec<Entry> {
        let entry = |n| Entry { log: LogId(n / 50), first: Offset(n % 50 * 10), time_max: Wall(7), at: 64 + n * 100 };
        (0..count).map(entry).collect()
    }

    #[test]
    fn every_block_is_found_through_one_page_of_each_level() {
        for (count, levels) in [(0, 1), (1, 1), (255, 1), (256, 2), (65_025, 2), (65_026, 3)] {
            let all = entries(count);
            let bytes = encode(all.clone(), &GENERATION, 1000);
            let (body, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
            let index = IndexAt::decode(&GENERATION, trailer, 1 << 40).unwrap();
            assert_eq!(index, IndexAt { at: 1000, bytes: body.len() as u64 });
            for wanted in all.iter().step_by(97) {
                let (mut number, mut steps) = (index.root(), 0);
                let found = loop {
                    let (at, bytes) = index.place(number);
                    let page = &body[(at - 1000) as usize..][..bytes];
                    let page = Page::decode(&GENERATION, number, page).unwrap();
                    let entry = page.entries[page.before(wanted.key()).unwrap()];
                    steps += 1;
                    if page.level == 0 {
                        break entry;
                    }
                    number = entry.at as u32;
                };
                assert_eq!((found, steps), (*wanted, levels));
            }
        }
    }

    #[test]
    fn no_flipped_bit_of_a_page_or_trailer_passes() {
        let bytes = encode(entries(3), &GENERATION, 0);
        let (body, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        assert!(Page::decode(&GENERATION, 0, body).is_some() && Page::decode(&GENERATION, 1, body).is_none());
        assert!(Page::decode(&[4; 16], 0, body).is_none());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let (bad_body, bad_trailer) = bad.split_at(body.len());
            let page = Page::decode(&GENERATION, 0, bad_body);
            let index = IndexAt::decode(&GENERATION, bad_trailer, 1 << 40);
            assert!(if bit / 8 < body.len() { page.is_none() } else { index.is_none() }, "bit {bit}");
        }
        assert!(IndexAt::decode(&GENERATION, trailer, body.len() as u64 - 1).is_none(), "it lies behind the end");
    }
}
