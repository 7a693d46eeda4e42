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
fn whether_a_partition_is_to_be_written_again_follows_from_what_is_valid() {
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
}

fn commit(shard: &mut Shard, (topic, at): (&str, u32), offset: u64) {
    let who = MemberRef { group: "g", member: "", instance: None, generation: -1 };
    let committed = Committed { offset: Offset(offset), leader_epoch: -1, metadata: String::new(), at: model::Wall(1) };
    let (topic, topic_id) = (name(topic), model::TopicId::NONE);
    let commits = [OffsetCommit { topic, topic_id, partition: at, committed }];
    shard.broker.commit_offsets(who, &commits, shard.now).unwrap();
}

#[test]
fn a_partition_is_written_again_some_each_turn_and_a_stop_in_between_loses_nothing() {
    let mut shard = Shard::new();
    shard.topic("t", 1000);
    shard.topic("u", 500);
    let places: Vec<(&str, u32)> = (0..1000).map(|at| ("t", at)).chain((0..500).map(|at| ("u", at))).collect();
    let mut wanted = std::collections::BTreeMap::new();
    let mut most = 0;
    let (mut round, mut stops) = (0, 0);
    let partition = partition_of("g");
    let rewrites = |shard: &Shard| shard.broker.core.is_rewriting();
    while stops < 12 {
        // Offsets that are in hand change while it goes on, too.
        for place in places.iter().cycle().skip(round * 37 % 1500).take(if rewrites(&shard) { 20 } else { 1500 }) {
            commit(&mut shard, *place, round as u64);
            wanted.insert(*place, round as u64);
        }
        let before = shard.broker.core.ledger_length(partition);
        shard.turn();
        most = most.max(shard.broker.core.ledger_length(partition).saturating_sub(before));
        round += 1;
        if rewrites(&shard) && round % 2 == 0 {
            stops += 1;
            let mut again = if stops % 2 == 0 { shard.killed() } else { shard.power_cut(stops) };
            if stops % 2 == 0 {
                for ((topic, at), offset) in &wanted {
                    let found = again.broker.committed("g", topic, *at).map(|found| found.offset);
                    assert_eq!(found, Some(Offset(*offset)), "{topic} {at}");
                }
                shard = again;
            } else {
                again.settle_down(); // what was not synced may be gone: it is only to open
            }
        }
    }
    assert!(most > 0 && most <= 300, "{most} entries written again in one turn");
    // Left alone it comes to its end, some turns after the next commit.
    commit(&mut shard, ("t", 0), 7);
    wanted.insert(("t", 0), 7);
    shard.turn();
    let mut turns = 0;
    while rewrites(&shard) {
        assert!(shard.broker.deadline().is_some_and(|at| at <= shard.now.mono));
        shard.turn();
        turns += 1;
    }
    let length = shard.broker.core.ledger_length(partition);
    assert!((1..=10).contains(&turns) && length < 10_000, "{length} after {turns} turns");
    for ((topic, at), offset) in &wanted {
        let found = shard.broker.committed("g", topic, *at).map(|found| found.offset);
        assert_eq!(found, Some(Offset(*offset)), "{topic} {at}");
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
