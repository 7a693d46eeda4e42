//! Surgery on the files: cuts and flips at every byte of the end, flips everywhere before it. Wrong bytes are never
//! served, what is damaged is named, all else is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::oracle::{Change, Model, Pair};
use crate::common::{messages, tiny};
use model::{LogId, Offset};
use storage::sim_disk::{run_jobs, settle_down};
use storage::{Owner, Read, ReadRequest, Recovered, SimDisk, Storage, StorageError, SyncPolicy};

const LOGS: u64 = 3;

fn turn(pair: &mut Pair, n: u64, bytes: usize, policy: SyncPolicy) {
    let content = vec![n as u8; bytes];
    let put = Change::Put(vec![(n % LOGS, 0)], vec![content.clone(), content], n as i64);
    pair.commit(&[put, Change::Delta(Owner { kind: 1, id: n % 2 }, vec![n as u8; 5])], policy).unwrap();
    pair.storage.flush().unwrap();
    if policy == SyncPolicy::Sync {
        run_jobs(&mut pair.storage).unwrap();
    }
}

// Everything that can be read of a log, passing over damage; and whether there was any.
fn read_around(storage: &mut Storage, log: u64) -> (BTreeMap<u64, Vec<u8>>, bool) {
    let mut found = BTreeMap::new();
    let mut damaged = false;
    let Some(range) = storage.range(LogId(log)) else { return (found, false) };
    let mut from = range.start;
    while from < range.end {
        match storage.read(&ReadRequest { log: LogId(log), from, until: range.end, bytes_max: 2000 }) {
            Ok(Read::Ready(chunks)) => {
                if chunks.is_empty() {
                    break;
                }
                for chunk in chunks {
                    found.extend(messages(&chunk));
                    from = chunk.last.plus(1);
                }
            }
            Ok(Read::Pending(_)) => drop(run_jobs(storage).unwrap()),
            Err(StorageError::Damaged { .. }) => {
                damaged = true;
                let next = storage.after_damage(LogId(log), from);
                assert!(next > from);
                from = next;
            }
            Err(error) => panic!("{error}"),
        }
    }
    found.retain(|offset, _| Offset(*offset) >= range.start);
    (found, damaged)
}

struct Look {
    missing: u64,
    named: bool,
    recovered: Recovered,
}

// Opens the disk; whatever is served must be what was written; answers how many messages are missing.
fn look(disk: &SimDisk, model: &Model) -> Look {
    let (mut storage, recovered) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
    let mut named = !recovered.damage.is_empty();
    let mut missing = 0;
    for (id, log) in &model.logs {
        let (found, damaged) = read_around(&mut storage, *id);
        named |= damaged;
        for (offset, content) in &found {
            let written = log.messages.get(offset).unwrap_or_else(|| panic!("log {id} invents offset {offset}"));
            assert_eq!(content, &*written.0, "log {id} at {offset}");
        }
        missing += (log.messages.len() - found.len()) as u64;
    }
    // Life goes on behind the damage, and what is written then is there after the next stop.
    crate::common::put(&mut storage, &[50], &[b"after"], SyncPolicy::Sync).unwrap();
    settle_down(&mut storage).unwrap();
    let image = disk.crash(3);
    let (mut storage, _) = Storage::open(Arc::new(image), tiny()).unwrap();
    assert_eq!(crate::common::read_all(&mut storage, 50), [(0, b"after".to_vec())]);
    Look { missing, named, recovered }
}

fn entries_of(bytes: &[u8]) -> Vec<usize> {
    // Those with content: between them stand marks, which only say how far all is durable.
    let has_content = |at: &usize| bytes[at + 28..at + 32] != [0; 4];
    (4096..bytes.len()).step_by(64).filter(|at| bytes[*at..].starts_with(b"4Fen")).filter(has_content).collect()
}

fn end_of(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[test]
fn a_cut_or_flip_at_every_byte_of_the_end_costs_only_what_lies_behind_it() {
    for policy in [SyncPolicy::None, SyncPolicy::Sync] {
        let mut pair = Pair::new();
        (0..6).for_each(|n| turn(&mut pair, n, 60, policy));
        let name = "journal/00000000000000000001";
        let bytes = pair.disk.bytes_of(name).unwrap();
        let entries = entries_of(&bytes);
        assert_eq!(entries.len(), 6);
        for at in entries[2]..end_of(&bytes) {
            let whole = entries.iter().filter(|entry| **entry <= at).count() - 1;
            let mut cut = bytes.clone();
            cut[at..].fill(0);
            let disk = pair.disk.kill();
            disk.put_bytes(name, cut);
            let seen = look(&disk, &pair.model);
            let padding = bytes[at..].iter().take(64).all(|byte| *byte == 0);
            assert!(seen.missing <= 2 * (6 - whole as u64) || padding, "cut at {at}: {} missing", seen.missing);
            assert!(seen.recovered.damage.is_empty(), "a cut end is no damage");

            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let disk = pair.disk.kill();
            disk.put_bytes(name, flipped);
            let seen = look(&disk, &pair.model);
            if policy == SyncPolicy::None {
                assert!(seen.missing <= 2 * (6 - whole as u64), "flip at {at}: {} missing", seen.missing);
                assert!(seen.recovered.damage.is_empty());
            } else {
                // Later entries say that this one was durable: only it is lost, and that is said.
                assert!(seen.missing <= 2, "flip at {at}: {} missing", seen.missing);
                assert!(seen.missing == 0 || seen.named, "flip at {at}: nobody says so");
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_never_served_and_named_if_it_cost_anything() {
    let mut pair = Pair::new();
    (0..90).for_each(|n| turn(&mut pair, n, 1500, SyncPolicy::Sync));
    settle_down(&mut pair.storage).unwrap();
    assert!(pair.storage.stats().segments > 0);
    let total: u64 = pair.model.logs.values().map(|log| log.messages.len() as u64).sum();
    let mut worst = 0;
    for name in pair.disk.names() {
        let bytes = pair.disk.bytes_of(&name).unwrap();
        let used = if name.starts_with("journal") { end_of(&bytes).min(bytes.len()) } else { bytes.len() };
        for n in 0..150usize {
            // The first bytes one by one (headers), then all over.
            let at = if n < 70 { n } else { n * 7919 % used };
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (n % 8);
            let disk = pair.disk.kill();
            disk.put_bytes(&name, flipped);
            let seen = look(&disk, &pair.model);
            assert!(seen.missing == 0 || seen.named, "{name} at {at}: {} missing", seen.missing);
            worst = worst.max(seen.missing);
        }
    }
    assert!(worst <= 60, "one bit cost {worst} of {total} messages");
}

#[test]
fn a_missing_file_in_the_middle_is_named_and_the_rest_is_served() {
    let mut pair = Pair::new();
    (0..30).for_each(|n| turn(&mut pair, n, 1500, SyncPolicy::Sync));
    assert_eq!(pair.storage.stats().window_files, 2, "nothing is settled yet");
    let files: Vec<String> = pair.disk.names().into_iter().filter(|name| name.starts_with("journal/")).collect();
    let disk = pair.disk.kill();
    disk.lose(&files[0]);
    let seen = look(&disk, &pair.model);
    assert!(seen.named && seen.missing > 0);
    assert_eq!(seen.recovered.damage[0].logs, [LogId(0), LogId(1), LogId(2)]);
    assert!((seen.missing as usize) < pair.model.logs.values().map(|log| log.messages.len()).sum());
}

#[test]
fn a_lost_tail_of_a_log_is_off_line_and_its_offsets_are_not_given_again() {
    let mut pair = Pair::new();
    turn(&mut pair, 0, 20, SyncPolicy::Sync);
    turn(&mut pair, 1, 20, SyncPolicy::Sync);
    // Enough for log 2 to fill the first file, the next says where the others ended.
    (0..30).for_each(|_| turn(&mut pair, 2, 1500, SyncPolicy::Sync));
    let name = "journal/00000000000000000001";
    let mut bytes = pair.disk.bytes_of(name).unwrap();
    let first = entries_of(&bytes)[0];
    bytes[first] ^= 1;
    let disk = pair.disk.kill();
    disk.put_bytes(name, bytes);
    let (mut storage, recovered) = Storage::open(Arc::new(disk), tiny()).unwrap();
    assert_eq!(recovered.damage.len(), 1);
    assert_eq!(recovered.damage[0].logs, [LogId(0)]);
    assert_eq!(storage.range(LogId(0)).unwrap().end, Offset(2));
    assert_eq!(read_around(&mut storage, 0), (BTreeMap::new(), true));
    assert_eq!(read_around(&mut storage, 1).0.len(), 2);
}

#[test]
fn what_reading_runs_into_is_listed_once_with_its_logs() {
    let mut pair = Pair::new();
    (0..60).for_each(|n| turn(&mut pair, n, 1500, SyncPolicy::Sync));
    settle_down(&mut pair.storage).unwrap();
    let name = pair.disk.names().into_iter().find(|name| name.starts_with("segments/")).unwrap();
    let mut bytes = pair.disk.bytes_of(&name).unwrap();
    bytes[200] ^= 1;
    let disk = pair.disk.kill();
    disk.put_bytes(&name, bytes);
    let (mut storage, _) = Storage::open(Arc::new(disk), tiny()).unwrap();
    assert_eq!(storage.damage(), []);
    for _ in 0..2 {
        (0..LOGS).for_each(|log| drop(read_around(&mut storage, log)));
    }
    let [damage] = storage.damage() else { panic!("{:?}", storage.damage()) };
    assert_eq!((&damage.file, damage.logs.len()), (&name, 1));
}

#[test]
fn scrubbing_finds_what_nobody_has_read_and_goes_on_around_it() {
    let mut pair = Pair::new();
    (0..90).for_each(|n| turn(&mut pair, n, 1500, SyncPolicy::Sync));
    settle_down(&mut pair.storage).unwrap();
    let names: Vec<String> = pair.disk.names().into_iter().filter(|name| name.contains("s/000")).collect();
    let name = names.iter().find(|name| name.starts_with("segments/") || name.starts_with("packs/")).unwrap();
    let mut bytes = pair.disk.bytes_of(name).unwrap();
    bytes[200] ^= 1;
    let disk = pair.disk.kill();
    disk.put_bytes(name, bytes);
    let (mut storage, _) = Storage::open(Arc::new(disk), tiny()).unwrap();
    run_jobs(&mut storage).unwrap();
    let mut steps = 0;
    while storage.scrub(2000) {
        run_jobs(&mut storage).unwrap();
        steps += 1;
    }
    let stats = storage.stats();
    assert_eq!((stats.scrubs, storage.damage().len()), (1, 1), "{:?}", storage.damage());
    assert!(steps > 5 && stats.scrubbed_bytes > stats.segment_live_bytes / 2, "{steps} steps, {stats:?}");
    assert_eq!(&storage.damage()[0].file, name);
}

#[test]
fn scrubbing_goes_on_where_it_was_after_a_restart() {
    let mut pair = Pair::new();
    (0..90).for_each(|n| turn(&mut pair, n, 1500, SyncPolicy::Sync));
    settle_down(&mut pair.storage).unwrap();
    let mut bytes = 0;
    let mut disk = pair.disk.kill();
    // A restart after each step: a pass reads everything once all the same.
    for n in 0.. {
        let (mut storage, _) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
        run_jobs(&mut storage).unwrap();
        let goes_on = storage.scrub(2000);
        run_jobs(&mut storage).unwrap();
        bytes += storage.stats().scrubbed_bytes;
        if !goes_on {
            let live = storage.stats().segment_live_bytes;
            assert!(n > 5 && bytes >= live && bytes < 2 * live, "{n} steps read {bytes} of {live}");
            break;
        }
        disk = disk.kill();
    }
    disk.put_bytes("scrub", vec![7; 28]);
    let (mut storage, _) = Storage::open(Arc::new(disk.kill()), tiny()).unwrap();
    run_jobs(&mut storage).unwrap();
    assert!(storage.scrub(2000), "it begins anew");
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let mut pair = Pair::new();
    turn(&mut pair, 0, 20, SyncPolicy::Sync);
    let name = "journal/00000000000000000001";
    let mut bytes = pair.disk.bytes_of(name).unwrap();
    bytes[11] = 2;
    let crc = model::checksum::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_be_bytes());
    bytes.copy_within(..64, 2048);
    let disk = pair.disk.kill();
    disk.put_bytes(name, bytes);
    let Err(StorageError::Unusable(why)) = Storage::open(Arc::new(disk), tiny()) else { panic!("it was opened") };
    assert!(why.contains("version 2"), "{why}");
}

#[test]
fn a_damaged_checkpoint_is_read_from_its_copy() {
    let mut pair = Pair::new();
    (0..60).for_each(|n| turn(&mut pair, n, 1500, SyncPolicy::Sync));
    settle_down(&mut pair.storage).unwrap();
    let good = pair.disk.bytes_of("checkpoint").unwrap();
    for at in 0..good.len() {
        let disk = pair.disk.kill();
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        disk.put_bytes("checkpoint", bytes);
        let seen = look(&disk, &pair.model);
        assert_eq!((seen.missing, seen.named), (0, true));
    }
    let disk = pair.disk.kill();
    disk.put_bytes("checkpoint", good[..20].to_vec());
    disk.put_bytes("checkpoint.copy", good[..20].to_vec());
    assert!(matches!(Storage::open(Arc::new(disk), tiny()), Err(StorageError::Unusable(_))));
}
