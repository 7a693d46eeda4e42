//! Removing files that nobody needs any more, a few at a time: on some file systems each takes a millisecond or more.
//! What is not removed when the process ends is an orphan, which the next start finds.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::Storage;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::journal::aside;
use crate::segment::FileId;

/// Files that one job removes.
const FILES_PER_JOB: usize = 8;

/// What is to be removed.
#[derive(Default)]
pub(crate) struct Removing {
    /// Files that hold nothing alive, with the entry that must be durable before they may go.
    doomed: VecDeque<(u64, FileId)>,
    /// May go now: name, and the folder that may be empty afterwards.
    names: VecDeque<(String, Option<String>)>,
    /// Journal files that are only renamed.
    aside: Vec<u32>,
    busy: bool,
}

impl Removing {
    /// These hold nothing alive since the entry `seq`.
    pub(crate) fn doom(&mut self, seq: u64, files: Vec<FileId>) {
        self.doomed.extend(files.into_iter().map(|file| (seq, file)));
    }

    /// These may go now.
    pub(crate) fn add(&mut self, files: Vec<FileId>) {
        let folder = |file: &FileId| file.own.map(|(log, _)| FileId::log_folder(log));
        self.names.extend(files.iter().map(|file| (file.name(), folder(file))));
    }

    /// A file that is none of the store may go now.
    pub(crate) fn add_name(&mut self, name: String) {
        self.names.push_back((name, None));
    }

    /// A journal file that cannot be read in part: it is nobody's any more, and kept for people under another name.
    pub(crate) fn set_aside(&mut self, number: u32) {
        self.aside.push(number);
    }

    /// Whether entries must become durable for it, though nobody waits for them.
    pub(crate) fn wants_sync(&self) -> bool {
        !self.doomed.is_empty()
    }
}

impl Storage {
    /// Hands out the next job if none is under way.
    pub(crate) fn go_on_removing(&mut self) {
        let removing = &mut self.settler.removing;
        let synced = self.writer.synced_seq;
        let ripe = removing.doomed.partition_point(|(seq, _)| *seq <= synced);
        let files = removing.doomed.drain(..ripe).map(|(_, file)| file).collect();
        removing.add(files);
        if removing.busy || (removing.names.is_empty() && removing.aside.is_empty()) {
            return;
        }
        removing.busy = true;
        let count = FILES_PER_JOB.min(removing.names.len());
        let names: Vec<(String, Option<String>)> = removing.names.drain(..count).collect();
        let aside = std::mem::take(&mut removing.aside);
        let disk = Arc::clone(&self.disk);
        self.jobs.push_back(Job::new(Lane::Work, move || {
            if let Err(error) = aside::set_aside(&*disk, &aside) {
                tracing::warn!(%error, "journal files could not be set aside: the next start tries again");
            }
            for (name, folder) in names {
                if let Err(error) = disk.remove(&name) {
                    tracing::warn!(%error, "{name} could not be removed");
                }
                // Mostly it is not empty. If it stays though it is, that does no harm.
                if let Some(folder) = folder {
                    let _ = disk.remove_folder(&folder);
                }
            }
            JobDone { what: Outcome::Removed }
        }));
    }

    /// A job has removed its files.
    pub(crate) fn removed(&mut self) {
        self.settler.removing.busy = false;
        self.space.forget();
        self.go_on_settling();
    }
}
