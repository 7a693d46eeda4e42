//! The paged index of packs and segments: few pages for a look-up, exact by time, as fine as was asked for, and never
//! needed: damaged at any byte, it is built again from the data.

use std::sync::Arc;

use crate::common::{put, read_all, read_from, tiny};
use model::{LogId, Offset, Wall};
use storage::inspect::{Item, items};
use storage::sim_disk::{run_jobs, settle_down};
use storage::{Lookup, Options, Read, ReadRequest, SimDisk, Storage, SyncPolicy};

// Logs with a message each, in one pack; and what the end of that pack is.
fn pack_of(logs: u64) -> (SimDisk, Options, String) {
    let options = Options { journal_file_bytes: 1 << 20, ..tiny() };
    let disk = SimDisk::new();
    let (mut storage, _) = Storage::open(Arc::new(disk.clone()), options.clone()).unwrap();
    for log in 0..logs {
        put(&mut storage, &[log], &[&log.to_be_bytes()], SyncPolicy::None).unwrap();
    }
    // What pushes them out of the window, and goes.
    for _ in 0..60 {
        put(&mut storage, &[9999], &[&[7; 60_000]], SyncPolicy::None).unwrap();
        settle_down(&mut storage).unwrap();
    }
    let packs: Vec<String> = disk.names().into_iter().filter(|name| name.starts_with("packs/")).collect();
    assert_eq!(packs.len(), 1, "{packs:?}");
    (disk.kill(), options, packs[0].clone())
}

fn first_of(storage: &mut Storage, log: u64) {
    assert_eq!(read_all(storage, log), [(0, log.to_be_bytes().to_vec())], "log {log}");
}

#[test]
fn a_look_up_in_a_large_index_reads_a_page_and_its_block() {
    let (disk, options, _) = pack_of(3000);
    let (mut storage, _) = Storage::open(Arc::new(disk.clone()), options).unwrap();
    first_of(&mut storage, 17);
    let mut cost = |log| {
        let before = disk.calls().reads;
        let request = ReadRequest { log: LogId(log), from: Offset(0), until: Offset(1), bytes_max: 1000 };
        assert!(matches!(storage.read(&request), Ok(Read::Ready(chunks)) if chunks.len() == 1));
        disk.calls().reads - before
    };
    assert_eq!((cost(2000), cost(2000), cost(2001)), (2, 1, 1), "a page is kept, and its neighbours are on it");
}

// One log that is large enough for segments to itself.
fn long_log(step: Option<u32>) -> (SimDisk, Options) {
    let options = Options { journal_file_bytes: 1 << 20, ..tiny() };
    let disk = SimDisk::new();
    let (mut storage, _) = Storage::open(Arc::new(disk.clone()), options.clone()).unwrap();
    if let Some(step) = step {
        storage.set_index_step(LogId(1), step);
    }
    for n in 0..9000u64 {
        put(&mut storage, &[1], &[&[n as u8; 500]], SyncPolicy::None).unwrap();
        // What comes within one turn is one extent.
        if n % 5 == 0 {
            storage.flush().unwrap();
        }
        if n % 50 == 0 {
            settle_down(&mut storage).unwrap();
        }
    }
    settle_down(&mut storage).unwrap();
    (disk, options)
}

fn extents_of_segments(disk: &SimDisk) -> Vec<u32> {
    let mut found = Vec::new();
    for name in disk.names().iter().filter(|name| name.starts_with("segments/")) {
        items(disk, name, &mut |item| {
            if let Item::Extent { bytes, .. } = item {
                found.push(bytes);
            }
            true
        })
        .unwrap();
    }
    found
}

#[test]
fn a_small_step_makes_small_extents_and_all_is_found_by_offset_and_time() {
    let (plain, _) = long_log(None);
    assert!(extents_of_segments(&plain).iter().any(|bytes| *bytes > 60_000));
    let (disk, options) = long_log(Some(4096));
    let extents = extents_of_segments(&disk);
    assert!(extents.len() > 600 && extents.iter().all(|bytes| *bytes <= 4096), "{}", extents.len());
    for misses in [0, 7] {
        let (mut storage, _) = Storage::open(Arc::new(disk.kill()), options.clone()).unwrap();
        disk.set_cache_misses(misses);
        for from in (0..9000).step_by(611) {
            let request = ReadRequest { log: LogId(1), from: Offset(from), until: Offset(from + 1), bytes_max: 1 };
            let chunks = loop {
                match storage.read(&request).unwrap() {
                    Read::Ready(chunks) => break chunks,
                    Read::Pending(_) => drop(run_jobs(&mut storage).unwrap()),
                }
            };
            assert!(chunks[0].first.0 <= from && from <= chunks[0].last.0);
            let hit = loop {
                match storage.find_time(LogId(1), Wall(from as i64)).unwrap() {
                    Lookup::Ready(hit) => break hit.unwrap(),
                    Lookup::Pending(_) => drop(run_jobs(&mut storage).unwrap()),
                }
            };
            assert!(
                hit.extent.0 <= from && hit.time_max.0 as u64 >= from && hit.time_max.0 as u64 - hit.extent.0 < 200
            );
        }
        let (all, error) = read_from(&mut storage, 1, 0);
        assert_eq!((all.len(), error), (9000, None));
    }
}

#[test]
fn an_index_damaged_at_any_byte_costs_nothing() {
    let (disk, options, name) = pack_of(300);
    let bytes = disk.bytes_of(&name).unwrap();
    let trailer = bytes.len() - 64 - 32;
    let at = u64::from_be_bytes(bytes[trailer + 8..trailer + 16].try_into().unwrap()) as usize;
    assert!(trailer - at > 2 * 8192, "two pages and one above them");
    let mut places: Vec<usize> = (at..bytes.len()).step_by(199).collect();
    places.extend((at..at + 48).chain(at + 8192..at + 8240).chain(at + 2 * 8192..bytes.len()));
    for place in places {
        for is_cut in [false, true] {
            let mut damaged = bytes.clone();
            if is_cut {
                damaged.truncate(place);
            } else {
                damaged[place] ^= 1 << (place % 8);
            }
            let disk = disk.kill();
            disk.put_bytes(&name, damaged);
            let (mut storage, recovered) = Storage::open(Arc::new(disk), options.clone()).unwrap();
            assert!(recovered.damage.is_empty());
            for log in [0, 128, 254, 255, 256, 299] {
                first_of(&mut storage, log);
            }
        }
    }
}

#[test]
fn a_small_index_damaged_at_every_byte_costs_nothing() {
    let disk = SimDisk::new();
    let (mut storage, _) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
    for log in 0..40u64 {
        put(&mut storage, &[log], &[&log.to_be_bytes()], SyncPolicy::None).unwrap();
    }
    for _ in 0..9 {
        put(&mut storage, &[9999], &[&[7; 20_000]], SyncPolicy::None).unwrap();
        settle_down(&mut storage).unwrap();
    }
    drop(storage);
    let name = disk.names().into_iter().find(|name| name.starts_with("packs/")).unwrap();
    let bytes = disk.bytes_of(&name).unwrap();
    let trailer = bytes.len() - 64 - 32;
    let at = u64::from_be_bytes(bytes[trailer + 8..trailer + 16].try_into().unwrap()) as usize;
    assert!(trailer - at > 1200, "a page of forty entries");
    for place in at..bytes.len() {
        let flips = [0, 3, 7].map(|bit| {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            flipped
        });
        for damaged in flips.into_iter().chain([bytes[..place].to_vec()]) {
            let disk = disk.kill();
            disk.put_bytes(&name, damaged);
            let (mut storage, recovered) = Storage::open(Arc::new(disk), tiny()).unwrap();
            assert!(recovered.damage.is_empty());
            (0..40).for_each(|log| first_of(&mut storage, log));
        }
    }
}

#[test]
fn behind_a_damaged_extent_what_is_left_of_a_damaged_index_leads_on() {
    let (disk, options, name) = pack_of(300);
    let mut bytes = disk.bytes_of(&name).unwrap();
    let trailer = bytes.len() - 64 - 32;
    let at = u64::from_be_bytes(bytes[trailer + 8..trailer + 16].try_into().unwrap()) as usize;
    bytes[64 + 5] ^= 1; // the head of the first extent
    bytes[at + 8192 + 100] ^= 1; // the second page
    disk.put_bytes(&name, bytes);
    let (mut storage, _) = Storage::open(Arc::new(disk), options).unwrap();
    for log in [299, 1, 255] {
        first_of(&mut storage, log);
    }
    assert!(read_from(&mut storage, 0, 0).1.is_some(), "what is damaged is not served");
}
