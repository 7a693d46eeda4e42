//! Compaction: of each key in a log only what was written last stays. Closed segments are written anew, the oldest
//! first, without what was written again later and without tombstones whose days are over; offsets stay what they are.
//!
//! One log at a time, in steps that the layer above asks for, so that it sets the pace. Settling and merging go on
//! meanwhile: what was written is taken only if the log's sources are still those that were read, else that group is
//! done again. The new file is durable before a checkpoint that points to it, and the old ones go after that.

mod keys;
mod weeder;

use std::io;
use std::sync::Arc;

use model::{Formats, LogId, Offset, Wall};

use crate::engine::Storage;
use crate::index::Log;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::journal::files::JournalFile;
use crate::segment::FileId;
use crate::{Completed, StorageError};

pub(crate) use weeder::{Item, WeedStep, Weeder};

/// How often a group is done again because its sources have changed.
const TRIES_MAX: u32 = 4;

/// What to compact, and how.
#[derive(Clone)]
pub struct CompactRequest {
    /// The log.
    pub log: LogId,
    /// Only what lies before; within the log's closed segments.
    pub upto: Offset,
    /// The formats of what is in it.
    pub formats: Arc<Formats>,
    /// Now: tombstones whose days are over go.
    pub now: Wall,
    /// Until when tombstones stay that are met for the first time.
    pub tombstones_until: Wall,
    /// Neighbouring segments that together are no larger become one.
    pub segment_bytes: u64,
    /// Memory for keys; when it is full the rest is left to the next time.
    pub keys_bytes_max: usize,
}

/// How far a log is compacted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaned {
    /// Everything before was compacted once.
    pub upto: Offset,
    /// When the days of all tombstones are over that were left there; `None` when there are none.
    pub tombstones_until: Option<Wall>,
}

/// What came of compacting a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compacted {
    /// The log.
    pub log: LogId,
    /// It was done; else something could not be read, or would not hold still.
    pub is_done: bool,
    /// Messages removed.
    pub removed: u64,
}

/// A group being written anew.
struct Group {
    first: Offset,
    end: Offset,
    file: FileId,
    items: Vec<Item>,
}

enum Phase {
    /// The next step can be made.
    Ready(Box<Weeder>),
    /// A job makes one.
    Stepping,
    /// A group was written, and the index is to be told.
    Written(Box<Weeder>, Option<(FileId, crate::index::Run)>),
}

/// A compaction under way.
pub(crate) struct Compacting {
    log: LogId,
    segment_bytes: u64,
    phase: Phase,
    /// Keys are known up to here; `None` while they are being read.
    mapped: Option<Offset>,
    /// Segments before are done.
    done: Offset,
    group: Option<Group>,
    tries: u32,
}

impl Storage {
    /// Begins to compact a log; each [`Storage::step_compaction`] goes on with it. False when another is under way or
    /// there is nothing to do.
    pub fn begin_compaction(&mut self, request: CompactRequest) -> bool {
        let Some(log) = self.index.get(request.log).filter(|_| self.compacting.is_none()) else { return false };
        let upto = request.upto.min(log.shape.active_first());
        let from = log.shape.cleaned().upto.max(log.start);
        if upto <= log.start {
            return false;
        }
        let items = self.items(log, (from, upto));
        let files = self.writer.files().to_vec();
        let (id, segment_bytes) = (request.log, request.segment_bytes);
        let request = CompactRequest { upto, ..request };
        let step = self.index.step(id);
        let weeder = Box::new(Weeder::new(Arc::clone(&self.disk), (request, step), items, files));
        let (phase, done) = (Phase::Ready(weeder), Offset::ZERO);
        self.compacting = Some(Compacting { log: id, segment_bytes, phase, mapped: None, done, group: None, tries: 0 });
        true
    }

    /// Makes a job of the next step of about `bytes`, if one can be made now.
    pub fn step_compaction(&mut self, bytes: u64) {
        let Some(compacting) = &mut self.compacting else { return };
        let Phase::Ready(_) = compacting.phase else { return };
        let Phase::Ready(mut weeder) = std::mem::replace(&mut compacting.phase, Phase::Stepping) else { return };
        self.jobs.push_back(Job::new(Lane::Idle, move || {
            let result = weeder.step(bytes);
            JobDone { what: Outcome::Weeded { weeder, result } }
        }));
    }

    /// Whether a compaction is under way, and whether its next step can be made.
    #[must_use]
    pub fn compaction(&self) -> Option<bool> {
        self.compacting.as_ref().map(|compacting| matches!(compacting.phase, Phase::Ready(_)))
    }

    /// What came of the last compaction, told once.
    pub fn take_compacted(&mut self) -> Option<Compacted> {
        self.compacted.take()
    }

    /// How far `log` is compacted.
    #[must_use]
    pub fn cleaned(&self, log: LogId) -> Cleaned {
        self.index.get(log).map(|log| log.shape.cleaned()).unwrap_or_default()
    }

    // What the log holds in `from..end`, whole extents and runs.
    fn items(&self, log: &Log, (from, end): (Offset, Offset)) -> Vec<Item> {
        let runs = log.runs.iter().filter(|run| run.last >= from && run.first < end);
        let extents = log.window.iter().skip(log.window_at(from)).take_while(|extent| extent.first < end);
        let runs = runs.map(|run| Item::Run(self.index.store.file(run.segment), *run));
        runs.chain(extents.map(|extent| Item::Extent(*extent))).collect()
    }

    /// Takes a step back.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when the disk failed.
    pub(crate) fn weeded(
        &mut self,
        weeder: Box<Weeder>,
        result: io::Result<WeedStep>,
    ) -> Result<Completed, StorageError> {
        let Some(compacting) = &mut self.compacting else { return Ok(Completed::Nothing) };
        match result {
            Ok(WeedStep::More) => compacting.phase = Phase::Ready(weeder),
            Ok(WeedStep::Mapped(mapped)) => {
                compacting.mapped = Some(mapped);
                self.next_group(weeder);
            }
            Ok(WeedStep::Rewritten(made)) => compacting.phase = Phase::Written(weeder, made),
            Ok(WeedStep::Unreadable) => self.end_compaction(&weeder, false),
            Err(error) => {
                self.end_compaction(&weeder, false);
                self.copying_failed("compacting", &error)?;
            }
        }
        self.go_on_settling();
        Ok(Completed::Nothing)
    }

    fn end_compaction(&mut self, weeder: &Weeder, is_done: bool) {
        self.compacting = None;
        self.compacted = Some(Compacted { log: weeder.log(), is_done, removed: weeder.removed });
    }

    // Goes on with the next group of segments, or ends.
    fn next_group(&mut self, mut weeder: Box<Weeder>) {
        let Some(Compacting { log, segment_bytes, mapped: Some(mapped), done, .. }) = self.compacting else { return };
        let Some(found) = self.index.get(log) else { return self.end_compaction(&weeder, false) };
        let mut group: Option<(Offset, Offset, u64)> = None;
        for (closed, end) in found.shape.closed().filter(|(_, end)| *end > done) {
            let joined = group.map_or(closed.bytes, |(_, _, bytes)| bytes + closed.bytes);
            if closed.first >= mapped || (group.is_some() && joined > segment_bytes) {
                break;
            }
            group = Some((group.map_or(closed.first, |(first, ..)| first), end, joined));
        }
        let Some((first, end, bytes)) = group else {
            self.index.cleaned(log, mapped, weeder.tombstones_until);
            self.settler.checkpointing.freed.anyway = true;
            return self.end_compaction(&weeder, true);
        };
        let items = self.items(found, (first, end));
        let own = (bytes >= self.own_bytes()).then_some((log, first));
        let file = FileId { number: self.settler.file_next, own };
        self.settler.file_next += 1;
        weeder.rewrite(file, items.clone(), self.window_files(&items));
        if let Some(compacting) = &mut self.compacting {
            compacting.group = Some(Group { first, end, file, items });
            compacting.phase = Phase::Ready(weeder);
        }
    }

    fn window_files(&self, items: &[Item]) -> Vec<Arc<JournalFile>> {
        let wanted =
            |number: u32| items.iter().any(|item| matches!(item, Item::Extent(extent) if extent.file == number));
        self.writer.files().iter().filter(|file| wanted(file.number)).cloned().collect()
    }

    /// Tells the index of a group that was written.
    pub(crate) fn apply_compaction(&mut self) {
        let is_written = |compacting: &Compacting| matches!(compacting.phase, Phase::Written(..));
        // A checkpoint must not see a run whose file it does not know.
        if self.settler.checkpointing.is_drawing() || !self.compacting.as_ref().is_some_and(is_written) {
            return;
        }
        let Some(compacting) = &mut self.compacting else { return };
        let (id, group) = (compacting.log, compacting.group.take());
        let Phase::Written(weeder, made) = std::mem::replace(&mut compacting.phase, Phase::Stepping) else { return };
        let Some(group) = group else { return self.end_compaction(&weeder, false) };
        let same = self.index.get(id).is_some_and(|log| self.items(log, (group.first, group.end)) == group.items);
        if !same {
            self.settler.removing.add(made.map(|(file, _)| file).into_iter().collect());
            let Some(compacting) = &mut self.compacting else { return };
            compacting.tries += 1;
            return if compacting.tries < TRIES_MAX {
                self.next_group(weeder)
            } else {
                self.end_compaction(&weeder, false)
            };
        }
        self.take_group(id, &group, made.map(|(_, run)| run));
        if let Some(compacting) = &mut self.compacting {
            (compacting.done, compacting.tries) = (group.end, 0);
        }
        self.next_group(weeder);
    }

    fn take_group(&mut self, id: LogId, group: &Group, run: Option<crate::index::Run>) {
        self.note_doomed(); // those before go by their own rule
        if let Some(run) = run {
            self.index.store.open(group.file, run.bytes, 0);
        }
        self.index.compacted(id, (group.first, group.end), run);
        if run.is_some() {
            self.index.store.close(group.file.number);
        }
        let moved = group.items.iter().filter_map(|item| match item {
            Item::Run(file, _) => Some(file.number),
            Item::Extent(_) => None,
        });
        // The checkpoint on disk still points to them.
        self.settler.checkpointing.pin(moved);
        self.note_doomed();
    }
}
