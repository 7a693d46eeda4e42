//! What a queue does besides keeping messages: lives that end, lengths that are limited, time in which it must be used.
//! Only queues that need it have it.
//!
//! It decides; `queue.rs` does it.

use std::time::Duration;

use model::{LogId, Marks, Mono, Now, Wall};

use super::ruled::Ruled;
use super::stream::Readers;
use super::{NO_DELIVERY_LIMIT, Overflow, QueueKind, QueueOptions};
use crate::dead_letter::Dead;

/// Deliveries of a message of a safe queue beside its first, unless the queue says otherwise.
const DELIVERY_LIMIT: u32 = 20;

/// Messages that die at once.
const DYING_MAX: usize = 512;

/// The rules of one queue, and what they need to remember.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) options: QueueOptions,
    /// Of a queue that a policy rules.
    pub(super) ruled: Option<Box<Ruled>>,
    /// It holds messages with lives of their own, or such as a restart ends: they must be looked at.
    pub(super) mixed: bool,
    /// Taken out to die; their dead letters are not written yet.
    pub(crate) dying: Vec<Dead>,
    /// When somebody last used the queue.
    pub(super) used_at: Mono,
    /// The timer that is set for it.
    pub(super) timer: Option<Mono>,
    /// Its head, and when that dies.
    pub(super) life: Option<(LogId, u64, Option<Wall>)>,
    /// Dead letters could not be written: they are tried again then.
    pub(crate) retry_at: Option<Mono>,
    /// When deliveries not settled are looked for next.
    pub(super) late_at: Option<Mono>,
    /// Of a stream: the places of its consumers.
    pub(super) readers: Option<Box<Readers>>,
}

impl Rules {
    pub(super) fn new(options: QueueOptions, now: Now) -> Rules {
        let late_at = options.settle_ms_max.map(|ms| now.mono.plus(pause(ms)));
        Rules { options, used_at: now.mono, late_at, ..Rules::default() }
    }

    /// Whether its messages may die of age.
    pub(super) fn has_lives(&self) -> bool {
        self.mixed || self.options.message_ttl_ms.is_some()
    }

    /// Whether its messages' marks must be seen.
    pub(super) fn needs_marks(&self) -> bool {
        self.has_lives() || self.options.bytes_max.is_some()
    }

    /// When a message with these marks dies of age.
    pub(super) fn end_of(&self, marks: &Marks, now: Wall) -> Option<Wall> {
        let least = match (self.options.message_ttl_ms, marks.time_to_live_ms) {
            (Some(one), Some(other)) => one.min(other),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return None,
        };
        let born = if marks.published == Wall(0) { now } else { marks.published };
        Some(Wall(born.0.saturating_add(i64::try_from(least).unwrap_or(i64::MAX))))
    }

    /// Whether a message with these marks has lived as long as it may.
    pub(super) fn is_dead(&self, marks: &Marks, now: Wall) -> bool {
        self.end_of(marks, now).is_some_and(|end| end <= now)
    }

    /// Whether enough are dying: their letters are written before more die.
    pub(super) fn is_busy(&self) -> bool {
        self.dying.len() >= DYING_MAX
    }

    /// Whether a letter can be written now: that of the first to die.
    pub(super) fn can_bury(&self, now: Mono) -> bool {
        self.retry_at.is_none_or(|at| at <= now) && self.dying.first().is_some_and(|dead| dead.waits.is_none())
    }

    /// Whether so many waiting messages with so many bytes are too much.
    pub(super) fn is_over(&self, count: u64, bytes: u64) -> bool {
        self.options.length_max.is_some_and(|max| count > max) || self.options.bytes_max.is_some_and(|max| bytes > max)
    }

    /// Whether a full queue refuses what is new.
    pub(super) fn refuses(&self) -> bool {
        self.options.overflow.is_some_and(|overflow| overflow != Overflow::DropHead)
    }

    /// A message given back more often than this dies.
    pub(super) fn delivery_limit(&self) -> Option<u32> {
        let kinds = (self.options.kind == QueueKind::Safe).then_some(DELIVERY_LIMIT);
        self.options.delivery_limit.or(kinds).filter(|limit| *limit != NO_DELIVERY_LIMIT)
    }

    /// Whether a restart ends messages that do not ask to survive.
    pub(super) fn forgets(&self) -> bool {
        self.options.kind == QueueKind::Plain
    }

    /// When something must be looked at, at the latest.
    pub(super) fn alarm(&self, now: Now, is_used: bool) -> Option<Mono> {
        // While enough are dying, the end of the next changes nothing: their letters are waited for.
        let life = self.life.filter(|_| !self.is_busy()).and_then(|(_, _, end)| end).map(|end| {
            let wait = u64::try_from(end.0.saturating_sub(now.wall.0)).unwrap_or(0);
            now.mono.plus(Duration::from_millis(wait))
        });
        let idle = self.options.expires_ms.filter(|_| !is_used);
        let idle = idle.map(|ms| self.used_at.plus(Duration::from_millis(ms)));
        [life, idle, self.retry_at, self.late_at].into_iter().flatten().min()
    }

    /// Whether nobody has used the queue for as long as it may be unused.
    pub(super) fn is_expired(&self, now: Mono, is_used: bool) -> bool {
        let limit = self.options.expires_ms.filter(|_| !is_used);
        limit.is_some_and(|ms| now >= self.used_at.plus(Duration::from_millis(ms)))
    }
}

/// How often deliveries that are not settled are looked for, when they have so long to be.
pub(super) fn pause(settle_ms_max: u64) -> Duration {
    Duration::from_millis((settle_ms_max / 2).clamp(100, 60_000))
}
