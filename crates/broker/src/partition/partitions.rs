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
    /// Only once an idempotent producer has written.
    pub(crate) producers: Option<Box<Producers>>,
    /// Who is told that it has moved.
    #[allow(clippy::box_collection)] // most have none
    followers: Option<Box<Vec<Following>>>,
}

/// All logs.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    by_log: IdMap<LogId, Partition>,
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
    /// Makes a log known; `next` is the offset its next message gets, all before is visible.
    pub(crate) fn add(&mut self, log: LogId, next: Offset, settings: Arc<LogSettings>) {
        let partition = Partition {
            log: Log { next, settings },
            watermark: Watermark::new(next),
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
    pub(crate) fn foresee(&self, moved: &mut Vec<(LogId, Offset)>) {
        let will_move = self.to_write.iter().filter_map(|(_, log)| {
            let known = self.by_log.get(log).filter(|partition| partition.log.settings.seen_when_written);
            known.map(|partition| (*log, partition.log.next))
        });
        moved.extend(will_move);
    }

    /// Moves watermarks as far as `progress` allows; `moved` gets the logs whose did, with the new one.
    pub(crate) fn advance(&mut self, progress: Progress, moved: &mut Vec<(LogId, Offset)>) {
        for (queue, policy) in [(&mut self.to_write, SyncPolicy::None), (&mut self.to_sync, SyncPolicy::Sync)] {
            while let Some((_, log)) = queue.pop_front_if(|(lsn, _)| is_safe(*lsn, policy, progress)) {
                if let Some(partition) = self.by_log.get_mut(&log)
                    && partition.watermark.advance(progress)
                {
                    moved.push((log, partition.watermark.visible()));
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

    /// Forgets producers that have been idle for long; answers the logs that have none left.
    pub(crate) fn expire_producers(&mut self, now: Wall) -> Vec<LogId> {
        let mut without = Vec::new();
        for (log, partition) in &mut self.by_log {
            if let Some(producers) = &mut partition.producers {
                producers.expire(now);
                if producers.is_empty() {
                    partition.producers = None;
                    without.push(*log);
                }
            }
        }
        without
    }
}
