//! Following: a session follows many logs for long, and learns which of them have moved since it last asked. A watch
//! costs as much as it has logs each time that it is made; this costs only what moves.

use std::collections::BTreeMap;

use model::LogId;

use crate::id_map::IdMap;
use crate::{CallId, SessionId};

/// All followers. Which follow a log is kept with the log, where it is at hand when the log moves.
#[derive(Debug, Default)]
pub(crate) struct Follows {
    last: u64,
    by_call: BTreeMap<(SessionId, CallId), u64>,
    by_id: IdMap<u64, Follower>,
    /// Those who waited and whose logs have moved.
    woken: Vec<(SessionId, CallId)>,
}

#[derive(Debug)]
struct Follower {
    session: SessionId,
    call: CallId,
    /// What it follows, to end it.
    logs: IdMap<LogId, ()>,
    /// Counts how often it has asked.
    round: u64,
    /// Marks of the logs that have moved in this round, each once.
    moved: Vec<u32>,
    /// It is to be told of the next movement.
    waits: bool,
}

/// A follower, as a log has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Following {
    follower: u64,
    /// What the follower calls the log.
    mark: u32,
    /// The round in which it was last noted that the log has moved.
    noted: u64,
}

impl Follows {
    /// Begins to follow `log`, whose followers are `of_log`; what moves it is told as `mark`.
    pub(crate) fn add(&mut self, who: (SessionId, CallId), log: LogId, mark: u32, of_log: &mut Vec<Following>) {
        let (session, call) = who;
        let id = *self.by_call.entry(who).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        let new = || Follower { session, call, logs: IdMap::default(), round: 1, moved: Vec::new(), waits: false };
        self.by_id.entry(id).or_insert_with(new).logs.insert(log, ());
        of_log.retain(|following| following.follower != id);
        of_log.push(Following { follower: id, mark, noted: 0 });
    }

    /// Follows `log` no more.
    pub(crate) fn remove(&mut self, who: (SessionId, CallId), log: LogId, of_log: &mut Vec<Following>) {
        let Some(id) = self.by_call.get(&who) else { return };
        if let Some(follower) = self.by_id.get_mut(id) {
            follower.logs.remove(&log);
        }
        of_log.retain(|following| following.follower != *id);
    }

    /// Follows nothing more by this call. Answers the logs that must forget it.
    pub(crate) fn end(&mut self, who: (SessionId, CallId)) -> (u64, impl Iterator<Item = LogId> + use<>) {
        let id = self.by_call.remove(&who).unwrap_or_default();
        let follower = self.by_id.remove(&id);
        (id, follower.into_iter().flat_map(|follower| follower.logs.into_keys()))
    }

    /// The calls by which a session follows.
    pub(crate) fn calls(&self, session: SessionId) -> Vec<(SessionId, CallId)> {
        let calls = self.by_call.range((session, CallId(0))..=(session, CallId(u64::MAX)));
        calls.map(|(who, _)| *who).collect()
    }

    /// A log has moved: noted for those who follow it.
    pub(crate) fn moved(&mut self, of_log: &mut [Following]) {
        for following in of_log {
            let Some(follower) = self.by_id.get_mut(&following.follower) else { continue };
            if following.noted != follower.round {
                following.noted = follower.round;
                follower.moved.push(following.mark);
            }
            if std::mem::take(&mut follower.waits) {
                self.woken.push((follower.session, follower.call));
            }
        }
    }

    /// The next who waited and is to be told.
    pub(crate) fn next_woken(&mut self) -> Option<(SessionId, CallId)> {
        self.woken.pop()
    }

    /// Appends to `marks` what has moved since it was last asked. What is followed no more may be among it.
    pub(crate) fn take_moved(&mut self, who: (SessionId, CallId), marks: &mut Vec<u32>) {
        let Some(follower) = self.by_call.get(&who).and_then(|id| self.by_id.get_mut(id)) else { return };
        follower.round += 1;
        marks.append(&mut follower.moved);
    }

    /// Tells it of the next movement; answers true instead when there has been one already.
    pub(crate) fn wait(&mut self, who: (SessionId, CallId)) -> bool {
        let Some(follower) = self.by_call.get(&who).and_then(|id| self.by_id.get_mut(id)) else {
            return false;
        };
        follower.waits = follower.moved.is_empty();
        !follower.waits
    }
}

impl Following {
    /// Whether it is that follower.
    pub(crate) fn is(&self, follower: u64) -> bool {
        self.follower == follower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: (SessionId, CallId) = (SessionId(1), CallId(7));

    fn moved(follows: &mut Follows, of_log: &mut [Following]) -> usize {
        follows.moved(of_log);
        std::iter::from_fn(|| follows.next_woken()).count()
    }

    fn taken(follows: &mut Follows) -> Vec<u32> {
        let mut marks = Vec::new();
        follows.take_moved(WHO, &mut marks);
        marks
    }

    #[test]
    fn what_moved_is_told_once_and_only_who_waits_is_woken() {
        let mut follows = Follows::default();
        let mut logs = [Vec::new(), Vec::new(), Vec::new()];
        for (mark, of_log) in logs.iter_mut().enumerate() {
            follows.add(WHO, LogId(mark as u64), mark as u32, of_log);
        }
        assert_eq!(moved(&mut follows, &mut logs[1]), 0);
        assert_eq!(moved(&mut follows, &mut logs[1]), 0);
        assert!(follows.wait(WHO), "it has moved already");
        assert_eq!(taken(&mut follows), [1]);
        assert!(!follows.wait(WHO));
        assert_eq!([2, 0, 1].map(|at| moved(&mut follows, &mut logs[at])), [1, 0, 0]);
        assert_eq!(taken(&mut follows), [2, 0, 1]);
        follows.remove(WHO, LogId(2), &mut logs[2]);
        assert_eq!(moved(&mut follows, &mut logs[2]), 0);
        assert!(taken(&mut follows).is_empty());
    }

    #[test]
    fn nothing_is_left_of_who_has_ended() {
        let mut follows = Follows::default();
        let mut of_log = Vec::new();
        let others = (SessionId(2), CallId(7));
        follows.add(WHO, LogId(1), 0, &mut of_log);
        follows.add(others, LogId(1), 0, &mut of_log);
        assert_eq!(follows.calls(WHO.0), [WHO]);
        let (id, logs) = follows.end(WHO);
        assert_eq!(logs.collect::<Vec<_>>(), [LogId(1)]);
        of_log.retain(|following| !following.is(id));
        assert!(!follows.wait(others));
        assert_eq!(moved(&mut follows, &mut of_log), 1);
        follows.end(others).1.for_each(drop);
        assert!(follows.by_call.is_empty() && follows.by_id.is_empty());
    }
}
