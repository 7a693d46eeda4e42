//! Compaction against a plain model: whatever is written, rolled, trimmed, settled, merged, killed and cut off, of
//! every key the last value stays, tombstones stay their days, offsets are what they were, and nothing comes back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::book::{Book, page, read};
use common::tiny;
use model::{Formats, LogId, Offset, Stamp, Wall};
use proptest::prelude::*;
use storage::sim_disk::{run_jobs, settle_down};
use storage::{
    Append, Batch, Chunk, CompactRequest, Job, LogRange, Read, ReadRequest, SimDisk, Storage, SyncPolicy, Target,
};

/// How long tombstones stay, in the model's time.
const DAYS: i64 = 10;

#[derive(Clone, Debug)]
enum Op {
    /// To a log: keys, with whether each gets a value; how many turns' worth of padding goes to another log.
    Put(u64, Vec<(u8, bool)>, usize),
    Roll(u64),
    Trim(u64, u64),
    /// Begin to compact with room for so many keys.
    Compact(u64, usize),
    Step(u64),
    Time(i64),
    Flush,
    Job(usize),
    Jobs,
    Check,
    Kill,
    PowerCut(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let log = 0u64..2;
    let entries = prop::collection::vec((0u8..6, prop::bool::weighted(0.7)), 1..8);
    let padding = prop_oneof![3 => Just(0usize), 1 => 1usize..8];
    let keys = prop_oneof![4 => Just(10_000usize), 1 => 60usize..300];
    let put = (log.clone(), entries, padding);
    prop_oneof![
        12 => put.prop_map(|(log, entries, padding)| Op::Put(log, entries, padding)),
        5 => log.clone().prop_map(Op::Roll),
        1 => (log.clone(), 0u64..60).prop_map(|(log, before)| Op::Trim(log, before)),
        5 => (log, keys).prop_map(|(log, keys)| Op::Compact(log, keys)),
        12 => (1u64..4000).prop_map(Op::Step),
        2 => (0i64..15).prop_map(Op::Time),
        6 => Just(Op::Flush),
        8 => any::<usize>().prop_map(Op::Job),
        5 => Just(Op::Jobs),
        2 => Just(Op::Check),
        1 => Just(Op::Kill),
        1 => any::<u64>().prop_map(Op::PowerCut),
    ]
}

/// A message as written, and when.
type Written = (u8, Option<u32>, i64);

struct Life {
    disk: SimDisk,
    storage: Storage,
    formats: Arc<Formats>,
    now: i64,
    next: u32,
    /// By log and offset: everything ever written.
    written: [BTreeMap<u64, Written>; 2],
    /// Ends of the logs that are safe from a kill, and from a power cut.
    waiting: Vec<Job>,
}

impl Life {
    fn new() -> Life {
        let disk = SimDisk::new();
        let (storage, _) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
        let mut formats = Formats::default();
        formats.add(Box::new(Book));
        let written = [BTreeMap::new(), BTreeMap::new()];
        Life { disk, storage, formats: Arc::new(formats), now: 100, next: 0, written, waiting: Vec::new() }
    }

    fn range(&self, log: u64) -> LogRange {
        self.storage.range(LogId(log)).unwrap_or(LogRange { start: Offset(0), end: Offset(0) })
    }

    fn put(&mut self, log: u64, entries: &[(u8, bool)], padding: usize) {
        let end = self.range(log).end;
        let mut page_entries = Vec::new();
        for (delta, (key, has_value)) in entries.iter().enumerate() {
            let value = has_value.then_some(self.next);
            self.next += 1;
            page_entries.push((delta as u32, *key, value));
            self.written[log as usize].insert(end.0 + delta as u64, (*key, value, self.now));
        }
        let units = page(&page_entries);
        let append = |target, units| Append {
            targets: target,
            format: &Book,
            units,
            last_delta: entries.len() as u32 - 1,
            count: entries.len() as u32,
            time_max: Wall(self.now),
            stamp: Stamp { base: Offset(0), epoch: 0, at: Wall(0) },
        };
        let own = [Target { log: LogId(log), first: end }];
        self.storage.commit(&Batch { appends: &[append(&own, &units)], ..Batch::default() }, SyncPolicy::Sync).unwrap();
        if padding > 0 {
            let contents = vec![vec![7u8; 3500]; padding];
            let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            common::put(&mut self.storage, &[9], &contents, SyncPolicy::None).unwrap();
            let end = self.range(9).end;
            self.storage.commit(&Batch { trims: &[(LogId(9), end)], ..Batch::default() }, SyncPolicy::None).unwrap();
        }
    }

    fn compact(&mut self, log: u64, keys_bytes_max: usize) {
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

    fn collect(&mut self) {
        while let Some(job) = self.storage.next_job() {
            self.waiting.push(job);
        }
    }

    fn run_waiting(&mut self) {
        self.collect();
        for job in std::mem::take(&mut self.waiting) {
            self.storage.complete(job.run()).unwrap();
        }
    }

    fn reopen(&mut self, disk: SimDisk) {
        self.waiting.clear();
        let (storage, recovered) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
        assert_eq!(recovered.damage, [], "a stop damages nothing");
        (self.storage, self.disk) = (storage, disk);
        for log in 0..2 {
            let end = self.range(log).end;
            self.written[log as usize].split_off(&end.0);
        }
    }

    fn read(&mut self, log: u64) -> BTreeMap<u64, (u8, Option<u32>)> {
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

    fn check(&mut self) {
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

fn live(ops: &[Op], misses: u64) {
    let mut life = Life::new();
    life.disk.set_cache_misses(misses);
    for op in ops {
        life.collect();
        match op {
            Op::Put(log, entries, padding) => life.put(*log, entries, *padding),
            Op::Roll(log) => {
                let rolls = [(LogId(*log), life.range(*log).end)];
                life.storage.commit(&Batch { rolls: &rolls, ..Batch::default() }, SyncPolicy::None).unwrap();
            }
            Op::Trim(log, before) => {
                let before = Offset(*before).min(life.range(*log).end);
                let trims = [(LogId(*log), before)];
                life.storage.commit(&Batch { trims: &trims, ..Batch::default() }, SyncPolicy::None).unwrap();
            }
            Op::Compact(log, keys) => life.compact(*log, *keys),
            Op::Step(bytes) => life.storage.step_compaction(*bytes),
            Op::Time(passed) => life.now += passed,
            Op::Flush => drop(life.storage.flush().unwrap()),
            Op::Job(which) if !life.waiting.is_empty() => {
                let job = life.waiting.swap_remove(which % life.waiting.len());
                life.storage.complete(job.run()).unwrap();
            }
            Op::Jobs => life.run_waiting(),
            Op::Check => {
                life.run_waiting();
                life.check();
            }
            Op::Kill => {
                let disk = life.disk.kill();
                life.reopen(disk);
                life.check();
            }
            Op::PowerCut(seed) => {
                let disk = life.disk.crash(*seed);
                life.reopen(disk);
                life.check();
            }
            Op::Job(_) => {}
        }
    }
    life.run_waiting();
    settle_down(&mut life.storage).unwrap();
    finish(&mut life);
}

// Compacts all to the end, twice with days between, and looks that nothing is left that could go.
fn finish(life: &mut Life) {
    for log in 0..2u64 {
        let rolls = [(LogId(log), life.range(log).end)];
        life.storage.commit(&Batch { rolls: &rolls, ..Batch::default() }, SyncPolicy::Sync).unwrap();
        for _ in 0..2 {
            while life.storage.compaction().is_some() {
                step(life);
            }
            life.storage.take_compacted();
            life.now += DAYS + 1;
            // It may have to be tried again: what settles meanwhile can be overwritten while it is read.
            for _ in 0..5 {
                if life.storage.take_compacted().is_some_and(|done| done.is_done) {
                    break;
                }
                life.compact(log, 10_000);
                while life.storage.compaction().is_some() {
                    step(life);
                }
            }
        }
        life.check();
        let held = life.read(log);
        let keys: std::collections::BTreeSet<u8> = held.values().map(|(key, _)| *key).collect();
        assert!(held.values().all(|(_, value)| value.is_some()), "tombstones are left: {held:?}");
        assert_eq!(keys.len(), held.len(), "a key is left twice: {held:?}");
    }
    let before: Vec<_> = (0..2).map(|log| life.read(log)).collect();
    settle_down(&mut life.storage).unwrap();
    let disk = life.disk.crash(5);
    life.reopen(disk);
    let after: Vec<_> = (0..2).map(|log| life.read(log)).collect();
    assert_eq!(before, after, "what was compacted stays so");
}

fn step(life: &mut Life) {
    life.storage.step_compaction(1000);
    life.storage.flush().unwrap();
    run_jobs(&mut life.storage).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_key_keeps_its_last_value_whatever_happens(ops in prop::collection::vec(op(), 1..200), misses in 0u64..3) {
        live(&ops, misses);
    }
}
