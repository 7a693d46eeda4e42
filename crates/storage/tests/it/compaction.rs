//! Compaction against a plain model: whatever is written, rolled, trimmed, settled, merged, killed and cut off, of
//! every key the last value stays, tombstones stay their days, offsets are what they were, and nothing comes back.

use crate::common::life::{DAYS, Life};
use model::{LogId, Offset};
use proptest::prelude::*;
use storage::sim_disk::{run_jobs, settle_down};
use storage::{Batch, SyncPolicy};

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

fn live(ops: &[Op], misses: u64) {
    let mut life = Life::new();
    life.disk.set_cache_misses(misses);
    for op in ops {
        life.collect();
        match op {
            Op::Put(log, entries, padding) => life.put(*log, entries, *padding).unwrap(),
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
            Op::Jobs => life.run_waiting().unwrap(),
            Op::Check => {
                life.run_waiting().unwrap();
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
    life.run_waiting().unwrap();
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
