//! Retention: whole segments of topics' logs are deleted, the oldest first, when they have become too old or the log
//! too large, or, if the topic asks for that, when all who are known to read it have consumed them. The newest segment
//! too, once that is true of all in it: it ends first. Works through all logs in slices.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{LogId, Mono, Offset, Wall};
use storage::{Batch, LogSegment, SyncPolicy};

use crate::Broker;
use crate::access::DEFAULT_TENANT;
use crate::core::Core;
use crate::topic::{LogSettings, Retention};

/// Logs looked at in one turn.
const LOGS_PER_TURN: usize = 1000;

/// Where the going through is.
#[derive(Debug)]
pub(crate) struct Sweep {
    every: Duration,
    /// When it begins anew.
    next: Mono,
    /// Logs still to be looked at this time.
    waiting: Vec<LogId>,
    /// Up to where those that ask for it were consumed by everybody when it began.
    consumed: BTreeMap<LogId, Offset>,
}

impl Sweep {
    /// Begins first after `every`.
    pub(crate) fn new(every: Duration, now: Mono) -> Sweep {
        Sweep { every, next: now.plus(every), waiting: Vec::new(), consumed: BTreeMap::new() }
    }

    /// When there is something to do.
    pub(crate) fn deadline(&self) -> Mono {
        if self.waiting.is_empty() { self.next } else { Mono(0) }
    }
}

/// What is to go of one log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    /// Everything before.
    before: Offset,
    /// The newest segment ends first.
    rolls: bool,
}

impl Core {
    /// Whether it is time to look at all logs again.
    pub(crate) fn sweep_begins(&self) -> bool {
        self.now.mono >= self.sweep.next
    }

    /// Looks at all logs again; `consumed` says up to where those that ask for it were consumed by everybody.
    pub(crate) fn begin_sweep(&mut self, consumed: BTreeMap<LogId, Offset>) {
        self.sweep.next = self.now.mono.plus(self.sweep.every);
        self.sweep.waiting = self.partitions.logs_with(|settings| settings.retention.is_some());
        self.sweep.consumed = consumed;
    }

    /// Goes on deleting what is due; answers the logs that begin elsewhere now.
    pub(crate) fn sweep(&mut self) -> Vec<(LogId, Offset)> {
        let keep = self.sweep.waiting.len().saturating_sub(LOGS_PER_TURN);
        let slice = self.sweep.waiting.split_off(keep);
        let (mut rolls, mut trims) = (Vec::new(), Vec::new());
        for log in slice {
            if let Some(due) = self.due(log) {
                trims.push((log, due.before));
                rolls.extend(due.rolls.then_some((log, due.before)));
            }
        }
        if trims.is_empty() {
            return trims;
        }
        let batch = Batch { rolls: &rolls, trims: &trims, ..Batch::default() };
        // Nobody waits for it, and what comes back after a crash is deleted again.
        if let Err(why) = self.commit(&batch, SyncPolicy::None) {
            tracing::warn!(%why, logs = trims.len(), "what retention lets go of could not be deleted now");
            return Vec::new();
        }
        tracing::debug!(logs = trims.len(), "retention has deleted segments");
        trims
    }

    fn due(&self, log: LogId) -> Option<Due> {
        let partition = self.partitions.get(log)?;
        let retention = partition.log.settings.retention.as_ref()?;
        let range = self.storage.range(log).filter(|range| range.start < range.end)?;
        let reach = Reach {
            visible: partition.watermark.visible(),
            consumed: self.sweep.consumed.get(&log).copied().filter(|_| retention.consumed),
        };
        let due = due(retention, &self.storage.log_segments(log), self.now.wall, reach)?;
        (due.before > range.start).then_some(due)
    }
}

/// How far others have come in a log.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// What nobody may see yet begins here.
    visible: Offset,
    /// Everybody has consumed all before this, if that is asked and anybody is known to read it.
    consumed: Option<Offset>,
}

impl Broker {
    /// Up to where the logs of topics that let go of what is consumed have been consumed by all groups with an offset
    /// there and all queues over them. Logs that nobody reads are not in it.
    pub(crate) fn consumed(&mut self) -> BTreeMap<LogId, Offset> {
        let asks = |settings: &LogSettings| settings.retention.as_ref().is_some_and(|retention| retention.consumed);
        let logs: BTreeSet<LogId> = self.core.partitions.logs_with(asks).into_iter().collect();
        if logs.is_empty() {
            return BTreeMap::new();
        }
        let mut consumed = self.queues.heads(&logs);
        for (topic, partition, committed) in self.groups.groups().all_offsets() {
            let log =
                self.core.topics.get(DEFAULT_TENANT, topic).and_then(|info| info.partitions.get(partition as usize));
            if let Some(log) = log.filter(|log| logs.contains(log)) {
                let least = consumed.entry(*log).or_insert(committed.offset);
                *least = committed.offset.min(*least);
            }
        }
        consumed
    }
}

/// What of `segments` is to go, of those that end before what nobody may see yet.
fn due(retention: &Retention, segments: &[LogSegment], now: Wall, reach: Reach) -> Option<Due> {
    let total: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let limit = u64::try_from(retention.bytes).unwrap_or(u64::MAX);
    let mut surplus = total.saturating_sub(limit);
    let mut due = None;
    for segment in segments.iter().filter(|segment| segment.bytes > 0 || !segment.is_active) {
        // Without a time it has no age.
        let time = segment.time_max.filter(|time| time.0 >= 0);
        let age = time.map_or(i64::MIN, |time| now.0.saturating_sub(time.0));
        let too_old = retention.ms >= 0 && age > retention.ms;
        let too_much = retention.bytes >= 0 && surplus >= segment.bytes;
        let is_consumed = reach.consumed.is_some_and(|to| segment.end <= to);
        if segment.end > reach.visible || !(too_old || too_much || is_consumed) {
            break;
        }
        surplus = surplus.saturating_sub(segment.bytes);
        due = Some(Due { before: segment.end, rolls: segment.is_active });
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments() -> Vec<LogSegment> {
        let segment = |n: u64, is_active| LogSegment {
            first: Offset(n * 10),
            end: Offset(n * 10 + 10),
            bytes: 100,
            time_first: None,
            time_max: Some(Wall(n as i64 * 1000)),
            is_active,
        };
        vec![segment(0, false), segment(1, false), segment(2, true)]
    }

    fn before(ms: i64, bytes: i64, now: i64, visible: u64) -> Option<(u64, bool)> {
        let retention = Retention { ms, bytes, consumed: false };
        let due = due(&retention, &segments(), Wall(now), Reach { visible: Offset(visible), consumed: None })?;
        Some((due.before.0, due.rolls))
    }

    #[test]
    fn what_everybody_has_consumed_goes_by_whole_segments() {
        let before = |consumed: Option<u64>, visible| {
            let retention = Retention { ms: -1, bytes: -1, consumed: true };
            let reach = Reach { visible: Offset(visible), consumed: consumed.map(Offset) };
            due(&retention, &segments(), Wall(0), reach).map(|due| (due.before.0, due.rolls))
        };
        assert_eq!(before(None, 30), None, "nobody is known to read it");
        assert_eq!(before(Some(9), 30), None);
        assert_eq!(before(Some(19), 30), Some((10, false)));
        assert_eq!(before(Some(30), 30), Some((30, true)));
        assert_eq!(before(Some(30), 25), Some((20, false)), "not what nobody has seen yet");
    }

    #[test]
    fn whole_segments_go_when_all_in_them_is_too_old() {
        assert_eq!(before(-1, -1, i64::MAX, 30), None);
        assert_eq!(before(500, -1, 500, 30), None, "not older than that");
        assert_eq!(before(500, -1, 501, 30), Some((10, false)));
        assert_eq!(before(500, -1, 1501, 30), Some((20, false)));
        assert_eq!(before(500, -1, 2501, 30), Some((30, true)), "an idle topic becomes empty");
        assert_eq!(before(500, -1, 2501, 25), Some((20, false)), "not what nobody has seen yet");
    }

    #[test]
    fn the_oldest_go_while_enough_is_left() {
        assert_eq!(before(-1, 300, 0, 30), None);
        assert_eq!(before(-1, 201, 0, 30), None, "less than asked would be left");
        assert_eq!(before(-1, 200, 0, 30), Some((10, false)));
        assert_eq!(before(-1, 1, 0, 30), Some((20, false)));
        assert_eq!(before(-1, 0, 0, 30), Some((30, true)));
        assert_eq!(before(500, 150, 501, 30), Some((10, false)), "both together");
    }
}
