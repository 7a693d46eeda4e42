//! Unpacking against the codecs' own readers: all that they read comes out the same, nothing that they refuse is taken,
//! and what was not finished does not harm the next batch.

use std::io::{Read, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use model::FormatError;
use proptest::prelude::*;

use super::batch::{self, BatchError};
use super::records::{NewRecord, write_record};
use super::scan::{RECORD_TOO_LARGE, TOO_LARGE, Wanted, scan};
use super::tests::claimed;
use super::unpack::place_kept;
use super::{UNPACKED_BYTES_MAX, codec};

const LZ4: i16 = 3;

/// Bytes that do not pack.
fn noise(bytes: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..bytes).map(step).collect()
}

fn lz4_frame(plain: &[u8], info: FrameInfo) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Every kind of frame: `bits` choose.
fn lz4_info(bits: u8, size: usize) -> FrameInfo {
    let pick = |bit: u8| bits & bit != 0;
    FrameInfo::new()
        .block_mode(if pick(1) { BlockMode::Linked } else { BlockMode::Independent })
        .block_size(if pick(2) { BlockSize::Max64KB } else { BlockSize::Max256KB })
        .block_checksums(pick(4))
        .content_checksum(pick(8))
        .content_size(pick(16).then_some(size as u64))
}

/// What the codec's own reader makes of `packed`.
fn theirs(codec: i16, packed: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match codec {
        1 => flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut out).map(drop),
        2 => return snap::raw::Decoder::new().decompress_vec(packed).ok(),
        3 => FrameDecoder::new(packed).read_to_end(&mut out).map(drop),
        _ => zstd::stream::read::Decoder::with_buffer(packed).and_then(|mut all| all.read_to_end(&mut out)).map(drop),
    }
    .ok()
    .map(|()| out)
}

fn packed(codec: i16, plain: &[u8], lz4_bits: u8) -> Vec<u8> {
    let mut out = Vec::new();
    match codec {
        LZ4 => out = lz4_frame(plain, lz4_info(lz4_bits, plain.len())),
        _ => codec::pack(codec, &[], plain, &mut out).unwrap(),
    }
    out
}

/// Text that packs: words out of a few, with noise in between.
fn plain_bytes() -> impl Strategy<Value = Vec<u8>> {
    let word = (any::<u32>(), 1usize..3000, 0u8..4).prop_map(|(seed, bytes, kind)| match kind {
        0 => noise(bytes, seed),
        1 => vec![seed as u8; bytes * 20],
        _ => b"all work and no play makes a dull log ".repeat(1 + bytes / 38),
    });
    proptest::collection::vec(word, 0..30).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_their_encoders_pack_comes_out_whole(plain in plain_bytes(), codec in 1i16..=4, bits in any::<u8>()) {
        let packed = packed(codec, &plain, bits);
        prop_assert_eq!(theirs(codec, &packed), Some(plain.clone()));
        prop_assert_eq!(codec::unpack(codec, &packed, plain.len()), Ok(plain.clone()));
        if !plain.is_empty() {
            let refused = codec::unpack(codec, &packed, plain.len() - 1);
            prop_assert_eq!(refused, Err(FormatError::TooLarge { limit: plain.len() - 1 }));
        }
    }

    #[test]
    fn what_their_readers_refuse_is_not_taken(
        plain in plain_bytes(), codec in 1i16..=4, bits in any::<u8>(),
        at in any::<prop::sample::Index>(), value in any::<u8>(), is_cut in any::<bool>(),
    ) {
        let mut packed = packed(codec, &plain, bits);
        let at = at.index(packed.len());
        if is_cut { packed.truncate(at) } else { packed[at] = value }
        if let Ok(ours) = codec::unpack(codec, &packed, 1 << 24) {
            prop_assert_eq!(Some(ours), theirs(codec, &packed));
        }
    }

    #[test]
    fn a_batch_is_taken_whole_and_nothing_less(
        sizes in proptest::collection::vec(0usize..200_000, 1..6), codec in 0i16..=4, packs in any::<bool>(),
    ) {
        let values: Vec<Vec<u8>> =
            sizes.iter().map(|bytes| if packs { vec![b'v'; *bytes] } else { noise(*bytes, 7) }).collect();
        let (records, largest) = written(&values);
        let count = values.len() as i32;
        let look = |records: &[u8], count: i32, packed_max| {
            let batch = claimed(records, (count, count - 1), codec as usize);
            let wanted = Wanted { record_bytes_max: packed_max, ..Wanted::ANY };
            scan(&batch, &batch::check_produced(&batch, usize::MAX).unwrap(), &wanted)
        };
        prop_assert!(look(&records, count, largest).is_ok());
        if codec > 0 {
            prop_assert_eq!(look(&records, count, largest - 1), Err(RECORD_TOO_LARGE));
        }
        let is_invalid = |found| matches!(found, Err(BatchError::Invalid(_)));
        prop_assert!(is_invalid(look(&records, count + 1, usize::MAX)));
        prop_assert!(is_invalid(look(&records[..records.len() - 1], count, usize::MAX)));
        prop_assert!(is_invalid(look(&[&records[..], &[0]].concat(), count, usize::MAX)));
    }
}

/// Records of these values, and the size of the largest.
fn written(values: &[Vec<u8>]) -> (Vec<u8>, usize) {
    let (mut out, mut largest) = (Vec::new(), 0);
    for (number, value) in values.iter().enumerate() {
        let before = out.len();
        let headers = [("a header".to_owned(), Some(bytes::Bytes::from_static(b"of it")))];
        let record =
            NewRecord { time_delta: 0, offset_delta: number as i32, key: None, value: Some(value), headers: &headers };
        write_record(&record, &mut Vec::new(), &mut out);
        largest = largest.max(out.len() - before);
    }
    (out, largest)
}

#[test]
fn blocks_that_look_back_into_the_one_before_are_unpacked() {
    let plain = noise(3000, 3).repeat(70); // more than three blocks
    let linked = lz4_frame(&plain, FrameInfo::new().block_mode(BlockMode::Linked).block_size(BlockSize::Max64KB));
    assert!(linked.len() < plain.len() / 4, "{}: what comes again does not pack", linked.len());
    assert_eq!(codec::unpack(LZ4, &linked, plain.len()).unwrap(), plain);
    let mut alone = linked.clone();
    alone[4] |= 0x20; // says that they do not
    alone[6] = (twox_hash::XxHash32::oneshot(0, &alone[4..6]) >> 8) as u8;
    assert!(codec::unpack(LZ4, &alone, plain.len()).is_err());
}

#[test]
fn a_frame_cut_anywhere_is_refused() {
    let plain = noise(300, 5).repeat(250); // two blocks of the smaller size
    for bits in [2, 1 | 2 | 4, 2 | 8, 1 | 2 | 4 | 8 | 16] {
        let frame = lz4_frame(&plain, lz4_info(bits, plain.len()));
        for end in 0..frame.len() {
            assert!(codec::unpack(LZ4, &frame[..end], 1 << 20).is_err(), "{bits}: cut at {end}");
        }
        assert_eq!(codec::unpack(LZ4, &frame, 1 << 20).as_ref(), Ok(&plain));
    }
}

#[test]
fn malformed_frames_and_blocks_are_refused() {
    let plain = b"to be or not to be or to be not".repeat(9);
    let frame = lz4_frame(&plain, lz4_info(4 | 8 | 16, plain.len()));
    let unpack = |frame: &[u8]| codec::unpack(LZ4, frame, 1 << 20);
    for at in 0..frame.len() {
        let mut harmed = frame.clone();
        harmed[at] ^= 0x10;
        assert!(unpack(&harmed).is_err(), "byte {at} of {}", frame.len());
    }
    let bare = |blocks: &[&[u8]]| {
        let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40];
        frame.push((twox_hash::XxHash32::oneshot(0, &frame[4..6]) >> 8) as u8);
        for block in blocks {
            frame.extend_from_slice(&(block.len() as u32).to_le_bytes());
            frame.extend_from_slice(block);
        }
        frame.extend_from_slice(&[0; 4]);
        frame
    };
    assert_eq!(unpack(&bare(&[b"\x30abc", b"\x20de"])).unwrap(), b"abcde");
    assert_eq!(unpack(&bare(&[b"\x1fa\x01\x00\xff\x00\x50abcde"])).unwrap().len(), 1 + 19 + 255 + 5);
    assert!(unpack(&bare(&[b"\x1fa\x02\x00\x00\x50abcde"])).is_err(), "looks back before its begin");
    assert!(unpack(&bare(&[b"\x1fa\x00\x00\x00\x50abcde"])).is_err(), "looks back by nothing");
    assert!(unpack(&bare(&[b"\x40abc"])).is_err(), "fewer literals than it says");
    assert!(unpack(&bare(&[b"\xf0\xff\xff"])).is_err(), "a length that does not end");
    let zeros = lz4_flex::block::compress(&[0; (64 << 10) + 1]);
    assert!(unpack(&bare(&[&zeros])).is_err(), "a block larger than the frame allows");
    let zeros = lz4_flex::block::compress(&[0; 64 << 10]);
    assert_eq!(unpack(&bare(&[&zeros, &zeros])).unwrap(), [0; 128 << 10]);
    assert!(matches!(codec::unpack(LZ4, &bare(&[&zeros, &zeros]), 100_000), Err(FormatError::TooLarge { .. })));
}

#[test]
fn what_was_not_finished_does_not_harm_the_next() {
    let plain = b"to be or not to be ".repeat(20_000);
    for codec in 1..=4 {
        let whole = packed(codec, &plain, 1 | 2 | 8);
        for cut in [1, 20, whole.len() / 2, whole.len() - 1] {
            assert!(codec::unpack(codec, &whole[..cut], 1 << 20).is_err(), "codec {codec}, cut at {cut}");
            assert_eq!(codec::unpack(codec, &whole, 1 << 20).as_ref(), Ok(&plain), "codec {codec}, after {cut}");
            assert!(codec::unpack(codec, &whole, 1000).is_err());
        }
    }
}

#[test]
fn gzip_heads_of_every_kind_and_several_members_are_read() {
    let mut all = Vec::new();
    let heads = [
        flate2::GzBuilder::new(),
        flate2::GzBuilder::new().filename("a name").comment("a comment"),
        flate2::GzBuilder::new().extra(vec![7; 300]),
    ];
    for head in heads {
        let mut encoder = head.write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"member ").unwrap();
        all.extend(encoder.finish().unwrap());
    }
    assert_eq!(codec::unpack(1, &all, 100).unwrap(), b"member member member ");
    let sum_at = all.len() - 8;
    all[sum_at] ^= 1;
    assert!(codec::unpack(1, &all, 100).is_err(), "a wrong sum");
}

#[test]
fn a_small_batch_that_unpacks_to_far_too_much_is_refused_without_the_memory() {
    for codec in [1, 2, LZ4, 4] {
        let bomb = bomb(codec);
        let header = batch::check_produced(&bomb, 8 << 20).unwrap();
        assert_eq!(scan(&bomb, &header, &Wanted::ANY), Err(TOO_LARGE), "codec {codec}");
        assert_eq!(
            scan(&bomb, &header, &Wanted { record_bytes_max: 1 << 20, ..Wanted::ANY }),
            Err(RECORD_TOO_LARGE),
            "codec {codec}"
        );
        assert!(place_kept() <= 1 << 20, "codec {codec} keeps {}", place_kept());
    }
}

/// A batch of one record of more zeros than may be, in as many parts (members, frames, blocks) as it takes.
pub(crate) fn bomb(codec: i16) -> Vec<u8> {
    const PART: usize = 1 << 20;
    let total = i32::try_from(UNPACKED_BYTES_MAX + PART).unwrap();
    let mut record = Vec::new();
    let mut writer = model::ByteWriter::new(&mut record);
    writer.varint(total);
    writer.bytes(&[0, 0, 0, 1]); // no attributes, first time, first number, no key
    writer.varint(total - 10);
    let mut packed = match codec {
        1 | 4 => [packed(codec, &record, 0), packed(codec, &vec![0; PART], 0).repeat(130)].concat(),
        2 => xerial(&record, &vec![0; PART], 130),
        _ => lz4_blocks(&record, &vec![0; PART], 130),
    };
    let mut bomb = claimed(&[], (1, 0), 0);
    bomb.append(&mut packed);
    let length = (bomb.len() - batch::PREFIX_BYTES) as u32;
    bomb[8..12].copy_from_slice(&length.to_be_bytes());
    bomb[22] = codec as u8;
    batch::seal(&mut bomb);
    bomb
}

/// Snappy blocks in the framing of Java clients: `head`, and then `part` again and again.
fn xerial(head: &[u8], part: &[u8], times: usize) -> Vec<u8> {
    let block = |plain: &[u8]| {
        let packed = snap::raw::Encoder::new().compress_vec(plain).unwrap();
        [&(packed.len() as u32).to_be_bytes(), &packed[..]].concat()
    };
    [&b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"[..], &block(head), &block(part).repeat(times)].concat()
}

/// A frame of lz4 blocks of up to 4 MiB, likewise.
fn lz4_blocks(head: &[u8], part: &[u8], times: usize) -> Vec<u8> {
    let block = |plain: &[u8]| {
        let packed = lz4_flex::block::compress(plain);
        [&(packed.len() as u32).to_le_bytes(), &packed[..]].concat()
    };
    let sum = (twox_hash::XxHash32::oneshot(0, &[0x60, 0x70]) >> 8) as u8;
    let begin = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, sum];
    [&begin[..], &block(head), &block(part).repeat(times), &[0; 4]].concat()
}
