//! The runs of a segment (of one log each) and their blocks by offset and time, in memory: while it is written, and
//! when its index was damaged and is built again by walking the extents. As bytes it is the file's index (`pages`).

use model::{LogId, Offset, Wall};

use super::ExtentHeader;
use super::pages::Entry;

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

/// What is in a segment. Runs are in the order of the file, which is by log and offset.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Footer {
    pub(crate) runs: Vec<FooterRun>,
}

impl Footer {
    /// Adds the extent at `at`; `joins`: it may continue the last run if that is of the same log. A block ends with the
    /// extent that makes it `step` bytes long.
    pub(crate) fn push(&mut self, extent: &ExtentHeader, at: u64, (joins, step): (bool, u64)) {
        let end = at + extent.whole_bytes();
        let block = Block { first: extent.first, time_max: extent.time_max, at };
        match self.runs.last_mut().filter(|run| joins && run.log == extent.log) {
            Some(run) => {
                run.last = extent.last();
                run.time_max = run.time_max.max(extent.time_max);
                run.end = end;
                match run.blocks.last_mut().filter(|block| at - block.at < step) {
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

    /// The blocks of all runs, as the file's index has them.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let of_run = |run: &FooterRun| {
            let log = run.log;
            let entry = move |block: &Block| {
                let Block { first, time_max, at } = *block;
                Entry { log, first, time_max, at }
            };
            run.blocks.iter().map(entry).collect::<Vec<_>>()
        };
        self.runs.iter().flat_map(of_run).collect()
    }

    /// Where the last extent ends that it knows of.
    pub(crate) fn end(&self) -> u64 {
        self.runs.iter().map(|run| run.end).max().unwrap_or(super::EXTENTS_AT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_long_as_the_step_says() {
        for (step, blocks) in [(65_536, 8), (30_000, 17), (0, 50)] {
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
                footer.push(&extent, at, (true, step));
                at += extent.whole_bytes();
            }
            assert_eq!(footer.run(LogId(1), Offset(0)).unwrap().last, Offset(498));
            assert_eq!((footer.runs[0].blocks.len(), footer.end()), (blocks, at));
            assert!(footer.entries().is_sorted_by_key(Entry::key));
        }
    }
}
