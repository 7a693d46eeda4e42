//! Replies that wait for the disk. A channel's frames must leave in order, so while one reply waits, all that the
//! channel says after it waits behind it.

use std::collections::VecDeque;

use broker::{Lsn, Outbox, Progress};

/// What one channel holds back.
#[derive(Debug, Default)]
pub struct Held {
    /// Invariant: `until` ascends strictly.
    segments: VecDeque<Segment>,
}

#[derive(Debug)]
struct Segment {
    until: Lsn,
    bytes: Vec<u8>,
}

impl Held {
    /// All that is said from now on waits until everything up to `until` is synced.
    pub fn hold(&mut self, until: Lsn, progress: Progress) {
        let held_to = self.segments.back().map_or(progress.synced, |segment| segment.until);
        if until > held_to {
            self.segments.push_back(Segment { until, bytes: Vec::new() });
        }
    }

    /// Where the channel's next frame goes.
    pub fn sink<'a>(&'a mut self, out: &'a mut Outbox) -> &'a mut Vec<u8> {
        match self.segments.back_mut() {
            Some(segment) => &mut segment.bytes,
            None => out.buffer(),
        }
    }

    /// Whether frames go out directly.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes held back.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes.len()).sum()
    }

    /// Lets go what is synced.
    pub fn release(&mut self, progress: Progress, out: &mut Outbox) {
        while let Some(segment) = self.segments.front()
            && segment.until <= progress.synced
        {
            if let Some(segment) = self.segments.pop_front() {
                out.push(segment.bytes.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synced(lsn: u64) -> Progress {
        Progress { written: Lsn(lsn), synced: Lsn(lsn) }
    }

    #[test]
    fn later_frames_wait_behind_a_held_reply() {
        let (mut held, mut out) = (Held::default(), Outbox::default());
        held.hold(Lsn(3), synced(3));
        assert!(held.is_empty(), "nothing to wait for");
        held.hold(Lsn(4), synced(3));
        held.sink(&mut out).push(1);
        held.hold(Lsn(4), synced(3));
        held.sink(&mut out).push(2);
        held.hold(Lsn(5), synced(3));
        held.sink(&mut out).push(3);
        held.release(synced(3), &mut out);
        assert_eq!(out.queued_bytes(), 0);
        held.release(synced(4), &mut out);
        assert_eq!(out.buffer().as_slice(), [1, 2]);
        held.release(synced(5), &mut out);
        assert_eq!(out.buffer().as_slice(), [1, 2, 3]);
        assert!(held.is_empty());
    }
}
