//! Committed offsets: who may commit, what is answered, how long it is kept.

use model::Offset;

use super::*;

fn commit(topic: &str, partition: u32, offset: u64, at: i64) -> OffsetCommit {
    let committed = Committed { offset: Offset(offset), leader_epoch: -1, metadata: String::new(), at: Wall(at) };
    OffsetCommit { topic: name(topic), topic_id: model::TopicId::NONE, partition, committed }
}

/// The commit of someone who is no member.
const NOBODY: MemberRef<'static> = MemberRef { group: G, member: "", instance: None, generation: -1 };

fn all(groups: &Groups) -> Vec<String> {
    let Some(group) = groups.get(G) else {
        return Vec::new();
    };
    group.offsets.iter().map(|(topic, partition, one)| format!("{topic}/{partition}={}", one.offset)).collect()
}

fn commits(bench: &mut Bench, commits: &[OffsetCommit]) {
    let group = bench.groups.check_commit(NOBODY, bench.now).unwrap();
    bench.groups.committed(&group, commits, bench.now);
}

#[test]
fn everything_committed_is_told_by_topic_and_partition_and_an_unknown_group_has_nothing() {
    let mut bench = Bench::new(options());
    assert_eq!(all(&bench.groups), [""; 0]);
    assert_eq!(bench.groups.describe(G).state, GroupState::Dead);
    commits(&mut bench, &[commit("u", 1, 7, 0), commit("t", 10, 3, 0), commit("t", 9, 2, 0), commit("u", 1, 8, 0)]);
    assert_eq!(all(&bench.groups), ["t/9=2", "t/10=3", "u/1=8"]);
    assert_eq!(bench.groups.describe(G).state, GroupState::Empty);
    assert_eq!(bench.groups.ledger_count(3), 3, "group g lies in partition 3");
    assert_eq!(bench.groups.ledger_entries(3).len(), 3);
    assert_eq!(bench.groups.ledger_count(4), 0);
}

#[test]
fn only_members_of_the_running_generation_commit_while_there_are_members() {
    let mut bench = check_new(&[
        ("commit a gen=0", "IllegalGeneration"),
        ("commit a gen=-1", "ok"),
        ("join a", "a joined 1 as a-1 range leads a-1"),
        ("commit a", "Rebalancing"),
        ("sync a a-1=x", "+1[a-1]; a* synced x"),
        ("commit a", "ok"),
        ("commit a gen=0", "IllegalGeneration"),
        ("commit a gen=-1", "IllegalGeneration"),
        ("commit a id=b", "UnknownMember"),
        ("commit nobody gen=-1", "UnknownMember"),
        ("leave a", "ok; +2[]"),
        ("commit nobody gen=-1", "ok"),
        ("commit a", "UnknownMember"),
    ]);
    let foreign = MemberRef { group: "no such", member: "a", instance: None, generation: 1 };
    assert_eq!(bench.groups.check_commit(foreign, bench.now), Err(GroupError::IllegalGeneration));
}

#[test]
fn a_commit_is_a_sign_of_life() {
    check_new(&[
        ("join a st=10", "a joined 1 as a-1 range leads a-1"),
        ("sync a a-1=x", "+1[a-1]; a* synced x"),
        ("wait 9", ""),
        ("commit a", "ok"),
        ("wait 9", ""),
        ("beat a", "ok"),
        ("wait 10", "+2[]"),
    ]);
}

#[test]
fn a_deleted_topic_takes_its_offsets_along() {
    let mut bench = Bench::new(options());
    commits(&mut bench, &[commit("t", 0, 1, 0), commit("t", 1, 1, 0), commit("u", 0, 1, 0)]);
    bench.groups.topic_deleted("t", bench.now);
    let mut said = Vec::new();
    let effects = bench.groups.take_effects();
    bench.tell(effects, &mut said);
    assert_eq!(said, ["-t/0", "-t/1"]);
    assert_eq!(all(&bench.groups), ["u/0=1"]);
    assert_eq!(bench.groups.ledger_count(3), 1);
}

#[test]
fn offsets_of_a_group_without_members_are_kept_for_their_time() {
    let mut bench = Bench::new(GroupOptions { offsets_retention: Duration::from_secs(3600), ..options() });
    check(
        &mut bench,
        &[
            ("join a", "a joined 1 as a-1 range leads a-1"),
            ("sync a a-1=x", "+1[a-1]; a* synced x"),
            ("commit a", "ok"),
        ],
    );
    bench.groups.committed(&name(G), &[commit("t", 0, 5, bench.now.wall.0)], bench.now);
    for _ in 0..1000 {
        check(&mut bench, &[("wait 9", ""), ("beat a", "ok")]);
    }
    check(&mut bench, &[("leave a", "ok; +2[]"), ("wait 3599", "")]);
    assert_eq!(all(&bench.groups), ["t/0=5"], "counted from when the last member went, not from the commit");
    check(&mut bench, &[("wait 601", "-t/0; -group")]);
    assert_eq!(bench.groups.describe(G).state, GroupState::Dead);
}

#[test]
fn offsets_without_members_are_kept_from_their_commit_on() {
    let mut bench = Bench::new(GroupOptions { offsets_retention: Duration::from_secs(3600), ..options() });
    let start = bench.now.wall.0;
    commits(&mut bench, &[commit("t", 0, 1, start), commit("t", 1, 1, start + 1_200_000)]);
    check(&mut bench, &[("wait 3000", ""), ("wait 600", "-t/0"), ("wait 600", ""), ("wait 600", "-t/1")]);
    assert_eq!(bench.groups.deadline(), None, "nothing is left to look after");
}

#[test]
fn only_a_group_without_members_is_deleted() {
    let mut bench =
        check_new(&[("join a", "a joined 1 as a-1 range leads a-1"), ("sync a a-1=x", "+1[a-1]; a* synced x")]);
    bench.groups.committed(&name(G), &[commit("t", 0, 5, 0), commit("t", 1, 5, 0)], bench.now);
    assert_eq!(bench.groups.delete(G, bench.now).err(), Some(GroupError::NotEmpty));
    check(&mut bench, &[("leave a", "ok; +2[]")]);
    let gone = bench.groups.delete_offsets(G, &[(name("t"), 0), (name("x"), 0)], bench.now).unwrap();
    assert_eq!(gone.len(), 1);
    check(&mut bench, &[("wait 0", "-t/0")]);
    assert!(bench.groups.delete(G, bench.now).is_ok());
    check(&mut bench, &[("wait 0", "-t/1; -group")]);
    assert_eq!(bench.groups.delete(G, bench.now).err(), Some(GroupError::NotFound));
    assert_eq!(bench.groups.delete_offsets(G, &[], bench.now).err(), Some(GroupError::NotFound));
}

#[test]
fn a_group_of_nothing_but_offsets_is_gone_with_the_last() {
    let mut bench = Bench::new(options());
    let now = bench.now;
    commits(&mut bench, &[commit("t", 0, 5, now.wall.0), commit("t", 1, 5, now.wall.0)]);
    for (partition, state) in [(0, GroupState::Empty), (1, GroupState::Dead)] {
        assert!(bench.groups.delete_offsets(G, &[(name("t"), partition)], bench.now).is_ok());
        assert_eq!(bench.groups.describe(G).state, state);
    }
    check(&mut bench, &[("wait 0", "-t/0; -t/1")]);
}

#[test]
fn whoever_asks_for_offsets_is_checked_as_far_as_it_says_who_it_is() {
    let bench = check_new(&[("join a", "a joined 1 as a-1 range leads a-1"), ("sync a a-1=x", "+1[a-1]; a* synced x")]);
    let group = bench.groups.get(G).unwrap();
    let who = |member, generation| MemberRef { group: G, member, instance: None, generation };
    assert_eq!(group.check_fetch(NOBODY), Ok(()));
    assert_eq!(group.check_fetch(who("a-1", -1)), Ok(()));
    assert_eq!(group.check_fetch(who("a-1", 1)), Ok(()));
    assert_eq!(group.check_fetch(who("a-1", 2)), Err(GroupError::IllegalGeneration));
    assert_eq!(group.check_fetch(who("b", 1)), Err(GroupError::UnknownMember));
}

#[test]
fn groups_are_spread_over_the_ledger_as_tools_compute_it() {
    for (group, partition) in [("g", 3), ("g1", 42), ("my-group", 12), ("polygenelubricants", 0)] {
        assert_eq!(crate::ledger::partition_of(group), partition, "{group}");
    }
}
