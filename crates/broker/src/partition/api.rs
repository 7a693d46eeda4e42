//! What tongues ask of partitions: append, fetch, look-ups by time, watches.

use model::{LogId, Now, Offset, Wall};

use super::{AppendRequest, Appended, Bounds, Fetched, TimeAnswer, Watched};
use crate::{Broker, BrokerError, CallId, Lsn, SessionId};

#[allow(unused_variables, clippy::needless_pass_by_value)]
impl Broker {
    /// Appends units to a partition's log.
    pub fn append(&mut self, request: &AppendRequest<'_>, now: Now) -> Result<Appended, BrokerError> {
        unimplemented!()
    }

    /// A producer id never given before, with epoch 0; or, for a producer that has one, the same id with the next epoch

    /// (a new id when the epochs are used up).
    pub fn init_producer(&mut self, current: Option<(i64, i16)>) -> Result<(i64, i16, Lsn), BrokerError> {
        unimplemented!()
    }

    /// Where a log begins and ends for readers.
    pub fn bounds(&self, log: LogId) -> Result<Bounds, BrokerError> {
        unimplemented!()
    }

    /// Reads a log up to its watermark. `call` is named by [`Event::Readable`] when the disk had to be waited for.
    pub fn fetch(
        &mut self,
        session: SessionId,
        call: CallId,
        log: LogId,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Fetched, BrokerError> {
        unimplemented!()
    }

    /// Tells `session` once, by [`Event::Readable`], when one of `logs` gets something new (or is deleted). At once if

    /// it has already.
    pub fn watch(&mut self, session: SessionId, call: CallId, logs: &[Watched]) {
        unimplemented!()
    }

    /// Forgets a watch.
    pub fn unwatch(&mut self, session: SessionId, call: CallId) {
        unimplemented!()
    }

    /// The first message of `log` whose time is not before `time`, exact to the message, inside compressed units too.
    pub fn offset_at(
        &mut self,
        session: SessionId,
        call: CallId,
        log: LogId,
        time: Wall,
    ) -> Result<TimeAnswer, BrokerError> {
        unimplemented!()
    }
}
