//! Work of sessions that takes long and touches no state of the core, such as unpacking what a peer has sent: other
//! threads do it, one piece at a time, in the order in which it was asked for. And how much of such work sessions may
//! do themselves in one turn, so that many small pieces do not make the turn long either.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use model::{Mono, Now};

use crate::{Broker, CallId, Event, Job, JobDone, SessionId};

/// What came of a piece of work; its session knows what it is.
pub type Found = Box<dyn Any + Send>;

/// Pieces that other threads are given at once: storage, whose work they do too, never waits behind more.
const RUNNING_MAX: usize = 1;

/// Bytes that all sessions together may go through themselves in one turn: about a millisecond, or three for what packs
/// dearest.
const IN_PLACE_BYTES_MAX: usize = 1 << 20;

/// Work that waits, and what the turn still allows.
#[derive(Default)]
pub(crate) struct Aside {
    waiting: VecDeque<(Option<SessionId>, Job)>,
    running: usize,
    in_place: Allowance,
}

/// How much of something may be done in one turn.
#[derive(Debug, Default)]
pub struct Allowance {
    turn: Mono,
    spent: usize,
}

impl Allowance {
    /// What is left in the turn of `now` of `most`.
    pub fn left(&mut self, most: usize, now: Mono) -> usize {
        if self.turn != now {
            *self = Allowance { turn: now, spent: 0 };
        }
        most.saturating_sub(self.spent)
    }

    /// So much was done.
    pub fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes);
    }
}

/// The outcome of a piece of work; opaque to the driver.
pub struct AsideDone {
    session: SessionId,
    call: CallId,
    found: Option<Found>,
}

impl Aside {
    /// The next piece for another thread.
    pub(crate) fn next_job(&mut self) -> Option<Job> {
        if self.running >= RUNNING_MAX {
            return None;
        }
        let (_, job) = self.waiting.pop_front()?;
        self.running += 1;
        Some(job)
    }

    /// Takes work of the core's own.
    pub(crate) fn push(&mut self, job: Job) {
        self.waiting.push_back((None, job));
    }

    /// A session is gone: nobody waits for its work.
    pub(crate) fn session_closed(&mut self, session: SessionId) {
        self.waiting.retain(|(whose, _)| *whose != Some(session));
    }

    /// A piece of work is no longer under way.
    pub(crate) fn ended(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// A piece of work has come back.
    pub(crate) fn done(&mut self, done: AsideDone) -> (SessionId, Event) {
        self.ended();
        (done.session, Event::Aside(done.call, done.found))
    }
}

impl Broker {
    /// Has `work` done by another thread; what it answers comes as [`Event::Aside`]. It is done though the session be
    /// gone meanwhile, if it has been begun.
    pub fn work_aside<T, W>(&mut self, session: SessionId, call: CallId, work: W)
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let job = Job::Aside(Box::new(move || {
            // It works on what a peer has sent: a mistake in it must end that peer's connection and no more.
            let found = catch_unwind(AssertUnwindSafe(work)).ok().map(|found| Box::new(found) as Found);
            JobDone::Aside(AsideDone { session, call, found })
        }));
        self.core.aside.waiting.push_back((Some(session), job));
    }

    /// Bytes that a session may still go through itself in this turn, where it might also have it done aside.
    pub fn may_go_through(&mut self, now: Now) -> usize {
        self.core.aside.in_place.left(IN_PLACE_BYTES_MAX, now.mono)
    }

    /// A session has gone through so many itself.
    pub fn gone_through(&mut self, bytes: usize) {
        self.core.aside.in_place.spend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_spent_comes_back_with_the_next_turn() {
        let (mut allowance, turn) = (Allowance::default(), Mono(7));
        assert_eq!(allowance.left(10, turn), 10);
        allowance.spend(4);
        assert_eq!(allowance.left(10, turn), 6);
        allowance.spend(usize::MAX);
        assert_eq!(allowance.left(10, turn), 0);
        assert_eq!(allowance.left(10, turn.plus(Duration::from_millis(1))), 10);
    }
}
