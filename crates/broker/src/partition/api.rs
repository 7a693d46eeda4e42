//! What tongues ask of partitions: append, fetch, look-ups by time, watches.

use model::{LogId, Now, Offset, Wall};

use storage::LogSegment;

use super::{AppendRequest, Appended, Bounds, Fetched, TimeAnswer, ToSend, Watched};
use crate::{Broker, BrokerError, CallId, Event, Lsn, Part, SessionId};

impl Broker {
    /// Appends units to a partition's log.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`] when there is no such log (any more), [`BrokerError::SequenceGap`],
    /// [`BrokerError::FencedProducer`], [`BrokerError::Invalid`], [`BrokerError::Storage`] (too large, full, closed).
    pub fn append(&mut self, request: &AppendRequest<'_>, now: Now) -> Result<Appended, BrokerError> {
        self.core.now = now;
        self.core.append(request)
    }

    /// A producer id never given before, with epoch 0; or, for a producer that has one, the same id with the next epoch
    /// (a new id when the epochs are used up). The answer is held back until synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Storage`].
    pub fn init_producer(&mut self, current: Option<(i64, i16)>) -> Result<(i64, i16, Lsn), BrokerError> {
        self.core.init_producer(current)
    }

    /// Where a log begins and ends for readers.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`].
    pub fn bounds(&self, log: LogId) -> Result<Bounds, BrokerError> {
        self.core.bounds(log)
    }

    /// The segments of a log, the oldest first: ranges of offsets that retention deletes and compaction rewrites whole.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`].
    pub fn segments(&self, log: LogId) -> Result<Vec<LogSegment>, BrokerError> {
        self.core.bounds(log)?;
        Ok(self.core.storage.log_segments(log))
    }

    /// Messages that compaction has removed since opening.
    #[must_use]
    pub fn compacted(&self) -> u64 {
        self.core.compactor.removed
    }

    /// Reads a log up to its watermark. `call` is named by [`Event::Readable`] when the disk had to be waited for.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`], [`BrokerError::OutOfRange`], [`BrokerError::Storage`] when damaged.
    pub fn fetch(
        &mut self,
        session: SessionId,
        call: CallId,
        log: LogId,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Fetched, BrokerError> {
        self.core.fetch((session, call), log, from, bytes_max)
    }

    /// Removes all messages of `log` before an offset (`None`: all that can be seen) and answers where it begins now.
    /// Queues over it pass over what is gone. The answer is held back until synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`], [`BrokerError::OutOfRange`] beyond the watermark, [`BrokerError::Storage`].
    pub fn trim(&mut self, log: LogId, before: Option<Offset>, now: Now) -> Result<(Offset, Lsn), BrokerError> {
        self.core.now = now;
        let (start, lsn) = self.core.trim(log, before)?;
        self.queues.start_moved(log, start);
        Ok((start, lsn))
    }

    /// As [`Broker::fetch`], for who sends the units on as they are: large ones stay in their files, as ranges for the
    /// session's outbox.
    ///
    /// # Errors
    /// Those of [`Broker::fetch`].
    pub fn fetch_to_send(
        &mut self,
        session: SessionId,
        call: CallId,
        wanted: &ToSend,
    ) -> Result<Fetched<Part>, BrokerError> {
        self.core.fetch_to_send((session, call), wanted)
    }

    /// Tells `session` once, by [`Event::Readable`], when one of `logs` gets something new (or is deleted). At once if
    /// it has already.
    pub fn watch(&mut self, session: SessionId, call: CallId, logs: &[Watched]) {
        let partitions = &mut self.core.partitions;
        let is_new = |watched: &Watched| partitions.watermark(watched.log).is_none_or(|mark| mark > watched.from);
        if logs.iter().any(is_new) {
            partitions.watches.remove(session, call);
            self.core.events.push(session, Event::Readable(call));
        } else {
            partitions.watches.add(session, call, logs);
        }
    }

    /// Forgets a watch.
    pub fn unwatch(&mut self, session: SessionId, call: CallId) {
        self.core.partitions.watches.remove(session, call);
    }

    /// From now on notes for `call` when `log` gets something new (or is deleted), as `mark`, until
    /// [`Broker::unfollow`] or the session's end. Cheap for who waits for many logs again and again.
    pub fn follow(&mut self, session: SessionId, call: CallId, log: LogId, mark: u32) {
        self.core.partitions.follow((session, call), log, mark);
    }

    /// Follows `log` no more; without one: nothing more by this call.
    pub fn unfollow(&mut self, session: SessionId, call: CallId, log: Option<LogId>) {
        self.core.partitions.unfollow((session, call), log);
    }

    /// Appends to `marks` what has moved since this was last asked; also of what is followed no more, perhaps.
    pub fn take_moved(&mut self, session: SessionId, call: CallId, marks: &mut Vec<u32>) {
        self.core.partitions.follows.take_moved((session, call), marks);
    }

    /// Tells `session` once, by [`Event::Readable`], when something that it follows moves; at once if it has already.
    pub fn await_moved(&mut self, session: SessionId, call: CallId) {
        if self.core.partitions.follows.wait((session, call)) {
            self.core.events.push(session, Event::Readable(call));
        }
    }

    /// The first message of `log` whose time is not before `time`, exact to the message, inside compressed units too.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`], [`BrokerError::Storage`], [`BrokerError::Format`].
    pub fn offset_at(
        &mut self,
        session: SessionId,
        call: CallId,
        log: LogId,
        time: Wall,
    ) -> Result<TimeAnswer, BrokerError> {
        self.core.offset_at((session, call), log, time)
    }
}
