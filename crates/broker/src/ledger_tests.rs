//! The internal offsets topic: entries come back, also after it was written again; ids of logs are never given twice.

#![allow(clippy::unwrap_used)]

use model::Offset;

use crate::group::{Committed, LedgerEntry, MemberRef, OffsetCommit};
use crate::ledger::partition_of;
use crate::shard::{Shard, name};

fn entry(group: &str, partition: u32, offset: u64) -> LedgerEntry {
    let committed = Committed { offset: Offset(offset), leader_epoch: -1, metadata: String::new(), at: model::Wall(0) };
    LedgerEntry::Offset { group: name(group), topic: name("t"), partition, committed: Some(committed) }
}

fn read_back(shard: &mut Shard) -> Vec<LedgerEntry> {
    let mut told = Vec::new();
    shard.broker.core.read_ledger(&mut |entry| told.push(entry)).unwrap();
    told
}

#[test]
fn the_topic_is_made_on_first_use_and_entries_come_back() {
    let mut shard = Shard::new();
    assert_eq!(shard.broker.topics("/").len(), 0);
    let entries = [entry("a", 0, 1), entry("b", 0, 2), entry("a", 1, 3)];
    let lsn = shard.broker.core.append_ledger(&entries).unwrap();
    shard.turn();
    assert!(shard.broker.progress().written >= lsn);
    let topic = shard.broker.topic("/", "__consumer_offsets").unwrap();
    assert!(topic.internal && topic.partitions.len() == 50);
    shard.broker.core.append_ledger(&[entry("a", 0, 9)]).unwrap();
    shard.turn();
    let mut again = shard.killed();
    let told = read_back(&mut again);
    let of = |group: &str| {
        let group = name(group);
        told.iter()
            .filter(|e| matches!(e, LedgerEntry::Offset { group: g, .. } if *g == group))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(of("a"), [entry("a", 0, 1), entry("a", 1, 3), entry("a", 0, 9)]);
    assert_eq!(of("b"), [entry("b", 0, 2)]);
    assert!(again.broker.delete_topic("/", "__consumer_offsets", again.now).is_err(), "it is not a user's");
}

#[test]
fn a_partition_written_again_keeps_its_entries_and_its_offsets_ascend() {
    let mut shard = Shard::new();
    let partition = partition_of("g");
    for round in 0..30 {
        let entries: Vec<LedgerEntry> = (0..400).map(|n| entry("g", n % 10, round * 400 + u64::from(n))).collect();
        shard.broker.core.append_ledger(&entries).unwrap();
    }
    let core = &mut shard.broker.core;
    assert_eq!(core.ledger_length(partition), 12_000);
    assert!(!core.ledger_outgrows(partition, 3001));
    assert!(core.ledger_outgrows(partition, 10));
    let live: Vec<LedgerEntry> = (0..2500).map(|n| entry("g", n, 7)).collect();
    core.rewrite_ledger(partition, &live).unwrap();
    assert_eq!(core.ledger_length(partition), 2500);
    core.append_ledger(&[entry("g", 0, 8)]).unwrap();
    shard.settle_down();
    shard.now.mono = shard.broker.deadline().unwrap();
    shard.broker.tick(shard.now);
    shard.settle_down();
    for mut again in [shard.killed(), shard.power_cut(5)] {
        let told = read_back(&mut again);
        assert!(told.starts_with(&live) && told[2500..] == [entry("g", 0, 8)], "{}", told.len());
        let log = again.broker.topic("/", "__consumer_offsets").unwrap().partitions[partition as usize];
        assert_eq!(again.broker.bounds(log).unwrap().start, Offset(12_000));
    }
}

#[test]
fn a_group_that_commits_for_ever_keeps_its_partition_short() {
    let mut shard = Shard::new();
    shard.topic("t", 3);
    let who = MemberRef { group: "g", member: "", instance: None, generation: -1 };
    for round in 0..5000 {
        let commit = |partition| OffsetCommit {
            topic: name("t"),
            topic_id: model::TopicId::NONE,
            partition,
            committed: Committed {
                offset: Offset(round),
                leader_epoch: -1,
                metadata: String::new(),
                at: model::Wall(1),
            },
        };
        let commits = [commit(0), commit(1), commit(2)];
        shard.broker.commit_offsets(who, &commits, shard.now).unwrap();
        if round % 50 == 0 {
            shard.turn();
        }
    }
    shard.turn();
    let length = shard.broker.core.ledger_length(partition_of("g"));
    assert!(length < 6000, "{length}");
    let again = shard.killed();
    for partition in 0..3 {
        assert_eq!(again.broker.committed("g", "t", partition).map(|c| c.offset), Some(Offset(4999)));
    }
}

#[test]
fn log_ids_are_never_given_twice_even_if_nothing_names_them() {
    let mut shard = Shard::new();
    let mut last = 0;
    for round in 0..4 {
        for _ in 0..600 {
            let id = shard.broker.core.new_log_id().unwrap().0;
            assert!(id > last, "{id} after {last}");
            last = id;
        }
        shard.settle_down();
        shard = if round % 2 == 0 { shard.killed() } else { shard.power_cut(round) };
    }
}

#[test]
fn groups_are_spread_as_tools_compute_it() {
    assert_eq!(partition_of(""), 0);
    assert_eq!(partition_of("a"), 97 % 50);
    // "polygenelubricants" hashes to the least number there is.
    assert_eq!(partition_of("polygenelubricants"), 0);
}
