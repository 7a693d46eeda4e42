//! When checkpoints are made, and what they free. A checkpoint is drawn up in slices, each true as of its own entry:
//! recovery takes of what lies behind only what a slice does not know yet.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::checkpoint::{self, Checkpoint};
use crate::copying::Copying;
use crate::engine::Storage;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::journal::aside;
use crate::journal::frame::file_name;
use crate::segment::FileId;
use crate::{Completed, Owner, StorageError};

/// Pieces of the log table that one slice takes.
const SLICE_CHUNKS: usize = 4;
/// Owners that one slice takes.
const SLICE_OWNERS: usize = 1024;

/// What nobody needs once the next checkpoint is durable.
#[derive(Clone, Default, Debug)]
pub(crate) struct Freed {
    /// Journal files up to this number.
    pub(crate) journal: u32,
    /// Files of the store whose runs are in another now.
    pub(crate) files: Vec<FileId>,
    /// A checkpoint is wanted though it frees nothing.
    pub(crate) anyway: bool,
}

impl Freed {
    fn is_empty(&self) -> bool {
        self.journal == 0 && self.files.is_empty() && !self.anyway
    }
}

/// Where the making of checkpoints stands.
#[derive(Default)]
pub(crate) struct Checkpointing {
    stage: Stage,
    /// Freed by the checkpoint that is begun next.
    pub(crate) freed: Freed,
    /// Files that runs have moved away from, since the last checkpoint was begun and before that: the one on disk may
    /// point to those runs.
    moved: BTreeSet<u64>,
    moved_before: BTreeSet<u64>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Idle,
    /// Going through logs (the next piece of the table), then owners (after the last one taken).
    Drawing { checkpoint: Box<Checkpoint>, freed: Freed, chunk: Option<usize>, owner: Option<Owner> },
    /// What it knows is not durable yet.
    Waiting(Box<Checkpoint>, Freed),
    /// A job writes it.
    Writing(Freed),
}

impl Checkpointing {
    /// Whether what logs and owners hold is being gone through.
    pub(crate) fn is_drawing(&self) -> bool {
        matches!(self.stage, Stage::Drawing { .. })
    }

    /// Runs have moved away from these files.
    pub(crate) fn pin(&mut self, files: impl Iterator<Item = u64>) {
        self.moved.extend(files);
    }

    /// Whether the checkpoint on disk may point to a run that has moved away from the file.
    pub(crate) fn is_pinned(&self, file: u64) -> bool {
        self.moved.contains(&file) || self.moved_before.contains(&file)
    }

    /// Whether a sync is needed for it though nobody waits for one.
    pub(crate) fn wants_sync(&self) -> bool {
        matches!(self.stage, Stage::Waiting(..))
    }

    /// Whether journal files will be let go of soon.
    pub(crate) fn frees_journal(&self) -> bool {
        let now = match &self.stage {
            Stage::Idle => 0,
            Stage::Drawing { freed, .. } | Stage::Waiting(_, freed) | Stage::Writing(freed) => freed.journal,
        };
        now > 0 || self.freed.journal > 0
    }
}

impl Storage {
    /// Draws a slice. Answers whether there is more. Only while no entry is being built.
    pub(crate) fn draw_checkpoint(&mut self) -> bool {
        if matches!(self.settler.checkpointing.stage, Stage::Idle) && !self.begin_checkpoint() {
            return false;
        }
        let seq = self.writer.seq_next() - 1;
        let Stage::Drawing { checkpoint, chunk, owner, .. } = &mut self.settler.checkpointing.stage else {
            return false;
        };
        let slice = match chunk {
            Some(chunk) => {
                let mut logs = checkpoint::LogSlice::new(seq);
                let more = (0..SLICE_CHUNKS).try_for_each(|_| {
                    let Some(found) = self.index.slice(*chunk) else { return ControlFlow::Break(()) };
                    *chunk += 1;
                    found.for_each(|(id, log)| logs.add(id, log));
                    ControlFlow::Continue(())
                });
                checkpoint.logs.push(logs);
                more
            }
            None => {
                let owners = self.state.slice(*owner, SLICE_OWNERS);
                let more =
                    if owners.len() == SLICE_OWNERS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
                *owner = owners.last().map(|(owner, _)| *owner);
                checkpoint.owners.push(checkpoint::OwnerSlice { seq, owners });
                more
            }
        };
        match slice {
            ControlFlow::Continue(()) => true,
            ControlFlow::Break(()) if chunk.take().is_some() => true,
            ControlFlow::Break(()) => {
                self.checkpoint_drawn();
                false
            }
        }
    }

    fn begin_checkpoint(&mut self) -> bool {
        let applying = [&self.settler.settling, &self.settler.merging].into_iter().flatten().any(Copying::is_applying);
        if applying || self.settler.checkpointing.freed.is_empty() || self.settling_waits() {
            return false;
        }
        let freed = std::mem::take(&mut self.settler.checkpointing.freed);
        let moved = std::mem::take(&mut self.settler.checkpointing.moved);
        self.settler.checkpointing.moved_before.extend(moved);
        let (first_file, first_seq) = self.writer.first_after(freed.journal);
        let checkpoint = Box::new(Checkpoint {
            seq: self.writer.seq_next() - 1,
            first_file,
            first_seq,
            file_next: self.settler.file_next,
            files: self.index.store.iter().map(|(file, used)| (file, used.bytes, used.tier)).collect(),
            ..Checkpoint::default()
        });
        self.settler.checkpointing.stage = Stage::Drawing { checkpoint, freed, chunk: Some(0), owner: None };
        true
    }

    fn checkpoint_drawn(&mut self) {
        let stage = &mut self.settler.checkpointing.stage;
        if let Stage::Drawing { checkpoint, freed, .. } = std::mem::take(stage) {
            *stage = Stage::Waiting(checkpoint, freed);
        }
        self.start_sync();
        self.go_on_checkpointing();
    }

    /// Writes the checkpoint as soon as all it knows is durable.
    pub(crate) fn go_on_checkpointing(&mut self) {
        let stage = &mut self.settler.checkpointing.stage;
        let Stage::Waiting(checkpoint, _) = &*stage else { return };
        if checkpoint.last_seq() > self.writer.synced_seq {
            return;
        }
        let Stage::Waiting(checkpoint, freed) = std::mem::take(stage) else { return };
        let unread = self.writer.unread_until(freed.journal);
        *stage = Stage::Writing(freed);
        let disk = Arc::clone(&self.disk);
        self.jobs.push_back(Job::new(Lane::Work, move || {
            let result = aside::mark(&*disk, &unread).and_then(|()| checkpoint::write(&*disk, &checkpoint));
            JobDone { what: Outcome::Checkpointed { result } }
        }));
    }

    /// The checkpoint is durable: what it frees is free.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when the disk failed.
    pub(crate) fn checkpointed(&mut self, result: io::Result<u64>) -> Result<Completed, StorageError> {
        let Stage::Writing(freed) = std::mem::take(&mut self.settler.checkpointing.stage) else {
            return Ok(Completed::Nothing);
        };
        match result {
            Ok(bytes) => {
                self.settler.checkpoints += 1;
                self.settler.checkpoint_bytes += bytes;
                for number in self.writer.release(freed.journal) {
                    self.settler.removing.add_name(file_name(u64::from(number)));
                }
                for number in self.writer.take_aside() {
                    self.settler.removing.set_aside(number);
                }
                self.settler.removing.add(freed.files);
                self.settler.checkpointing.moved_before.clear();
                self.settler.merge_due = true;
                self.space.forget();
            }
            Err(error) => {
                // The next one frees it.
                let next = &mut self.settler.checkpointing.freed;
                next.journal = next.journal.max(freed.journal);
                next.files.extend(freed.files);
                next.anyway |= freed.anyway;
                self.copying_failed("writing the checkpoint", &error)?;
            }
        }
        self.go_on_settling();
        Ok(Completed::Nothing)
    }
}
