//! Batches against an independent implementation, in every codec, and against bytes that lie.

use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records as theirs;
use model::{Format, FormatError, Header, HeaderValue, Message, Name, Offset, Stamp, Wall};
use proptest::prelude::*;

use super::batch::{BatchError, BatchHeader, TimeKind, set_time};
use super::scan::{RECORD_TOO_LARGE, Scanned, Wanted, scan};
use super::*;

/// A batch as a client makes it: `count` records, times 1000, 1001 …
pub(crate) fn client_batch(count: i32, codec: theirs::Compression) -> Vec<u8> {
    let records: Vec<theirs::Record> = (0..count)
        .map(|at| theirs::Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            timestamp_type: theirs::TimestampType::Creation,
            offset: i64::from(at),
            sequence: at - 1,
            timestamp: 1000 + i64::from(at),
            key: (at % 2 == 0).then(|| Bytes::from(format!("k{at}"))),
            value: (at % 3 != 2).then(|| Bytes::from(format!("value {at} {}", "x".repeat(50)))),
            headers: IndexMap::from([
                (StrBytes::from_static_str("h"), Some(Bytes::from_static(b"v"))),
                (StrBytes::from_static_str("none"), None),
            ]),
        })
        .collect();
    let options = theirs::RecordEncodeOptions { version: 2, compression: codec };
    let mut out = BytesMut::new();
    theirs::RecordBatchEncoder::encode(&mut out, &records, &options).unwrap();
    out.to_vec()
}

const CODECS: [theirs::Compression; 5] = [
    theirs::Compression::None,
    theirs::Compression::Gzip,
    theirs::Compression::Snappy,
    theirs::Compression::Lz4,
    theirs::Compression::Zstd,
];

/// All that is checked before a batch is stored.
fn check_produced(bytes: &[u8], bytes_max: usize) -> Result<BatchHeader, BatchError> {
    let header = batch::check_produced(bytes, bytes_max)?;
    scan(bytes, &header, &Wanted::ANY)?;
    Ok(header)
}

fn open(units: &[u8], base: u64) -> Result<Vec<(u64, Message)>, FormatError> {
    let mut all = Vec::new();
    RecordFormat.open(&Bytes::copy_from_slice(units), Offset(base), &mut |offset, message| {
        all.push((offset.0, message));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

#[test]
fn batches_of_every_codec_are_accepted_and_opened() {
    let plain = open(&client_batch(50, CODECS[0]), 7).unwrap();
    for codec in CODECS {
        let batch = client_batch(50, codec);
        let header = check_produced(&batch, 1 << 20).unwrap();
        assert_eq!((header.count, header.max_time), (50, 1049));
        let opened = open(&batch, 7).unwrap();
        assert_eq!(opened, plain);
        assert_eq!(opened[20].0, 27);
        assert_eq!(opened[20].1.created, Some(Wall(1020)));
        assert_eq!(opened[20].1.key.as_deref(), Some(&b"k20"[..]));
        assert_eq!(opened[2].1.value, None);
        let none = Header { name: "none".into(), value: HeaderValue::Null };
        assert_eq!(opened[3].1.headers[1], none);
    }
}

#[test]
fn stamped_batches_carry_ascending_bases_and_keep_their_sums() {
    let mut units = [client_batch(3, CODECS[0]), client_batch(5, CODECS[3])].concat();
    RecordFormat.stamp(&mut units, Stamp { base: Offset(100), epoch: 4, at: Wall(0) });
    let mut found = Vec::new();
    let mut visit = |unit: UnitAt| {
        found.push((unit.first.0, unit.count));
        ControlFlow::Continue(())
    };
    RecordFormat.split(&units, Offset(100), &mut visit).unwrap();
    assert_eq!(found, [(100, 3), (103, 5)]);
    let mut theirs_seen = Vec::new();
    let mut bytes = Bytes::from(units);
    while !bytes.is_empty() {
        let set = theirs::RecordBatchDecoder::decode(&mut bytes).unwrap();
        theirs_seen.extend(set.records.iter().map(|record| record.offset));
    }
    assert_eq!(theirs_seen, (100..108).collect::<Vec<i64>>());
}

#[test]
fn what_a_client_may_not_send_is_refused_by_name() {
    let good = client_batch(3, CODECS[0]);
    let with = |at: usize, bytes: &[u8]| {
        let mut batch = good.clone();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        batch::seal(&mut batch);
        check_produced(&batch, 1 << 20)
    };
    assert!(matches!(check_produced(&[], 1 << 20), Err(BatchError::NotOne)));
    assert!(matches!(check_produced(&good[..good.len() - 1], 1 << 20), Err(BatchError::NotOne)));
    assert!(matches!(check_produced(&[good.clone(), good.clone()].concat(), 1 << 20), Err(BatchError::NotOne)));
    assert!(matches!(with(16, &[1]), Err(BatchError::Magic(1))));
    assert!(matches!(with(8, &[0, 0, 0, 40]), Err(BatchError::Corrupt(_))));
    assert!(matches!(with(8, &[0xff; 4]), Err(BatchError::Corrupt(_))));
    assert!(matches!(with(7, &[1]), Err(BatchError::Invalid(_))), "a base offset");
    assert!(matches!(with(57, &[0, 0, 0, 4]), Err(BatchError::Invalid(_))), "a count that does not match");
    assert!(matches!(with(23, &[0xff; 4]), Err(BatchError::Invalid(_))), "a negative delta");
    assert!(matches!(with(22, &[5]), Err(BatchError::Codec(5))));
    assert!(matches!(with(22, &[0x20]), Err(BatchError::Invalid(_))), "a control batch");
    assert!(matches!(with(22, &[0x10]), Err(BatchError::Transactional)));
    assert!(matches!(with(43, &[0; 8]), Err(BatchError::Invalid(_))), "a producer without a sequence");
    assert!(matches!(check_produced(&good, 100), Err(BatchError::TooLarge { bytes_max: 100, .. })));
    let mut claims = good.clone();
    claims[23..27].copy_from_slice(&(i32::MAX - 1).to_be_bytes());
    claims[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
    batch::seal(&mut claims);
    let claimed = check_produced(&claims, 1 << 20);
    assert!(matches!(claimed, Err(BatchError::Invalid(_))), "more offsets than there are records");
    for at in 21..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 0x40;
        assert!(check_produced(&damaged, 1 << 20).is_err(), "a changed byte at {at}");
    }
}

#[test]
fn an_append_time_changes_all_times_and_keeps_the_sum_right() {
    let mut batch = client_batch(3, CODECS[1]);
    set_time(&mut batch, TimeKind::Append, 5000);
    let header = check_produced(&batch, 1 << 20).unwrap();
    assert!(header.has_append_time());
    assert!(open(&batch, 0).unwrap().iter().all(|(_, message)| message.created == Some(Wall(5000))));
    set_time(&mut batch, TimeKind::Create, 1002);
    assert_eq!(batch, client_batch(3, CODECS[1]));
}

/// A batch of `count` and `last_delta` as claimed over these records, packed by `codec`.
pub(crate) fn claimed(records: &[u8], (count, last_delta): (i32, i32), codec: usize) -> Vec<u8> {
    use std::io::Write as _;
    let packed = match codec {
        0 => records.to_vec(),
        1 => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            gzip.write_all(records).unwrap();
            gzip.finish().unwrap()
        }
        2 => snap::raw::Encoder::new().compress_vec(records).unwrap(),
        3 => {
            let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
            lz4.write_all(records).unwrap();
            lz4.finish().unwrap()
        }
        _ => zstd::encode_all(records, 1).unwrap(),
    };
    let mut batch = client_batch(1, CODECS[0])[..HEADER_BYTES].to_vec();
    batch.extend_from_slice(&packed);
    let length = (batch.len() - 12) as u32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[22] = codec as u8;
    batch[23..27].copy_from_slice(&last_delta.to_be_bytes());
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    batch::seal(&mut batch);
    batch
}

/// A record of number and time, one byte of value and no headers.
fn small_record(number: i32, time_delta: i64) -> Vec<u8> {
    let record = NewRecord { time_delta, offset_delta: number, key: None, value: Some(b"v"), headers: &[] };
    let mut out = Vec::new();
    write_record(&record, &mut Vec::new(), &mut out);
    out
}

#[test]
fn what_records_are_not_as_their_header_says_is_refused_in_every_codec() {
    let three = [small_record(0, 0), small_record(1, 9), small_record(2, -4)].concat();
    let behind = [three.clone(), vec![0]].concat();
    let misnumbered = [small_record(0, 0), small_record(5, 0), small_record(2, 0)].concat();
    let cut = &three[..three.len() - 1];
    for codec in 0..5 {
        let good = claimed(&three, (3, 2), codec);
        let header = batch::check_produced(&good, 1 << 20).unwrap();
        let found = Scanned { time_max: 1009, untimely: vec![(2, 996)], bytes: three.len() };
        for (packed_max, is_refused) in [(usize::MAX, false), (8, false), (7, codec > 0)] {
            let wanted = Wanted { record_bytes_max: packed_max, times: (997, 1009), ..Wanted::ANY };
            let expected = if is_refused { Err(RECORD_TOO_LARGE) } else { Ok(found.clone()) };
            assert_eq!(scan(&good, &header, &wanted), expected, "codec {codec}, at most {packed_max} bytes");
        }
        let unkeyed = scan(&good, &header, &Wanted { needs_keys: true, ..Wanted::ANY });
        assert!(matches!(unkeyed, Err(BatchError::Invalid(why)) if why.contains("without a key")), "codec {codec}");
        for (records, claims) in [
            (three.as_slice(), (i32::MAX, i32::MAX - 1)),
            (&three, (4, 3)),
            (&three, (2, 1)),
            (&three, (3, 9)),
            (&behind, (3, 2)),
            (&misnumbered, (3, 2)),
            (cut, (3, 2)),
            (&[], (1, 0)),
        ] {
            let refused = check_produced(&claimed(records, claims, codec), 1 << 20);
            assert!(matches!(refused, Err(BatchError::Invalid(_))), "codec {codec}, {claims:?}: {refused:?}");
        }
        if codec > 0 {
            let mut stuffed = small_record(0, 0);
            stuffed.push(7);
            stuffed[0] += 2; // one byte longer
            let refused = check_produced(&claimed(&stuffed, (1, 0), codec), 1 << 20);
            assert!(matches!(refused, Err(BatchError::Invalid(_))), "codec {codec}: a record with bytes left over");
            let mut garbage = claimed(&[], (3, 2), 0);
            garbage.extend_from_slice(b"no such data");
            let length = (garbage.len() - 12) as u32;
            garbage[8..12].copy_from_slice(&length.to_be_bytes());
            garbage[22] = codec as u8;
            batch::seal(&mut garbage);
            assert!(matches!(check_produced(&garbage, 1 << 20), Err(BatchError::Invalid(_))), "codec {codec}");
        }
    }
}

#[test]
fn the_last_sequence_wraps_to_zero() {
    let mut batch = client_batch(3, CODECS[0]);
    batch[53..57].copy_from_slice(&(i32::MAX - 1).to_be_bytes());
    assert_eq!(BatchHeader::read(&batch).unwrap().last_sequence(), 0);
}

#[test]
fn foreign_messages_are_built_into_batches_that_clients_read() {
    let mut message = Message {
        key: Some(Bytes::from_static(b"key")),
        value: Some(Bytes::from_static(b"body")),
        created: Some(Wall(77)),
        exchange: Some(Name::fixed("logs")),
        ..Message::default()
    };
    message.headers.push(Header { name: "n".into(), value: HeaderValue::Int(-4) });
    message.headers.push(Header { name: "b".into(), value: HeaderValue::Bytes(Bytes::from_static(b"\xff")) });
    let list = vec![HeaderValue::Int(1), HeaderValue::Text("a\"b".into()), HeaderValue::Null];
    message.headers.push(Header { name: "l".into(), value: HeaderValue::List(list) });
    message.facts.correlation_id = Some("c-1".into());
    message.facts.priority = Some(9);
    let gap = [(Offset(10), message.clone()), (Offset(14), Message::default())];
    let mut out = Vec::new();
    RecordFormat.build(&gap, &mut out).unwrap();
    let set = theirs::RecordBatchDecoder::decode(&mut Bytes::from(out.clone())).unwrap();
    assert_eq!(set.records.iter().map(|record| record.offset).collect::<Vec<_>>(), [10, 14]);
    let record = &set.records[0];
    assert_eq!((record.timestamp, record.key.as_deref()), (77, Some(&b"key"[..])));
    let texts: Vec<(&str, Option<&[u8]>)> =
        record.headers.iter().map(|(name, value)| (&**name, value.as_deref())).collect();
    let wanted: [(&str, Option<&[u8]>); 6] = [
        ("n", Some(b"-4")),
        ("b", Some(b"\xff")),
        ("l", Some(b"[1,\"a\\\"b\",null]")),
        ("correlation-id", Some(b"c-1")),
        ("priority", Some(b"9")),
        ("amqp.exchange", Some(b"logs")),
    ];
    assert_eq!(texts, wanted);
    let back = open(&out, 10).unwrap();
    assert_eq!(back[0].1.facts.correlation_id.as_deref(), Some("c-1"));
    assert_eq!((back[0].1.facts.priority, back[1].0), (Some(9), 14));
}

#[test]
fn large_runs_are_cut_into_several_batches() {
    let message = Message { value: Some(Bytes::from(vec![1; 100_000])), ..Message::default() };
    let run: Vec<(Offset, Message)> = (0..30).map(|at| (Offset(at), message.clone())).collect();
    let mut out = Vec::new();
    RecordFormat.build(&run, &mut out).unwrap();
    let mut batches = 0;
    assert!(batch::walk(&out, |_, header| {
        batches += 1;
        header.bytes < 2 << 20
    }));
    assert_eq!(batches, 3);
    assert_eq!(open(&out, 0).unwrap().len(), 30);
}

#[test]
fn framed_and_bare_snappy_are_both_opened() {
    let plain = b"hello hello hello hello".repeat(20);
    let block = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
    assert_eq!(codec::unpack(2, &block, 1000).unwrap(), plain);
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for _ in 0..2 {
        framed.extend_from_slice(&(block.len() as u32).to_be_bytes());
        framed.extend_from_slice(&block);
    }
    assert_eq!(codec::unpack(2, &framed, 1000).unwrap(), plain.repeat(2));
    assert!(matches!(codec::unpack(2, &framed, plain.len()), Err(FormatError::TooLarge { .. })));
}

#[test]
fn what_unpacks_to_too_much_is_stopped_at_the_limit() {
    let zeros = vec![0; 1 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, &zeros).unwrap();
    let zstd = zstd::encode_all(&zeros[..], 1).unwrap();
    for (codec, packed) in [(1, gzip.finish().unwrap()), (4, zstd)] {
        assert_eq!(codec::unpack(codec, &packed, 1 << 20).unwrap().len(), 1 << 20);
        assert_eq!(codec::unpack(codec, &packed, 1000), Err(FormatError::TooLarge { limit: 1000 }));
    }
    assert!(codec::unpack(2, b"\xff\xff\xff\xff\x07", 1 << 30).is_err(), "a snappy length out of thin air");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_batch_never_panics(
        at in 0usize..400, value in any::<u8>(), codec in 0usize..5, seal in any::<bool>(),
    ) {
        let mut batch = client_batch(4, CODECS[codec]);
        let at = at % batch.len();
        batch[at] = value;
        if seal {
            batch::seal(&mut batch);
        }
        crate::fuzz_batch(&batch);
    }

    #[test]
    fn random_bytes_are_no_batch(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz_batch(&bytes);
    }
}

/// What a reader of another implementation finds: offset, time, key, whether it is a tombstone.
fn theirs_of(units: &[u8]) -> Vec<(i64, i64, Option<Bytes>, bool)> {
    let mut bytes = Bytes::copy_from_slice(units);
    let sets = theirs::RecordBatchDecoder::decode_all(&mut bytes).unwrap();
    let records = sets.into_iter().flat_map(|set| set.records);
    records.map(|record| (record.offset, record.timestamp, record.key, record.value.is_none())).collect()
}

fn weeded(
    unit: &[u8],
    base: u64,
    until: i64,
    keep: impl Fn(&model::Keyed<'_>) -> bool,
) -> Option<(model::Left, Vec<u8>)> {
    let mut out = b"before".to_vec();
    let mut keep = |keyed: &model::Keyed<'_>| keep(keyed);
    let mut sieve = model::Sieve { keep: &mut keep, tombstones_until: Some(Wall(until)) };
    let left = RecordFormat.weed(&Bytes::copy_from_slice(unit), Offset(base), &mut sieve, &mut out).unwrap();
    let rest = out.split_off(6);
    assert_eq!(out, b"before");
    left.map(|left| (left, rest))
}

#[test]
fn a_weeded_batch_keeps_its_place_and_every_reader_reads_what_is_left() {
    for codec in CODECS {
        let mut unit = client_batch(10, codec);
        batch::stamp(&mut unit, Stamp { base: Offset(500), epoch: 7, at: Wall(0) });
        let all = theirs_of(&unit);
        let (left, rest) = weeded(&unit, 500, 99_000, |keyed| keyed.offset.0 % 4 == 1).unwrap();
        assert_eq!((left.last, left.count, left.time_max), (Offset(509), 3, Wall(1009)));
        let header = BatchHeader::read(&rest).unwrap();
        assert_eq!((header.base, header.last(), header.count, header.bytes), (500, 509, 3, rest.len()));
        assert_eq!(header.codec(), BatchHeader::read(&unit).unwrap().codec());
        assert_eq!(rest[12..16], [0, 0, 0, 7], "the leader's epoch stays");
        let wanted: Vec<_> = all.iter().filter(|(offset, ..)| offset % 4 == 1).cloned().collect();
        assert_eq!(theirs_of(&rest), wanted, "{codec:?}");
        let ours: Vec<_> = open(&rest, 500).unwrap().into_iter().map(|(at, message)| (at, message.created)).collect();
        assert_eq!(ours, [(501, Some(Wall(1001))), (505, Some(Wall(1005))), (509, Some(Wall(1009)))]);
        assert_eq!(weeded(&unit, 500, 0, |_| false), None);
        let (left, same) = weeded(&unit, 500, 0, |keyed| !keyed.is_tombstone).unwrap();
        assert_eq!((left.count, theirs_of(&same).len()), (7, 7));
    }
}

#[test]
fn tombstones_that_stay_carry_until_when_and_times_stay_true() {
    for codec in CODECS {
        let unit = client_batch(6, codec);
        let (_, once) = weeded(&unit, 0, 99_000, |keyed| keyed.offset.0 >= 2).unwrap();
        let header = BatchHeader::read(&once).unwrap();
        assert_eq!((header.attributes & 0x40, header.first_time, header.max_time), (0x40, 99_000, 1005));
        assert_eq!(theirs_of(&once), theirs_of(&unit)[2..].to_vec());
        let mut seen = Vec::new();
        RecordFormat
            .keys(&Bytes::from(once.clone()), Offset(0), &mut |keyed| {
                seen.push((keyed.offset.0, keyed.is_tombstone, keyed.stays_until));
            })
            .unwrap();
        let until = Some(Wall(99_000));
        assert_eq!(seen, [(2, true, until), (3, false, until), (4, false, until), (5, true, until)]);
        let (_, again) = weeded(&once, 0, 500_000, |keyed| keyed.offset.0 != 3).unwrap();
        assert_eq!(BatchHeader::read(&again).unwrap().first_time, 99_000, "decided once");
        let (_, without) = weeded(&again, 0, 500_000, |keyed| !keyed.is_tombstone).unwrap();
        assert_eq!(BatchHeader::read(&without).unwrap().attributes & 0x40, 0);
        assert_eq!(theirs_of(&without), theirs_of(&unit)[4..5].to_vec());
    }
}

#[test]
fn a_batch_that_stays_whole_is_copied_byte_for_byte_to_its_true_place() {
    let mut unit = client_batch(2, theirs::Compression::Lz4);
    batch::stamp(&mut unit, Stamp { base: Offset(3), epoch: 0, at: Wall(0) });
    let (_, rest) = weeded(&unit, 77, 0, |_| true).unwrap();
    batch::rebase(&mut unit, Offset(77));
    assert_eq!(rest, unit);
}
