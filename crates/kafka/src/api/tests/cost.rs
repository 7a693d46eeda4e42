//! What a request may cost: an answer does not grow by naming one thing again and again, and what waits is counted.

use super::super::{
    API_VERSIONS, PRODUCE, describe_configs, describe_groups, fetch, list_offsets, metadata, offset_fetch, produce,
};
use super::rig::Rig;
use crate::Settings;
use crate::wire::Text;

const MANY: usize = 1000;

#[test]
fn what_is_named_again_and_again_is_described_once() {
    let mut rig = Rig::new();
    rig.make_topic("t", 3);
    let client = rig.connect();
    let topic = || metadata::MetadataRequestTopic { name: Some("t".into()), ..Default::default() };
    let topics = Some((0..MANY).map(|_| topic()).collect());
    let reply = rig.ask(client, &metadata::ROW, 9, &metadata::MetadataRequest { topics, ..Default::default() });
    let response: metadata::MetadataResponse<'_> = reply.read();
    assert_eq!((response.topics.len(), response.topics[0].partitions.len()), (1, 3));

    let resource =
        || describe_configs::ConfigResource { resource_type: 2, resource_name: "t".into(), ..Default::default() };
    let resources = (0..MANY).map(|_| resource()).collect();
    let request = describe_configs::DescribeConfigsRequest { resources, ..Default::default() };
    let reply = rig.ask(client, &describe_configs::ROW, 4, &request);
    assert_eq!(reply.read::<describe_configs::DescribeConfigsResponse<'_>>().results.len(), 1);

    let groups = vec![Text::Borrowed("g"); MANY];
    let request = describe_groups::DescribeGroupsRequest { groups, ..Default::default() };
    let reply = rig.ask(client, &describe_groups::ROW, 5, &request);
    assert_eq!(reply.read::<describe_groups::DescribeGroupsResponse<'_>>().groups.len(), 1);

    let group = || offset_fetch::FetchGroup { group_id: "g".into(), topics: None, ..Default::default() };
    let groups = (0..MANY).map(|_| group()).collect();
    let request = offset_fetch::OffsetFetchRequest { groups, ..Default::default() };
    let reply = rig.ask(client, &offset_fetch::ROW, 8, &request);
    assert_eq!(reply.read::<offset_fetch::OffsetFetchResponse<'_>>().groups.len(), 1);
}

#[test]
fn one_request_makes_a_bounded_number_of_topics_and_the_next_one_goes_on() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let names: Vec<String> = (0..300).map(|n| format!("t{n}")).collect();
    let mut unknown_and_made = || {
        let topic = |name: &String| metadata::MetadataRequestTopic {
            name: Some(Text::Owned(name.clone())),
            ..Default::default()
        };
        let topics = Some(names.iter().map(topic).collect());
        let reply = rig.ask(client, &metadata::ROW, 9, &metadata::MetadataRequest { topics, ..Default::default() });
        let response: metadata::MetadataResponse<'_> = reply.read();
        let count = |code| response.topics.iter().filter(|topic| topic.error_code == code).count();
        (count(3), count(0))
    };
    assert_eq!(unknown_and_made(), (44, 256));
    assert_eq!(unknown_and_made(), (0, 300));
}

#[test]
fn offsets_of_a_partition_named_twice_are_refused_as_each_may_cost_a_search() {
    let mut rig = Rig::new();
    rig.make_topic("t", 2);
    let client = rig.connect();
    let asked =
        |partition_index| list_offsets::ListOffsetsPartition { partition_index, timestamp: 1, ..Default::default() };
    let partitions = vec![asked(0), asked(1), asked(0)];
    let topics = vec![list_offsets::ListOffsetsTopic { name: "t".into(), partitions }];
    let request = list_offsets::ListOffsetsRequest { topics, ..Default::default() };
    let reply = rig.ask(client, &list_offsets::ROW, 6, &request);
    let response: list_offsets::ListOffsetsResponse<'_> = reply.read();
    let codes: Vec<_> = response.topics[0].partitions.iter().map(|one| (one.partition_index, one.error_code)).collect();
    assert_eq!(codes, [(0, 42), (1, 0), (0, 42)]);
}

#[test]
fn a_produce_that_names_more_partitions_than_anybody_writes_to_is_refused() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    for (count, is_closed) in [(100_000, false), (100_001, true)] {
        let partitions = (0..count).map(|index| produce::ProducePartition { index, records: None }).collect();
        let topics = vec![produce::ProduceTopic { name: "t".into(), partitions, ..Default::default() }];
        let request = produce::ProduceRequest { acks: 1, topics, ..Default::default() };
        rig.send(client, &produce::ROW, 9, &request);
        assert_eq!(rig.is_closed(client), is_closed);
    }
}

#[test]
fn only_requests_that_bring_messages_may_be_very_large() {
    let mut rig = Rig::new();
    let head = |length: u32, api: i16| [&length.to_be_bytes()[..], &api.to_be_bytes()].concat();
    for (length, api, is_taken) in
        [(50 << 20, PRODUCE, true), (16 << 20, API_VERSIONS, true), ((16 << 20) + 1, API_VERSIONS, false)]
    {
        let client = rig.connect();
        rig.push(client, &head(length, api));
        rig.pump();
        assert_eq!(rig.is_closed(client), !is_taken, "{length} bytes of request {api}");
    }
}

#[test]
fn a_client_whose_waiting_requests_hold_much_is_read_no_further() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect_with(Settings { pending_bytes_max: 64 << 10, ..Settings::default() });
    let partitions = vec![fetch::FetchPartition::default(); MANY];
    let topics = vec![fetch::FetchTopic { topic: "t".into(), partitions, ..Default::default() }];
    let request = fetch::FetchRequest { max_wait_ms: 1000, min_bytes: 1, topics, ..Default::default() };
    rig.send(client, &fetch::ROW, 12, &request);
    assert!(rig.wants_input(client), "one of them may wait");
    rig.send(client, &fetch::ROW, 12, &request);
    assert!(!rig.wants_input(client));
    rig.wait(1000);
    assert!(rig.wants_input(client), "both are answered");
}
