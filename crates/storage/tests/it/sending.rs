//! Reading to send on: large extents stay in their files, are checked before they leave, keep their bytes while
//! somebody holds them; and no read on the data thread waits for the disk.
#![cfg(target_os = "linux")]

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::put;
use crate::common::watched::{Watch, WatchedDisk, on_data_thread};
use model::{FormatTag, LogId, Offset, Wall};
use storage::{Batch, FileRange, Lookup, Options, Part, Parts, Read, ReadRequest, Storage, StorageError, SyncPolicy};

const LARGE: usize = 40 << 10;

fn options() -> Options {
    Options { journal_file_bytes: 256 << 10, journal_files_max: 2, ..crate::common::tiny() }
}

struct Rig {
    disk: Arc<WatchedDisk>,
    watch: Arc<Watch>,
    storage: Storage,
}

impl Rig {
    fn new(name: &str) -> Rig {
        let (disk, watch) = WatchedDisk::new(name);
        let (storage, _) = Storage::open(Arc::clone(&disk) as Arc<_>, options()).unwrap();
        Rig { disk, watch, storage }
    }

    /// As after a kill.
    fn reopen(self) -> Rig {
        let Rig { disk, watch, storage } = self;
        drop(storage);
        let disk = disk.again();
        let (storage, recovered) = Storage::open(Arc::clone(&disk) as Arc<_>, options()).unwrap();
        assert!(recovered.damage.is_empty());
        Rig { disk, watch, storage }
    }

    /// One message of its own extent.
    fn put(&mut self, log: u64, bytes: usize) {
        let end = self.storage.range(LogId(log)).map_or(0, |range| range.end.0);
        on_data_thread(|| {
            put(&mut self.storage, &[log], &[&vec![end as u8; bytes]], SyncPolicy::Sync).unwrap();
            self.storage.flush().unwrap();
        });
        self.run_jobs();
    }

    fn run_jobs(&mut self) {
        while let Some(job) = self.storage.next_job() {
            let done = job.run();
            on_data_thread(|| self.storage.complete(done)).unwrap();
        }
    }

    fn try_send(&mut self, log: u64, from: u64, bytes_max: usize) -> Result<Parts, StorageError> {
        let until = self.storage.range(LogId(log)).unwrap().end;
        let request = ReadRequest { log: LogId(log), from: Offset(from), until, bytes_max };
        on_data_thread(|| self.storage.read_to_send(&request, FormatTag(9)))
    }

    /// The parts from `from` on, and how often the disk was waited for.
    fn send(&mut self, log: u64, from: u64, bytes_max: usize) -> (Vec<Part>, usize) {
        for waits in 0..10 {
            match self.try_send(log, from, bytes_max).unwrap() {
                Parts::Ready(parts) => return (parts, waits),
                Parts::Pending(_) => self.run_jobs(),
            }
        }
        panic!("the read does not end");
    }

    fn warm_up(&self, is_warm: bool) {
        self.watch.cold.store(!is_warm, Ordering::Relaxed);
    }

    /// The end of every test: the data thread has never waited.
    fn end(self) {
        let waits = self.watch.waits.load(Ordering::Relaxed);
        assert_eq!(waits, 0, "reads on the data thread that may wait for the disk");
        self.disk.remove_all();
    }
}

fn stored(parts: &[Part]) -> Vec<(u64, FileRange)> {
    let range = |part: &Part| match part {
        Part::Stored(stored) => Some((stored.first.0, stored.range.clone())),
        Part::Chunk(_) | Part::Together(_) => None,
    };
    parts.iter().filter_map(range).collect()
}

fn content_of(range: &FileRange, offset: u64) -> bool {
    let bytes = range.read().unwrap();
    bytes[..8] == offset.to_be_bytes() && bytes[12..].iter().all(|byte| *byte == offset as u8)
}

#[test]
fn large_extents_stay_in_their_files_and_small_ones_come_along() {
    let mut rig = Rig::new("mixed");
    for bytes in [LARGE, LARGE, 100, LARGE] {
        rig.put(1, bytes);
    }
    let (parts, _) = rig.send(1, 0, 1 << 20);
    assert_eq!(parts.len(), 4);
    let ranges = stored(&parts);
    assert_eq!(ranges.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [0, 1, 3]);
    assert!(
        ranges.iter().all(|(first, range)| range.resident(range.bytes()).covers(range) && content_of(range, *first))
    );
    // Never more than was asked for, unless it is the first; that is read into memory, to be cut.
    assert_eq!(stored(&rig.send(1, 0, LARGE + 100).0).len(), 1);
    assert!(matches!(rig.send(1, 0, 100).0.as_slice(), [Part::Chunk(_)]));
    rig.end();
}

#[test]
fn settled_extents_stay_in_their_segments() {
    let mut rig = Rig::new("settled");
    for _ in 0..40 {
        rig.put(1, LARGE);
    }
    assert!(rig.storage.stats().settles > 0);
    let (mut from, mut sent) = (0, 0);
    while from < 40 {
        let (parts, _) = rig.send(1, from, 1 << 20);
        assert!(parts.iter().all(|part| matches!(part, Part::Stored(_))));
        for (first, range) in stored(&parts) {
            assert_eq!(first, from);
            assert!(content_of(&range, first));
            (from, sent) = (first + 1, sent + 1);
        }
    }
    assert_eq!(sent, 40);
    rig.end();
}

#[test]
fn what_an_earlier_process_wrote_is_checked_before_it_is_sent_unseen() {
    let mut rig = Rig::new("checked");
    for _ in 0..40 {
        rig.put(1, LARGE);
    }
    let mut rig = rig.reopen();
    for from in [0, 39] {
        assert_eq!(stored(&rig.send(1, from, 2 * LARGE).0).len(), 0, "the first time it is looked at");
        assert_eq!(stored(&rig.send(1, from, 2 * LARGE).0).len(), 1);
    }
    // A cold one is looked at by the job that brings it in.
    rig.warm_up(false);
    for _ in ["its segment is opened", "it is brought in"] {
        assert!(matches!(rig.try_send(1, 20, 2 * LARGE), Ok(Parts::Pending(_))));
        rig.run_jobs();
    }
    rig.warm_up(true);
    assert_eq!(stored(&rig.send(1, 20, 2 * LARGE).0).len(), 1);
    rig.end();
}

#[test]
fn damage_is_never_sent() {
    let mut rig = Rig::new("damaged");
    for _ in 0..40 {
        rig.put(1, LARGE);
    }
    let (parts, _) = rig.send(1, 0, 2 * LARGE);
    let at = stored(&parts)[0].1.at();
    let mut rig = rig.reopen();
    let segments: Vec<_> =
        std::fs::read_dir(rig.disk.path("segments/00000000000000000001")).unwrap().map(|e| e.unwrap().path()).collect();
    let first = segments.iter().min().unwrap();
    std::fs::File::options().write(true).open(first).unwrap().write_all_at(b"damage", at + 1000).unwrap();
    for is_warm in [false, true, true] {
        rig.warm_up(is_warm);
        let mut outcome = rig.try_send(1, 0, LARGE * 2);
        while matches!(outcome, Ok(Parts::Pending(_))) {
            rig.run_jobs();
            outcome = rig.try_send(1, 0, LARGE * 2);
        }
        assert!(matches!(outcome, Err(StorageError::Damaged { .. })), "{outcome:?}");
    }
    rig.end();
}

#[test]
fn what_could_not_be_sent_is_read_before_it_is_sent_again() {
    let mut rig = Rig::new("distrusted");
    for _ in 0..40 {
        rig.put(1, LARGE);
    }
    for from in [0, 39] {
        let (parts, _) = rig.send(1, from, 2 * LARGE);
        let range = stored(&parts).remove(0).1;
        rig.storage.distrust(&range);
        let again = rig.try_send(1, from, 2 * LARGE).unwrap();
        assert!(!matches!(&again, Parts::Ready(parts) if !stored(parts).is_empty()), "{again:?}");
        // Found right, it may be sent.
        rig.send(1, from, 2 * LARGE);
        assert!(!stored(&rig.send(1, from, 2 * LARGE).0).is_empty());
    }
    rig.end();
}

#[test]
fn a_range_keeps_its_bytes_though_its_files_are_freed() {
    let mut rig = Rig::new("held");
    rig.put(1, LARGE);
    let (parts, _) = rig.send(1, 0, LARGE * 2);
    let held = stored(&parts);
    // Another in a segment that will be gone.
    for _ in 0..30 {
        rig.put(2, LARGE);
    }
    let (parts, _) = rig.send(2, 0, LARGE * 2);
    let settled = stored(&parts);
    for log in [1, 2] {
        let end = rig.storage.range(LogId(log)).unwrap().end;
        let batch = Batch { trims: &[(LogId(log), end)], ..Batch::default() };
        rig.storage.commit(&batch, SyncPolicy::Sync).unwrap();
    }
    for _ in 0..60 {
        rig.put(3, LARGE);
    }
    assert!(content_of(&held[0].1, 0), "a journal file was used again under a reader");
    assert!(content_of(&settled[0].1, 0));
    rig.end();
}

#[test]
fn a_reader_in_order_finds_what_is_cold_brought_in_ahead() {
    let mut rig = Rig::new("ahead");
    for _ in 0..200 {
        rig.put(1, LARGE);
    }
    let mut rig = rig.reopen();
    rig.put(2, 10); // segments it needs are opened below, by jobs
    let (mut from, mut waits) = (0, 0);
    rig.warm_up(false);
    let reads_before = rig.watch.reads.load(Ordering::Relaxed);
    while from < 150 {
        match rig.try_send(1, from, 1 << 20).unwrap() {
            Parts::Ready(parts) => {
                from = parts.last().unwrap().last().0 + 1;
                rig.warm_up(true); // what follows has been brought in
                rig.run_jobs();
            }
            Parts::Pending(_) => {
                waits += 1;
                rig.run_jobs();
                rig.warm_up(true);
            }
        }
    }
    assert!(rig.watch.reads.load(Ordering::Relaxed) > reads_before);
    assert!(waits < 150, "{waits} waits");
    rig.end();
}

#[test]
fn when_memory_is_short_a_cold_read_still_ends() {
    let mut rig = Rig::new("short");
    for _ in 0..40 {
        rig.put(1, LARGE);
    }
    rig.warm_up(false); // and it stays so: what is brought in is gone again at once
    for from in [0, 20, 39] {
        let (parts, waits) = rig.send(1, from, 2 * LARGE);
        assert!(!parts.is_empty() && waits > 0, "offset {from}");
    }
    rig.end();
}

// What is sent, as (offset, first byte, length) of each extent, and how many parts it came in.
fn extents_of(parts: &[Part]) -> (Vec<(u64, u8, usize)>, usize) {
    let of = |chunk: storage::Chunk| (chunk.first.0, chunk.units[12], chunk.units.len());
    let all = parts.iter().flat_map(|part| match part {
        Part::Chunk(chunk) => vec![of(chunk.clone())],
        Part::Together(run) => run.chunks().map(of).collect(),
        Part::Stored(_) => Vec::new(),
    });
    (all.collect(), parts.len())
}

#[test]
fn small_extents_of_several_logs_come_together_each_in_its_order() {
    let mut rig = Rig::new("together");
    let bytes = |n: u64| 200 + (n * 7919 % 900) as usize;
    (0..150).for_each(|n| rig.put(n % 3, bytes(n)));
    for is_warm in [true, false, true] {
        rig.warm_up(is_warm);
        for log in 0..3 {
            let wanted: Vec<_> = (0..50).map(|at| (at, at as u8, 12 + bytes(at * 3 + log))).collect();
            let (all, parts) = extents_of(&rig.send(log, 0, 1 << 20).0);
            assert_eq!(all, wanted[..all.len()], "log {log}");
            assert!(all.len() == 50 || !is_warm);
            assert!(!is_warm || parts < 40, "{parts}");
            let (some, _) = extents_of(&rig.send(log, 7, 5000).0);
            assert_eq!(some, wanted[7..7 + some.len()]);
            assert!(!some.is_empty() && some.iter().map(|(.., bytes)| bytes).sum::<usize>() <= 5000);
        }
    }
    rig.end();
}

#[test]
fn a_damaged_extent_among_small_ones_is_named_and_its_neighbours_are_sent() {
    let mut rig = Rig::new("one-of-many");
    (0..60).for_each(|n| rig.put(n % 2, 1000));
    let journal = std::fs::read_dir(rig.disk.path("journal")).unwrap().map(|entry| entry.unwrap().path());
    for path in journal {
        // The eleventh message of log 1: its units are of this byte.
        let content = std::fs::read(&path).unwrap();
        let Some(at) = content.windows(500).position(|window| window.iter().all(|byte| *byte == 10)) else { continue };
        let second = at + content[at + 1000..].windows(500).position(|w| w.iter().all(|b| *b == 10)).unwrap() + 1000;
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"damage", second as u64 + 100).unwrap();
    }
    assert_eq!(extents_of(&rig.send(0, 0, 1 << 20).0).0.len(), 30);
    assert_eq!(extents_of(&rig.send(1, 0, 1 << 20).0).0.len(), 10);
    assert!(matches!(rig.try_send(1, 10, 1 << 20), Err(StorageError::Damaged { .. })));
    assert_eq!(extents_of(&rig.send(1, 11, 1 << 20).0).0.len(), 19);
    rig.end();
}

#[test]
fn nothing_read_on_the_data_thread_waits_for_the_disk() {
    let mut rig = Rig::new("never");
    for n in 0..200 {
        rig.put(n % 3, if n % 5 == 0 { LARGE } else { 300 });
    }
    let mut rig = rig.reopen();
    for is_warm in [false, true] {
        rig.warm_up(is_warm);
        for log in 0..3 {
            let range = rig.storage.range(LogId(log)).unwrap();
            let mut from = range.start;
            while from < range.end {
                let request = ReadRequest { log: LogId(log), from, until: range.end, bytes_max: 100_000 };
                match on_data_thread(|| rig.storage.read(&request)).unwrap() {
                    Read::Ready(chunks) => from = chunks.last().unwrap().last.plus(1),
                    Read::Pending(_) => rig.run_jobs(),
                }
            }
            for time in 0..range.end.0 {
                while let Lookup::Pending(_) =
                    on_data_thread(|| rig.storage.find_time(LogId(log), Wall(time as i64))).unwrap()
                {
                    rig.run_jobs();
                }
            }
            let (parts, _) = rig.send(log, 0, 1 << 20);
            assert!(!parts.is_empty());
        }
    }
    rig.end();
}
