//! Whose time records carry, and how far it may lie from the clock.

use kafka_protocol::records::Compression;

use super::super::{fetch, produce};
use super::rig::{Rig, produce_request};
use crate::format::batch::{BatchHeader, TimeKind, seal, set_time};
use crate::format::tests::client_batch;

const CODECS: [Compression; 2] = [Compression::None, Compression::Lz4];

pub(super) fn make(rig: &mut Rig, name: &'static str, config: &[(&str, &str)]) {
    let new = broker::topic::NewTopic {
        tenant: model::Name::fixed("/"),
        name: model::Name::fixed(name),
        partitions: 1,
        config: config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        validate_only: false,
    };
    rig.broker.create_topic(&new, rig.now).unwrap();
    rig.pump();
}

/// Error, time of the append, and numbers of the records that are named as wrong.
fn produce(rig: &mut Rig, client: usize, topic: &'static str, batch: &[u8]) -> (i16, i64, Vec<i32>) {
    let reply = rig.ask(client, &produce::ROW, 9, &produce_request(topic, batch, -1));
    let response: produce::ProduceResponse<'_> = reply.read();
    let partition = &response.topics[0].partitions[0];
    let wrong = partition.record_errors.iter().map(|record| record.batch_index).collect();
    (partition.error_code, partition.log_append_time_ms, wrong)
}

/// The header of the batch at `offset`.
fn stored(rig: &mut Rig, client: usize, topic: &'static str, offset: i64) -> BatchHeader {
    let partition = fetch::FetchPartition { fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topics = vec![fetch::FetchTopic { topic: topic.into(), partitions: vec![partition], ..Default::default() }];
    let request = fetch::FetchRequest { topics, ..Default::default() };
    let reply = rig.ask(client, &fetch::ROW, 11, &request);
    let response: fetch::FetchResponse<'_> = reply.read();
    BatchHeader::read(&response.topics[0].partitions[0].records.as_ref().unwrap().bytes()).unwrap()
}

/// A batch whose first record was made at `first_time`, the others a millisecond later each.
fn made_at(first_time: i64, codec: Compression) -> Vec<u8> {
    let mut batch = client_batch(3, codec);
    batch[27..35].copy_from_slice(&first_time.to_be_bytes());
    batch[35..43].copy_from_slice(&(first_time + 2).to_be_bytes());
    seal(&mut batch);
    batch
}

#[test]
fn k03_a_topic_of_append_times_gives_records_the_brokers_time_and_says_so() {
    let mut rig = Rig::new();
    make(&mut rig, "append", &[("message.timestamp.type", "LogAppendTime")]);
    make(&mut rig, "create", &[]);
    let client = rig.connect();
    let now = rig.now.wall.0;
    for (at, codec) in CODECS.into_iter().enumerate() {
        let batch = client_batch(3, codec);
        assert_eq!(produce(&mut rig, client, "append", &batch), (0, now, vec![]));
        let header = stored(&mut rig, client, "append", 3 * at as i64);
        assert_eq!((header.has_append_time(), header.max_time, header.first_time), (true, now, 1000));
        assert_eq!(produce(&mut rig, client, "create", &batch), (0, -1, vec![]));
        assert!(!stored(&mut rig, client, "create", 3 * at as i64).has_append_time());
    }
    let far = made_at(now + (1 << 40), Compression::None);
    assert_eq!(produce(&mut rig, client, "append", &far).0, 0, "whatever the producer's clock says");
}

#[test]
fn times_too_far_from_the_clock_are_refused_and_name_the_records() {
    let mut rig = Rig::new();
    let limits = [("message.timestamp.before.max.ms", "10000"), ("message.timestamp.after.max.ms", "5000")];
    make(&mut rig, "t", &limits);
    make(&mut rig, "plain", &[]);
    let client = rig.connect();
    let now = rig.now.wall.0;
    for codec in CODECS {
        for (first, code, wrong) in [
            (now, 0, vec![]),
            (now - 10_000, 0, vec![]),
            (now - 10_001, 32, vec![0]),
            (now - 20_000, 32, vec![0, 1, 2]),
            (now + 4_998, 0, vec![]),
            (now + 4_999, 32, vec![2]),
            (now + 9_000, 32, vec![0, 1, 2]),
        ] {
            let answer = produce(&mut rig, client, "t", &made_at(first, codec));
            assert_eq!(answer, (code, -1, wrong), "{} ms", first - now);
        }
        let answer = produce(&mut rig, client, "plain", &made_at(now + 3_700_000, codec));
        assert_eq!(answer.0, 32, "an hour ahead is the most by default, as in the original");
        assert_eq!(produce(&mut rig, client, "plain", &made_at(1, codec)).0, 0);
    }
}

#[test]
fn a_record_that_unpacks_to_too_much_is_refused() {
    let mut rig = Rig::new();
    make(&mut rig, "t", &[("max.decompressed.message.bytes", "70")]);
    let client = rig.connect();
    assert_eq!(produce(&mut rig, client, "t", &client_batch(3, Compression::None)).0, 0, "packed ones only");
    assert_eq!(produce(&mut rig, client, "t", &client_batch(3, Compression::Zstd)).0, 87);
}

#[test]
fn a_header_that_lies_about_its_records_times_is_put_right() {
    let mut rig = Rig::new();
    make(&mut rig, "t", &[]);
    let client = rig.connect();
    for (at, codec) in CODECS.into_iter().enumerate() {
        for (turn, (kind, max_time)) in
            [(TimeKind::Create, 1), (TimeKind::Create, i64::MAX), (TimeKind::Append, 1002)].into_iter().enumerate()
        {
            let mut batch = client_batch(3, codec);
            set_time(&mut batch, kind, max_time);
            assert_eq!(produce(&mut rig, client, "t", &batch), (0, -1, vec![]));
            let header = stored(&mut rig, client, "t", 3 * (3 * at + turn) as i64);
            assert_eq!((header.max_time, header.has_append_time()), (1002, false));
        }
    }
}
