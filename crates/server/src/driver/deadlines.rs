//! When sessions want to be woken. A deadline that moves later costs nothing: the old entry fires, finds that it is not
//! yet time, and is put back. It knows nothing of sessions but their ids.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use broker::SessionId;
use model::Mono;

/// The moments at which to look at a session, soonest first.
#[derive(Debug, Default)]
pub struct Deadlines {
    heap: BinaryHeap<Reverse<(Mono, SessionId)>>,
}

impl Deadlines {
    /// Look at `session` at `at`. `scheduled` is its entry here, if any: kept when it comes early enough.
    pub fn schedule(&mut self, session: SessionId, at: Option<Mono>, scheduled: &mut Option<Mono>) {
        let Some(at) = at else { return };
        if scheduled.is_none_or(|there| at < there) {
            *scheduled = Some(at);
            self.heap.push(Reverse((at, session)));
        }
    }

    /// The first moment at which something is to be looked at.
    pub fn next(&self) -> Option<Mono> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the first entry that is due.
    pub fn due(&mut self, now: Mono) -> Option<(Mono, SessionId)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soonest_deadline_fires_first_and_later_ones_add_no_entry() {
        let mut deadlines = Deadlines::default();
        let (mut a, mut b) = (None, None);
        deadlines.schedule(SessionId(1), Some(Mono(50)), &mut a);
        deadlines.schedule(SessionId(1), Some(Mono(90)), &mut a);
        deadlines.schedule(SessionId(2), Some(Mono(20)), &mut b);
        assert_eq!(deadlines.next(), Some(Mono(20)));
        assert_eq!(deadlines.due(Mono(60)), Some((Mono(20), SessionId(2))));
        assert_eq!(deadlines.due(Mono(60)), Some((Mono(50), SessionId(1))));
        assert_eq!(deadlines.due(Mono(60)), None);
        assert_eq!(deadlines.next(), None);
    }
}
