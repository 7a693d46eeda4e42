//! When the newest segment of a log ends: before it would grow too large, when it has become too old, or when offsets
//! within it would no longer fit 32 bits. Asked before every batch of appends.

use model::{LogId, Now, Offset};
use storage::{Append, LogSegment};

use crate::core::Core;
use crate::topic::Rolling;

/// Offsets of one segment span no more than this.
const SPAN_MAX: u64 = i32::MAX as u64;

impl Core {
    /// The rolls that must come before `appends`.
    pub(crate) fn rolls_before(&self, appends: &[Append<'_>]) -> Vec<(LogId, Offset)> {
        let mut rolls: Vec<(LogId, Offset)> = Vec::new();
        for append in appends {
            for target in append.targets {
                let Some(partition) = self.partitions.get(target.log) else { continue };
                let rolling = &partition.log.settings.rolling;
                if rolling.bytes == u64::MAX {
                    continue; // a queue's own log
                }
                let Some(active) = self.storage.active_segment(target.log) else { continue };
                let last = target.first.plus(u64::from(append.last_delta));
                let due = is_due(rolling, &active, (target.log, last), append, self.now);
                if due && !rolls.iter().any(|(log, _)| *log == target.log) {
                    rolls.push((target.log, active.end));
                }
            }
        }
        rolls
    }
}

fn is_due(rolling: &Rolling, active: &LogSegment, (log, last): (LogId, Offset), append: &Append<'_>, now: Now) -> bool {
    if active.bytes == 0 {
        return false;
    }
    let too_large = active.bytes + append.units.len() as u64 > rolling.bytes;
    // Messages without a time are as old as they are here.
    let time = |time: model::Wall| if time.0 < 0 { now.wall.0 } else { time.0 };
    let age = time(append.time_max).saturating_sub(active.time_first.map_or(now.wall.0, time));
    let too_old = age > rolling.ms.saturating_sub(jitter(rolling, log, active.first));
    too_large || too_old || last.since(active.first) > SPAN_MAX
}

/// The same for one segment at every asking, another for each.
fn jitter(rolling: &Rolling, log: LogId, first: Offset) -> i64 {
    let mixed = (log.0 ^ first.0.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    i64::try_from(mixed).unwrap_or(0).checked_rem(rolling.jitter_ms.min(rolling.ms)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_shortens_by_less_than_it_may_and_differs() {
        let rolling = Rolling { bytes: 1, ms: 1000, jitter_ms: 100 };
        let all: Vec<i64> = (0..50).map(|log| jitter(&rolling, LogId(log), Offset(7))).collect();
        assert!(all.iter().all(|ms| (0..100).contains(ms)));
        assert!(all.iter().any(|ms| *ms != all[0]));
        assert_eq!(jitter(&Rolling { jitter_ms: 0, ..rolling }, LogId(1), Offset(1)), 0);
    }
}
