//! The internal offsets topic: entries are appended here and read back at the start. What they mean is the group
//! coordinator's business; which bytes they are is the codec's.
//!
//! Storage does not compact it by key. Instead a partition that holds much more than is still valid is written again:
//! the valid entries at the end, some each turn, and with the last of them everything before is trimmed. Offsets keep
//! ascending.

use std::ops::ControlFlow;

use model::{LogId, Message, Name, Offset, Stamp};
use storage::{Append, Batch, Lsn, Read, ReadRequest, StorageError, SyncPolicy, Target};

use crate::BrokerError;
use crate::access::DEFAULT_TENANT;
use crate::core::Core;
use crate::group::{Groups, LEDGER_PARTITIONS, LEDGER_TOPIC, LedgerCodec, LedgerCursor, LedgerEntry};

/// Entries that are written again in one turn, about.
const REWRITTEN_PER_TURN: usize = 256;

/// Partitions shorter than this, in messages, are left alone.
const LENGTH_MIN: u64 = 10_000;

/// How many times longer than its valid entries a partition may get.
const GROWTH_MAX: u64 = 4;

/// Bytes read at once at the start.
const READ_BYTES: usize = 1 << 20;

/// The ledger's codec and logs.
pub(crate) struct Ledger {
    codec: Box<dyn LedgerCodec>,
    /// Its partitions' logs; empty until the topic is made, on first use.
    logs: Vec<LogId>,
    /// The length at which each partition is looked at again.
    check_at: Vec<u64>,
    /// Partitions to be looked at.
    grown: Vec<u32>,
    /// The one that is written again.
    rewriting: Option<Rewriting>,
}

struct Rewriting {
    partition: u32,
    /// Where it ended when this began.
    old_end: Offset,
    cursor: LedgerCursor,
}

impl Ledger {
    /// A ledger whose topic may not exist yet.
    pub(crate) fn new(codec: Box<dyn LedgerCodec>) -> Ledger {
        Ledger { codec, logs: Vec::new(), check_at: Vec::new(), grown: Vec::new(), rewriting: None }
    }

    /// The topic exists: its partitions' logs.
    pub(crate) fn set_logs(&mut self, logs: &[LogId]) {
        self.logs = logs.to_vec();
        self.check_at = vec![LENGTH_MIN; logs.len()];
    }
}

/// Which partition keeps `group`: the absolute value of Java's string hash, by the number of partitions. Tools compute
/// it too. (Java's `abs` of the least number is itself; the peer takes 0 there.)
pub(crate) fn partition_of(group: &str) -> u32 {
    let hash = group.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    if hash == i32::MIN { 0 } else { hash.unsigned_abs() % LEDGER_PARTITIONS }
}

fn group_of(entry: &LedgerEntry) -> &Name {
    match entry {
        LedgerEntry::Offset { group, .. } | LedgerEntry::Group { group, .. } => group,
    }
}

/// Units on their way to one partition.
struct Built {
    target: Target,
    units: Vec<u8>,
    count: u32,
}

impl Core {
    /// Appends entries to the internal offsets topic, in one batch. They are answered for when written. Makes the topic
    /// on first use.
    pub(crate) fn append_ledger(&mut self, entries: &[LedgerEntry]) -> Result<Lsn, BrokerError> {
        if self.ledger.logs.is_empty() {
            self.make_ledger_topic()?;
        }
        let mut by_partition: Vec<(u32, Vec<Message>)> = Vec::new();
        for entry in entries {
            let partition = partition_of(group_of(entry));
            let message = self.ledger.codec.encode(entry);
            match by_partition.iter_mut().find(|(other, _)| *other == partition) {
                Some((_, messages)) => messages.push(message),
                None => by_partition.push((partition, vec![message])),
            }
        }
        let mut built = Vec::new();
        for (partition, messages) in by_partition {
            let log = self.ledger_log(partition)?;
            let next = self.partitions.next_offset(log).unwrap_or_default();
            self.build_ledger(log, next, messages, &mut built)?;
        }
        let lsn = self.commit_ledger(&built, &[])?;
        for one in &built {
            self.note_growth(one.target.log);
        }
        Ok(lsn)
    }

    /// A partition that has grown since it was looked at last.
    pub(crate) fn ledger_overgrown(&mut self) -> Option<u32> {
        self.ledger.grown.pop()
    }

    /// How many messages a partition of the ledger holds.
    pub(crate) fn ledger_length(&self, partition: u32) -> u64 {
        let log = self.ledger.logs.get(partition as usize);
        log.and_then(|log| self.storage.range(*log)).map_or(0, |range| range.end.since(range.start))
    }

    /// A partition has `live` valid entries: whether it should be written again. If not, it is not looked at before it
    /// has grown so long that it should.
    pub(crate) fn ledger_outgrows(&mut self, partition: u32, live: usize) -> bool {
        let length_max = LENGTH_MIN.max(GROWTH_MAX * live as u64);
        if let Some(check_at) = self.ledger.check_at.get_mut(partition as usize) {
            *check_at = length_max;
        }
        self.ledger_length(partition) > length_max
    }

    /// Begins to write a partition again.
    pub(crate) fn begin_rewriting(&mut self, partition: u32, cursor: LedgerCursor) -> Result<(), BrokerError> {
        let log = self.ledger_log(partition)?;
        let old_end = self.partitions.next_offset(log).unwrap_or_default();
        self.ledger.rewriting = Some(Rewriting { partition, old_end, cursor });
        Ok(())
    }

    /// Goes on with it, a slice: what is still valid is said once more at the end, and when all is, everything before
    /// goes in the same batch. Until then all of it is there: what stops in between has only said some of it twice.
    pub(crate) fn go_on_rewriting(&mut self, groups: &Groups) -> Result<(), BrokerError> {
        let Some(mut rewriting) = self.ledger.rewriting.take() else { return Ok(()) };
        let mut entries = Vec::new();
        let is_last = groups.ledger_slice(&mut rewriting.cursor, REWRITTEN_PER_TURN, &mut entries);
        let log = self.ledger_log(rewriting.partition)?;
        let mut built = Vec::new();
        if !entries.is_empty() {
            let next = self.partitions.next_offset(log).unwrap_or_default();
            let messages = entries.iter().map(|entry| self.ledger.codec.encode(entry)).collect();
            self.build_ledger(log, next, messages, &mut built)?;
        }
        let trims = [(log, rewriting.old_end)];
        self.commit_ledger(&built, if is_last { &trims } else { &[] })?;
        if !is_last {
            self.ledger.rewriting = Some(rewriting);
        }
        Ok(())
    }

    /// Whether a partition is being written again.
    pub(crate) fn is_rewriting(&self) -> bool {
        self.ledger.rewriting.is_some()
    }

    /// Reads all entries back, oldest first within each partition. Only while opening: it waits for the disk.
    pub(crate) fn read_ledger(&mut self, tell: &mut dyn FnMut(LedgerEntry)) -> Result<(), BrokerError> {
        for log in self.ledger.logs.clone() {
            let Some(range) = self.storage.range(log) else {
                continue;
            };
            let mut from = range.start;
            while let Some(chunks) = self.read_some(log, from, range.end)? {
                self.tell_entries(&chunks, from, tell);
                from = chunks.last().map_or(range.end, |chunk| chunk.last.plus(1));
            }
        }
        Ok(())
    }

    /// Reads what lies in `log` from `from` to `end`, waiting for the disk: only while opening.
    pub(crate) fn read_log(
        &mut self,
        log: model::LogId,
        mut from: Offset,
        end: Offset,
        tell: &mut dyn FnMut(&storage::Chunk),
    ) -> Result<(), BrokerError> {
        while let Some(chunks) = self.read_some(log, from, end)? {
            chunks.iter().for_each(&mut *tell);
            from = chunks.last().map_or(end, |chunk| chunk.last.plus(1));
        }
        Ok(())
    }

    /// The next of what lies in `log` between `from` and `end`, waited for. What is damaged ends it.
    fn read_some(
        &mut self,
        log: model::LogId,
        from: Offset,
        end: Offset,
    ) -> Result<Option<Vec<storage::Chunk>>, BrokerError> {
        if from >= end {
            return Ok(None);
        }
        loop {
            match self.storage.read(&ReadRequest { log, from, until: end, bytes_max: READ_BYTES }) {
                Ok(Read::Ready(chunks)) => return Ok(Some(chunks).filter(|chunks| !chunks.is_empty())),
                Ok(Read::Pending(_)) => self.run_storage_jobs()?,
                Err(why @ StorageError::Damaged { .. }) => {
                    tracing::error!(%why, %log, "part of a log is damaged: its rest is passed over");
                    return Ok(None);
                }
                Err(why) => return Err(why.into()),
            }
        }
    }

    fn tell_entries(&self, chunks: &[storage::Chunk], from: Offset, tell: &mut dyn FnMut(LedgerEntry)) {
        for chunk in chunks {
            let opened = self.formats.get(chunk.format).and_then(|format| {
                format.open(&chunk.units, chunk.first, &mut |offset, message| {
                    // The extent is served whole, with what was trimmed from it.
                    if offset >= from
                        && let Some(entry) = self.ledger.codec.decode(&message)
                    {
                        tell(entry);
                    }
                    ControlFlow::Continue(())
                })
            });
            if let Err(why) = opened {
                tracing::error!(%why, offset = %chunk.first, "a unit of the offsets topic cannot be read");
            }
        }
    }

    fn run_storage_jobs(&mut self) -> Result<(), StorageError> {
        while let Some(job) = self.storage.next_job() {
            self.storage.complete(job.run())?;
        }
        Ok(())
    }

    fn ledger_log(&self, partition: u32) -> Result<LogId, BrokerError> {
        let unknown = || BrokerError::UnknownPartition { topic: LEDGER_TOPIC.to_owned(), partition: Some(partition) };
        self.ledger.logs.get(partition as usize).copied().ok_or_else(unknown)
    }

    fn build_ledger(
        &self,
        log: LogId,
        first: Offset,
        messages: Vec<Message>,
        built: &mut Vec<Built>,
    ) -> Result<(), BrokerError> {
        let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        let numbered: Vec<(Offset, Message)> = (0u64..).map(|delta| first.plus(delta)).zip(messages).collect();
        let mut units = Vec::new();
        self.formats.get(self.ledger.codec.format())?.build(&numbered, &mut units)?;
        built.push(Built { target: Target { log, first }, units, count });
        Ok(())
    }

    fn commit_ledger(&mut self, built: &[Built], trims: &[(LogId, Offset)]) -> Result<Lsn, BrokerError> {
        let formats = std::sync::Arc::clone(&self.formats);
        let format = formats.get(self.ledger.codec.format())?;
        let at = self.now.wall;
        let append = built.iter().map(|one| Append {
            targets: std::slice::from_ref(&one.target),
            format,
            units: &one.units,
            last_delta: one.count.saturating_sub(1),
            count: one.count,
            time_max: at,
            stamp: Stamp { base: one.target.first, epoch: 0, at },
        });
        let appends: Vec<Append<'_>> = append.collect();
        // Groups and their offsets go on while the volume is full, or nobody could read what would make room.
        let batch = Batch { appends: &appends, trims, uses_reserve: true, ..Batch::default() };
        Ok(self.commit(&batch, SyncPolicy::None)?)
    }

    fn note_growth(&mut self, log: LogId) {
        let Some(partition) = self.ledger.logs.iter().position(|other| *other == log) else {
            return;
        };
        let length = self.ledger_length(partition as u32);
        if self.ledger.check_at.get(partition).is_some_and(|check_at| length > *check_at) {
            let partition = partition as u32;
            let is_known = self.ledger.rewriting.as_ref().is_some_and(|rewriting| rewriting.partition == partition);
            if !is_known && !self.ledger.grown.contains(&partition) {
                self.ledger.grown.push(partition);
            }
        }
    }

    fn make_ledger_topic(&mut self) -> Result<(), BrokerError> {
        let (tenant, name) = (Name::fixed(DEFAULT_TENANT), Name::fixed(LEDGER_TOPIC));
        let config = [("cleanup.policy", "compact"), ("segment.bytes", "104857600")];
        let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let (info, _) = self.make_topic(&tenant, &name, LEDGER_PARTITIONS, config, true)?;
        self.ledger.set_logs(&info.partitions);
        Ok(())
    }
}
