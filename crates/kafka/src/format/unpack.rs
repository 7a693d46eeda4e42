//! Unpacking of compressed records piece by piece: what is packed never needs a place for all that it unpacks to, and
//! the decoders, which are dear to make, are kept by each thread for the next batch. Packing is in [`super::codec`].

use std::cell::Cell;
use std::ops::Range;

use flate2::{Crc, Decompress, FlushDecompress, Status};
use model::FormatError;
use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::lz4::Lz4;

/// Snappy data of Java clients comes in blocks behind this mark; other clients send one bare block.
pub(super) const XERIAL_MARK: &[u8] = &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// The mark and two version numbers.
const XERIAL_HEADER_BYTES: usize = 16;

/// One piece, where the codec leaves it to us.
const PIECE_BYTES: usize = 128 << 10;
/// The place for pieces that is kept for the next batch at most.
const PLACE_KEPT_MAX: usize = 1 << 20;
/// What zstd's decoder may hold to be kept: the windows of the usual levels.
const ZSTD_KEPT_MAX: usize = 10 << 20;

thread_local! {
    static TOOLS: Cell<Option<Box<Tools>>> = const { Cell::new(None) };
}

/// What one thread keeps.
#[derive(Default)]
struct Tools {
    inflate: Option<Decompress>,
    zstd: Option<DCtx<'static>>,
    place: Vec<u8>,
}

/// Packed bytes on their way out.
pub(crate) struct Pieces<'p> {
    tools: Box<Tools>,
    packing: Packing<'p>,
    piece: Range<usize>,
    bytes_max: usize,
    bytes_left: usize,
}

enum Packing<'p> {
    Gzip(Gzip<'p>),
    Snappy(Snappy<'p>),
    Lz4(Lz4<'p>),
    Zstd(Zstd<'p>),
    Unknown,
}

impl<'p> Pieces<'p> {
    /// Of `packed` by codec number (1 gzip, 2 snappy, 3 lz4, 4 zstd); no more than `bytes_max` comes out.
    pub fn new(codec: i16, packed: &'p [u8], bytes_max: usize) -> Pieces<'p> {
        let packing = match codec {
            1 => Packing::Gzip(Gzip { rest: packed, sum: Crc::new(), is_within: false, is_begun: false }),
            2 => Packing::Snappy(Snappy::new(packed)),
            3 => Packing::Lz4(Lz4::new(packed)),
            4 => Packing::Zstd(Zstd { packed, at: 0, is_within: true }),
            _ => Packing::Unknown,
        };
        let tools = TOOLS.take().unwrap_or_default();
        Pieces { tools, packing, piece: 0..0, bytes_max, bytes_left: bytes_max }
    }

    /// The piece at hand; empty before the first and behind the last.
    pub fn piece(&self) -> &[u8] {
        self.tools.place.get(self.piece.clone()).unwrap_or_default()
    }

    /// Bytes of all pieces up to here.
    pub fn bytes(&self) -> usize {
        self.bytes_max - self.bytes_left
    }

    /// Goes to the next piece; answers whether there is one.
    pub fn next(&mut self) -> Result<bool, FormatError> {
        let Tools { inflate, zstd, place } = &mut *self.tools;
        let (what, piece) = match &mut self.packing {
            Packing::Gzip(gzip) => ("gzip data", gzip.next(inflate, place)),
            Packing::Snappy(snappy) => ("snappy data", snappy.next(place, self.bytes_left)),
            Packing::Lz4(lz4) => ("lz4 frames", lz4.next(place, self.bytes_left)),
            Packing::Zstd(frames) => ("zstd data", frames.next(zstd, place)),
            Packing::Unknown => ("a known compression codec", None),
        };
        self.piece = piece.ok_or(FormatError::Malformed(what))?;
        self.bytes_left =
            self.bytes_left.checked_sub(self.piece.len()).ok_or(FormatError::TooLarge { limit: self.bytes_max })?;
        Ok(!self.piece.is_empty())
    }
}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        let mut tools = std::mem::take(&mut self.tools);
        if tools.place.capacity() > PLACE_KEPT_MAX {
            tools.place = Vec::new();
        }
        tools.zstd = tools.zstd.take().filter(|zstd| zstd.sizeof() <= ZSTD_KEPT_MAX);
        TOOLS.set(Some(tools));
    }
}

/// How much `packed` says that it unpacks to, where it does. It may lie.
pub(crate) fn claimed_bytes(codec: i16, packed: &[u8]) -> Option<u64> {
    match codec {
        1 => packed.last_chunk().map(|length| u32::from_le_bytes(*length).into()), // of the last member
        2 if !packed.starts_with(XERIAL_MARK) => snap::raw::decompress_len(packed).ok().map(|bytes| bytes as u64),
        3 => Lz4::new(packed).claimed_bytes(),
        4 => zstd::zstd_safe::get_frame_content_size(packed).ok().flatten(), // of the first frame
        _ => None,
    }
}

/// Makes `place` at least `bytes` long. It stays so long, so that only new bytes are ever zeroed.
pub(super) fn ensure(place: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if place.len() < bytes {
        place.resize(bytes, 0);
    }
    place
}

/// Members one behind the other (RFC 1952).
struct Gzip<'p> {
    rest: &'p [u8],
    sum: Crc,
    is_within: bool,
    is_begun: bool,
}

impl Gzip<'_> {
    fn next(&mut self, inflate: &mut Option<Decompress>, place: &mut Vec<u8>) -> Option<Range<usize>> {
        let inflate = inflate.get_or_insert_with(|| Decompress::new(false));
        let place = ensure(place, PIECE_BYTES);
        loop {
            if !self.is_within {
                if self.is_begun && self.rest.is_empty() {
                    return Some(0..0);
                }
                self.rest = behind_gzip_head(self.rest)?;
                inflate.reset(false);
                self.sum.reset();
                (self.is_within, self.is_begun) = (true, true);
            }
            let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(self.rest, place, FlushDecompress::None).ok()?;
            let taken = (inflate.total_in() - in_before) as usize;
            let written = (inflate.total_out() - out_before) as usize;
            self.rest = self.rest.get(taken..)?;
            self.sum.update(place.get(..written)?);
            if status == Status::StreamEnd {
                let ([a, b, c, d, e, f, g, h], rest) = self.rest.split_first_chunk::<8>()?;
                let (sum, amount) = (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
                if (sum, amount) != (self.sum.sum(), self.sum.amount()) {
                    return None;
                }
                self.rest = rest;
                self.is_within = false;
            } else if taken == 0 && written == 0 {
                return None; // it ends too early
            }
            if written > 0 {
                return Some(0..written);
            }
        }
    }
}

/// What lies behind a member's head.
fn behind_gzip_head(member: &[u8]) -> Option<&[u8]> {
    let (sum_bit, extra_bit, name_bit, comment_bit, reserved_bits) = (2, 4, 8, 16, 0xe0);
    let ([0x1f, 0x8b, 8, flags, ..], mut rest) = member.split_first_chunk::<10>()? else { return None };
    if flags & reserved_bits != 0 {
        return None;
    }
    if flags & extra_bit != 0 {
        let (length, after) = rest.split_first_chunk::<2>()?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    for text in [name_bit, comment_bit] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & sum_bit != 0 {
        let (sum, after) = rest.split_first_chunk::<2>()?;
        let mut crc = Crc::new();
        crc.update(member.get(..member.len() - rest.len())?);
        if u16::from_le_bytes(*sum) != crc.sum() as u16 {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

/// Blocks behind a mark, or one bare block.
struct Snappy<'p> {
    rest: &'p [u8],
    is_framed: bool,
    is_begun: bool,
}

impl<'p> Snappy<'p> {
    fn new(packed: &'p [u8]) -> Snappy<'p> {
        let is_framed = packed.starts_with(XERIAL_MARK) && packed.len() >= XERIAL_HEADER_BYTES;
        let rest = packed.get(if is_framed { XERIAL_HEADER_BYTES } else { 0 }..).unwrap_or_default();
        Snappy { rest, is_framed, is_begun: is_framed }
    }

    fn next(&mut self, place: &mut Vec<u8>, bytes_left: usize) -> Option<Range<usize>> {
        // No bytes are no bare block: an empty one has its length, 0.
        while !self.is_begun || !self.rest.is_empty() {
            self.is_begun = true;
            let block = match self.is_framed {
                false => std::mem::take(&mut self.rest),
                true => {
                    let (length, after) = self.rest.split_first_chunk::<4>()?;
                    let (block, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
                    self.rest = after;
                    block
                }
            };
            let bytes = snap::raw::decompress_len(block).ok()?;
            // It packs at most about 21 to 1 (a copy of 64 bytes takes 3); more is a lie, not to be reserved for.
            if bytes > block.len().saturating_mul(64) {
                return None;
            }
            if bytes > bytes_left {
                return Some(0..bytes); // not unpacked: the caller sees that it is too large
            }
            let place = ensure(place, bytes).get_mut(..bytes)?;
            let written = snap::raw::Decoder::new().decompress(block, place).ok()?;
            if written > 0 {
                return Some(0..written);
            }
        }
        Some(0..0)
    }
}

/// Frames one behind the other (RFC 8878).
struct Zstd<'p> {
    packed: &'p [u8],
    at: usize,
    is_within: bool,
}

impl Zstd<'_> {
    fn next(&mut self, kept: &mut Option<DCtx<'static>>, place: &mut Vec<u8>) -> Option<Range<usize>> {
        let decoder = match kept {
            Some(decoder) => decoder,
            None => kept.insert(DCtx::try_create()?),
        };
        if self.at == 0 {
            decoder.reset(ResetDirective::SessionOnly).ok()?;
        }
        let place = ensure(place, PIECE_BYTES);
        loop {
            if self.at == self.packed.len() && !self.is_within {
                return Some(0..0);
            }
            let mut input = InBuffer { src: self.packed, pos: self.at };
            let mut output = OutBuffer::around(&mut *place);
            let missing = decoder.decompress_stream(&mut output, &mut input).ok()?;
            let (taken, written) = (input.pos - self.at, output.pos());
            self.at = input.pos;
            self.is_within = missing > 0;
            if written > 0 {
                return Some(0..written);
            }
            if taken == 0 && self.is_within {
                return None; // it ends too early
            }
        }
    }
}

/// Bytes of the place that this thread keeps.
#[cfg(test)]
pub(super) fn place_kept() -> usize {
    let tools = TOOLS.take().unwrap_or_default();
    let bytes = tools.place.capacity();
    TOOLS.set(Some(tools));
    bytes
}
