//! When sessions want to be woken. A deadline that moves later costs nothing: the old entry fires, finds that it is not
//! yet time, and is put back. A session has one entry at most, however often its deadline moves. It knows nothing of
//! sessions but their ids.

use std::collections::BTreeSet;

use broker::SessionId;
use model::Mono;

/// The moments at which to look at a session, soonest first.
#[derive(Debug, Default)]
pub struct Deadlines {
    entries: BTreeSet<(Mono, SessionId)>,
}

impl Deadlines {
    /// Look at `session` at `at`. `scheduled` is its entry here, if any: kept when it comes early enough.
    pub fn schedule(&mut self, session: SessionId, at: Option<Mono>, scheduled: &mut Option<Mono>) {
        let Some(at) = at else { return };
        if scheduled.is_none_or(|there| at < there) {
            self.forget(session, scheduled.replace(at));
            self.entries.insert((at, session));
        }
    }

    /// Look at `session` no more; `scheduled` is its entry here, if any.
    pub fn forget(&mut self, session: SessionId, scheduled: Option<Mono>) {
        if let Some(at) = scheduled {
            self.entries.remove(&(at, session));
        }
    }

    /// The first moment at which something is to be looked at.
    pub fn next(&self) -> Option<Mono> {
        self.entries.first().map(|(at, _)| *at)
    }

    /// Takes the first entry that is due: the session's only one.
    pub fn due(&mut self, now: Mono) -> Option<SessionId> {
        if self.next()? > now {
            return None;
        }
        self.entries.pop_first().map(|(_, session)| session)
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
        assert_eq!(deadlines.due(Mono(60)), Some(SessionId(2)));
        assert_eq!(deadlines.due(Mono(60)), Some(SessionId(1)));
        assert_eq!(deadlines.due(Mono(60)), None);
        assert_eq!(deadlines.next(), None);
    }

    /// A consumer that polls has a short deadline and a long one behind it, time after time.
    #[test]
    fn a_session_whose_deadline_moves_has_one_entry() {
        let mut deadlines = Deadlines::default();
        let mut scheduled = None;
        for now in 0..100 {
            deadlines.schedule(SessionId(1), Some(Mono(now + 600_000)), &mut scheduled);
            deadlines.schedule(SessionId(1), Some(Mono(now + 1)), &mut scheduled);
            assert_eq!(deadlines.entries.len(), 1);
            assert_eq!(deadlines.due(Mono(now + 1)), Some(SessionId(1)));
            scheduled = None;
        }
        deadlines.schedule(SessionId(1), Some(Mono(700_000)), &mut scheduled);
        deadlines.forget(SessionId(1), scheduled);
        assert_eq!(deadlines.next(), None);
    }
}
