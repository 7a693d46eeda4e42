//! The files of the store that hold something alive: how much, how often it was moved, and what the file is called.
//! Kept by the index, which tells it of every run that comes and goes. Knows nothing of what is in them.

use model::{LogId, Offset};

use crate::index::{IdMap, Run};
use crate::segment::FileId;

/// How much of a file is still of use.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct SegmentUse {
    /// Runs of living logs.
    pub(crate) runs: u32,
    /// Their bytes.
    pub(crate) live: u64,
    /// Bytes of all runs when it was made.
    pub(crate) bytes: u64,
    /// How often its bytes were merged since they were settled.
    pub(crate) tier: u8,
    /// The one log in it and its first offset; `None`: a pack.
    pub(crate) own: Option<(LogId, Offset)>,
}

/// All files in use.
#[derive(Default)]
pub(crate) struct Inventory {
    files: IdMap<u64, SegmentUse>,
    /// Files that hold nothing alive any more.
    doomed: Vec<FileId>,
    /// Bytes of living runs in all files together, and of all runs when they were made.
    live: u64,
    bytes: u64,
}

impl Inventory {
    /// A file was made (or a checkpoint knows of it): it stays until [`Inventory::close`], though it has no runs yet.
    pub(crate) fn open(&mut self, id: FileId, bytes: u64, tier: u8) {
        let known = self.files.insert(id.number, SegmentUse { runs: 1, live: 0, bytes, tier, own: id.own });
        debug_assert!(known.is_none(), "no number is used twice");
        self.bytes += bytes;
    }

    /// All runs of the file have been told of.
    pub(crate) fn close(&mut self, number: u64) {
        self.leave(number, 0);
    }

    /// A run has come.
    pub(crate) fn hold(&mut self, run: &Run) {
        let file = self.files.entry(run.segment).or_default();
        file.runs += 1;
        file.live += run.bytes;
        self.live += run.bytes;
    }

    /// Runs have gone.
    pub(crate) fn release(&mut self, runs: &[Run]) {
        for run in runs {
            self.leave(run.segment, run.bytes);
        }
    }

    fn leave(&mut self, number: u64, bytes: u64) {
        let Some(file) = self.files.get_mut(&number) else { return };
        file.runs -= 1;
        file.live -= bytes;
        self.live -= bytes;
        if file.runs == 0 {
            self.bytes -= file.bytes;
            self.doomed.push(FileId { number, own: file.own });
            self.files.remove(&number);
        }
    }

    /// Whether any log has a run in it.
    pub(crate) fn holds(&self, number: u64) -> bool {
        self.files.contains_key(&number)
    }

    /// The file of this number, by which it can be opened.
    pub(crate) fn file(&self, number: u64) -> FileId {
        FileId { number, own: self.files.get(&number).and_then(|file| file.own) }
    }

    /// All files in use, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileId, &SegmentUse)> {
        self.files.iter().map(|(number, file)| (FileId { number: *number, own: file.own }, file))
    }

    /// How many files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Bytes of living runs.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes of all runs when they were made.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files that hold nothing alive any more; each is named once.
    pub(crate) fn take_doomed(&mut self) -> Vec<FileId> {
        std::mem::take(&mut self.doomed)
    }
}
