//! Raw AMQP publishers and consumers on one channel each: frames are made once, and of what comes only the heads are
//! looked at.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::amqp::Amqp;
use crate::judge::wire::{Reader, Writer, broken};

const END: u8 = 0xCE;
const BUFFER_BYTES: usize = 256 << 10;
/// Nothing for so long: something is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to publish.
#[derive(Clone)]
pub(crate) struct Publishing {
    /// Where.
    pub(crate) address: String,
    /// Through which exchange; none: the default one.
    pub(crate) exchange: String,
    /// With which keys, in turn: without an exchange names of queues.
    pub(crate) queues: Vec<String>,
    /// Messages in all.
    pub(crate) messages: u64,
    /// Bytes of a body.
    pub(crate) bytes: usize,
    /// Unconfirmed messages at once.
    pub(crate) window: u64,
    /// Messages of one write.
    pub(crate) per_write: u64,
    /// Confirmed so far, for whoever looks on.
    pub(crate) confirmed: Arc<AtomicU64>,
}

/// Messages of one write, unless it is said otherwise: what a client that gathers its output sends at once.
pub(crate) const PER_WRITE: u64 = 64;

/// Publishes all of it, persistent and confirmed.
///
/// # Errors
/// When anything is refused or the connection breaks.
pub(crate) fn publish(plan: &Publishing) -> Outcome<()> {
    let mut client = Amqp::connect(&plan.address)?;
    client.confirm()?;
    let mut to = client.into_stream();
    let from = to.try_clone().map_err(|why| why.to_string())?;
    let (messages, confirmed) = (plan.messages, Arc::clone(&plan.confirmed));
    let writer = thread::current();
    let base = confirmed.load(Ordering::Relaxed);
    let reading = thread::spawn(move || {
        let mut frames = Frames::new(from);
        let mut upto = 0;
        while upto < messages {
            upto = upto.max(frames.confirmed()?);
            confirmed.store(base + upto, Ordering::Release);
            if !frames.has_whole() {
                writer.unpark();
            }
        }
        writer.unpark();
        Ok::<(), String>(())
    });
    let frames: Vec<Vec<u8>> =
        plan.queues.iter().map(|key| message(&plan.exchange, key, &vec![b'x'; plan.bytes])).collect();
    let mut block = Vec::new();
    let mut sent = 0;
    while sent < plan.messages {
        let count = plan.per_write.min(plan.window).min(plan.messages - sent);
        while sent + count > plan.confirmed.load(Ordering::Acquire) - base + plan.window {
            if reading.is_finished() {
                return reading.join().map_err(|_| "a reader panicked")?;
            }
            thread::park_timeout(Duration::from_millis(100));
        }
        block.clear();
        for at in sent..sent + count {
            block.extend_from_slice(&frames[(at % frames.len() as u64) as usize]);
        }
        to.write_all(&block).map_err(broken)?;
        sent += count;
    }
    reading.join().map_err(|_| "a reader panicked")?
}

/// The three frames of one persistent message.
pub(crate) fn message(exchange: &str, key: &str, body: &[u8]) -> Vec<u8> {
    const DELIVERY_MODE: u16 = 1 << 12;
    let mut method = Writer::default();
    method.u16(60).u16(40).u16(0).text8(exchange).text8(key).u8(0);
    let mut header = Writer::default();
    header.u16(60).u16(0).u64(body.len() as u64).u16(DELIVERY_MODE).u8(2);
    let mut frames = Writer::default();
    for (kind, payload) in [(1, &method.0[..]), (2, &header.0), (3, body)] {
        frames.u8(kind).u16(1).bytes32(payload).u8(END);
    }
    frames.0
}

/// What to consume.
#[derive(Clone)]
pub(crate) struct Consuming {
    /// Where.
    pub(crate) address: String,
    /// Which queues; one consumer each.
    pub(crate) queues: Vec<String>,
    /// Consumers of each queue.
    pub(crate) consumers: u32,
    /// Unacknowledged messages of each consumer at once; 0: no bound.
    pub(crate) prefetch: u16,
    /// Acknowledges with every so many, all up to there; 0: never.
    pub(crate) ack_every: u64,
    /// Ends when all of these connections together have had so many.
    pub(crate) messages: u64,
    /// Received so far by all.
    pub(crate) received: Arc<AtomicU64>,
}

/// Consumes until all is received; answers the connection, for whoever keeps what is unacknowledged.
///
/// # Errors
/// When anything is refused, the connection breaks, or nothing comes for long.
pub(crate) fn consume(plan: &Consuming) -> Outcome<TcpStream> {
    let client = Amqp::connect(&plan.address)?;
    let mut to = client.into_stream();
    let from = to.try_clone().map_err(|why| why.to_string())?;
    from.set_read_timeout(Some(Duration::from_millis(200))).map_err(|why| why.to_string())?;
    to.write_all(&subscriptions(plan)).map_err(broken)?;
    let mut frames = Frames::new(from);
    let (mut unacked, mut last) = (0, 0);
    let mut heard = Instant::now();
    while plan.received.load(Ordering::Relaxed) < plan.messages {
        let Some(tag) = frames.delivered()? else {
            if unacked > 0 && plan.ack_every > 0 {
                unacked = 0;
                to.write_all(&ack(last)).map_err(broken)?;
            }
            if heard.elapsed() > PATIENCE {
                return Err(format!("{} of {} messages came", plan.received.load(Ordering::Relaxed), plan.messages));
            }
            continue;
        };
        (last, unacked) = (tag, unacked + 1);
        if unacked == plan.ack_every {
            unacked = 0;
            to.write_all(&ack(tag)).map_err(broken)?;
        }
        plan.received.fetch_add(1, Ordering::Relaxed);
        if tag % 1024 == 0 {
            heard = Instant::now();
        }
    }
    if unacked > 0 && plan.ack_every > 0 {
        to.write_all(&ack(last)).map_err(broken)?;
    }
    Ok(to)
}

/// qos and consume, without waiting for answers.
pub(crate) fn subscriptions(plan: &Consuming) -> Vec<u8> {
    let mut all = Writer::default();
    all.bytes(&method((60, 10), &Writer::default().u32(0).u16(plan.prefetch).u8(0).0));
    let no_ack = 0;
    for queue in &plan.queues {
        for _ in 0..plan.consumers {
            let body = Writer::default().u16(0).text8(queue).text8("").u8(no_ack).u32(0).0.clone();
            all.bytes(&method((60, 20), &body));
        }
    }
    all.0
}

pub(crate) fn ack(tag: u64) -> Vec<u8> {
    const MULTIPLE: u8 = 1;
    method((60, 80), &Writer::default().u64(tag).u8(MULTIPLE).0)
}

/// One method frame on channel 1.
pub(crate) fn method(method: (u16, u16), body: &[u8]) -> Vec<u8> {
    let mut frame = Writer::default();
    frame.u8(1).u16(1).u32(body.len() as u32 + 4).u16(method.0).u16(method.1).bytes(body).u8(END);
    frame.0
}

/// A method's class and number, and its fields.
type Method<'a> = ((i64, i64), &'a [u8]);

/// Cuts frames out of what comes, without copying them.
pub(crate) struct Frames {
    from: TcpStream,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl Frames {
    pub(crate) fn new(from: TcpStream) -> Frames {
        Frames { from, buffer: vec![0; BUFFER_BYTES], at: 0, end: 0 }
    }

    fn has_whole(&self) -> bool {
        let held = &self.buffer[self.at..self.end];
        held.get(3..7).is_some_and(|size| held.len() >= Reader(size).i32().unwrap_or(0) as usize + 8)
    }

    /// The next frame's kind and payload; `None` when the socket's patience was over first.
    pub(crate) fn next(&mut self) -> Outcome<Option<(u8, &[u8])>> {
        while !self.has_whole() {
            self.buffer.copy_within(self.at..self.end, 0);
            (self.end, self.at) = (self.end - self.at, 0);
            if self.end == self.buffer.len() {
                self.buffer.resize(self.end * 2, 0);
            }
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err("the connection broke: closed".to_owned()),
                Ok(count) => self.end += count,
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(why) => return Err(broken(why)),
            }
        }
        let held = &self.buffer[self.at..self.end];
        let size = Reader(&held[3..7]).i32()? as usize;
        self.at += size + 8;
        Ok(Some((held[0], &held[7..7 + size])))
    }

    /// The method of the next frame that has one, and its fields.
    pub(crate) fn next_method(&mut self) -> Outcome<Option<Method<'_>>> {
        loop {
            let Some((kind, payload)) = self.next()? else { return Ok(None) };
            if kind == 1 {
                let mut fields = Reader(payload);
                let method = (fields.i16()?, fields.i16()?);
                // Borrowed again, since the loop's borrow cannot leave it.
                let size = payload.len();
                let end = self.at - 1;
                return Ok(Some((method, &self.buffer[end - size + 4..end])));
            }
        }
    }

    /// Up to where the next confirm reaches.
    pub(crate) fn confirmed(&mut self) -> Outcome<u64> {
        match self.next_method()? {
            Some(((60, 80), fields)) => Ok(Reader(fields).i64()? as u64),
            Some((method, fields)) => Err(format!("{method:?} instead of a confirm: {}", printed(fields))),
            None => Err("no confirm within 30 s".to_owned()),
        }
    }

    /// The tag of the next delivery; `None` when none came for a while.
    fn delivered(&mut self) -> Outcome<Option<u64>> {
        loop {
            match self.next_method()? {
                None => return Ok(None),
                Some(((60, 60), fields)) => {
                    let mut fields = Reader(fields);
                    let name = fields.length::<1>()?;
                    fields.bytes(name)?;
                    return Ok(Some(fields.i64()? as u64));
                }
                Some(((60, 11 | 21), _)) => {}
                Some((method, fields)) => return Err(format!("{method:?} instead of a delivery: {}", printed(fields))),
            }
        }
    }
}

fn printed(fields: &[u8]) -> String {
    String::from_utf8_lossy(fields).into_owned()
}
