//! What is held of each log: its range, the extents of it that lie in the journal's window, and its runs in segments.
//! All of it in memory, under 1 KiB a log at rest. Knows nothing of files beyond their numbers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use model::{FormatTag, LogId, Offset, Wall};

use crate::inventory::Inventory;
use crate::rolls::Shape;
use crate::segment::build::STEP_BYTES;
use crate::{Cleaned, LogRange};

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

/// A set of ids of ours.
pub(crate) type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;

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
    /// Where its first extent begins in the file.
    pub(crate) at: u64,
    /// Bytes of its extents, headers included.
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

/// Extents for which an empty window keeps room.
const ROOM_KEPT: usize = 4;

impl Log {
    /// Position in the window of the extent that holds `offset`, or of the next one.
    pub(crate) fn window_at(&self, offset: Offset) -> usize {
        let is_before = |at: usize| self.window.get(at).is_none_or(|extent| extent.last() < offset);
        // Who reads all begins at the front, and the front is where a search from the tail would end last.
        if offset <= self.start && !is_before(0) {
            return 0;
        }
        // Most readers are at the tail: steps back from there, each twice the one before, touch least memory.
        let (mut high, mut step) = (self.window.len(), 1);
        while step <= high && !is_before(high - step) {
            high -= step;
            step *= 2;
        }
        let mut low = high.saturating_sub(step);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        high
    }

    /// The run that holds `offset` or the next one, if it is not in the window.
    pub(crate) fn run_at(&self, offset: Offset) -> Option<Run> {
        let at = self.runs.partition_point(|run| run.last < offset);
        self.runs.get(at).copied()
    }

    // Answers how many extents there are more.
    fn push(&mut self, extent: Extent) -> usize {
        self.end = extent.last().plus(1).max(self.end);
        let lives = extent.last() >= self.start;
        if lives {
            self.window.push_back(extent);
        }
        usize::from(lives)
    }

    /// Lets go of the first `count` extents of the window.
    fn pass(&mut self, count: usize) {
        self.window.drain(..count);
        // A log through which message after message goes needs no new memory for each.
        if self.window.is_empty() && self.window.capacity() > ROOM_KEPT {
            self.window = VecDeque::new();
        } else if self.window.capacity() > 16 && self.window.len() * 4 < self.window.capacity() {
            self.window.shrink_to(self.window.len() * 2);
        }
    }

    // Runs come rarely and stay long: no room is kept for many more.
    fn make_room(&mut self) {
        if self.runs.len() == self.runs.capacity() {
            self.runs.reserve_exact(1 + self.runs.len() / 4);
        }
    }
}

/// Logs of one piece of the table: it never moves, so that growing costs no turn more than this.
const CHUNK: usize = 256;

/// All logs. They have places in a table, so that somebody can go through them in slices while they change.
#[derive(Default)]
pub(crate) struct Index {
    places: IdMap<LogId, u32>,
    chunks: Vec<Vec<Option<(LogId, Log)>>>,
    free: Vec<u32>,
    /// Extents in all windows together.
    extents: usize,
    /// For each journal file of the window, in order, the logs it has a record of. Some may be gone since.
    touched: VecDeque<(u32, Vec<LogId>)>,
    /// The files that the runs are in.
    pub(crate) store: Inventory,
    /// Logs whose index has another step than usual.
    steps: IdMap<LogId, u32>,
}

impl Index {
    fn place(&self, id: LogId) -> Option<(usize, usize)> {
        self.places.get(&id).map(|place| (*place as usize / CHUNK, *place as usize % CHUNK))
    }

    pub(crate) fn get(&self, id: LogId) -> Option<&Log> {
        let (chunk, at) = self.place(id)?;
        self.chunks.get(chunk)?.get(at)?.as_ref().map(|(_, log)| log)
    }

    fn get_mut(&mut self, id: LogId) -> Option<&mut Log> {
        let (chunk, at) = self.place(id)?;
        self.chunks.get_mut(chunk)?.get_mut(at)?.as_mut().map(|(_, log)| log)
    }

    // The log, made when it is not there, noted as touched by `file`.
    fn touch(&mut self, id: LogId, file: u32) -> &mut Log {
        let (chunk, at) = self.place(id).unwrap_or_else(|| self.add(id, Log::default()));
        let (_, log) = self.chunks[chunk][at].get_or_insert_with(|| (id, Log::default()));
        if log.touched != file {
            log.touched = file;
            match self.touched.back_mut().filter(|(last, _)| *last == file) {
                Some((_, logs)) => logs.push(id),
                None => self.touched.push_back((file, vec![id])),
            }
        }
        log
    }

    fn add(&mut self, id: LogId, log: Log) -> (usize, usize) {
        let place = self.free.pop().unwrap_or_else(|| {
            if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
                self.chunks.push(Vec::with_capacity(CHUNK));
            }
            let at = (self.chunks.len() - 1) * CHUNK + self.chunks.last().map_or(0, Vec::len);
            self.chunks.last_mut().into_iter().for_each(|chunk| chunk.push(None));
            at as u32
        });
        self.places.insert(id, place);
        let (chunk, at) = (place as usize / CHUNK, place as usize % CHUNK);
        self.chunks[chunk][at] = Some((id, log));
        (chunk, at)
    }

    fn remove(&mut self, id: LogId) -> Option<Log> {
        let (chunk, at) = self.place(id)?;
        self.free.extend(self.places.remove(&id));
        self.chunks.get_mut(chunk)?.get_mut(at)?.take().map(|(_, log)| log)
    }

    /// Bytes of a log from one entry of the index of a file of the store to the next.
    pub(crate) fn step(&self, log: LogId) -> u32 {
        self.steps.get(&log).copied().unwrap_or(STEP_BYTES)
    }

    /// Sets it for what is written from now on.
    pub(crate) fn set_step(&mut self, log: LogId, step: u32) {
        if step == STEP_BYTES {
            self.steps.remove(&log);
        } else {
            self.steps.insert(log, step);
        }
    }

    pub(crate) fn range(&self, log: LogId) -> Option<LogRange> {
        self.get(log).map(|log| LogRange { start: log.start, end: log.end })
    }

    /// Offset after the last message of `log`; 0 when it was never written to.
    pub(crate) fn end(&self, log: LogId) -> Offset {
        self.get(log).map_or(Offset::ZERO, |log| log.end)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LogId, &Log)> {
        self.chunks.iter().flatten().flatten().map(|(id, log)| (*id, log))
    }

    /// The logs in one slice of the table; `None` behind the last. Logs do not move between slices.
    pub(crate) fn slice(&self, slice: usize) -> Option<impl Iterator<Item = (LogId, &Log)>> {
        self.chunks.get(slice).map(|chunk| chunk.iter().flatten().map(|(id, log)| (*id, log)))
    }

    /// The logs that journal file `file` has a record of; some may be gone since.
    pub(crate) fn touched(&self, file: u32) -> &[LogId] {
        let at = self.touched.partition_point(|(number, _)| *number < file);
        self.touched.get(at).filter(|(number, _)| *number == file).map_or(&[], |(_, logs)| logs)
    }

    /// The journal files up to `file` that logs have records in.
    pub(crate) fn touched_files(&self, file: u32) -> Vec<u32> {
        self.touched.iter().map(|(number, _)| *number).take_while(|number| *number <= file).collect()
    }

    /// Journal files up to `file` are no longer of the window.
    pub(crate) fn forget_files(&mut self, file: u32) {
        let gone = self.touched.partition_point(|(number, _)| *number <= file);
        self.touched.drain(..gone);
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn extents(&self) -> usize {
        self.extents
    }

    /// Adds an extent at the end of `log`.
    pub(crate) fn push(&mut self, log: LogId, extent: Extent) {
        let log = self.touch(log, extent.file);
        log.shape.grow(u64::from(extent.bytes), extent.time_max);
        let more = log.push(extent);
        self.extents += more;
    }

    /// Adds an extent that its segment has been told of already.
    pub(crate) fn push_known(&mut self, log: LogId, extent: Extent) {
        let more = self.touch(log, extent.file).push(extent);
        self.extents += more;
    }

    /// The newest segment of `log` ends, another begins at `first`.
    pub(crate) fn roll(&mut self, log: LogId, first: Offset, file: u32) {
        self.touch(log, file).shape.roll(first);
    }

    /// Makes the last extent of `log` longer.
    pub(crate) fn extend_last(&mut self, log: LogId, grow: impl FnOnce(&mut Extent)) {
        if let Some(log) = self.get_mut(log)
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
        let Some(log) = self.get_mut(log) else { return };
        let back = log.window.len().saturating_sub(1);
        let at = if log.window.back().is_some_and(|e| e.first == first) { back } else { log.window_at(first) };
        if let Some(extent) = log.window.get_mut(at).filter(|extent| extent.first == first) {
            extent.crc = crc;
        }
    }

    /// Forgets what lies before `before`. A log trimmed beyond its end begins there.
    pub(crate) fn trim(&mut self, id: LogId, before: Offset, file: u32) {
        let log = self.touch(id, file);
        log.start = log.start.max(before);
        log.end = log.end.max(log.start);
        log.shape.trim(log.start, log.end);
        let passed = log.window_at(log.start);
        log.pass(passed);
        let gone = log.runs.partition_point(|run| run.last < log.start);
        let runs: Vec<Run> = log.runs.drain(..gone).collect();
        self.extents -= passed;
        self.store.release(&runs);
    }

    /// Recovery only: what the window holds of the log from `first` on is not what was written there at last.
    /// `knows_end`: its end is as it was.
    pub(crate) fn cut_back(&mut self, id: LogId, first: Offset, knows_end: bool) {
        let Some(log) = self.get_mut(id) else { return };
        let kept = log.window.partition_point(|extent| extent.last() < first);
        let gone = log.window.len() - kept;
        log.window.truncate(kept);
        log.start = log.start.min(first);
        log.end = if knows_end { log.end } else { first };
        self.extents -= gone;
    }

    /// Forgets the log.
    pub(crate) fn drop_log(&mut self, id: LogId) {
        self.steps.remove(&id);
        if let Some(log) = self.remove(id) {
            self.extents -= log.window.len();
            self.store.release(&log.runs);
        }
    }

    /// Forgets what the window holds of the log, but not that the log is.
    pub(crate) fn clear_window(&mut self, id: LogId) {
        if let Some(log) = self.get_mut(id) {
            let count = log.window.len();
            log.pass(count);
            self.extents -= count;
        }
    }

    /// Puts `new` in the place of what is left of `old`, neighbours in the log's order; not if any of them has become
    /// another run meanwhile.
    pub(crate) fn replace(&mut self, id: LogId, old: &[Run], new: Run) {
        let Some(log) = self.get_mut(id) else { return };
        let is_there = |old: &Run| log.runs.iter().any(|run| (run.segment, run.first) == (old.segment, old.first));
        if !old.iter().all(|old| old.last < log.start || is_there(old)) {
            return;
        }
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
            self.store.hold(&new);
        }
        self.store.release(&gone);
    }

    /// What the log has in `first..end`, which is whole runs and extents, is in `run` now, or nothing is left of it.
    pub(crate) fn compacted(&mut self, id: LogId, (first, end): (Offset, Offset), run: Option<Run>) {
        let Some(log) = self.get_mut(id) else { return };
        let from = log.runs.partition_point(|run| run.first < first);
        let to = log.runs.partition_point(|run| run.first < end);
        let run = run.filter(|run| run.last >= log.start);
        let gone: Vec<Run> = log.runs.splice(from..to, run).collect();
        let passed = log.window.partition_point(|extent| extent.first < end);
        log.pass(passed);
        log.shape.join((first, end), run.map_or(0, |run| run.bytes));
        self.extents -= passed;
        run.iter().for_each(|run| self.store.hold(run));
        self.store.release(&gone);
    }

    /// The log is compacted up to `upto`; when the last tombstone's days are over that is left there.
    pub(crate) fn cleaned(&mut self, id: LogId, upto: Offset, tombstones_until: Option<Wall>) {
        if let Some(log) = self.get_mut(id) {
            log.shape.set_cleaned(Cleaned { upto, tombstones_until });
        }
    }

    /// Sets a log as a checkpoint has it.
    pub(crate) fn restore(&mut self, id: LogId, range: LogRange, runs: Vec<Run>, shape: Shape) {
        for run in &runs {
            self.store.hold(run);
        }
        self.add(id, Log { start: range.start, end: range.end, runs, shape, ..Log::default() });
    }

    /// A log's extents of the journal files up to `file` were copied into `run`: from now on they are read there.
    pub(crate) fn settled(&mut self, id: LogId, file: u32, run: Run) {
        let Some(log) = self.get_mut(id) else { return };
        let passed = log.window.partition_point(|extent| extent.file <= file && extent.last() <= run.last);
        log.pass(passed);
        // What is not in the window any more was trimmed, or compacted meanwhile.
        let lives = run.last >= log.start && passed > 0;
        if lives {
            log.make_room();
            log.runs.push(run);
        }
        self.extents -= passed;
        if lives {
            self.store.hold(&run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extent_of_an_offset_is_found_wherever_it_lies() {
        for count in 0..40u64 {
            let mut log = Log::default();
            for at in 0..count {
                let first = Offset(at * 10); // 3 messages, then a gap
                let of = Extent { first, last_delta: 2, ..EXTENT };
                log.window.push_back(of);
            }
            for offset in 0..=count * 10 + 1 {
                let wanted = log.window.partition_point(|extent| extent.last() < Offset(offset));
                assert_eq!(log.window_at(Offset(offset)), wanted, "{offset} of {count}");
            }
        }
    }

    const EXTENT: Extent = Extent {
        first: Offset(0),
        time_max: Wall(0),
        file: 1,
        at: 0,
        bytes: 1,
        last_delta: 0,
        count: 1,
        crc: 0,
        format: FormatTag(1),
        lost: false,
    };

    #[test]
    fn logs_keep_their_places_while_others_come_and_go() {
        let mut index = Index::default();
        for id in 0..1000u64 {
            index.trim(LogId(id), Offset(id), 1);
        }
        (0..1000).step_by(2).for_each(|id| index.drop_log(LogId(id)));
        (2000..2300).for_each(|id| index.trim(LogId(id), Offset(id), 2));
        assert_eq!((index.len(), index.iter().count()), (800, 800));
        assert!((0..2300).all(|id| index.end(LogId(id)).0 == if index.get(LogId(id)).is_some() { id } else { 0 }));
        let in_slices: usize = (0..).map_while(|slice| index.slice(slice).map(Iterator::count)).sum();
        assert_eq!(in_slices, 800);
        assert_eq!((index.touched(1).len(), index.touched(2).len(), index.touched(3).len()), (1000, 300, 0));
        index.forget_files(1);
        assert_eq!((index.touched(1).len(), index.touched(2).len()), (0, 300));
    }
}
