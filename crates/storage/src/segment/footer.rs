//! The end of a segment: its runs (of one log each) and a sparse index of blocks by offset and time. Built while
//! writing; when it is damaged it is built again by walking the extents.

use model::{ByteReader, ByteWriter, LogId, Offset, ReadError, Wall};

use super::ExtentHeader;
use crate::journal::frame::{Generation, seeded_crc};

/// A block ends with the extent that makes it this long.
const BLOCK_BYTES: u64 = 64 << 10;
/// Bytes of the last piece of a segment.
pub(crate) const TRAILER_BYTES: usize = 32;

const TRAILER_MAGIC: [u8; 8] = *b"4FSEGEND";
const RUN_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 4;
const BLOCK_ENTRY_BYTES: usize = 8 + 8 + 8;

/// Extents back to back that are read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) first: Offset,
    pub(crate) time_max: Wall,
    pub(crate) at: u64,
}

/// One log's extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FooterRun {
    pub(crate) log: LogId,
    pub(crate) first: Offset,
    pub(crate) last: Offset,
    pub(crate) time_max: Wall,
    /// Where its last extent ends.
    pub(crate) end: u64,
    pub(crate) blocks: Vec<Block>,
}

impl FooterRun {
    /// Where its first extent begins.
    pub(crate) fn at(&self) -> u64 {
        self.blocks.first().map_or(self.end, |block| block.at)
    }

    /// Bytes of its extents.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.first().map_or(0, |block| self.end - block.at)
    }
}

/// What a segment's end says. Runs are in the order of the file, which is by log and offset.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Footer {
    pub(crate) runs: Vec<FooterRun>,
}

impl Footer {
    /// Adds the extent at `at`; `joins`: it may continue the last run if that is of the same log.
    pub(crate) fn push(&mut self, extent: &ExtentHeader, at: u64, joins: bool) {
        let end = at + extent.whole_bytes();
        let block = Block { first: extent.first, time_max: extent.time_max, at };
        match self.runs.last_mut().filter(|run| joins && run.log == extent.log) {
            Some(run) => {
                run.last = extent.last();
                run.time_max = run.time_max.max(extent.time_max);
                run.end = end;
                match run.blocks.last_mut().filter(|block| at - block.at < BLOCK_BYTES) {
                    Some(block) => block.time_max = block.time_max.max(extent.time_max),
                    None => run.blocks.push(block),
                }
            }
            None => self.runs.push(FooterRun {
                log: extent.log,
                first: extent.first,
                last: extent.last(),
                time_max: extent.time_max,
                end,
                blocks: vec![block],
            }),
        }
    }

    /// The run of `log` that begins at `first`. (Built again after damage, runs of one log are one.)
    pub(crate) fn run(&self, log: LogId, first: Offset) -> Option<&FooterRun> {
        let after = self.runs.partition_point(|run| (run.log, run.first) <= (log, first));
        self.runs.get(after.checked_sub(1)?).filter(|run| run.log == log)
    }

    /// Bytes it takes in memory, about.
    pub(crate) fn memory(&self) -> usize {
        self.runs.iter().map(|run| size_of::<FooterRun>() + run.blocks.capacity() * size_of::<Block>()).sum()
    }

    /// The footer and trailer as bytes, `at` being where they will lie.
    pub(crate) fn encode(&self, generation: &Generation, at: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = ByteWriter::new(&mut out);
        writer.u32(self.runs.len() as u32);
        for run in &self.runs {
            writer.u64(run.log.0);
            writer.u64(run.first.0);
            writer.u64(run.last.0);
            writer.i64(run.time_max.0);
            writer.u64(run.end);
            writer.u32(run.blocks.len() as u32);
            for block in &run.blocks {
                writer.u64(block.first.0);
                writer.i64(block.time_max.0);
                writer.u64(block.at);
            }
        }
        let bytes = out.len() as u64;
        let crc = seeded_crc(generation, &out);
        let from = out.len();
        let mut writer = ByteWriter::new(&mut out);
        writer.bytes(&TRAILER_MAGIC);
        writer.u64(at);
        writer.u64(bytes);
        writer.u32(crc);
        let crc = seeded_crc(generation, out.get(from..).unwrap_or_default());
        ByteWriter::new(&mut out).u32(crc);
        out
    }

    /// Where the footer lies, by the trailer: position, length and checksum.
    pub(crate) fn locate(generation: &Generation, trailer: &[u8]) -> Option<(u64, u64, u32)> {
        let mut reader = ByteReader::new(trailer);
        let body = reader.take(TRAILER_BYTES - 4).ok()?;
        if reader.u32().ok()? != seeded_crc(generation, body) || !body.starts_with(&TRAILER_MAGIC) {
            return None;
        }
        let mut reader = ByteReader::new(body.get(8..)?);
        Some((reader.u64().ok()?, reader.u64().ok()?, reader.u32().ok()?))
    }

    /// Reads a footer whose checksum has been found right.
    ///
    /// # Errors
    /// [`ReadError`] when it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Footer, ReadError> {
        let mut reader = ByteReader::new(bytes);
        let claimed = reader.u32()?;
        let count = reader.count(i64::from(claimed), RUN_BYTES)?;
        let mut runs = Vec::with_capacity(count);
        for _ in 0..count {
            let mut run = FooterRun {
                log: LogId(reader.u64()?),
                first: Offset(reader.u64()?),
                last: Offset(reader.u64()?),
                time_max: Wall(reader.i64()?),
                end: reader.u64()?,
                blocks: Vec::new(),
            };
            let claimed = reader.u32()?;
            let blocks = reader.count(i64::from(claimed), BLOCK_ENTRY_BYTES)?;
            run.blocks.reserve_exact(blocks);
            for _ in 0..blocks {
                let block = Block { first: Offset(reader.u64()?), time_max: Wall(reader.i64()?), at: reader.u64()? };
                run.blocks.push(block);
            }
            runs.push(run);
        }
        Ok(Footer { runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_reads_back() {
        let mut footer = Footer::default();
        let mut at = super::super::EXTENTS_AT;
        for n in 0..100u64 {
            let extent = ExtentHeader {
                log: LogId(n / 50),
                first: Offset(n % 50 * 10),
                time_max: Wall((n * 7 % 50) as i64),
                bytes: 10_000,
                last_delta: 8,
                count: 9,
                crc: 0,
                format: model::FormatTag(1),
                lost: false,
            };
            footer.push(&extent, at, true);
            at += extent.whole_bytes();
        }
        let bytes = footer.encode(&[3; 16], at);
        let (found_at, length, crc) = Footer::locate(&[3; 16], &bytes[bytes.len() - TRAILER_BYTES..]).unwrap();
        let body = &bytes[..length as usize];
        assert_eq!((found_at, crc), (at, seeded_crc(&[3; 16], body)));
        assert_eq!(Footer::decode(body), Ok(footer.clone()));
        assert_eq!(footer.run(LogId(1), Offset(0)).unwrap().last, Offset(498));
        assert_eq!(footer.runs[0].blocks.len(), 8);
    }
}
