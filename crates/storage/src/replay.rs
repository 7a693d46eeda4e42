//! What recovered entries mean: extents for the index, state for the table; and what is missing between them.

use std::io;

use model::checksum::crc32c;
use model::{ByteReader, LogId, Offset};

use crate::Damage;
use crate::checkpoint::KnownOwners;
use crate::index::{Extent, IdMap, Index};
use crate::journal::files::JournalFile;
use crate::journal::frame::{ENTRY_HEADER_BYTES, EntryHeader, seeded_crc};
use crate::journal::record::{ExtentRecord, Record, TargetRecord, read_record};
use crate::journal::scan::Scanner;
use crate::state::StateTable;

/// Where recovery puts what it finds.
pub(crate) struct Replay<'a> {
    pub(crate) index: &'a mut Index,
    pub(crate) state: &'a mut StateTable,
    /// For each log the offset up to which everything was seen (or is known to have been settled or trimmed). Where a
    /// record tells of a greater end than this, messages are missing.
    pub(crate) covered: IdMap<LogId, Offset>,
    /// What the checkpoint knows already.
    pub(crate) known: Before,
    /// Logs that miss something.
    pub(crate) missing: Vec<LogId>,
    /// The last journal file with an entry.
    pub(crate) file: u32,
}

/// Up to which entry the checkpoint knows the outcome.
#[derive(Default)]
pub(crate) struct Before {
    /// Of logs and owners that are not in it.
    pub(crate) seq: u64,
    /// Of the logs that are in it.
    pub(crate) logs: IdMap<LogId, u64>,
    pub(crate) owners: KnownOwners,
}

impl Replay<'_> {
    /// Takes one entry, all of it or nothing; of what the checkpoint knows only the extents are news. Unless the entry
    /// is known to have been durable, its units are checked too. Answers whether it is whole.
    pub(crate) fn entry(
        &mut self,
        file: &JournalFile,
        header: &EntryHeader,
        scanner: &mut Scanner<'_>,
        durable: bool,
    ) -> io::Result<bool> {
        let directory = scanner.bytes(header.directory_at(), header.directory_bytes as usize)?.to_vec();
        if directory.len() != header.directory_bytes as usize
            || seeded_crc(&file.generation, &directory) != header.directory_crc
        {
            return Ok(false);
        }
        let mut reader = ByteReader::new(&directory);
        let mut records = Vec::new();
        loop {
            match read_record(&mut reader) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(_) => return Ok(false),
            }
        }
        let units_at = header.at + ENTRY_HEADER_BYTES as u64;
        for record in &records {
            let Record::Extent(extent, _) = record else { continue };
            if u64::from(extent.at) + u64::from(extent.bytes) > u64::from(header.units_bytes) {
                return Ok(false);
            }
            if !durable {
                let units = scanner.bytes(units_at + u64::from(extent.at), extent.bytes as usize)?;
                if units.len() != extent.bytes as usize || crc32c(units) != extent.crc {
                    return Ok(false);
                }
            }
        }
        self.file = file.number;
        for record in records {
            self.record(record, (file.number, units_at), header.seq);
        }
        Ok(true)
    }

    fn record(&mut self, record: Record<'_>, (file, units_at): (u32, u64), seq: u64) {
        // What was taken before the checkpoint and is not in it was dropped since.
        let before = self.known.seq;
        let skip = |index: &Index, log: LogId| seq <= before && index.get(log).is_none();
        let known = |before: &Before, log: LogId| seq <= before.logs.get(&log).copied().unwrap_or(before.seq);
        match record {
            Record::Extent(extent, targets) => {
                for target in targets {
                    if !skip(self.index, target.log) {
                        let known = known(&self.known, target.log);
                        self.extent(&extent, &target, (file, units_at), known);
                    }
                }
            }
            Record::Trim(log, before) => {
                if !skip(self.index, log) {
                    self.index.trim(log, before, file);
                    self.cover(log, before);
                }
            }
            Record::Roll(log, first) => {
                if !known(&self.known, log) {
                    self.index.roll(log, first, file);
                }
            }
            Record::Drop(log) if known(&self.known, log) => {
                self.index.clear_window(log);
                self.covered.remove(&log);
            }
            Record::Drop(log) => {
                self.index.drop_log(log);
                self.covered.remove(&log);
            }
            Record::LogRange(log, start, end) => {
                if !skip(self.index, log) {
                    self.expect_end(log, end, file);
                    if self.index.get(log).is_none_or(|known| known.start < start) {
                        self.index.trim(log, start, file);
                        self.cover(log, start);
                    }
                }
            }
            Record::State(owner, change) => {
                if seq > self.known.owners.of(owner) {
                    self.state.apply(owner, change);
                }
            }
        }
    }

    fn extent(&mut self, extent: &ExtentRecord, target: &TargetRecord, (file, units_at): (u32, u64), known: bool) {
        self.expect_end(target.log, target.end_before, file);
        self.make_way(target, known);
        let extent = Extent {
            first: target.first,
            time_max: extent.time_max,
            file,
            at: (units_at + u64::from(extent.at)) as u32,
            bytes: extent.bytes,
            last_delta: extent.last_delta,
            count: extent.count,
            crc: extent.crc,
            format: extent.format,
            lost: false,
        };
        // The checkpoint may know already where else it is.
        if self.covered.get(&target.log).is_none_or(|covered| *covered <= extent.last()) {
            if known {
                self.index.push_known(target.log, extent);
            } else {
                self.index.push(target.log, extent);
            }
            self.cover(target.log, extent.last().plus(1));
        }
    }

    // Once the disk did not give what stood here at the end of the journal, so the place was given again. Now it does;
    // but it is the later message that was acknowledged last, and may have been read since.
    fn make_way(&mut self, target: &TargetRecord, known: bool) {
        let covered = self.covered.get(&target.log).copied().unwrap_or_default();
        let last = self.index.get(target.log).and_then(|log| log.window.back()).map(Extent::last);
        if (!known && target.first < covered) || last.is_some_and(|last| target.first <= last) {
            let TargetRecord { log, first, .. } = target;
            tracing::error!(%log, %first, "what the disk did not give once is passed over for what was written since");
            self.index.cut_back(target.log, target.first, known);
            self.covered.insert(target.log, target.first);
        }
    }

    fn cover(&mut self, log: LogId, end: Offset) {
        let covered = self.covered.entry(log).or_default();
        *covered = end.max(*covered);
    }

    // `log` is known to have ended at `end` here: what was not seen before it is lost.
    fn expect_end(&mut self, log: LogId, end: Offset, file: u32) {
        let mut from = self.covered.get(&log).copied().unwrap_or_default();
        if let Some(known) = self.index.get(log) {
            from = from.max(known.start);
        }
        if from >= end {
            return;
        }
        while from < end {
            let last_delta = u32::try_from(end.since(from) - 1).unwrap_or(u32::MAX);
            let hole = Extent {
                first: from,
                time_max: model::Wall(i64::MIN),
                file,
                at: 0,
                bytes: 0,
                last_delta,
                count: 0,
                crc: 0,
                format: model::FormatTag(0),
                lost: true,
            };
            self.index.push_known(log, hole);
            from = hole.last().plus(1);
        }
        self.cover(log, end);
        self.missing.push(log);
    }

    /// After the last entry: what the checkpoint knows of and nobody saw is lost; the damage is told whom it hit.
    pub(crate) fn finish(&mut self, damage: &mut [Damage]) {
        let ends: Vec<(LogId, Offset)> = self.index.iter().map(|(id, log)| (id, log.end)).collect();
        for (log, end) in ends {
            self.expect_end(log, end, self.file);
        }
        let index = &*self.index;
        self.missing.retain(|log| index.get(*log).is_some());
        self.missing.sort_unstable();
        self.missing.dedup();
        // Which of several damaged places hit which log cannot be told: each names all.
        for damage in damage {
            damage.logs.clone_from(&self.missing);
        }
    }
}
