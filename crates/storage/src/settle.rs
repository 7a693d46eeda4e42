//! Settling: when the window is too large, what its oldest files still hold that is alive goes to the store, then a
//! checkpoint is made, and only then the files are used again. Appends go on meanwhile.
//!
//! Order of what becomes durable: files of the store, then all entries the checkpoint knows of, then the checkpoint;
//! removals last. So a stop at any moment leaves either the old checkpoint with its window, or the new one.
//!
//! Nothing here takes long: plans are made in slices of the index, copies are steps of a job (`copying`), the
//! checkpoint is drawn up in slices (`checkpointing`).

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{LogId, Offset};

use crate::checkpointing::Checkpointing;
use crate::copying::{Copying, Purpose};
use crate::engine::Storage;
use crate::index::IdSet;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::merging::MergePlan;
use crate::removing::Removing;
use crate::segment::copy::{Group, Source, Task};

/// A log with at least so many bytes at once gets a segment to itself.
const OWN_BYTES: u64 = 1 << 20;
/// … or this part of a journal file, if that is less.
const OWN_PART: u64 = 16;
/// Entries to wait after there was no space.
const AGAIN_AFTER: u64 = 64;
/// Logs, and extents, that are planned for in one slice.
const SLICE_LOGS: usize = 512;
const SLICE_EXTENTS: usize = 8192;
/// After so many batches that trim it is looked whether files of the store are mostly dead.
const MERGE_EVERY_TRIMS: u64 = 1024;

/// What goes on behind the appends.
#[derive(Default)]
pub(crate) struct Settler {
    /// No file of the store has this number or a greater one.
    pub(crate) file_next: u64,
    pub(crate) settle_plan: Option<SettlePlan>,
    /// The oldest journal files being copied.
    pub(crate) settling: Option<Copying>,
    pub(crate) merge_plan: Option<MergePlan>,
    /// Files of the store being merged.
    pub(crate) merging: Option<Copying>,
    pub(crate) checkpointing: Checkpointing,
    pub(crate) removing: Removing,
    /// The wake-up for the next slice of something is on its way.
    pub(crate) wake: bool,
    /// After the disk was full: not before this entry.
    pub(crate) again_seq: u64,
    /// The disk was full for it, and nothing has been settled since.
    pub(crate) starves: bool,
    /// Bytes written to the journal when copying was last put off.
    pub(crate) put_off_bytes: Option<u64>,
    /// Bytes written to the journal when its last entry was last seen to be durable and the last.
    pub(crate) mark_bytes: Option<u64>,
    /// Nothing has been written for a moment.
    pub(crate) calm_bytes: Option<u64>,
    /// Bytes written by settling, by merging, to checkpoints.
    pub(crate) settled_bytes: u64,
    pub(crate) merged_bytes: u64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) settles: u64,
    pub(crate) merges: u64,
    pub(crate) checkpoints: u64,
    /// Something has changed since it was last asked what to merge.
    pub(crate) merge_due: bool,
    /// Batches that trimmed or dropped.
    trims: u64,
    /// Files that cannot be merged: they are damaged.
    pub(crate) unmergeable: BTreeSet<u64>,
}

/// What is alive in the oldest files, as far as it has been gone through.
pub(crate) struct SettlePlan {
    /// The last of the files.
    file: u32,
    /// How many of them are taken.
    files: usize,
    /// Numbers of the files whose logs are gone through, and how far.
    lists: Vec<u32>,
    at: usize,
    seen: IdSet<LogId>,
    groups: Vec<Group>,
    bytes: u64,
}

impl Settler {
    pub(crate) fn new(file_next: u64) -> Settler {
        Settler { file_next, ..Settler::default() }
    }
}

impl Storage {
    /// Goes on with what is due, a little. Called after every flush and whenever a job has come back.
    pub(crate) fn go_on_settling(&mut self) {
        if self.failure().is_some() {
            return;
        }
        self.start_settling();
        self.start_merging();
        self.go_on_copying();
        self.go_on_checkpointing();
        self.go_on_removing();
        // A slice is of what is written, and at most one is taken between two wake-ups.
        if self.writer.is_in_entry() || self.settler.wake {
            return;
        }
        self.apply_compaction();
        let more = self.plan_settling() | self.plan_merging() | self.apply_copies() | self.draw_checkpoint();
        if more {
            self.settler.wake = true;
            self.jobs.push_back(Job::new(Lane::Work, || JobDone { what: Outcome::Woken }));
        }
    }

    /// The wake-up has come.
    pub(crate) fn woken(&mut self) {
        self.settler.wake = false;
        self.go_on_settling();
    }

    /// Notes what trims and drops just committed have left without a living run.
    pub(crate) fn note_trims(&mut self) {
        self.settler.trims += 1;
        if self.settler.trims.is_multiple_of(MERGE_EVERY_TRIMS) {
            self.settler.merge_due = true;
        }
        self.note_doomed();
    }

    /// Notes files that have lost their last run.
    pub(crate) fn note_doomed(&mut self) {
        let doomed = self.index.store.take_doomed();
        if doomed.is_empty() {
            return;
        }
        doomed.iter().for_each(|file| self.segments.remove(file.number));
        // The checkpoint on disk may still point into a file whose other runs have just moved elsewhere.
        let (pinned, doomed) = doomed.into_iter().partition(|file| self.settler.checkpointing.is_pinned(file.number));
        self.settler.checkpointing.freed.files.extend::<Vec<_>>(pinned);
        if self.settler.merging.as_ref().is_some_and(Copying::is_applying) {
            self.settler.checkpointing.freed.files.extend(doomed);
        } else {
            self.settler.removing.doom(self.writer.seq_next(), doomed);
        }
    }

    /// The size from which on a log has a segment to itself.
    pub(crate) fn own_bytes(&self) -> u64 {
        OWN_BYTES.min(self.options.journal_file_bytes / OWN_PART)
    }

    /// Waits with settling and merging: the disk is full.
    pub(crate) fn put_off_settling(&mut self) {
        self.settler.again_seq = self.writer.seq_next() + AGAIN_AFTER;
        self.settler.starves = true;
    }

    /// Whether settling and merging wait for space.
    pub(crate) fn settling_waits(&self) -> bool {
        self.settler.again_seq > self.writer.seq_next()
    }

    /// They need not wait any more.
    pub(crate) fn settle_again(&mut self) {
        if self.settling_waits() {
            self.settler.again_seq = 0;
            self.go_on_settling();
        }
    }

    fn start_settling(&mut self) {
        let busy = self.settler.settle_plan.is_some() || self.settler.settling.is_some();
        // What was just settled leaves the window with the next checkpoint.
        if busy || self.settler.checkpointing.frees_journal() || self.settling_waits() {
            return;
        }
        let files = self.writer.files();
        let too_many = files.len().saturating_sub(self.options.journal_files_max);
        let crowded = self.index.extents() > self.options.extents_max;
        let take = if crowded { too_many.max(1) } else { too_many };
        if crowded && files.len() < 2 {
            self.writer.end_file_soon();
            return;
        }
        let Some(file) = take.checked_sub(1).and_then(|last| files.get(last)).map(|file| file.number) else { return };
        let lists = self.index.touched_files(file);
        let (seen, groups) = (IdSet::default(), Vec::new());
        self.settler.settle_plan = Some(SettlePlan { file, files: take, lists, at: 0, seen, groups, bytes: 0 });
    }

    // Plans a slice. Answers whether there is more.
    fn plan_settling(&mut self) -> bool {
        let Some(plan) = &mut self.settler.settle_plan else { return false };
        let (mut logs, mut extents) = (0, 0);
        while let Some(list) = plan.lists.last() {
            let touched = self.index.touched(*list);
            while let Some(id) = touched.get(plan.at) {
                if logs >= SLICE_LOGS || extents >= SLICE_EXTENTS {
                    return true;
                }
                plan.at += 1;
                logs += 1;
                if !plan.seen.insert(*id) {
                    continue;
                }
                let Some(log) = self.index.get(*id) else { continue };
                let count = log.window.partition_point(|extent| extent.file <= plan.file);
                extents += count;
                let mut left = log.window.range(..count).copied().peekable();
                while let Some(first) = left.peek().map(|extent| extent.first) {
                    // No run crosses from one segment of the log into the next.
                    let end = log.shape.next_after(first).unwrap_or(Offset(u64::MAX));
                    let found = std::iter::from_fn(|| left.next_if(|extent| extent.first < end)).collect();
                    let (start, step) = (log.start, self.index.step(*id));
                    let group = Group { log: *id, start, step, source: Source::Window(found) };
                    plan.bytes += group.bytes();
                    plan.groups.push(group);
                }
            }
            plan.lists.pop();
            plan.at = 0;
        }
        let Some(plan) = self.settler.settle_plan.take() else { return false };
        let files: Vec<_> = self.writer.files().iter().take_while(|file| file.number <= plan.file).cloned().collect();
        let (number, own_bytes) = (self.settler.file_next, self.own_bytes());
        let task = Task { groups: plan.groups, bytes: plan.bytes, files, number, own_bytes };
        let span = plan.files as u64 * self.options.journal_file_bytes / 4 * 3; // done before as much is written again
        let purpose = Purpose::Settle { file: plan.file, span };
        self.settler.settling = Some(Copying::begin(purpose, task, Arc::clone(&self.disk), self.writer.written_bytes));
        self.reserve_numbers();
        self.go_on_copying();
        false
    }

    /// Takes the file numbers that a task just begun may use.
    pub(crate) fn reserve_numbers(&mut self) {
        let tasks = [&self.settler.settling, &self.settler.merging];
        let next = tasks.into_iter().flatten().map(Copying::number_next).max();
        self.settler.file_next = self.settler.file_next.max(next.unwrap_or(0));
    }
}
