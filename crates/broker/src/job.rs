//! Work for other threads: storage's, the broker's own (password hashing), and what sessions have done aside. The
//! driver runs it and brings it back.

use storage::job::Lane;

use crate::aside::AsideDone;
use crate::partition::TimeDone;
use crate::user::UserDone;

/// One piece of work for another thread.
pub enum Job {
    /// Storage's.
    Storage(storage::Job),
    /// A password to check or to hash.
    User(Box<dyn FnOnce() -> JobDone + Send>),
    /// A session's, or a look-up by time.
    Aside(Box<dyn FnOnce() -> JobDone + Send>),
}

/// Its outcome; opaque to the driver.
pub enum JobDone {
    /// Storage's.
    Storage(storage::JobDone),
    /// A password was checked or hashed.
    User(UserDone),
    /// A look-up by time is.
    Time(TimeDone),
    /// A session's work is done.
    Aside(AsideDone),
}

impl Job {
    /// Which pool should run it.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self {
            Job::Storage(job) => job.lane,
            Job::User(_) | Job::Aside(_) => Lane::Work,
        }
    }

    /// Does the work; may take long.
    #[must_use]
    pub fn run(self) -> JobDone {
        match self {
            Job::Storage(job) => JobDone::Storage(job.run()),
            Job::User(work) | Job::Aside(work) => work(),
        }
    }
}
