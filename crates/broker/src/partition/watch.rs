//! Watches: a session waits for news in several logs and is told once. A watch costs something only when it is made,
//! when one of its logs moves, and when it goes.

use std::collections::BTreeMap;

use model::{LogId, Offset};

use super::Watched;
use crate::id_map::IdMap;
use crate::{CallId, SessionId};

/// All watches, findable by log and by call.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    last: u64,
    /// Where each watch on each log waits. One ordered map: a log without watches costs nothing.
    by_log: BTreeMap<(LogId, u64), Offset>,
    by_call: BTreeMap<(SessionId, CallId), u64>,
    by_id: IdMap<u64, Watch>,
}

#[derive(Debug)]
struct Watch {
    session: SessionId,
    call: CallId,
    logs: Vec<LogId>,
}

impl Watches {
    /// Makes a watch, in place of an older one of the same call.
    pub(crate) fn add(&mut self, session: SessionId, call: CallId, logs: &[Watched]) {
        self.remove(session, call);
        self.last += 1;
        let id = self.last;
        for watched in logs {
            let from = self.by_log.entry((watched.log, id)).or_insert(watched.from);
            *from = watched.from.min(*from);
        }
        self.by_call.insert((session, call), id);
        self.by_id.insert(id, Watch { session, call, logs: logs.iter().map(|w| w.log).collect() });
    }

    /// Forgets the watch of a call.
    pub(crate) fn remove(&mut self, session: SessionId, call: CallId) {
        if let Some(id) = self.by_call.remove(&(session, call)) {
            self.forget(id);
        }
    }

    /// Forgets all watches of a session.
    pub(crate) fn remove_all(&mut self, session: SessionId) {
        let calls = self.by_call.range((session, CallId(0))..=(session, CallId(u64::MAX)));
        let calls: Vec<CallId> = calls.map(|((_, call), _)| *call).collect();
        for call in calls {
            self.remove(session, call);
        }
    }

    /// Whether nobody waits for anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_log.is_empty()
    }

    /// `log` may be read up to `watermark`: forgets and tells those who waited for it.
    pub(crate) fn moved(&mut self, log: LogId, watermark: Offset, mut tell: impl FnMut(SessionId, CallId)) {
        if self.by_log.is_empty() {
            return;
        }
        let on_log = self.by_log.range((log, 0)..=(log, u64::MAX));
        let fired: Vec<u64> = on_log.filter(|(_, from)| watermark > **from).map(|((_, id), _)| *id).collect();
        for id in fired {
            if let Some(watch) = self.forget(id) {
                self.by_call.remove(&(watch.session, watch.call));
                tell(watch.session, watch.call);
            }
        }
    }

    fn forget(&mut self, id: u64) -> Option<Watch> {
        let watch = self.by_id.remove(&id)?;
        for log in &watch.logs {
            self.by_log.remove(&(*log, id));
        }
        Some(watch)
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.by_id.len(), self.by_log.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(log: u64, from: u64) -> Watched {
        Watched { log: LogId(log), from: Offset(from) }
    }

    fn moved(watches: &mut Watches, log: u64, to: u64) -> Vec<(u64, u64)> {
        let mut told = Vec::new();
        watches.moved(LogId(log), Offset(to), |session, call| told.push((session.0, call.0)));
        told
    }

    #[test]
    fn a_watch_on_several_logs_fires_once_and_leaves_nothing_behind() {
        let mut watches = Watches::default();
        watches.add(SessionId(1), CallId(7), &[on(1, 10), on(2, 20), on(2, 25)]);
        watches.add(SessionId(2), CallId(8), &[on(2, 30)]);
        assert_eq!(moved(&mut watches, 1, 10), [], "the offset itself is not there yet");
        assert_eq!(moved(&mut watches, 2, 21), [(1, 7)]);
        assert_eq!(moved(&mut watches, 1, 11), []);
        assert_eq!(moved(&mut watches, 2, 40), [(2, 8)]);
        assert_eq!(watches.counts(), (0, 0));
    }

    #[test]
    fn a_closed_session_is_never_told() {
        let mut watches = Watches::default();
        watches.add(SessionId(1), CallId(1), &[on(1, 0)]);
        watches.add(SessionId(1), CallId(2), &[on(1, 0), on(3, 0)]);
        watches.add(SessionId(2), CallId(1), &[on(1, 0)]);
        watches.remove_all(SessionId(1));
        assert_eq!(moved(&mut watches, 1, 5), [(2, 1)]);
        assert_eq!(watches.counts(), (0, 0));
    }
}
