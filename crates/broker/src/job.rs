//! Work for other threads: storage's and the broker's own (password hashing). The driver runs it and brings it back.

use storage::job::Lane;

use crate::user::LoginError;
use crate::{CallId, SessionId};

/// One piece of work for another thread.
pub enum Job {
    /// Storage's.
    Storage(storage::Job),
    /// A password to check.
    Login(Box<dyn FnOnce() -> JobDone + Send>),
}

/// Its outcome; opaque to the driver.
pub enum JobDone {
    /// Storage's.
    Storage(storage::JobDone),
    /// Whether the password was right.
    Login(SessionId, CallId, Result<crate::user::Principal, LoginError>),
}

impl Job {
    /// Which pool should run it.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self {
            Job::Storage(job) => job.lane,
            Job::Login(_) => Lane::Work,
        }
    }

    /// Does the work; may take long.
    #[must_use]
    pub fn run(self) -> JobDone {
        match self {
            Job::Storage(job) => JobDone::Storage(job.run()),
            Job::Login(work) => work(),
        }
    }
}
