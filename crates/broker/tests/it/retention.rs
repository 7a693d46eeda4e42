//! Segments end, and retention deletes whole ones: by age, by size, after restarts, and what readers are told.

use std::time::Duration;

use crate::shard::Shard;
use broker::group::{Committed, MemberRef, OffsetCommit};
use broker::partition::AppendRequest;
use broker::topic::ConfigChange;
use broker::{BrokerError, CallId, SessionId, SyncPolicy};
use model::{LogId, Name, Offset, Wall};

const SYNC: SyncPolicy = SyncPolicy::Sync;

/// Bytes of one message of these tests.
const TEXT: &str = "0123456789012345678901234567890123456789";

fn made(config: &[(&str, &str)]) -> (Shard, LogId) {
    let mut shard = Shard::new();
    let log = shard.create("t", 1, config).unwrap().0.partitions[0];
    shard.settle_down();
    (shard, log)
}

/// Appends a message at each of these times.
fn put(shard: &mut Shard, log: LogId, times: impl IntoIterator<Item = i64>) {
    for time in times {
        shard.append(log, &[(time, TEXT)], SYNC).unwrap();
        shard.settle_down();
    }
}

/// Time passes until retention has looked at everything.
fn wait(shard: &mut Shard, ms: i64) {
    shard.now.mono = shard.now.mono.plus(Duration::from_millis(ms as u64));
    shard.now.wall.0 += ms;
    while shard.broker.deadline().is_some_and(|deadline| deadline <= shard.now.mono) {
        shard.broker.tick(shard.now);
        shard.settle_down();
    }
}

fn firsts(shard: &Shard, log: LogId) -> Vec<u64> {
    shard.broker.segments(log).unwrap().iter().map(|segment| segment.first.0).collect()
}

fn start(shard: &Shard, log: LogId) -> u64 {
    shard.broker.bounds(log).unwrap().start.0
}

#[test]
fn a_segment_ends_before_it_is_too_large_and_stays_so_after_a_crash() {
    let (mut shard, log) = made(&[("segment.bytes", "200")]);
    put(&mut shard, log, [1_000_000; 10]);
    let segments = shard.broker.segments(log).unwrap();
    assert!(segments.len() > 2 && segments.iter().all(|segment| segment.bytes <= 200), "{segments:?}");
    assert_eq!(segments.iter().filter(|segment| segment.is_active).count(), 1);
    assert!(segments.last().unwrap().is_active && segments[0].first == Offset(0));
    for again in [shard.killed(), shard.power_cut(1)] {
        assert_eq!(again.broker.segments(log).unwrap(), segments);
    }
}

#[test]
fn a_segment_ends_when_a_message_is_much_later_than_its_first() {
    let (mut shard, log) = made(&[("segment.ms", "1000")]);
    put(&mut shard, log, [5000, 5500, 6000, 6001, 3000, 7001, 7002]);
    assert_eq!(firsts(&shard, log), [0, 3, 6]);
}

#[test]
fn too_old_segments_go_and_an_idle_topic_becomes_empty() {
    let (mut shard, log) = made(&[("segment.bytes", "100"), ("retention.ms", "600000")]);
    put(&mut shard, log, [1_000_000, 1_200_000, 1_400_000]);
    let before = firsts(&shard, log);
    wait(&mut shard, 500_000);
    assert_eq!(start(&shard, log), 0);
    wait(&mut shard, 300_000);
    assert_eq!((start(&shard, log), firsts(&shard, log)), (1, before[1..].to_vec()));
    let error = shard.broker.fetch(SessionId(1), CallId(1), log, Offset(0), 100).unwrap_err();
    assert_eq!(error, BrokerError::OutOfRange { asked: Offset(0), start: Offset(1), end: Offset(3) });
    shard = shard.killed();
    shard.now.wall.0 = 1_800_000;
    assert_eq!(start(&shard, log), 1);
    wait(&mut shard, 10_000_000);
    assert_eq!((start(&shard, log), shard.end(log), shard.read(log, 3)), (3, 3, vec![]));
    assert_eq!(shard.append(log, &[(1, "next")], SYNC).unwrap().base, Offset(3));
}

#[test]
fn the_oldest_segments_go_while_the_log_is_too_large() {
    let (mut shard, log) = made(&[("segment.bytes", "100"), ("retention.bytes", "300"), ("retention.ms", "-1")]);
    put(&mut shard, log, [1; 20]);
    assert_eq!(start(&shard, log), 0);
    wait(&mut shard, 400_000);
    let held: u64 = shard.broker.segments(log).unwrap().iter().map(|segment| segment.bytes).sum();
    assert!((300..400).contains(&held), "{held}");
    assert!(start(&shard, log) > 10);
    let change = ConfigChange::Set("-1".to_owned());
    shard.broker.alter_topic(("/", "t"), &[("retention.bytes".to_owned(), change)], false, shard.now).unwrap();
    let then = start(&shard, log);
    put(&mut shard, log, [1; 20]);
    wait(&mut shard, 400_000);
    assert_eq!(start(&shard, log), then, "it may grow now");
}

#[test]
fn a_compacted_topic_keeps_the_last_value_of_each_key_and_its_offset() {
    let config = [("cleanup.policy", "compact"), ("segment.bytes", "200"), ("min.cleanable.dirty.ratio", "0.1")];
    let (mut shard, log) = made(&config);
    for n in 0..40 {
        let (key, value) = (format!("k{}", n % 4), format!("{n} {TEXT}"));
        let units = crate::shard::Lines::keyed(&[(1_000_000, key.as_bytes(), value.as_bytes())]);
        let request = AppendRequest {
            log,
            format: &crate::shard::Lines,
            units: &units,
            count: 1,
            time_max: Wall(1_000_000),
            producer: None,
            policy: SYNC,
        };
        shard.broker.append(&request, shard.now).unwrap();
        shard.settle_down();
    }
    let closed = shard.broker.segments(log).unwrap().last().unwrap().first.0;
    assert_eq!(shard.read(log, 0).len(), 40);
    for _ in 0..200 {
        wait(&mut shard, 150);
    }
    let mut again = shard.killed();
    for shard in [&mut shard, &mut again] {
        let read = shard.read(log, 0);
        let old: Vec<u64> = read.iter().map(|(offset, _)| *offset).filter(|offset| *offset < closed).collect();
        assert_eq!(old, (closed - 4..closed).collect::<Vec<u64>>(), "of what is closed only the last of each key");
        assert!(read.iter().all(|(offset, text)| text.starts_with(&format!("{offset} "))), "{read:?}");
        assert_eq!(shard.end(log), 40);
        assert_eq!(start(shard, log), 0, "nothing was deleted");
    }
}

fn commit(shard: &mut Shard, group: &str, offset: u64) {
    let committed = Committed { offset: Offset(offset), leader_epoch: -1, metadata: String::new(), at: shard.now.wall };
    let topic_id = shard.broker.topic("/", "t").unwrap().id;
    let offsets = [OffsetCommit { topic: Name::fixed("t"), topic_id, partition: 0, committed }];
    let who = MemberRef { group, member: "", instance: None, generation: -1 };
    shard.broker.commit_offsets(who, &offsets, shard.now).unwrap();
    shard.settle_down();
}

#[test]
fn what_all_groups_have_consumed_goes_by_whole_segments_if_the_topic_asks_for_it() {
    let config = [("segment.bytes", "200"), ("retention.ms", "-1"), ("retention.consumed", "true")];
    let (mut shard, log) = made(&config);
    let now = shard.now.wall.0;
    put(&mut shard, log, [now; 9]);
    let firsts = firsts(&shard, log);
    assert!(firsts.len() > 2);
    wait(&mut shard, 700_000);
    assert_eq!(start(&shard, log), 0, "nobody is known to read it");
    commit(&mut shard, "fast", 9);
    commit(&mut shard, "slow", firsts[1] - 1);
    wait(&mut shard, 700_000);
    assert_eq!(start(&shard, log), 0, "one still reads the first segment");
    commit(&mut shard, "slow", firsts[1] + 1);
    wait(&mut shard, 700_000);
    assert_eq!(start(&shard, log), firsts[1]);
    let mut shard = shard.killed();
    assert_eq!(start(&shard, log), firsts[1]);
    commit(&mut shard, "slow", 9);
    wait(&mut shard, 700_000);
    let bounds = shard.broker.bounds(log).unwrap();
    assert_eq!((bounds.start.0, bounds.end.0), (9, 9), "the newest too");
}
