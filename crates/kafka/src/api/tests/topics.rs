//! Topics: made, checked, described, removed.

use super::super::{create_partitions, create_topics, delete_topics, describe_cluster, describe_configs};
use super::super::{describe_log_dirs, find_coordinator, metadata};
use super::rig::{Rig, plain_batch};
use crate::Settings;
use crate::wire::Text;

fn topic<'a>(name: &'a str, partitions: i32, configs: &[(&'a str, &'a str)]) -> create_topics::CreatableTopic<'a> {
    let configs = configs.iter().map(|(name, value)| create_topics::CreatableConfig {
        name: Text::Borrowed(name),
        value: Some(Text::Borrowed(value)),
    });
    create_topics::CreatableTopic {
        name: Text::Borrowed(name),
        num_partitions: partitions,
        replication_factor: -1,
        configs: configs.collect(),
        ..Default::default()
    }
}

fn create(rig: &mut Rig, client: usize, topics: Vec<create_topics::CreatableTopic<'_>>, validate: bool) -> Vec<i16> {
    let request = create_topics::CreateTopicsRequest { topics, timeout_ms: 1000, validate_only: validate };
    let reply = rig.ask(client, &create_topics::ROW, 7, &request);
    reply.read::<create_topics::CreateTopicsResponse<'_>>().topics.iter().map(|topic| topic.error_code).collect()
}

fn names(rig: &mut Rig, client: usize) -> Vec<String> {
    let reply = rig.ask(client, &metadata::ROW, 12, &metadata::MetadataRequest::default());
    let response: metadata::MetadataResponse<'_> = reply.read();
    let visible = response.topics.iter().filter(|topic| !topic.is_internal);
    visible.map(|topic| topic.name.as_deref().unwrap().to_owned()).collect()
}

#[test]
fn k08_checking_refuses_what_making_would_and_makes_nothing() {
    let mut rig = Rig::new();
    let client = rig.connect();
    assert_eq!(create(&mut rig, client, vec![topic("t", 1, &[])], false), [0]);
    for validate in [true, false] {
        assert_eq!(create(&mut rig, client, vec![topic("t", 1, &[])], validate), [36]);
        assert_eq!(create(&mut rig, client, vec![topic("v", 1, &[("retention.ms", "abc")])], validate), [40]);
        assert_eq!(create(&mut rig, client, vec![topic("v", 1, &[("no.such", "1")])], validate), [40]);
        assert_eq!(create(&mut rig, client, vec![topic("v", 0, &[])], validate), [37]);
        assert_eq!(create(&mut rig, client, vec![topic("v", 10_001, &[])], validate), [44]);
        assert_eq!(create(&mut rig, client, vec![topic("a/b", 1, &[])], validate), [17]);
        assert_eq!(create(&mut rig, client, vec![topic("w", 1, &[]), topic("w", 1, &[])], validate), [42]);
        let mut replicated = topic("v", 1, &[]);
        replicated.replication_factor = 2;
        assert_eq!(create(&mut rig, client, vec![replicated], validate), [38]);
        let mut assigned = topic("v", -1, &[]);
        assigned.assignments = vec![create_topics::Assignment { partition_index: 0, broker_ids: vec![9] }];
        assert_eq!(create(&mut rig, client, vec![assigned], validate), [39]);
    }
    assert_eq!(create(&mut rig, client, vec![topic("u", 1, &[])], true), [0]);
    assert_eq!(names(&mut rig, client), ["t"]);
    let mut assigned = topic("u", -1, &[]);
    assigned.assignments = vec![
        create_topics::Assignment { partition_index: 1, broker_ids: vec![1] },
        create_topics::Assignment { partition_index: 0, broker_ids: vec![1] },
    ];
    assert_eq!(create(&mut rig, client, vec![assigned], false), [0]);
    assert_eq!(create(&mut rig, client, vec![topic("a.b", 1, &[])], false), [0]);
    assert_eq!(create(&mut rig, client, vec![topic("a_b", 1, &[])], false), [17]);
    assert_eq!(names(&mut rig, client), ["a.b", "t", "u"]);
}

#[test]
fn k09_the_answer_of_a_creation_and_a_description_name_the_same_settings() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let topics = vec![topic("t", 3, &[("max.message.bytes", "2000")])];
    let request = create_topics::CreateTopicsRequest { topics, ..Default::default() };
    let reply = rig.ask(client, &create_topics::ROW, 5, &request);
    let created: create_topics::CreateTopicsResponse<'_> = reply.read();
    assert_eq!((created.topics[0].num_partitions, created.topics[0].replication_factor), (3, 1));
    let configs = created.topics[0].configs.clone().unwrap();
    let size = configs.iter().find(|config| config.name == "max.message.bytes").unwrap();
    assert_eq!((size.value.as_deref(), size.config_source), (Some("2000"), 1));
    let described = describe(&mut rig, client, 2, "t", None);
    let size = described.iter().find(|(name, ..)| name == "max.message.bytes").unwrap();
    assert_eq!((size.1.as_str(), size.2), ("2000", 1));
    let policy = described.iter().find(|(name, ..)| name == "cleanup.policy").unwrap();
    assert_eq!((policy.1.as_str(), policy.2), ("delete", 5));
    assert_eq!(described.len(), configs.len());
}

fn describe(
    rig: &mut Rig,
    client: usize,
    resource_type: i8,
    name: &str,
    keys: Option<&[&'static str]>,
) -> Vec<(String, String, i8)> {
    let keys = keys.map(|keys| keys.iter().map(|key| Text::Borrowed(*key)).collect());
    let resource = describe_configs::ConfigResource {
        resource_type,
        resource_name: Text::Borrowed(name),
        configuration_keys: keys,
    };
    let request = describe_configs::DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        include_documentation: true,
    };
    let reply = rig.ask(client, &describe_configs::ROW, 4, &request);
    let response: describe_configs::DescribeConfigsResponse<'_> = reply.read();
    if response.results[0].error_code != 0 {
        return vec![("error".into(), response.results[0].error_code.to_string(), 0)];
    }
    let configs = response.results[0].configs.iter();
    let look = |config: &describe_configs::DescribedConfig<'_>| {
        let value = config.value.as_deref().unwrap_or_default().to_owned();
        (config.name.to_string(), value, config.config_source)
    };
    configs.map(look).collect()
}

#[test]
fn k11_the_broker_tells_its_settings_by_the_names_that_tools_know() {
    let mut rig = Rig::new();
    let client = rig.connect_with(Settings { partitions_default: 3, ..Settings::default() });
    let all = describe(&mut rig, client, 4, "1", None);
    for (name, value, source) in
        [("num.partitions", "3", 4), ("default.replication.factor", "1", 5), ("auto.create.topics.enable", "true", 5)]
    {
        assert!(all.contains(&(name.into(), value.into(), source)), "{name}");
    }
    let some = describe(&mut rig, client, 4, "1", Some(&["num.partitions", "no.such"]));
    assert_eq!(some.len(), 1);
    let error = |code: &str| vec![("error".to_owned(), code.to_owned(), 0)];
    assert_eq!(describe(&mut rig, client, 4, "2", None), error("42"));
    assert_eq!(describe(&mut rig, client, 4, "", None), []);
    assert_eq!(describe(&mut rig, client, 2, "none", None), error("3"));
    assert_eq!(describe(&mut rig, client, 2, "a/b", None), error("17"));
}

#[test]
fn metadata_names_topics_by_name_and_id_and_makes_missing_ones_when_allowed() {
    let mut rig = Rig::new();
    let id = rig.make_topic("t", 2);
    let client = rig.connect();
    let by_name = |name: &'static str| metadata::MetadataRequestTopic { name: Some(name.into()), topic_id: [0; 16] };
    let asked = vec![
        by_name("t"),
        by_name("none"),
        by_name("a b"),
        metadata::MetadataRequestTopic { topic_id: id, name: None },
        metadata::MetadataRequestTopic { topic_id: [9; 16], name: None },
    ];
    let request = metadata::MetadataRequest {
        topics: Some(asked),
        allow_auto_topic_creation: false,
        include_topic_authorized_operations: true,
        ..Default::default()
    };
    let reply = rig.ask(client, &metadata::ROW, 13, &request);
    let response: metadata::MetadataResponse<'_> = reply.read();
    let codes: Vec<i16> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, 3, 17, 0, 100]);
    assert_eq!((response.topics[3].name.as_deref(), response.topics[0].topic_id), (Some("t"), id));
    assert_eq!(response.topics[0].partitions.len(), 2);
    assert_eq!((response.topics[0].topic_authorized_operations, response.topics[1].partitions.len()), (3576, 0));
    let broker = &response.brokers[0];
    assert_eq!((broker.node_id, &*broker.host, broker.port), (1, "127.0.0.1", 9092));
    assert_eq!(response.cluster_id.as_deref().map(str::len), Some(22));
    let request = metadata::MetadataRequest { topics: Some(vec![by_name("new")]), ..Default::default() };
    let reply = rig.ask(client, &metadata::ROW, 9, &request);
    let response: metadata::MetadataResponse<'_> = reply.read();
    assert_eq!((response.topics[0].error_code, response.topics[0].partitions.len()), (0, 1));
    let none = metadata::MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
    let reply = rig.ask(client, &metadata::ROW, 1, &none);
    assert!(reply.read::<metadata::MetadataResponse<'_>>().topics.is_empty());
    let reply = rig.ask(client, &metadata::ROW, 0, &none);
    assert!(reply.read::<metadata::MetadataResponse<'_>>().topics.len() >= 2);
}

#[test]
fn an_advertised_address_is_told_instead_of_the_own_one() {
    let mut rig = Rig::new();
    let advertised = Some(("broker.example".to_owned(), 19092));
    let client = rig.connect_with(Settings { advertised, node_id: 4, ..Settings::default() });
    let reply = rig.ask(client, &describe_cluster::ROW, 2, &describe_cluster::DescribeClusterRequest::default());
    let response: describe_cluster::DescribeClusterResponse<'_> = reply.read();
    let broker = &response.brokers[0];
    assert_eq!((broker.broker_id, &*broker.host, broker.port), (4, "broker.example", 19092));
    let request = find_coordinator::FindCoordinatorRequest { key: "g".into(), ..Default::default() };
    let reply = rig.ask(client, &find_coordinator::ROW, 2, &request);
    let response: find_coordinator::FindCoordinatorResponse<'_> = reply.read();
    assert_eq!((response.error_code, response.node_id, &*response.host), (0, 4, "broker.example"));
}

#[test]
fn coordinators_are_found_for_groups_and_not_for_transactions() {
    let mut rig = Rig::new();
    let client = rig.connect();
    for (key_type, code) in [(0, 0), (1, 35), (2, 42)] {
        let request = find_coordinator::FindCoordinatorRequest {
            key_type,
            coordinator_keys: vec!["a".into(), "b".into()],
            ..Default::default()
        };
        let reply = rig.ask(client, &find_coordinator::ROW, 6, &request);
        let response: find_coordinator::FindCoordinatorResponse<'_> = reply.read();
        let codes: Vec<i16> = response.coordinators.iter().map(|found| found.error_code).collect();
        assert_eq!(codes, [code, code]);
    }
    let request = find_coordinator::FindCoordinatorRequest { key_type: 1, key: "a".into(), ..Default::default() };
    let reply = rig.ask(client, &find_coordinator::ROW, 2, &request);
    let response: find_coordinator::FindCoordinatorResponse<'_> = reply.read();
    let told = (response.error_code, response.error_message.as_deref());
    assert_eq!(told, (53, Some("transactions are not served yet")), "librdkafka tries any other code again");
}

/// A topic, how many partitions it is to have, and the brokers of each new one.
type Growth<'a> = (&'static str, i32, Option<&'a [&'a [i32]]>);

/// Codes of asking topics to have so many partitions, some with brokers named.
fn grow(rig: &mut Rig, client: usize, asked: &[Growth<'_>], validate: bool) -> Vec<i16> {
    let topics = asked.iter().map(|(name, count, assigned)| create_partitions::GrowingTopic {
        name: (*name).into(),
        count: *count,
        assignments: assigned
            .map(|all| all.iter().map(|ids| create_partitions::NewPartition { broker_ids: ids.to_vec() }).collect()),
    });
    let topics = topics.collect();
    let request = create_partitions::CreatePartitionsRequest { topics, timeout_ms: 1000, validate_only: validate };
    let reply = rig.ask(client, &create_partitions::ROW, 3, &request);
    let response: create_partitions::CreatePartitionsResponse<'_> = reply.read();
    for result in response.results.iter().filter(|result| result.error_code != 0) {
        assert!(result.error_message.as_deref().is_some_and(|text| !text.is_empty()), "every refusal says why");
    }
    response.results.iter().map(|result| result.error_code).collect()
}

#[test]
fn topics_get_more_partitions_and_never_fewer() {
    let mut rig = Rig::new();
    rig.make_topic("t", 2);
    let client = rig.connect();
    for validate in [true, false] {
        for (asked, code) in [
            (("t", 2, None), 37),
            (("t", 1, None), 37),
            (("t", -1, None), 37),
            (("t", 20_000, None), 44),
            (("t", 10_001, None), 37),
            (("none", 3, None), 3),
            (("a/b", 3, None), 3),
            (("t", 4, Some(&[&[1][..]][..])), 39),
            (("t", 3, Some(&[&[9][..]][..])), 39),
            (("t", 3, Some(&[&[1, 1][..]][..])), 39),
            (("t", 3, Some(&[&[][..]][..])), 39),
        ] {
            assert_eq!(grow(&mut rig, client, &[asked], validate), [code], "{asked:?}");
        }
        assert_eq!(grow(&mut rig, client, &[("t", 3, None), ("t", 4, None)], validate), [42]);
    }
    assert_eq!(grow(&mut rig, client, &[("t", 4, None)], true), [0]);
    assert_eq!(rig.broker.topic("/", "t").unwrap().partitions.len(), 2, "only validated");
    assert_eq!(grow(&mut rig, client, &[("t", 3, None)], false), [0]);
    assert_eq!(grow(&mut rig, client, &[("t", 5, Some(&[&[1], &[1]]))], false), [0]);
    let before = rig.broker.topic("/", "t").unwrap().clone();
    assert_eq!(before.partitions.len(), 5);
    let mut again = Rig::on(rig.disk.kill());
    assert_eq!(again.broker.topic("/", "t"), Some(&before));
    let client = again.connect();
    assert_eq!(again.produce(client, "t", &plain_batch(2), -1), (0, 0));
}

#[test]
fn the_bytes_of_partitions_are_told_for_all_topics_or_those_asked_for() {
    let mut rig = Rig::new();
    rig.make_topic("t", 2);
    rig.make_topic("u", 1);
    let client = rig.connect();
    let batch = plain_batch(5);
    for _ in 0..2 {
        rig.produce(client, "t", &batch, -1);
    }
    let asked = |topic: &'static str, partitions: &[i32]| describe_log_dirs::AskedTopic {
        topic: topic.into(),
        partitions: partitions.to_vec(),
    };
    let mut tell = |topics, version| {
        let request = describe_log_dirs::DescribeLogDirsRequest { topics };
        let reply = rig.ask(client, &describe_log_dirs::ROW, version, &request);
        let response: describe_log_dirs::DescribeLogDirsResponse<'_> = reply.read();
        let of = |topic: &describe_log_dirs::SizedTopic<'_>| {
            let name = topic.name.to_string();
            let sizes: Vec<_> = topic.partitions.iter().map(|one| (one.partition_index, one.partition_size)).collect();
            (name, sizes)
        };
        assert_eq!((response.error_code, response.results[0].error_code), (0, 0));
        response.results[0].topics.iter().map(of).collect::<Vec<_>>()
    };
    let full = 2 * batch.len() as i64;
    let of_t = ("t".to_owned(), vec![(0, full), (1, 0)]);
    for version in 1..=4 {
        assert_eq!(tell(None, version), [of_t.clone(), ("u".to_owned(), vec![(0, 0)])]);
        let some = Some(vec![asked("t", &[1, 0, 9, 0]), asked("none", &[0])]);
        assert_eq!(tell(some, version), std::slice::from_ref(&of_t));
        assert_eq!(tell(Some(Vec::new()), version), []);
    }
}

#[test]
fn topics_are_removed_by_name_and_by_id() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let id = rig.make_topic("u", 1);
    let client = rig.connect();
    let request =
        delete_topics::DeleteTopicsRequest { topic_names: vec!["t".into(), "none".into()], ..Default::default() };
    let reply = rig.ask(client, &delete_topics::ROW, 5, &request);
    let response: delete_topics::DeleteTopicsResponse<'_> = reply.read();
    assert_eq!(response.responses.iter().map(|topic| topic.error_code).collect::<Vec<_>>(), [0, 3]);
    let by_id = |topic_id| delete_topics::DeleteTopic { name: None, topic_id };
    let request = delete_topics::DeleteTopicsRequest { topics: vec![by_id(id), by_id([3; 16])], ..Default::default() };
    let reply = rig.ask(client, &delete_topics::ROW, 6, &request);
    let response: delete_topics::DeleteTopicsResponse<'_> = reply.read();
    assert_eq!(response.responses.iter().map(|topic| topic.error_code).collect::<Vec<_>>(), [0, 100]);
    assert_eq!(response.responses[0].name.as_deref(), Some("u"));
    assert!(names(&mut rig, client).is_empty());
}
