//! Work that waits for a disk. Storage hands it out, any thread runs it, the driver brings the outcome back.

/// One piece of work for another thread. It holds everything it needs; running it touches no state of storage.
pub struct Job {
    /// Which pool should run it.
    pub lane: Lane,
    work: Box<dyn FnOnce() -> JobDone + Send>,
}

/// Who runs a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// The sync thread: nothing else may stand before it.
    Sync,
    /// The pool for cold reads.
    Read,
    /// The pool for settling, preparing files and other long work.
    Work,
}

/// The outcome of a job; opaque to the driver.
pub struct JobDone {
    pub(crate) what: Outcome,
}

pub(crate) enum Outcome {
    // filled by the journal, the readers and the settler
}

impl Job {
    pub(crate) fn new(lane: Lane, work: impl FnOnce() -> JobDone + Send + 'static) -> Job {
        Job { lane, work: Box::new(work) }
    }

    /// Does the work. May take as long as the disk does.
    #[must_use]
    pub fn run(self) -> JobDone {
        (self.work)()
    }
}
