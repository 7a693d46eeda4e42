//! Every disk call of a life with compaction, retention, rolls, settling, merges and checkpoints fails once, in every
//! way: of every key the last value stays, and what a finished pass has removed does not come back.

use std::sync::Arc;

use crate::common::life::{DAYS, Life};
use crate::common::tiny;
use model::{LogId, Offset};
use storage::sim_disk::{Fault, run_jobs};
use storage::{Batch, SimDisk, Storage, StorageError, SyncPolicy};

const TURNS: u64 = 26;

// A turn; afterwards all of it is synced.
fn turn(life: &mut Life, n: u64) -> Result<(), StorageError> {
    let log = n % 2;
    let keys: Vec<(u8, bool)> = (0..4).map(|k| (((n + k) % 5) as u8, !(n + k).is_multiple_of(4))).collect();
    life.put(log, &keys, 5)?;
    if n % 3 == 2 {
        let rolls: Vec<(LogId, Offset)> = (0..2).map(|log| (LogId(log), life.range(log).end)).collect();
        life.storage.commit(&Batch { rolls: &rolls, ..Batch::default() }, SyncPolicy::Sync)?;
    }
    // Retention: the oldest segment goes whole.
    if n % 11 == 10
        && let Some(oldest) = life.storage.log_segments(LogId(log)).first().filter(|segment| !segment.is_active)
    {
        let trims = [(LogId(log), oldest.end)];
        life.storage.commit(&Batch { trims: &trims, ..Batch::default() }, SyncPolicy::Sync)?;
    }
    if n % 4 == 3 && life.storage.compaction().is_none() {
        life.storage.take_compacted();
        life.compact(n / 4 % 2, 10_000);
    }
    life.now += DAYS / 3;
    life.storage.step_compaction(100_000);
    life.storage.flush()?;
    run_jobs(&mut life.storage)?;
    life.storage.step_compaction(100_000);
    life.storage.flush()?;
    run_jobs(&mut life.storage)?;
    Ok(())
}

fn ends(life: &Life) -> [Offset; 2] {
    [life.range(0).end, life.range(1).end]
}

// Lives until an error ends it; answers how far all was acknowledged.
fn live(life: &mut Life) -> [Offset; 2] {
    let mut acknowledged = [Offset(0); 2];
    for n in 0..TURNS {
        match turn(life, n) {
            Ok(()) => acknowledged = ends(life),
            Err(StorageError::Full { .. }) => life.storage.look_for_space(),
            Err(StorageError::Behind { .. }) => {}
            Err(StorageError::Closed(_)) => break,
            Err(why) => panic!("{why}"),
        }
    }
    acknowledged
}

fn born(disk: &SimDisk) -> Option<Life> {
    let (storage, _) = Storage::open(Arc::new(disk.clone()), tiny()).ok()?;
    Some(Life { disk: disk.clone(), storage, ..Life::new() })
}

fn calls_of_the_life() -> u64 {
    let disk = SimDisk::new();
    let mut life = born(&disk).unwrap();
    live(&mut life);
    life.check();
    let stats = life.storage.stats();
    let calls = disk.calls().all;
    let removed = life.written.iter().map(std::collections::BTreeMap::len).sum::<usize>()
        - (0..2).map(|log| life.read(log).len()).sum::<usize>();
    assert!(stats.settles > 1 && stats.checkpoints > 2 && removed > 30, "{removed} removed, {stats:?}");
    calls
}

fn go_on(life: &mut Life, disk: SimDisk, acknowledged: [Offset; 2]) {
    life.reopen(disk);
    let found = ends(life);
    assert!(found.iter().zip(&acknowledged).all(|(found, want)| found >= want), "{found:?} of {acknowledged:?}");
    life.check();
    // A window at its limit is settled from opening on: nobody has to write for that.
    run_jobs(&mut life.storage).unwrap();
    for n in TURNS..TURNS + 5 {
        turn(life, n).unwrap();
    }
    life.check();
}

#[test]
fn death_at_every_call_of_a_life_with_compaction_loses_no_last_value() {
    for at in 1..=calls_of_the_life() {
        for seed in 0..2 {
            let disk = SimDisk::new();
            disk.fail_at(at, Fault::Death);
            let Some(mut life) = born(&disk) else { continue };
            let acknowledged = live(&mut life);
            let image = if seed == 0 { disk.kill() } else { disk.crash(at) };
            go_on(&mut life, image, acknowledged);
        }
    }
}

#[test]
fn a_start_killed_at_any_call_after_a_life_with_compaction_is_made_again() {
    for at in (1..=calls_of_the_life()).rev().step_by(29) {
        let disk = SimDisk::new();
        disk.fail_at(at, Fault::Death);
        let Some(mut life) = born(&disk) else { continue };
        let acknowledged = live(&mut life);
        let written = life.written.clone();
        let image = disk.crash(at);
        for call in 1.. {
            // The start goes on with what was under way: settling, merging, its checkpoint, removals.
            let dying = image.kill();
            dying.fail_at(call, Fault::Death);
            if let Ok((mut storage, _)) = Storage::open(Arc::new(dying.clone()), tiny()) {
                let _ = run_jobs(&mut storage);
            }
            let done = dying.calls().all < call;
            life.written = written.clone();
            life.reopen(if call % 2 == 0 { dying.kill() } else { dying.crash(call + at) });
            let found = ends(&life);
            assert!(found.iter().zip(&acknowledged).all(|(found, want)| found >= want), "life {at}, start {call}");
            life.check();
            if done {
                break;
            }
        }
    }
}

#[test]
fn an_error_at_every_call_of_a_life_with_compaction_loses_no_last_value() {
    for at in 1..=calls_of_the_life() {
        for fault in [Fault::Eio, Fault::Enospc, Fault::Short] {
            let disk = SimDisk::new();
            disk.fail_at(at, fault);
            let Some(mut life) = born(&disk) else { continue };
            let acknowledged = live(&mut life);
            let image = if at % 2 == 0 { disk.kill() } else { disk.crash(at) };
            go_on(&mut life, image, acknowledged);
        }
    }
}

#[test]
fn what_a_finished_pass_removed_stays_removed_through_kills_and_power_cuts() {
    for seed in 0..200 {
        let disk = SimDisk::new();
        let mut life = born(&disk).unwrap();
        (0..8 + seed % 16).for_each(|n| turn(&mut life, n).unwrap());
        let held: Vec<_> = (0..2).map(|log| life.read(log)).collect();
        let image = if seed % 3 == 0 { disk.kill() } else { disk.crash(seed) };
        life.reopen(image);
        let found: Vec<_> = (0..2).map(|log| life.read(log)).collect();
        // The jobs that followed the pass have run, and with them its checkpoint.
        assert_eq!(found, held, "seed {seed}");
    }
}
