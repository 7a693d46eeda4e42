//! Produce, fetch and look-ups against the broker on a simulated disk.

use kafka_protocol::records::Compression;

use super::super::{fetch, init_producer_id, list_offsets, offset_for_leader_epoch, produce};
use super::rig::{Rig, batch_of, plain_batch, produce_request};
use crate::format::batch::walk;
use crate::format::tests::client_batch;
use crate::wire::{RawRecords, Text};

fn fetch_request(topic: &str, from: i64, max_wait_ms: i32) -> fetch::FetchRequest<'_> {
    let partition = fetch::FetchPartition { fetch_offset: from, partition_max_bytes: 1 << 20, ..Default::default() };
    let topics =
        vec![fetch::FetchTopic { topic: Text::Borrowed(topic), partitions: vec![partition], ..Default::default() }];
    fetch::FetchRequest { max_wait_ms, min_bytes: 1, topics, ..Default::default() }
}

/// Error, watermark, and (first offset, bytes) of each batch.
fn fetched(reply: &super::rig::Reply) -> (i16, i64, Vec<(i64, usize)>) {
    let response: fetch::FetchResponse<'_> = reply.read();
    let partition = &response.topics[0].partitions[0];
    let mut batches = Vec::new();
    let records = partition.records.as_ref().unwrap().bytes();
    assert!(walk(&records, |_, header| {
        batches.push((header.base, header.bytes));
        true
    }));
    (partition.error_code, partition.high_watermark, batches)
}

fn fetch_from(rig: &mut Rig, client: usize, topic: &str, from: i64) -> (i16, i64, Vec<(i64, usize)>) {
    let reply = rig.ask(client, &fetch::ROW, 11, &fetch_request(topic, from, 0));
    fetched(&reply)
}

#[test]
fn what_was_produced_comes_back_byte_for_byte_in_old_and_new_versions() {
    let mut rig = Rig::new();
    let id = rig.make_topic("t", 1);
    let client = rig.connect();
    let batch = client_batch(5, Compression::Zstd);
    for version in 7..=13 {
        let mut request = produce_request("t", &batch, -1);
        if version >= 13 {
            request.topics[0].name = "".into();
            request.topics[0].topic_id = id;
        }
        let reply = rig.ask(client, &produce::ROW, version, &request);
        let response: produce::ProduceResponse<'_> = reply.read();
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, i64::from(version - 7) * 5));
        assert_eq!(partition.log_append_time_ms, -1);
    }
    for version in 4..=18 {
        let mut request = fetch_request("t", 5, 0);
        if version >= 13 {
            request.topics[0].topic = "".into();
            request.topics[0].topic_id = id;
        }
        let reply = rig.ask(client, &fetch::ROW, version, &request);
        let response: fetch::FetchResponse<'_> = reply.read();
        assert_eq!((response.error_code, response.session_id), (0, 0));
        let records = response.topics[0].partitions[0].records.as_ref().unwrap().bytes();
        let mut wanted = batch.clone();
        wanted[..8].copy_from_slice(&5i64.to_be_bytes());
        wanted[12..16].copy_from_slice(&[0; 4]);
        assert_eq!(&records[..batch.len()], &wanted, "v{version}");
        assert_eq!(records.len(), 6 * batch.len(), "batches before the asked offset are left out");
    }
}

#[test]
fn unknown_topics_are_named_by_the_code_of_their_band() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let batch = plain_batch(1);
    assert_eq!(rig.produce(client, "none", &batch, -1), (3, -1));
    let mut request = produce_request("", &batch, -1);
    request.topics[0].topic_id = [7; 16];
    let reply = rig.ask(client, &produce::ROW, 13, &request);
    assert_eq!(reply.read::<produce::ProduceResponse<'_>>().topics[0].partitions[0].error_code, 100);
    let mut request = fetch_request("", 0, 1000);
    request.topics[0].topic_id = [7; 16];
    let reply = rig.ask(client, &fetch::ROW, 13, &request);
    assert_eq!(fetched(&reply).0, 100);
    assert_eq!(fetch_from(&mut rig, client, "none", 0).0, 3);
}

#[test]
fn acks_decide_what_is_waited_for() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let batch = plain_batch(1);
    for (acks, after_one_turn) in [(1, 1), (-1, 0)] {
        let frame = rig.frame(client, &produce::ROW, 9, &produce_request("t", &batch, acks));
        rig.push(client, &frame);
        rig.turn();
        assert_eq!(rig.correlations(client).len(), after_one_turn, "acks={acks}");
        rig.pump();
        assert!(rig.try_reply(client, &produce::ROW, 9).is_some());
    }
    rig.send(client, &produce::ROW, 9, &produce_request("t", &batch, 0));
    assert!(rig.received(client).is_empty() && !rig.is_closed(client));
    assert_eq!(rig.produce(client, "t", &batch, 2).0, 21);
    assert_eq!(fetch_from(&mut rig, client, "t", 0).1, 3);
    rig.send(client, &produce::ROW, 9, &produce_request("none", &batch, 0));
    assert!(rig.is_closed(client), "the only way to tell of a failure");
}

#[test]
fn bad_batches_get_the_codes_of_the_real_broker() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let good = plain_batch(2);
    let damaged = {
        let mut batch = good.clone();
        *batch.last_mut().unwrap() ^= 1;
        batch
    };
    let large = vec![0; 2 << 20];
    let too_large = {
        let mut batch = good[..61].to_vec();
        batch.extend_from_slice(&large);
        let length = batch.len() as u32 - 12;
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        batch
    };
    let cases: [(&[u8], i16); 5] =
        [(&[], 87), (&good[..40], 87), (&[good.clone(), good.clone()].concat(), 87), (&damaged, 2), (&too_large, 10)];
    for (batch, code) in cases {
        assert_eq!(rig.produce(client, "t", batch, -1), (code, -1));
    }
    let zstd = client_batch(1, Compression::Zstd);
    let reply = rig.ask(client, &produce::ROW, 6, &produce_request("t", &zstd, -1));
    assert_eq!(reply.read::<produce::ProduceResponse<'_>>().topics[0].partitions[0].error_code, 76);
    let mut request = produce_request("t", &good, -1);
    request.transactional_id = Some("x".into());
    let reply = rig.ask(client, &produce::ROW, 9, &request);
    assert_eq!(reply.read::<produce::ProduceResponse<'_>>().topics[0].partitions[0].error_code, 48);
    assert_eq!(fetch_from(&mut rig, client, "t", 0).1, 0, "nothing of it was stored");
}

#[test]
fn k05_resent_batches_are_told_from_new_ones() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let reply = rig.ask(client, &init_producer_id::ROW, 4, &init_producer_id::InitProducerIdRequest::default());
    let response: init_producer_id::InitProducerIdResponse = reply.read();
    assert_eq!((response.error_code, response.producer_epoch), (0, 0));
    let pid = response.producer_id;
    for sequence in 0..5 {
        assert_eq!(rig.produce(client, "t", &batch_of(pid, 0, sequence), -1), (0, i64::from(sequence)));
    }
    for sequence in [1, 3, 0] {
        assert_eq!(rig.produce(client, "t", &batch_of(pid, 0, sequence), -1), (0, i64::from(sequence)));
    }
    assert_eq!(fetch_from(&mut rig, client, "t", 0).1, 5);
    assert_eq!(rig.produce(client, "t", &batch_of(pid, 0, 7), -1).0, 45);
    assert_eq!(rig.produce(client, "t", &batch_of(pid, 0, 5), -1), (0, 5));
    assert_eq!(rig.produce(client, "t", &batch_of(pid, 0, 0), -1).0, 45, "six back");
    assert_eq!(rig.produce(client, "t", &batch_of(pid, 1, 0), -1), (0, 6));
    assert_eq!(rig.produce(client, "t", &batch_of(pid, 0, 6), -1).0, 47);
}

#[test]
fn a_transactional_producer_fails_at_once() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let request = init_producer_id::InitProducerIdRequest { transactional_id: Some("tx".into()), ..Default::default() };
    let reply = rig.ask(client, &init_producer_id::ROW, 4, &request);
    assert_eq!(reply.read::<init_producer_id::InitProducerIdResponse>().error_code, 35);
}

#[test]
fn a_long_poll_ends_with_data_or_with_its_time() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let (consumer, producer) = (rig.connect(), rig.connect());
    rig.send(consumer, &fetch::ROW, 11, &fetch_request("t", 0, 500));
    rig.wait(499);
    assert!(rig.try_reply(consumer, &fetch::ROW, 11).is_none());
    rig.wait(1);
    assert_eq!(fetched(&rig.reply(consumer, &fetch::ROW, 11)), (0, 0, vec![]));
    rig.send(consumer, &fetch::ROW, 11, &fetch_request("t", 0, 500));
    let batch = plain_batch(3);
    rig.produce(producer, "t", &batch, -1);
    assert_eq!(fetched(&rig.reply(consumer, &fetch::ROW, 11)), (0, 3, vec![(0, batch.len())]));
}

#[test]
fn min_bytes_are_waited_for_and_max_bytes_cut_at_batches() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let (consumer, producer) = (rig.connect(), rig.connect());
    let batch = plain_batch(3);
    let mut request = fetch_request("t", 0, 5000);
    request.min_bytes = batch.len() as i32 * 3;
    rig.send(consumer, &fetch::ROW, 11, &request);
    for _ in 0..2 {
        rig.produce(producer, "t", &batch, -1);
        assert!(rig.try_reply(consumer, &fetch::ROW, 11).is_none());
    }
    rig.produce(producer, "t", &batch, -1);
    assert_eq!(fetched(&rig.reply(consumer, &fetch::ROW, 11)).2.len(), 3);
    // Three batches of one turn lie in one extent: cut inside it.
    let mut frames = Vec::new();
    for _ in 0..3 {
        frames.extend(rig.frame(producer, &produce::ROW, 9, &produce_request("t", &batch, -1)));
    }
    rig.push(producer, &frames);
    rig.pump();
    let mut request = fetch_request("t", 13, 0);
    for (bytes, wanted) in [(1, vec![12]), (batch.len() as i32 * 2, vec![12, 15]), (1 << 20, vec![12, 15])] {
        request.topics[0].partitions[0].partition_max_bytes = bytes;
        let reply = rig.ask(consumer, &fetch::ROW, 11, &request);
        let bases: Vec<i64> = fetched(&reply).2.iter().map(|(base, _)| *base).collect();
        assert_eq!(bases, wanted, "max {bytes}");
    }
}

#[test]
fn offsets_outside_the_log_and_epochs_to_come_are_refused() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    rig.produce(client, "t", &plain_batch(3), -1);
    for (from, code) in [(-1, 1), (4, 1), (3, 0), (0, 0)] {
        assert_eq!(fetch_from(&mut rig, client, "t", from).0, code, "from {from}");
    }
    let mut request = fetch_request("t", 0, 0);
    request.topics[0].partitions[0].current_leader_epoch = 1;
    let reply = rig.ask(client, &fetch::ROW, 11, &request);
    assert_eq!(fetched(&reply).0, 75);
    let mut request = fetch_request("t", 0, 0);
    request.topics[0].partitions[0].partition = 1;
    let reply = rig.ask(client, &fetch::ROW, 11, &request);
    assert_eq!(fetched(&reply).0, 3);
}

fn offset_for(rig: &mut Rig, client: usize, topic: &str, timestamp: i64) -> (i16, i64, i64) {
    offset_in(11, rig, client, topic, timestamp)
}

fn offset_in(version: i16, rig: &mut Rig, client: usize, topic: &str, timestamp: i64) -> (i16, i64, i64) {
    let partitions = vec![list_offsets::ListOffsetsPartition { timestamp, ..Default::default() }];
    let topics = vec![list_offsets::ListOffsetsTopic { name: Text::Borrowed(topic), partitions }];
    let request = list_offsets::ListOffsetsRequest { topics, ..Default::default() };
    let reply = rig.ask(client, &list_offsets::ROW, version, &request);
    let response: list_offsets::ListOffsetsResponse<'_> = reply.read();
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.offset, partition.timestamp)
}

#[test]
fn k01_offsets_by_time_are_exact_in_every_codec() {
    let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for codec in codecs {
        let mut rig = Rig::new();
        rig.make_topic("t", 1);
        let client = rig.connect();
        assert_eq!(offset_for(&mut rig, client, "t", -3), (0, -1, -1), "the latest of nothing");
        rig.produce(client, "t", &client_batch(50, codec), -1);
        let wanted = [
            (1020, (0, 20, 1020)),
            (1, (0, 0, 1000)),
            (1050, (0, -1, -1)),
            (-3, (0, 49, 1049)),
            (-1, (0, 50, -1)),
            (-2, (0, 0, -1)),
            (-4, (0, 0, -1)),
            (-5, (0, -1, -1)),
        ];
        for (timestamp, answer) in wanted {
            assert_eq!(offset_for(&mut rig, client, "t", timestamp), answer, "at {timestamp} in {codec:?}");
        }
        assert_eq!(offset_for(&mut rig, client, "none", -1).0, 3);
    }
}

#[test]
fn special_times_are_known_from_their_versions_on() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    rig.produce(client, "t", &plain_batch(2), -1);
    for (timestamp, since) in [(-1, 1), (-2, 1), (0, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)] {
        for version in 1..=11 {
            let code = offset_in(version, &mut rig, client, "t", timestamp).0;
            assert_eq!(code, if version < since { 35 } else { 0 }, "{timestamp} in version {version}");
        }
    }
}

#[test]
fn the_latest_time_is_found_wherever_it_lies_and_whatever_was_trimmed() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let log = rig.broker.topic("/", "t").unwrap().partitions[0];
    let batch = |first: i64| {
        let mut batch = client_batch(3, Compression::Lz4);
        batch[27..35].copy_from_slice(&first.to_be_bytes());
        crate::format::batch::seal(&mut batch);
        batch
    };
    for first in [5000, 9000, 7000, 9000, 1000] {
        assert_eq!(rig.produce(client, "t", &batch(first), -1).0, 0);
    }
    assert_eq!(offset_for(&mut rig, client, "t", -3), (0, 5, 9002), "the first of several");
    for (before, found) in [(5, (0, 5, 9002)), (6, (0, 11, 9002)), (12, (0, 14, 1002)), (15, (0, -1, -1))] {
        rig.broker.trim(log, Some(model::Offset(before)), rig.now).unwrap();
        rig.pump();
        assert_eq!(offset_for(&mut rig, client, "t", -3), found, "trimmed to {before}");
    }
}

#[test]
fn the_only_epoch_ends_where_the_log_ends() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    rig.produce(client, "t", &plain_batch(3), -1);
    for (epoch, current, wanted) in [(0, 0, (0, 0, 3)), (0, -1, (0, 0, 3)), (4, 0, (0, -1, -1)), (0, 2, (75, -1, -1))] {
        let asked = offset_for_leader_epoch::EpochPartition {
            partition: 0,
            current_leader_epoch: current,
            leader_epoch: epoch,
        };
        let topics = vec![offset_for_leader_epoch::EpochTopic { topic: "t".into(), partitions: vec![asked] }];
        let request = offset_for_leader_epoch::OffsetForLeaderEpochRequest { replica_id: -1, topics };
        let reply = rig.ask(client, &offset_for_leader_epoch::ROW, 4, &request);
        let response: offset_for_leader_epoch::OffsetForLeaderEpochResponse<'_> = reply.read();
        let end = &response.topics[0].partitions[0];
        assert_eq!((end.error_code, end.leader_epoch, end.end_offset), wanted);
    }
}

#[test]
fn records_held_back_for_a_sync_that_fails_are_never_acknowledged() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let batch = plain_batch(1);
    let frame = rig.frame(client, &produce::ROW, 9, &produce_request("t", &batch, -1));
    rig.push(client, &frame);
    rig.turn();
    let next = rig.disk.calls().all + 1;
    rig.disk.fail_at(next, storage::sim_disk::Fault::Eio);
    rig.pump();
    let reply = rig.reply(client, &produce::ROW, 9);
    let response: produce::ProduceResponse<'_> = reply.read();
    let partition = &response.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.base_offset), (56, -1));
    assert_eq!(rig.produce(client, "t", &batch, -1).0, 56, "and nothing more is taken");
}

#[test]
fn several_partitions_of_one_request_have_their_own_answers() {
    let mut rig = Rig::new();
    rig.make_topic("t", 2);
    let client = rig.connect();
    let batch = plain_batch(2);
    let mut request = produce_request("t", &batch, -1);
    for (index, records) in [(1, Some(RawRecords(&batch[..]))), (2, Some(RawRecords(&batch[..]))), (0, None)] {
        request.topics[0].partitions.push(produce::ProducePartition { index, records });
    }
    let reply = rig.ask(client, &produce::ROW, 9, &request);
    let response: produce::ProduceResponse<'_> = reply.read();
    let codes: Vec<(i32, i16)> =
        response.topics[0].partitions.iter().map(|partition| (partition.index, partition.error_code)).collect();
    assert_eq!(codes, [(0, 0), (1, 0), (2, 3), (0, 87)]);
}

#[test]
fn cold_reads_are_answered_when_they_are_ready() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let batch = client_batch(100, Compression::None);
    for _ in 0..20 {
        rig.produce(client, "t", &batch, 1);
    }
    let disk = rig.disk.clone();
    let mut cold = Rig::on(disk.kill());
    cold.disk.set_cache_misses(3);
    let client = cold.connect();
    let mut offset = 0;
    while offset < 2000 {
        let (error, end, batches) = fetch_from(&mut cold, client, "t", offset);
        assert_eq!((error, end), (0, 2000));
        assert!(!batches.is_empty());
        offset = batches.last().unwrap().0 + 100;
    }
    assert_eq!(offset_for(&mut cold, client, "t", 1050), (0, 50, 1050));
    assert_eq!(offset_for(&mut cold, client, "t", -3), (0, 99, 1099));
}
