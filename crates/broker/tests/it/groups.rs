//! Groups through the broker's own calls, on a disk that dies: no answer leaves before what it says is written, and
//! what was answered is still there after a restart.

use std::time::Duration;

use crate::shard::{Shard, name};
use broker::group::*;
use broker::{CallId, Event, Options, SessionId, StorageError, SyncPolicy};
use bytes::Bytes;
use model::{Offset, TopicId, Wall};
use storage::SimDisk;
use storage::sim_disk::Fault;

/// A group with one member.
struct Lone {
    shard: Shard,
    member: String,
    generation: i32,
}

fn shard() -> Shard {
    let groups = GroupOptions { initial_rebalance_delay: Duration::ZERO, ..GroupOptions::default() };
    let storage =
        storage::Options { journal_file_bytes: 1 << 20, reserve_bytes: 1 << 20, ..storage::Options::default() };
    Shard::with(SimDisk::new(), Options { storage, groups, ..Options::default() }).unwrap()
}

fn join(member: &str, known: bool) -> JoinRequest {
    JoinRequest {
        group: name("g"),
        member: member.to_owned(),
        instance: None,
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout: Duration::from_secs(10),
        rebalance_timeout: Duration::from_secs(60),
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), Bytes::from_static(b"meta"))],
        require_known_member: known,
    }
}

fn commit(topic: &str, partition: u32, offset: u64) -> OffsetCommit {
    let committed = Committed { offset: Offset(offset), leader_epoch: -1, metadata: String::new(), at: Wall(0) };
    OffsetCommit { topic: name(topic), topic_id: TopicId::NONE, partition, committed }
}

/// A member as it speaks.
fn who(member: &str, generation: i32) -> MemberRef<'_> {
    MemberRef { group: "g", member, instance: None, generation }
}

/// Someone who is no member.
const NOBODY: MemberRef<'static> = MemberRef { group: "g", member: "", instance: None, generation: -1 };

impl Lone {
    /// The member has joined and not synced.
    fn joined() -> Lone {
        let mut shard = shard();
        shard.broker.join(SessionId(1), CallId(1), join("", true), shard.now);
        let Some((SessionId(1), Event::Joined(CallId(1), Err(GroupError::MemberIdRequired(member))))) =
            shard.broker.next_event()
        else {
            panic!("a new member is told its id at once");
        };
        assert!(member.starts_with("client-") && member.len() == 7 + 36, "{member} ends with a UUID");
        shard.broker.join(SessionId(1), CallId(2), join(&member, true), shard.now);
        let Some((SessionId(1), Event::Joined(CallId(2), Ok(joined)))) = shard.broker.next_event() else {
            panic!("the only member waits for nobody");
        };
        assert_eq!(joined.leader, member);
        Lone { shard, member, generation: joined.generation }
    }

    fn sync(&mut self) {
        let who = who(&self.member, self.generation);
        let assignments = vec![(self.member.clone(), Bytes::from_static(b"all"))];
        self.shard.broker.sync(SessionId(1), CallId(3), who, Some(("consumer", "range")), assignments, self.shard.now);
    }

    fn answer(&mut self) -> Option<Result<Synced, GroupError>> {
        match self.shard.broker.next_event()? {
            (SessionId(1), Event::Synced(CallId(3), answer)) => Some(answer),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_sync_is_answered_only_when_the_group_is_written_and_then_survives() {
    let mut lone = Lone::joined();
    lone.sync();
    assert!(lone.answer().is_none(), "nothing is written yet");
    let lost = lone.shard.killed();
    assert_eq!(lost.broker.describe_group("g").state, GroupState::Dead);
    lone.shard.turn();
    assert_eq!(lone.answer().unwrap().unwrap().assignment, b"all"[..]);
    let mut again = lone.shard.killed();
    assert_eq!(again.broker.describe_group("g"), lone.shard.broker.describe_group("g"));
    assert_eq!(again.broker.heartbeat(who(&lone.member, lone.generation), again.now), Ok(()));
}

#[test]
fn after_a_failed_write_a_sync_is_refused() {
    let mut lone = Lone::joined();
    lone.sync();
    lone.shard.disk.fail_at(lone.shard.disk.calls().all + 1, Fault::Eio);
    lone.shard.turn();
    assert!(matches!(lone.answer(), Some(Err(GroupError::Storage(_)))));
    lone.sync();
    lone.shard.turn();
    assert!(matches!(lone.answer(), Some(Err(GroupError::Storage(_)) | Err(GroupError::Rebalancing))));
    let why =
        lone.shard.broker.commit_offsets(who(&lone.member, lone.generation), &[commit("t", 0, 1)], lone.shard.now);
    assert!(matches!(why, Err(GroupError::Storage(StorageError::Closed(_)) | GroupError::Rebalancing)), "{why:?}");
}

#[test]
fn an_answer_held_back_for_a_session_that_closes_is_dropped() {
    let mut lone = Lone::joined();
    lone.sync();
    lone.shard.broker.session_closed(SessionId(1), lone.shard.now);
    lone.shard.turn();
    assert!(lone.answer().is_none());
    let now = lone.shard.now;
    assert_eq!(lone.shard.broker.heartbeat(who(&lone.member, lone.generation), now), Ok(()), "this was not a leave");
}

#[test]
fn a_silent_member_is_out_when_the_broker_says_it_is_time() {
    let mut lone = Lone::joined();
    lone.sync();
    lone.shard.settle_down();
    let start = lone.shard.now.mono;
    let deadline = lone.shard.broker.deadline().unwrap();
    assert!(deadline <= start.plus(Duration::from_secs(10)));
    lone.shard.now.mono = start.plus(Duration::from_secs(10));
    lone.shard.broker.tick(lone.shard.now);
    assert_eq!(lone.shard.broker.describe_group("g").state, GroupState::Empty);
}

#[test]
fn committed_offsets_survive_and_go_with_their_topic() {
    let mut shard = shard();
    shard.topic("t", 2);
    shard.topic("u", 1);
    let now = shard.now;
    let all = [commit("u", 0, 5), commit("t", 1, 8), commit("t", 0, 7)];
    let lsn = shard.broker.commit_offsets(NOBODY, &all, now).unwrap();
    shard.settle_down();
    assert!(shard.broker.progress().written >= lsn);
    let told = |shard: &Shard| -> Vec<String> {
        let all = shard.broker.all_committed("g");
        all.iter().map(|(topic, partition, one)| format!("{topic}/{partition}={}", one.offset)).collect()
    };
    let mut again = shard.killed();
    assert_eq!(told(&again), ["t/0=7", "t/1=8", "u/0=5"]);
    assert_eq!(again.broker.committed("g", "t", 1).unwrap().offset, Offset(8));
    assert_eq!(again.broker.committed("g", "t", 2), None);
    assert_eq!(again.broker.all_committed("unknown"), []);
    again.broker.delete_topic("/", "t", now).unwrap();
    assert_eq!(told(&again), ["u/0=5"]);
    again.settle_down();
    let mut again = again.killed();
    assert_eq!(told(&again), ["u/0=5"]);
    again.broker.delete_group("g", now).unwrap();
    again.settle_down();
    let again = again.killed();
    assert_eq!(again.broker.groups(), []);
    assert_eq!(again.broker.describe_group("g").state, GroupState::Dead);
}

#[test]
fn a_ledger_of_many_commits_is_written_again_and_loses_nothing() {
    let mut lone = Lone::joined();
    lone.sync();
    lone.shard.settle_down();
    let ledger = |shard: &Shard| {
        let log = shard.broker.topic("/", LEDGER_TOPIC).unwrap().partitions[3];
        shard.broker.bounds(log).unwrap()
    };
    for round in 0..130u64 {
        let all: Vec<OffsetCommit> = (0..100).map(|partition| commit("t", partition, round)).collect();
        let who = who(&lone.member, lone.generation);
        lone.shard.broker.commit_offsets(who, &all, lone.shard.now).unwrap();
        lone.shard.settle_down();
    }
    let bounds = ledger(&lone.shard);
    assert!(bounds.start > Offset(10_000) && bounds.end > Offset(13_000), "{bounds:?}");
    let mut again = lone.shard.killed();
    assert_eq!(again.broker.all_committed("g").len(), 100);
    assert!(again.broker.all_committed("g").iter().all(|(_, _, one)| one.offset == Offset(129)));
    assert_eq!(again.broker.heartbeat(who(&lone.member, lone.generation), again.now), Ok(()));
}

#[test]
fn on_a_full_disk_groups_go_on_from_the_reserve_and_beyond_it_are_refused_until_there_is_space_again() {
    let mut lone = Lone::joined();
    lone.sync();
    lone.shard.settle_down();
    assert!(lone.answer().unwrap().is_ok());
    let rejoin = |lone: &mut Lone| {
        lone.shard.broker.join(SessionId(1), CallId(4), join(&lone.member, true), lone.shard.now);
        let Some((_, Event::Joined(CallId(4), Ok(joined)))) = lone.shard.broker.next_event() else {
            panic!("the only member waits for nobody");
        };
        lone.generation = joined.generation;
    };
    let log = lone.shard.topic("t", 1)[0];
    let big = "x".repeat(64 << 10);
    lone.shard.disk.set_capacity(1 << 20);
    // Storage looks at the volume once in a while.
    while lone.shard.append(log, &[(1, &big)], SyncPolicy::None).is_ok() {
        lone.shard.turn();
    }
    rejoin(&mut lone);
    lone.sync();
    lone.shard.settle_down();
    assert!(lone.answer().unwrap().is_ok(), "readers go on while writers are refused");
    for size in [100, 1] {
        let all: Vec<OffsetCommit> = (0..size).map(|partition| commit("t", partition, 1)).collect();
        let mut commits = 0;
        while lone.shard.broker.commit_offsets(who(&lone.member, lone.generation), &all, lone.shard.now).is_ok() {
            lone.shard.turn();
            commits += 1;
            assert!(commits < 100_000, "the volume has an end");
        }
    }
    rejoin(&mut lone);
    lone.sync();
    lone.shard.settle_down();
    let refused = lone.answer().unwrap().err();
    assert!(matches!(refused, Some(GroupError::Storage(StorageError::Full { .. }))), "{refused:?}");
    let beat = lone.shard.broker.heartbeat(who(&lone.member, lone.generation), lone.shard.now);
    assert_eq!(beat, Err(GroupError::Rebalancing), "the assignment was told to nobody");
    lone.shard.disk.set_capacity(1 << 40);
    rejoin(&mut lone);
    lone.sync();
    lone.shard.settle_down();
    assert!(lone.answer().unwrap().is_ok());
}

#[test]
fn what_cannot_be_deleted_on_a_full_disk_stays_and_goes_when_it_is_asked_for_again() {
    let mut shard = shard();
    let mut all: Vec<OffsetCommit> = (0..1000).map(|partition| commit("t", partition, 1)).collect();
    all.iter_mut().for_each(|one| one.committed.at = shard.now.wall);
    shard.broker.commit_offsets(NOBODY, &all, shard.now).unwrap();
    let log = shard.topic("u", 1)[0];
    let big = "x".repeat(64 << 10);
    shard.disk.set_capacity(1 << 20);
    while shard.append(log, &[(1, &big)], SyncPolicy::None).is_ok() {
        shard.turn();
    }
    // The reserve is used up, too.
    for size in [100, 1] {
        while shard.broker.commit_offsets(NOBODY, &all[..size], shard.now).is_ok() {
            shard.turn();
        }
    }
    let mut left = 1000;
    let refused = loop {
        if let Err(why) = shard.broker.delete_offsets("g", &[(name("t"), left - 1)], shard.now) {
            break why;
        }
        left -= 1;
        shard.turn();
    };
    assert!(matches!(refused, GroupError::Storage(StorageError::Full { .. })), "{refused:?}");
    assert_eq!(shard.broker.all_committed("g").len(), left as usize);
    assert!(shard.broker.delete_group("g", shard.now).is_err());
    assert_eq!(shard.broker.all_committed("g").len(), left as usize);
    shard.disk.set_capacity(1 << 40);
    shard.broker.delete_offsets("g", &[(name("t"), 0)], shard.now).unwrap();
    shard.settle_down();
    let mut shard = shard.killed();
    assert_eq!(shard.broker.all_committed("g").len(), left as usize - 1);
    shard.broker.delete_group("g", shard.now).unwrap();
    shard.settle_down();
    assert!(shard.killed().broker.all_committed("g").is_empty());
}
