//! Groups: joined, synced, committed to, described, over the wire.

use super::super::{
    delete_groups, describe_groups, heartbeat, join_group, leave_group, list_groups, offset_commit, offset_delete,
    offset_fetch, sync_group,
};
use super::rig::Rig;
use crate::wire::{Blob, Text};

fn join_request<'a>(member: &str, instance: Option<&'a str>) -> join_group::JoinGroupRequest<'a> {
    let protocol = join_group::JoinProtocol { name: "range".into(), metadata: Blob::Borrowed(b"topics") };
    join_group::JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: Text::Owned(member.to_owned()),
        group_instance_id: instance.map(Text::Borrowed),
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        reason: None,
    }
}

/// What a member knows of itself.
#[derive(Clone, Debug)]
struct Member {
    id: String,
    generation: i32,
    instance: Option<&'static str>,
}

/// Joins, waiting as long as the group asks for; answers the member and whether it leads.
fn join(rig: &mut Rig, client: usize, member: &str, instance: Option<&'static str>) -> (i16, Member, bool) {
    rig.send(client, &join_group::ROW, 9, &join_request(member, instance));
    let reply = loop {
        if let Some(reply) = rig.try_reply(client, &join_group::ROW, 9) {
            break reply;
        }
        rig.wait(100);
    };
    let response: join_group::JoinGroupResponse<'_> = reply.read();
    let joined = Member { id: response.member_id.to_string(), generation: response.generation_id, instance };
    (response.error_code, joined, response.leader == response.member_id)
}

/// A new dynamic member, by way of the id it is given first.
fn join_new(rig: &mut Rig, client: usize) -> Member {
    let (code, known, _) = join(rig, client, "", None);
    assert_eq!(code, 79);
    let (code, member, _) = join(rig, client, &known.id, None);
    assert_eq!(code, 0);
    member
}

fn sync(rig: &mut Rig, client: usize, member: &Member, assignments: &[(&str, &[u8])]) -> (i16, Vec<u8>) {
    let assignments = assignments.iter().map(|(member, assignment)| sync_group::SyncAssignment {
        member_id: Text::Borrowed(member),
        assignment: Blob::Borrowed(assignment),
    });
    let request = sync_group::SyncGroupRequest {
        group_id: "g".into(),
        generation_id: member.generation,
        member_id: Text::Borrowed(&member.id),
        group_instance_id: member.instance.map(Text::Borrowed),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: assignments.collect(),
    };
    let reply = rig.ask(client, &sync_group::ROW, 5, &request);
    let response: sync_group::SyncGroupResponse<'_> = reply.read();
    (response.error_code, response.assignment.to_vec())
}

fn beat(rig: &mut Rig, client: usize, member: &Member) -> i16 {
    let request = heartbeat::HeartbeatRequest {
        group_id: "g".into(),
        generation_id: member.generation,
        member_id: Text::Borrowed(&member.id),
        group_instance_id: member.instance.map(Text::Borrowed),
    };
    let reply = rig.ask(client, &heartbeat::ROW, 4, &request);
    reply.read::<heartbeat::HeartbeatResponse>().error_code
}

fn commit_request<'a>(
    topic: &'a str,
    member: Option<&'a Member>,
    offset: i64,
) -> offset_commit::OffsetCommitRequest<'a> {
    let partition = offset_commit::CommitPartition {
        committed_offset: offset,
        committed_metadata: Some("note".into()),
        ..Default::default()
    };
    let topics = vec![offset_commit::CommitTopic {
        name: Text::Borrowed(topic),
        partitions: vec![partition],
        ..Default::default()
    }];
    offset_commit::OffsetCommitRequest {
        group_id: "g".into(),
        generation_id: member.map_or(-1, |member| member.generation),
        member_id: Text::Borrowed(member.map_or("", |member| &member.id)),
        group_instance_id: member.and_then(|member| member.instance).map(Text::Borrowed),
        topics,
        ..Default::default()
    }
}

fn commit(rig: &mut Rig, client: usize, topic: &str, member: Option<&Member>, offset: i64) -> i16 {
    let reply = rig.ask(client, &offset_commit::ROW, 9, &commit_request(topic, member, offset));
    reply.read::<offset_commit::OffsetCommitResponse<'_>>().topics[0].partitions[0].error_code
}

/// Everything that group `group` has committed.
fn all_committed(rig: &mut Rig, client: usize, group: &str) -> (i16, Vec<(String, i64)>) {
    let request = offset_fetch::OffsetFetchRequest { group_id: Text::Borrowed(group), ..Default::default() };
    let reply = rig.ask(client, &offset_fetch::ROW, 2, &request);
    let response: offset_fetch::OffsetFetchResponse<'_> = reply.read();
    let all = response.topics.iter().map(|topic| (topic.name.to_string(), topic.partitions[0].committed_offset));
    (response.error_code, all.collect())
}

#[test]
fn members_join_sync_commit_and_leave() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let member = join_new(&mut rig, client);
    assert_eq!(member.generation, 1);
    assert_eq!(sync(&mut rig, client, &member, &[(&member.id, b"all of it")]), (0, b"all of it".to_vec()));
    assert_eq!(beat(&mut rig, client, &member), 0);
    assert_eq!(beat(&mut rig, client, &Member { generation: 7, ..member.clone() }), 22);
    assert_eq!(beat(&mut rig, client, &Member { id: "who".into(), ..member.clone() }), 25);
    assert_eq!(commit(&mut rig, client, "t", Some(&member), 5), 0);
    assert_eq!(commit(&mut rig, client, "t", Some(&Member { generation: 7, ..member.clone() }), 6), 22);
    assert_eq!(all_committed(&mut rig, client, "g"), (0, vec![("t".into(), 5)]));
    let identity = leave_group::MemberIdentity { member_id: Text::Borrowed(&member.id), ..Default::default() };
    let ghost = leave_group::MemberIdentity { member_id: "ghost".into(), ..Default::default() };
    let request =
        leave_group::LeaveGroupRequest { group_id: "g".into(), members: vec![identity, ghost], ..Default::default() };
    let reply = rig.ask(client, &leave_group::ROW, 5, &request);
    let response: leave_group::LeaveGroupResponse<'_> = reply.read();
    let codes: Vec<i16> = response.members.iter().map(|member| member.error_code).collect();
    assert_eq!((response.error_code, codes), (0, vec![0, 25]));
}

#[test]
fn a_second_member_makes_the_first_join_again() {
    let mut rig = Rig::new();
    let (a, b) = (rig.connect(), rig.connect());
    let first = join_new(&mut rig, a);
    sync(&mut rig, a, &first, &[(&first.id, b"1")]);
    let (code, known, _) = join(&mut rig, b, "", None);
    assert_eq!(code, 79);
    rig.send(b, &join_group::ROW, 9, &join_request(&known.id, None));
    assert!(rig.try_reply(b, &join_group::ROW, 9).is_none(), "the group is not complete");
    assert_eq!(beat(&mut rig, a, &first), 27);
    let (code, first, leads) = join(&mut rig, a, &first.id, None);
    assert_eq!((code, first.generation, leads), (0, 2, true));
    let reply = rig.reply(b, &join_group::ROW, 9);
    let response: join_group::JoinGroupResponse<'_> = reply.read();
    assert_eq!((response.generation_id, response.members.len()), (2, 0), "only the leader is told the members");
    let second = Member { generation: 2, ..known };
    let request = sync_group::SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 2,
        member_id: Text::Borrowed(&second.id),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        ..Default::default()
    };
    rig.send(b, &sync_group::ROW, 5, &request);
    assert!(rig.try_reply(b, &sync_group::ROW, 5).is_none(), "the leader has not assigned yet");
    assert_eq!(sync(&mut rig, a, &first, &[(&first.id, b"1"), (&second.id, b"2")]), (0, b"1".to_vec()));
    let reply = rig.reply(b, &sync_group::ROW, 5);
    assert_eq!(&*reply.read::<sync_group::SyncGroupResponse<'_>>().assignment, b"2");
}

#[test]
fn k14_the_newer_of_two_members_with_one_instance_id_takes_the_place() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let (a, b) = (rig.connect(), rig.connect());
    let (code, first, leads) = join(&mut rig, a, "", Some("i"));
    assert_eq!((code, leads), (0, true), "a static member is not sent round for its id");
    sync(&mut rig, a, &first, &[(&first.id, b"all")]);
    let (code, second, _) = join(&mut rig, b, "", Some("i"));
    assert_eq!((code, second.generation), (0, first.generation));
    assert_ne!(second.id, first.id);
    assert_eq!(beat(&mut rig, a, &first), 82);
    assert_eq!(commit(&mut rig, a, "t", Some(&first), 1), 82);
    assert_eq!(sync(&mut rig, b, &second, &[]), (0, b"all".to_vec()));
    assert_eq!(beat(&mut rig, b, &second), 0);
    rig.wait(5_000);
    let c = rig.connect();
    let (code, third, _) = join(&mut rig, c, "", Some("i"));
    assert_eq!((code, third.generation), (0, first.generation), "back within its time: no rebalance");
}

#[test]
fn k15_null_topics_ask_for_everything_and_unknown_groups_have_nothing() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let id = rig.make_topic("u", 1);
    let client = rig.connect();
    assert_eq!(commit(&mut rig, client, "t", None, 3), 0);
    assert_eq!(commit(&mut rig, client, "u", None, 4), 0);
    assert_eq!(all_committed(&mut rig, client, "g"), (0, vec![("t".into(), 3), ("u".into(), 4)]));
    assert_eq!(all_committed(&mut rig, client, "unknown"), (0, vec![]));
    let by_name = |name: &'static str| offset_fetch::FetchTopic {
        name: name.into(),
        partition_indexes: vec![0, 7],
        ..Default::default()
    };
    let group = |id: &'static str, topics| offset_fetch::FetchGroup {
        group_id: id.into(),
        member_epoch: -1,
        topics,
        ..Default::default()
    };
    let groups =
        vec![group("g", None), group("unknown", Some(vec![by_name("t")])), group("g", Some(vec![by_name("t")]))];
    let request = offset_fetch::OffsetFetchRequest { groups, ..Default::default() };
    let reply = rig.ask(client, &offset_fetch::ROW, 9, &request);
    let response: offset_fetch::OffsetFetchResponse<'_> = reply.read();
    let look = |group: &offset_fetch::FetchedGroup<'_>| -> (i16, Vec<i64>) {
        let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
        (group.error_code, partitions.map(|partition| partition.committed_offset).collect())
    };
    let looked: Vec<_> = response.groups.iter().map(look).collect();
    assert_eq!(looked, [(0, vec![3, 4]), (0, vec![-1, -1]), (0, vec![3, -1])]);
    assert_eq!(response.groups[0].topics[0].partitions[0].metadata.as_deref(), Some("note"));
    let by_id = offset_fetch::FetchTopic { topic_id: id, partition_indexes: vec![0], ..Default::default() };
    let gone = offset_fetch::FetchTopic { topic_id: [5; 16], partition_indexes: vec![0], ..Default::default() };
    let groups = vec![group("g", Some(vec![by_id, gone])), group("g", None)];
    let request = offset_fetch::OffsetFetchRequest { groups, ..Default::default() };
    let reply = rig.ask(client, &offset_fetch::ROW, 10, &request);
    let response: offset_fetch::OffsetFetchResponse<'_> = reply.read();
    let [named, gone] = &response.groups[0].topics[..] else { panic!("two topics") };
    assert_eq!((named.partitions[0].committed_offset, named.partitions[0].error_code), (4, 0));
    assert_eq!(gone.partitions[0].error_code, 100);
    assert!(response.groups[1].topics.iter().any(|topic| topic.topic_id == id));
}

#[test]
fn k15_the_first_dynamic_join_is_given_an_id_from_version_4_on() {
    let mut rig = Rig::new();
    for (version, code) in [(3, 0), (4, 79), (5, 79)] {
        let client = rig.connect();
        let mut request = join_request("", None);
        request.group_id = Text::Owned(format!("g{version}"));
        rig.send(client, &join_group::ROW, version, &request);
        rig.wait(5_000);
        let reply = rig.reply(client, &join_group::ROW, version);
        let response: join_group::JoinGroupResponse<'_> = reply.read();
        assert_eq!((response.error_code, response.member_id.is_empty()), (code, false), "v{version}");
    }
}

#[test]
fn commits_that_may_not_be_are_refused_one_by_one() {
    let mut rig = Rig::new();
    let id = rig.make_topic("t", 1);
    let client = rig.connect();
    assert_eq!(commit(&mut rig, client, "none", None, 1), 3);
    assert_eq!(commit(&mut rig, client, "t", None, -1), 42);
    let mut request = commit_request("t", None, 1);
    request.topics[0].partitions[0].committed_metadata = Some(Text::Owned("x".repeat(4097)));
    let reply = rig.ask(client, &offset_commit::ROW, 9, &request);
    assert_eq!(reply.read::<offset_commit::OffsetCommitResponse<'_>>().topics[0].partitions[0].error_code, 12);
    let mut request = commit_request("t", None, 1);
    request.topics[0].partitions[0].partition_index = 4;
    let reply = rig.ask(client, &offset_commit::ROW, 2, &request);
    assert_eq!(reply.read::<offset_commit::OffsetCommitResponse<'_>>().topics[0].partitions[0].error_code, 3);
    for (topic_id, code) in [(id, 0), ([6; 16], 100)] {
        let mut request = commit_request("", None, 8);
        request.topics[0].topic_id = topic_id;
        let reply = rig.ask(client, &offset_commit::ROW, 10, &request);
        let response: offset_commit::OffsetCommitResponse<'_> = reply.read();
        assert_eq!((response.topics[0].partitions[0].error_code, response.topics[0].topic_id), (code, topic_id));
    }
    assert_eq!(all_committed(&mut rig, client, "g").1, [("t".into(), 8)]);
}

#[test]
fn group_ids_that_are_none_are_refused() {
    let mut rig = Rig::new();
    let client = rig.connect();
    for group in ["", "a\nb"] {
        let mut request = join_request("", None);
        request.group_id = Text::Borrowed(group);
        let reply = rig.ask(client, &join_group::ROW, 5, &request);
        assert_eq!(reply.read::<join_group::JoinGroupResponse<'_>>().error_code, 24);
    }
}

#[test]
fn groups_are_described_and_listed_with_their_filters() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let member = join_new(&mut rig, client);
    sync(&mut rig, client, &member, &[(&member.id, b"all")]);
    for (version, code) in [(5, 0), (6, 69)] {
        let request = describe_groups::DescribeGroupsRequest {
            groups: vec!["g".into(), "none".into()],
            include_authorized_operations: true,
        };
        let reply = rig.ask(client, &describe_groups::ROW, version, &request);
        let response: describe_groups::DescribeGroupsResponse<'_> = reply.read();
        let [group, none] = &response.groups[..] else { panic!("two groups") };
        assert_eq!(
            (&*group.group_state, &*group.protocol_type, &*group.protocol_data),
            ("Stable", "consumer", "range")
        );
        let described = &group.members[0];
        assert_eq!((&*described.client_id, &*described.client_host), ("tester", "/127.0.0.1"));
        assert_eq!((&*described.member_metadata, &*described.member_assignment), (&b"topics"[..], &b"all"[..]));
        assert_eq!(group.authorized_operations, 328);
        assert_eq!((none.error_code, &*none.group_state), (code, "Dead"));
    }
    for (states, types, count) in [
        (vec![], vec![], 1),
        (vec!["stable"], vec!["classic"], 1),
        (vec!["Empty"], vec![], 0),
        (vec![], vec!["share"], 0),
    ] {
        let request = list_groups::ListGroupsRequest {
            states_filter: states.into_iter().map(Text::Borrowed).collect(),
            types_filter: types.into_iter().map(Text::Borrowed).collect(),
        };
        let reply = rig.ask(client, &list_groups::ROW, 5, &request);
        let response: list_groups::ListGroupsResponse<'_> = reply.read();
        assert_eq!((response.error_code, response.groups.len()), (0, count));
    }
}

fn delete(rig: &mut Rig, client: usize, groups: &[&'static str]) -> Vec<(String, i16)> {
    let groups_names = groups.iter().map(|group| Text::Borrowed(*group)).collect();
    let reply = rig.ask(client, &delete_groups::ROW, 2, &delete_groups::DeleteGroupsRequest { groups_names });
    let response: delete_groups::DeleteGroupsResponse<'_> = reply.read();
    response.results.iter().map(|result| (result.group_id.to_string(), result.error_code)).collect()
}

/// Top code, and the code of each partition that is answered.
fn delete_offsets(rig: &mut Rig, client: usize, group: &str, which: &[(&str, &[i32])]) -> (i16, Vec<i16>) {
    let topics = which.iter().map(|(name, partitions)| offset_delete::OffsetDeleteTopic {
        name: Text::Borrowed(name),
        partitions: partitions.iter().map(|at| offset_delete::OffsetDeletePartition { partition_index: *at }).collect(),
    });
    let request = offset_delete::OffsetDeleteRequest { group_id: Text::Borrowed(group), topics: topics.collect() };
    let reply = rig.ask(client, &offset_delete::ROW, 0, &request);
    let response: offset_delete::OffsetDeleteResponse<'_> = reply.read();
    let codes = response.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code);
    (response.error_code, codes.collect())
}

#[test]
fn groups_and_offsets_that_nobody_uses_are_deleted_and_stay_so() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    rig.make_topic("u", 1);
    let client = rig.connect();
    for topic in ["t", "u"] {
        assert_eq!(commit(&mut rig, client, topic, None, 7), 0);
    }
    assert_eq!(delete_offsets(&mut rig, client, "g", &[("t", &[0, 0, 5]), ("x", &[0])]), (0, vec![0, 3, 3]));
    assert_eq!(delete_offsets(&mut rig, client, "none", &[("t", &[0])]), (69, vec![]));
    assert_eq!(delete_offsets(&mut rig, client, "", &[("t", &[0])]), (24, vec![]));
    let mut rig = Rig::on(rig.disk.kill());
    let client = rig.connect();
    assert_eq!(all_committed(&mut rig, client, "g").1, [("u".into(), 7)]);
    assert_eq!(delete(&mut rig, client, &["g", "none", "g"]), [("g".to_owned(), 0), ("none".to_owned(), 69)]);
    let mut rig = Rig::on(rig.disk.kill());
    let client = rig.connect();
    assert_eq!(all_committed(&mut rig, client, "g").1, []);
    assert_eq!(delete(&mut rig, client, &["g"]), [("g".to_owned(), 69)]);
}

#[test]
fn what_members_read_is_not_deleted_under_them() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    rig.make_topic("u", 1);
    let (first, second) = (rig.connect(), rig.connect());
    for (kind, metadata, wanted) in [
        ("consumer", &b"\0\0\0\0\0\x01\0\x01u\xff\xff\xff\xff"[..], (0, vec![0, 86])),
        ("consumer", b"neither version nor topics", (0, vec![86, 86])),
        ("connect", b"whatever", (68, vec![])),
    ] {
        let mut request = join_request("", Some("static"));
        request.protocol_type = kind.into();
        request.protocols[0].metadata = Blob::Borrowed(metadata);
        rig.send(first, &join_group::ROW, 9, &request);
        let member = loop {
            assert_ne!(delete(&mut rig, second, &["g"])[0].1, 0, "somebody has asked to be let in");
            if let Some(reply) = rig.try_reply(first, &join_group::ROW, 9) {
                let joined: join_group::JoinGroupResponse<'_> = reply.read();
                let id = joined.member_id.to_string();
                break Member { id, generation: joined.generation_id, instance: Some("static") };
            }
            let while_joining = delete_offsets(&mut rig, second, "g", &[("t", &[0])]);
            assert!(while_joining == (0, vec![86]) || while_joining == (68, vec![]), "{while_joining:?}");
            rig.wait(100);
        };
        let request = sync_group::SyncGroupRequest {
            group_id: "g".into(),
            member_id: Text::Borrowed(&member.id),
            generation_id: member.generation,
            group_instance_id: Some("static".into()),
            ..Default::default()
        };
        rig.ask(first, &sync_group::ROW, 3, &request);
        assert_eq!(delete_offsets(&mut rig, second, "g", &[("t", &[0]), ("u", &[0])]), wanted, "{kind}");
        let leaving = leave_group::MemberIdentity { member_id: Text::Borrowed(&member.id), ..Default::default() };
        let request =
            leave_group::LeaveGroupRequest { group_id: "g".into(), members: vec![leaving], ..Default::default() };
        rig.ask(first, &leave_group::ROW, 5, &request);
        assert_eq!(delete(&mut rig, second, &["g"])[0].1, 0);
    }
}
