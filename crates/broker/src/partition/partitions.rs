//! All logs of this shard: topics' partitions and queues' own. Routes between each log's parts; holds what spans logs:
//! who waits for which turn, watches, reads that wait for the disk.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{LogId, Offset, Wall};
use storage::{Lsn, Progress, ReadId, SyncPolicy};

use super::follow::{Following, Follows};
use super::log::Log;
use super::producers::Producers;
use super::watch::Watches;
use super::watermark::{Watermark, is_safe};
use crate::events::Events;
use crate::id_map::IdMap;
use crate::topic::LogSettings;
use crate::{CallId, Event, SessionId};

/// One log, composed.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) log: Log,
    pub(crate) watermark: Watermark,
    /// Queues have been told already that it will move up to here.
    foreseen: Offset,
    /// Only once an idempotent producer has written.
    pub(crate) producers: Option<Box<Producers>>,
    /// Who is told that it has moved.
    #[allow(clippy::box_collection)] // most have none
    followers: Option<Box<Vec<Following>>>,
}

/// Producers remembered of one log: their snapshot is one record, of a megabyte then.
const PRODUCERS_OF_LOG_MAX: usize = 10_000;

/// Producers remembered of all logs: some 60 MB.
const PRODUCERS_MAX: usize = 250_000;

/// Where there are too many, one in so many is forgotten at once: looking for the oldest costs as much as there are.
const FORGET_SHARE: usize = 16;

/// All logs.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    by_log: IdMap<LogId, Partition>,
    /// Producers that are remembered, of all logs.
    producers: usize,
    /// Logs with an entry that waits to be written, by turn.
    to_write: VecDeque<(Lsn, LogId)>,
    /// Logs with an entry that waits to be synced, by turn.
    to_sync: VecDeque<(Lsn, LogId)>,
    pub(crate) watches: Watches,
    pub(crate) follows: Follows,
    /// Sessions to be told when a read need not wait any more.
    reads: IdMap<ReadId, Vec<(SessionId, CallId)>>,
}

impl Partitions {
    /// Makes room for `more` logs, at once instead of by and by.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.by_log.reserve(more);
    }

    /// Makes a log known; `next` is the offset its next message gets, all before is visible.
    pub(crate) fn add(&mut self, log: LogId, next: Offset, settings: Arc<LogSettings>) {
        let partition = Partition {
            log: Log { next, settings },
            watermark: Watermark::new(next),
            foreseen: next,
            producers: None,
            followers: None,
        };
        self.by_log.insert(log, partition);
    }

    /// The logs of which `wanted` is true.
    pub(crate) fn logs_with(&self, wanted: impl Fn(&LogSettings) -> bool) -> Vec<LogId> {
        let of = |(log, partition): (&LogId, &Partition)| wanted(&partition.log.settings).then_some(*log);
        self.by_log.iter().filter_map(of).collect()
    }

    /// Forgets a log. Watches on it fire.
    pub(crate) fn remove(&mut self, log: LogId, events: &mut Events) {
        if let Some(mut partition) = self.by_log.remove(&log) {
            self.producers -= partition.producers.as_ref().map_or(0, |producers| producers.count());
            self.watches.moved(log, Offset(u64::MAX), |session, call| events.push(session, Event::Readable(call)));
            if let Some(followers) = &mut partition.followers {
                self.follows.moved(followers);
            }
            self.tell_followers(events);
        }
    }

    /// One log.
    pub(crate) fn get(&self, log: LogId) -> Option<&Partition> {
        self.by_log.get(&log)
    }

    /// One log, to change.
    pub(crate) fn get_mut(&mut self, log: LogId) -> Option<&mut Partition> {
        self.by_log.get_mut(&log)
    }

    /// The offset the next message of `log` gets; `None` when the log is not known.
    pub(crate) fn next_offset(&self, log: LogId) -> Option<Offset> {
        self.get(log).map(|partition| partition.log.next)
    }

    /// The offset after the last message of `log` that readers may see; `None` when the log is not known.
    pub(crate) fn watermark(&self, log: LogId) -> Option<Offset> {
        self.get(log).map(|partition| partition.watermark.visible())
    }

    /// Messages up to `end` were appended to `log` in turn `lsn`.
    pub(crate) fn appended(&mut self, log: LogId, end: Offset, lsn: Lsn, policy: SyncPolicy) {
        let Some(partition) = self.by_log.get_mut(&log) else {
            return;
        };
        partition.log.next = end;
        let policy = if partition.log.settings.seen_when_written { SyncPolicy::None } else { policy };
        if partition.watermark.appended(end, lsn, policy) {
            match policy {
                SyncPolicy::None => self.to_write.push_back((lsn, log)),
                SyncPolicy::Sync => self.to_sync.push_back((lsn, log)),
            }
        }
    }

    /// The logs whose watermarks will have moved once this turn is written, and how far, as far as queues hand out what
    /// is written. Those of others move when it is.
    pub(crate) fn foresee(&mut self, moved: &mut Vec<(LogId, Offset)>) {
        let will_move = self.to_write.iter().filter_map(|(_, log)| {
            let known = self.by_log.get_mut(log).filter(|partition| partition.log.settings.seen_when_written);
            known.map(|partition| {
                partition.foreseen = partition.log.next;
                (*log, partition.log.next)
            })
        });
        moved.extend(will_move);
    }

    /// Moves watermarks as far as `progress` allows; `moved` gets the logs whose did, with the new one, but for those
    /// of which only queues want to know, and do.
    pub(crate) fn advance(&mut self, progress: Progress, moved: &mut Vec<(LogId, Offset)>) {
        for (queue, policy) in [(&mut self.to_write, SyncPolicy::None), (&mut self.to_sync, SyncPolicy::Sync)] {
            while let Some((_, log)) = queue.pop_front_if(|(lsn, _)| is_safe(*lsn, policy, progress)) {
                if let Some(partition) = self.by_log.get_mut(&log)
                    && partition.watermark.advance(progress)
                {
                    let visible = partition.watermark.visible();
                    if visible > partition.foreseen || !self.watches.is_empty() {
                        moved.push((log, visible));
                    }
                    if let Some(followers) = &mut partition.followers {
                        self.follows.moved(followers);
                    }
                }
            }
        }
    }

    /// Tells those who waited for what they follow.
    pub(crate) fn tell_followers(&mut self, events: &mut Events) {
        while let Some((session, call)) = self.follows.next_woken() {
            events.push(session, Event::Readable(call));
        }
    }

    /// See [`crate::Broker::follow`].
    pub(crate) fn follow(&mut self, who: (SessionId, CallId), log: LogId, mark: u32) {
        if let Some(partition) = self.by_log.get_mut(&log) {
            self.follows.add(who, log, mark, partition.followers.get_or_insert_default());
        }
    }

    /// See [`crate::Broker::unfollow`].
    pub(crate) fn unfollow(&mut self, who: (SessionId, CallId), log: Option<LogId>) {
        if let Some(log) = log {
            let mut nobody = Vec::new();
            let followers = self.by_log.get_mut(&log).and_then(|partition| partition.followers.as_deref_mut());
            let followers = followers.unwrap_or(&mut nobody);
            self.follows.remove(who, log, followers);
            return;
        }
        let (id, logs) = self.follows.end(who);
        for log in logs {
            if let Some(partition) = self.by_log.get_mut(&log) {
                let followers = partition.followers.get_or_insert_default();
                followers.retain(|following| !following.is(id));
                if followers.is_empty() {
                    partition.followers = None;
                }
            }
        }
    }

    /// `session` waits for `read`.
    pub(crate) fn wait_for(&mut self, read: ReadId, session: SessionId, call: CallId) {
        self.reads.entry(read).or_default().push((session, call));
    }

    /// `read` can be asked again.
    pub(crate) fn read_ready(&mut self, read: ReadId, events: &mut Events) {
        for (session, call) in self.reads.remove(&read).unwrap_or_default() {
            events.push(session, Event::Readable(call));
        }
    }

    /// A session is gone: nobody is to be told for it.
    pub(crate) fn session_closed(&mut self, session: SessionId) {
        self.watches.remove_all(session);
        for who in self.follows.calls(session) {
            self.unfollow(who, None);
        }
        for waiting in self.reads.values_mut() {
            waiting.retain(|(whose, _)| *whose != session);
        }
    }

    /// Gives `log` the producers that its records tell of.
    pub(crate) fn recover_producers(&mut self, log: LogId, producers: Producers) {
        let Some(partition) = self.by_log.get_mut(&log) else { return };
        self.producers += producers.count();
        partition.producers = Some(Box::new(producers));
        self.bound_producers(log, (PRODUCERS_OF_LOG_MAX, PRODUCERS_MAX));
    }

    /// The producers of `log`, to which `id` is about to be added; others are forgotten if there are too many.
    pub(crate) fn producers_for(&mut self, log: LogId, id: i64) -> Option<&mut Producers> {
        let known = self.by_log.get(&log)?.producers.as_ref();
        if !known.is_some_and(|producers| producers.knows(id)) {
            self.bound_producers(log, (PRODUCERS_OF_LOG_MAX - 1, PRODUCERS_MAX - 1));
            self.producers += 1;
        }
        Some(self.by_log.get_mut(&log)?.producers.get_or_insert_default())
    }

    /// Forgets the longest idle where there are more than `of_log` of this log or `of_all` of all.
    fn bound_producers(&mut self, log: LogId, (of_log, of_all): (usize, usize)) {
        let count = self.by_log.get(&log).and_then(|partition| partition.producers.as_ref()).map_or(0, |of| of.count());
        if count > of_log {
            let own = self.by_log.get_mut(&log).and_then(|partition| partition.producers.as_deref_mut());
            self.producers -= forget_oldest(&mut [own], count - of_log);
        }
        if self.producers > of_all {
            let all = self.by_log.values_mut().map(|partition| partition.producers.as_deref_mut());
            self.producers -= forget_oldest(&mut all.collect::<Vec<_>>(), self.producers - of_all);
        }
    }

    /// Forgets producers that have been idle for long; answers the logs that have none left.
    pub(crate) fn expire_producers(&mut self, now: Wall) -> Vec<LogId> {
        let mut without = Vec::new();
        self.producers = 0;
        for (log, partition) in &mut self.by_log {
            if let Some(producers) = &mut partition.producers {
                producers.expire(now);
                self.producers += producers.count();
                if producers.is_empty() {
                    partition.producers = None;
                    without.push(*log);
                }
            }
        }
        without
    }
}

/// Forgets at least `wanted` of the producers of several logs, those that have not written for longest; answers how
/// many.
fn forget_oldest(of: &mut [Option<&mut Producers>], wanted: usize) -> usize {
    let mut used: Vec<Wall> = of.iter().flatten().flat_map(|producers| producers.used()).collect();
    let count = wanted.max(used.len() / FORGET_SHARE).min(used.len());
    let Some(last) = count.checked_sub(1) else { return 0 };
    let (older, since, _) = used.select_nth_unstable(last);
    let (since, mut ties) = (*since, 1 + older.iter().filter(|used| **used == *since).count());
    for producers in of.iter_mut().flatten() {
        producers.forget_before(since, &mut ties);
    }
    count
}

#[cfg(test)]
mod tests {
    use storage::Lsn;

    use super::*;
    use crate::partition::ProducerBatch;
    use crate::queue::QueueKind;

    fn add(partitions: &mut Partitions, log: u64, id: i64, at: i64) {
        let batch = ProducerBatch { id, epoch: 0, first_sequence: 0, last_sequence: 0 };
        let producers = partitions.producers_for(LogId(log), id).unwrap();
        producers.stored(batch, Offset(0), Wall(at), Lsn(1), SyncPolicy::None);
    }

    fn count(partitions: &Partitions, log: u64) -> usize {
        partitions.get(LogId(log)).unwrap().producers.as_ref().map_or(0, |producers| producers.count())
    }

    #[test]
    fn of_too_many_producers_of_a_log_the_longest_idle_are_forgotten() {
        let mut partitions = Partitions::default();
        partitions.add(LogId(1), Offset(0), LogSettings::of_queue(QueueKind::Plain));
        for id in 0..PRODUCERS_OF_LOG_MAX as i64 {
            add(&mut partitions, 1, id, 1000 + id / 3); // some at the same time
        }
        add(&mut partitions, 1, 0, 9_000_000); // it has written again
        assert_eq!(count(&partitions, 1), PRODUCERS_OF_LOG_MAX);
        add(&mut partitions, 1, -5, 9_000_001);
        let forgotten = PRODUCERS_OF_LOG_MAX / FORGET_SHARE;
        assert_eq!(count(&partitions, 1), PRODUCERS_OF_LOG_MAX + 1 - forgotten);
        let producers = partitions.get(LogId(1)).unwrap().producers.as_ref().unwrap();
        assert!(producers.knows(0) && producers.knows(-5) && !producers.knows(1));
        assert!(!producers.knows(forgotten as i64 - 3) && producers.knows(forgotten as i64 + 3));
        assert_eq!(partitions.producers, count(&partitions, 1));
    }

    #[test]
    fn of_too_many_producers_in_all_the_longest_idle_are_forgotten_wherever_they_wrote() {
        let mut partitions = Partitions::default();
        for log in 0..30 {
            partitions.add(LogId(log), Offset(0), LogSettings::of_queue(QueueKind::Plain));
        }
        for id in 0..=PRODUCERS_MAX as i64 {
            add(&mut partitions, id as u64 % 30, id, 7);
        }
        let left = PRODUCERS_MAX + 1 - PRODUCERS_MAX / FORGET_SHARE;
        assert_eq!((partitions.producers, (0..30).map(|log| count(&partitions, log)).sum()), (left, left));
        assert!(
            partitions
                .get(LogId(PRODUCERS_MAX as u64 % 30))
                .unwrap()
                .producers
                .as_ref()
                .unwrap()
                .knows(PRODUCERS_MAX as i64)
        );
        let mut events = Events::default();
        (0..30).for_each(|log| partitions.remove(LogId(log), &mut events));
        assert_eq!(partitions.producers, 0);
    }
}
