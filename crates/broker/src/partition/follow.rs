//! Following: a session follows many logs for long, and learns which of them have moved since it last asked. A watch
//! costs as much as it has logs each time that it is made; this costs only what moves.

use std::collections::BTreeMap;

use model::LogId;

use crate::id_map::IdMap;
use crate::{CallId, SessionId};

/// All followers, findable by log and by call.
#[derive(Debug, Default)]
pub(crate) struct Follows {
    last: u64,
    by_call: BTreeMap<(SessionId, CallId), u64>,
    by_id: IdMap<u64, Follower>,
    by_log: IdMap<LogId, Vec<u64>>,
}

#[derive(Debug)]
struct Follower {
    session: SessionId,
    call: CallId,
    logs: IdMap<LogId, Followed>,
    /// Logs that have moved since it last asked, each once.
    moved: Vec<LogId>,
    /// It is to be told of the next movement.
    waits: bool,
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    /// What the follower calls it.
    mark: u32,
    /// It is among those that have moved.
    has_moved: bool,
}

impl Follows {
    /// Follows `log` too; what moves it is told as `mark`.
    pub(crate) fn add(&mut self, session: SessionId, call: CallId, log: LogId, mark: u32) {
        let id = *self.by_call.entry((session, call)).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        let new = || Follower { session, call, logs: IdMap::default(), moved: Vec::new(), waits: false };
        let follower = self.by_id.entry(id).or_insert_with(new);
        if follower.logs.insert(log, Followed { mark, has_moved: false }).is_none() {
            self.by_log.entry(log).or_default().push(id);
        } else {
            follower.moved.retain(|moved| *moved != log);
        }
    }

    /// Follows `log` no more.
    pub(crate) fn remove(&mut self, session: SessionId, call: CallId, log: LogId) {
        let Some(id) = self.by_call.get(&(session, call)).copied() else { return };
        let Some(follower) = self.by_id.get_mut(&id) else { return };
        if follower.logs.remove(&log).is_some_and(|followed| followed.has_moved) {
            follower.moved.retain(|moved| *moved != log);
        }
        self.forget_log(log, id);
    }

    /// Follows nothing more by this call.
    pub(crate) fn end(&mut self, session: SessionId, call: CallId) {
        let Some(id) = self.by_call.remove(&(session, call)) else { return };
        let Some(follower) = self.by_id.remove(&id) else { return };
        for log in follower.logs.into_keys() {
            self.forget_log(log, id);
        }
    }

    /// The session is gone.
    pub(crate) fn end_all(&mut self, session: SessionId) {
        let calls = self.by_call.range((session, CallId(0))..=(session, CallId(u64::MAX)));
        let calls: Vec<CallId> = calls.map(|((_, call), _)| *call).collect();
        for call in calls {
            self.end(session, call);
        }
    }

    fn forget_log(&mut self, log: LogId, id: u64) {
        if let Some(ids) = self.by_log.get_mut(&log) {
            ids.retain(|one| *one != id);
            if ids.is_empty() {
                self.by_log.remove(&log);
            }
        }
    }

    /// `log` has moved: noted for those who follow it; who waits is told, once.
    pub(crate) fn moved(&mut self, log: LogId, mut tell: impl FnMut(SessionId, CallId)) {
        let Some(ids) = self.by_log.get(&log) else { return };
        for id in ids {
            let Some(follower) = self.by_id.get_mut(id) else { continue };
            let Some(followed) = follower.logs.get_mut(&log) else { continue };
            if !std::mem::replace(&mut followed.has_moved, true) {
                follower.moved.push(log);
            }
            if std::mem::take(&mut follower.waits) {
                tell(follower.session, follower.call);
            }
        }
    }

    /// Appends to `marks` what has moved since it was last asked.
    pub(crate) fn take_moved(&mut self, session: SessionId, call: CallId, marks: &mut Vec<u32>) {
        let Some(follower) = self.by_call.get(&(session, call)).and_then(|id| self.by_id.get_mut(id)) else { return };
        for log in follower.moved.drain(..) {
            if let Some(followed) = follower.logs.get_mut(&log) {
                followed.has_moved = false;
                marks.push(followed.mark);
            }
        }
    }

    /// Tells it of the next movement; answers true instead when there has been one already.
    pub(crate) fn wait(&mut self, session: SessionId, call: CallId) -> bool {
        let Some(follower) = self.by_call.get(&(session, call)).and_then(|id| self.by_id.get_mut(id)) else {
            return false;
        };
        follower.waits = follower.moved.is_empty();
        !follower.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: SessionId = SessionId(1);
    const CALL: CallId = CallId(7);

    fn moved(follows: &mut Follows, log: u64) -> usize {
        let mut told = 0;
        follows.moved(LogId(log), |_, _| told += 1);
        told
    }

    fn taken(follows: &mut Follows) -> Vec<u32> {
        let mut marks = Vec::new();
        follows.take_moved(WHO, CALL, &mut marks);
        marks
    }

    #[test]
    fn what_moved_is_told_once_and_only_who_waits_is_woken() {
        let mut follows = Follows::default();
        for (log, mark) in [(10, 0), (11, 1), (12, 2)] {
            follows.add(WHO, CALL, LogId(log), mark);
        }
        assert_eq!(moved(&mut follows, 11), 0);
        assert_eq!(moved(&mut follows, 11), 0);
        assert!(follows.wait(WHO, CALL), "it has moved already");
        assert_eq!(taken(&mut follows), [1]);
        assert!(!follows.wait(WHO, CALL));
        assert_eq!([moved(&mut follows, 12), moved(&mut follows, 10), moved(&mut follows, 99)], [1, 0, 0]);
        follows.remove(WHO, CALL, LogId(12));
        assert_eq!(taken(&mut follows), [0]);
    }

    #[test]
    fn nothing_is_left_of_a_session_that_has_gone() {
        let mut follows = Follows::default();
        follows.add(WHO, CALL, LogId(1), 0);
        follows.add(WHO, CallId(8), LogId(1), 0);
        follows.add(SessionId(2), CALL, LogId(1), 0);
        follows.end_all(WHO);
        assert!(!follows.wait(SessionId(2), CALL));
        assert_eq!(moved(&mut follows, 1), 1);
        follows.end(SessionId(2), CALL);
        assert!(follows.by_call.is_empty() && follows.by_id.is_empty() && follows.by_log.is_empty());
    }
}
