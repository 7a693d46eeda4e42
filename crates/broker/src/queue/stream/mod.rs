//! Streams: queues whose messages stay when they are read. Each consumer has a place of its own in the logs under it;
//! what it settles only gives it credit, and nothing of it is stored. The queue's own cursors never give anything out:
//! they say where each log begins and ends.
//!
//! Making streams is in `make.rs`.

mod make;
mod types;

pub use types::{ReadFilter, ReadFrom, ReadSpec};

use std::collections::HashSet;
use std::ops::ControlFlow;

use bytes::Bytes;
use model::{FormatTag, Formats, HeaderValue, LogId, Message, Offset, Wall};
use storage::ReadId;

use super::consumers::Consumer;
use super::cursor::Cursor;
use super::queue::{Queue, Wait};
use super::track::{Head, Looked, Track};
use super::window::Ahead;
use super::{Body, ConsumerId, Delivery, DeliveryKey, QueueKind, Tell};
use crate::core::Core;
use crate::partition::FoundTime;
use crate::{BrokerError, Event};

/// Bytes looked at for all readers of a stream in one turn before others have theirs.
const TURN_BYTES_MAX: usize = 1 << 20;
/// Those of one reader.
const READER_BYTES_MAX: usize = 256 << 10;

/// All readers of one stream.
#[derive(Default)]
pub(super) struct Readers {
    list: Vec<Reader>,
    /// Whose turn it is.
    at: usize,
}

/// One consumer's place in a stream.
struct Reader {
    id: ConsumerId,
    lanes: Vec<Lane>,
    /// The lane looked into next.
    at: usize,
    /// It reads all partitions, also those that come later.
    all: bool,
    filter: Option<Box<ReadFilter>>,
}

/// Its place in one partition.
struct Lane {
    partition: u32,
    track: Track,
    /// The time that its place is still to be found by.
    since: Option<Wall>,
}

/// What a reader has next.
enum Step {
    Message(Delivery),
    /// Nothing now.
    Nothing,
    /// It has looked at enough for one turn.
    Enough,
}

/// What a reader looks through.
struct Sight<'a> {
    queue: u64,
    wanted: FormatTag,
    /// Where each partition begins and ends, by log.
    bounds: &'a [(LogId, u64, u64)],
    bytes_left: usize,
}

impl Readers {
    /// Forgets the places of consumers that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(ConsumerId) -> bool) {
        self.list.retain(|reader| is_there(reader.id));
    }

    /// The topic has got partitions.
    pub(super) fn grown(&mut self, from: usize, logs: &[LogId]) {
        for reader in self.list.iter_mut().filter(|reader| reader.all) {
            let lanes = logs.iter().enumerate().map(|(at, log)| Lane {
                partition: u32::try_from(from + at).unwrap_or(u32::MAX),
                track: Track::new(Cursor::new(*log, 0)),
                since: None,
            });
            reader.lanes.extend(lanes);
        }
    }

    /// A read need not be waited for any more.
    pub(super) fn read_ready(&mut self, read: ReadId) {
        for lane in self.list.iter_mut().flat_map(|reader| &mut reader.lanes) {
            lane.track.waits.take_if(|waits| *waits == read);
        }
    }

    /// Bytes read ahead.
    pub(super) fn window_bytes(&self) -> usize {
        self.list.iter().flat_map(|reader| &reader.lanes).map(|lane| lane.track.window_bytes()).sum()
    }

    /// Gives the memory of the reading ahead back.
    pub(super) fn close_windows(&mut self) {
        self.list.iter_mut().flat_map(|reader| &mut reader.lanes).for_each(|lane| lane.track.close_window());
    }
}

impl Reader {
    /// The next message that it wants.
    fn next(&mut self, sight: &mut Sight<'_>, ahead: &mut Ahead, core: &mut Core) -> Result<Step, Wait> {
        let many = sight.bounds.len() > 1;
        for _ in 0..self.lanes.len() {
            let at = self.at % self.lanes.len();
            let Some(lane) = self.lanes.get_mut(at) else { break };
            while let Some(looked) = lane.look(sight, ahead, core)? {
                let passed = looked.body.bytes_about();
                sight.bytes_left = sight.bytes_left.saturating_sub(passed);
                lane.track.cursor.skip(looked.offset, looked.offset + 1);
                if self.filter.as_deref().is_none_or(|filter| filter.takes(&looked, &core.formats)) {
                    self.at = at + 1;
                    return Ok(Step::Message(lane.delivery(sight.queue, looked, many)));
                }
                if sight.bytes_left == 0 {
                    return Ok(Step::Enough);
                }
            }
            self.at = at + 1;
        }
        Ok(Step::Nothing)
    }
}

impl Lane {
    /// The message at its place, which is left there; `None` when there is none now.
    fn look(&mut self, sight: &Sight<'_>, ahead: &mut Ahead, core: &mut Core) -> Result<Option<Looked>, Wait> {
        let log = self.track.cursor.log;
        let Some(&(_, start, end)) = sight.bounds.iter().find(|(known, ..)| *known == log) else { return Ok(None) };
        if self.track.waits.is_some() || !self.is_found(end, (sight.queue, ahead), core)? {
            return Ok(None);
        }
        self.track.cursor.visible(end);
        self.track.cursor.start_moved(start);
        let head = self.track.head((sight.wanted, false), (sight.queue, ahead), core);
        self.track.cursor.recorded(); // nothing of it is stored
        match head {
            Head::Message(looked) => Ok(Some(looked)),
            Head::Empty | Head::Pending => Ok(None),
            Head::Failed(error) => Err(Wait::Failed(error)),
        }
    }

    /// Whether its place is known: a time may have to be looked up first.
    fn is_found(&mut self, end: u64, (queue, ahead): (u64, &mut Ahead), core: &mut Core) -> Result<bool, Wait> {
        let Some(time) = self.since else { return Ok(true) };
        let log = self.track.cursor.log;
        match core.find_time(log, time) {
            Ok(FoundTime::Ready(found)) => {
                self.track = Track::new(Cursor::new(log, found.map_or(end, |(offset, _)| offset.0)));
                self.since = None;
                Ok(true)
            }
            Ok(FoundTime::Pending(read)) => {
                ahead.reads.wait(read, queue);
                self.track.waits = Some(read);
                Ok(false)
            }
            Err(BrokerError::Storage(error)) => Err(Wait::Failed(error)),
            Err(error) => {
                tracing::error!(queue, %log, %error, "a time cannot be looked up: the reader begins at the end");
                self.track = Track::new(Cursor::new(log, end));
                self.since = None;
                Ok(true)
            }
        }
    }

    fn delivery(&self, queue: u64, looked: Looked, many: bool) -> Delivery {
        let key = DeliveryKey { queue, log: self.track.cursor.log, offset: Offset(looked.offset) };
        let tell = if many { Tell::Place(self.partition) } else { Tell::Offset };
        Delivery { key, redelivered: false, attempts: 0, tell, format: looked.format, body: looked.body }
    }
}

impl ReadFilter {
    fn takes(&self, looked: &Looked, formats: &Formats) -> bool {
        match &looked.body {
            Body::Neutral(message) => self.takes_message(message),
            Body::Unit(unit) => self.takes_unit(looked.format, unit, formats),
        }
    }

    fn takes_unit(&self, format: FormatTag, unit: &Bytes, formats: &Formats) -> bool {
        let mut takes = false;
        let opened = formats.get(format).and_then(|format| {
            format.open(unit, Offset::ZERO, &mut |_, message| {
                takes = self.takes_message(&message);
                ControlFlow::Break(())
            })
        });
        opened.is_ok() && takes
    }

    fn takes_message(&self, message: &Message) -> bool {
        let found = message.headers.iter().find(|header| header.name == self.header);
        match found.map(|header| &header.value) {
            Some(HeaderValue::Text(text)) => self.values.contains(text),
            Some(HeaderValue::Bytes(bytes)) => self.values.iter().any(|value| value.as_bytes() == &**bytes),
            Some(_) => false,
            None => self.unmarked,
        }
    }
}

impl Queue {
    /// Whether its messages stay when they are read.
    pub(super) fn is_stream(&self) -> bool {
        self.kind() == QueueKind::Stream
    }

    /// Gives a consumer its place.
    ///
    /// # Errors
    /// [`BrokerError::Invalid`] for a partition that is not there, and for an offset in more than one.
    pub(super) fn add_reader(&mut self, id: ConsumerId, spec: ReadSpec) -> Result<(), BrokerError> {
        let count = self.info.partitions().len();
        let all = spec.partition.is_none();
        let wanted = |partition: u32| spec.partition.is_none_or(|only| only == partition);
        if let Some(partition) = spec.partition.filter(|partition| *partition as usize >= count) {
            return Err(BrokerError::Invalid(format!("there is no partition {partition}: the topic has {count}")));
        }
        if all && count > 1 && matches!(spec.from, ReadFrom::Offset(_)) {
            let why =
                format!("an offset is a place in one partition, and the topic has {count}: say which one to read");
            return Err(BrokerError::Invalid(why));
        }
        let partitions = (0..).zip(self.info.partitions()).filter(|(partition, _)| wanted(*partition));
        let lanes = partitions.filter_map(|(partition, log)| {
            let at = self.tracks.binary_search_by_key(log, |track| track.cursor.log).ok()?;
            let cursor = &self.tracks.get(at)?.cursor;
            let (start, end) = (cursor.head(), cursor.end());
            let (next, since) = match spec.from {
                ReadFrom::First => (start, None),
                ReadFrom::Last => (end.saturating_sub(1).max(start), None),
                ReadFrom::Next => (end, None),
                ReadFrom::Offset(offset) => (offset.max(start), None), // it may be yet to come
                ReadFrom::Time(time) => (end, Some(time)),
            };
            Some(Lane { partition, track: Track::new(Cursor::new(*log, next)), since })
        });
        let reader = Reader { id, lanes: lanes.collect(), at: 0, all, filter: spec.filter.map(Box::new) };
        if let Some(rules) = &mut self.rules {
            rules.readers.get_or_insert_default().list.push(reader);
        }
        Ok(())
    }

    /// Hands each consumer with credit what lies at its place. True when it stopped to let others have their turn.
    pub(super) fn pump_stream(&mut self, ahead: &mut Ahead, core: &mut Core) -> bool {
        let bounds = self.tracks.iter().map(|track| (track.cursor.log, track.cursor.head(), track.cursor.end()));
        let bounds = bounds.collect::<Vec<_>>();
        let (id, name) = (self.id, &self.info.name);
        let Some(readers) = self.rules.as_deref_mut().and_then(|rules| rules.readers.as_deref_mut()) else {
            return false;
        };
        let (mut bytes_left, mut more) = (TURN_BYTES_MAX, false);
        for _ in 0..readers.list.len() {
            if bytes_left == 0 {
                more = true;
                break;
            }
            let at = readers.at % readers.list.len();
            readers.at = at + 1;
            let Some(reader) = readers.list.get_mut(at) else { break };
            let Some(consumer) = self.consumers.get_mut(reader.id).filter(|consumer| consumer.credit > 0) else {
                continue;
            };
            let may = READER_BYTES_MAX.min(bytes_left);
            let mut sight = Sight { queue: id, wanted: consumer.wanted, bounds: &bounds, bytes_left: may };
            match serve(reader, consumer, &mut sight, (ahead, core)) {
                Ok(stopped) => more |= stopped,
                Err(Wait::Failed(error)) => tracing::error!(queue = %name, %error, "a stream cannot be read"),
                Err(Wait::Pending | Wait::Enough) => {}
            }
            bytes_left = bytes_left.saturating_sub(may - sight.bytes_left);
        }
        for (session, consumer, batch) in self.consumers.batches() {
            core.events.push(session, Event::Deliver(consumer, batch));
        }
        more
    }

    /// Consumers have gone: their places too.
    pub(super) fn forget_readers(&mut self) {
        if let Some(readers) = self.rules.as_deref_mut().and_then(|rules| rules.readers.as_deref_mut()) {
            let there: HashSet<ConsumerId> = self.consumers.ids().into_iter().collect(); // both may be many
            readers.keep(|id| there.contains(&id));
        }
    }
}

/// Fills a consumer's batch as far as its credit and this turn go. True when there may be more for it at once.
fn serve(
    reader: &mut Reader,
    consumer: &mut Consumer,
    sight: &mut Sight<'_>,
    (ahead, core): (&mut Ahead, &mut Core),
) -> Result<bool, Wait> {
    while consumer.credit > 0 {
        if sight.bytes_left == 0 {
            return Ok(true);
        }
        match reader.next(sight, ahead, core)? {
            Step::Message(delivery) => {
                consumer.credit -= 1;
                consumer.batch.push(delivery);
            }
            Step::Nothing => return Ok(false),
            Step::Enough => return Ok(true),
        }
    }
    Ok(false)
}
