//! Sums over the unsettled messages of one log: what a queue must know of messages that nobody has looked at.
//!
//! Only logs that need them have them: those with messages that a restart ends (transient ones in a lasting queue),
//! with messages that have their own time to live, or of a queue whose bytes are limited. Elsewhere nothing is counted.

use model::Marks;

use super::types::QueueKind;

/// The sums of one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Everything before is counted.
    pub(super) counted: u64,
    /// Bodies of unsettled messages, in bytes.
    pub(super) bytes: u64,
    /// Unsettled messages that a restart ends.
    pub(super) transient: u64,
    /// Their bytes, also in `bytes`.
    pub(super) transient_bytes: u64,
    /// A restart has ended these; they are not passed over yet, and not in the other sums.
    pub(super) lost: u64,
    /// They all lie before this.
    pub(super) lost_end: u64,
    /// Bytes of messages in flight, also in `bytes`. Not stored: after a restart none are.
    pub(super) held: u64,
    /// What came before this was there before anybody counted: `bytes` lacks it, but for what lies before `seen`.
    pub(super) since: u64,
    /// Counting what was there has come up to here. Not stored: after a restart it begins anew.
    pub(super) seen: u64,
}

/// What is remembered of a message in flight for the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The size of its body.
    pub(super) bytes: u32,
    /// A restart ends it.
    pub(super) transient: bool,
}

impl Weight {
    /// Of a message with these marks in a queue of that kind: in a safe one every message lasts.
    pub(crate) fn of(marks: &Marks, kind: QueueKind) -> Weight {
        Weight { bytes: marks.body_bytes, transient: !marks.persistent && kind != QueueKind::Safe }
    }
}

impl Sums {
    /// What is before `counted` is not counted yet.
    pub(crate) fn from(counted: u64) -> Sums {
        Sums { counted, since: counted, ..Sums::default() }
    }

    /// Whether the message at `offset` is in none of the sums.
    pub(super) fn lacks(&self, offset: u64) -> bool {
        (self.seen..self.since).contains(&offset)
    }

    /// A message was appended at `offset`.
    pub(crate) fn add(&mut self, offset: u64, weight: Weight) {
        if offset < self.counted {
            return;
        }
        self.counted = offset + 1;
        self.bytes += u64::from(weight.bytes);
        if weight.transient {
            self.transient += 1;
            self.transient_bytes += u64::from(weight.bytes);
        }
    }

    /// The message at `offset` is settled.
    pub(crate) fn remove(&mut self, offset: u64, weight: Weight) {
        if self.lacks(offset) {
            return;
        }
        self.bytes = self.bytes.saturating_sub(u64::from(weight.bytes));
        if weight.transient && offset >= self.since {
            self.transient = self.transient.saturating_sub(1);
            self.transient_bytes = self.transient_bytes.saturating_sub(u64::from(weight.bytes));
        }
    }

    /// Of all that is unsettled only these are left.
    pub(crate) fn only(&mut self, left: impl Iterator<Item = (u64, Weight)>) {
        let Sums { counted, held, since, seen, .. } = *self;
        *self = Sums { counted, held, since, seen, ..Sums::default() };
        for (offset, weight) in left {
            if self.lacks(offset) {
                continue;
            }
            self.bytes += u64::from(weight.bytes);
            let is_transient = weight.transient && offset >= self.since;
            self.transient += u64::from(is_transient);
            self.transient_bytes += if is_transient { u64::from(weight.bytes) } else { 0 };
        }
    }

    /// A restart: what it ends is lost.
    pub(super) fn restarted(&mut self, end: u64) {
        self.lost += self.transient;
        self.bytes = self.bytes.saturating_sub(self.transient_bytes);
        (self.transient, self.transient_bytes) = (0, 0);
        self.lost_end = if self.lost > 0 { end } else { 0 };
        self.counted = self.counted.max(end);
        if self.since > 0 {
            (self.bytes, self.since, self.seen) = (0, end, 0);
        }
    }
}
