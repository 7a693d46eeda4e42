//! A broker on the simulated disk and clients that speak raw frames to it. Time moves only when a test moves it.

mod methods;

use std::net::SocketAddr;
use std::sync::Arc;

use amqp::wire::frame::{self, Kind};
use amqp::wire::short;
use amqp::{Amqp, AmqpFormat};
use broker::access::{Permission, Tenant};
use broker::group::{LedgerCodec, LedgerEntry};
use broker::user::User;
use broker::{Broker, Cx, Event, Input, OUTPUT_ROOM_BYTES, Options, Outbox, Peer, Session, SessionId, Tongue};
use model::{ByteReader, FormatTag, Formats, Message, Mono, Now, Wall};
use storage::SimDisk;

pub use methods::*;

struct NoLedger;

impl LedgerCodec for NoLedger {
    fn encode(&self, _: &LedgerEntry) -> Message {
        Message::default()
    }

    fn decode(&self, _: &Message) -> Option<LedgerEntry> {
        None
    }

    fn format(&self) -> FormatTag {
        amqp::unit::TAG
    }
}

/// A broker and the connections to it.
pub struct World {
    pub broker: Broker,
    pub disk: SimDisk,
    pub now: Now,
    pub links: Vec<Link>,
    /// Jobs (syncs, reads) are not run while false.
    pub jobs: bool,
}

/// One connection.
pub struct Link {
    session: Box<dyn Session>,
    out: Outbox,
    id: SessionId,
    waiting: Vec<u8>,
    received: Vec<u8>,
    frame_max: usize,
    /// The socket takes nothing while false.
    pub drains: bool,
    pub gone: bool,
}

/// A frame as received.
#[derive(Clone, PartialEq, Eq)]
pub struct Got {
    pub kind: Kind,
    pub channel: u16,
    /// Class and method of a method frame.
    pub method: (u16, u16),
    /// Behind them; the whole payload of other frames.
    pub fields: Vec<u8>,
}

impl std::fmt::Debug for Got {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = String::from_utf8_lossy(&self.fields);
        write!(f, "{:?} ch{} {:?} {text:?}", self.kind, self.channel, self.method)
    }
}

impl Got {
    /// Code and text of a close.
    pub fn close(&self) -> (u16, String, (u16, u16)) {
        assert!(matches!(self.method, (10, 50) | (20, 40)), "not a close: {self:?}");
        let mut r = ByteReader::new(&self.fields);
        let code = r.u16().unwrap();
        let text = short(&mut r).unwrap().to_owned();
        (code, text, (r.u16().unwrap(), r.u16().unwrap()))
    }

    /// The code with which a channel or the connection is closed.
    pub fn code(&self) -> u16 {
        self.close().0
    }
}

pub fn options() -> Options {
    let mut options = Options::default();
    options.storage.journal_file_bytes = 1 << 20;
    options.storage.reserve_bytes = 0;
    options.exchanges = Amqp::default().exchanges();
    options
}

impl World {
    pub fn new() -> World {
        World::on(SimDisk::new(), options())
    }

    /// With formats of other tongues.
    pub fn with_formats(others: Vec<Box<dyn model::Format>>) -> World {
        World::of(SimDisk::new(), options(), others)
    }

    pub fn on(disk: SimDisk, options: Options) -> World {
        World::of(disk, options, Vec::new())
    }

    fn of(disk: SimDisk, options: Options, others: Vec<Box<dyn model::Format>>) -> World {
        let mut formats = Formats::default();
        formats.add(Box::new(AmqpFormat));
        others.into_iter().for_each(|format| formats.add(format));
        let now = Now { mono: Mono(1_000_000_000), wall: Wall(1_700_000_000_000) };
        let broker = Broker::open(Arc::new(disk.clone()), options, formats, Box::new(NoLedger), now).unwrap();
        World { broker, disk, now, links: Vec::new(), jobs: true }
    }

    /// A connection from `from`, nothing said yet.
    pub fn connect_from(&mut self, from: &str) -> usize {
        self.connect_by(from, None)
    }

    /// The same, through TLS or not.
    pub fn connect_by(&mut self, from: &str, tls: Option<Arc<broker::Secured>>) -> usize {
        let id = SessionId(self.links.len() as u64 + 1);
        let local: SocketAddr = "127.0.0.1:5672".parse().unwrap();
        let peer = Peer { session: id, remote: from.parse().unwrap(), local, tls };
        let session = Amqp::default().session("amqp", peer);
        self.links.push(Link {
            session,
            out: Outbox::default(),
            id,
            waiting: Vec::new(),
            received: Vec::new(),
            frame_max: 131_072,
            drains: true,
            gone: false,
        });
        self.links.len() - 1
    }

    /// A connection in use, with channel 1 open; the client shows its capabilities.
    pub fn client(&mut self) -> usize {
        let at = self.connect_from("127.0.0.1:40000");
        self.open(at, true);
        self.send(at, &open_channel(1));
        assert_eq!(self.take(at)[0].method, (20, 11));
        at
    }

    /// From the protocol header to open-ok.
    pub fn open(&mut self, at: usize, capable: bool) {
        assert_eq!(self.enter(at, ("guest", "guest"), "/", capable).method, (10, 41));
    }

    /// From the protocol header to the answer to connection.open.
    pub fn enter(&mut self, at: usize, (user, password): (&str, &str), vhost: &str, capable: bool) -> Got {
        self.send(at, b"AMQP\x00\x00\x09\x01");
        assert_eq!(self.take(at)[0].method, (10, 10));
        self.send(at, &start_ok(user, password, capable));
        assert_eq!(self.take(at)[0].method, (10, 30));
        self.send(at, &method(0, (10, 31), |out| out.extend_from_slice(&[0x07, 0xff, 0, 2, 0, 0, 0, 0])));
        self.one(at, &open_vhost(vhost))
    }

    /// A user with the password of `guest`, and a virtual host.
    pub fn make(&mut self, user: &str, vhost: &str) {
        let guest = self.broker.user("guest").unwrap().clone(); // its hash costs nothing
        self.broker.store_user(&User { name: user.into(), tags: Vec::new(), ..guest }).unwrap();
        self.broker.put_tenant(&Tenant { name: vhost.into(), ..Tenant::default() }).unwrap();
        self.run();
    }

    /// What `user` may configure, write to and read from in `vhost`.
    pub fn permit(&mut self, user: &str, vhost: &str, [configure, write, read]: [&str; 3]) {
        let (configure, write, read) = (configure.into(), write.into(), read.into());
        let permission = Permission { user: user.into(), tenant: vhost.into(), configure, write, read };
        self.broker.put_permission(&permission).unwrap();
    }

    /// A connection of `user` in `vhost`, with channel 1 open.
    pub fn client_of(&mut self, user: &str, vhost: &str) -> usize {
        let at = self.connect_from("127.0.0.1:40001");
        assert_eq!(self.enter(at, (user, "guest"), vhost, true).method, (10, 41));
        assert_eq!(self.one(at, &open_channel(1)).method, (20, 11));
        at
    }

    /// Bytes arrive; everything that follows from them happens.
    pub fn send(&mut self, at: usize, bytes: &[u8]) {
        self.links[at].waiting.extend_from_slice(bytes);
        self.run();
    }

    /// Bytes arrive, but the turn does not end yet.
    pub fn push(&mut self, at: usize, bytes: &[u8]) {
        self.links[at].waiting.extend_from_slice(bytes);
    }

    fn tell(&mut self, at: usize, input: Input<'_>) -> usize {
        let link = &mut self.links[at];
        let mut cx = Cx { broker: &mut self.broker, now: self.now, out: &mut link.out };
        link.session.handle(input, &mut cx)
    }

    fn offer(&mut self, at: usize) -> bool {
        let link = &self.links[at];
        if link.gone || link.waiting.is_empty() || !link.session.wants_input() || link.out.is_closing() {
            return false;
        }
        let bytes = std::mem::take(&mut self.links[at].waiting);
        let used = self.tell(at, Input::Bytes(&bytes));
        self.links[at].waiting.extend_from_slice(&bytes[used..]);
        used > 0
    }

    /// Turns until nothing happens any more.
    pub fn run(&mut self) {
        let mut told = self.broker.progress();
        let mut failed = self.broker.failure().is_some();
        for _ in 0..10_000 {
            let mut busy = false;
            for at in 0..self.links.len() {
                busy |= self.offer(at);
            }
            self.broker.end_turn(self.now);
            while self.jobs
                && let Some(job) = self.broker.next_job()
            {
                busy = true;
                self.broker.complete(job.run(), self.now);
            }
            let state = (self.broker.progress(), self.broker.failure().is_some());
            if state != (told, failed) {
                (told, failed) = state;
                busy = true;
                for at in 0..self.links.len() {
                    if self.links[at].session.awaits_progress() {
                        self.tell(at, Input::Progress);
                    }
                }
            }
            while let Some((id, event)) = self.broker.next_event() {
                busy = true;
                self.event(id, event);
            }
            for at in 0..self.links.len() {
                busy |= self.drain(at);
            }
            if !busy {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn event(&mut self, id: SessionId, event: Event) {
        if let Some(at) = self.links.iter().position(|link| link.id == id && !link.gone) {
            self.tell(at, Input::Event(event));
        }
    }

    fn drain(&mut self, at: usize) -> bool {
        let link = &mut self.links[at];
        let bytes = link.out.queued_bytes();
        if bytes == 0 || !link.drains {
            return false;
        }
        link.received.extend_from_slice(&link.out.take_all());
        if bytes > OUTPUT_ROOM_BYTES {
            self.tell(at, Input::Room);
        }
        true
    }

    /// All frames received and not taken yet.
    pub fn take(&mut self, at: usize) -> Vec<Got> {
        let link = &mut self.links[at];
        let received = std::mem::take(&mut link.received);
        let mut rest = received.as_slice();
        let mut frames = Vec::new();
        while let Some(cut) = frame::cut(rest, link.frame_max).unwrap() {
            let (mut method, mut fields) = ((0, 0), cut.payload);
            if cut.kind == Kind::Method {
                let mut r = ByteReader::new(cut.payload);
                method = (r.u16().unwrap(), r.u16().unwrap());
                fields = r.rest();
            }
            frames.push(Got { kind: cut.kind, channel: cut.channel, method, fields: fields.to_vec() });
            rest = &rest[cut.bytes..];
        }
        assert!(rest.is_empty(), "half a frame: {rest:?}");
        frames
    }

    /// What was received, as bytes.
    pub fn take_raw(&mut self, at: usize) -> Vec<u8> {
        std::mem::take(&mut self.links[at].received)
    }

    /// Sends and takes the frames that come back.
    pub fn ask(&mut self, at: usize, bytes: &[u8]) -> Vec<Got> {
        self.send(at, bytes);
        self.take(at)
    }

    /// Sends and takes the one frame that comes back.
    pub fn one(&mut self, at: usize, bytes: &[u8]) -> Got {
        let mut frames = self.ask(at, bytes);
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames.remove(0)
    }

    pub fn memory(&self, at: usize) -> usize {
        self.links[at].session.memory_bytes()
    }

    pub fn is_closed(&self, at: usize) -> bool {
        self.links[at].out.is_closing()
    }

    /// The peer is gone.
    pub fn drop_link(&mut self, at: usize) {
        self.tell(at, Input::Closed);
        self.links[at].gone = true;
        self.run();
    }

    pub fn stop(&mut self, at: usize) {
        self.tell(at, Input::Stopping);
        self.run();
    }

    /// Time passes; whoever set a deadline is told.
    pub fn pass(&mut self, ms: u64) {
        self.now.mono = Mono(self.now.mono.0 + ms * 1_000_000);
        self.now.wall = Wall(self.now.wall.0 + ms as i64);
        for at in 0..self.links.len() {
            let due = self.links[at].session.deadline().is_some_and(|deadline| deadline <= self.now.mono);
            if due && !self.links[at].gone {
                self.tell(at, Input::Tick);
            }
        }
        self.run();
    }
}

/// A message as delivered or got: (tag, redelivered, properties with flags, body).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    pub tag: u64,
    pub redelivered: bool,
    pub props: Vec<u8>,
    pub body: Vec<u8>,
}

/// The messages among `frames`: deliver or get-ok with their content.
pub fn contents(frames: &[Got]) -> Vec<Content> {
    let mut all: Vec<Content> = Vec::new();
    for got in frames {
        match (got.kind, got.method) {
            (Kind::Method, (60, 60)) => {
                let mut r = ByteReader::new(&got.fields);
                short(&mut r).unwrap();
                let (tag, redelivered) = (r.u64().unwrap(), r.u8().unwrap() == 1);
                all.push(Content { tag, redelivered, props: vec![], body: vec![] });
            }
            (Kind::Method, (60, 71)) => {
                let mut r = ByteReader::new(&got.fields);
                let (tag, redelivered) = (r.u64().unwrap(), r.u8().unwrap() == 1);
                all.push(Content { tag, redelivered, props: vec![], body: vec![] });
            }
            (Kind::Header, _) => all.last_mut().unwrap().props = got.fields[12..].to_vec(),
            (Kind::Body, _) => all.last_mut().unwrap().body.extend_from_slice(&got.fields),
            _ => {}
        }
    }
    all
}

/// The bodies among `frames`, as text.
pub fn bodies(frames: &[Got]) -> Vec<String> {
    contents(frames).into_iter().map(|content| String::from_utf8(content.body).unwrap()).collect()
}

/// What `queue` holds, got message by message without acknowledging, as text.
pub fn all_of(world: &mut World, at: usize, queue: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let got = bodies(&world.ask(at, &get(1, queue, true)));
        if got.is_empty() {
            return all;
        }
        all.extend(got);
    }
}

/// Asks on channel 1, which is refused and opened again: code and text without its name.
pub fn refused(world: &mut World, at: usize, bytes: &[u8]) -> (u16, String) {
    let got = world.one(at, bytes);
    assert_eq!((got.channel, got.method), (1, (20, 40)), "the channel is closed, not the connection: {got:?}");
    let (code, text, _) = got.close();
    world.send(at, &close_ok(1));
    assert_eq!(world.one(at, &open_channel(1)).method, (20, 11));
    (code, text.split_once(" - ").unwrap().1.to_owned())
}

pub fn said(code: u16, text: &str) -> (u16, String) {
    (code, text.to_owned())
}
