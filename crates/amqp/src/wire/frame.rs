//! Frames: type, channel, size, payload, the end octet 0xCE. Cut from borrowed input, written by hand.

use crate::errors::MethodId;

/// The protocol header a client opens with: `AMQP`, 0, then 0-9-1.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// What a frame costs besides its payload.
pub const OVERHEAD: usize = 8;

/// Some clients count the frame's own 8 bytes wrongly; RabbitMQ allows as many more.
const FUDGE: usize = 8;

const END: u8 = 0xCE;

/// What a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A method.
    Method,
    /// A content header.
    Header,
    /// A piece of a body.
    Body,
    /// Nothing: the peer is alive.
    Heartbeat,
    /// A type that does not exist.
    Unknown(u8),
}

impl Kind {
    fn of(byte: u8) -> Kind {
        match byte {
            1 => Kind::Method,
            2 => Kind::Header,
            3 => Kind::Body,
            8 => Kind::Heartbeat,
            other => Kind::Unknown(other),
        }
    }

    /// Its byte.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Kind::Method => 1,
            Kind::Header => 2,
            Kind::Body => 3,
            Kind::Heartbeat => 8,
            Kind::Unknown(other) => other,
        }
    }
}

/// One frame, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What it carries.
    pub kind: Kind,
    /// The channel; 0 is the connection itself.
    pub channel: u16,
    /// The payload.
    pub payload: &'a [u8],
    /// The bytes of the whole frame.
    pub bytes: usize,
}

/// Why no further frame can be cut: the stream is out of step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// Larger than was agreed.
    TooLarge {
        /// The frame's type.
        kind: u8,
        /// Its payload's size.
        size: usize,
        /// The largest allowed.
        size_max: usize,
    },
    /// The last octet is not 0xCE.
    End {
        /// The frame's type.
        kind: u8,
        /// The octet found.
        found: u8,
    },
}

/// Cuts the first frame off `input`; `None` when it is not whole yet. `frame_bytes_max` counts the whole frame.
///
/// # Errors
/// [`FrameError`]: nothing behind it can be understood.
pub fn cut(input: &[u8], frame_bytes_max: usize) -> Result<Option<Frame<'_>>, FrameError> {
    let Some((head, rest)) = input.split_first_chunk::<7>() else {
        return Ok(None);
    };
    let [kind, c0, c1, s0, s1, s2, s3] = *head;
    let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
    let size_max = frame_bytes_max - OVERHEAD;
    if size > size_max + FUDGE {
        return Err(FrameError::TooLarge { kind, size, size_max });
    }
    let (Some(payload), Some(end)) = (rest.get(..size), rest.get(size)) else {
        return Ok(None);
    };
    if *end != END {
        return Err(FrameError::End { kind, found: *end });
    }
    let channel = u16::from_be_bytes([c0, c1]);
    Ok(Some(Frame { kind: Kind::of(kind), channel, payload, bytes: size + OVERHEAD }))
}

/// Appends a frame whose payload `write` appends.
pub fn put(out: &mut Vec<u8>, kind: Kind, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let at = open(out, kind, channel);
    write(out);
    close(out, at);
}

/// Appends a method frame whose fields `write` appends.
pub fn put_method(out: &mut Vec<u8>, channel: u16, method: MethodId, write: impl FnOnce(&mut Vec<u8>)) {
    put(out, Kind::Method, channel, |out| {
        out.extend_from_slice(&method.0.to_be_bytes());
        out.extend_from_slice(&method.1.to_be_bytes());
        write(out);
    });
}

/// Appends a content header: class basic, the body's size, the properties as they came (flags first).
pub fn put_header(out: &mut Vec<u8>, channel: u16, body_bytes: u64, props: &[u8]) {
    put_header_with(out, (channel, body_bytes), |out| out.extend_from_slice(props));
}

/// As [`put_header`], with properties that `write` appends.
pub fn put_header_with(out: &mut Vec<u8>, (channel, body_bytes): (u16, u64), write: impl FnOnce(&mut Vec<u8>)) {
    put(out, Kind::Header, channel, |out| {
        out.extend_from_slice(&[0, 60, 0, 0]);
        out.extend_from_slice(&body_bytes.to_be_bytes());
        write(out);
    });
}

/// Appends the seven bytes before a payload of `size` bytes; the caller appends the payload and [`put_end`].
pub fn put_body_start(out: &mut Vec<u8>, channel: u16, size: usize) {
    out.push(Kind::Body.byte());
    out.extend_from_slice(&channel.to_be_bytes());
    out.extend_from_slice(&(size as u32).to_be_bytes());
}

/// Appends the end octet.
pub fn put_end(out: &mut Vec<u8>) {
    out.push(END);
}

/// Appends a heartbeat.
pub fn put_heartbeat(out: &mut Vec<u8>) {
    put(out, Kind::Heartbeat, 0, |_| {});
}

fn open(out: &mut Vec<u8>, kind: Kind, channel: u16) -> usize {
    out.push(kind.byte());
    out.extend_from_slice(&channel.to_be_bytes());
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    at
}

fn close(out: &mut Vec<u8>, at: usize) {
    let size = (out.len() - at - 4) as u32;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    out.push(END);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_cut_only_when_whole() {
        let mut out = Vec::new();
        put_method(&mut out, 7, (20, 11), |out| out.extend_from_slice(&[0; 4]));
        assert_eq!(out, [1, 0, 7, 0, 0, 0, 8, 0, 20, 0, 11, 0, 0, 0, 0, 0xCE], "channel.open-ok of the specification");
        for end in 0..out.len() {
            assert!(cut(&out[..end], 4096).unwrap().is_none());
        }
        let frame = cut(&out, 4096).unwrap().unwrap();
        assert_eq!((frame.kind, frame.channel, frame.payload.len(), frame.bytes), (Kind::Method, 7, 8, 16));
    }

    #[test]
    fn size_and_end_octet_are_checked() {
        let head = [1, 0, 0, 0, 3, 0x0d, 0x40];
        assert_eq!(
            cut(&head, 131_072).unwrap_err(),
            FrameError::TooLarge { kind: 1, size: 200_000, size_max: 131_064 }
        );
        assert_eq!(cut(&[8, 0, 0, 0, 0, 0, 0, 0], 4096).unwrap_err(), FrameError::End { kind: 8, found: 0 });
        let eight_more = [3, 0, 1, 0, 0, 0x10, 0];
        assert!(cut(&eight_more, 4096).is_ok(), "8 bytes more than agreed are let pass");
    }
}
