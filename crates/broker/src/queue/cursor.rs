//! The shared cursor: which messages of one log are still to be delivered, are in flight, or are settled.
//!
//! Pure: it knows nothing of storage, bytes of messages, consumers' credit or time; the queue asks it what comes next
//! and tells it what happened. Its memory grows with the messages in flight, never with the backlog: everything from
//! `next` on is ready without being listed.
//!
//! What is stored of it is in `record.rs`.

use std::collections::BTreeMap;

use model::LogId;

use super::ranges::RangeSet;
use crate::SessionId;

/// A message given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Its place in the log.
    pub(crate) offset: u64,
    /// How many times it was delivered before.
    pub(crate) attempts: u32,
}

/// The state of one log as one queue's consumers have left it.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    /// The log it runs over.
    pub(crate) log: LogId,
    /// Everything before is settled. Never goes back.
    head: u64,
    /// Settled out of order. Invariant: each range begins after `head`.
    done: RangeSet,
    /// The lowest offset that was never given out since opening and is not settled. Invariant: head ≤ next.
    next: u64,
    /// How many of `done` lie at or after `next` (settled before a restart).
    ahead: u64,
    /// What may be given out ends here: the watermark.
    end: u64,
    /// Everything before was delivered at least once, unless `counts` or `back` know better.
    delivered: u64,
    /// Given back, with the deliveries made of each. Invariant: all lie before `next`.
    back: BTreeMap<u64, u32>,
    /// Deliveries before the last opening of offsets at or after `next`, where they are not the usual one.
    counts: BTreeMap<u64, u32>,
    /// In flight: who has it and how many deliveries were made before this one.
    held: BTreeMap<(SessionId, u64), u32>,
    /// What has changed since the last record.
    pub(super) news: News,
}

/// Changes not recorded yet.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// Settled.
    pub(super) settled: RangeSet,
    /// Deliveries made of messages delivered more than once (or, given back unseen, not at all).
    pub(super) counts: BTreeMap<u64, u32>,
    /// `delivered` has moved.
    pub(super) delivered: bool,
}

/// What a snapshot of a cursor holds.
pub(super) struct Whole<'a> {
    pub(super) head: u64,
    pub(super) delivered: u64,
    pub(super) done: &'a RangeSet,
    pub(super) counts: BTreeMap<u64, u32>,
}

impl Cursor {
    /// A cursor over a log of which nothing is settled from `start` on.
    pub(crate) fn new(log: LogId, start: u64) -> Cursor {
        Cursor {
            log,
            head: start,
            done: RangeSet::default(),
            next: start,
            ahead: 0,
            end: start,
            delivered: start,
            back: BTreeMap::new(),
            counts: BTreeMap::new(),
            held: BTreeMap::new(),
            news: News::default(),
        }
    }

    /// Takes over what a snapshot says. Only before [`Cursor::reopen`].
    pub(super) fn restore(&mut self, head: u64, done: RangeSet, counts: BTreeMap<u64, u32>) {
        (self.head, self.done, self.counts, self.delivered) = (head, done, counts, head);
    }

    /// Takes over what a delta says. Only before [`Cursor::reopen`].
    pub(super) fn replay(&mut self, delivered: u64, settled: &RangeSet, counts: &BTreeMap<u64, u32>) {
        self.delivered = self.delivered.max(delivered);
        self.counts.extend(counts);
        for (from, to) in settled.iter() {
            self.done.insert(from, to);
            forget(&mut self.counts, from, to);
        }
        self.head = self.done.absorb(self.head);
        forget(&mut self.counts, 0, self.head);
    }

    /// All records are read: whatever was in flight is ready again. The log holds `start..end`; a record that speaks
    /// of messages beyond is not believed.
    pub(crate) fn reopen(&mut self, start: u64, end: u64) {
        self.done.cut(end);
        self.head = self.done.absorb(self.head.max(start).min(end.max(start)));
        self.delivered = self.delivered.min(end).max(self.head);
        self.counts.retain(|&offset, _| offset >= self.head && offset < end);
        self.next = self.head;
        self.ahead = self.done.total();
        self.end = end.max(self.head);
        self.news = News::default();
    }

    /// The watermark has moved.
    pub(crate) fn visible(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// The log was trimmed by others: what lies before `start` is gone, unsettled or not.
    pub(crate) fn start_moved(&mut self, start: u64) {
        if start > self.head {
            self.back = self.back.split_off(&start);
            self.settle_range(self.head, start);
            self.end = self.end.max(start);
        }
    }

    /// The message that [`Cursor::take`] would give out.
    pub(crate) fn peek(&self) -> Option<u64> {
        match self.back.first_key_value() {
            Some((&offset, _)) => Some(offset),
            None => (self.next < self.end).then_some(self.next),
        }
    }

    /// Gives the lowest ready message to `session`.
    pub(crate) fn take(&mut self, session: SessionId) -> Option<Taken> {
        let (offset, attempts) = match self.back.pop_first() {
            Some(lowest) => lowest,
            None if self.next < self.end => self.take_next(),
            None => return None,
        };
        if attempts > 0 || offset < self.delivered {
            self.news.counts.insert(offset, attempts.saturating_add(1));
        } else {
            self.delivered = offset + 1;
            self.news.delivered = true;
        }
        self.held.insert((session, offset), attempts);
        Some(Taken { offset, attempts })
    }

    fn take_next(&mut self) -> (u64, u32) {
        let offset = self.next;
        let usual = u32::from(offset < self.delivered);
        let attempts = self.counts.remove(&offset).unwrap_or(usual);
        self.next += 1;
        self.pass_done();
        (offset, attempts)
    }

    /// There are no messages at `from..to` (a gap, or they cannot be read): they are passed over.
    pub(crate) fn skip(&mut self, from: u64, to: u64) {
        let mut kept = self.back.split_off(&from);
        let mut beyond = kept.split_off(&to);
        self.back.append(&mut beyond);
        self.settle_range(from, to);
    }

    /// `session` is done with a message; false when it does not hold it.
    pub(crate) fn settle(&mut self, session: SessionId, offset: u64) -> bool {
        let held = self.held.remove(&(session, offset)).is_some();
        if held {
            self.settle_range(offset, offset + 1);
        }
        held
    }

    /// `session` gives a message back: it is ready again at its old place. False when it does not hold it.
    pub(crate) fn requeue(&mut self, session: SessionId, offset: u64) -> bool {
        let Some(attempts) = self.held.remove(&(session, offset)) else {
            return false;
        };
        if offset >= self.head {
            self.back.insert(offset, attempts.saturating_add(1));
        }
        true
    }

    /// A message given out never reached anybody: as if it had not been.
    pub(crate) fn untake(&mut self, session: SessionId, offset: u64) -> bool {
        let Some(attempts) = self.held.remove(&(session, offset)) else {
            return false;
        };
        if offset >= self.head {
            self.news.counts.insert(offset, attempts);
            self.back.insert(offset, attempts);
        }
        true
    }

    /// A session is gone: what it held is ready again, at its old place. Answers how many.
    pub(crate) fn session_lost(&mut self, session: SessionId) -> u64 {
        let held = self.held.range((session, 0)..=(session, u64::MAX)).map(|(key, _)| key.1).collect::<Vec<_>>();
        for &offset in &held {
            self.requeue(session, offset);
        }
        held.len() as u64
    }

    /// Settles all that is ready; answers how many that were. What is in flight stays.
    pub(crate) fn purge(&mut self) -> u64 {
        let ready = self.ready();
        for offset in std::mem::take(&mut self.back).into_keys() {
            self.settle_range(offset, offset + 1);
        }
        self.settle_range(self.next, self.end);
        ready
    }

    /// How many messages wait for a consumer.
    pub(crate) fn ready(&self) -> u64 {
        (self.end.saturating_sub(self.next) + self.back.len() as u64).saturating_sub(self.ahead)
    }

    /// How many messages are in flight.
    pub(crate) fn unsettled(&self) -> u64 {
        self.held.len() as u64
    }

    /// Whose messages in flight are, once for each.
    pub(crate) fn holders(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.held.keys().map(|(session, _)| *session)
    }

    /// What may be given out ends here.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Everything before is settled: the queue's own log may be trimmed up to here.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    fn settle_range(&mut self, from: u64, to: u64) {
        let from = from.max(self.head);
        if from >= to {
            return;
        }
        self.news.settled.insert(from, to);
        if from == self.head && self.done.is_empty() {
            self.head = to; // settled in order: the usual case touches no set
        } else {
            self.done.insert(from, to);
            self.head = self.done.absorb(self.head);
        }
        if to > self.next {
            forget(&mut self.counts, from, to);
            self.next = self.next.max(self.head);
            self.ahead = self.done.iter().map(|(start, end)| end.saturating_sub(start.max(self.next))).sum();
            self.pass_done();
        }
    }

    /// Moves `next` behind what is settled.
    fn pass_done(&mut self) {
        while self.ahead > 0
            && let Some(end) = self.done.end_of(self.next)
        {
            self.ahead = self.ahead.saturating_sub(end - self.next);
            self.next = end;
        }
    }

    /// The changes are recorded.
    pub(crate) fn recorded(&mut self) {
        self.news.settled.clear();
        self.news.counts.clear();
        self.news.delivered = false;
    }

    /// Whether anything changed since the last record.
    pub(crate) fn has_news(&self) -> bool {
        self.news.delivered || !self.news.settled.is_empty() || !self.news.counts.is_empty()
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// All there is to store. Offsets before `delivered` were delivered once unless `counts` says otherwise.
    pub(super) fn whole(&self) -> Whole<'_> {
        let mut counts = self.counts.clone();
        let back = self.back.iter().filter(|&(_, &made)| made != 1);
        counts.extend(back);
        let held = self.held.iter().filter(|&(key, &before)| before > 0 && key.1 >= self.head);
        counts.extend(held.map(|(key, before)| (key.1, before.saturating_add(1))));
        Whole { head: self.head, delivered: self.delivered, done: &self.done, counts }
    }
}

fn forget(counts: &mut BTreeMap<u64, u32>, from: u64, to: u64) {
    if counts.is_empty() || from >= to {
        return;
    }
    let mut rest = counts.split_off(&from);
    counts.append(&mut rest.split_off(&to));
}
