//! Every disk call of a scripted life fails once, in every way; every stop is survived.

use std::sync::Arc;

use crate::common::oracle::{Change, Pair, observe, same};
use crate::common::tiny;
use storage::sim_disk::{Fault, run_jobs};
use storage::{Lsn, Owner, SimDisk, Storage, StorageError, SyncPolicy};

// A life of a few files: small and large appends, fanouts, trims, drops, state, settling all the while.
fn turn(pair: &mut Pair, n: u64) -> Result<(), StorageError> {
    let content = |bytes: usize| vec![n as u8; bytes];
    let log = n % 5;
    // Many small ones share a pack and are gone some turns later; what lives among them is merged.
    let small = |n: u64| (0..4).map(move |k| 10 + (4 * n + k) % 48);
    let mut changes = vec![Change::Put(vec![(log, 0)], vec![content(20), content(1000)], n as i64)];
    changes.extend(small(n).map(|log| Change::Put(vec![(log, 0)], vec![content(2500)], n as i64)));
    if n >= 12 {
        changes.extend(small(n - 12).map(|log| Change::Trim(log, pair.model.logs.get(&log).map_or(0, |log| log.end))));
    }
    pair.commit(&changes, SyncPolicy::Sync)?;
    pair.commit(
        &[
            Change::Put(vec![(log, 0), (6, n % 3)], vec![content(700)], n as i64),
            Change::Delta(Owner { kind: 1, id: log }, content(9)),
        ],
        SyncPolicy::None,
    )?;
    match n % 7 {
        3 => drop(pair.commit(&[Change::Trim(log, n)], SyncPolicy::None)?),
        5 => drop(pair.commit(&[Change::Snapshot(Owner { kind: 1, id: log }, content(30))], SyncPolicy::Sync)?),
        6 => {
            pair.commit(&[Change::Put(vec![(100 + n, 0)], vec![content(10)], 0)], SyncPolicy::Sync)?;
            pair.commit(&[Change::Drop(100 + n)], SyncPolicy::None)?;
        }
        _ => {}
    }
    pair.storage.flush()?;
    run_jobs(&mut pair.storage)?;
    Ok(())
}

const TURNS: u64 = 30;

fn calls_of_the_life() -> u64 {
    let mut pair = Pair::new();
    (0..TURNS).for_each(|n| turn(&mut pair, n).unwrap());
    assert!(pair.storage.stats().settled_bytes > 0, "the life settles");
    assert!(pair.storage.stats().segments > 1 && pair.storage.stats().merges > 0);
    pair.disk.calls().all
}

// Lives until the first error that ends it; `Full` is only skipped.
fn live_with_fault(at: u64, fault: Fault) -> Option<Pair> {
    let disk = SimDisk::new();
    disk.fail_at(at, fault);
    let storage = Storage::open(Arc::new(disk.clone()), tiny());
    let Ok((storage, _)) = storage else {
        let disk = disk.kill();
        let (_, recovered) = Storage::open(Arc::new(disk), tiny()).expect("a failed start is no obstacle to the next");
        assert_eq!(recovered.logs, []);
        return None;
    };
    let mut pair = Pair { disk, storage, ..Pair::new() };
    for n in 0..TURNS {
        match turn(&mut pair, n) {
            // After a moment without space, settling waits for some entries: too long, perhaps, for so small a window.
            Ok(()) | Err(StorageError::Behind { .. }) => {}
            Err(StorageError::Full { .. }) => pair.storage.look_for_space(),
            Err(StorageError::Closed(_)) => {
                let again = pair.commit(&[Change::Drop(77)], SyncPolicy::None);
                assert!(matches!(again, Err(StorageError::Closed(_))), "closed is for ever: {again:?}");
                assert!(matches!(pair.storage.flush(), Err(StorageError::Closed(_))));
                assert!(pair.storage.failure().is_some());
                break;
            }
            Err(error) => panic!("call {at}: {error}"),
        }
    }
    Some(pair)
}

fn stop_and_go_on(pair: &mut Pair, disk: SimDisk, promised: Lsn) {
    pair.reopen(disk, promised);
    // What recovery found is durable from now on, and life goes on behind it.
    let disk = pair.disk.crash(5);
    pair.history.iter_mut().for_each(|(lsn, _)| *lsn = Lsn(0));
    pair.reopen(disk, Lsn(0));
    // A window that had no space to settle is settled first.
    pair.storage.flush().unwrap();
    run_jobs(&mut pair.storage).unwrap();
    for n in 0..3 {
        turn(pair, n).unwrap();
    }
    pair.storage.flush().unwrap();
    run_jobs(&mut pair.storage).unwrap();
    pair.reopen(pair.disk.crash(9), pair.storage.progress().synced);
}

#[test]
fn death_at_every_call_loses_nothing_promised() {
    for at in 1..=calls_of_the_life() {
        for seed in 0..3 {
            let Some(mut pair) = live_with_fault(at, Fault::Death) else { continue };
            let progress = pair.storage.progress();
            let (disk, promised) = if seed == 0 {
                (pair.disk.kill(), progress.written)
            } else {
                (pair.disk.crash(seed * at), progress.synced)
            };
            stop_and_go_on(&mut pair, disk, promised);
        }
    }
}

#[test]
fn an_error_at_every_call_loses_nothing_promised() {
    for at in 1..=calls_of_the_life() {
        for fault in [Fault::Eio, Fault::Enospc, Fault::Short] {
            let Some(mut pair) = live_with_fault(at, fault) else { continue };
            let progress = pair.storage.progress();
            let (disk, promised) =
                if at % 2 == 0 { (pair.disk.kill(), progress.written) } else { (pair.disk.crash(at), progress.synced) };
            stop_and_go_on(&mut pair, disk, promised);
        }
    }
}

#[test]
fn a_start_may_itself_be_killed_at_every_call() {
    let calls = calls_of_the_life();
    for at in (calls / 3..calls).step_by(11) {
        let Some(pair) = live_with_fault(at, Fault::Death) else { continue };
        let image = pair.disk.crash(at);
        let promised = pair.storage.progress().synced;
        for call in 1.. {
            let disk = image.kill();
            disk.fail_at(call, Fault::Death);
            // It goes on with what was under way: settling, merging, its checkpoint, removals.
            if let Ok((mut storage, _)) = Storage::open(Arc::new(disk.clone()), tiny()) {
                let _ = run_jobs(&mut storage);
            }
            let done = disk.calls().all < call;
            let mut again = Pair { history: pair.history.clone(), ..Pair::new() };
            again.reopen(disk.crash(call + at), promised);
            if done {
                break;
            }
        }
    }
}

#[test]
fn a_thousand_power_cuts_lose_nothing_synced() {
    let mut pair = Pair::new();
    for seed in 0..1000u64 {
        for n in 0..3 {
            let n = seed + n;
            let content = vec![n as u8; (n * 37 % 900) as usize];
            let policy = if n % 3 == 0 { SyncPolicy::Sync } else { SyncPolicy::None };
            let put = Change::Put(vec![(n % 4, 0)], vec![content], 0);
            let changes = [put, Change::Trim(n % 4, (n / 4).saturating_sub(12))];
            pair.commit(&changes, policy).unwrap();
            pair.storage.flush().unwrap();
            // Half of the cuts come while a job is running.
            if seed % 2 == 0 {
                run_jobs(&mut pair.storage).unwrap();
            } else if let Some(job) = pair.storage.next_job() {
                pair.storage.complete(job.run()).unwrap();
            }
        }
        let disk = pair.disk.crash(seed);
        pair.reopen(disk, pair.storage.progress().synced);
    }
}

#[test]
fn a_full_disk_refuses_appends_takes_deletes_and_heals() {
    let disk = SimDisk::new();
    disk.set_capacity(1 << 20);
    let options = storage::Options { reserve_bytes: 256 << 10, ..tiny() };
    let (storage, _) = Storage::open(Arc::new(disk.clone()), options.clone()).unwrap();
    let mut pair = Pair { disk: disk.clone(), storage, ..Pair::new() };
    let put = |pair: &mut Pair| {
        let outcome = pair.commit(&[Change::Put(vec![(1, 0)], vec![vec![1; 5000]], 0)], SyncPolicy::Sync);
        pair.storage.flush().unwrap();
        run_jobs(&mut pair.storage).unwrap();
        outcome
    };
    let refused = (0..1000).find_map(|_| put(&mut pair).err()).expect("the disk is full at last");
    assert!(matches!(refused, StorageError::Full { .. }), "{refused}");
    pair.check_all();
    for n in 0..100u64 {
        pair.commit(&[Change::Delta(Owner { kind: 1, id: n }, vec![0; 20])], SyncPolicy::Sync).unwrap();
        pair.storage.flush().unwrap();
        run_jobs(&mut pair.storage).unwrap();
    }
    let end = pair.model.logs[&1].end;
    pair.commit(&[Change::Trim(1, end)], SyncPolicy::Sync).unwrap();
    pair.storage.flush().unwrap();
    run_jobs(&mut pair.storage).unwrap();
    put(&mut pair).expect("it heals alone");
    let (mut again, recovered) = Storage::open(Arc::new(disk.kill()), options).unwrap();
    assert!(same(&observe(&mut again, &recovered), &pair.model));
}
