//! What outlives the window: read in order, few files, space that comes back, time found in the cold.

use crate::common::oracle::{Change, Pair};
use model::{LogId, Offset};
use storage::SyncPolicy;
use storage::sim_disk::{run_jobs, settle_down};

fn put(pair: &mut Pair, log: u64, bytes: usize, time: i64) {
    pair.commit(&[Change::Put(vec![(log, 0)], vec![vec![time as u8; bytes]], time)], SyncPolicy::Sync).unwrap();
}

fn end_turn(pair: &mut Pair) {
    pair.storage.flush().unwrap();
    run_jobs(&mut pair.storage).unwrap();
}

fn segment_bytes(pair: &Pair) -> u64 {
    let names = pair.disk.names();
    let segments = names.iter().filter(|name| name.starts_with("segments/") || name.starts_with("packs/"));
    segments.map(|name| pair.disk.bytes_of(name).unwrap().len() as u64).sum()
}

#[test]
fn trickles_that_live_long_stay_in_few_segments() {
    let mut pair = Pair::new();
    for n in 0..600 {
        put(&mut pair, n % 20, 30, n as i64);
        put(&mut pair, 99, 5000, n as i64);
        let end = pair.model.logs[&99].end;
        pair.commit(&[Change::Trim(99, end - 1)], SyncPolicy::Sync).unwrap();
        pair.history.drain(..pair.history.len() - 1);
        end_turn(&mut pair);
    }
    settle_down(&mut pair.storage).unwrap();
    let stats = pair.storage.stats();
    assert!(stats.settles > 30 && stats.merges > 3, "{stats:?}");
    assert!(stats.segments < 16, "{stats:?}");
    assert!(stats.write_amplification_permille() < 2500, "{}", stats.write_amplification_permille());
    pair.check_all();
    for time in [0, 17, 300, 599] {
        pair.check_time(time as u64 % 20, time);
    }
    pair.reopen(pair.disk.crash(1), pair.storage.progress().synced);
    pair.disk.set_cache_misses(5);
    pair.check_all();
    pair.check_time(3, 43);
}

#[test]
fn space_of_the_dead_comes_back_though_a_neighbour_lives() {
    let mut pair = Pair::new();
    // One message of log 0 lies among much of others, which is consumed late.
    for n in 0..200u64 {
        put(&mut pair, 1 + n % 40, 2500, n as i64);
        if n.is_multiple_of(20) {
            put(&mut pair, 0, 100, n as i64);
        }
        end_turn(&mut pair);
    }
    settle_down(&mut pair.storage).unwrap();
    let before = segment_bytes(&pair);
    let trims: Vec<Change> = (1..=40).map(|log| Change::Trim(log, pair.model.logs[&log].end)).collect();
    pair.commit(&trims, SyncPolicy::Sync).unwrap();
    for n in 0..100 {
        put(&mut pair, 50, 2500, n);
        end_turn(&mut pair);
        pair.history.drain(..pair.history.len() - 1);
    }
    settle_down(&mut pair.storage).unwrap();
    let stats = pair.storage.stats();
    assert!(segment_bytes(&pair) < stats.segment_live_bytes * 2 + 8000, "{before} then {stats:?}");
    pair.check_all();
    pair.reopen(pair.disk.kill(), pair.storage.progress().written);
}

#[test]
fn what_lives_long_is_written_four_times_at_most() {
    for logs in [10, 64, 500] {
        let mut pair = Pair::new();
        for n in 0..6000 {
            put(&mut pair, n % logs, 1000, n as i64);
            end_turn(&mut pair);
            pair.history.drain(..pair.history.len() - 1);
        }
        settle_down(&mut pair.storage).unwrap();
        let stats = pair.storage.stats();
        assert!(stats.settles > 60 && stats.merges > 8, "{stats:?}");
        // Headers: 64 bytes an entry and about 60 an extent here, 48 there; checkpoints are as large as there are logs.
        let written = (stats.journal_bytes + stats.settled_bytes + stats.merged_bytes) * 100 / stats.unit_bytes;
        assert!(written < 440, "{logs} logs: {written} % {stats:?}");
        assert!(stats.space_amplification_permille() < 1100, "{stats:?}");
        pair.check_all();
        pair.reopen(pair.disk.crash(7), pair.storage.progress().synced);
    }
}

#[test]
fn many_extents_settle_before_the_window_is_full() {
    let disk = storage::SimDisk::new();
    let options = storage::Options { extents_max: 200, ..crate::common::tiny() };
    let (mut storage, _) = storage::Storage::open(std::sync::Arc::new(disk), options).unwrap();
    for turn in 0..600u64 {
        crate::common::put(&mut storage, &[turn % 3], &[b"x"], SyncPolicy::None).unwrap();
        storage.flush().unwrap();
        run_jobs(&mut storage).unwrap();
        assert!(storage.stats().extents <= 410, "{:?}", storage.stats());
    }
    assert_eq!(crate::common::read_all(&mut storage, 2).len(), 200);
}

#[test]
fn a_large_segment_of_a_log_has_files_of_its_own_which_go_with_it() {
    let mut pair = Pair::new();
    for n in 0..60i64 {
        put(&mut pair, 7, 3000, n);
        if n % 10 == 9 {
            pair.commit(&[Change::Roll(7)], SyncPolicy::Sync).unwrap();
        }
        end_turn(&mut pair);
        pair.history.drain(..pair.history.len() - 1);
    }
    settle_down(&mut pair.storage).unwrap();
    pair.check_all();
    let firsts: Vec<u64> = pair.storage.log_segments(model::LogId(7)).iter().map(|segment| segment.first.0).collect();
    assert_eq!(firsts, [0, 10, 20, 30, 40, 50, 60]);
    let files = |pair: &Pair| {
        let names = pair.disk.names().into_iter().filter(|name| name.starts_with("segments/"));
        let first = |name: &String| name.rsplit('/').next().unwrap()[..20].parse::<u64>().unwrap();
        names.map(|name| first(&name)).collect::<Vec<u64>>()
    };
    let before = files(&pair);
    assert!([0, 10, 20, 30].iter().all(|first| before.contains(first)), "{before:?}");
    pair.commit(&[Change::Trim(7, 20)], SyncPolicy::Sync).unwrap();
    end_turn(&mut pair);
    settle_down(&mut pair.storage).unwrap();
    let after = files(&pair);
    assert!(after.iter().all(|first| *first >= 20) && after.contains(&20), "{before:?} then {after:?}");
    pair.check_all();
    pair.reopen(pair.disk.crash(1), pair.storage.progress().synced);
}

#[test]
fn segments_are_named_by_their_first_offset_and_found_by_any_in_them() {
    let mut pair = Pair::new();
    let firsts = [0u64, 5_367_851, 9_936_472];
    let ends = [5_367_850, 9_936_471, 9_936_480];
    for (n, (first, last)) in firsts.into_iter().zip(ends).enumerate() {
        // The first message of each segment and its last one; what lies between was never given.
        let end = pair.model.logs.get(&1).map_or(0, |log| log.end);
        let big = vec![vec![n as u8; 6000]];
        let put = |gap, contents| Change::Put(vec![(1, gap)], contents, n as i64);
        if n > 0 {
            pair.commit(&[Change::Roll(1)], SyncPolicy::Sync).unwrap();
        }
        pair.commit(&[put(first - end, big.clone())], SyncPolicy::Sync).unwrap();
        pair.commit(&[put(last - first - 1, big)], SyncPolicy::Sync).unwrap();
        pair.storage.flush().unwrap();
    }
    // Others follow until all of it is settled.
    for n in 0..40 {
        pair.commit(&[Change::Put(vec![(2, 0)], vec![vec![0; 6000]], n)], SyncPolicy::Sync).unwrap();
        settle_down(&mut pair.storage).unwrap();
    }
    let disk = pair.disk.kill();
    let inspection = storage::inspect::Inspection::open(std::sync::Arc::new(disk)).unwrap();
    let file = |offset| inspection.piece_of(LogId(1), Offset(offset)).map(|piece| piece.file);
    let name = |offset: u64| file(offset).and_then(|file| Some(file.split('/').nth(2)?.get(..20)?.to_owned()));
    for (offset, first) in [
        (0, "00000000000000000000"),
        (5_367_850, "00000000000000000000"),
        (5_367_851, "00000000000005367851"),
        (9_936_471, "00000000000005367851"),
        (9_936_472, "00000000000009936472"),
        (9_936_480, "00000000000009936472"),
    ] {
        assert_eq!(name(offset).as_deref(), Some(first), "offset {offset} in {:?}", file(offset));
    }
    assert_eq!(file(9_936_481), None, "behind the end");
    drop(inspection);
    pair.reopen(pair.disk.kill(), pair.storage.progress().written);
}
