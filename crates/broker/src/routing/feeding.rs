//! Feeding: what a topic has for the queues bound to it is read, converted and appended to them; the move of the
//! feed's position is in the same batch. So a message reaches each queue once, crashes included.

use std::time::Duration;

use model::{Header, LogId, Marks, Message, Name, Offset, Stamp, Wall};
use storage::{Append, Batch, Chunk, Owner, Read, ReadRequest, StateChange, StorageError, SyncPolicy, Target};

use super::exchanges::Routing;
use super::feed::Feed;
use super::no_headers;
use super::publish::EPOCH;
use super::table::{Dest, Opened};
use super::together::Ends;
use crate::core::Core;
use crate::queue::Queues;
use crate::{BrokerError, state};

/// Bytes read of one log, and about as many written, before others have their turn.
const FEED_BYTES: usize = 256 << 10;

/// What could not be stored is tried again after so long.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What one step puts into queues.
#[derive(Default)]
struct Fed {
    units: Vec<u8>,
    items: Vec<Item>,
    ends: Ends,
    /// Everything before is looked at.
    next: u64,
}

struct Item {
    targets: Vec<Target>,
    format: model::FormatTag,
    unit: std::ops::Range<usize>,
    time: Wall,
    marks: Marks,
}

/// How far a step came.
enum Step {
    /// There may be more.
    More,
    /// Not now.
    Done,
}

impl Queues {
    /// Feeds what topics have for the queues bound to them; a bounded piece of each.
    pub(crate) fn feed(&mut self, core: &mut Core) {
        if self.feeds.is_idle() || self.feeds.again_at.is_some_and(|at| at > core.now.mono) {
            return;
        }
        self.feeds.again_at = None;
        for (number, at) in std::mem::take(&mut self.feeds.ready) {
            let Some(mut feed) = self.feeds.by_number.remove(&number) else { continue };
            let step = self.feed_lane(core, &mut feed, at);
            let topic = feed.topic.clone();
            self.feeds.by_number.insert(number, feed);
            match step {
                Ok(Step::Done) => {}
                Ok(Step::More) => self.feeds.ready.push((number, at)),
                Err(BrokerError::Storage(StorageError::Closed(_))) => {} // said once, by whoever noticed
                Err(error) => {
                    tracing::warn!(%topic, %error, "the queues bound to a topic cannot be fed now");
                    self.feeds.again_at = Some(core.now.mono.plus(AGAIN_AFTER));
                    self.feeds.ready.push((number, at));
                }
            }
        }
    }

    /// When [`Queues::feed`] has something to do.
    pub(crate) fn feed_deadline(&self) -> Option<model::Mono> {
        (!self.feeds.is_idle()).then(|| self.feeds.again_at.unwrap_or_default())
    }

    fn feed_lane(&mut self, core: &mut Core, feed: &mut Feed, at: usize) -> Result<Step, BrokerError> {
        let is_stored = feed.is_stored();
        let Some(lane) = feed.lanes.get_mut(at).filter(|lane| lane.is_ready()) else { return Ok(Step::Done) };
        let (log, from, until) = (lane.log, Offset(lane.next), Offset(lane.end));
        let chunks = match core.storage.read(&ReadRequest { log, from, until, bytes_max: FEED_BYTES }) {
            Ok(Read::Ready(chunks)) => chunks,
            Ok(Read::Pending(read)) => {
                lane.waits = Some(read);
                return Ok(Step::Done);
            }
            Err(StorageError::OutOfRange { start, .. }) if start > from => {
                lane.next = start.0;
                return Ok(Step::More);
            }
            Err(StorageError::Damaged { file, at }) => {
                tracing::error!(%log, offset = %from, file, at, "a damaged message is not fed");
                lane.next += 1;
                return Ok(Step::More);
            }
            Err(error) => return Err(error.into()),
        };
        let mut fed = Fed { next: from.0, ..Fed::default() };
        for chunk in &chunks {
            if !self.feed_chunk(core, feed, (at, until), chunk, &mut fed)? {
                break;
            }
        }
        if fed.next == from.0 {
            return Ok(Step::Done); // a compacted tail: what comes later shows that it is a gap
        }
        for item in &fed.items {
            self.expect(core, &item.targets, &item.marks);
        }
        commit(core, &fed, is_stored.then_some(log))?;
        for item in &fed.items {
            self.note(&item.targets, &item.marks);
        }
        if let Some(lane) = feed.lanes.get_mut(at) {
            lane.next = fed.next;
            return Ok(if lane.is_ready() { Step::More } else { Step::Done });
        }
        Ok(Step::Done)
    }

    /// Feeds from one chunk; false when the step has enough.
    fn feed_chunk(
        &mut self,
        core: &Core,
        feed: &mut Feed,
        (at, until): (usize, Offset),
        chunk: &Chunk,
        fed: &mut Fed,
    ) -> Result<bool, BrokerError> {
        let formats = core.formats.clone();
        let format = formats.get(chunk.format)?;
        let mut messages = Vec::new();
        let opened = format.open(&chunk.units, chunk.first, &mut |offset, message| {
            if offset.0 >= fed.next && offset < until {
                messages.push((offset, message));
            }
            std::ops::ControlFlow::Continue(())
        });
        if let Err(error) = opened {
            tracing::error!(first = %chunk.first, last = %chunk.last, %error, "unreadable messages are not fed");
        }
        for (offset, message) in messages {
            let mut found = self.find_fed(feed, (at, offset.0), &message);
            // Two queues over one topic would feed each other for ever: a shared topic is never fed.
            found.retain(|id| self.by_id.get(id).is_some_and(|queue| queue.own_log().is_some()));
            if !found.is_empty() {
                let time = message.created.unwrap_or(chunk.time_max);
                let marks = Marks::of(&message);
                let message = Message { exchange: message.exchange.or(Some(feed.topic.clone())), ..message };
                let from = fed.units.len();
                format.build(&[(Offset::ZERO, message)], &mut fed.units)?;
                let mut targets = self.places(core, &found);
                fed.ends.place(&mut targets);
                fed.items.push(Item { targets, format: chunk.format, unit: from..fed.units.len(), time, marks });
            }
            fed.next = offset.0 + 1;
            if fed.units.len() >= FEED_BYTES {
                return Ok(false);
            }
        }
        fed.next = fed.next.max(chunk.last.0 + 1).min(until.0);
        Ok(true)
    }

    /// The queues bound to the topic that a message goes to, each once.
    fn find_fed(&mut self, feed: &mut Feed, place: (usize, u64), message: &Message) -> Vec<u64> {
        let key = message.key.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let headers = || message.headers.clone();
        let headers: &dyn Fn() -> Vec<Header> = if message.headers.is_empty() { &no_headers } else { &headers };
        let (mut queues, mut exchanges) = (Vec::new(), Vec::new());
        feed.find(place, &key, &mut Opened::new(headers), |dest| match dest {
            Dest::Queue(id) => queues.push(id),
            Dest::Exchange(id) => exchanges.push(id),
        });
        for id in exchanges {
            let routing = Routing { tenant: &feed.tenant, key: &key, more_keys: &[], headers, unit: None };
            self.exchanges.route_by(id, &routing, &mut queues);
        }
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    /// Where a message goes in the logs of queues.
    fn places(&mut self, core: &Core, queues: &[u64]) -> Vec<Target> {
        let logs = queues.iter().filter_map(|id| self.by_id.get(id)?.own_log());
        logs.filter_map(|log| Some(Target { log, first: core.partitions.next_offset(log)? })).collect()
    }

    /// A topic is gone: it feeds nobody any more.
    pub(crate) fn feed_deleted(&mut self, core: &mut Core, tenant: &str, topic: &str) {
        let Some(feed) = self.feeds.remove(tenant, topic) else { return };
        let dropped = feed.lanes.iter().map(|lane| (state::feed_of(lane.log), StateChange::Drop));
        let dropped: Vec<(Owner, StateChange<'_>)> = dropped.collect();
        if feed.is_stored()
            && let Err(error) = core.commit(&Batch { state: &dropped, ..Batch::default() }, SyncPolicy::None)
        {
            // No harm: a position without a binding is forgotten at the next start.
            tracing::warn!(%error, "the position of a feed could not be dropped now");
        }
    }

    /// What was bound to `dest` by topics is not any more.
    pub(super) fn unbind_fed(&mut self, core: &mut Core, tenant: &str, dest: Dest) {
        let idle: Vec<Name> = self.feeds.unbind_all(tenant, dest);
        for topic in idle {
            self.feed_deleted(core, tenant, &topic);
        }
    }
}

fn commit(core: &mut Core, fed: &Fed, position_of: Option<LogId>) -> Result<(), BrokerError> {
    let formats = core.formats.clone();
    let mut appends = Vec::with_capacity(fed.items.len());
    for item in &fed.items {
        let base = item.targets.first().map_or_else(Default::default, |target| target.first);
        appends.push(Append {
            targets: &item.targets,
            format: formats.get(item.format)?,
            units: fed.units.get(item.unit.clone()).unwrap_or_default(),
            last_delta: 0,
            count: 1,
            time_max: item.time,
            stamp: Stamp { base, epoch: EPOCH, at: core.now.wall },
        });
    }
    let next = fed.next.to_be_bytes();
    let position = position_of.map(|log| (state::feed_of(log), StateChange::Snapshot(&next)));
    let batch = Batch { appends: &appends, state: position.as_slice(), ..Batch::default() };
    core.commit(&batch, SyncPolicy::None)?;
    Ok(())
}
