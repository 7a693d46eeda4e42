//! Reading a long cold backlog: past the page cache, ahead of the reader, checked before anything is served.
#![cfg(target_os = "linux")]

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::put;
use crate::common::watched::{Watch, WatchedDisk, on_data_thread};
use model::{FormatTag, LogId, Offset};
use storage::{Options, Part, Parts, ReadRequest, Storage, StorageError, SyncPolicy};

const LOGS: u64 = 3;
const MESSAGES: u64 = 240;
const BYTES: usize = 40 << 10;

/// Three logs, most of them settled, the rest in the window; everything cold.
fn backlog(name: &str) -> (Arc<WatchedDisk>, Arc<Watch>) {
    let (disk, watch) = WatchedDisk::new(name);
    let mut storage = open(&disk);
    for n in 0..MESSAGES {
        for log in 1..=LOGS {
            put(&mut storage, &[log], &[&vec![n as u8; BYTES]], SyncPolicy::Sync).unwrap();
            storage.flush().unwrap();
            run_jobs(&mut storage);
        }
    }
    assert!(storage.stats().settles > 0);
    drop(storage);
    let disk = disk.again();
    watch.cold.store(true, Ordering::Relaxed);
    (disk, watch)
}

fn open(disk: &Arc<WatchedDisk>) -> Storage {
    let options = Options { journal_file_bytes: 8 << 20, ..crate::common::tiny() };
    Storage::open(Arc::clone(disk) as Arc<_>, options).unwrap().0
}

fn run_jobs(storage: &mut Storage) {
    while let Some(job) = storage.next_job() {
        let done = job.run();
        on_data_thread(|| storage.complete(done)).unwrap();
    }
}

/// Reads a log to its end; answers the offsets that came, each once and right, and how often damage was met.
fn read_all(storage: &mut Storage, log: LogId) -> (Vec<u64>, usize) {
    let end = storage.range(log).unwrap().end;
    let (mut came, mut damaged, mut from) = (Vec::new(), 0, Offset::ZERO);
    while from < end {
        let request = ReadRequest { log, from, until: end, bytes_max: 1 << 20 };
        match on_data_thread(|| storage.read_to_send(&request, FormatTag(9))) {
            Ok(Parts::Pending(_)) => run_jobs(storage),
            Ok(Parts::Ready(parts)) => {
                assert!(!parts.is_empty());
                for part in &parts {
                    let units = match part {
                        Part::Chunk(chunk) => chunk.units.clone(),
                        Part::Together(run) => run.units.clone(),
                        Part::Stored(stored) => stored.range.read().unwrap(),
                    };
                    let offset = u64::from_be_bytes(units[..8].try_into().unwrap());
                    assert!(units.len() > BYTES && units[12..].iter().all(|byte| *byte == offset as u8));
                    came.push(offset);
                }
                from = parts.last().unwrap().last().plus(1);
            }
            Err(StorageError::Damaged { .. }) => {
                damaged += 1;
                from = storage.after_damage(log, from);
            }
            Err(other) => panic!("{other}"),
        }
    }
    (came, damaged)
}

fn end(disk: &WatchedDisk, watch: &Watch) {
    assert_eq!(watch.waits.load(Ordering::Relaxed), 0, "reads on the data thread that may wait for the disk");
    disk.remove_all();
}

#[test]
fn a_cold_backlog_is_read_in_few_large_pieces_past_the_page_cache() {
    let (disk, watch) = backlog("backlog");
    let mut storage = open(&disk);
    let reads_before = watch.reads.load(Ordering::Relaxed);
    for _ in ["once", "and once more"] {
        for log in 1..=LOGS {
            assert_eq!(read_all(&mut storage, LogId(log)), ((0..MESSAGES).collect(), 0));
        }
    }
    let pieces = watch.past_cache.load(Ordering::Relaxed);
    assert!((10..100).contains(&pieces), "{pieces} pieces of two times 29 MB");
    let others = watch.reads.load(Ordering::Relaxed) - reads_before;
    assert!(others < 300, "{others} reads beside");
    end(&disk, &watch);
}

#[test]
fn damage_in_a_cold_backlog_is_met_and_all_else_served() {
    let (disk, watch) = backlog("damaged-backlog");
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["segments/00000000000000000002", "journal"] {
        let mut of_folder: Vec<_> = std::fs::read_dir(disk.path(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        of_folder.sort();
        files.push(of_folder.swap_remove(0));
    }
    let mut storage = open(&disk);
    for file in &files {
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.write_all_at(b"damage", 1_000_000).unwrap();
    }
    let mut lost = 0;
    for log in 1..=LOGS {
        for _ in ["once", "and once more"] {
            let (came, damaged) = read_all(&mut storage, LogId(log));
            assert!(came.is_sorted_by(|one, next| one < next));
            // Its neighbour within a block of a segment is passed over with it.
            assert!(came.len() + damaged + damaged >= MESSAGES as usize, "log {log}: {} came", came.len());
            lost += damaged;
        }
    }
    assert_eq!(lost, 4, "one message in a segment and one in the window, each met twice");
    end(&disk, &watch);
}
