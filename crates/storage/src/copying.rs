//! The pace of copying: hands out a step at a time, fast enough that the window stays bounded, slow enough that
//! appends keep their speed; when all is durable, tells the index in slices. It owns no clock: its measure is the
//! journal's growth, and where that stands still the owner of the clock says so ([`Storage::tick`]).

use std::io;
use std::sync::Arc;

use crate::engine::Storage;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::segment::copy::{Built, Copier, Step, Task};
use crate::{Completed, Disk, StorageError};

/// Bytes of a step.
const STEP_BYTES: u64 = 16 << 20;
/// … or this part of a journal file, if that is less.
const STEP_PART: u64 = 16;
/// Runs that the index is told of in one slice.
const SLICE_RUNS: usize = 512;

/// What is copied, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Journal files up to `file` settle; it shall be done when so many bytes more are in the journal.
    Settle { file: u32, span: u64 },
    /// Files of the store are merged; the result has been merged so often.
    Merge { tier: u8 },
}

enum Phase {
    /// Between two steps.
    Ready(Box<Copier>),
    /// A job makes a step.
    Stepping,
    /// All is durable; the index is told.
    Applying(Vec<Built>),
}

/// A copy under way.
pub(crate) struct Copying {
    pub(crate) purpose: Purpose,
    phase: Phase,
    /// Bytes to copy, about, and copied.
    total: u64,
    done: u64,
    /// Bytes written to the journal when it began.
    began_at: u64,
    number_next: u64,
    /// Files that are damaged if it turns out that one of them is.
    sources: Vec<u64>,
}

impl Copying {
    pub(crate) fn begin(purpose: Purpose, task: Task, disk: Arc<dyn Disk>, began_at: u64) -> Copying {
        let total = task.bytes;
        let number_next = task.number + task.groups.len() as u64 + 1;
        let phase = Phase::Ready(Box::new(Copier::new(disk, task)));
        Copying { purpose, phase, total, done: 0, began_at, number_next, sources: Vec::new() }
    }

    /// Notes the files it reads.
    pub(crate) fn with_sources(mut self, sources: Vec<u64>) -> Copying {
        self.sources = sources;
        self
    }

    pub(crate) fn number_next(&self) -> u64 {
        self.number_next
    }

    /// Whether the index is being told of its outcome.
    pub(crate) fn is_applying(&self) -> bool {
        matches!(self.phase, Phase::Applying(_))
    }

    // Whether the next step would not come too early, so much having been written to the journal since it began.
    fn is_due(&self, grown: u64, haste: u64) -> bool {
        match self.purpose {
            Purpose::Settle { span, .. } => {
                u128::from(self.done) * u128::from(span) <= u128::from(self.total) * u128::from(grown)
            }
            Purpose::Merge { .. } => self.done <= grown.saturating_mul(haste),
        }
    }
}

// So much the window never exceeds.
fn hard_max(max: usize) -> usize {
    2 * max + 4
}

impl Storage {
    /// Hands out the steps that are due.
    pub(crate) fn go_on_copying(&mut self) {
        let written = self.writer.written_bytes;
        if self.settler.calm_bytes.is_some_and(|calm| calm != written) {
            self.settler.calm_bytes = None;
        }
        let calm = self.settler.calm_bytes.is_some();
        let crowded = self.is_crowded();
        let settle_now = calm || crowded;
        // Threads that stand back for all others may wait long for a core; a window that is too large must not.
        let lane = if crowded { Lane::Work } else { Lane::Idle };
        let haste = 1 + self.index.store.len() as u64 / 64;
        let step = STEP_BYTES.min(self.options.journal_file_bytes / STEP_PART);
        self.settler.put_off_bytes = None;
        let work = [(&mut self.settler.settling, settle_now), (&mut self.settler.merging, calm)];
        for (copying, now) in work {
            let Some(copying) = copying else { continue };
            let Phase::Ready(_) = copying.phase else { continue };
            if !now && !copying.is_due(written - copying.began_at, haste) {
                self.settler.put_off_bytes = Some(written);
                continue;
            }
            let Phase::Ready(mut copier) = std::mem::replace(&mut copying.phase, Phase::Stepping) else { continue };
            let purpose = copying.purpose;
            self.jobs.push_back(Job::new(lane, move || {
                let result = copier.step(step);
                JobDone { what: Outcome::Copied { purpose, copier, result } }
            }));
        }
    }

    /// Whether the window is so large that settling must not wait for anything.
    fn is_crowded(&self) -> bool {
        self.writer.files().len() > self.options.journal_files_max + 1
            || self.index.extents() > self.options.extents_max / 8 * 9
    }

    /// Takes a step back.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when the disk failed.
    pub(crate) fn copied(
        &mut self,
        purpose: Purpose,
        mut copier: Box<Copier>,
        result: io::Result<Step>,
    ) -> Result<Completed, StorageError> {
        let slot = match purpose {
            Purpose::Settle { .. } => &mut self.settler.settling,
            Purpose::Merge { .. } => &mut self.settler.merging,
        };
        let Some(copying) = slot else { return Ok(Completed::Nothing) };
        copying.done = copier.done_bytes;
        copier.spent.clear();
        match result {
            Ok(Step::More) => copying.phase = Phase::Ready(copier),
            Ok(Step::Done(mut built)) => {
                // Told from the end on: the first of a log first, or readers would miss it until it is.
                built.reverse();
                built.iter_mut().for_each(|of| of.moved.reverse());
                let bytes: u64 = built.iter().map(|built| built.bytes).sum();
                copying.phase = Phase::Applying(built);
                self.note_unread();
                match purpose {
                    Purpose::Settle { .. } => self.settler.settled_bytes += bytes,
                    Purpose::Merge { .. } => self.settler.merged_bytes += bytes,
                }
            }
            Ok(Step::Unreadable) => {
                let sources = std::mem::take(&mut copying.sources);
                *slot = None;
                // One of them is damaged; unless it was only trimmed away meanwhile.
                if sources.iter().all(|number| self.index.store.holds(*number)) {
                    self.settler.unmergeable.extend(sources);
                }
            }
            Err(error) => {
                *slot = None;
                self.copying_failed("settling", &error)?;
            }
        }
        self.go_on_settling();
        Ok(Completed::Nothing)
    }

    /// A full disk is waited out: nothing is lost, the window is only larger. Anything else is fatal.
    ///
    /// # Errors
    /// [`StorageError::Closed`].
    pub(crate) fn copying_failed(&mut self, what: &str, error: &io::Error) -> Result<(), StorageError> {
        if error.kind() != io::ErrorKind::StorageFull {
            return Err(self.close(what, error));
        }
        tracing::warn!(%error, "{what} must wait for space");
        self.put_off_settling();
        Ok(())
    }

    /// Tells the index of a slice of what is durable now. Answers whether there is more.
    pub(crate) fn apply_copies(&mut self) -> bool {
        // A checkpoint must not see one half before and the other after.
        if self.settler.checkpointing.is_drawing() {
            return false;
        }
        let mut left = SLICE_RUNS;
        self.apply_settling(&mut left) | self.apply_merging(&mut left)
    }

    fn apply_settling(&mut self, left: &mut usize) -> bool {
        let Some(Copying { purpose: Purpose::Settle { file, .. }, phase: Phase::Applying(built), .. }) =
            &mut self.settler.settling
        else {
            return false;
        };
        let file = *file;
        while let Some(of) = built.last_mut() {
            if !std::mem::replace(&mut of.is_known, true) {
                self.index.store.open(of.file, of.moved.iter().map(|moved| moved.new.bytes).sum(), 0);
            }
            while let Some(moved) = of.moved.pop() {
                self.index.settled(moved.log, file, moved.new);
                *left = left.saturating_sub(1);
                if *left == 0 {
                    return true;
                }
            }
            self.index.store.close(of.file.number);
            built.pop();
        }
        self.settler.settling = None;
        self.settler.settles += 1;
        self.settler.starves = false;
        self.index.forget_files(file);
        self.note_doomed();
        let freed = &mut self.settler.checkpointing.freed;
        freed.journal = freed.journal.max(file);
        false
    }

    fn apply_merging(&mut self, left: &mut usize) -> bool {
        let Some(Copying { purpose: Purpose::Merge { tier }, phase: Phase::Applying(built), .. }) =
            &mut self.settler.merging
        else {
            return false;
        };
        let tier = *tier;
        while let Some(of) = built.last_mut() {
            if !std::mem::replace(&mut of.is_known, true) {
                self.index.store.open(of.file, of.moved.iter().map(|moved| moved.new.bytes).sum(), tier);
            }
            while let Some(moved) = of.moved.pop() {
                self.index.replace(moved.log, &moved.old, moved.new);
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.note_doomed();
                    return true;
                }
            }
            self.index.store.close(of.file.number);
            built.pop();
        }
        self.note_doomed(); // while it still counts as a merge: they go after the next checkpoint
        self.settler.merging = None;
        self.settler.merges += 1;
        self.settler.merge_due = true;
        false
    }

    /// How far the window has outgrown its bounds because settling does not keep up, or how full the current journal
    /// file is while the next one is not ready: 0 while neither is, 1000 when appends are refused. In between, whoever
    /// hands in appends should do so the more slowly the greater it is.
    #[must_use]
    pub fn lag_permille(&self) -> u32 {
        let part = |is: usize, max: usize| {
            let (soft, hard) = (max + max / 2 + 1, hard_max(max));
            (is.saturating_sub(soft) * 1000 / (hard - soft)).min(1000) as u32
        };
        let files = part(self.writer.files().len(), self.options.journal_files_max);
        files.max(part(self.index.extents(), self.options.extents_max)).max(self.writer.hurry_permille())
    }

    /// Whether an append may be taken.
    ///
    /// # Errors
    /// [`StorageError::Behind`].
    pub(crate) fn check_lag(&self) -> Result<(), StorageError> {
        if self.lag_permille() < 1000 {
            return Ok(());
        }
        let (files, files_max) = (self.writer.files().len(), hard_max(self.options.journal_files_max));
        Err(StorageError::Behind { files, files_max })
    }

    /// Whether something waits for a moment in which nothing is written: then [`Storage::tick`] should be called within
    /// some 20 ms.
    #[must_use]
    pub fn wants_tick(&self) -> bool {
        (self.settler.put_off_bytes.is_some() || self.writer.wants_mark()) && self.failure().is_none()
    }

    /// A moment has passed. If nothing was written in it, background work goes on at full speed until something is, and
    /// the journal says that its last entry is durable: else, found damaged, it would be taken for a torn end.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when writing that failed.
    pub fn tick(&mut self) -> Result<(), StorageError> {
        if self.failure().is_some() {
            return Ok(());
        }
        if !self.writer.wants_mark() {
            self.settler.mark_bytes = None;
        } else if self.settler.mark_bytes.replace(self.writer.written_bytes) == Some(self.writer.written_bytes) {
            self.write_mark()?;
        }
        if self.settler.put_off_bytes == Some(self.writer.written_bytes) {
            self.settler.calm_bytes = self.settler.put_off_bytes;
        }
        self.go_on_settling();
        Ok(())
    }

    fn write_mark(&mut self) -> Result<(), StorageError> {
        self.writer.seal_mark(&mut self.index, &mut self.tail);
        self.writer.write().map(drop).map_err(|error| self.close("writing the journal", &error))?;
        self.tail.shrink();
        // What was put off waits for messages, not for this.
        self.settler.put_off_bytes = self.settler.put_off_bytes.map(|_| self.writer.written_bytes);
        Ok(())
    }
}
