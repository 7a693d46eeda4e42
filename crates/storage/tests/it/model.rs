//! Random lives of a storage against the model: commits, flushes, jobs in any order, settling with tiny files, reads,
//! kills and power cuts.

use crate::common::oracle::{Change, Pair};
use proptest::prelude::*;
use storage::{Job, Owner, StorageError, SyncPolicy};

#[derive(Clone, Debug)]
enum Op {
    Commit(Vec<Change>, bool),
    Flush,
    /// Run one of the waiting jobs.
    Job(usize),
    Jobs,
    Check,
    Time(u64, i64),
    Kill,
    PowerCut(u64),
    RequestSync,
    /// A moment has passed.
    Tick,
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (any::<u8>(), 0usize..40).prop_map(|(byte, count)| vec![byte; count]),
        1 => (any::<u8>(), 500usize..6000).prop_map(|(byte, count)| vec![byte; count]),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let owner = (0u8..2, 0u64..3).prop_map(|(kind, id)| Owner { kind, id });
    let targets = prop::collection::btree_map(0u64..6, prop_oneof![9 => Just(0u64), 1 => 1u64..50], 1..4);
    let put = (targets, prop::collection::vec(content(), 1..6), 0i64..1000)
        .prop_map(|(targets, contents, time)| Change::Put(targets.into_iter().collect(), contents, time));
    prop_oneof![
        12 => put,
        2 => (0u64..6, 0u64..200).prop_map(|(log, before)| Change::Trim(log, before)),
        2 => (0u64..6).prop_map(Change::Roll),
        1 => (0u64..6).prop_map(Change::Drop),
        1 => (owner.clone(), content()).prop_map(|(owner, content)| Change::Snapshot(owner, content)),
        3 => (owner.clone(), content()).prop_map(|(owner, content)| Change::Delta(owner, content)),
        1 => owner.prop_map(Change::Forget),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (prop::collection::vec(change(), 1..4), any::<bool>())
            .prop_map(|(changes, sync)| Op::Commit(changes, sync)),
        10 => Just(Op::Flush),
        10 => any::<usize>().prop_map(Op::Job),
        3 => Just(Op::Jobs),
        1 => Just(Op::Check),
        1 => (0u64..6, 0i64..1000).prop_map(|(log, time)| Op::Time(log, time)),
        1 => Just(Op::Kill),
        1 => any::<u64>().prop_map(Op::PowerCut),
        1 => Just(Op::RequestSync),
        2 => Just(Op::Tick),
    ]
}

// A batch has its order: rolls, appends, trims, drops, state. Dropped ids are never used again: slots have generations.
fn arrange(changes: &[Change], ids: &[u64; 6]) -> Vec<Change> {
    let mut changes: Vec<Change> = changes
        .iter()
        .cloned()
        .map(|change| match change {
            Change::Put(targets, contents, time) => {
                Change::Put(targets.into_iter().map(|(slot, gap)| (ids[slot as usize], gap)).collect(), contents, time)
            }
            Change::Trim(slot, before) => Change::Trim(ids[slot as usize], before),
            Change::Roll(slot) => Change::Roll(ids[slot as usize]),
            Change::Drop(slot) => Change::Drop(ids[slot as usize]),
            other => other,
        })
        .collect();
    changes.sort_by_key(|change| match change {
        Change::Roll(_) => 0,
        Change::Put(..) => 1,
        Change::Trim(..) => 2,
        Change::Drop(..) => 3,
        _ => 4,
    });
    changes
}

fn live(ops: &[Op], misses: u64) {
    let mut pair = Pair::new();
    pair.disk.set_cache_misses(misses);
    let mut ids = [0, 1, 2, 3, 4, 5];
    let mut waiting: Vec<Job> = Vec::new();
    for op in ops {
        while let Some(job) = pair.storage.next_job() {
            waiting.push(job);
        }
        match op {
            Op::Commit(changes, sync) => {
                let policy = if *sync { SyncPolicy::Sync } else { SyncPolicy::None };
                let changes = arrange(changes, &ids);
                match pair.commit(&changes, policy) {
                    Ok(_) => {}
                    // More than one tiny journal file holds: refused whole, which the next check will show.
                    Err(StorageError::TooLarge { .. }) => continue,
                    Err(error) => panic!("{error}"),
                }
                for change in changes {
                    if let Change::Drop(id) = change {
                        ids[(id % 6) as usize] = id + 6;
                    }
                }
            }
            Op::Flush => drop(pair.storage.flush().unwrap()),
            Op::Job(which) if !waiting.is_empty() => {
                let job = waiting.swap_remove(which % waiting.len());
                pair.storage.complete(job.run()).unwrap();
            }
            Op::Jobs => {
                for job in waiting.drain(..) {
                    pair.storage.complete(job.run()).unwrap();
                }
            }
            Op::Check if waiting.is_empty() => pair.check_all(),
            Op::Time(slot, time) if waiting.is_empty() => pair.check_time(ids[*slot as usize], *time),
            Op::Kill => {
                waiting.clear();
                pair.reopen(pair.disk.kill(), pair.storage.progress().written);
                ids = ids.map(|id| id + 60); // whatever was dropped, its id stays unused
            }
            Op::PowerCut(seed) => {
                waiting.clear();
                pair.reopen(pair.disk.crash(*seed), pair.storage.progress().synced);
                ids = ids.map(|id| id + 60);
            }
            Op::RequestSync => pair.storage.request_sync(),
            Op::Tick => pair.storage.tick().unwrap(),
            Op::Job(_) | Op::Check | Op::Time(..) => {}
        }
    }
    for job in waiting.drain(..) {
        pair.storage.complete(job.run()).unwrap();
    }
    storage::sim_disk::settle_down(&mut pair.storage).unwrap();
    pair.check_all();
    pair.reopen(pair.disk.crash(1), pair.storage.progress().synced);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_life_keeps_its_promises(ops in prop::collection::vec(op(), 1..250), misses in 0u64..3) {
        live(&ops, misses);
    }
}
