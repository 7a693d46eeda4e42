//! Journal files whose headers are lost, and files that the disk does not give at all: the entries of the first are
//! read all the same, the second are off line alone, and both are named.

use std::sync::Arc;

use crate::common::tiny;
use crate::unreadable::{FIRST, LOGS, fill, readable};
use model::LogId;
use storage::inspect::{Repair, items};
use storage::sim_disk::{run_jobs, settle_down};
use storage::{Damage, Disk, Options, SimDisk, Storage, StorageError, SyncPolicy};

const MESSAGES: u64 = 200;
const COPY_AT: usize = 2048;
const HEADER: usize = 64;

fn many_files() -> Options {
    Options { journal_files_max: 8, ..tiny() }
}

fn open(disk: &SimDisk) -> Result<Storage, StorageError> {
    Storage::open(Arc::new(disk.clone()), many_files()).map(|(storage, _)| storage)
}

// A window of several files, and the names of those with entries.
fn window() -> (SimDisk, Vec<String>) {
    let disk = SimDisk::new();
    let mut storage = open(&disk).unwrap();
    fill(&mut storage, 0..MESSAGES, SyncPolicy::Sync);
    assert_eq!(storage.stats().settles, 0);
    drop(storage);
    let has_entries = |name: &String| disk.bytes_of(name).unwrap()[4096..].starts_with(b"4Fen");
    let names: Vec<String> = disk.names().into_iter().filter(|name| name.starts_with("journal/")).collect();
    let names: Vec<String> = names.into_iter().filter(has_entries).collect();
    assert!(names.len() >= 3, "{names:?}");
    (disk.kill(), names)
}

// Everything is there, and goes on being there; answers what is named.
fn all_there(disk: &SimDisk, what: &str) -> Vec<Damage> {
    let mut storage = open(disk).unwrap_or_else(|why| panic!("{what}: {why}"));
    assert_eq!(readable(&mut storage).len() as u64, MESSAGES, "{what}");
    let named = storage.damage().to_vec();
    fill(&mut storage, MESSAGES..MESSAGES + 6, SyncPolicy::Sync);
    drop(storage);
    let mut storage = open(&disk.crash(7)).unwrap_or_else(|why| panic!("{what}, again: {why}"));
    assert_eq!(readable(&mut storage).len() as u64, MESSAGES + 6, "{what}, again");
    named
}

#[test]
fn a_flip_at_every_byte_of_one_copy_of_a_header_costs_nothing() {
    let (disk, names) = window();
    for name in &names {
        let whole = disk.bytes_of(name).unwrap();
        for at in (0..HEADER).chain(COPY_AT..COPY_AT + HEADER) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let disk = disk.kill();
            disk.put_bytes(name, bytes);
            assert_eq!(all_there(&disk, &format!("{name} at {at}")), []);
        }
    }
}

#[test]
fn a_flip_at_every_byte_of_both_copies_of_a_header_is_named_and_costs_nothing() {
    let (disk, names) = window();
    for name in &names {
        let whole = disk.bytes_of(name).unwrap();
        for at in 0..HEADER {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            bytes[COPY_AT + (at + 17) % HEADER] ^= 0x20;
            let disk = disk.kill();
            disk.put_bytes(name, bytes);
            let named = all_there(&disk, &format!("{name} at {at}"));
            assert!(matches!(&named[..], [one] if one.file == *name && one.at == 0), "{named:?}");
        }
    }
}

#[test]
fn a_first_page_that_is_zero_or_cannot_be_read_is_named_and_costs_nothing() {
    let (disk, names) = window();
    for name in &names {
        for is_zero in [true, false] {
            let disk = disk.kill();
            if is_zero {
                let mut bytes = disk.bytes_of(name).unwrap();
                bytes[..4096].fill(0);
                disk.put_bytes(name, bytes);
            } else {
                disk.make_unreadable(name, 0..4096);
            }
            let named = all_there(&disk.kill(), name);
            let repair = Repair::plan(Arc::new(disk.clone()), &mut |_, _| {}).unwrap();
            assert!(repair.torn.is_empty() && repair.damage.is_empty(), "{:?}, {:?}", repair.torn, repair.damage);
            assert!(matches!(&repair.rebuilds[..], [one] if one.file == *name), "{:?}", repair.rebuilds);
            repair.apply().unwrap();
            drop(repair);
            if is_zero {
                assert_eq!(all_there(&disk.kill(), name), [], "it is whole again");
            }
            assert!(matches!(&named[..], [one] if one.file == *name && one.at == 0), "{named:?}");
        }
    }
}

#[test]
fn what_a_file_held_before_is_not_taken_for_entries_of_one_that_is_not_ready() {
    let disk = SimDisk::new();
    let mut storage = Storage::open(Arc::new(disk.clone()), tiny()).unwrap().0;
    fill(&mut storage, 0..60, SyncPolicy::Sync);
    let settled = disk.bytes_of(FIRST).unwrap();
    fill(&mut storage, 60..600, SyncPolicy::Sync);
    settle_down(&mut storage).unwrap();
    drop(storage);
    let has_entries =
        |name: &String| name.starts_with("journal/") && disk.bytes_of(name).unwrap()[4096..][..4] != [0; 4];
    let newest = disk.names().into_iter().filter(has_entries).max().unwrap();
    let number: u64 = newest.rsplit('/').next().unwrap().parse().unwrap();
    // The stop came when a settled file had been renamed, or when its header had been made blank.
    let old = disk.bytes_of(&format!("journal/{:020}", number - 1)).unwrap();
    let named = format!("journal/{:020}", number + 2);
    let images = [&old, &settled].into_iter().flat_map(|old| [(old[..4096].to_vec(), old), (vec![0; 4096], old)]);
    for (header, old) in images {
        let disk = disk.kill();
        let mut storage = Storage::open(Arc::new(disk.clone()), tiny()).unwrap().0;
        let there = readable(&mut storage);
        drop(storage);
        let disk = disk.kill();
        let mut bytes = old.clone();
        bytes[..4096].copy_from_slice(&header);
        disk.put_bytes(&named, bytes);
        let mut shown = 0;
        items(&disk, &named, &mut |_| {
            shown += 1;
            true
        })
        .unwrap();
        assert!(shown == 0 || *old != settled, "{shown} things of before are shown");
        let mut storage = Storage::open(Arc::new(disk), tiny()).unwrap().0;
        assert_eq!((readable(&mut storage), storage.damage().len()), (there, 0));
    }
}

#[test]
fn a_file_in_the_middle_that_the_disk_does_not_give_is_off_line_alone_and_kept() {
    let (disk, names) = window();
    let len = disk.bytes_of(&names[0]).unwrap().len() as u64;
    let last = names.len() - 1;
    // Nothing of it; nothing but its header; and not more than its first entries.
    for from in [0, 4096, 20_000] {
        for name in &names[..last] {
            let what = format!("{name} from {from}");
            let disk = disk.kill();
            disk.make_unreadable(name, from..len);
            let mut storage = open(&disk).unwrap_or_else(|why| panic!("{what}: {why}"));
            assert!(storage.damage().iter().any(|damage| damage.file == *name && !damage.logs.is_empty()), "{what}");
            let there = readable(&mut storage);
            let lost = MESSAGES - there.len() as u64;
            assert!(lost > 10 && lost <= len / 700, "{what}: {lost} are off line");
            let of_last = MESSAGES - 20..MESSAGES;
            assert!(of_last.clone().all(|n| there.contains(&n)), "{what}: {there:?}");
            let ends = |storage: &Storage| (0..LOGS).map(|log| storage.range(LogId(log)).unwrap().end.0).sum::<u64>();
            assert_eq!(ends(&storage), MESSAGES, "{what}: no offset is given again");
            // Life goes on; when the window has gone by, the file is kept for people.
            fill(&mut storage, MESSAGES..MESSAGES + 900, SyncPolicy::Sync);
            settle_down(&mut storage).unwrap();
            run_jobs(&mut storage).unwrap();
            assert_eq!(readable(&mut storage).len() as u64, there.len() as u64 + 900, "{what}");
            assert!(disk.names().contains(&format!("{name}.unreadable")), "{what}: {:?}", disk.names());
            drop(storage);
            let mut storage = open(&disk.kill()).unwrap();
            assert_eq!(readable(&mut storage).len() as u64, there.len() as u64 + 900, "{what}, again");
        }
    }
}

#[test]
fn an_end_of_the_journal_that_the_disk_does_not_give_is_for_people_to_give_up() {
    let (disk, names) = window();
    let name = names.last().unwrap();
    let len = disk.bytes_of(name).unwrap().len() as u64;
    for from in [0, 4096] {
        let disk = disk.kill();
        disk.make_unreadable(name, from..len);
        let why = open(&disk).err().expect("nothing says what was in it").to_string();
        assert!(why.contains(name.as_str()) && why.contains("the end of the journal"), "{why}");
        assert!(disk.names().contains(name), "nothing is removed");
        // They have moved it away.
        disk.rename(name, &format!("{name}.unreadable")).unwrap();
        let mut storage = open(&disk.kill()).unwrap();
        assert!(readable(&mut storage).len() as u64 > MESSAGES / 2);
    }
}
