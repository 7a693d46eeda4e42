//! Storage as the layers above use it, on a disk that does what it is told.

use std::sync::Arc;

use crate::common::*;
use model::{LogId, Offset, Wall};
use storage::{
    Batch, Disk, LogRange, Lookup, Lsn, Owner, Read, ReadRequest, SimDisk, StateChange, Storage, StorageError,
};
use storage::{RealDisk, SyncPolicy, sim_disk};

#[test]
fn what_is_committed_is_read_at_once_and_after_reopening() {
    let disk = SimDisk::new();
    let (mut storage, recovered) = open(&disk);
    assert!(recovered.logs.is_empty());
    assert_eq!(put(&mut storage, &[1, 2], &[b"a", b"b"], SyncPolicy::Sync), Ok(Lsn(1)));
    assert_eq!(put(&mut storage, &[1], &[b"c"], SyncPolicy::None), Ok(Lsn(1)));
    let expected = vec![(0, b"a".to_vec()), (1, b"b".to_vec()), (2, b"c".to_vec())];
    assert_eq!(read_all(&mut storage, 1), expected, "before the flush");
    assert_eq!(storage.progress().written, Lsn(0));
    assert_eq!(storage.flush().unwrap().written, Lsn(1));
    assert_eq!(storage.progress().synced, Lsn(0));
    sim_disk::run_jobs(&mut storage).unwrap();
    assert_eq!(storage.progress().synced, Lsn(1));
    assert_eq!(read_all(&mut storage, 1), expected);
    let (mut again, recovered) = open(&disk.kill());
    assert_eq!(recovered.logs.len(), 2);
    assert_eq!(read_all(&mut again, 1), expected);
    assert_eq!(read_all(&mut again, 2), expected[..2]);
    let (mut again, _) = open(&disk.crash(7));
    assert_eq!(read_all(&mut again, 2), expected[..2]);
}

#[test]
fn a_turn_is_one_write_and_waiting_commits_share_a_sync() {
    let disk = SimDisk::new();
    let (mut storage, _) = open(&disk);
    put(&mut storage, &[1], &[b"first"], SyncPolicy::None).unwrap();
    sim_disk::settle_down(&mut storage).unwrap();
    let before = disk.calls();
    for log in 0..50 {
        put(&mut storage, &[log], &[b"x", b"x", b"x"], SyncPolicy::Sync).unwrap();
    }
    storage.flush().unwrap();
    let first = storage.next_job().unwrap();
    for turn in 0..5 {
        put(&mut storage, &[turn], &[b"y"], SyncPolicy::Sync).unwrap();
        storage.flush().unwrap();
    }
    assert_eq!(disk.calls().writes - before.writes, 6);
    assert!(storage.next_job().is_none(), "one sync at a time");
    storage.complete(first.run()).unwrap();
    assert_eq!(storage.progress().synced, Lsn(2));
    sim_disk::run_jobs(&mut storage).unwrap();
    assert_eq!(storage.progress().synced, Lsn(7));
    assert_eq!(disk.calls().syncs - before.syncs, 2);
}

#[test]
fn state_records_come_back_as_last_snapshot_and_deltas() {
    let disk = SimDisk::new();
    let (mut storage, _) = open(&disk);
    let (a, b) = (Owner { kind: 1, id: 1 }, Owner { kind: 2, id: 1 });
    let state = [
        (a, StateChange::Delta(b"lost")),
        (a, StateChange::Snapshot(b"S")),
        (b, StateChange::Snapshot(b"gone")),
        (a, StateChange::Delta(b"d")),
        (b, StateChange::Drop),
    ];
    storage.commit(&Batch { state: &state, ..Batch::default() }, SyncPolicy::None).unwrap();
    storage.flush().unwrap();
    let (_, recovered) = open(&disk.kill());
    assert_eq!(recovered.state, vec![(a, vec![b"S".as_slice().into(), b"d".as_slice().into()])]);
}

#[test]
fn trims_and_drops_are_remembered() {
    let disk = SimDisk::new();
    let (mut storage, _) = open(&disk);
    for _ in 0..4 {
        put(&mut storage, &[1, 2], &[b"a", b"b"], SyncPolicy::None).unwrap();
        storage.flush().unwrap();
    }
    let batch =
        Batch { trims: &[(LogId(1), Offset(3)), (LogId(3), Offset(9))], drops: &[LogId(2)], ..Batch::default() };
    storage.commit(&batch, SyncPolicy::None).unwrap();
    storage.flush().unwrap();
    for mut storage in [storage, open(&disk.kill()).0] {
        assert_eq!(storage.range(LogId(1)), Some(LogRange { start: Offset(3), end: Offset(8) }));
        assert_eq!(storage.range(LogId(2)), None);
        assert_eq!(storage.range(LogId(3)), Some(LogRange { start: Offset(9), end: Offset(9) }));
        assert_eq!(read_all(&mut storage, 1).len(), 5);
        let below = ReadRequest { log: LogId(1), from: Offset(2), until: Offset(8), bytes_max: 9 };
        assert!(matches!(storage.read(&below), Err(StorageError::OutOfRange { .. })));
    }
}

#[test]
fn a_read_respects_its_bounds_but_serves_the_first_extent_whole() {
    let (mut storage, _) = open(&SimDisk::new());
    for _ in 0..3 {
        put(&mut storage, &[1], &[b"aaaa", b"bbbb"], SyncPolicy::None).unwrap();
        storage.flush().unwrap();
    }
    let mut firsts = |from: u64, until: u64, bytes_max: usize| {
        let request = ReadRequest { log: LogId(1), from: Offset(from), until: Offset(until), bytes_max };
        let Read::Ready(chunks) = storage.read(&request).unwrap() else { panic!() };
        chunks.iter().map(|chunk| chunk.first.0).collect::<Vec<_>>()
    };
    assert_eq!(firsts(0, 6, 1000), [0, 2, 4]);
    assert_eq!(firsts(1, 6, 1), [0]);
    assert_eq!(firsts(1, 6, 64), [0, 2]);
    assert_eq!(firsts(0, 5, 1000), [0, 2]);
    assert_eq!(firsts(0, 1, 1000), [0]);
    assert_eq!(firsts(6, 6, 1000), [0; 0]);
    assert_eq!(firsts(2, 2, 1000), [0; 0]);
}

#[test]
fn a_time_is_found_by_extent() {
    let (mut storage, _) = open(&SimDisk::new());
    for _ in 0..3 {
        put(&mut storage, &[1], &[b"aaaa", b"bbbb"], SyncPolicy::None).unwrap();
        storage.flush().unwrap();
    }
    let mut find = |time| match storage.find_time(LogId(1), Wall(time)).unwrap() {
        Lookup::Ready(hit) => hit.map(|hit| hit.extent.0),
        Lookup::Pending(_) => panic!(),
    };
    assert_eq!((find(0), find(1), find(2), find(5), find(6)), (Some(0), Some(0), Some(2), Some(4), None));
}

#[test]
fn a_second_opener_is_turned_away() {
    let disk = SimDisk::new();
    let (_storage, _) = open(&disk);
    assert!(matches!(Storage::open(Arc::new(disk), tiny()), Err(StorageError::Unusable(_))));
}

#[test]
fn pieces_are_written_back_to_back_however_many() {
    let folder = std::env::temp_dir().join(format!("storage-pieces-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let file = RealDisk::new(&folder).unwrap().open("f", true).unwrap();
    let pieces: Vec<Vec<u8>> = (0..2500usize).map(|at| vec![at as u8; at % 3]).collect();
    file.write_over(5, &pieces.iter().map(Vec::as_slice).collect::<Vec<_>>(), 7).unwrap();
    let all = pieces.concat();
    let mut read = vec![0; all.len()];
    assert_eq!(file.read_at(5, &mut read).unwrap(), all.len());
    assert_eq!((&read, file.len().unwrap()), (&all, 5 + all.len() as u64 + 7));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_sealed_within_a_turn_is_read_and_written_with_it() {
    let disk = SimDisk::new();
    let (mut storage, _) = open(&disk);
    put(&mut storage, &[1], &[b"a"], SyncPolicy::Sync).unwrap();
    storage.seal();
    assert_eq!(put(&mut storage, &[1], &[b"b"], SyncPolicy::Sync), Ok(Lsn(1)), "the turn goes on");
    let expected = vec![(0, b"a".to_vec()), (1, b"b".to_vec())];
    assert_eq!((read_all(&mut storage, 1), storage.progress().written), (expected.clone(), Lsn(0)));
    assert_eq!(storage.flush().unwrap().written, Lsn(1));
    drop(storage);
    assert_eq!(read_all(&mut open(&disk.kill()).0, 1), expected);
}

#[test]
fn a_real_folder_works_and_is_locked() {
    let folder = std::env::temp_dir().join(format!("storage-basics-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let real = || Arc::new(RealDisk::new(&folder).unwrap());
    let (mut storage, _) = Storage::open(real(), tiny()).unwrap();
    for turn in 0..500u32 {
        put(&mut storage, &[u64::from(turn % 7)], &[&turn.to_be_bytes(), &[7; 300]], SyncPolicy::Sync).unwrap();
        storage.flush().unwrap();
        sim_disk::run_jobs(&mut storage).unwrap();
    }
    assert!(matches!(Storage::open(real(), tiny()), Err(StorageError::Unusable(_))));
    let before: Vec<_> = (0..7).map(|log| read_all(&mut storage, log)).collect();
    drop(storage);
    let (mut storage, recovered) = Storage::open(real(), tiny()).unwrap();
    assert_eq!(recovered.damage, []);
    assert_eq!((0..7).map(|log| read_all(&mut storage, log)).collect::<Vec<_>>(), before);
    drop(storage);
    std::fs::remove_dir_all(&folder).unwrap();
}
