//! Which logs are compacted, when and how fast: the one of which the largest part is not compacted yet comes first. How
//! it is done is storage's business.

use std::sync::Arc;
use std::time::Duration;

use model::{LogId, Mono, Offset, Wall};
use storage::{Cleaned, CompactRequest, LogSegment};

use crate::core::Core;
use crate::topic::Compaction;

/// Bytes of one step, and the time it is given.
const STEP_BYTES: u64 = 8 << 20;
const STEP_EVERY: Duration = Duration::from_millis(125);

/// Memory for the keys of one log: about a million of them.
const KEYS_BYTES_MAX: usize = 64 << 20;

/// Logs that are looked at in one turn.
const LOGS_PER_TURN: usize = 1000;

/// Where compaction stands.
#[derive(Debug)]
pub(crate) struct Compactor {
    every: Duration,
    /// When it is looked again for what to compact.
    next: Mono,
    /// When the next step may be made.
    step_at: Mono,
    /// Logs still to be looked at this time, and the best so far.
    waiting: Vec<LogId>,
    best: Option<(f64, LogId, Offset)>,
    is_looking: bool,
    /// Messages removed since opening.
    pub(crate) removed: u64,
}

impl Compactor {
    /// Begins first after `every`.
    pub(crate) fn new(every: Duration, now: Mono) -> Compactor {
        let (next, step_at) = (now.plus(every), now);
        Compactor { every, next, step_at, waiting: Vec::new(), best: None, is_looking: false, removed: 0 }
    }
}

impl Core {
    /// When [`Core::compact`] has something to do.
    pub(crate) fn compaction_deadline(&self) -> Option<Mono> {
        match self.storage.compaction() {
            Some(true) => Some(self.compactor.step_at),
            Some(false) => None, // a step is being made
            None if self.compactor.is_looking => Some(Mono(0)),
            None => Some(self.compactor.next),
        }
    }

    /// Goes on: with the compaction under way, or by looking for the next.
    pub(crate) fn compact(&mut self) {
        if let Some(done) = self.storage.take_compacted() {
            self.compactor.removed += done.removed;
            if done.is_done {
                tracing::debug!(log = %done.log, removed = done.removed, "compacted");
                self.compactor.next = self.now.mono; // there may be others
            } else {
                tracing::info!(log = %done.log, "a log could not be compacted now");
            }
        }
        match self.storage.compaction() {
            Some(true) if self.now.mono >= self.compactor.step_at => {
                self.compactor.step_at = self.now.mono.plus(STEP_EVERY);
                self.storage.step_compaction(STEP_BYTES);
            }
            Some(_) => {}
            None if self.compactor.is_looking || self.now.mono >= self.compactor.next => self.look(),
            None => {}
        }
    }

    fn look(&mut self) {
        if !self.compactor.is_looking {
            self.compactor.next = self.now.mono.plus(self.compactor.every);
            self.compactor.waiting = self.partitions.logs_with(|settings| settings.compaction.is_some());
            (self.compactor.is_looking, self.compactor.best) = (true, None);
        }
        let keep = self.compactor.waiting.len().saturating_sub(LOGS_PER_TURN);
        for log in self.compactor.waiting.split_off(keep) {
            let found = self.wants_compaction(log);
            if found.is_some_and(|(share, _)| self.compactor.best.is_none_or(|(best, ..)| share > best)) {
                self.compactor.best = found.map(|(share, upto)| (share, log, upto));
            }
        }
        if self.compactor.waiting.is_empty() {
            self.compactor.is_looking = false;
            if let Some((_, log, upto)) = self.compactor.best.take() {
                self.begin(log, upto);
            }
        }
    }

    fn wants_compaction(&self, log: LogId) -> Option<(f64, Offset)> {
        let partition = self.partitions.get(log)?;
        let compaction = partition.log.settings.compaction.as_ref()?;
        let segments = self.storage.log_segments(log);
        let visible = partition.watermark.visible();
        wanted(compaction, &segments, self.storage.cleaned(log), (self.now.wall, visible))
    }

    fn begin(&mut self, log: LogId, upto: Offset) {
        let Some(partition) = self.partitions.get(log) else { return };
        let settings = &partition.log.settings;
        let Some(compaction) = &settings.compaction else { return };
        let now = self.now.wall;
        self.storage.begin_compaction(CompactRequest {
            log,
            upto,
            formats: Arc::clone(&self.formats),
            now,
            tombstones_until: Wall(now.0.saturating_add(compaction.tombstones_ms)),
            segment_bytes: settings.rolling.bytes,
            keys_bytes_max: KEYS_BYTES_MAX,
        });
    }
}

/// Up to where a log of these segments should be compacted now, if so, and what part of that is not compacted yet.
fn wanted(
    compaction: &Compaction,
    segments: &[LogSegment],
    cleaned: Cleaned,
    (now, visible): (Wall, Offset),
) -> Option<(f64, Offset)> {
    let (mut clean, mut dirty, mut upto) = (0u64, 0u64, Offset::ZERO);
    let mut is_overdue = false;
    for segment in segments.iter().filter(|segment| !segment.is_active) {
        let age = now.0.saturating_sub(segment.time_max.map_or(0, |time| time.0));
        if segment.end > visible || (compaction.lag_min_ms > 0 && age < compaction.lag_min_ms) {
            break;
        }
        upto = segment.end;
        if segment.end <= cleaned.upto {
            clean += segment.bytes;
        } else {
            dirty += segment.bytes;
            is_overdue |= age > compaction.lag_max_ms;
        }
    }
    // Tombstones whose days are over are worth it, too.
    let has_expired = cleaned.tombstones_until.is_some_and(|until| now > until);
    let share = dirty as f64 / (clean + dirty).max(1) as f64;
    let is_due = dirty > 0 && (share > compaction.dirty_ratio || is_overdue);
    (upto > Offset::ZERO && (is_due || has_expired)).then_some((share, upto))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments() -> Vec<LogSegment> {
        let segment = |n: u64| LogSegment {
            first: Offset(n * 10),
            end: Offset(n * 10 + 10),
            bytes: 100,
            time_first: None,
            time_max: Some(Wall(n as i64 * 1000)),
            is_active: n == 4,
        };
        (0..5).map(segment).collect()
    }

    fn upto(compaction: Compaction, clean: u64, until: Option<i64>, now: i64) -> Option<u64> {
        let cleaned = Cleaned { upto: Offset(clean), tombstones_until: until.map(Wall) };
        wanted(&compaction, &segments(), cleaned, (Wall(now), Offset(50))).map(|(_, upto)| upto.0)
    }

    #[test]
    fn a_log_is_compacted_when_enough_of_it_is_not_but_never_its_newest_segment() {
        let half = Compaction { tombstones_ms: 1, lag_min_ms: 0, lag_max_ms: i64::MAX, dirty_ratio: 0.5 };
        assert_eq!(upto(half, 0, None, 5000), Some(40));
        assert_eq!(upto(half, 10, None, 5000), Some(40));
        assert_eq!(upto(half, 20, None, 5000), None, "half of it is not more than half");
        assert_eq!(upto(half, 40, None, 5000), None);
        assert_eq!(upto(half, 40, Some(4999), 5000), Some(40), "a tombstone's days are over");
        let young = Compaction { lag_min_ms: 3500, ..half };
        assert_eq!(upto(young, 0, None, 5000), Some(20), "what is younger waits");
        let old = Compaction { lag_max_ms: 1500, dirty_ratio: 1.0, ..half };
        assert_eq!((upto(old, 30, None, 4000), upto(old, 30, None, 4501)), (None, Some(40)));
    }
}
