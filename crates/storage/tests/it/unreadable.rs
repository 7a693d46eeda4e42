//! Places that the disk does not give any more, start after start: they alone are off line, and named; what was
//! acknowledged behind them is there, writing goes on, and the file is kept for people.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{put, read_from, tiny};
use model::{LogId, Offset};
use storage::inspect::{Inspection, Repair};
use storage::sim_disk::{Fault, run_jobs, settle_down};
use storage::{Disk, SimDisk, Storage, StorageError, SyncPolicy};

pub const FIRST: &str = "journal/00000000000000000001";
pub const LOGS: u64 = 3;

// Messages of 700 bytes, dealt to the logs in turn, an entry each.
pub fn fill(storage: &mut Storage, messages: std::ops::Range<u64>, policy: SyncPolicy) {
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
pub fn readable(storage: &mut Storage) -> BTreeSet<u64> {
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

fn assert_kept(disk: &SimDisk, when: &str) {
    let names = disk.names();
    let is_kept = names.iter().any(|name| *name == FIRST || *name == format!("{FIRST}.unreadable"));
    assert!(is_kept, "{when}: {names:?}");
}

#[test]
fn a_file_with_a_bad_sector_is_kept_whenever_the_process_stops() {
    let mut stops = 0;
    for at in 1.. {
        let disk = SimDisk::new();
        let mut storage = open(&disk);
        fill(&mut storage, 0..60, SyncPolicy::Sync);
        disk.make_unreadable(FIRST, 20_000..20_512);
        fill(&mut storage, 60..120, SyncPolicy::Sync);
        disk.fail_at(disk.calls().all + at, Fault::Death);
        let run = |storage: &mut Storage| -> Result<(), StorageError> {
            for n in 120..200 {
                put(storage, &[n % LOGS], &[&[n as u8; 700]], SyncPolicy::Sync)?;
                storage.flush()?;
                run_jobs(storage)?;
            }
            settle_down(storage)
        };
        let finished = run(&mut storage).is_ok() && storage.failure().is_none();
        drop(storage);
        for seed in 0..3 {
            let mut disk = if seed == 0 { disk.kill() } else { disk.crash(seed) };
            for start in 0..2 {
                let when = format!("stop {at}, seed {seed}, start {start}");
                let mut storage = open(&disk);
                assert_kept(&disk, &when);
                if start == 1 {
                    settle_down(&mut storage).unwrap();
                    assert_kept(&disk, &when);
                    let there = readable(&mut storage).len();
                    assert!(there >= 109, "{when}: {there} can be read");
                }
                drop(storage);
                disk = disk.kill();
            }
            let is_tidy = disk.names().iter().all(|name| !name.ends_with(".keep"));
            assert!(is_tidy || !finished, "{:?}", disk.names());
        }
        if finished {
            assert!(disk.names().contains(&format!("{FIRST}.unreadable")), "{:?}", disk.names());
            break;
        }
        stops += 1;
    }
    assert!(stops > 300, "{stops}");
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

// A store of packs and segments, small and large messages.
fn store() -> (SimDisk, u64) {
    let disk = SimDisk::new();
    let mut storage = open(&disk);
    fill(&mut storage, 0..900, SyncPolicy::Sync);
    settle_down(&mut storage).unwrap();
    assert!(storage.stats().segments > 2, "{:?}", storage.stats());
    drop(storage);
    (disk.kill(), 900)
}

fn of_store(disk: &SimDisk) -> Vec<(String, u64)> {
    let names = disk.names().into_iter().filter(|name| name.starts_with("packs/") || name.starts_with("segments/"));
    names.map(|name| (name.clone(), disk.bytes_of(&name).unwrap().len() as u64)).collect()
}

#[test]
fn a_bad_sector_in_the_store_costs_what_lies_in_it_and_is_named() {
    let (disk, written) = store();
    let mut costly = 0;
    for (name, len) in of_store(&disk) {
        for at in (0..len).step_by(4096) {
            let what = format!("{name} at {at} of {len}");
            let disk = disk.kill();
            disk.set_cache_misses(at % 3);
            disk.make_unreadable(&name, at..(at + 4096).min(len));
            let mut storage = open(&disk);
            assert_eq!(storage.damage(), []);
            let there = readable(&mut storage);
            let lost = written - there.len() as u64;
            // An extent in the page, or two at its edges: what settles together is joined, up to 64 KiB.
            assert!(lost <= 2 * (64 << 10) / 700, "{what}: {lost} are off line");
            costly += u64::from(lost > 0);
            let named = storage.damage().iter().any(|damage| damage.file == name && !damage.logs.is_empty());
            assert_eq!(named, lost > 0, "{what}: {lost} are off line, {:?}", storage.damage());
            // Life goes on: settling and merging leave the file alone.
            fill(&mut storage, written..written + 400, SyncPolicy::Sync);
            settle_down(&mut storage).unwrap();
            assert!(storage.failure().is_none() && disk.names().contains(&name), "{what}");
            assert_eq!(readable(&mut storage).len() as u64, there.len() as u64 + 400, "{what}");
        }
    }
    assert!(costly > 10, "{costly}");
}

#[test]
fn scrubbing_and_verifying_pass_over_a_bad_sector_and_name_it() {
    let (disk, _) = store();
    for (name, len) in of_store(&disk) {
        for at in (0..len).step_by(8192) {
            let disk = disk.kill();
            disk.make_unreadable(&name, at..(at + 4096).min(len));
            let mut inspection = Inspection::open(Arc::new(disk.kill())).unwrap();
            let found = inspection.verify(&mut |_, _| {}).unwrap();
            assert!(found.iter().any(|damage| damage.file == name), "{name} at {at} of {len}: {found:?}");
            assert!(found.iter().all(|damage| damage.file == name), "{name} at {at}: {found:?}");
            let mut storage = open(&disk);
            run_jobs(&mut storage).unwrap();
            while storage.scrub(20_000) {
                run_jobs(&mut storage).unwrap();
            }
            let bytes = storage.stats().scrubbed_bytes;
            assert!(bytes * 2 > storage.stats().segment_live_bytes, "{name} at {at}: the rest of the file is scrubbed");
            assert!(storage.damage().iter().all(|damage| damage.file == name), "{:?}", storage.damage());
        }
    }
}

#[test]
fn a_bad_sector_in_a_copy_of_the_checkpoint_costs_nothing() {
    let (disk, written) = store();
    for name in ["checkpoint", "checkpoint.copy"] {
        let disk = disk.kill();
        disk.make_unreadable(name, 0..512);
        let mut storage = open(&disk);
        assert_eq!(storage.damage().iter().map(|damage| &*damage.file).collect::<Vec<_>>(), [name]);
        assert_eq!(readable(&mut storage).len() as u64, written);
        let disk = disk.kill();
        let repair = Repair::plan(Arc::new(disk.clone()), &mut |_, _| {}).unwrap();
        repair.apply().unwrap();
        drop(repair);
        let mut storage = open(&disk.kill());
        assert_eq!((readable(&mut storage).len() as u64, storage.damage().len()), (written, 0));
    }
    let disk = disk.kill();
    for name in ["checkpoint", "checkpoint.copy"] {
        disk.make_unreadable(name, 0..512);
    }
    assert!(matches!(Storage::open(Arc::new(disk), tiny()), Err(StorageError::Disk { .. })));
}

#[test]
fn a_copy_of_the_checkpoint_that_a_stop_left_behind_is_made_equal_before_anything_goes() {
    for is_missing in [true, false] {
        let (disk, before) = store();
        let old = disk.bytes_of("checkpoint.copy").unwrap();
        let mut storage = open(&disk);
        fill(&mut storage, before..before + 300, SyncPolicy::Sync);
        settle_down(&mut storage).unwrap();
        drop(storage);
        let disk = disk.kill();
        if is_missing {
            disk.lose("checkpoint.copy")
        } else {
            disk.put_bytes("checkpoint.copy", old)
        }
        drop(open(&disk));
        let disk = disk.kill();
        assert_eq!(disk.bytes_of("checkpoint"), disk.bytes_of("checkpoint.copy"));
        disk.make_unreadable("checkpoint", 0..512);
        assert_eq!(readable(&mut open(&disk)).len() as u64, before + 300);
    }
}

#[test]
fn a_volume_without_room_for_a_second_checkpoint_is_opened_all_the_same() {
    let (disk, written) = store();
    disk.lose("checkpoint.copy");
    disk.set_capacity(0);
    assert_eq!(readable(&mut open(&disk)).len() as u64, written);
}

// The newest file with an entry, and where its last byte lies.
fn end_of_the_journal(disk: &SimDisk) -> (String, u64) {
    let used = |name: &String| disk.bytes_of(name).unwrap()[4096..].iter().rposition(|byte| *byte != 0);
    let names = disk.names().into_iter().filter(|name| name.starts_with("journal/"));
    let ends = names.filter_map(|name| used(&name).map(|end| (name, end as u64 + 4096)));
    ends.max().unwrap()
}

#[test]
fn what_was_written_while_the_disk_did_not_give_the_end_is_there_when_it_gives_it_again() {
    let mut again = 0;
    // In the middle of a file, and where the next one begins.
    for count in [40].into_iter().chain(58..78) {
        let disk = SimDisk::new();
        let mut storage = open(&disk);
        fill(&mut storage, 0..count, SyncPolicy::Sync);
        drop(storage);
        let (name, end) = end_of_the_journal(&disk);
        for back in (0..4000).step_by(900) {
            let mut disk = disk.kill();
            disk.make_unreadable(&name, (end - back).max(4096)..end + 1);
            let mut storage = open(&disk);
            let mut written = Vec::new();
            for log in (0..4).flat_map(|_| 0..LOGS) {
                let at = storage.range(LogId(log)).unwrap().end.0;
                again += u64::from(at * LOGS + log < count);
                put(&mut storage, &[log], &[&[0xbb; 300]], SyncPolicy::Sync).unwrap();
                storage.flush().unwrap();
                run_jobs(&mut storage).unwrap();
                written.push((log, at));
            }
            drop(storage);
            for start in 0..2 {
                disk = disk.kill();
                disk.make_unreadable(&name, 0..0);
                let mut storage = open(&disk);
                for (log, at) in &written {
                    let (messages, _) = read_from(&mut storage, *log, *at);
                    let wanted = (*at, vec![0xbb; 300]);
                    assert_eq!(messages.first(), Some(&wanted), "{count}, bad {back} before the end, start {start}");
                }
                settle_down(&mut storage).unwrap();
            }
        }
    }
    assert!(again > 100, "{again} offsets were given again");
}

#[test]
fn what_the_disk_gives_only_once_is_not_written_over_with_zeros() {
    let disk = SimDisk::new();
    let mut storage = open(&disk);
    fill(&mut storage, 0..4, SyncPolicy::Sync);
    // Nothing says that it was ever durable: it is checked and written again.
    put(&mut storage, &[0], &[&[7; 20_000]], SyncPolicy::None).unwrap();
    storage.flush().unwrap();
    drop(storage);
    let before = disk.bytes_of(FIRST).unwrap();
    let bad = before.windows(8).position(|bytes| bytes == [7; 8]).unwrap() + 9000;
    for reads in 0..8 {
        let disk = disk.kill();
        disk.make_unreadable_after(FIRST, bad as u64..bad as u64 + 512, reads);
        drop(open(&disk));
        assert!(disk.bytes_of(FIRST).unwrap()[bad..bad + 512] == [7; 512], "after {reads} reads");
    }
}
