//! The watermark of a log: how far readers may see. An entry becomes visible when it is as safe as its writer asked for
//! (written, or synced), and never before an earlier one.

use model::Offset;
use storage::{Lsn, Progress, SyncPolicy};

use crate::queue::rare::RareList;

/// Entries for which an empty list keeps room.
const ROOM_KEPT: usize = 16;

/// What was appended in one turn.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    lsn: Lsn,
    end: Offset,
    policy: SyncPolicy,
}

/// A log's watermark. Invariant: entries wait in the order of their offsets and turns, all beyond `visible`.
#[derive(Debug, Default)]
pub(crate) struct Watermark {
    visible: Offset,
    /// The oldest that waits: mostly the only one.
    first: Option<Waiting>,
    /// Those after it.
    others: RareList<Waiting>,
}

/// Whether `lsn` is as safe as `policy` asks.
pub(crate) fn is_safe(lsn: Lsn, policy: SyncPolicy, progress: Progress) -> bool {
    match policy {
        SyncPolicy::None => lsn <= progress.written,
        SyncPolicy::Sync => lsn <= progress.synced,
    }
}

impl Watermark {
    /// A watermark at the end of what was recovered.
    pub(crate) fn new(visible: Offset) -> Watermark {
        Watermark { visible, ..Watermark::default() }
    }

    /// The offset after the last visible message.
    pub(crate) fn visible(&self) -> Offset {
        self.visible
    }

    /// Messages up to `end` were appended in turn `lsn`. True when this entry is to be asked for again as one that
    /// waits for `policy`; false when an earlier one of the same turn and policy does already.
    pub(crate) fn appended(&mut self, end: Offset, lsn: Lsn, policy: SyncPolicy) -> bool {
        let last = self.others.latest_mut().next().or(self.first.as_mut());
        if let Some(last) = last.filter(|last| last.lsn == lsn) {
            // Appends of one turn become one extent, which is served whole or not at all: the strictest policy rules.
            let stricter = policy > last.policy;
            last.end = end;
            last.policy = last.policy.max(policy);
            return stricter;
        }
        let entry = Waiting { lsn, end, policy };
        match self.first {
            None => self.first = Some(entry),
            Some(_) => self.others.push(entry),
        }
        true
    }

    /// Passes what is safe by now; true when the watermark moved.
    pub(crate) fn advance(&mut self, progress: Progress) -> bool {
        let before = self.visible;
        while let Some(first) = self.first.take_if(|w| is_safe(w.lsn, w.policy, progress)) {
            self.visible = first.end;
            self.first = self.others.pop_front();
        }
        if self.first.is_none() {
            self.others.shrink(ROOM_KEPT); // at rest a log costs next to nothing
        }
        self.visible > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(written: u64, synced: u64) -> Progress {
        Progress { written: Lsn(written), synced: Lsn(synced) }
    }

    #[test]
    fn the_watermark_never_passes_an_entry_that_waits_for_its_sync() {
        let mut mark = Watermark::new(Offset(5));
        assert!(mark.appended(Offset(6), Lsn(1), SyncPolicy::None));
        assert!(mark.appended(Offset(8), Lsn(2), SyncPolicy::Sync));
        assert!(mark.appended(Offset(9), Lsn(3), SyncPolicy::None));
        assert!(!mark.advance(progress(0, 0)));
        assert!(mark.advance(progress(3, 0)));
        assert_eq!(mark.visible(), Offset(6), "the entry behind the unsynced one waits though it is written");
        assert!(mark.advance(progress(3, 2)));
        assert_eq!(mark.visible(), Offset(9));
    }

    #[test]
    fn entries_of_one_turn_are_seen_together_by_the_strictest_policy() {
        let mut mark = Watermark::default();
        assert!(mark.appended(Offset(1), Lsn(4), SyncPolicy::None));
        assert!(!mark.appended(Offset(2), Lsn(4), SyncPolicy::None));
        assert!(mark.appended(Offset(3), Lsn(4), SyncPolicy::Sync));
        assert!(!mark.appended(Offset(4), Lsn(4), SyncPolicy::None));
        assert!(!mark.advance(progress(4, 3)));
        assert!(mark.advance(progress(4, 4)));
        assert_eq!(mark.visible(), Offset(4));
    }
}
