//! Segments: files that never change, holding what outlived the journal's window, log by log, back to back. A big log
//! has a segment to itself, small ones share one; the format is the same.

pub(crate) mod build;
pub(crate) mod footer;
pub(crate) mod merge;
pub(crate) mod open;

use model::{ByteReader, ByteWriter, FormatTag, LogId, Offset, Wall};

use crate::journal::frame::{Generation, seeded_crc};

/// Bytes of the header before each extent's units.
pub(crate) const EXTENT_HEADER_BYTES: usize = 48;
/// Where the first extent begins: after the file's header.
pub(crate) const EXTENTS_AT: u64 = 64;

const LOST: u8 = 1;

/// The name of the segment `number`.
pub(crate) fn segment_name(number: u64) -> String {
    format!("segments/{number:020}")
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
