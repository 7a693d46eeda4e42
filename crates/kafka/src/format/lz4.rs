//! One lz4 frame, block by block: heads, sums, and the window that linked blocks look back into. Blocks themselves are
//! unpacked by `lz4_flex`, whose own reader of frames takes three times the largest block that a frame may have (12 MiB
//! by what most clients say) anew for every batch. What lies behind the frame is not looked at, as no client does.

use std::hash::Hasher;
use std::ops::Range;

use lz4_flex::block::{DecompressError, decompress_into_with_dict};
use twox_hash::XxHash32;

use super::unpack::ensure;

const MAGIC: u32 = 0x184d_2204;

const VERSION_MASK: u8 = 0xc0;
const VERSION: u8 = 0x40;
const INDEPENDENT_BIT: u8 = 0x20;
const BLOCK_SUM_BIT: u8 = 0x10;
const SIZE_BIT: u8 = 0x08;
const CONTENT_SUM_BIT: u8 = 0x04;
const RESERVED_BIT: u8 = 0x02;
const DICTIONARY_BIT: u8 = 0x01;

/// A block's length has this bit when it is not packed.
const PLAIN_BIT: u32 = 1 << 31;

/// How far linked blocks look back. Blocks are unpacked behind it.
const WINDOW_BYTES: usize = 64 << 10;

/// A frame on its way out.
pub(super) struct Lz4<'p> {
    rest: &'p [u8],
    frame: Option<Frame>,
}

/// What a frame's head says, and what of it is out.
struct Frame {
    block_max: usize,
    is_linked: bool,
    has_block_sums: bool,
    content_size: Option<u64>,
    content_sum: Option<XxHash32>,
    bytes_out: u64,
    /// Bytes before [`WINDOW_BYTES`] that can be looked back into.
    window: usize,
    /// Bytes behind it: the block that went out last.
    last: usize,
    is_over: bool,
}

impl<'p> Lz4<'p> {
    /// Of the frame that `packed` begins with.
    pub fn new(packed: &'p [u8]) -> Lz4<'p> {
        Lz4 { rest: packed, frame: None }
    }

    /// What the frame's head says of the length of all.
    pub fn claimed_bytes(mut self) -> Option<u64> {
        Frame::read(&mut self.rest)?.content_size
    }

    /// The next block, where it lies in `place`; an empty one behind the last. `None` when it is malformed. Of one that
    /// unpacks to more than `bytes_left` it is only seen that it does: its length is then greater.
    pub fn next(&mut self, place: &mut Vec<u8>, bytes_left: usize) -> Option<Range<usize>> {
        let frame = match &mut self.frame {
            Some(frame) => frame,
            None => self.frame.insert(Frame::read(&mut self.rest)?),
        };
        while !frame.is_over {
            let word = take_u32(&mut self.rest)?;
            if word == 0 {
                frame.end(&mut self.rest)?;
                break;
            }
            let (data, rest) = self.rest.split_at_checked((word & !PLAIN_BIT) as usize)?;
            self.rest = rest;
            if data.len() > frame.block_max {
                return None;
            }
            if frame.has_block_sums && take_u32(&mut self.rest)? != XxHash32::oneshot(0, data) {
                return None;
            }
            let bytes = frame.unpack((data, word & PLAIN_BIT != 0), place, bytes_left)?;
            if bytes > 0 {
                return Some(WINDOW_BYTES..WINDOW_BYTES + bytes);
            }
        }
        Some(0..0)
    }
}

impl Frame {
    fn read(rest: &mut &[u8]) -> Option<Frame> {
        if take_u32(rest)? != MAGIC {
            return None;
        }
        let head = *rest;
        let [flags, block] = *head.first_chunk::<2>()?;
        let is_known = flags & (VERSION_MASK | RESERVED_BIT | DICTIONARY_BIT) == VERSION;
        if !is_known || block & 0x8f != 0 || block >> 4 < 4 {
            return None;
        }
        let size = if flags & SIZE_BIT != 0 { Some(head.get(2..)?.first_chunk::<8>()?) } else { None };
        let (fields, rest_of_head) = head.split_at_checked(if size.is_some() { 10 } else { 2 })?;
        let (sum, behind) = rest_of_head.split_first()?;
        if *sum != (XxHash32::oneshot(0, fields) >> 8) as u8 {
            return None;
        }
        *rest = behind;
        Some(Frame {
            block_max: 1 << (8 + 2 * u32::from(block >> 4)),
            is_linked: flags & INDEPENDENT_BIT == 0,
            has_block_sums: flags & BLOCK_SUM_BIT != 0,
            content_size: size.map(|size| u64::from_le_bytes(*size)),
            content_sum: (flags & CONTENT_SUM_BIT != 0).then(|| XxHash32::with_seed(0)),
            bytes_out: 0,
            window: 0,
            last: 0,
            is_over: false,
        })
    }

    fn end(&mut self, rest: &mut &[u8]) -> Option<()> {
        self.is_over = true;
        if self.content_size.is_some_and(|size| size != self.bytes_out) {
            return None;
        }
        match &self.content_sum {
            Some(sum) if sum.finish_32() != take_u32(rest)? => None,
            _ => Some(()),
        }
    }

    fn unpack(&mut self, (data, is_plain): (&[u8], bool), place: &mut Vec<u8>, bytes_left: usize) -> Option<usize> {
        if self.is_linked {
            let window = WINDOW_BYTES.min(self.window + self.last);
            let end = WINDOW_BYTES + self.last;
            if self.last > 0 {
                place.copy_within(end - window..end, WINDOW_BYTES - window);
            }
            self.window = window;
        }
        let bytes = match is_plain {
            true => {
                let end = WINDOW_BYTES + data.len();
                ensure(place, end).get_mut(WINDOW_BYTES..end)?.copy_from_slice(data);
                data.len()
            }
            false => self.unpack_block(data, place, bytes_left)?,
        };
        if let Some(sum) = &mut self.content_sum {
            sum.write(place.get(WINDOW_BYTES..WINDOW_BYTES + bytes)?);
        }
        self.bytes_out += bytes as u64;
        self.last = bytes;
        Some(bytes)
    }

    fn unpack_block(&self, data: &[u8], place: &mut Vec<u8>, bytes_left: usize) -> Option<usize> {
        // A byte packs at most 255, but mostly few: the place for all is taken only when it is needed.
        let (likely, limit) = (data.len().saturating_mul(8), bytes_left.saturating_add(1));
        let most = self.block_max.min(data.len().saturating_mul(255)).min(limit);
        let mut room = place.len().saturating_sub(WINDOW_BYTES).max(likely).min(self.block_max).min(limit);
        loop {
            let (window, out) = ensure(place, WINDOW_BYTES + room).split_at_mut_checked(WINDOW_BYTES)?;
            let window = window.get(WINDOW_BYTES - self.window..)?;
            match decompress_into_with_dict(data, out.get_mut(..room)?, window) {
                Ok(bytes) => return Some(bytes),
                Err(DecompressError::OutputTooSmall { .. }) if room < most => room = most,
                Err(DecompressError::OutputTooSmall { .. }) if room == limit => return Some(limit),
                Err(_) => return None,
            }
        }
    }
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (word, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    Some(u32::from_le_bytes(*word))
}
