//! Places that the disk does not give any more, start after start: they alone are off line, and named; what was
//! acknowledged behind them is there, writing goes on, and the file is kept for people.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{put, read_from, tiny};
use model::{LogId, Offset};
use storage::sim_disk::{run_jobs, settle_down};
use storage::{Disk, SimDisk, Storage, StorageError, SyncPolicy};

const FIRST: &str = "journal/00000000000000000001";
const LOGS: u64 = 3;

// Messages of 700 bytes, dealt to the logs in turn, an entry each.
fn fill(storage: &mut Storage, messages: std::ops::Range<u64>, policy: SyncPolicy) {
    for n in messages {
        put(storage, &[n % LOGS], &[&[n as u8; 700]], policy).unwrap();
        storage.flush().unwrap();
        if policy == SyncPolicy::Sync {
            run_jobs(storage).unwrap();
        }
    }
}

fn open(disk: &SimDisk) -> Storage {
    Storage::open(Arc::new(disk.clone()), tiny()).unwrap().0
}

// All that can be read, as the numbers of the messages.
fn readable(storage: &mut Storage) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for log in 0..LOGS {
        let Some(range) = storage.range(LogId(log)) else { continue };
        let mut from = range.start;
        while from < range.end {
            let (messages, error) = read_from(storage, log, from.0);
            for (offset, content) in messages {
                assert_eq!(content, vec![(offset * LOGS + log) as u8; 700], "log {log} at {offset}");
                found.insert(offset * LOGS + log);
                from = Offset(offset + 1);
            }
            match error {
                Some(StorageError::Damaged { .. }) => from = storage.after_damage(LogId(log), from),
                // Read as it lies in the window: another try may bring it.
                Some(StorageError::Disk { .. }) => from = from.plus(1),
                Some(error) => panic!("{error}"),
                None => break,
            }
        }
    }
    found
}

#[test]
fn a_bad_sector_in_the_window_costs_what_lies_in_it_at_every_start() {
    for policy in [SyncPolicy::Sync, SyncPolicy::None] {
        for at in (4096..36_000).step_by(1900) {
            let disk = SimDisk::new();
            let mut storage = open(&disk);
            fill(&mut storage, 0..40, policy);
            drop(storage);
            let mut disk = disk.kill();
            disk.make_unreadable(FIRST, at..at + 512);
            let mut written = 40;
            for start in 0..3 {
                let mut storage = open(&disk);
                let is_named = storage.damage().iter().any(|damage| damage.file == FIRST);
                assert!(is_named || !disk.names().iter().any(|name| name == FIRST), "start {start}: it is named");
                let there = readable(&mut storage);
                let lost = written - there.len() as u64;
                // Two pages of 4 KiB at most, and the entries that reach into them.
                assert!(lost <= 11, "start {start}, bad at {at}: {lost} of {written} are off line");
                assert!((40..written).all(|n| there.contains(&n)), "what was written since is there");
                // The offsets of what is off line are not given again, if anybody knows of them.
                let next = (0..LOGS).map(|log| storage.range(LogId(log)).unwrap().end.0).min().unwrap();
                assert!(next + 3 >= written / LOGS);
                if at < 30_000 {
                    fill(&mut storage, written..written + 6, policy);
                    written += 6;
                }
                drop(storage);
                disk = disk.kill();
            }
        }
    }
}

#[test]
fn settling_passes_over_what_the_disk_does_not_give_and_keeps_the_file() {
    let disk = SimDisk::new();
    let mut storage = open(&disk);
    fill(&mut storage, 0..60, SyncPolicy::Sync);
    disk.make_unreadable(FIRST, 20_000..20_512);
    fill(&mut storage, 60..600, SyncPolicy::Sync);
    settle_down(&mut storage).unwrap();
    assert!(storage.failure().is_none() && storage.stats().settles > 2, "{:?}", storage.stats());
    let named = storage.damage().iter().find(|damage| damage.file == FIRST).expect("it is named");
    assert!(named.at <= 20_512 && named.at + named.bytes >= 20_000 && !named.logs.is_empty(), "{named:?}");
    let names = disk.names();
    assert!(names.iter().any(|name| *name == format!("{FIRST}.unreadable")), "{names:?}");
    let there = readable(&mut storage);
    assert!((597..600).contains(&there.len()), "{} of 600", there.len());
    drop(storage);
    let mut storage = open(&disk.kill());
    assert_eq!(readable(&mut storage), there);
}

#[test]
fn a_disk_that_gives_nothing_is_no_bad_sector() {
    let disk = SimDisk::new();
    let mut storage = open(&disk);
    fill(&mut storage, 0..40, SyncPolicy::Sync);
    drop(storage);
    let disk = disk.kill();
    disk.make_unreadable(FIRST, 0..1 << 20);
    assert!(matches!(Storage::open(Arc::new(disk.clone()), tiny()), Err(StorageError::Disk { .. })));
    assert!(disk.list("journal").unwrap().len() > 1, "nothing is removed");
}
