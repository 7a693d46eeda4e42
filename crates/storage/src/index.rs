//! What is held of each log: its range, the extents of it that lie in the journal's window, and its runs in segments.
//! All of it in memory, under 1 KiB a log at rest. Knows nothing of files beyond their numbers.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use model::{FormatTag, LogId, Offset, Wall};

use crate::LogRange;
use crate::rolls::Shape;

/// Hashes ids that this program itself gave: no sender can choose them to collide.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// A map by ids of ours.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Units of one log in a journal file. 48 bytes: a million of them are in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) first: Offset,
    pub(crate) time_max: Wall,
    /// Number of the journal file. Files are counted from 1; 4 billion of them hold 512 PiB.
    pub(crate) file: u32,
    /// Position of the units in it.
    pub(crate) at: u32,
    pub(crate) bytes: u32,
    pub(crate) last_delta: u32,
    pub(crate) count: u32,
    /// Checksum of the units; 0 until the entry is sealed.
    pub(crate) crc: u32,
    pub(crate) format: FormatTag,
    /// Messages are known to have been here, and their bytes to be damaged.
    pub(crate) lost: bool,
}

impl Extent {
    /// Offset of the last message.
    pub(crate) fn last(&self) -> Offset {
        self.first.plus(u64::from(self.last_delta))
    }
}

/// Extents of one log back to back in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) segment: u64,
    pub(crate) first: Offset,
    pub(crate) last: Offset,
    pub(crate) time_max: Wall,
    /// Bytes of its extents, headers included.
    pub(crate) bytes: u64,
}

/// How much of a segment is still of use.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct SegmentUse {
    /// Runs of living logs.
    pub(crate) runs: u32,
    /// Their bytes.
    pub(crate) live: u64,
    /// Bytes of all runs when it was made.
    pub(crate) bytes: u64,
}

/// One log.
#[derive(Clone, Default, Debug)]
pub(crate) struct Log {
    /// Invariant: start ≤ end; neither ever goes back.
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    /// In order of offsets; every one ends at or after `start`.
    pub(crate) window: VecDeque<Extent>,
    /// In order of offsets, all before the window.
    pub(crate) runs: Vec<Run>,
    /// The last journal file that has a record of it.
    pub(crate) touched: u32,
    /// Its segments as its owner sees them.
    pub(crate) shape: Shape,
}

impl Log {
    /// Position in the window of the extent that holds `offset`, or of the next one.
    pub(crate) fn window_at(&self, offset: Offset) -> usize {
        self.window.partition_point(|extent| extent.last() < offset)
    }

    /// The run that holds `offset` or the next one, if it is not in the window.
    pub(crate) fn run_at(&self, offset: Offset) -> Option<Run> {
        let at = self.runs.partition_point(|run| run.last < offset);
        self.runs.get(at).copied()
    }

    // Answers how many extents there are more.
    fn push(&mut self, extent: Extent) -> usize {
        self.touched = extent.file;
        self.end = extent.last().plus(1).max(self.end);
        let lives = extent.last() >= self.start;
        if lives {
            self.window.push_back(extent);
        }
        usize::from(lives)
    }

    fn shrink(&mut self) {
        if self.window.capacity() > 16 && self.window.len() * 4 < self.window.capacity() {
            self.window.shrink_to(self.window.len() * 2);
        }
    }
}

/// All logs.
#[derive(Default)]
pub(crate) struct Index {
    logs: IdMap<LogId, Log>,
    /// Extents in all windows together.
    extents: usize,
    segments: IdMap<u64, SegmentUse>,
    /// Segments that hold nothing alive any more.
    doomed: Vec<u64>,
}

impl Index {
    pub(crate) fn get(&self, log: LogId) -> Option<&Log> {
        self.logs.get(&log)
    }

    pub(crate) fn range(&self, log: LogId) -> Option<LogRange> {
        self.logs.get(&log).map(|log| LogRange { start: log.start, end: log.end })
    }

    /// Offset after the last message of `log`; 0 when it was never written to.
    pub(crate) fn end(&self, log: LogId) -> Offset {
        self.logs.get(&log).map_or(Offset::ZERO, |log| log.end)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LogId, &Log)> {
        self.logs.iter().map(|(id, log)| (*id, log))
    }

    pub(crate) fn len(&self) -> usize {
        self.logs.len()
    }

    pub(crate) fn extents(&self) -> usize {
        self.extents
    }

    /// Adds an extent at the end of `log`.
    pub(crate) fn push(&mut self, log: LogId, extent: Extent) {
        let log = self.logs.entry(log).or_default();
        log.shape.grow(u64::from(extent.bytes), extent.time_max);
        self.extents += log.push(extent);
    }

    /// Adds an extent that its segment has been told of already.
    pub(crate) fn push_known(&mut self, log: LogId, extent: Extent) {
        self.extents += self.logs.entry(log).or_default().push(extent);
    }

    /// The newest segment of `log` ends, another begins at `first`.
    pub(crate) fn roll(&mut self, log: LogId, first: Offset, file: u32) {
        let log = self.logs.entry(log).or_default();
        log.touched = file;
        log.shape.roll(first);
    }

    /// Makes the last extent of `log` longer.
    pub(crate) fn extend_last(&mut self, log: LogId, grow: impl FnOnce(&mut Extent)) {
        if let Some(log) = self.logs.get_mut(&log)
            && let Some(extent) = log.window.back_mut()
        {
            let before = extent.bytes;
            grow(extent);
            log.shape.grow(u64::from(extent.bytes - before), extent.time_max);
            log.end = extent.last().plus(1);
        }
    }

    /// Notes the checksum of a sealed extent.
    pub(crate) fn set_crc(&mut self, log: LogId, first: Offset, crc: u32) {
        let Some(log) = self.logs.get_mut(&log) else { return };
        let back = log.window.len().saturating_sub(1);
        let at = if log.window.back().is_some_and(|e| e.first == first) { back } else { log.window_at(first) };
        if let Some(extent) = log.window.get_mut(at).filter(|extent| extent.first == first) {
            extent.crc = crc;
        }
    }

    /// Forgets what lies before `before`. A log trimmed beyond its end begins there.
    pub(crate) fn trim(&mut self, id: LogId, before: Offset, file: u32) {
        let log = self.logs.entry(id).or_default();
        log.touched = file;
        log.start = log.start.max(before);
        log.end = log.end.max(log.start);
        log.shape.trim(log.start, log.end);
        while log.window.front().is_some_and(|extent| extent.last() < log.start) {
            log.window.pop_front();
            self.extents -= 1;
        }
        log.shrink();
        let gone = log.runs.partition_point(|run| run.last < log.start);
        let runs: Vec<Run> = log.runs.drain(..gone).collect();
        self.release(&runs);
    }

    /// Forgets the log.
    pub(crate) fn drop_log(&mut self, id: LogId) {
        if let Some(log) = self.logs.remove(&id) {
            self.extents -= log.window.len();
            self.release(&log.runs);
        }
    }

    /// Forgets what the window holds of the log, but not that the log is.
    pub(crate) fn clear_window(&mut self, id: LogId) {
        if let Some(log) = self.logs.get_mut(&id) {
            self.extents -= log.window.len();
            log.window.clear();
        }
    }

    fn release(&mut self, runs: &[Run]) {
        for run in runs {
            if let Some(segment) = self.segments.get_mut(&run.segment) {
                segment.runs -= 1;
                segment.live = segment.live.saturating_sub(run.bytes);
                if segment.runs == 0 {
                    self.segments.remove(&run.segment);
                    self.doomed.push(run.segment);
                }
            }
        }
    }

    fn hold(&mut self, run: &Run) {
        let segment = self.segments.entry(run.segment).or_default();
        segment.runs += 1;
        segment.live += run.bytes;
        segment.bytes = segment.bytes.max(segment.live);
    }

    /// How many bytes a segment had when it was made.
    pub(crate) fn note_segment(&mut self, number: u64, bytes: u64) {
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.bytes = segment.bytes.max(bytes);
        }
    }

    /// Puts `new` in the place of what is left of `old`, neighbours in the log's order.
    pub(crate) fn replace(&mut self, id: LogId, old: &[Run], new: Run) {
        let Some(log) = self.logs.get_mut(&id) else { return };
        let mut gone = Vec::new();
        let mut at = None;
        let mut position = 0;
        log.runs.retain(|run| {
            let goes = old.iter().any(|old| (old.segment, old.first) == (run.segment, run.first));
            if goes {
                gone.push(*run);
                at = at.or(Some(position));
            }
            position += 1;
            !goes
        });
        if let Some(at) = at {
            log.runs.insert(at, new);
            self.hold(&new);
        }
        self.release(&gone);
    }

    /// Sets a log as a checkpoint has it.
    pub(crate) fn restore(&mut self, id: LogId, range: LogRange, runs: Vec<Run>, shape: Shape) {
        for run in &runs {
            self.hold(run);
        }
        self.logs.insert(id, Log { start: range.start, end: range.end, runs, shape, ..Log::default() });
    }

    /// A log's extents of the journal files up to `file` were copied into `run`: from now on they are read there.
    pub(crate) fn settled(&mut self, id: LogId, file: u32, run: Run) {
        let Some(log) = self.logs.get_mut(&id) else { return };
        while log.window.front().is_some_and(|extent| extent.file <= file && extent.last() <= run.last) {
            log.window.pop_front();
            self.extents -= 1;
        }
        log.shrink();
        if run.last >= log.start {
            log.runs.push(run);
            self.hold(&run);
        }
    }

    /// Whether any log has a run in `segment`.
    pub(crate) fn holds(&self, segment: u64) -> bool {
        self.segments.contains_key(&segment)
    }

    /// The segments that hold something alive, with their logs.
    pub(crate) fn segments_by_number(&self) -> std::collections::BTreeMap<u64, Vec<LogId>> {
        let mut segments = std::collections::BTreeMap::<u64, Vec<LogId>>::new();
        for (id, log) in &self.logs {
            for run in &log.runs {
                segments.entry(run.segment).or_default().push(*id);
            }
        }
        segments
    }

    /// The segments that hold something alive.
    pub(crate) fn segments(&self) -> &IdMap<u64, SegmentUse> {
        &self.segments
    }

    /// Segments that hold nothing alive any more; each is named once.
    pub(crate) fn take_doomed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.doomed)
    }
}
