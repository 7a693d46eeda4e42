//! A raw AMQP 0-9-1 client on one channel: declare, publish with confirms, consume, ack.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::wire::{Reader, Writer, broken};
use crate::Outcome;

const PATIENCE: Duration = Duration::from_secs(30);
const END: u8 = 0xCE;

const OPEN_OK: (u16, u16) = (10, 41);
const START: (u16, u16) = (10, 10);
const TUNE: (u16, u16) = (10, 30);
const CHANNEL_OPEN_OK: (u16, u16) = (20, 11);
const DECLARE_OK: (u16, u16) = (50, 11);
const DELETE_OK: (u16, u16) = (50, 41);
const EXCHANGE_DECLARE_OK: (u16, u16) = (40, 11);
const EXCHANGE_DELETE_OK: (u16, u16) = (40, 21);
const BIND_OK: (u16, u16) = (50, 21);
const CONFIRM_OK: (u16, u16) = (85, 11);
const QOS_OK: (u16, u16) = (60, 11);
const CONSUME_OK: (u16, u16) = (60, 21);
const DELIVER: (u16, u16) = (60, 60);
const ACK: (u16, u16) = (60, 80);
const NACK: (u16, u16) = (60, 120);

/// What the broker says to a publisher or consumer.
pub(crate) enum Said {
    /// Confirmed up to this tag.
    Confirmed {
        /// The publish's number.
        tag: u64,
        /// All before it too.
        multiple: bool,
    },
    /// Not stored.
    Refused {
        /// The publish's number.
        tag: u64,
        /// All before it too.
        multiple: bool,
    },
    /// A message, to be acknowledged by this tag.
    Delivered {
        /// The delivery's number.
        tag: u64,
        /// The message's body.
        body: Vec<u8>,
    },
}

/// The value of an argument.
pub(crate) enum Argument {
    /// A text.
    Text(&'static str),
    /// A number.
    Number(i32),
}

/// One connection with its channel 1.
pub(crate) struct Amqp {
    write: TcpStream,
    read: BufReader<TcpStream>,
    /// For callers that count what they publish.
    pub(crate) published: u64,
}

impl Amqp {
    /// Connects as guest and opens the channel.
    pub(crate) fn connect(address: &str) -> Outcome<Amqp> {
        let write = TcpStream::connect(address).map_err(|e| format!("{address}: {e}"))?;
        write.set_nodelay(true).and_then(|()| write.set_read_timeout(Some(PATIENCE))).map_err(|e| e.to_string())?;
        let read = BufReader::with_capacity(1 << 16, write.try_clone().map_err(|e| e.to_string())?);
        let mut one = Amqp { write, read, published: 0 };
        one.raw(b"AMQP\0\0\x09\x01")?;
        one.expect(0, START)?;
        let mut body = Writer::default();
        body.u32(0).text8("PLAIN").bytes32(b"\0guest\0guest").text8("en_US");
        one.method(0, (10, 11), &body.0)?;
        let tune = one.expect(0, TUNE)?;
        let mut fields = Reader(&tune);
        let (channels, frame) = (fields.i16()? as u16, fields.i32()? as u32);
        one.method(0, (10, 31), &Writer::default().u16(channels).u32(frame).u16(0).0)?;
        one.method(0, (10, 40), &Writer::default().text8("/").text8("").u8(0).0)?;
        one.expect(0, OPEN_OK)?;
        one.method(1, (20, 10), &Writer::default().text8("").0)?;
        one.expect(1, CHANNEL_OPEN_OK)?;
        Ok(one)
    }

    /// A handle that writes while another thread reads.
    pub(crate) fn writer(&self) -> Outcome<Amqp> {
        let write = self.write.try_clone().map_err(|e| e.to_string())?;
        let read = BufReader::with_capacity(1, self.write.try_clone().map_err(|e| e.to_string())?);
        Ok(Amqp { write, read, published: 0 })
    }

    /// Declares a durable queue; answers how many messages it holds.
    pub(crate) fn declare(&mut self, queue: &str) -> Outcome<usize> {
        const DURABLE: u8 = 2;
        self.method(1, (50, 10), &Writer::default().u16(0).text8(queue).u8(DURABLE).u32(0).0)?;
        let answer = self.expect(1, DECLARE_OK)?;
        let mut fields = Reader(&answer);
        let name = fields.length::<1>()?;
        fields.bytes(name)?;
        fields.length::<4>()
    }

    /// Declares a durable queue with arguments.
    pub(crate) fn declare_with(&mut self, queue: &str, arguments: &[(&str, Argument)]) -> Outcome<()> {
        const DURABLE: u8 = 2;
        let mut table = Writer::default();
        for (name, value) in arguments {
            table.text8(name);
            match value {
                Argument::Text(text) => table.u8(b'S').bytes32(text.as_bytes()),
                Argument::Number(number) => table.u8(b'I').i32(*number),
            };
        }
        self.method(1, (50, 10), &Writer::default().u16(0).text8(queue).u8(DURABLE).bytes32(&table.0).0)?;
        self.expect(1, DECLARE_OK).map(drop)
    }

    /// How many messages a queue holds that wait.
    pub(crate) fn count(&mut self, queue: &str) -> Outcome<usize> {
        const PASSIVE: u8 = 1;
        self.method(1, (50, 10), &Writer::default().u16(0).text8(queue).u8(PASSIVE).u32(0).0)?;
        let answer = self.expect(1, DECLARE_OK)?;
        let mut fields = Reader(&answer);
        let name = fields.length::<1>()?;
        fields.bytes(name)?;
        fields.length::<4>()
    }

    /// Publishes a persistent message with a priority.
    pub(crate) fn publish_to(&mut self, exchange: &str, key: &str, priority: u8, body: &[u8]) -> Outcome<()> {
        const MODE_AND_PRIORITY: u16 = 1 << 12 | 1 << 11;
        let mut method = Writer::default();
        method.u16(60).u16(40).u16(0).text8(exchange).text8(key).u8(0);
        let mut header = Writer::default();
        header.u16(60).u16(0).u64(body.len() as u64).u16(MODE_AND_PRIORITY).u8(2).u8(priority);
        let mut frames = Writer::default();
        for (kind, payload) in [(1, &method.0[..]), (2, &header.0), (3, body)] {
            frames.u8(kind).u16(1).bytes32(payload).u8(END);
        }
        self.raw(&frames.0)
    }

    /// Publishes a persistent message with its queue's name as the key to a delayed exchange of that name.
    pub(crate) fn publish_later(&mut self, queue: &str, delay_ms: u64, body: &[u8]) -> Outcome<()> {
        const HEADERS_AND_MODE: u16 = 1 << 13 | 1 << 12;
        let mut method = Writer::default();
        method.u16(60).u16(40).u16(0).text8(queue).text8(queue).u8(0);
        let mut table = Writer::default();
        table.text8("x-delay").u8(b'I').i32(delay_ms as i32);
        let mut header = Writer::default();
        header.u16(60).u16(0).u64(body.len() as u64).u16(HEADERS_AND_MODE).bytes32(&table.0).u8(2);
        let mut frames = Writer::default();
        for (kind, payload) in [(1, &method.0[..]), (2, &header.0), (3, body)] {
            frames.u8(kind).u16(1).bytes32(payload).u8(END);
        }
        self.raw(&frames.0)
    }

    /// Declares a durable delayed exchange that routes as a direct one.
    pub(crate) fn declare_delayed(&mut self, name: &str) -> Outcome<()> {
        const DURABLE: u8 = 2;
        let mut table = Writer::default();
        table.text8("x-delayed-type").u8(b'S').bytes32(b"direct");
        let mut fields = Writer::default();
        fields.u16(0).text8(name).text8("x-delayed-message").u8(DURABLE).bytes32(&table.0);
        self.method(1, (40, 10), &fields.0)?;
        self.expect(1, EXCHANGE_DECLARE_OK).map(drop)
    }

    /// Publishes and acknowledges in transactions from now on.
    pub(crate) fn select(&mut self) -> Outcome<()> {
        self.method(1, (90, 10), &[])?;
        self.expect(1, (90, 11)).map(drop)
    }

    /// Ends a transaction.
    pub(crate) fn commit(&mut self) -> Outcome<()> {
        self.method(1, (90, 20), &[])?;
        self.expect(1, (90, 21)).map(drop)
    }

    /// Refuses one delivery for ever.
    pub(crate) fn reject(&mut self, tag: u64) -> Outcome<()> {
        self.method(1, (60, 90), &Writer::default().u64(tag).u8(0).0)
    }

    /// Acknowledges all deliveries up to one.
    pub(crate) fn ack_all(&mut self, tag: u64) -> Outcome<()> {
        self.method(1, ACK, &Writer::default().u64(tag).u8(1).0)
    }

    /// Removes a queue.
    pub(crate) fn delete(&mut self, queue: &str) -> Outcome<()> {
        self.method(1, (50, 40), &Writer::default().u16(0).text8(queue).u8(0).0)?;
        self.expect(1, DELETE_OK).map(drop)
    }

    /// Declares a durable exchange.
    pub(crate) fn declare_exchange(&mut self, name: &str, kind: &str) -> Outcome<()> {
        const DURABLE: u8 = 2;
        self.method(1, (40, 10), &Writer::default().u16(0).text8(name).text8(kind).u8(DURABLE).u32(0).0)?;
        self.expect(1, EXCHANGE_DECLARE_OK).map(drop)
    }

    /// Removes an exchange.
    pub(crate) fn delete_exchange(&mut self, name: &str) -> Outcome<()> {
        self.method(1, (40, 20), &Writer::default().u16(0).text8(name).u8(0).0)?;
        self.expect(1, EXCHANGE_DELETE_OK).map(drop)
    }

    /// Binds a queue.
    pub(crate) fn bind(&mut self, queue: &str, exchange: &str, key: &str) -> Outcome<()> {
        let mut fields = Writer::default();
        fields.u16(0).text8(queue).text8(exchange).text8(key).u8(0).u32(0);
        self.method(1, (50, 20), &fields.0)?;
        self.expect(1, BIND_OK).map(drop)
    }

    /// The socket, once nothing is awaited any more; the handles of this connection are gone.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.write
    }

    /// Asks for confirms.
    pub(crate) fn confirm(&mut self) -> Outcome<()> {
        self.method(1, (85, 10), &[0])?;
        self.expect(1, CONFIRM_OK).map(drop)
    }

    /// Publishes a persistent message to `queue`.
    pub(crate) fn publish(&mut self, queue: &str, body: &[u8]) -> Outcome<()> {
        const DELIVERY_MODE: u16 = 1 << 12;
        let mut method = Writer::default();
        method.u16(60).u16(40).u16(0).text8("").text8(queue).u8(0);
        let mut header = Writer::default();
        header.u16(60).u16(0).u64(body.len() as u64).u16(DELIVERY_MODE).u8(2);
        let mut frames = Writer::default();
        for (kind, payload) in [(1, &method.0[..]), (2, &header.0), (3, body)] {
            frames.u8(kind).u16(1).bytes32(payload).u8(END);
        }
        self.raw(&frames.0)
    }

    /// Begins to publish a message of `size` bytes to `queue` and stops after `part` of them.
    pub(crate) fn publish_part(&mut self, queue: &str, size: usize, part: usize) -> Outcome<()> {
        const BODY_FRAME: usize = 100_000;
        let mut method = Writer::default();
        method.u16(60).u16(40).u16(0).text8("").text8(queue).u8(0);
        let mut header = Writer::default();
        header.u16(60).u16(0).u64(size as u64).u16(0);
        let mut frames = Writer::default();
        for (kind, payload) in [(1, &method.0), (2, &header.0)] {
            frames.u8(kind).u16(1).bytes32(payload).u8(END);
        }
        self.raw(&frames.0)?;
        let mut frame = Writer::default();
        frame.u8(3).u16(1).bytes32(&vec![9; BODY_FRAME]).u8(END);
        self.write.set_write_timeout(Some(Duration::from_secs(2))).map_err(|e| e.to_string())?;
        for _ in 0..part / BODY_FRAME {
            if self.raw(&frame.0).is_err() {
                break; // it takes no more: that is what is asked of it
            }
        }
        Ok(())
    }

    /// Consumes `queue`, at most `prefetch` unacknowledged; 0 for no bound.
    pub(crate) fn consume(&mut self, queue: &str, prefetch: u16) -> Outcome<()> {
        self.method(1, (60, 10), &Writer::default().u32(0).u16(prefetch).u8(0).0)?;
        self.expect(1, QOS_OK)?;
        self.method(1, (60, 20), &Writer::default().u16(0).text8(queue).text8("").u8(0).u32(0).0)?;
        self.expect(1, CONSUME_OK).map(drop)
    }

    /// Acknowledges one delivery.
    pub(crate) fn ack(&mut self, tag: u64) -> Outcome<()> {
        self.method(1, ACK, &Writer::default().u64(tag).u8(0).0)
    }

    /// Whether the next answer begins to come within `within`.
    pub(crate) fn has_answer(&mut self, within: Duration) -> Outcome<bool> {
        self.write.set_read_timeout(Some(within)).map_err(|e| e.to_string())?;
        let comes = match self.read.fill_buf() {
            Ok([]) => Err(broken(ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) => Err(broken(error)),
        };
        self.write.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        comes
    }

    /// The next confirm or delivery.
    pub(crate) fn next(&mut self) -> Outcome<Said> {
        let (_, class, payload) = self.method_frame()?;
        let mut fields = Reader(&payload);
        match class {
            ACK => Ok(Said::Confirmed { tag: fields.i64()? as u64, multiple: fields.number::<1>()? != 0 }),
            NACK => Ok(Said::Refused { tag: fields.i64()? as u64, multiple: fields.number::<1>()? & 1 != 0 }),
            DELIVER => {
                let name = fields.length::<1>()?;
                fields.bytes(name)?;
                Ok(Said::Delivered { tag: fields.i64()? as u64, body: self.content()? })
            }
            other => Err(format!("unexpected method {other:?}: {}", String::from_utf8_lossy(&payload))),
        }
    }

    fn content(&mut self) -> Outcome<Vec<u8>> {
        let (_, header) = self.frame(2)?;
        let size = Reader(header.get(4..).unwrap_or(&[])).i64()? as usize;
        let mut body = Vec::new();
        while body.len() < size {
            body.extend(self.frame(3)?.1);
        }
        Ok(body)
    }

    fn expect(&mut self, channel: u16, wanted: (u16, u16)) -> Outcome<Vec<u8>> {
        let (from, class, payload) = self.method_frame()?;
        if (from, class) == (channel, wanted) {
            return Ok(payload);
        }
        Err(format!("method {class:?} instead of {wanted:?}: {}", String::from_utf8_lossy(&payload)))
    }

    fn method(&mut self, channel: u16, method: (u16, u16), body: &[u8]) -> Outcome<()> {
        let mut frame = Writer::default();
        frame.u8(1).u16(channel).u32(body.len() as u32 + 4).u16(method.0).u16(method.1).bytes(body).u8(END);
        self.raw(&frame.0)
    }

    fn raw(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.write.write_all(bytes).map_err(broken)
    }

    fn method_frame(&mut self) -> Outcome<(u16, (u16, u16), Vec<u8>)> {
        let (channel, payload) = self.frame(1)?;
        let mut fields = Reader(&payload);
        let class = (fields.i16()? as u16, fields.i16()? as u16);
        Ok((channel, class, fields.0.to_vec()))
    }

    /// The next frame, which must be of `kind`; heartbeats are passed over.
    fn frame(&mut self, kind: u8) -> Outcome<(u16, Vec<u8>)> {
        loop {
            let mut head = [0; 7];
            self.read.read_exact(&mut head).map_err(broken)?;
            let [found, c1, c2, s1, s2, s3, s4] = head;
            let mut payload = vec![0; u32::from_be_bytes([s1, s2, s3, s4]) as usize + 1];
            self.read.read_exact(&mut payload).map_err(broken)?;
            payload.pop();
            if found == kind {
                return Ok((u16::from_be_bytes([c1, c2]), payload));
            }
            if found != 8 {
                return Err(format!("a frame of kind {found} instead of {kind}"));
            }
        }
    }
}
