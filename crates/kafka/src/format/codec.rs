//! The four compression codecs. What we build ourselves is not compressed; what compaction shortens is again.
//!
//! Output is bounded, whatever the packed bytes claim.

use std::io::Write;

use model::FormatError;

use super::unpack::{Pieces, XERIAL_MARK};

/// Bytes of a block before it is packed.
const XERIAL_BLOCK_BYTES: usize = 32 << 10;

/// Unpacks `packed` by codec number (1 gzip, 2 snappy, 3 lz4, 4 zstd).
pub(crate) fn unpack(codec: i16, packed: &[u8], bytes_max: usize) -> Result<Vec<u8>, FormatError> {
    let mut unpacked = Vec::new();
    let mut pieces = Pieces::new(codec, packed, bytes_max);
    while pieces.next()? {
        unpacked.extend_from_slice(pieces.piece());
    }
    Ok(unpacked)
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
