//! The four compression codecs. What we build ourselves is not compressed; what compaction shortens is again.
//!
//! Output is bounded, whatever the packed bytes claim.

use std::io::{Read, Write};

use model::FormatError;

/// Snappy data of Java clients comes in blocks behind this mark; other clients send one bare block.
const XERIAL_MARK: &[u8] = &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// The mark and two version numbers.
const XERIAL_HEADER_BYTES: usize = 16;
/// Bytes of a block before it is packed.
const XERIAL_BLOCK_BYTES: usize = 32 << 10;

/// Unpacks `packed` by codec number (1 gzip, 2 snappy, 3 lz4, 4 zstd).
pub(crate) fn unpack(codec: i16, packed: &[u8], bytes_max: usize) -> Result<Vec<u8>, FormatError> {
    let mut unpacked = Vec::new();
    unpack_into(codec, packed, bytes_max, &mut unpacked)?;
    Ok(unpacked)
}

/// The same, behind what `out` holds.
pub(crate) fn unpack_into(codec: i16, packed: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), FormatError> {
    match codec {
        1 => read_all(flate2::read::MultiGzDecoder::new(packed), bytes_max, "gzip data", out),
        2 => unpack_snappy(packed, bytes_max, out),
        3 if unpack_single_lz4(packed, bytes_max, out).is_some() => Ok(()),
        3 => read_all(lz4_flex::frame::FrameDecoder::new(packed), bytes_max, "lz4 frames", out),
        4 => {
            let decoder = zstd::stream::read::Decoder::with_buffer(packed);
            read_all(decoder.map_err(|_| FormatError::Malformed("zstd data"))?, bytes_max, "zstd data", out)
        }
        _ => Err(FormatError::Malformed("a known compression codec")),
    }
}

fn read_all(reader: impl Read, bytes_max: usize, what: &'static str, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let before = out.len();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(limit).read_to_end(out).map_err(|_| FormatError::Malformed(what))?;
    if out.len() - before > bytes_max {
        return Err(FormatError::TooLarge { limit: bytes_max });
    }
    Ok(())
}

/// A frame of one block, as small batches are: without the decoder, which reserves the largest block that the frame
/// could have (4 MiB by what most clients say) however little comes. `None`, and `out` as it was, for anything else,
/// also for what is damaged: the decoder says so then. The sums within are not looked at: the batch has its own.
fn unpack_single_lz4(packed: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Option<()> {
    let (head, rest) = packed.split_first_chunk::<6>()?;
    let [0x04, 0x22, 0x4d, 0x18, flags, block] = *head else { return None };
    if flags >> 6 != 1 || flags & 0x01 != 0 {
        return None; // another version, or a dictionary of its own
    }
    let block_max = 1_usize << (8 + 2 * u32::from(block >> 4 & 7));
    let skipped = if flags & 0x08 != 0 { 9 } else { 1 }; // the content's size, and the header's sum
    let (length, rest) = rest.get(skipped..)?.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length);
    let (data, rest) = rest.split_at_checked((length & 0x7fff_ffff) as usize)?;
    let end = rest.get(if flags & 0x10 != 0 { 4 } else { 0 }..)?;
    let tail = end.strip_prefix(&[0; 4])?;
    if tail.len() != (if flags & 0x04 != 0 { 4 } else { 0 }) {
        return None;
    }
    let before = out.len();
    let block_max = block_max.min(bytes_max);
    if length >> 31 == 1 {
        out.extend_from_slice((data.len() <= block_max).then_some(data)?);
        return Some(());
    }
    // A byte packs at most 255, but mostly few: the place for all is taken only when it is needed.
    for times in [8, 255] {
        out.resize(before + block_max.min(data.len().saturating_mul(times)), 0);
        if let Ok(bytes) = lz4_flex::block::decompress_into(data, &mut out[before..]) {
            out.truncate(before + bytes);
            return Some(());
        }
        out.truncate(before);
    }
    None
}

fn unpack_snappy(packed: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let end_max = out.len().saturating_add(bytes_max);
    let limit = FormatError::TooLarge { limit: bytes_max };
    if !packed.starts_with(XERIAL_MARK) {
        return append_block(packed, end_max, &limit, out);
    }
    let mut rest = packed.get(XERIAL_HEADER_BYTES..).ok_or(FormatError::Malformed("snappy framing"))?;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (block, after) = after.split_at_checked(length).ok_or(FormatError::Malformed("snappy framing"))?;
        append_block(block, end_max, &limit, out)?;
        rest = after;
    }
    if rest.is_empty() { Ok(()) } else { Err(FormatError::Malformed("snappy framing")) }
}

/// Packs `records` by codec number, behind what `out` holds. `was` is what they were packed as: its framing is kept.
pub(crate) fn pack(codec: i16, was: &[u8], records: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    const FAILED: FormatError = FormatError::Malformed("records that can be packed");
    match codec {
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            encoder.write_all(records).and_then(|()| encoder.finish().map(drop)).map_err(|_| FAILED)
        }
        2 => pack_snappy(was.starts_with(XERIAL_MARK), records, out).map_err(|_| FAILED),
        3 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
            encoder.write_all(records).map_err(|_| FAILED)?;
            encoder.finish().map(drop).map_err(|_| FAILED)
        }
        4 => zstd::stream::copy_encode(records, out, 0).map_err(|_| FAILED),
        _ => Err(FAILED),
    }
}

fn pack_snappy(is_framed: bool, records: &[u8], out: &mut Vec<u8>) -> Result<(), snap::Error> {
    let mut encoder = snap::raw::Encoder::new();
    if !is_framed {
        out.extend_from_slice(&encoder.compress_vec(records)?);
        return Ok(());
    }
    out.extend_from_slice(XERIAL_MARK);
    out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    for block in records.chunks(XERIAL_BLOCK_BYTES) {
        let packed = encoder.compress_vec(block)?;
        out.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        out.extend_from_slice(&packed);
    }
    Ok(())
}

fn append_block(block: &[u8], end_max: usize, limit: &FormatError, unpacked: &mut Vec<u8>) -> Result<(), FormatError> {
    const WHAT: FormatError = FormatError::Malformed("a snappy block");
    let bytes = snap::raw::decompress_len(block).map_err(|_| WHAT)?;
    // A snappy block packs at most about 21 to 1 (a copy of 64 bytes takes 3); more is a lie, not to be reserved for.
    if bytes > block.len().saturating_mul(64) {
        return Err(WHAT);
    }
    let start = unpacked.len();
    let end = start.saturating_add(bytes);
    if end > end_max {
        return Err(limit.clone());
    }
    unpacked.resize(end, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut unpacked[start..]).map_err(|_| WHAT)?;
    unpacked.truncate(start + written);
    Ok(())
}
