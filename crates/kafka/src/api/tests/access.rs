//! Every request against the permissions it needs, when clients have those of a user.

use broker::access::{Operation, Permission};
use broker::user::User;
use model::Name;

use super::super::*;
use super::rig::{Rig, plain_batch};
use crate::wire::Text;
use crate::{Settings, api};

/// What a request needs: a permission on the topic `t` or on the group `g`, or any on it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Need {
    Topic(Operation),
    AnyOnTopic,
    Group(Operation),
    AnyOnGroup,
}
use Need::{AnyOnGroup, AnyOnTopic, Group, Topic};
use Operation::{Configure, Read, Write};

/// By the request's key. A new request is not to be forgotten here.
fn needs(api: i16) -> &'static [Need] {
    match api {
        0 => &[Topic(Write)],
        1 => &[Topic(Read)],
        2 | 3 | 23 | 32 | 35 => &[AnyOnTopic],
        8 => &[Topic(Read), Group(Read)],
        9 => &[AnyOnTopic, AnyOnGroup],
        10 | 15 | 16 => &[AnyOnGroup],
        11..=14 => &[Group(Read)],
        19 | 20 | 21 | 33 | 37 | 44 => &[Topic(Configure)],
        42 => &[Group(Configure)],
        47 => &[Topic(Read), Group(Configure)],
        18 | 22 | 60 => &[],
        other => panic!("request {other} has a row, but nothing says what it needs"),
    }
}

/// A broker with topic `t`, group `g`, and a client who has the permissions of `u`.
fn world() -> (Rig, usize) {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    rig.broker.store_user(&User { name: "u".into(), ..User::default() }).unwrap();
    let client = rig.connect_with(Settings { user: Some(Name::fixed("u")), ..Settings::default() });
    let owner = rig.connect();
    ask(&mut rig, owner, 11); // makes the group
    (rig, client)
}

/// Grants all that `needs` say but the one at `lacking`. Of the topic only `t`, of the group only `g`.
fn grant(rig: &mut Rig, needs: &[Need], lacking: Option<usize>) {
    let mut patterns = [vec![], vec![], vec![]];
    for (at, need) in needs.iter().enumerate().filter(|(at, _)| Some(*at) != lacking) {
        let (operation, name) = match need {
            Topic(operation) => (*operation, "^t$"),
            // Any of the three will do: each is tried somewhere.
            AnyOnTopic => ([Configure, Write, Read][at % 3], "^t$"),
            Group(operation) => (*operation, "^g$"),
            AnyOnGroup => (Read, "^g$"),
        };
        patterns[operation as usize].push(name);
    }
    let [configure, write, read] = patterns.map(|names| names.join("|"));
    let (user, tenant) = ("u".into(), "/".into());
    rig.broker.put_permission(&Permission { user, tenant, configure, write, read }).unwrap();
}

macro_rules! codes {
    ($rig:ident, $client:ident, $api:ident $version:literal, $request:expr, $response:ident => $codes:expr) => {{
        let reply = $rig.ask($client, &api::$api::ROW, $version, &$request);
        let $response = reply.read();
        $codes
    }};
}

/// Sends the request with that key about `t` and `g`; answers the codes in the reply, and −2 where something that is
/// there is not told.
fn ask(rig: &mut Rig, client: usize, api: i16) -> Vec<i16> {
    match api {
        0 => vec![rig.produce(client, "t", &plain_batch(1), -1).0],
        8..=16 if api != 15 && api != 16 && api != 10 => ask_as_member(rig, client, api),
        10 | 15 | 16 | 42 | 47 => ask_about_groups(rig, client, api),
        19 | 20 | 21 | 33 | 37 | 44 => ask_to_change(rig, client, api),
        _ => ask_about_topics(rig, client, api),
    }
}

const T: Text<'static> = Text::Borrowed("t");
const G: Text<'static> = Text::Borrowed("g");

fn ask_about_topics(rig: &mut Rig, client: usize, api: i16) -> Vec<i16> {
    match api {
        1 => {
            let partitions = vec![fetch::FetchPartition { partition_max_bytes: 1, ..Default::default() }];
            let topics = vec![fetch::FetchTopic { topic: T, partitions, ..Default::default() }];
            let request = fetch::FetchRequest { topics, ..Default::default() };
            codes!(rig, client, fetch 12, request, got => {
                let got: fetch::FetchResponse<'_> = got;
                vec![got.topics[0].partitions[0].error_code]
            })
        }
        2 => {
            let partitions = vec![list_offsets::ListOffsetsPartition { timestamp: -1, ..Default::default() }];
            let topics = vec![list_offsets::ListOffsetsTopic { name: T, partitions }];
            let request = list_offsets::ListOffsetsRequest { topics, ..Default::default() };
            codes!(rig, client, list_offsets 6, request, got => {
                let got: list_offsets::ListOffsetsResponse<'_> = got;
                vec![got.topics[0].partitions[0].error_code]
            })
        }
        3 => {
            let named = metadata::MetadataRequestTopic { name: Some(T), ..Default::default() };
            let mut codes = Vec::new();
            for topics in [Some(vec![named]), None] {
                let request = metadata::MetadataRequest { topics, ..Default::default() };
                codes.extend(codes!(rig, client, metadata 12, request, got => {
                    let got: metadata::MetadataResponse<'_> = got;
                    let of_t = got.topics.iter().find(|topic| topic.name.as_deref() == Some("t"));
                    vec![of_t.map_or(-2, |topic| topic.error_code)]
                }));
            }
            codes
        }
        23 => {
            let partitions = vec![offset_for_leader_epoch::EpochPartition::default()];
            let topics = vec![offset_for_leader_epoch::EpochTopic { topic: T, partitions }];
            let request = offset_for_leader_epoch::OffsetForLeaderEpochRequest { topics, ..Default::default() };
            codes!(rig, client, offset_for_leader_epoch 4, request, got => {
                let got: offset_for_leader_epoch::OffsetForLeaderEpochResponse<'_> = got;
                vec![got.topics[0].partitions[0].error_code]
            })
        }
        32 => {
            let resource =
                describe_configs::ConfigResource { resource_type: 2, resource_name: T, ..Default::default() };
            let request = describe_configs::DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
            codes!(rig, client, describe_configs 4, request, got => {
                let got: describe_configs::DescribeConfigsResponse<'_> = got;
                vec![got.results[0].error_code]
            })
        }
        35 => {
            let request = describe_log_dirs::DescribeLogDirsRequest::default();
            codes!(rig, client, describe_log_dirs 4, request, got => {
                let got: describe_log_dirs::DescribeLogDirsResponse<'_> = got;
                vec![if got.results[0].topics.is_empty() { -2 } else { 0 }]
            })
        }
        18 | 22 | 60 => Vec::new(),
        other => panic!("nothing tries request {other}"),
    }
}

fn ask_as_member(rig: &mut Rig, client: usize, api: i16) -> Vec<i16> {
    match api {
        8 => {
            let partitions = vec![offset_commit::CommitPartition::default()];
            let topics = vec![offset_commit::CommitTopic { name: T, partitions, ..Default::default() }];
            let request = offset_commit::OffsetCommitRequest { group_id: G, topics, ..Default::default() };
            codes!(rig, client, offset_commit 8, request, got => {
                let got: offset_commit::OffsetCommitResponse<'_> = got;
                vec![got.topics[0].partitions[0].error_code]
            })
        }
        9 => {
            let topics =
                Some(vec![offset_fetch::FetchTopic { name: T, partition_indexes: vec![0], ..Default::default() }]);
            let groups = vec![offset_fetch::FetchGroup { group_id: G, topics, ..Default::default() }];
            let request = offset_fetch::OffsetFetchRequest { groups, ..Default::default() };
            codes!(rig, client, offset_fetch 8, request, got => {
                let got: offset_fetch::OffsetFetchResponse<'_> = got;
                let of_topic = got.groups[0].topics.first().map(|topic| topic.partitions[0].error_code);
                vec![got.groups[0].error_code, of_topic.unwrap_or_default()]
            })
        }
        11 => {
            let protocols = vec![join_group::JoinProtocol { name: Text::Borrowed("range"), ..Default::default() }];
            let request = join_group::JoinGroupRequest {
                group_id: G,
                session_timeout_ms: 10_000,
                rebalance_timeout_ms: 10_000,
                protocol_type: Text::Borrowed("consumer"),
                protocols,
                ..Default::default()
            };
            codes!(rig, client, join_group 9, request, got => {
                let got: join_group::JoinGroupResponse<'_> = got;
                vec![got.error_code]
            })
        }
        12 => {
            let request = heartbeat::HeartbeatRequest { group_id: G, ..Default::default() };
            codes!(rig, client, heartbeat 4, request, got => {
                let got: heartbeat::HeartbeatResponse = got;
                vec![got.error_code]
            })
        }
        13 => {
            let request = leave_group::LeaveGroupRequest { group_id: G, ..Default::default() };
            codes!(rig, client, leave_group 5, request, got => {
                let got: leave_group::LeaveGroupResponse<'_> = got;
                vec![got.error_code]
            })
        }
        14 => {
            let request = sync_group::SyncGroupRequest { group_id: G, ..Default::default() };
            codes!(rig, client, sync_group 4, request, got => {
                let got: sync_group::SyncGroupResponse<'_> = got;
                vec![got.error_code]
            })
        }
        other => panic!("nothing tries request {other}"),
    }
}

fn ask_about_groups(rig: &mut Rig, client: usize, api: i16) -> Vec<i16> {
    match api {
        10 => {
            let request = find_coordinator::FindCoordinatorRequest { coordinator_keys: vec![G], ..Default::default() };
            codes!(rig, client, find_coordinator 4, request, got => {
                let got: find_coordinator::FindCoordinatorResponse<'_> = got;
                vec![got.coordinators[0].error_code]
            })
        }
        15 => {
            let request = describe_groups::DescribeGroupsRequest { groups: vec![G], ..Default::default() };
            codes!(rig, client, describe_groups 5, request, got => {
                let got: describe_groups::DescribeGroupsResponse<'_> = got;
                vec![got.groups[0].error_code]
            })
        }
        16 => {
            codes!(rig, client, list_groups 5, list_groups::ListGroupsRequest::default(), got => {
                let got: list_groups::ListGroupsResponse<'_> = got;
                vec![if got.groups.is_empty() { -2 } else { 0 }]
            })
        }
        42 => {
            codes!(rig, client, delete_groups 2, delete_groups::DeleteGroupsRequest { groups_names: vec![G] }, got => {
                let got: delete_groups::DeleteGroupsResponse<'_> = got;
                vec![got.results[0].error_code]
            })
        }
        47 => {
            let partitions = vec![offset_delete::OffsetDeletePartition::default()];
            let topics = vec![offset_delete::OffsetDeleteTopic { name: T, partitions }];
            codes!(rig, client, offset_delete 0, offset_delete::OffsetDeleteRequest { group_id: G, topics }, got => {
                let got: offset_delete::OffsetDeleteResponse<'_> = got;
                let partitions = got.topics.iter().flat_map(|topic| &topic.partitions);
                [got.error_code].into_iter().chain(partitions.map(|partition| partition.error_code)).collect()
            })
        }
        other => panic!("nothing tries request {other}"),
    }
}

fn ask_to_change(rig: &mut Rig, client: usize, api: i16) -> Vec<i16> {
    match api {
        19 => {
            let topic = create_topics::CreatableTopic { name: T, num_partitions: 1, ..Default::default() };
            let request = create_topics::CreateTopicsRequest { topics: vec![topic], ..Default::default() };
            codes!(rig, client, create_topics 7, request, got => {
                let got: create_topics::CreateTopicsResponse<'_> = got;
                vec![got.topics[0].error_code]
            })
        }
        20 => {
            let topic = delete_topics::DeleteTopic { name: Some(T), ..Default::default() };
            let request = delete_topics::DeleteTopicsRequest { topics: vec![topic], ..Default::default() };
            codes!(rig, client, delete_topics 6, request, got => {
                let got: delete_topics::DeleteTopicsResponse<'_> = got;
                vec![got.responses[0].error_code]
            })
        }
        21 => {
            let partitions = vec![delete_records::TrimmedPartition::default()];
            let topics = vec![delete_records::TrimmedTopic { name: T, partitions }];
            let request = delete_records::DeleteRecordsRequest { topics, ..Default::default() };
            codes!(rig, client, delete_records 2, request, got => {
                let got: delete_records::DeleteRecordsResponse<'_> = got;
                vec![got.topics[0].partitions[0].error_code]
            })
        }
        33 => {
            let resource = alter_configs::AlteredResource { resource_type: 2, resource_name: T, ..Default::default() };
            let request = alter_configs::AlterConfigsRequest { resources: vec![resource], validate_only: false };
            codes!(rig, client, alter_configs 2, request, got => {
                let got: alter_configs::AlterConfigsResponse<'_> = got;
                vec![got.responses[0].error_code]
            })
        }
        37 => {
            let topic = create_partitions::GrowingTopic { name: T, count: 2, ..Default::default() };
            let request = create_partitions::CreatePartitionsRequest { topics: vec![topic], ..Default::default() };
            codes!(rig, client, create_partitions 3, request, got => {
                let got: create_partitions::CreatePartitionsResponse<'_> = got;
                vec![got.results[0].error_code]
            })
        }
        44 => {
            let resource =
                incremental_alter_configs::ChangedResource { resource_type: 2, resource_name: T, ..Default::default() };
            let request = incremental_alter_configs::IncrementalAlterConfigsRequest {
                resources: vec![resource],
                ..Default::default()
            };
            codes!(rig, client, incremental_alter_configs 1, request, got => {
                let got: alter_configs::AlterConfigsResponse<'_> = got;
                vec![got.responses[0].error_code]
            })
        }
        other => panic!("nothing tries request {other}"),
    }
}

#[test]
fn every_request_needs_exactly_the_permissions_of_its_row() {
    for row in ROWS {
        let needs = needs(row.api);
        let (mut rig, client) = world();
        grant(&mut rig, needs, None);
        let codes = ask(&mut rig, client, row.api);
        assert!(!codes.iter().any(|code| [29, 30, -2].contains(code)), "{}: {codes:?} with all it needs", row.name);
        for lacking in 0..needs.len() {
            let (mut rig, client) = world();
            grant(&mut rig, needs, Some(lacking));
            let codes = ask(&mut rig, client, row.api);
            let refused = if matches!(needs[lacking], Topic(_) | AnyOnTopic) { 29 } else { 30 };
            let told = codes.contains(&refused) || codes.iter().all(|code| *code == -2);
            assert!(told, "{}: {codes:?} without {:?}", row.name, needs[lacking]);
        }
    }
}

#[test]
fn one_connection_too_many_of_a_tenant_or_user_is_closed() {
    let (mut rig, client) = world();
    assert_eq!(ask(&mut rig, client, 3), [29, -2]);
    let limits = broker::access::UserLimits { connections_max: Some(1), channels_max: None };
    rig.broker.set_user_limits("u", limits).unwrap();
    let settings = Settings { user: Some(Name::fixed("u")), ..Settings::default() };
    let second = rig.connect_with(settings);
    rig.send(second, &api_versions::ROW, 0, &api_versions::ApiVersionsRequest::default());
    assert!(rig.is_closed(second) && !rig.is_closed(client));
}

#[test]
fn a_topic_that_is_not_theirs_to_make_is_not_made_on_demand() {
    let (mut rig, client) = world();
    grant(&mut rig, &[Topic(Write)], None);
    let named = metadata::MetadataRequestTopic { name: Some(Text::Borrowed("new")), ..Default::default() };
    let request =
        metadata::MetadataRequest { topics: Some(vec![named]), allow_auto_topic_creation: true, ..Default::default() };
    let reply = rig.ask(client, &metadata::ROW, 9, &request);
    assert_eq!(reply.read::<metadata::MetadataResponse<'_>>().topics[0].error_code, 29);
    assert!(rig.broker.topic("/", "new").is_none());
}
