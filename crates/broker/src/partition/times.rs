//! Look-ups by time that unpack much: other threads go through the units; whoever waits is told as if a disk had been
//! read, asks again, and finds here what was found. What compaction has removed meanwhile may be named: whoever reads
//! from there gets what follows it. Where too many wait, others wait for the last of them before they begin.

use std::collections::{HashMap, VecDeque};

use model::{FormatError, LogId, Offset, Sought, Wall};
use storage::{Chunk, ReadId};

use crate::core::Core;
use crate::{BrokerError, Job, JobDone};

/// What the data thread unpacks for one look-up itself.
const IN_PLACE_BYTES_MAX: usize = 256 << 10;

/// Look-ups that may wait for another thread.
const WAITING_MAX: usize = 256;

/// What lies in their chunks together, in bytes, unless it is one alone.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Answers kept for those who ask again.
const FOUND_MAX: usize = 1024;

/// Numbers of reads from here on are ours, those below storage's.
const READ_IDS_FROM: u64 = 1 << 63;

/// What is looked for where: a log, the first offset of a chunk of it, a time.
type Key = (LogId, Offset, Wall);

type Answer = Result<Option<(Offset, Wall)>, FormatError>;

/// Look-ups under way and done.
#[derive(Default)]
pub(crate) struct Times {
    last: u64,
    waiting: HashMap<Key, ReadId>,
    /// Bytes in the chunks of those.
    bytes: usize,
    found: VecDeque<(Key, Answer)>,
}

/// The outcome of one; opaque to the driver.
pub struct TimeDone {
    key: Key,
    read: ReadId,
    /// In its chunk.
    bytes: usize,
    answer: Answer,
}

/// What is known at once.
pub(crate) enum InChunk {
    Found(Option<(Offset, Wall)>),
    Pending(ReadId),
}

impl Times {
    /// Bytes of memory that look-ups under way take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// The last that waits, if no more may that have so many bytes in their chunk.
    fn full(&self, bytes: usize) -> Option<ReadId> {
        let is_full = self.waiting.len() >= WAITING_MAX || self.bytes.saturating_add(bytes) > WAITING_BYTES_MAX;
        self.waiting.values().max().copied().filter(|_| is_full)
    }
}

impl Core {
    /// The first message in a chunk of `log` that is sought.
    pub(crate) fn time_in_chunk(&mut self, log: LogId, chunk: &Chunk, sought: Sought) -> Result<InChunk, BrokerError> {
        let key = (log, chunk.first, sought.since);
        if let Some((_, answer)) = self.times.found.iter().find(|(found, _)| *found == key) {
            match answer.clone()? {
                // What was found may have been trimmed meanwhile.
                Some((at, _)) if !sought.within.contains(&at) => {}
                found => return Ok(InChunk::Found(found)),
            }
        }
        if let Some(read) = self.times.waiting.get(&key) {
            return Ok(InChunk::Pending(*read));
        }
        let format = self.formats.get(chunk.format)?;
        match format.find_time(&chunk.units, chunk.first, &sought, IN_PLACE_BYTES_MAX) {
            Err(FormatError::TooLarge { .. }) => Ok(InChunk::Pending(self.time_aside(key, chunk.clone(), sought))),
            found => Ok(InChunk::Found(found?)),
        }
    }

    fn time_aside(&mut self, key: Key, chunk: Chunk, sought: Sought) -> ReadId {
        let bytes = chunk.units.len();
        if let Some(last) = self.times.full(bytes) {
            return last;
        }
        self.times.bytes += bytes;
        self.times.last += 1;
        let (read, formats) = (ReadId(READ_IDS_FROM + self.times.last), self.formats.clone());
        self.times.waiting.insert(key, read);
        self.times.found.retain(|(found, _)| *found != key);
        self.aside.push(Job::Aside(Box::new(move || {
            let find = || formats.get(chunk.format)?.find_time(&chunk.units, chunk.first, &sought, usize::MAX);
            // It works on what a peer has sent: a mistake in it must harm nobody else.
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(find));
            let answer = answer.unwrap_or(Err(FormatError::Malformed("units that can be gone through")));
            JobDone::Time(TimeDone { key, read, bytes, answer })
        })));
        read
    }

    /// A look-up has come back; answers the read that those who wait for it know.
    pub(crate) fn time_done(&mut self, done: TimeDone) -> ReadId {
        let TimeDone { key, read, bytes, answer } = done;
        self.aside.ended();
        self.times.waiting.remove(&key);
        self.times.bytes = self.times.bytes.saturating_sub(bytes);
        if self.times.found.len() >= FOUND_MAX {
            self.times.found.pop_front();
        }
        self.times.found.push_back((key, answer));
        read
    }
}
