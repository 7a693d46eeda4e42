//! Append, fetch, watermarks, idempotent producers, watches, look-ups by time, on a disk that dies.

use crate::shard::{Shard, batch};
use broker::partition::{TimeAnswer, Watched};
use broker::{BrokerError, CallId, SessionId, StorageError, SyncPolicy};
use model::{LogId, Mono, Offset, Wall};
use storage::sim_disk::Fault;

const NONE: SyncPolicy = SyncPolicy::None;
const SYNC: SyncPolicy = SyncPolicy::Sync;

fn texts(read: &[(u64, String)]) -> Vec<&str> {
    read.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn offsets_are_dense_and_readers_see_up_to_the_watermark() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    let first = shard.append(log, &[(1, "a"), (2, "b")], NONE).unwrap();
    let second = shard.append(log, &[(3, "c")], NONE).unwrap();
    assert_eq!((first.base, second.base), (Offset(0), Offset(2)));
    assert_eq!(shard.end(log), 0, "not written yet");
    assert_eq!(shard.read(log, 0), []);
    shard.turn();
    assert!(shard.broker.progress().written >= second.lsn);
    assert_eq!(shard.end(log), 3);
    let read = shard.read(log, 0);
    assert_eq!(texts(&read), ["a", "b", "c"]);
    assert_eq!(read[2].0, 2);
    let error = shard.broker.fetch(SessionId(1), CallId(1), log, Offset(4), 100).unwrap_err();
    assert_eq!(error, BrokerError::OutOfRange { asked: Offset(4), start: Offset(0), end: Offset(3) });
}

#[test]
fn an_entry_behind_one_that_waits_for_its_sync_waits_too() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    shard.append(log, &[(1, "a")], NONE).unwrap();
    shard.turn();
    let synced = shard.append(log, &[(1, "b")], SYNC).unwrap();
    shard.turn();
    shard.append(log, &[(1, "c")], NONE).unwrap();
    shard.turn();
    assert_eq!(shard.end(log), 1);
    assert!(shard.broker.progress().synced < synced.lsn);
    shard.settle_down();
    assert!(shard.broker.progress().synced >= synced.lsn);
    assert_eq!(texts(&shard.read(log, 0)), ["a", "b", "c"]);
}

#[test]
fn acked_messages_survive_kill_and_power_cut() {
    let mut shard = Shard::new();
    let logs = shard.topic("t", 3);
    for round in 0..20 {
        for log in &logs {
            shard.append(*log, &[(round, "synced")], SYNC).unwrap();
        }
        shard.settle_down();
    }
    shard.append(logs[0], &[(1, "written")], NONE).unwrap();
    shard.turn();
    let mut killed = shard.killed();
    assert_eq!(killed.read(logs[0], 0).len(), 21);
    assert_eq!(killed.append(logs[0], &[(1, "next")], SYNC).unwrap().base, Offset(21));
    for seed in 0..20 {
        let mut cut = shard.power_cut(seed);
        for log in &logs {
            let read = cut.read(*log, 0);
            assert!(read.len() >= 20 && read.iter().take(20).all(|(_, text)| text == "synced"), "{read:?}");
        }
    }
}

/// Case K05: retries of any of the last five batches are answered with their old place, older ones are refused.
fn case_k05(shard: &mut Shard, log: LogId, restart: &dyn Fn(Shard) -> Shard) {
    let mut owned = std::mem::replace(shard, Shard::new());
    let put = |shard: &mut Shard, epoch, sequence| {
        let done = shard.append_as(log, &[(1, "m")], SYNC, batch(7, epoch, sequence, sequence));
        shard.settle_down();
        done.map(|appended| {
            assert!(shard.broker.progress().synced >= appended.lsn);
            appended.base.0
        })
    };
    for sequence in 0..5 {
        assert_eq!(put(&mut owned, 0, sequence), Ok(sequence as u64));
    }
    owned = restart(owned);
    for sequence in [1, 3, 0] {
        assert_eq!(put(&mut owned, 0, sequence), Ok(sequence as u64));
    }
    assert_eq!(owned.end(log), 5);
    let gap = |got, expected| Err(BrokerError::SequenceGap { producer: 7, got, expected });
    assert_eq!(put(&mut owned, 0, 7), gap(7, 5));
    assert_eq!(put(&mut owned, 0, 5), Ok(5));
    owned = restart(owned);
    assert_eq!(put(&mut owned, 0, 0), gap(0, 6), "six back");
    assert_eq!(put(&mut owned, 1, 3), gap(3, 0), "a new epoch begins at 0");
    assert_eq!(put(&mut owned, 1, 0), Ok(6));
    owned = restart(owned);
    assert_eq!(put(&mut owned, 0, 6), Err(BrokerError::FencedProducer { producer: 7, got: 0, current: 1 }));
    assert_eq!(put(&mut owned, 1, 0), Ok(6));
    assert_eq!(put(&mut owned, 1, 1), Ok(7));
    *shard = owned;
}

#[test]
fn a_retry_is_answered_with_the_old_offset_and_not_stored_again() {
    let restarts: [&dyn Fn(Shard) -> Shard; 3] = [&|shard| shard, &|shard| shard.killed(), &|shard| shard.power_cut(3)];
    for restart in restarts {
        let mut shard = Shard::new();
        let log = shard.topic("t", 1)[0];
        case_k05(&mut shard, log, restart);
    }
}

#[test]
fn a_retry_of_a_batch_that_still_waits_is_answered_with_what_it_waits_for() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    let first = shard.append_as(log, &[(1, "m")], SYNC, batch(7, 0, 0, 0)).unwrap();
    shard.turn();
    shard.turn();
    let again = shard.append_as(log, &[(1, "m")], SYNC, batch(7, 0, 0, 0)).unwrap();
    assert_eq!(again, first);
    assert!(shard.broker.progress().synced < again.lsn);
}

#[test]
fn a_retry_that_wants_a_sync_which_the_batch_did_not_ask_for_gets_one() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    shard.append_as(log, &[(1, "m")], NONE, batch(7, 0, 0, 0)).unwrap();
    shard.turn();
    let again = shard.append_as(log, &[(1, "m")], SYNC, batch(7, 0, 0, 0)).unwrap();
    assert_eq!(again.base, Offset(0));
    assert!(shard.broker.progress().synced < again.lsn);
    shard.settle_down();
    assert!(shard.broker.progress().synced >= again.lsn);
}

#[test]
fn sequences_wrap_and_an_unknown_producer_may_begin_anywhere() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    let two = [(1, "m"), (1, "n")];
    let wrapping = batch(7, 0, i32::MAX, 0);
    assert_eq!(shard.append_as(log, &two, NONE, batch(7, 0, i32::MAX - 2, i32::MAX - 1)).unwrap().base, Offset(0));
    assert_eq!(shard.append_as(log, &two, NONE, wrapping).unwrap().base, Offset(2));
    assert_eq!(shard.append_as(log, &two, NONE, batch(7, 0, 1, 2)).unwrap().base, Offset(4));
    assert_eq!(shard.append_as(log, &two, NONE, wrapping).unwrap().base, Offset(2));
}

#[test]
fn many_batches_are_remembered_through_snapshots() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    for sequence in 0..500 {
        shard.append_as(log, &[(1, "m")], SYNC, batch(7, 0, sequence, sequence)).unwrap();
        if sequence % 7 == 0 {
            shard.settle_down();
        }
    }
    shard.settle_down();
    let mut again = shard.power_cut(1);
    assert_eq!(again.append_as(log, &[(1, "m")], SYNC, batch(7, 0, 496, 496)).unwrap().base, Offset(496));
    assert_eq!(again.append_as(log, &[(1, "m")], SYNC, batch(7, 0, 500, 500)).unwrap().base, Offset(500));
}

#[test]
fn producer_ids_are_never_given_twice() {
    let mut shard = Shard::new();
    let mut given = std::collections::HashSet::new();
    for round in 0..6 {
        for _ in 0..700 {
            let (id, epoch, lsn) = shard.broker.init_producer(None).unwrap();
            assert_eq!(epoch, 0);
            shard.settle_down();
            assert!(shard.broker.progress().synced >= lsn);
            assert!(given.insert(id), "{id} was given before");
        }
        shard = if round % 2 == 0 { shard.killed() } else { shard.power_cut(round) };
    }
    let (id, ..) = shard.broker.init_producer(None).unwrap();
    assert_eq!(shard.broker.init_producer(Some((id, 3))).unwrap().1, 4);
    let (fresh, epoch, _) = shard.broker.init_producer(Some((id, i16::MAX - 1))).unwrap();
    assert!(fresh != id && epoch == 0, "the epochs are used up");
    let (fresh, epoch, _) = shard.broker.init_producer(Some((i64::MAX, 3))).unwrap();
    assert!(fresh != i64::MAX && epoch == 0, "an id that was never given");
}

#[test]
fn a_watch_fires_once_when_any_of_its_logs_moves_or_goes() {
    let mut shard = Shard::new();
    let logs = shard.topic("t", 3);
    let on = |log: usize, from| Watched { log: logs[log], from: Offset(from) };
    shard.broker.watch(SessionId(1), CallId(1), &[on(0, 0), on(1, 0)]);
    shard.broker.watch(SessionId(2), CallId(1), &[on(2, 0)]);
    shard.append(logs[1], &[(1, "m")], SYNC).unwrap();
    shard.turn();
    assert_eq!(shard.events(), [], "written, but it waits for its sync");
    shard.settle_down();
    assert_eq!(shard.events(), [(1, 1)]);
    shard.append(logs[0], &[(1, "m")], NONE).unwrap();
    shard.turn();
    assert_eq!(shard.events(), [], "it fired before");
    shard.broker.watch(SessionId(1), CallId(2), &[on(0, 0), on(2, 0)]);
    assert_eq!(shard.events(), [(1, 2)], "something is new already");
    shard.broker.watch(SessionId(3), CallId(1), &[on(1, 1)]);
    shard.broker.watch(SessionId(4), CallId(1), &[on(1, 1)]);
    shard.broker.unwatch(SessionId(3), CallId(1));
    shard.broker.delete_topic("/", "t", shard.now).unwrap();
    let mut told = shard.events();
    told.sort_unstable();
    assert_eq!(told, [(2, 1), (4, 1)]);
}

#[test]
fn a_closed_session_is_told_nothing() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    shard.broker.watch(SessionId(1), CallId(1), &[Watched { log, from: Offset(0) }]);
    shard.broker.session_closed(SessionId(1), shard.now);
    shard.append(log, &[(1, "m")], NONE).unwrap();
    shard.turn();
    assert_eq!(shard.events(), []);
}

#[test]
fn a_look_up_by_time_is_exact_inside_units() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    shard.append(log, &[(10, "a"), (20, "b"), (30, "c")], NONE).unwrap();
    shard.turn();
    shard.append(log, &[(40, "d"), (35, "e")], NONE).unwrap();
    shard.turn();
    shard.append(log, &[(99, "unseen")], SYNC).unwrap();
    shard.turn();
    let mut at = |time| match shard.broker.offset_at(SessionId(1), CallId(1), log, Wall(time)).unwrap() {
        TimeAnswer::Ready(found) => found.map(|(offset, time)| (offset.0, time.0)),
        TimeAnswer::Pending => panic!("it lies in memory"),
    };
    assert_eq!(at(0), Some((0, 10)));
    assert_eq!(at(11), Some((1, 20)));
    assert_eq!(at(30), Some((2, 30)));
    assert_eq!(at(31), Some((3, 40)));
    assert_eq!(at(41), None, "beyond the watermark");
}

#[test]
fn cold_reads_are_waited_for_without_blocking() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    for number in 0..50 {
        shard.append(log, &[(number, "cold")], SYNC).unwrap();
        shard.settle_down();
    }
    let disk = shard.disk.kill();
    disk.set_cache_misses(5);
    let mut again = Shard::on(disk);
    assert_eq!(again.read(log, 0).len(), 50);
}

#[test]
fn a_full_disk_refuses_appends_and_heals() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    shard.append(log, &[(1, "before")], SYNC).unwrap();
    shard.settle_down();
    shard.disk.set_capacity(0);
    let large = "x".repeat(100_000);
    let refused = (0..100).find_map(|_| {
        let refused = shard.append(log, &[(1, &large)], SYNC).err();
        shard.settle_down();
        refused
    });
    assert!(matches!(refused, Some(BrokerError::Storage(StorageError::Full { .. }))), "{refused:?}");
    assert!(shard.broker.failure().is_none());
    let end = shard.end(log);
    assert!(shard.read(log, 0).len() as u64 == end && end > 0, "reading goes on");
    shard.disk.set_capacity(1 << 40);
    let appended = shard.append(log, &[(1, "after")], SYNC).unwrap();
    shard.settle_down();
    assert_eq!(appended.base, Offset(end));
    assert!(shard.broker.progress().synced >= appended.lsn);
}

#[test]
fn after_a_failed_sync_nothing_is_acked_or_shown() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    shard.broker.watch(SessionId(1), CallId(1), &[Watched { log, from: Offset(0) }]);
    let appended = shard.append(log, &[(1, "m")], SYNC).unwrap();
    shard.turn();
    shard.disk.fail_at(shard.disk.calls().all + 1, Fault::Eio);
    shard.settle_down();
    assert!(matches!(shard.broker.failure(), Some(StorageError::Closed(_))));
    assert!(shard.broker.progress().synced < appended.lsn);
    assert_eq!((shard.end(log), shard.events()), (0, vec![]));
    let refused = shard.append(log, &[(1, "n")], NONE).unwrap_err();
    assert!(matches!(refused, BrokerError::Storage(StorageError::Closed(_))));
    assert!(shard.broker.init_producer(None).is_err());
    assert!(shard.create("u", 1, &[]).is_err());
}

#[test]
fn what_nobody_asked_to_sync_is_synced_within_a_second() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    let appended = shard.append(log, &[(1, "m")], NONE).unwrap();
    shard.settle_down();
    assert!(shard.broker.progress().synced < appended.lsn);
    let deadline = shard.broker.deadline().unwrap();
    assert_eq!(deadline, Mono(1_000_000_000));
    shard.now.mono = deadline;
    shard.broker.tick(shard.now);
    shard.settle_down();
    assert!(shard.broker.progress().synced >= appended.lsn);
    // Then the journal says that its last entry is durable, and that is all.
    let ahead = |shard: &Shard| shard.broker.deadline().unwrap().0 - shard.now.mono.0;
    for _ in 0..4 {
        if ahead(&shard) <= 1_000_000_000 {
            shard.now.mono = shard.broker.deadline().unwrap();
            shard.broker.tick(shard.now);
            shard.settle_down();
        }
    }
    assert!(ahead(&shard) > 1_000_000_000, "nothing left to sync");
}

#[test]
fn batches_that_are_too_large_or_empty_are_refused() {
    let mut shard = Shard::new();
    let (info, _) = shard.create("t", 1, &[("max.message.bytes", "100")]).unwrap();
    let log = info.partitions[0];
    let refused = shard.append(log, &[(1, &"x".repeat(100))], NONE).unwrap_err();
    assert!(matches!(refused, BrokerError::Storage(StorageError::TooLarge { bytes_max: 100, .. })), "{refused:?}");
    assert!(matches!(shard.append(log, &[], NONE), Err(BrokerError::Invalid(_))));
    assert!(matches!(shard.append(LogId(999), &[(1, "m")], NONE), Err(BrokerError::UnknownPartition { .. })));
    assert_eq!(shard.append(log, &[(1, "m")], NONE).unwrap().base, Offset(0));
}
