//! Records removed on request.

use super::super::{delete_records, list_offsets};
use super::rig::{Rig, plain_batch};

/// (low watermark, error) of trimming partition 0 of each topic.
fn trim(rig: &mut Rig, client: usize, asked: &[(&'static str, i32, i64)]) -> Vec<(i64, i16)> {
    let topics = asked.iter().map(|(name, partition_index, offset)| delete_records::TrimmedTopic {
        name: (*name).into(),
        partitions: vec![delete_records::TrimmedPartition { partition_index: *partition_index, offset: *offset }],
    });
    let request = delete_records::DeleteRecordsRequest { topics: topics.collect(), timeout_ms: 1000 };
    let reply = rig.ask(client, &delete_records::ROW, 2, &request);
    let response: delete_records::DeleteRecordsResponse<'_> = reply.read();
    let outcomes = response.topics.iter().flat_map(|topic| &topic.partitions);
    outcomes.map(|outcome| (outcome.low_watermark, outcome.error_code)).collect()
}

fn start(rig: &mut Rig, client: usize, topic: &'static str) -> i64 {
    let partitions = vec![list_offsets::ListOffsetsPartition { timestamp: -2, ..Default::default() }];
    let topics = vec![list_offsets::ListOffsetsTopic { name: topic.into(), partitions }];
    let request = list_offsets::ListOffsetsRequest { topics, ..Default::default() };
    let reply = rig.ask(client, &list_offsets::ROW, 7, &request);
    reply.read::<list_offsets::ListOffsetsResponse<'_>>().topics[0].partitions[0].offset
}

#[test]
fn records_are_removed_up_to_an_offset_and_stay_removed() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    for _ in 0..3 {
        assert_eq!(rig.produce(client, "t", &plain_batch(3), -1).0, 0);
    }
    for (offset, low, code) in
        [(0, 0, 0), (4, 4, 0), (2, 4, 0), (10, -1, 1), (-2, -1, 1), (9, 9, 0), (10, -1, 1), (-1, 9, 0), (5, 9, 0)]
    {
        assert_eq!(trim(&mut rig, client, &[("t", 0, offset)]), [(low, code)], "{offset}");
        assert_eq!(start(&mut rig, client, "t"), low.max(start(&mut rig, client, "t")));
    }
    let others = [("t", 1, 0), ("none", 0, 0), ("a/b", 0, 0), ("t", 0, -1)];
    assert_eq!(trim(&mut rig, client, &others), [(-1, 3), (-1, 3), (-1, 3), (9, 0)]);
    assert_eq!(rig.produce(client, "t", &plain_batch(1), -1), (0, 9));
    let mut again = Rig::on(rig.disk.kill());
    let client = again.connect();
    assert_eq!(start(&mut again, client, "t"), 9);
}
