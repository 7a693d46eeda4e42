//! Logs that are compacted, beside a plain model of what was written to them: of every key the last value stays,
//! tombstones stay their days, offsets are what they were, and nothing comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Formats, LogId, Offset, Stamp, Wall};
use storage::sim_disk::run_jobs;
use storage::{
    Append, Batch, Chunk, CompactRequest, Job, LogRange, Read, ReadRequest, SimDisk, Storage, StorageError, SyncPolicy,
    Target,
};

use super::book::{Book, page, read};
use super::tiny;

/// How long tombstones stay, in the model's time.
pub const DAYS: i64 = 10;

/// A message as written, and when.
type Written = (u8, Option<u32>, i64);

/// A storage of two logs that are compacted (0 and 1) and one of padding (9).
pub struct Life {
    pub disk: SimDisk,
    pub storage: Storage,
    pub formats: Arc<Formats>,
    pub now: i64,
    pub next: u32,
    /// By log and offset: everything ever written.
    pub written: [BTreeMap<u64, Written>; 2],
    /// Jobs that wait to be run.
    pub waiting: Vec<Job>,
}

impl Life {
    pub fn new() -> Life {
        let disk = SimDisk::new();
        let (storage, _) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
        let mut formats = Formats::default();
        formats.add(Box::new(Book));
        let written = [BTreeMap::new(), BTreeMap::new()];
        Life { disk, storage, formats: Arc::new(formats), now: 100, next: 0, written, waiting: Vec::new() }
    }

    pub fn range(&self, log: u64) -> LogRange {
        self.storage.range(LogId(log)).unwrap_or(LogRange { start: Offset(0), end: Offset(0) })
    }

    /// Appends a batch of keys, with a value or not, and so many turns' worth of padding to another log.
    pub fn put(&mut self, log: u64, entries: &[(u8, bool)], padding: usize) -> Result<(), StorageError> {
        let end = self.range(log).end;
        let mut written = Vec::new();
        for (delta, (key, has_value)) in entries.iter().enumerate() {
            written.push((delta as u32, *key, has_value.then_some(self.next)));
            self.next += 1;
        }
        let units = page(&written);
        let own = [Target { log: LogId(log), first: end }];
        let append = Append {
            targets: &own,
            format: &Book,
            units: &units,
            last_delta: entries.len() as u32 - 1,
            count: entries.len() as u32,
            time_max: Wall(self.now),
            stamp: Stamp { base: Offset(0), epoch: 0, at: Wall(0) },
        };
        let batch = Batch { appends: &[append], ..Batch::default() };
        self.storage.commit(&batch, SyncPolicy::Sync)?;
        let written = written.iter().map(|(delta, key, value)| (end.0 + u64::from(*delta), (*key, *value, self.now)));
        self.written[log as usize].extend(written);
        if padding > 0 {
            let contents = vec![vec![7u8; 3500]; padding];
            let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            super::put(&mut self.storage, &[9], &contents, SyncPolicy::None)?;
            let trims = [(LogId(9), self.range(9).end)];
            self.storage.commit(&Batch { trims: &trims, ..Batch::default() }, SyncPolicy::None)?;
        }
        Ok(())
    }

    pub fn compact(&mut self, log: u64, keys_bytes_max: usize) {
        let upto = self.storage.active_segment(LogId(log)).map_or(Offset(0), |active| active.first);
        self.storage.begin_compaction(CompactRequest {
            log: LogId(log),
            upto,
            formats: Arc::clone(&self.formats),
            now: Wall(self.now),
            tombstones_until: Wall(self.now + DAYS),
            segment_bytes: 400,
            keys_bytes_max,
        });
    }

    pub fn collect(&mut self) {
        while let Some(job) = self.storage.next_job() {
            self.waiting.push(job);
        }
    }

    pub fn run_waiting(&mut self) -> Result<(), StorageError> {
        self.collect();
        for job in std::mem::take(&mut self.waiting) {
            self.storage.complete(job.run())?;
        }
        Ok(())
    }

    pub fn reopen(&mut self, disk: SimDisk) {
        self.waiting.clear();
        let (storage, recovered) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
        assert_eq!(recovered.damage, [], "a stop damages nothing");
        (self.storage, self.disk) = (storage, disk);
        for log in 0..2 {
            let end = self.range(log).end;
            self.written[log as usize].split_off(&end.0);
        }
    }

    pub fn read(&mut self, log: u64) -> BTreeMap<u64, (u8, Option<u32>)> {
        let LogRange { start, end } = self.range(log);
        let (mut from, mut all) = (start, BTreeMap::new());
        while from < end {
            let request = ReadRequest { log: LogId(log), from, until: end, bytes_max: 500 };
            let chunks: Vec<Chunk> = match self.storage.read(&request).unwrap() {
                Read::Ready(chunks) => chunks,
                Read::Pending(_) => {
                    run_jobs(&mut self.storage).unwrap();
                    continue;
                }
            };
            let asked = from;
            let Some(last) = chunks.last() else { break };
            from = last.last.plus(1);
            for chunk in &chunks {
                for (offset, key, value) in read(&chunk.units, chunk.first) {
                    assert!(chunk.first.0 <= offset && offset <= chunk.last.0);
                    // What was settled meanwhile may lie in another extent, which begins before.
                    if offset >= asked.0 {
                        assert_eq!(all.insert(offset, (key, value)), None, "offset {offset} twice");
                    }
                }
            }
        }
        all
    }

    pub fn check(&mut self) {
        for log in 0..2u64 {
            let held = self.read(log);
            let start = self.range(log).start.0;
            let written = &self.written[log as usize];
            for (offset, message) in &held {
                let (key, value, _) = written[offset];
                assert_eq!((key, value), *message, "what is at an offset never changes");
            }
            let mut last: BTreeMap<u8, u64> = BTreeMap::new();
            last.extend(written.range(start..).map(|(offset, (key, ..))| (*key, *offset)));
            for (key, offset) in last {
                let (_, value, at) = written[&offset];
                if held.contains_key(&offset) {
                    continue;
                }
                assert!(value.is_none(), "the last value of {key}, at {offset} of log {log}, is lost");
                assert!(self.now > at + DAYS, "a tombstone went before its days were over");
                let earlier = held.range(..offset).find(|(_, (other, _))| *other == key);
                assert_eq!(earlier, None, "a key comes back though its tombstone is gone");
            }
        }
    }
}
