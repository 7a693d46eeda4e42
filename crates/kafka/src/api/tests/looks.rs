//! Looks into batches that take long: done aside, while everybody else is served. Jobs are run by hand here, so the
//! order of answers shows who waited for whom.

use super::super::{api_versions, list_offsets, produce};
use super::rig::{Rig, plain_batch, produce_request};
use crate::errors::ErrorCode;
use crate::format::batch;
use crate::format::tests::{claimed, client_batch};
use crate::format::unpack_tests::bomb;
use crate::wire::RawRecords;

const CODECS: [kafka_protocol::records::Compression; 4] = [
    kafka_protocol::records::Compression::Gzip,
    kafka_protocol::records::Compression::Snappy,
    kafka_protocol::records::Compression::Lz4,
    kafka_protocol::records::Compression::Zstd,
];

/// Unpacks to more than is looked into at once.
const MANY: i32 = 20_000;

fn push_produce(rig: &mut Rig, client: usize, batch: &[u8]) {
    let frame = rig.frame(client, &produce::ROW, 9, &produce_request("t", batch, 1));
    rig.push(client, &frame);
}

fn outcome(rig: &mut Rig, client: usize) -> (i16, i64) {
    let reply = rig.reply(client, &produce::ROW, 9);
    let response: produce::ProduceResponse<'_> = reply.read();
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.base_offset)
}

/// Numbers a batch as an idempotent producer does.
fn numbered(mut batch: Vec<u8>, sequence: i32) -> Vec<u8> {
    batch[43..51].copy_from_slice(&7i64.to_be_bytes());
    batch[51..53].copy_from_slice(&0i16.to_be_bytes());
    batch[53..57].copy_from_slice(&sequence.to_be_bytes());
    batch::seal(&mut batch);
    batch
}

#[test]
fn a_bomb_of_any_codec_holds_up_its_own_connection_and_no_other() {
    let mut rig = Rig::new();
    super::times::make(&mut rig, "t", &[("max.message.bytes", "8000000")]);
    let (hostile, other) = (rig.connect(), rig.connect());
    for codec in 1..=4 {
        let bomb = bomb(codec);
        push_produce(&mut rig, hostile, &bomb);
        let after = rig.frame(hostile, &api_versions::ROW, 0, &api_versions::ApiVersionsRequest::default());
        rig.push(hostile, &after);
        push_produce(&mut rig, other, &plain_batch(3));
        while rig.turn() {} // no job is run
        assert_eq!(outcome(&mut rig, other).0, 0, "codec {codec}");
        assert!(rig.received(hostile).is_empty() && !rig.wants_input(hostile), "codec {codec}");
        assert!(rig.memory_bytes(hostile) >= bomb.len(), "codec {codec}");
        rig.pump();
        assert_eq!(rig.correlations(hostile).len(), 2, "codec {codec}: answered, and in order");
        assert_eq!(outcome(&mut rig, hostile), (ErrorCode::INVALID_RECORD.0, -1), "codec {codec}");
        rig.reply(hostile, &api_versions::ROW, 0);
        assert!(rig.wants_input(hostile) && rig.memory_bytes(hostile) < bomb.len(), "codec {codec}");
    }
}

#[test]
fn large_packed_batches_are_stored_in_their_order_while_others_are_served() {
    for codec in CODECS {
        let mut rig = Rig::new();
        rig.make_topic("t", 1);
        let (producer, other) = (rig.connect(), rig.connect());
        push_produce(&mut rig, producer, &numbered(client_batch(MANY, codec), 0));
        push_produce(&mut rig, producer, &numbered(client_batch(2, codec), MANY));
        push_produce(&mut rig, producer, &numbered(client_batch(MANY, codec), MANY + 2));
        push_produce(&mut rig, other, &plain_batch(3));
        while rig.turn() {}
        assert_eq!(outcome(&mut rig, other), (0, 0));
        assert!(rig.received(producer).is_empty());
        rig.pump();
        let many = i64::from(MANY);
        for base in [3, 3 + many, 5 + many] {
            assert_eq!(outcome(&mut rig, producer), (0, base), "{codec:?}");
        }
        // A retry is known again, also by a long way.
        push_produce(&mut rig, producer, &numbered(client_batch(MANY, codec), MANY + 2));
        rig.pump();
        assert_eq!(outcome(&mut rig, producer), (0, 5 + many), "{codec:?}");
    }
}

#[test]
fn what_is_wrong_in_a_large_batch_is_refused_as_in_a_small_one() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    for codec in CODECS {
        let good = client_batch(MANY, codec);
        let mut cut = good[..good.len() - 9].to_vec();
        let length = (cut.len() - batch::PREFIX_BYTES) as u32;
        cut[8..12].copy_from_slice(&length.to_be_bytes());
        let (mut fewer, mut more) = (good.clone(), good.clone());
        for (batch, count) in [(&mut fewer, MANY - 1), (&mut more, MANY + 1)] {
            batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
            batch[57..61].copy_from_slice(&count.to_be_bytes());
        }
        for mut wrong in [cut, fewer, more] {
            batch::seal(&mut wrong);
            push_produce(&mut rig, client, &wrong);
            while rig.turn() {}
            assert!(rig.received(client).is_empty(), "{codec:?}: it is looked into aside");
            rig.pump();
            assert_eq!(outcome(&mut rig, client), (ErrorCode::INVALID_RECORD.0, -1), "{codec:?}");
        }
    }
    assert_eq!(rig.produce(client, "t", &plain_batch(1), 1), (0, 0), "nothing was stored");
}

#[test]
fn of_many_batches_that_unpack_to_a_little_too_much_only_the_first_are_looked_into_at_once() {
    let mut rig = Rig::new();
    rig.make_topic("t", 200);
    let (client, other) = (rig.connect(), rig.connect());
    let zeros = claimed_zeros(200 << 10);
    push_to_200(&mut rig, client, &zeros);
    push_produce(&mut rig, other, &claimed_zeros(200 << 10));
    while rig.turn() {}
    assert!(rig.received(client).is_empty());
    let held = rig.memory_bytes(client);
    let batches = held - 200 * produce::look::HELD_BYTES_EACH;
    assert!(batches >= 199 * zeros.len() && batches < 200 * zeros.len(), "{held}: one was done at once");
    assert_eq!(outcome(&mut rig, other), (0, 0), "what one connection uses up is its own");
    rig.pump();
    let reply = rig.reply(client, &produce::ROW, 9);
    let response: produce::ProduceResponse<'_> = reply.read();
    assert!(response.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
}

#[test]
fn who_sends_many_batches_lets_others_have_their_turn_between() {
    let mut rig = Rig::new();
    rig.make_topic("t", 200);
    let (client, other) = (rig.connect(), rig.connect());
    push_to_200(&mut rig, client, &claimed_zeros(200 << 10));
    push_produce(&mut rig, other, &client_batch(MANY, CODECS[1]));
    while rig.turn() {}
    while rig.received(other).is_empty() {
        let done = rig.broker.next_job().expect("it is looked into aside").run();
        rig.broker.complete(done, rig.now);
        while rig.turn() {}
    }
    assert_eq!(outcome(&mut rig, other), (0, 0));
    assert!(rig.received(client).is_empty() && !rig.wants_input(client), "most of its batches are still to be seen");
    rig.pump();
    let reply = rig.reply(client, &produce::ROW, 9);
    let response: produce::ProduceResponse<'_> = reply.read();
    assert!(response.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
}

/// A request with the same batch for each of 200 partitions.
fn push_to_200(rig: &mut Rig, client: usize, batch: &[u8]) {
    let partitions = (0..200).map(|index| produce::ProducePartition { index, records: Some(RawRecords(batch)) });
    let topics = vec![produce::ProduceTopic {
        name: "t".into(),
        partitions: partitions.collect(),
        ..produce::ProduceTopic::default()
    }];
    let request = produce::ProduceRequest { acks: 1, topics, ..produce::ProduceRequest::default() };
    let frame = rig.frame(client, &produce::ROW, 9, &request);
    rig.push(client, &frame);
}

/// A batch of one record of zeros, packed so that nothing says how many they are.
fn claimed_zeros(bytes: i32) -> Vec<u8> {
    let mut record = Vec::new();
    let mut writer = model::ByteWriter::new(&mut record);
    writer.varint(bytes);
    writer.bytes(&[0, 0, 0, 1]);
    writer.varint(bytes - 8);
    record.resize(record.len() + bytes as usize - 8, 0);
    record.push(0);
    claimed(&record, (1, 0), 3)
}

#[test]
fn a_client_that_hangs_up_meanwhile_leaves_nothing_behind() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let (first, second, third) = (rig.connect(), rig.connect(), rig.connect());
    for client in [first, second, third] {
        push_produce(&mut rig, client, &client_batch(MANY, CODECS[0]));
        rig.turn();
    }
    let running = rig.broker.next_job().expect("the first look");
    assert!(rig.broker.next_job().is_none(), "one at a time");
    rig.hang_up(first);
    rig.hang_up(second);
    let done = running.run();
    rig.broker.complete(done, rig.now);
    rig.pump();
    assert_eq!(outcome(&mut rig, third), (0, 0), "of the others nothing was stored");
}

#[test]
fn a_topic_deleted_meanwhile_is_unknown_and_records_out_of_time_are_named() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    push_produce(&mut rig, client, &client_batch(MANY, CODECS[0]));
    rig.turn();
    rig.broker.delete_topic(&model::Name::fixed("/"), "t", rig.now).unwrap();
    rig.pump();
    assert_eq!(outcome(&mut rig, client), (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, -1));
    rig.make_topic("t", 1);
    let mut late = client_batch(MANY, CODECS[0]);
    late[27..35].copy_from_slice(&(rig.now.wall.0 + 3_600_000 - 5).to_be_bytes());
    batch::seal(&mut late);
    push_produce(&mut rig, client, &late);
    rig.pump();
    let reply = rig.reply(client, &produce::ROW, 9);
    let response: produce::ProduceResponse<'_> = reply.read();
    let partition = &response.topics[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::INVALID_TIMESTAMP.0);
    assert_eq!((partition.record_errors.len(), partition.record_errors[0].batch_index), (100, 6));
}

fn ask_time(rig: &mut Rig, client: usize, time: i64) {
    let partitions = vec![list_offsets::ListOffsetsPartition { timestamp: time, ..Default::default() }];
    let topics = vec![list_offsets::ListOffsetsTopic { name: "t".into(), partitions }];
    let request = list_offsets::ListOffsetsRequest { topics, ..Default::default() };
    let frame = rig.frame(client, &list_offsets::ROW, 7, &request);
    rig.push(client, &frame);
}

fn found_time(rig: &mut Rig, client: usize) -> (i64, i64) {
    let reply = rig.reply(client, &list_offsets::ROW, 7);
    let response: list_offsets::ListOffsetsResponse<'_> = reply.read();
    let partition = &response.topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    (partition.offset, partition.timestamp)
}

#[test]
fn a_time_in_a_large_packed_batch_is_looked_up_aside() {
    for codec in CODECS {
        let mut rig = Rig::new();
        rig.make_topic("t", 1);
        let (client, second, other) = (rig.connect(), rig.connect(), rig.connect());
        assert_eq!(rig.produce(client, "t", &client_batch(MANY, codec), 1), (0, 0));
        ask_time(&mut rig, client, 16_000);
        ask_time(&mut rig, second, 16_000);
        push_produce(&mut rig, other, &plain_batch(3));
        while rig.turn() {}
        assert_eq!(outcome(&mut rig, other), (0, i64::from(MANY)), "{codec:?}");
        assert!(rig.received(client).is_empty(), "{codec:?}");
        rig.pump();
        for client in [client, second] {
            assert_eq!(found_time(&mut rig, client), (15_000, 16_000), "{codec:?}");
        }
        ask_time(&mut rig, client, -3);
        rig.pump();
        assert_eq!(found_time(&mut rig, client).1, 999 + i64::from(MANY), "{codec:?}");
        ask_time(&mut rig, client, 1003); // near the front: nothing behind it is unpacked
        while rig.turn() {}
        assert_eq!(found_time(&mut rig, client), (3, 1003), "{codec:?}");
    }
}

#[test]
fn look_ups_by_time_that_find_no_room_wait_and_their_memory_is_counted() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let clients: Vec<usize> = (0..300).map(|_| rig.connect()).collect();
    let batch = client_batch(5_000, CODECS[1]);
    assert_eq!(rig.produce(clients[0], "t", &batch, 1), (0, 0));
    let before = rig.broker.memory_bytes();
    for (place, client) in clients.iter().enumerate() {
        ask_time(&mut rig, *client, 5_500 + place as i64);
    }
    while rig.turn() {}
    assert!(rig.broker.memory_bytes() >= before + 200 * batch.len());
    rig.pump();
    for (place, client) in clients.into_iter().enumerate() {
        let time = 5_500 + place as i64;
        assert_eq!(found_time(&mut rig, client), (time - 1_000, time));
    }
    assert!(rig.broker.memory_bytes() < before + batch.len());
}
