//! A raw AMQP 0-9-1 client: handshake, one durable queue, persistent publishes with confirms, consuming with acks.

use model::{ByteReader, ByteWriter, ReadError};

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const END: u8 = 0xCE;

/// The queue all of this client's messages go through.
pub const QUEUE: &str = "sim";

/// What the server says, as far as this client cares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// A method by class and id that carries nothing of interest.
    Method(u16, u16),
    /// Everything up to this publish (if `multiple`), or just it, is confirmed.
    Ack {
        /// The publish's number.
        tag: u64,
        /// All before too.
        multiple: bool,
    },
    /// A message.
    Delivery {
        /// Names it for the ack.
        tag: u64,
        /// It was delivered before.
        redelivered: bool,
        /// Its body as text.
        body: String,
    },
    /// The server closes connection or channel.
    Closed(u16, String),
}

/// The state of reading: a delivery is three frames.
#[derive(Default)]
pub struct Listener {
    open: Option<(u64, bool, u64, Vec<u8>)>,
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 8);
    let mut writer = ByteWriter::new(&mut out);
    writer.u8(kind);
    writer.u16(channel);
    writer.u32(payload.len() as u32);
    writer.bytes(payload);
    writer.u8(END);
    out
}

fn method(channel: u16, class: u16, id: u16, fields: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend_from_slice(&class.to_be_bytes());
    payload.extend_from_slice(&id.to_be_bytes());
    fields(&mut payload);
    frame(METHOD, channel, &payload)
}

fn short(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Everything up to an open channel 1 in confirm mode with the queue declared; sent at once, since the server's
/// answers are known.
#[must_use]
pub fn handshake() -> Vec<u8> {
    let mut out = b"AMQP\x00\x00\x09\x01".to_vec();
    out.extend(method(0, 10, 11, |fields| {
        long(fields, b"");
        short(fields, "PLAIN");
        long(fields, b"\0guest\0guest");
        short(fields, "en_US");
    }));
    out.extend(method(0, 10, 31, |fields| {
        fields.extend_from_slice(&2047u16.to_be_bytes());
        fields.extend_from_slice(&131_072u32.to_be_bytes());
        fields.extend_from_slice(&0u16.to_be_bytes());
    }));
    out.extend(method(0, 10, 40, |fields| {
        short(fields, "/");
        short(fields, "");
        fields.push(0);
    }));
    out.extend(method(1, 20, 10, |fields| short(fields, "")));
    out.extend(method(1, 85, 10, |fields| fields.push(0)));
    out.extend(method(1, 50, 10, |fields| {
        fields.extend_from_slice(&0u16.to_be_bytes());
        short(fields, QUEUE);
        fields.push(0b10); // durable
        long(fields, b"");
    }));
    out
}

/// Publishes `body` persistently to the queue, through the default exchange.
#[must_use]
pub fn publish(body: &str) -> Vec<u8> {
    let mut out = method(1, 60, 40, |fields| {
        fields.extend_from_slice(&0u16.to_be_bytes());
        short(fields, "");
        short(fields, QUEUE);
        fields.push(0);
    });
    let mut header = Vec::new();
    let mut writer = ByteWriter::new(&mut header);
    writer.u16(60);
    writer.u16(0);
    writer.u64(body.len() as u64);
    writer.u16(0x1000); // delivery-mode alone
    writer.u8(2);
    out.extend(frame(HEADER, 1, &header));
    out.extend(frame(BODY, 1, body.as_bytes()));
    out
}

/// At most `count` deliveries may wait for their ack.
#[must_use]
pub fn prefetch(count: u16) -> Vec<u8> {
    method(1, 60, 10, |fields| {
        fields.extend_from_slice(&0u32.to_be_bytes());
        fields.extend_from_slice(&count.to_be_bytes());
        fields.push(0);
    })
}

/// Starts to consume with acks.
#[must_use]
pub fn consume() -> Vec<u8> {
    method(1, 60, 20, |fields| {
        fields.extend_from_slice(&0u16.to_be_bytes());
        short(fields, QUEUE);
        short(fields, "sim");
        fields.push(0);
        long(fields, b"");
    })
}

/// Acks one delivery.
#[must_use]
pub fn ack(tag: u64) -> Vec<u8> {
    method(1, 60, 80, |fields| {
        fields.extend_from_slice(&tag.to_be_bytes());
        fields.push(0);
    })
}

/// Acks all deliveries up to this one.
#[must_use]
pub fn ack_all(tag: u64) -> Vec<u8> {
    method(1, 60, 80, |fields| {
        fields.extend_from_slice(&tag.to_be_bytes());
        fields.push(1);
    })
}

impl Listener {
    /// The next thing heard in `received`, or nothing yet.
    ///
    /// # Errors
    /// When the bytes are no frames.
    pub fn next(&mut self, received: &mut Vec<u8>) -> Result<Option<Heard>, ReadError> {
        loop {
            let mut reader = ByteReader::new(received);
            if reader.left() < 7 {
                return Ok(None);
            }
            let (kind, _channel, length) = (reader.u8()?, reader.u16()?, reader.u32()? as usize);
            if reader.left() < length + 1 {
                return Ok(None);
            }
            let payload = reader.take(length)?.to_vec();
            if reader.u8()? != END {
                return Err(ReadError::Length(-1));
            }
            received.drain(..length + 8);
            if let Some(heard) = self.hear(kind, &payload)? {
                return Ok(Some(heard));
            }
        }
    }

    fn hear(&mut self, kind: u8, payload: &[u8]) -> Result<Option<Heard>, ReadError> {
        let mut reader = ByteReader::new(payload);
        match kind {
            METHOD => self.hear_method(&mut reader),
            HEADER => {
                reader.take(4)?;
                let size = reader.u64()?;
                if let Some(open) = &mut self.open {
                    open.2 = size;
                }
                Ok(self.whole())
            }
            BODY => {
                if let Some(open) = &mut self.open {
                    open.3.extend_from_slice(payload);
                }
                Ok(self.whole())
            }
            _ => Ok(None),
        }
    }

    fn hear_method(&mut self, reader: &mut ByteReader<'_>) -> Result<Option<Heard>, ReadError> {
        let (class, id) = (reader.u16()?, reader.u16()?);
        Ok(match (class, id) {
            (60, 60) => {
                let tag_length = reader.u8()?;
                reader.take(usize::from(tag_length))?;
                self.open = Some((reader.u64()?, reader.u8()? & 1 == 1, u64::MAX, Vec::new()));
                None
            }
            (60, 80) => Some(Heard::Ack { tag: reader.u64()?, multiple: reader.u8()? & 1 == 1 }),
            (10, 50) | (20, 40) => {
                let code = reader.u16()?;
                let length = reader.u8()?;
                Some(Heard::Closed(code, reader.text(usize::from(length))?.to_owned()))
            }
            _ => Some(Heard::Method(class, id)),
        })
    }

    fn whole(&mut self) -> Option<Heard> {
        let (tag, redelivered, size, body) = self.open.take()?;
        if (body.len() as u64) < size {
            self.open = Some((tag, redelivered, size, body));
            return None;
        }
        Some(Heard::Delivery { tag, redelivered, body: String::from_utf8_lossy(&body).into_owned() })
    }
}
