//! Settling: when the window is too large, what its oldest files still hold that is alive goes to segments, then a
//! checkpoint is made, and only then the files are used again. Appends go on meanwhile.
//!
//! Order of what becomes durable: segments, then all entries the checkpoint knows of, then the checkpoint; removals
//! last. So a stop at any moment leaves either the old checkpoint with its window, or the new one with its segments.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use model::LogId;

use crate::checkpoint::{self, Checkpoint, LogEntry};
use crate::engine::Storage;
use crate::index::Extent;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::journal::files::JournalFile;
use crate::journal::frame::file_name;
use crate::segment::build::{Built, Plan, build};
use crate::segment::segment_name;
use crate::{Completed, LogRange, StorageError};

/// A log with at least this part of a journal file gets a segment of its own: at most so many segments a file.
const BIG_LOG_PART: u64 = 16;
/// Entries to wait after settling found no space.
const AGAIN_AFTER: u64 = 64;

/// After so many batches that trim it is looked whether segments are mostly dead.
const MERGE_EVERY_TRIMS: u64 = 1024;

/// Where settling stands.
#[derive(Default)]
pub(crate) struct Settler {
    pub(crate) stage: Stage,
    pub(crate) segment_next: u64,
    /// After the disk was full: not before this entry.
    again_seq: u64,
    /// Segments that hold nothing alive, with the entry that must be durable before they may go.
    doomed: VecDeque<(u64, u64)>,
    /// Bytes written to segments.
    pub(crate) written_bytes: u64,
    pub(crate) settles: u64,
    pub(crate) merges: u64,
    /// Something has changed since it was last asked what to merge.
    pub(crate) merge_due: bool,
    /// Batches that trimmed or dropped.
    trims: u64,
    /// Segments that cannot be merged: they are damaged.
    pub(crate) unmergeable: BTreeSet<u64>,
}

#[derive(Default)]
pub(crate) enum Stage {
    #[default]
    Idle,
    /// A job copies files up to this number.
    Copying(u32),
    /// A job merges segments.
    Merging,
    /// The checkpoint waits for its last entry to be durable.
    Waiting(Freed, Box<Checkpoint>),
    /// A job writes the checkpoint.
    Writing(Freed),
}

/// What nobody needs once the checkpoint is durable.
#[derive(Clone, Default)]
pub(crate) struct Freed {
    /// Journal files up to this number.
    pub(crate) journal: u32,
    /// Segments that were merged into another.
    pub(crate) segments: Vec<u64>,
}

impl Settler {
    pub(crate) fn new(segment_next: u64) -> Settler {
        Settler { segment_next, ..Settler::default() }
    }
}

impl Storage {
    /// Notes segments that have lost their last run, by what was just committed.
    pub(crate) fn note_doomed(&mut self) {
        let seq = self.writer.seq_next();
        self.settler.trims += 1;
        if self.settler.trims.is_multiple_of(MERGE_EVERY_TRIMS) {
            self.settler.merge_due = true;
        }
        for segment in self.index.take_doomed() {
            self.segments.remove(segment);
            self.settler.doomed.push_back((seq, segment));
        }
    }

    /// Whether settling waits for space.
    pub(crate) fn settling_waits(&self) -> bool {
        self.settler.again_seq > self.writer.seq_next()
    }

    /// Settling need not wait any more.
    pub(crate) fn settle_again(&mut self) {
        if self.settling_waits() {
            self.settler.again_seq = 0;
            self.go_on_settling();
        }
    }

    /// Whether a sync is needed though nobody waits for it.
    pub(crate) fn settling_wants_sync(&self) -> bool {
        matches!(self.settler.stage, Stage::Waiting(..)) || !self.settler.doomed.is_empty()
    }

    /// Starts what is due. Called after every flush and every completed sync.
    pub(crate) fn go_on_settling(&mut self) {
        self.remove_doomed();
        if let Stage::Waiting(freed, checkpoint) = &mut self.settler.stage
            && checkpoint.seq <= self.writer.synced_seq
        {
            let (freed, checkpoint) = (std::mem::take(freed), std::mem::take(&mut **checkpoint));
            self.settler.stage = Stage::Writing(freed);
            let disk = Arc::clone(&self.disk);
            self.jobs.push_back(Job::new(Lane::Work, move || {
                let result = checkpoint::write(&*disk, &checkpoint);
                JobDone { what: Outcome::Checkpointed { result } }
            }));
        }
        if matches!(self.settler.stage, Stage::Idle) && self.writer.seq_next() >= self.settler.again_seq {
            self.start_settling();
            if matches!(self.settler.stage, Stage::Idle) {
                self.start_merging();
            }
        }
    }

    fn start_settling(&mut self) {
        let files = self.writer.files();
        let too_many = files.len().saturating_sub(self.options.journal_files_max);
        let crowded = self.index.extents() > self.options.extents_max;
        let take = if crowded { too_many.max(1) } else { too_many };
        if crowded && files.len() < 2 {
            self.writer.end_file_soon();
            return;
        }
        let Some(last) = take.checked_sub(1).and_then(|last| files.get(last)).map(|file| file.number) else { return };
        let taken: Vec<Arc<JournalFile>> = files[..take].to_vec();
        let plans = self.plan(last);
        self.settler.stage = Stage::Copying(last);
        let disk = Arc::clone(&self.disk);
        self.jobs.push_back(Job::new(Lane::Work, move || {
            let copy = || -> io::Result<Vec<Built>> {
                let built = plans.iter().map(|plan| build(&*disk, plan, &taken)).collect::<io::Result<Vec<_>>>()?;
                if !built.is_empty() {
                    disk.sync_folder("segments")?;
                    disk.sync_folder("")?;
                }
                Ok(built)
            };
            let result = copy();
            if result.is_err() {
                // Gives the space back at once; what cannot be removed now is an orphan for the next start.
                plans.iter().for_each(|plan| drop(disk.remove(&segment_name(plan.number))));
            }
            JobDone { what: Outcome::Copied { result } }
        }));
    }

    // What is alive in the files up to `file`: big logs to segments of their own, the others to a common one.
    fn plan(&mut self, file: u32) -> Vec<Plan> {
        let mut logs: Vec<(LogId, Vec<Extent>)> = Vec::new();
        for (id, log) in self.index.iter() {
            let count = log.window.iter().take_while(|extent| extent.file <= file).count();
            if count > 0 {
                logs.push((id, log.window.range(..count).copied().collect()));
            }
        }
        logs.sort_unstable_by_key(|(id, _)| *id);
        let big = self.options.journal_file_bytes / BIG_LOG_PART;
        let bytes = |extents: &[Extent]| extents.iter().map(|extent| u64::from(extent.bytes)).sum::<u64>();
        let (big, small): (Vec<_>, Vec<_>) = logs.into_iter().partition(|(_, extents)| bytes(extents) >= big);
        let mut plans = Vec::new();
        let common = Some(small).filter(|small| !small.is_empty());
        for logs in big.into_iter().map(|log| vec![log]).chain(common) {
            plans.push(Plan { number: self.settler.segment_next, logs });
            self.settler.segment_next += 1;
        }
        plans
    }

    /// The copies are durable: readers go there from now on, and the checkpoint is drawn up.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when the disk failed.
    pub(crate) fn copied(&mut self, result: io::Result<Vec<Built>>) -> Result<Completed, StorageError> {
        let Stage::Copying(file) = self.settler.stage else { return Ok(Completed::Nothing) };
        let built = match result {
            Ok(built) => built,
            Err(error) => return self.settling_failed("settling", &error),
        };
        self.settler.settles += 1;
        for segment in built {
            self.settler.written_bytes += segment.bytes;
            for (log, run) in &segment.runs {
                self.index.settled(*log, file, *run);
            }
            self.index.note_segment(segment.number, segment.runs.iter().map(|(_, run)| run.bytes).sum());
            if self.index.holds(segment.number) {
                self.segments.insert(segment.number, segment.open);
            } else {
                self.settler.doomed.push_back((self.writer.seq_next(), segment.number));
            }
        }
        self.begin_checkpoint(Freed { journal: file, segments: Vec::new() });
        Ok(Completed::Nothing)
    }

    /// Draws up a checkpoint, which waits for what it knows to be durable.
    pub(crate) fn begin_checkpoint(&mut self, freed: Freed) {
        // What is committed from here on is not in the checkpoint, so it must not be in the same entry either.
        self.writer.seal(&mut self.index, &mut self.tail);
        let checkpoint = self.draw_up(freed.journal);
        self.settler.stage = Stage::Waiting(freed, Box::new(checkpoint));
        if self.failure().is_none() {
            self.start_sync();
            self.go_on_settling();
        }
    }

    fn draw_up(&self, settled: u32) -> Checkpoint {
        let entry = |(id, log): (LogId, &crate::index::Log)| LogEntry {
            log: id,
            range: LogRange { start: log.start, end: log.end },
            covered: log.window.front().map_or(log.end, |extent| extent.first),
            runs: log.runs.clone(),
            shape: log.shape.clone(),
        };
        let (first_file, first_seq) = self.writer.first_after(settled);
        Checkpoint {
            seq: self.writer.seq_next() - 1,
            first_file,
            first_seq,
            segment_next: self.settler.segment_next,
            logs: self.index.iter().map(entry).collect(),
            segments: self.index.segments().iter().map(|(number, segment)| (*number, segment.bytes)).collect(),
            state: self.state.clone(),
        }
    }

    /// The checkpoint is durable: the files before it are free.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when the disk failed.
    pub(crate) fn checkpointed(&mut self, result: &io::Result<()>) -> Result<Completed, StorageError> {
        let Stage::Writing(freed) = std::mem::take(&mut self.settler.stage) else { return Ok(Completed::Nothing) };
        if let Err(error) = result {
            return self.settling_failed("writing the checkpoint", error);
        }
        let files = self.writer.release(freed.journal);
        self.space.forget();
        self.settler.merge_due = true;
        let names = files.into_iter().map(|number| file_name(u64::from(number)));
        self.remove(names.chain(freed.segments.into_iter().map(segment_name)).collect());
        if self.failure().is_none() {
            self.go_on_settling();
        }
        Ok(Completed::Nothing)
    }

    // A full disk is waited out: nothing is lost, the window is only larger. Anything else is fatal.
    pub(crate) fn settling_failed(&mut self, what: &str, error: &io::Error) -> Result<Completed, StorageError> {
        self.settler.stage = Stage::Idle;
        if error.kind() == io::ErrorKind::StorageFull {
            tracing::warn!(%error, "{what} must wait for space");
            self.settler.again_seq = self.writer.seq_next() + AGAIN_AFTER;
            return Ok(Completed::Nothing);
        }
        Err(self.close(what, error))
    }

    fn remove_doomed(&mut self) {
        let mut names = Vec::new();
        while let Some((seq, segment)) = self.settler.doomed.front().copied() {
            if seq > self.writer.synced_seq {
                break;
            }
            self.settler.doomed.pop_front();
            names.push(segment_name(segment));
        }
        self.remove(names);
    }

    fn remove(&mut self, names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        let disk = Arc::clone(&self.disk);
        self.jobs.push_back(Job::new(Lane::Work, move || {
            for name in names {
                // What stays is an orphan: the next start removes it.
                if let Err(error) = disk.remove(&name) {
                    tracing::warn!(%error, "{name} could not be removed");
                }
            }
            JobDone { what: Outcome::Removed }
        }));
    }
}
