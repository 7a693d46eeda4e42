//! The store: files that never change, holding what outlived the journal's window, log by log, back to back. A big log
//! has segments to itself, small ones share packs; the format of both is the same.

pub(crate) mod build;
pub(crate) mod copy;
pub(crate) mod footer;
pub(crate) mod open;
pub(crate) mod pages;
pub(crate) mod source;

use model::{ByteReader, ByteWriter, FormatTag, LogId, Offset, Wall};

use crate::journal::frame::{Generation, seeded_crc};

/// Bytes of the header before each extent's units.
pub(crate) const EXTENT_HEADER_BYTES: usize = 48;
/// Where the first extent begins: after the file's header.
pub(crate) const EXTENTS_AT: u64 = 64;

const LOST: u8 = 1;

/// The folder of the packs.
pub(crate) const PACKS: &str = "packs";
/// The folder of the folders of segments.
pub(crate) const SEGMENTS: &str = "segments";

/// A file of the store: a pack of many logs, or a segment of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct FileId {
    /// Never used twice.
    pub(crate) number: u64,
    /// The one log in it and its first offset; `None`: a pack.
    pub(crate) own: Option<(LogId, Offset)>,
}

impl FileId {
    /// Its name within the data folder.
    pub(crate) fn name(&self) -> String {
        match self.own {
            None => format!("{PACKS}/{:020}", self.number),
            Some((log, first)) => format!("{SEGMENTS}/{:020}/{:020}.{}", log.0, first.0, self.number),
        }
    }

    /// The folder of a log's segments.
    pub(crate) fn log_folder(log: LogId) -> String {
        format!("{SEGMENTS}/{:020}", log.0)
    }

    /// The pack of this name, if it is one.
    pub(crate) fn parse_pack(name: &str) -> Option<FileId> {
        (name.len() == 20).then_some(())?;
        Some(FileId { number: name.parse().ok()?, own: None })
    }

    /// The segment of this name in the folder of `log`, if it is one.
    pub(crate) fn parse_own(log: LogId, name: &str) -> Option<FileId> {
        let (first, number) = name.split_once('.').filter(|(first, _)| first.len() == 20)?;
        Some(FileId { number: number.parse().ok()?, own: Some((log, Offset(first.parse().ok()?))) })
    }
}

/// Head of an extent in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExtentHeader {
    pub(crate) log: LogId,
    pub(crate) first: Offset,
    pub(crate) time_max: Wall,
    pub(crate) bytes: u32,
    pub(crate) last_delta: u32,
    pub(crate) count: u32,
    pub(crate) crc: u32,
    pub(crate) format: FormatTag,
    /// The messages were damaged before they came here; there are no units.
    pub(crate) lost: bool,
}

impl ExtentHeader {
    pub(crate) fn last(&self) -> Offset {
        self.first.plus(u64::from(self.last_delta))
    }

    /// Bytes of header and units.
    pub(crate) fn whole_bytes(&self) -> u64 {
        EXTENT_HEADER_BYTES as u64 + u64::from(self.bytes)
    }

    pub(crate) fn encode(&self, generation: &Generation, out: &mut Vec<u8>) {
        let from = out.len();
        let mut writer = ByteWriter::new(out);
        writer.u8(self.format.0);
        writer.u8(if self.lost { LOST } else { 0 });
        writer.u16(0);
        writer.u64(self.log.0);
        writer.u64(self.first.0);
        writer.i64(self.time_max.0);
        writer.u32(self.bytes);
        writer.u32(self.last_delta);
        writer.u32(self.count);
        writer.u32(self.crc);
        let crc = seeded_crc(generation, out.get(from..).unwrap_or_default());
        ByteWriter::new(out).u32(crc);
    }

    /// Reads a header; `None` when the bytes are none of this file.
    pub(crate) fn decode(generation: &Generation, bytes: &[u8]) -> Option<ExtentHeader> {
        let mut reader = ByteReader::new(bytes);
        let body = reader.take(EXTENT_HEADER_BYTES - 4).ok()?;
        if reader.u32().ok()? != seeded_crc(generation, body) {
            return None;
        }
        let mut reader = ByteReader::new(body);
        let format = FormatTag(reader.u8().ok()?);
        let lost = reader.u8().ok()? & LOST != 0;
        reader.u16().ok()?;
        Some(ExtentHeader {
            log: LogId(reader.u64().ok()?),
            first: Offset(reader.u64().ok()?),
            time_max: Wall(reader.i64().ok()?),
            bytes: reader.u32().ok()?,
            last_delta: reader.u32().ok()?,
            count: reader.u32().ok()?,
            crc: reader.u32().ok()?,
            format,
            lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_read_back() {
        let pack = FileId { number: 7, own: None };
        assert_eq!(pack.name(), "packs/00000000000000000007");
        assert_eq!(FileId::parse_pack("00000000000000000007"), Some(pack));
        let own = FileId { number: 8, own: Some((LogId(3), Offset(5_367_851))) };
        assert_eq!(own.name(), "segments/00000000000000000003/00000000000005367851.8");
        assert_eq!(FileId::parse_own(LogId(3), "00000000000005367851.8"), Some(own));
        assert_eq!(FileId::parse_own(LogId(3), "checkpoint"), None);
    }

    #[test]
    fn an_extent_header_reads_back_in_its_generation_only() {
        let header = ExtentHeader {
            log: LogId(1),
            first: Offset(2),
            time_max: Wall(-3),
            bytes: 4,
            last_delta: 5,
            count: 6,
            crc: 7,
            format: FormatTag(8),
            lost: true,
        };
        let mut bytes = Vec::new();
        header.encode(&[1; 16], &mut bytes);
        assert_eq!(bytes.len(), EXTENT_HEADER_BYTES);
        assert_eq!(ExtentHeader::decode(&[1; 16], &bytes), Some(header));
        assert_eq!(ExtentHeader::decode(&[2; 16], &bytes), None);
        assert_eq!(ExtentHeader::decode(&[1; 16], &bytes[..47]), None);
    }
}
