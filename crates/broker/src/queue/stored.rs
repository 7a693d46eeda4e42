//! What of a queue is stored: the state of its cursors as records, and how far its own logs may be trimmed.

use std::collections::BTreeMap;

use model::{LogId, Offset};

use super::DeliveryKey;
use super::queue::Queue;
use super::ranges::RangeSet;
use super::record;
use super::track::Track;
use crate::SessionId;
use crate::dead_letter::Dead;

/// What kind of record was put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// What has changed.
    Delta,
    /// All of it.
    Snapshot,
}

impl Queue {
    /// Whether its cursors are stored: those of a stream only follow its logs.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_stored() && !self.is_stream()
    }

    /// Puts what has changed into `out`, as a delta or, where that is as short, as a snapshot, after which nobody has
    /// to remember what was before. `None` when nothing has changed.
    pub(super) fn put_news(&self, out: &mut Vec<u8>) -> Option<Form> {
        match &*self.tracks {
            [track] if track.cursor.is_small() => {
                track.cursor.has_news().then(|| self.put_snapshot(out))?;
                Some(Form::Snapshot)
            }
            _ => self.put_delta(out).then_some(Form::Delta),
        }
    }

    fn put_delta(&self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        for track in self.tracks.iter().filter(|track| track.cursor.has_news()) {
            if out.len() == before {
                record::begin(out);
            }
            record::put_delta(&track.cursor, out);
        }
        out.len() > before
    }

    /// Puts all of it into `out`.
    pub(super) fn put_snapshot(&self, out: &mut Vec<u8>) {
        record::begin(out);
        for track in &self.tracks {
            record::put_snapshot(&track.cursor, out);
        }
    }

    /// How far its own logs can be trimmed, where that is further than before.
    pub(super) fn trims(&self) -> impl Iterator<Item = (LogId, Offset)> + '_ {
        let is_own = self.info.topic().is_none();
        let further = move |track: &&Track| is_own && track.cursor.head() > track.trimmed;
        self.tracks.iter().filter(further).map(|track| (track.cursor.log, Offset(track.cursor.head())))
    }

    /// Puts that `done` are settled, and nothing else, into `out`.
    pub(crate) fn put_settled(&self, done: impl Iterator<Item = (LogId, u64)>, out: &mut Vec<u8>) {
        let mut by_log = BTreeMap::<LogId, RangeSet>::new();
        for (log, offset) in done {
            by_log.entry(log).or_default().insert(offset, offset + 1);
        }
        for track in &self.tracks {
            let Some(dead) = by_log.get(&track.cursor.log) else { continue };
            if out.is_empty() {
                record::begin(out);
            }
            record::put_dead(&track.cursor, dead, out);
        }
    }

    /// What [`Queue::put_settled`] said is committed, together with the letters.
    pub(crate) fn buried(&mut self, done: &[Dead]) {
        for (log, offset) in done.iter().filter_map(|dead| dead.place) {
            if let Some(track) = self.track(log) {
                track.cursor.dead(offset);
            }
        }
    }

    /// What [`Queue::put_delta`] and [`Queue::trims`] said is committed.
    pub(super) fn recorded(&mut self) {
        for track in &mut self.tracks {
            track.cursor.recorded();
            track.trimmed = track.cursor.head();
        }
    }

    /// Puts that what `session` holds of `keys` is settled, and nothing else, into `out`.
    pub(crate) fn put_acks(&self, session: SessionId, keys: &[DeliveryKey], out: &mut Vec<u8>) {
        let is_held = |key: &&DeliveryKey| {
            let at = self.tracks.binary_search_by_key(&key.log, |track| track.cursor.log);
            let track = at.ok().and_then(|at| self.tracks.get(at));
            track.is_some_and(|track| track.cursor.attempts_of(session, key.offset.0).is_some())
        };
        self.put_settled(keys.iter().filter(is_held).map(|key| (key.log, key.offset.0)), out);
    }
}
