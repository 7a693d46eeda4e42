//! Publisher confirms of one channel: which publishes wait for which progress, and what can be said at once.

use std::collections::VecDeque;

use broker::{Lsn, Progress, SyncPolicy};

use crate::wire::frame::put_method;

/// The channel is in confirm mode.
#[derive(Debug)]
pub struct Confirms {
    /// The number the next publish gets: 1, 2, 3 …
    next: u64,
    /// Wait for the disk. Invariant: numbers and lsns ascend.
    for_sync: VecDeque<(u64, Lsn)>,
    /// Wait for the operating system. Invariant: as above.
    for_write: VecDeque<(u64, Lsn)>,
}

const ACK: (u16, u16) = (60, 80);
const NACK: (u16, u16) = (60, 120);

impl Default for Confirms {
    fn default() -> Self {
        Confirms { next: 1, for_sync: VecDeque::new(), for_write: VecDeque::new() }
    }
}

impl Confirms {
    /// Counts a publish.
    pub fn count(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Publish `number` waits for `lsn`; false when there is nothing to wait for and it can be acknowledged.
    pub fn wait(&mut self, number: u64, lsn: Lsn, policy: SyncPolicy, progress: Progress) -> bool {
        let (queue, reached) = match policy {
            SyncPolicy::Sync => (&mut self.for_sync, progress.synced),
            SyncPolicy::None => (&mut self.for_write, progress.written),
        };
        if lsn <= reached {
            return false;
        }
        queue.push_back((number, lsn));
        true
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        (self.for_sync.capacity() + self.for_write.capacity()) * size_of::<(u64, Lsn)>()
    }

    /// How many publishes wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.for_sync.len() + self.for_write.len()
    }

    /// Acknowledges what `progress` has reached: one multiple ack up to the smallest number still open, the rest
    /// singly, as RabbitMQ does. Answers how many.
    pub fn progress(&mut self, progress: Progress, channel: u16, out: &mut Vec<u8>) -> usize {
        let before = self.waiting();
        let mut singles = Vec::new();
        let mut last_of_prefix = None;
        let open_sync = self.for_sync.iter().find(|(_, lsn)| *lsn > progress.synced).map(|(number, _)| *number);
        let open_write = self.for_write.iter().find(|(_, lsn)| *lsn > progress.written).map(|(number, _)| *number);
        let open = open_sync.unwrap_or(u64::MAX).min(open_write.unwrap_or(u64::MAX));
        for (queue, reached) in [(&mut self.for_sync, progress.synced), (&mut self.for_write, progress.written)] {
            while let Some((number, lsn)) = queue.front().copied()
                && lsn <= reached
            {
                queue.pop_front();
                if number < open {
                    last_of_prefix = last_of_prefix.max(Some(number));
                } else {
                    singles.push(number);
                }
            }
        }
        let done = before - self.waiting();
        if let Some(number) = last_of_prefix {
            put_confirm(out, channel, ACK, number, done - singles.len() > 1);
        }
        singles.sort_unstable();
        for number in singles {
            put_confirm(out, channel, ACK, number, false);
        }
        done
    }

    /// Storage has failed: everything that waits is refused. Answers how many.
    pub fn fail(&mut self, channel: u16, out: &mut Vec<u8>) -> usize {
        let count = self.waiting();
        let last =
            self.for_sync.back().map(|(number, _)| *number).max(self.for_write.back().map(|(number, _)| *number));
        self.for_sync.clear();
        self.for_write.clear();
        if let Some(number) = last {
            // All numbers still open are at most `number`: what was answered before is not touched by a multiple.
            put_confirm(out, channel, NACK, number, count > 1);
        }
        count
    }
}

/// Acknowledges one publish.
pub fn put_ack(out: &mut Vec<u8>, channel: u16, number: u64) {
    put_confirm(out, channel, ACK, number, false);
}

/// Refuses one publish.
pub fn put_nack(out: &mut Vec<u8>, channel: u16, number: u64) {
    put_confirm(out, channel, NACK, number, false);
}

fn put_confirm(out: &mut Vec<u8>, channel: u16, method: (u16, u16), number: u64, multiple: bool) {
    put_method(out, channel, method, |out| {
        out.extend_from_slice(&number.to_be_bytes());
        out.push(u8::from(multiple));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(written: u64, synced: u64) -> Progress {
        Progress { written: Lsn(written), synced: Lsn(synced) }
    }

    /// (method, number, multiple) of each confirm written.
    fn said(out: &[u8]) -> Vec<(u8, u8, u8)> {
        out.chunks(21).map(|frame| (frame[10], frame[18], frame[19])).collect()
    }

    fn three() -> Confirms {
        let mut confirms = Confirms::default();
        for (lsn, policy) in [(5, SyncPolicy::Sync), (5, SyncPolicy::None), (6, SyncPolicy::Sync)] {
            let number = confirms.count();
            assert!(confirms.wait(number, Lsn(lsn), policy, progress(4, 4)));
        }
        confirms
    }

    #[test]
    fn a_prefix_is_acknowledged_at_once_and_the_rest_singly() {
        let (mut confirms, mut out) = (three(), Vec::new());
        assert_eq!(confirms.progress(progress(5, 4), 1, &mut out), 1);
        assert_eq!(said(&out), [(80, 2, 0)], "2 is written while 1 still waits for its sync");
        out.clear();
        assert_eq!(confirms.progress(progress(6, 6), 1, &mut out), 2);
        assert_eq!(said(&out), [(80, 3, 1)]);
        assert_eq!(confirms.waiting(), 0);
    }

    #[test]
    fn a_failed_journal_refuses_all_that_waits() {
        let (mut confirms, mut out) = (three(), Vec::new());
        assert_eq!(confirms.fail(1, &mut out), 3);
        assert_eq!(said(&out), [(120, 3, 1)]);
        assert_eq!(confirms.progress(progress(9, 9), 1, &mut out), 0);
    }

    #[test]
    fn what_was_reached_already_need_not_wait() {
        let mut confirms = Confirms::default();
        assert!(!confirms.wait(1, Lsn(0), SyncPolicy::Sync, progress(0, 0)));
    }
}
