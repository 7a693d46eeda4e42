//! One queue: its cursors, its consumers, and the way from the one to the other.
//!
//! It knows nothing of the catalog, of routing or of other queues; `queues.rs` owns it.

use std::collections::{BTreeMap, BTreeSet};

use model::{FormatTag, LogId, Mono, Name, Now, Offset, Reason};
use storage::{ReadId, StorageError};

use super::consumers::Consumers;
use super::rare::RareList;
use super::rules::{Rules, pause};
use super::stream::Readers;
use super::sums::Weight;
use super::tally::Tallied;
use super::track::{Head, Looked, Track};
use super::tracks::Tracks;
use super::window::Ahead;
use super::{Body, Delivery, DeliveryKey, QueueInfo, QueueKind, QueueSpec, Tell};
use crate::core::Core;
use crate::dead_letter::Dead;
use crate::{CallId, Event, SessionId};

/// Bytes handed out in one turn before others have theirs.
const PUMP_BYTES_MAX: usize = 1 << 20;

/// Messages that end at one look: where no letters are written of them nothing else bounds it.
const ENDED_MAX: usize = 4096;

/// A queue.
pub(crate) struct Queue {
    pub(crate) id: u64,
    pub(crate) tenant: Name,
    pub(crate) info: Facts,
    /// Its cursors, ascending by log: one, or one for each priority, or one for each partition of the topic it shares.
    pub(super) tracks: Tracks,
    /// The track looked into next.
    track_at: usize,
    /// Only queues that need them have any.
    pub(crate) rules: Option<Box<Rules>>,
    pub(super) consumers: Consumers,
    /// Calls of `get` that wait for the disk.
    pub(super) getters: RareList<(SessionId, CallId)>,
    /// Sent to consumers that need not settle, with the number of the event; settled once that has left.
    pub(super) unconfirmed: RareList<(u64, SessionId, DeliveryKey)>,
    /// It stands in the list of queues with something to do.
    pub(super) marked: bool,
    /// … and that may be to hand out messages.
    pub(super) wants_pump: bool,
    /// When something last happened to it, or it was declared or opened, in seconds since 1970.
    pub(super) moved_s: u32,
    /// What has passed through it.
    pub(crate) tally: Tallied,
    /// Counts messages that came without a key of their own, for partitions in turn.
    pub(super) rounds: usize,
}

/// What a queue was declared with.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) name: Name,
    pub(super) durable: bool,
    pub(super) owner: Option<SessionId>,
    pub(super) auto_delete: bool,
    /// Of one over a topic.
    pub(super) shares: Option<Box<Shares>>,
    /// Most have none.
    arguments: Option<Box<Arguments>>,
}

/// The arguments that a queue was declared with, and the unusual ones among their types.
#[derive(Clone, Debug, Default)]
struct Arguments {
    values: BTreeMap<String, serde_json::Value>,
    types: BTreeMap<String, String>,
}

impl Arguments {
    fn of(spec: &QueueSpec) -> Option<Box<Arguments>> {
        let all = || Box::new(Arguments { values: spec.arguments.clone(), types: spec.argument_types.clone() });
        (!spec.arguments.is_empty()).then(all)
    }
}

/// The topic that a queue runs over.
#[derive(Debug)]
pub(super) struct Shares {
    topic: Name,
    /// The logs of its partitions, by index.
    pub(super) partitions: Vec<LogId>,
    /// That topic was made with it and goes with it.
    owned: bool,
}

impl Facts {
    /// The topic it shares, if any.
    pub(super) fn topic(&self) -> Option<&Name> {
        self.shares.as_ref().map(|shares| &shares.topic)
    }

    /// The logs of that topic's partitions.
    pub(super) fn partitions(&self) -> &[LogId] {
        self.shares.as_ref().map_or(&[], |shares| &shares.partitions)
    }

    /// Whether that topic was made with it and goes with it.
    pub(super) fn owns_topic(&self) -> bool {
        self.shares.as_ref().is_some_and(|shares| shares.owned)
    }

    /// That topic was made with it, or not.
    pub(super) fn own_topic(&mut self, owned: bool) {
        if let Some(shares) = &mut self.shares {
            shares.owned = owned;
        }
    }
}

impl Queue {
    /// A queue with `tracks`, one for each partition of its topic in their order, or those of its own logs.
    pub(super) fn new(id: u64, spec: &QueueSpec, owner: Option<SessionId>, mut tracks: Vec<Track>, now: Now) -> Queue {
        let logs = tracks.iter().map(|track| track.cursor.log);
        let partitions = logs.collect();
        let owned = false;
        let shares = spec.topic.clone().map(|topic| Box::new(Shares { topic, partitions, owned }));
        tracks.sort_by_key(|track| track.cursor.log);
        let is_mixed = tracks.iter().any(|track| track.cursor.sums().is_some());
        let needs_rules = is_mixed || spec.options != Default::default();
        let mut rules = needs_rules.then(|| Box::new(Rules::new(spec.options.clone(), now)));
        if let Some(rules) = &mut rules {
            rules.mixed = is_mixed;
        }
        Queue {
            id,
            tenant: spec.tenant.clone(),
            info: Facts {
                name: spec.name.clone(),
                durable: spec.durable,
                owner,
                auto_delete: spec.auto_delete,
                shares,
                arguments: Arguments::of(spec),
            },
            tracks: tracks.into(),
            track_at: 0,
            rules,
            consumers: Consumers::new(spec.options.single_active),
            getters: RareList::default(),
            unconfirmed: RareList::default(),
            marked: false,
            wants_pump: false,
            moved_s: seconds(now),
            tally: Tallied::default(),
            rounds: 0,
        }
    }

    /// Whether it and its cursors survive a restart: durable, and not one connection's own.
    pub(crate) fn is_stored(&self) -> bool {
        self.info.durable && self.info.owner.is_none()
    }

    /// The first log that is its own.
    pub(crate) fn own_log(&self) -> Option<LogId> {
        if self.info.topic().is_some() { None } else { self.tracks.first().map(|track| track.cursor.log) }
    }

    /// The logs that are its own.
    pub(super) fn own_logs(&self) -> impl Iterator<Item = LogId> + '_ {
        let is_own = self.info.topic().is_none();
        self.tracks.iter().filter(move |_| is_own).map(|track| track.cursor.log)
    }

    /// What it promises.
    pub(crate) fn kind(&self) -> QueueKind {
        self.rules.as_ref().map_or(QueueKind::Plain, |rules| rules.options.kind)
    }

    pub(super) fn ready(&self) -> u64 {
        self.tracks.iter().map(|track| track.cursor.ready()).sum()
    }

    pub(super) fn unsettled(&self) -> u64 {
        self.tracks.iter().map(|track| track.cursor.unsettled()).sum()
    }

    pub(super) fn describe(&self) -> QueueInfo {
        let Arguments { values: arguments, types: argument_types } =
            self.info.arguments.as_deref().cloned().unwrap_or_default();
        QueueInfo {
            name: self.info.name.clone(),
            durable: self.info.durable,
            exclusive: self.info.owner,
            auto_delete: self.info.auto_delete,
            topic: self.info.topic().cloned(),
            arguments,
            argument_types,
            kind: self.kind(),
            ruling: self.ruling(),
            ready: self.ready(),
            unsettled: self.unsettled(),
            consumers: u32::try_from(self.consumers.count()).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn track(&mut self, log: LogId) -> Option<&mut Track> {
        let at = self.tracks.binary_search_by_key(&log, |track| track.cursor.log).ok()?;
        self.tracks.get_mut(at)
    }

    /// The track to look into at the `step`-th try: the highest priority first, partitions in turn.
    fn pick(&mut self, step: usize) -> usize {
        if self.info.topic().is_none() {
            return self.tracks.len() - 1 - step;
        }
        let at = self.track_at % self.tracks.len();
        self.track_at = at + 1;
        at
    }

    /// Takes the next message. Those that have lived too long die on the way.
    fn next(
        &mut self,
        session: SessionId,
        wanted: FormatTag,
        ahead: &mut Ahead,
        core: &mut Core,
    ) -> Result<Option<Delivery>, Wait> {
        let with_marks = self.rules.as_ref().is_some_and(|rules| rules.needs_marks());
        let (mut pending, mut step, mut ended) = (false, 0, 0);
        while step < self.tracks.len() {
            let at = self.pick(step);
            step += 1;
            let Some(track) = self.tracks.get_mut(at) else { continue };
            let looked = loop {
                if track.cursor.peek().is_none() && track.waits.is_none() {
                    break None;
                }
                match track.head((wanted, with_marks), (self.id, ahead), core) {
                    Head::Message(looked) => match self.rules.as_deref_mut() {
                        Some(rules) if rules.has_lives() && looked.offset < track.fresh => {
                            if !rules.is_dead(&looked.marks, core.now.wall) {
                                break Some(looked);
                            }
                            if rules.is_busy() {
                                return Err(Wait::Pending);
                            }
                            if ended >= ENDED_MAX {
                                return Err(Wait::Enough);
                            }
                            ended += 1;
                            kill(track, rules, looked, Reason::Expired);
                        }
                        _ => break Some(looked),
                    },
                    Head::Empty => break None,
                    Head::Pending => {
                        pending = true;
                        break None;
                    }
                    Head::Failed(error) => return Err(Wait::Failed(error)),
                }
            };
            if let Some(looked) = looked {
                return Ok(self.take(at, session, looked, core.now.mono));
            }
            if pending && self.info.topic().is_none() {
                break; // a lower priority must not go first
            }
        }
        if pending { Err(Wait::Pending) } else { Ok(None) }
    }

    fn take(&mut self, at: usize, session: SessionId, looked: Looked, now: Mono) -> Option<Delivery> {
        let tell = match self.kind() {
            QueueKind::Plain => Tell::Nothing,
            QueueKind::Safe => Tell::Attempts,
            QueueKind::Stream => Tell::Offset,
        };
        let weight = Weight::of(&looked.marks, self.kind());
        let track = self.tracks.get_mut(at)?;
        let taken = track.cursor.take(session, tenths(now), weight)?;
        debug_assert_eq!(taken.offset, looked.offset);
        let offset = Offset(taken.offset);
        let key = DeliveryKey { queue: self.id, log: track.cursor.log, offset };
        let (redelivered, attempts) = (taken.attempts > 0, taken.attempts);
        self.tally.get().redelivered += u64::from(redelivered);
        Some(Delivery { key, redelivered, attempts, tell, format: looked.format, body: looked.body })
    }

    /// A read need not be waited for any more.
    pub(super) fn read_ready(&mut self, read: ReadId) {
        for track in &mut self.tracks {
            track.waits.take_if(|waits| *waits == read);
        }
        let Some(rules) = self.rules.as_deref_mut() else { return };
        for dead in &mut rules.dying {
            dead.waits.take_if(|waits| *waits == read);
        }
        if let Some(readers) = rules.readers.as_deref_mut() {
            readers.read_ready(read);
        }
    }

    /// The track whose lowest ready message is the queue's head.
    fn head_at(&self) -> Option<usize> {
        self.tracks.iter().rposition(|track| track.cursor.peek().is_some())
    }

    /// After all that consumers want was handed out: what is at the head and has lived too long dies, and so does what
    /// is too much. True when it stopped to let others have their turn.
    pub(super) fn tend(&mut self, ahead: &mut Ahead, core: &mut Core) -> bool {
        if self.rules.is_none() || self.is_stream() {
            return false;
        }
        self.tracks.iter_mut().for_each(|track| track.fresh = u64::MAX);
        let more = self.end_lives(ahead, core) || self.drop_excess(ahead, core);
        // While letters cannot be written, asking again would change nothing.
        let is_stuck = self.rules.as_deref().is_some_and(Rules::is_busy);
        if self.getters.is_empty() || is_stuck || self.tracks.iter().any(|track| track.waits.is_some()) {
            return more;
        }
        for (session, call) in self.getters.take() {
            core.events.push(session, Event::GetReady(call));
        }
        more
    }

    fn end_lives(&mut self, ahead: &mut Ahead, core: &mut Core) -> bool {
        let wanted = core.formats.for_dead_letters().map_or(FormatTag(0), |(format, _)| format.tag());
        let mut ended = 0;
        loop {
            let head = self.head_at();
            let Some(rules) = self.rules.as_deref_mut().filter(|rules| rules.has_lives()) else { return false };
            let Some(track) = head.and_then(|at| self.tracks.get_mut(at)) else {
                rules.life = None;
                return false;
            };
            let place = track.cursor.peek().map(|offset| (track.cursor.log, offset));
            let known = rules.life.filter(|(log, offset, _)| place == Some((*log, *offset)));
            if let Some((_, _, end)) = known
                && end.is_none_or(|end| end > core.now.wall)
            {
                return false;
            }
            if rules.is_busy() || ended >= ENDED_MAX {
                return true;
            }
            match track.head((wanted, true), (self.id, ahead), core) {
                // What does not say when it was published lives from when it came to the head.
                Head::Message(looked) if known.is_some() || rules.is_dead(&looked.marks, core.now.wall) => {
                    ended += 1;
                    kill(track, rules, looked, Reason::Expired);
                }
                Head::Message(looked) => {
                    let end = rules.end_of(&looked.marks, core.now.wall);
                    rules.life = Some((track.cursor.log, looked.offset, end));
                }
                Head::Empty => {}
                Head::Pending | Head::Failed(_) => return false,
            }
        }
    }

    fn drop_excess(&mut self, ahead: &mut Ahead, core: &mut Core) -> bool {
        let wanted = core.formats.for_dead_letters().map_or(FormatTag(0), |(format, _)| format.tag());
        let mut ended = 0;
        loop {
            let (ready, bytes, head) = (self.ready(), self.ready_bytes(), self.head_at());
            let Some(rules) = self.rules.as_deref_mut().filter(|rules| !rules.refuses()) else { return false };
            if !rules.is_over(ready, bytes) {
                return false;
            }
            let Some(track) = head.and_then(|at| self.tracks.get_mut(at)) else { return false };
            if rules.options.dead_letters.is_none() && track.cursor.sums().is_none() {
                let excess = rules.options.length_max.map_or(0, |max| ready - max);
                track.cursor.drop_ready(excess);
                continue;
            }
            if rules.is_busy() || ended >= ENDED_MAX {
                return true;
            }
            ended += 1;
            match track.head((wanted, true), (self.id, ahead), core) {
                Head::Message(looked) => kill(track, rules, looked, Reason::MaxLength),
                Head::Empty => {}
                Head::Pending | Head::Failed(_) => return false,
            }
        }
    }

    /// Whether it waits until letters can be written: to look again changes nothing.
    pub(super) fn is_stuck(&self, now: Mono) -> bool {
        self.rules.as_deref().is_some_and(|rules| rules.is_busy() && !rules.can_bury(now))
    }

    fn ready_bytes(&self) -> u64 {
        self.tracks.iter().map(|track| track.cursor.ready_bytes()).sum()
    }

    /// Hands ready messages to consumers with credit. True when it stopped to let others have their turn.
    pub(super) fn pump(&mut self, ahead: &mut Ahead, core: &mut Core) -> bool {
        if self.is_stream() {
            return self.pump_stream(ahead, core);
        }
        let mut bytes_left = PUMP_BYTES_MAX;
        let more = loop {
            let Some(consumer) = self.consumers.next_with_credit() else { break false };
            if bytes_left == 0 {
                break true;
            }
            let (session, wanted, auto_settle) = (consumer.session, consumer.wanted, consumer.auto_settle);
            match self.next(session, wanted, ahead, core) {
                Ok(Some(delivery)) => {
                    bytes_left = bytes_left.saturating_sub(delivery.body.bytes_about());
                    if auto_settle {
                        self.unconfirmed.push((u64::MAX, session, delivery.key));
                    }
                    let tally = self.tally.get();
                    *if auto_settle { &mut tally.delivered_settled } else { &mut tally.delivered } += 1;
                    self.consumers.served(delivery, &mut core.events);
                }
                Ok(None) | Err(Wait::Pending) => break false,
                Err(Wait::Enough) => break true,
                Err(Wait::Failed(error)) => {
                    tracing::error!(queue = %self.info.name, %error, "a queue cannot be read");
                    break false;
                }
            }
        };
        for (session, consumer, batch) in self.consumers.batches() {
            core.events.push(session, Event::Deliver(consumer, batch));
        }
        let next = core.events.next_number();
        for (number, ..) in self.unconfirmed.latest_mut().take_while(|(number, ..)| *number == u64::MAX) {
            *number = next;
        }
        more
    }

    /// Takes one message for a `get`.
    pub(super) fn get(
        &mut self,
        (session, wanted, auto_settle): (SessionId, FormatTag, bool),
        ahead: &mut Ahead,
        core: &mut Core,
    ) -> Result<Option<Delivery>, Wait> {
        // What was given back in this turn may have been one too many; and more than die at once.
        if self.drop_excess(ahead, core) {
            return Err(Wait::Pending);
        }
        let delivery = self.next(session, wanted, ahead, core)?;
        let tally = self.tally.get();
        match &delivery {
            None => tally.got_nothing += 1,
            Some(delivery) if auto_settle => {
                tally.got_settled += 1;
                self.settle_silently(session, delivery.key);
            }
            Some(_) => tally.got += 1,
        }
        Ok(delivery)
    }

    /// Somebody uses it.
    pub(super) fn used(&mut self, now: Now) {
        if let Some(rules) = &mut self.rules {
            rules.used_at = now.mono;
        }
    }

    /// Tells sessions that hold a message for longer than they may.
    pub(super) fn tell_late(&mut self, core: &mut Core, now: Now) {
        let Some(rules) = self.rules.as_deref_mut() else { return };
        let Some(limit) = rules.options.settle_ms_max.filter(|_| rules.late_at.is_some_and(|at| at <= now.mono)) else {
            return;
        };
        rules.late_at = Some(now.mono.plus(pause(limit)));
        let before = tenths(now.mono).saturating_sub(u32::try_from(limit / 100).unwrap_or(u32::MAX));
        for track in &self.tracks {
            for (session, offset) in track.cursor.held_since(before) {
                let key = DeliveryKey { queue: self.id, log: track.cursor.log, offset: Offset(offset) };
                core.events.push(session, Event::SettleLate(key, limit));
            }
        }
    }

    /// Drops all that is ready; answers how many.
    pub(super) fn purge(&mut self) -> u64 {
        self.tracks.iter_mut().map(|track| track.cursor.purge()).sum()
    }

    /// What a session holds is ready again.
    pub(super) fn session_lost(&mut self, session: SessionId) {
        self.getters.retain(|(getter, _)| *getter != session);
        // Its events were taken out before: whatever of it is left has reached it.
        let (its, others): (Vec<_>, Vec<_>) = self.unconfirmed.take().partition(|(_, whose, _)| *whose == session);
        others.into_iter().for_each(|other| self.unconfirmed.push(other));
        for (_, _, key) in its {
            self.settle_silently(session, key);
        }
        let held = |track: &Track| (track.cursor.log, track.cursor.held_by(session));
        for (log, offsets) in self.tracks.iter().map(held).collect::<Vec<_>>() {
            for offset in offsets {
                self.give_back(session, log, offset);
            }
        }
    }

    /// The sessions that hold messages, wait for one, or own it.
    pub(super) fn holders(&self) -> BTreeSet<SessionId> {
        let holding = self.tracks.iter().flat_map(|track| track.cursor.holders());
        holding.chain(self.getters.iter().map(|(session, _)| *session)).chain(self.info.owner).collect()
    }

    /// Whether there is something to record or to settle at the end of the next turn.
    pub(super) fn has_news(&self) -> bool {
        let is_dying = self.rules.as_ref().is_some_and(|rules| !rules.dying.is_empty());
        is_dying || !self.unconfirmed.is_empty() || self.tracks.iter().any(|track| track.cursor.has_news())
    }

    /// Bytes read ahead.
    pub(super) fn window_bytes(&self) -> usize {
        let readers = self.rules.as_deref().and_then(|rules| rules.readers.as_deref());
        let own = self.tracks.iter().map(Track::window_bytes).sum::<usize>();
        own + readers.map_or(0, Readers::window_bytes)
    }

    /// Gives the memory of the reading ahead back; answers how much.
    pub(super) fn close_windows(&mut self) -> usize {
        let bytes = self.window_bytes();
        self.tracks.iter_mut().for_each(Track::close_window);
        if let Some(readers) = self.rules.as_deref_mut().and_then(|rules| rules.readers.as_deref_mut()) {
            readers.close_windows();
        }
        bytes
    }
}

/// The lowest ready message of `track`, just looked at, dies.
fn kill(track: &mut Track, rules: &mut Rules, looked: Looked, reason: Reason) {
    let Some(offset) = track.cursor.pull(Weight::of(&looked.marks, rules.options.kind)) else { return };
    debug_assert_eq!(offset, looked.offset);
    if rules.options.dead_letters.is_none() {
        track.cursor.dead(offset);
        return;
    }
    let mut dead = Dead::at(track.cursor.log, offset, reason);
    if let Body::Unit(unit) = looked.body {
        dead.unit = Some((looked.format, unit));
    }
    rules.dying.push(dead);
}

/// A moment in tenths of seconds.
pub(super) fn tenths(moment: Mono) -> u32 {
    u32::try_from(moment.0 / 100_000_000).unwrap_or(u32::MAX)
}

/// Why there is no message now.
pub(super) enum Wait {
    /// The disk must be waited for.
    Pending,
    /// Enough was looked at for one turn.
    Enough,
    /// The disk has failed.
    Failed(StorageError),
}

impl super::Body {
    /// About how much memory it takes.
    pub(super) fn bytes_about(&self) -> usize {
        const OVERHEAD: usize = 128;
        OVERHEAD
            + match self {
                super::Body::Unit(bytes) => bytes.len(),
                super::Body::Neutral(message) => message.value.as_ref().map_or(0, bytes::Bytes::len),
            }
    }
}

/// Of the wall clock.
pub(super) fn seconds(now: Now) -> u32 {
    u32::try_from(now.wall.0 / 1000).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_queue_is_small() {
        // The promise is 1 KiB with its names, its log and its share of the tables.
        assert!(size_of::<Queue>() <= 424, "{} {}", size_of::<Queue>(), size_of::<Track>());
    }
}
