//! Raw clients: they build requests and read answers byte by byte, on their own, so that a mistake in the product's
//! codecs cannot hide in both ends.

pub mod amqp;
pub mod kafka;

use model::ByteReader;

/// A short text with its length in two bytes.
fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as i16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Takes the first whole frame of `bytes`, by a 4-byte length.
fn take_frame(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = ByteReader::new(bytes).u32().ok()? as usize;
    if bytes.len() < 4 + length {
        return None;
    }
    let frame = bytes.get(4..4 + length)?.to_vec();
    bytes.drain(..4 + length);
    Some(frame)
}
