//! The shared cursor: which messages of one log are still to be delivered, are in flight, or are settled.
//!
//! Pure: it knows nothing of storage, bytes of messages, consumers' credit or time; the queue asks it what comes next
//! and tells it what happened. Its memory grows with the messages in flight, never with the backlog: everything from
//! `next` on is ready without being listed.
//!
//! What is stored of it is in `record.rs`.

use std::collections::BTreeMap;

use model::LogId;

use super::held::{Flight, Held};
use super::ranges::RangeSet;
use super::rare::RareMap;
use super::sums::{Sums, Weight};
use crate::SessionId;

/// Holds what dies: it was taken out of the queue and waits until it is settled together with its dead letter.
const THE_DEAD: SessionId = SessionId(u64::MAX);

/// So many in flight are looked through to draw up a snapshot.
const SMALL_HELD_MAX: usize = 8;

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
    back: RareMap<u32>,
    /// Deliveries before the last opening of offsets at or after `next`, where they are not the usual one.
    counts: RareMap<u32>,
    /// In flight: who has it.
    held: Held,
    /// How many of `held` are dying.
    dying: u64,
    /// Kept for logs that need them.
    sums: Option<Box<Sums>>,
    /// What has changed since the last record.
    pub(super) news: News,
}

/// Changes not recorded yet.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// Settled.
    pub(super) settled: RangeSet,
    /// Deliveries made of messages delivered more than once (or, given back unseen, not at all).
    pub(super) counts: RareMap<u32>,
    /// `delivered` has moved.
    pub(super) delivered: bool,
    /// The sums have changed.
    pub(super) sums: bool,
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
            back: RareMap::default(),
            counts: RareMap::default(),
            held: Held::default(),
            dying: 0,
            sums: None,
            news: News::default(),
        }
    }

    /// Takes over what a snapshot says. Only before [`Cursor::reopen`].
    pub(super) fn restore(&mut self, head: u64, done: RangeSet, counts: BTreeMap<u64, u32>) {
        (self.head, self.done, self.delivered) = (head, done, head);
        self.counts = RareMap::default();
        self.counts.extend(counts);
    }

    /// Takes over what a delta says. Only before [`Cursor::reopen`].
    pub(super) fn replay(&mut self, delivered: u64, settled: &RangeSet, counts: &BTreeMap<u64, u32>) {
        self.delivered = self.delivered.max(delivered);
        self.counts.extend(counts.iter().map(|(&offset, &made)| (offset, made)));
        for (from, to) in settled.iter() {
            self.done.insert(from, to);
            self.counts.remove_range(from, to);
        }
        self.head = self.done.absorb(self.head);
        self.counts.remove_range(0, self.head);
    }

    /// All records are read: whatever was in flight is ready again. The log holds `start..end`; a record that speaks
    /// of messages beyond is not believed.
    pub(crate) fn reopen(&mut self, start: u64, end: u64) {
        self.done.cut(end);
        self.head = self.done.absorb(self.head.max(start).min(end.max(start)));
        self.delivered = self.delivered.min(end).max(self.head);
        let head = self.head;
        self.counts.retain(|offset| offset >= head && offset < end);
        self.next = self.head;
        self.ahead = self.done.total();
        self.end = end.max(self.head);
        self.news = News::default();
        if let Some(sums) = &mut self.sums {
            sums.restarted(end);
        }
    }

    /// The watermark has moved.
    pub(crate) fn visible(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// The log was trimmed by others: what lies before `start` is gone, unsettled or not.
    pub(crate) fn start_moved(&mut self, start: u64) {
        if start > self.head {
            self.back = self.back.split_off(start);
            self.settle_range(self.head, start);
            self.end = self.end.max(start);
        }
    }

    /// The message that [`Cursor::take`] would give out.
    pub(crate) fn peek(&self) -> Option<u64> {
        match self.back.first() {
            Some((offset, _)) => Some(offset),
            None => (self.next < self.end).then_some(self.next),
        }
    }

    /// Gives the lowest ready message to `session`; `since` and `weight` are remembered for it.
    pub(crate) fn take(&mut self, session: SessionId, since: u32, weight: Weight) -> Option<Taken> {
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
        self.hold(session, offset, Flight { attempts, since, weight });
        Some(Taken { offset, attempts })
    }

    /// Takes the lowest ready message out of the queue, to die: nobody is given it.
    pub(crate) fn pull(&mut self, weight: Weight) -> Option<u64> {
        let (offset, attempts) = match self.back.pop_first() {
            Some(lowest) => lowest,
            None if self.next < self.end => self.take_next(),
            None => return None,
        };
        self.hold(THE_DEAD, offset, Flight { attempts, since: 0, weight });
        self.dying += 1;
        Some(offset)
    }

    /// `session` has a message that is to die; false when it does not hold it.
    pub(crate) fn doom(&mut self, session: SessionId, offset: u64) -> bool {
        let doomed = self.held.hand_over(session, offset, THE_DEAD);
        self.dying += u64::from(doomed);
        doomed
    }

    /// A dying message is gone.
    pub(crate) fn dead(&mut self, offset: u64) {
        self.dying -= u64::from(self.settle(THE_DEAD, offset));
    }

    /// How many deliveries were made of a message that `session` holds, this one too.
    pub(crate) fn attempts_of(&self, session: SessionId, offset: u64) -> Option<u32> {
        self.held.get(session, offset).map(|flight| flight.attempts.saturating_add(1))
    }

    /// Who has held messages since before `moment`, with the lowest offset of each.
    pub(crate) fn held_since(&self, moment: u32) -> Vec<(SessionId, u64)> {
        let late = self.held.iter().filter(|(session, _, flight)| *session != THE_DEAD && flight.since < moment);
        let mut all = late.map(|(session, offset, _)| (session, offset)).collect::<Vec<_>>();
        all.sort_unstable();
        all.dedup_by_key(|(session, _)| *session);
        all
    }

    /// A message is in flight from now on.
    fn hold(&mut self, session: SessionId, offset: u64, flight: Flight) {
        if let Some(sums) = &mut self.sums {
            sums.held += u64::from(flight.weight.bytes);
        }
        self.held.insert(session, offset, flight);
    }

    /// A message that `session` has is in flight no more.
    fn let_go(&mut self, session: SessionId, offset: u64) -> Option<Flight> {
        let flight = self.held.remove(session, offset)?;
        if let Some(sums) = &mut self.sums {
            sums.held = sums.held.saturating_sub(u64::from(flight.weight.bytes));
        }
        Some(flight)
    }

    fn take_next(&mut self) -> (u64, u32) {
        let offset = self.next;
        let usual = u32::from(offset < self.delivered);
        let attempts = self.counts.remove(offset).unwrap_or(usual);
        self.next += 1;
        self.pass_done();
        (offset, attempts)
    }

    /// There are no messages at `from..to` (a gap, or they cannot be read): they are passed over.
    pub(crate) fn skip(&mut self, from: u64, to: u64) {
        self.back.remove_range(from, to);
        self.settle_range(from, to);
    }

    /// `session` is done with a message; false when it does not hold it.
    pub(crate) fn settle(&mut self, session: SessionId, offset: u64) -> bool {
        let Some(flight) = self.let_go(session, offset) else { return false };
        if let Some(sums) = &mut self.sums {
            sums.remove(offset, flight.weight);
            self.news.sums = true;
        }
        self.settle_range(offset, offset + 1);
        true
    }

    /// `session` gives a message back: it is ready again at its old place. False when it does not hold it.
    pub(crate) fn requeue(&mut self, session: SessionId, offset: u64) -> bool {
        let Some(Flight { attempts, .. }) = self.let_go(session, offset) else {
            return false;
        };
        if offset >= self.head {
            self.back.insert(offset, attempts.saturating_add(1));
        }
        true
    }

    /// A message given out never reached anybody: as if it had not been.
    pub(crate) fn untake(&mut self, session: SessionId, offset: u64) -> bool {
        let Some(Flight { attempts, .. }) = self.let_go(session, offset) else {
            return false;
        };
        if offset >= self.head {
            self.news.counts.insert(offset, attempts);
            self.back.insert(offset, attempts);
        }
        true
    }

    /// What a session holds.
    pub(crate) fn held_by(&self, session: SessionId) -> Vec<u64> {
        let its = self.held.iter().filter(|(whose, ..)| *whose == session);
        let mut all = its.map(|(_, offset, _)| offset).collect::<Vec<_>>();
        all.sort_unstable();
        all
    }

    /// Settles all that is ready; answers how many that were. What is in flight stays.
    pub(crate) fn purge(&mut self) -> u64 {
        let ready = self.ready();
        while let Some((offset, _)) = self.back.pop_first() {
            self.settle_range(offset, offset + 1);
        }
        self.settle_range(self.next, self.end);
        if let Some(sums) = &mut self.sums {
            sums.only(self.held.iter().map(|(_, offset, flight)| (offset, flight.weight)));
            self.news.sums = true;
        }
        ready
    }

    /// Settles the lowest ready messages, at most `count`, without looking at them. Only where no sums are kept.
    pub(crate) fn drop_ready(&mut self, count: u64) -> u64 {
        let mut left = count;
        while left > 0 {
            if let Some((offset, _)) = self.back.pop_first() {
                self.settle_range(offset, offset + 1);
                left -= 1;
            } else if self.next < self.end {
                // As far as nothing that was settled before lies in between.
                let to = if self.ahead == 0 { self.end.min(self.next.saturating_add(left)) } else { self.next + 1 };
                left -= to - self.next;
                self.settle_range(self.next, to);
            } else {
                break;
            }
        }
        count - left
    }

    /// How many messages wait for a consumer.
    pub(crate) fn ready(&self) -> u64 {
        let lost = self.sums.as_ref().map_or(0, |sums| sums.lost);
        (self.end.saturating_sub(self.next) + self.back.len() as u64).saturating_sub(self.ahead + lost)
    }

    /// How many messages are in flight. What dies is not: for users it is gone.
    pub(crate) fn unsettled(&self) -> u64 {
        self.held.len() as u64 - self.dying
    }

    /// Whose messages in flight are, once for each.
    pub(crate) fn holders(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.held.iter().map(|(session, ..)| session).filter(|session| *session != THE_DEAD)
    }

    /// The sums, if this log needs them.
    pub(crate) fn sums(&self) -> Option<&Sums> {
        self.sums.as_deref()
    }

    /// Bytes of messages that wait for a consumer, where sums are kept.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums.bytes.saturating_sub(sums.held))
    }

    /// Which messages, from and up to which offset, are still to be counted; they came before the sums.
    pub(super) fn uncounted(&self) -> Option<(u64, u64)> {
        let sums = self.sums.as_ref()?;
        let from = sums.seen.max(self.head);
        (from < sums.since).then_some((from, sums.since))
    }

    /// Counts the message at `offset`, which came before the sums, if it is unsettled; all before it are seen to.
    pub(super) fn count(&mut self, offset: u64, weight: Weight) {
        let is_there = self.is_waiting(offset) && !(weight.transient && self.is_ended(offset));
        let Some(sums) = self.sums.as_deref_mut().filter(|sums| sums.lacks(offset)) else { return };
        sums.seen = offset + 1;
        if is_there {
            sums.bytes += u64::from(weight.bytes);
            if let Some(known) = self.held.weigh(offset, weight.bytes) {
                sums.held = sums.held.saturating_sub(u64::from(known)) + u64::from(weight.bytes);
            }
        }
    }

    /// All before `to` are counted.
    pub(super) fn counted(&mut self, to: u64) {
        if let Some(sums) = &mut self.sums {
            sums.seen = sums.seen.max(to);
            self.news.sums |= sums.seen >= sums.since;
        }
    }

    /// Nobody needs the sums any more.
    pub(super) fn drop_sums(&mut self) {
        self.sums = None;
    }

    /// From `at` on sums are kept.
    pub(crate) fn keep_sums(&mut self, at: u64) {
        if self.sums.is_none() {
            let held = self.held.iter().map(|(_, _, flight)| u64::from(flight.weight.bytes)).sum();
            self.sums = Some(Box::new(Sums { held, ..Sums::from(at) }));
            self.news.sums = true;
        }
    }

    /// Takes over what a record says. Only before [`Cursor::reopen`].
    pub(super) fn restore_sums(&mut self, sums: Sums) {
        self.sums = Some(Box::new(sums));
    }

    /// A message was appended to a log that keeps sums.
    pub(crate) fn appended(&mut self, offset: u64, weight: Weight) {
        if let Some(sums) = &mut self.sums {
            sums.add(offset, weight);
            self.news.sums = true;
        }
    }

    /// Whether a restart has ended the message at `offset` if it is a transient one.
    pub(crate) fn is_ended(&self, offset: u64) -> bool {
        self.sums.as_ref().is_some_and(|sums| sums.lost > 0 && offset < sums.lost_end)
    }

    /// Passes over a message that a restart has ended.
    pub(crate) fn lose(&mut self, offset: u64) {
        if let Some(sums) = &mut self.sums {
            sums.lost = sums.lost.saturating_sub(1);
            self.news.sums = true;
        }
        self.skip(offset, offset + 1);
    }

    /// What may be given out ends here.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the message at `offset`, never handed out, is not settled.
    pub(crate) fn is_waiting(&self, offset: u64) -> bool {
        offset >= self.head && self.done.end_of(offset).is_none()
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
            self.counts.remove_range(from, to);
            self.next = self.next.max(self.head);
            self.ahead = self.done.iter().map(|(start, end)| end.saturating_sub(start.max(self.next))).sum();
            self.pass_done();
        }
        if let Some(sums) = &mut self.sums {
            if self.next >= sums.lost_end {
                sums.lost = 0;
            }
            // Damaged messages were passed over uncounted: what is empty weighs nothing.
            let is_empty = self.next >= self.end && self.back.is_empty() && self.held.is_empty();
            if is_empty && sums.counted <= self.end {
                sums.only(std::iter::empty());
            }
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
        self.news.counts = RareMap::default();
        self.news.delivered = false;
        self.news.sums = false;
    }

    /// Whether anything changed since the last record.
    pub(crate) fn has_news(&self) -> bool {
        self.news.delivered || self.news.sums || !self.news.settled.is_empty() || !self.news.counts.is_empty()
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether all there is to store is about as little as what one message changes: little is in flight, nothing was
    /// settled out of order or given back, and no sums are kept.
    pub(super) fn is_small(&self) -> bool {
        let is_in_order = self.done.is_empty() && self.counts.is_empty() && self.back.is_empty();
        is_in_order && self.sums.is_none() && self.held.len() <= SMALL_HELD_MAX
    }

    /// All there is to store. Offsets before `delivered` were delivered once unless `counts` says otherwise.
    pub(super) fn whole(&self) -> Whole<'_> {
        let mut counts = BTreeMap::new();
        counts.extend(self.counts.iter());
        let back = self.back.iter().filter(|&(_, &made)| made != 1);
        counts.extend(back);
        let held = self.held.iter().filter(|&(_, offset, flight)| flight.attempts > 0 && offset >= self.head);
        counts.extend(held.map(|(_, offset, flight)| (offset, flight.attempts.saturating_add(1))));
        Whole { head: self.head, delivered: self.delivered, done: &self.done, counts }
    }
}
