//! Look-ups by time that unpack much: other threads go through the units; whoever waits is told as if a disk had been
//! read, asks again, and finds here what was found. What compaction has removed meanwhile may be named: whoever reads
//! from there gets what follows it.

use std::collections::{HashMap, VecDeque};

use model::{FormatError, LogId, Offset, Sought, Wall};
use storage::{Chunk, ReadId, StorageError};

use crate::core::Core;
use crate::{BrokerError, Job, JobDone};

/// What the data thread unpacks for one look-up itself.
const IN_PLACE_BYTES_MAX: usize = 256 << 10;

/// Look-ups that may wait for another thread.
const WAITING_MAX: usize = 256;

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
    found: VecDeque<(Key, Answer)>,
}

/// The outcome of one; opaque to the driver.
pub struct TimeDone {
    key: Key,
    read: ReadId,
    answer: Answer,
}

/// What is known at once.
pub(crate) enum InChunk {
    Found(Option<(Offset, Wall)>),
    Pending(ReadId),
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
            Err(FormatError::TooLarge { .. }) => self.time_aside(key, chunk.clone(), sought).map(InChunk::Pending),
            found => Ok(InChunk::Found(found?)),
        }
    }

    fn time_aside(&mut self, key: Key, chunk: Chunk, sought: Sought) -> Result<ReadId, BrokerError> {
        if self.times.waiting.len() >= WAITING_MAX {
            return Err(StorageError::Unusable("too many look-ups by time wait: try again later".to_owned()).into());
        }
        self.times.last += 1;
        let (read, formats) = (ReadId(READ_IDS_FROM + self.times.last), self.formats.clone());
        self.times.waiting.insert(key, read);
        self.times.found.retain(|(found, _)| *found != key);
        self.aside.push(Job::Aside(Box::new(move || {
            let find = || formats.get(chunk.format)?.find_time(&chunk.units, chunk.first, &sought, usize::MAX);
            // It works on what a peer has sent: a mistake in it must harm nobody else.
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(find));
            let answer = answer.unwrap_or(Err(FormatError::Malformed("units that can be gone through")));
            JobDone::Time(TimeDone { key, read, answer })
        })));
        Ok(read)
    }

    /// A look-up has come back; answers the read that those who wait for it know.
    pub(crate) fn time_done(&mut self, done: TimeDone) -> ReadId {
        let TimeDone { key, read, answer } = done;
        self.aside.ended();
        self.times.waiting.remove(&key);
        if self.times.found.len() >= FOUND_MAX {
            self.times.found.pop_front();
        }
        self.times.found.push_back((key, answer));
        read
    }
}
