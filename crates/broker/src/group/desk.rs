//! What a group works with while it handles an event: the moment, the settings, the timers, and where its answers and
//! records go. Effects are data: the coordinator stores and sends them.

use std::collections::BTreeMap;

use model::{Name, Now};

use super::timers::Timers;
use super::{GroupError, GroupOptions, Joined, LedgerEntry, Synced};
use crate::{CallId, SessionId};

/// A call that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Call {
    /// Who asked.
    pub(crate) session: SessionId,
    /// The session's own number for it.
    pub(crate) call: CallId,
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer {
    /// To a join.
    Joined(Result<Joined, GroupError>),
    /// To a sync.
    Synced(Result<Synced, GroupError>),
}

impl Answer {
    /// The same kind of answer with a refusal in it.
    pub(crate) fn refused(&self, why: GroupError) -> Answer {
        match self {
            Answer::Joined(_) => Answer::Joined(Err(why)),
            Answer::Synced(_) => Answer::Synced(Err(why)),
        }
    }
}

/// An answer on its way.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Reply {
    /// Whom it answers.
    pub(crate) to: Call,
    /// It holds only if the entries of the same effects are stored.
    pub(crate) needs_store: bool,
    /// The answer.
    pub(crate) answer: Answer,
}

/// What came of an event.
#[derive(Default, Debug)]
pub(crate) struct Effects {
    /// Answers, in order.
    pub(crate) replies: Vec<Reply>,
    /// Records to store.
    pub(crate) entries: Vec<LedgerEntry>,
}

/// Which member of which group a call belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    /// The group.
    pub(crate) group: Name,
    /// The member's number in it.
    pub(crate) member: u64,
}

/// Handed to groups while they work.
#[derive(Default)]
pub(crate) struct Desk {
    /// Both clocks as of the event at hand.
    pub(crate) now: Now,
    /// Settings.
    pub(crate) options: GroupOptions,
    /// All deadlines.
    pub(crate) timers: Timers,
    /// Calls that wait. Invariant: exactly those that some member holds as its `join_call` or `sync_call`.
    pub(crate) waiting: BTreeMap<Call, Parked>,
    /// What the members of all groups say of themselves, in bytes.
    pub(crate) members_bytes: usize,
    /// What has come of events since they were taken last.
    pub(crate) effects: Effects,
}

impl Desk {
    /// Answers a call, parked or not.
    pub(crate) fn answer(&mut self, to: Call, answer: Answer) {
        self.waiting.remove(&to);
        self.effects.replies.push(Reply { to, needs_store: false, answer });
    }

    /// Answers a call once the entries given to [`Desk::store`] with this event are stored.
    pub(crate) fn answer_when_stored(&mut self, to: Call, answer: Answer) {
        self.waiting.remove(&to);
        self.effects.replies.push(Reply { to, needs_store: true, answer });
    }

    /// Refuses a join.
    pub(crate) fn refuse_join(&mut self, to: Call, why: GroupError) {
        self.answer(to, Answer::Joined(Err(why)));
    }

    /// Refuses a sync.
    pub(crate) fn refuse_sync(&mut self, to: Call, why: GroupError) {
        self.answer(to, Answer::Synced(Err(why)));
    }

    /// Remembers that a member's call waits.
    pub(crate) fn park(&mut self, call: Call, group: &Name, member: u64) {
        self.waiting.insert(call, Parked { group: group.clone(), member });
    }

    /// Stores a record.
    pub(crate) fn store(&mut self, entry: LedgerEntry) {
        self.effects.entries.push(entry);
    }
}
