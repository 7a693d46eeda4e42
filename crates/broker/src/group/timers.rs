//! All deadlines of all groups in one ordered set: the next is found at once, none is searched for.

use std::collections::BTreeSet;

use model::{Mono, Name};

/// What is due.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum What {
    /// The members have had their time to join.
    Join,
    /// The members have had their time to sync.
    Sync,
    /// The member of this number may have been silent for too long. Armed once per member and moved on when it fires,
    /// so that a heartbeat does not touch the set.
    Member(u64),
    /// This member id was given out and not used.
    Pending(String),
}

/// Deadlines by time.
#[derive(Default, Debug)]
pub(crate) struct Timers {
    due: BTreeSet<(Mono, Name, What)>,
}

impl Timers {
    /// Wakes `group` at `at`.
    pub(crate) fn arm(&mut self, at: Mono, group: &Name, what: What) {
        self.due.insert((at, group.clone(), what));
    }

    /// Takes a deadline back.
    pub(crate) fn disarm(&mut self, at: Mono, group: &Name, what: What) {
        self.due.remove(&(at, group.clone(), what));
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.due.first().map(|(at, _, _)| *at)
    }

    /// Takes out the earliest deadline that has passed.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<(Name, What)> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first().map(|(_, group, what)| (group, what))
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.due.len()
    }
}
