//! Reading: up to the watermark and not beyond; by offset and by time.

use model::{LogId, Offset, Sought, Wall};
use storage::{Lookup, Part, Parts, Read, ReadId, ReadRequest, Storage, StorageError};

use super::append::unknown;
use super::times::InChunk;
use super::{Bounds, Fetched, TimeAnswer, ToSend};
use crate::core::Core;
use crate::{BrokerError, CallId, SessionId};

/// What a look-up by time found.
pub(crate) enum FoundTime {
    /// The first message that is not older; `None` when all are.
    Ready(Option<(Offset, Wall)>),
    /// The disk must be waited for.
    Pending(ReadId),
}

/// Who is told when a read need not wait any more.
type Asker = (SessionId, CallId);

impl Core {
    /// See [`crate::Broker::bounds`].
    pub(crate) fn bounds(&self, log: LogId) -> Result<Bounds, BrokerError> {
        let end = self.partitions.watermark(log).ok_or_else(|| unknown(log))?;
        Ok(Bounds { start: self.log_start(log).min(end), end })
    }

    /// See [`crate::Broker::fetch`].
    pub(crate) fn fetch(
        &mut self,
        asker: Asker,
        log: LogId,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Fetched, BrokerError> {
        self.fetch_by(asker, (log, from, bytes_max), |storage, request| match storage.read(request)? {
            Read::Ready(chunks) => Ok(Ok(chunks)),
            Read::Pending(read) => Ok(Err(read)),
        })
    }

    /// See [`crate::Broker::fetch_to_send`].
    pub(crate) fn fetch_to_send(&mut self, asker: Asker, wanted: &ToSend) -> Result<Fetched<Part>, BrokerError> {
        let what = (wanted.log, wanted.from, wanted.bytes_max);
        self.fetch_by(asker, what, |storage, request| match storage.read_to_send(request, wanted.format)? {
            Parts::Ready(parts) => Ok(Ok(parts)),
            Parts::Pending(read) => Ok(Err(read)),
        })
    }

    fn fetch_by<T>(
        &mut self,
        asker: Asker,
        (log, from, bytes_max): (LogId, Offset, usize),
        read: impl FnOnce(&mut Storage, &ReadRequest) -> Result<Result<Vec<T>, ReadId>, StorageError>,
    ) -> Result<Fetched<T>, BrokerError> {
        let Bounds { start, end } = self.bounds(log)?;
        if from < start || from > end {
            return Err(BrokerError::OutOfRange { asked: from, start, end });
        }
        let mut fetched = Fetched { chunks: Vec::new(), pending: false, start, end };
        if from < end {
            match read(&mut self.storage, &ReadRequest { log, from, until: end, bytes_max }) {
                Ok(Ok(chunks)) => fetched.chunks = chunks,
                Ok(Err(read)) => {
                    self.partitions.wait_for(read, asker.0, asker.1);
                    fetched.pending = true;
                }
                Err(StorageError::OutOfRange { asked, start, .. }) => {
                    return Err(BrokerError::OutOfRange { asked, start, end });
                }
                Err(why) => return Err(why.into()),
            }
        }
        Ok(fetched)
    }

    /// See [`crate::Broker::offset_at`].
    pub(crate) fn offset_at(&mut self, asker: Asker, log: LogId, time: Wall) -> Result<TimeAnswer, BrokerError> {
        match self.find_time(log, time)? {
            FoundTime::Ready(found) => Ok(TimeAnswer::Ready(found)),
            FoundTime::Pending(read) => {
                self.partitions.wait_for(read, asker.0, asker.1);
                Ok(TimeAnswer::Pending)
            }
        }
    }

    /// The first message of `log` whose time is not before `time`, and its time.
    pub(crate) fn find_time(&mut self, log: LogId, time: Wall) -> Result<FoundTime, BrokerError> {
        let Bounds { start, end } = self.bounds(log)?;
        let hit = match self.storage.find_time(log, time)? {
            Lookup::Ready(Some(hit)) => hit,
            Lookup::Ready(None) => return Ok(FoundTime::Ready(None)),
            Lookup::Pending(read) => return Ok(FoundTime::Pending(read)),
        };
        let mut from = hit.extent.max(start);
        // One step, unless what the units carry is older than what was said of them when they were appended.
        while from < end {
            let chunks = match self.storage.read(&ReadRequest { log, from, until: end, bytes_max: 1 })? {
                Read::Ready(chunks) => chunks,
                Read::Pending(read) => return Ok(FoundTime::Pending(read)),
            };
            let Some(last) = chunks.last().map(|chunk| chunk.last) else {
                break;
            };
            for chunk in chunks.iter().filter(|chunk| chunk.time_max >= time) {
                let sought = Sought { since: time, timeless: chunk.time_max, within: start..end };
                match self.time_in_chunk(log, chunk, sought)? {
                    InChunk::Found(None) => {}
                    InChunk::Found(found) => return Ok(FoundTime::Ready(found)),
                    InChunk::Pending(read) => return Ok(FoundTime::Pending(read)),
                }
            }
            from = last.plus(1);
        }
        Ok(FoundTime::Ready(None))
    }
}
