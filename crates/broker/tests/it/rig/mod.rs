//! A broker on a simulated disk with a toy format, driven by hand: what the tests of queues and routing share.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use broker::delay::DelayId;
use broker::group::{LedgerCodec, LedgerEntry};
use broker::partition::AppendRequest;
use broker::queue::*;
use broker::routing::*;
use broker::{Broker, BrokerError, CallId, Event, Lsn, Options, SessionId, SyncPolicy};
use bytes::Bytes;
use model::{
    Address, DeadLetters, Death, Format, FormatError, FormatTag, Formats, Header, HeaderValue, LogId, Marks, Message,
    Mono, Name, Now, Offset, Reason, UnitAt, Wall,
};
use storage::sim_disk::SimDisk;

/// The format of units that hold one message each.
pub const ONE: FormatTag = FormatTag(2);
/// Another tongue's format, of units that hold several.
pub const MANY: FormatTag = FormatTag(1);

/// A unit is its length, a count, and texts with their lengths; one byte each.
pub struct Toy(pub FormatTag);

impl Toy {
    pub fn unit(bodies: &[&str]) -> Vec<u8> {
        let mut unit = vec![0, bodies.len() as u8];
        for body in bodies {
            unit.push(body.len() as u8);
            unit.extend_from_slice(body.as_bytes());
        }
        unit[0] = unit.len() as u8;
        unit
    }

    pub fn texts(unit: &[u8]) -> Vec<String> {
        let (mut at, mut texts) = (2, Vec::new());
        while at < unit.len() {
            let end = at + 1 + usize::from(unit[at]);
            texts.push(String::from_utf8(unit[at + 1..end].to_vec()).unwrap());
            at = end;
        }
        texts
    }
}

impl Format for Toy {
    fn tag(&self) -> FormatTag {
        self.0
    }

    fn split(&self, units: &[u8], base: Offset, visit: &mut model::format::VisitUnit<'_>) -> Result<(), FormatError> {
        let (mut at, mut first) = (0, base);
        while at < units.len() {
            let (bytes, count) = (usize::from(units[at]), u32::from(units[at + 1]));
            if bytes < 2 || visit(UnitAt { first, count, at, bytes }).is_break() {
                return Err(FormatError::Malformed("no unit is so short"));
            }
            at += bytes;
            first = first.plus(u64::from(count));
        }
        Ok(())
    }

    fn open(&self, units: &Bytes, base: Offset, visit: &mut model::format::Visit<'_>) -> Result<(), FormatError> {
        let mut borders = Vec::new();
        self.split(units, base, &mut |unit| {
            borders.push(unit);
            ControlFlow::Continue(())
        })?;
        for unit in borders {
            for (delta, text) in Toy::texts(&units[unit.at..unit.at + unit.bytes]).into_iter().enumerate() {
                // `key:text` has a key, `key:text/header` a header `h`, too.
                let key = text.split_once(':').map(|(key, _)| Bytes::copy_from_slice(key.as_bytes()));
                let header = text.split_once('/').map(|(_, header)| HeaderValue::Text(header.to_owned()));
                let headers = header.map(|value| Header { name: "h".into(), value }).into_iter().collect();
                let created = text.split_once("at=").and_then(|(_, ms)| Some(Wall(ms.parse().ok()?)));
                if text != "gap" {
                    let message = Message { key, headers, created, value: Some(text.into()), ..Message::default() };
                    if visit(unit.first.plus(delta as u64), message).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn marks(&self, unit: &Bytes) -> Result<Marks, FormatError> {
        let text = Toy::texts(unit).concat();
        let mut marks = Marks { body_bytes: text.len() as u32, ..Marks::default() };
        for word in text.split(['|', ' ']) {
            match word.split_once('=') {
                Some(("ttl", ms)) => marks.time_to_live_ms = ms.parse().ok(),
                Some(("at", ms)) => marks.published = Wall(ms.parse().unwrap()),
                Some(("level", level)) => marks.priority = level.parse().unwrap(),
                _ => marks.persistent &= word != "transient",
            }
        }
        Ok(marks)
    }

    fn dead_letters(&self) -> Option<&dyn DeadLetters> {
        (self.0 == ONE).then_some(self)
    }

    fn build(&self, messages: &[(Offset, Message)], out: &mut Vec<u8>) -> Result<(), FormatError> {
        for (_, message) in messages {
            let text = message.value.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
            out.extend(Toy::unit(&[text.ok_or(FormatError::Malformed("no text"))?]));
        }
        Ok(())
    }
}

/// Deaths are written behind the text, the latest first: `text|queue:reason|…`; a time to live is taken off.
impl DeadLetters for Toy {
    fn address<'u>(&self, _unit: &'u [u8]) -> Result<Address<'u>, FormatError> {
        Ok(Address { key: "dead", more_keys: Vec::new(), headers: Vec::new() })
    }

    fn deaths(&self, unit: &[u8], visit: &mut dyn FnMut(&str, Reason)) -> Result<(), FormatError> {
        for death in Toy::texts(unit).concat().split('|').skip(1) {
            let (queue, reason) = death.split_once(':').unwrap();
            visit(queue, Reason::of(reason).unwrap());
        }
        Ok(())
    }

    fn bury(&self, unit: &[u8], death: &Death<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let text = Toy::texts(unit).concat();
        let (text, deaths) =
            text.split_once('|').map_or((text.as_str(), String::new()), |(text, deaths)| (text, format!("|{deaths}")));
        let words = text.split(' ').filter(|word| !word.starts_with("ttl=") && !word.starts_with("at="));
        let text = words.collect::<Vec<_>>().join(" ");
        let text = format!("{text} at={}|{}:{}{deaths}", death.at.0, death.queue, death.reason.name());
        out.extend(Toy::unit(&[&text]));
        Ok(())
    }

    fn origin(&self, unit: &[u8]) -> Result<Option<String>, FormatError> {
        let mut last = None;
        self.deaths(unit, &mut |queue, _| last = last.take().or(Some(queue.to_owned())))?;
        Ok(last)
    }

    fn revive(&self, unit: &[u8], _at: Wall, out: &mut Vec<u8>) -> Result<(), FormatError> {
        out.extend_from_slice(unit);
        Ok(())
    }
}

struct NoLedger;

impl LedgerCodec for NoLedger {
    fn encode(&self, _entry: &LedgerEntry) -> Message {
        Message::default()
    }

    fn decode(&self, _message: &Message) -> Option<LedgerEntry> {
        None
    }

    fn format(&self) -> FormatTag {
        MANY
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A driver without sockets.
pub struct Rig {
    pub disk: SimDisk,
    pub broker: Broker,
    pub now: Now,
    pub inbox: VecDeque<(SessionId, Event)>,
    options: Options,
}

/// What a test looks at in a delivery: its text, whether it is redelivered, how often it was delivered before.
pub type Seen = (String, bool, u32);

impl Rig {
    pub fn new() -> Rig {
        Rig::on(SimDisk::new(), Rig::options())
    }

    pub fn options() -> Options {
        let storage =
            storage::Options { journal_file_bytes: 1 << 20, reserve_bytes: 64 << 10, ..storage::Options::default() };
        let exchange = |text, kind| ExchangeSpec { durable: true, ..exchange(text, kind) };
        let exchanges =
            vec![exchange("amq.direct", ExchangeKind::Direct), exchange("amq.fanout", ExchangeKind::Fanout)];
        Options { storage, exchanges, ..Options::default() }
    }

    pub fn on(disk: SimDisk, options: Options) -> Rig {
        let mut formats = Formats::default();
        formats.add(Box::new(Toy(ONE)));
        formats.add(Box::new(Toy(MANY)));
        let now = Now { mono: Mono(1_000_000_000), wall: Wall(1_000_000) };
        let broker = Broker::open(Arc::new(disk.clone()), options.clone(), formats, Box::new(NoLedger), now).unwrap();
        let mut rig = Rig { disk, broker, now, inbox: VecDeque::new(), options };
        rig.settle_down();
        rig
    }

    /// The process dies and starts again on what it had written.
    pub fn killed(self) -> Rig {
        Rig::on(self.disk.kill(), self.options)
    }

    /// The power fails and comes back.
    pub fn power_cut(&self, seed: u64) -> Rig {
        Rig::on(self.disk.crash(seed), self.options.clone())
    }

    /// One turn as the driver makes it, without waiting for jobs.
    pub fn turn(&mut self) -> bool {
        self.broker.end_turn(self.now);
        let before = self.inbox.len();
        while let Some(event) = self.broker.next_event() {
            self.inbox.push_back(event);
        }
        self.inbox.len() > before
    }

    /// Time passes, with a tick at each moment that the broker asks for.
    pub fn pass(&mut self, ms: u64) {
        let end = Now { mono: self.now.mono.plus(Duration::from_millis(ms)), wall: Wall(self.now.wall.0 + ms as i64) };
        while let Some(at) = self.broker.deadline().filter(|at| *at <= end.mono) {
            let ms = at.since(self.now.mono).as_millis() as i64;
            self.now = Now { mono: at.max(self.now.mono), wall: Wall(self.now.wall.0 + ms) };
            self.broker.tick(self.now);
            self.settle_down();
        }
        self.now = end;
        self.broker.tick(self.now);
        self.settle_down();
    }

    /// Turns and jobs until nothing is left to do.
    pub fn settle_down(&mut self) {
        loop {
            let mut busy = self.turn();
            while let Some(job) = self.broker.next_job() {
                let done = job.run();
                self.broker.complete(done, self.now);
                busy = true;
            }
            if !busy {
                return;
            }
        }
    }

    pub fn queue(&mut self, text: &str) {
        self.declare(&QueueSpec { durable: true, ..spec(text) }).unwrap();
    }

    pub fn declare(&mut self, spec: &QueueSpec) -> Result<Declared, BrokerError> {
        self.broker.declare_queue(SessionId(1), spec, self.now)
    }

    pub fn publish(&mut self, exchange: &str, key: &str, text: &str) -> Result<Published, BrokerError> {
        self.publish_with(exchange, key, text, SyncPolicy::Sync)
    }

    pub fn delay(&mut self, exchange: &str, key: &str, text: &str, ms: i64) -> DelayId {
        let unit = Toy::unit(&[text]);
        let request = PublishRequest {
            tenant: "/",
            exchange,
            key,
            more_keys: &[],
            headers: &no_headers,
            format: &Toy(ONE),
            unit: &unit,
            time: Wall(1),
            persistent: true,
            marks: Marks::default(),
            policy: SyncPolicy::Sync,
        };
        self.broker.delay(&request, Wall(self.now.wall.0 + ms), self.now).unwrap().id
    }

    pub fn publish_with(
        &mut self,
        exchange: &str,
        key: &str,
        text: &str,
        policy: SyncPolicy,
    ) -> Result<Published, BrokerError> {
        let unit = Toy::unit(&[text]);
        let request = PublishRequest {
            tenant: "/",
            exchange,
            more_keys: &[],
            headers: &no_headers,
            key,
            format: &Toy(ONE),
            unit: &unit,
            time: Wall(1),
            persistent: !text.contains("transient"),
            marks: Toy(ONE).marks(&Bytes::copy_from_slice(&unit)).unwrap(),
            policy,
        };
        self.broker.publish(&request, self.now)
    }

    pub fn publish_all(&mut self, queue: &str, texts: &[&str]) {
        for text in texts {
            assert_eq!(self.publish("", queue, text).unwrap().queues, 1);
        }
        self.settle_down();
    }

    pub fn is_synced(&self, lsn: Lsn) -> bool {
        self.broker.progress().synced >= lsn
    }

    pub fn consume(&mut self, session: u64, queue: &str, credit: u32) -> ConsumerId {
        let spec = ConsumeSpec { auto_settle: false, exclusive: false, credit, priority: 0 };
        self.broker.consume(SessionId(session), "/", queue, spec, ONE).unwrap()
    }

    /// What has come for a consumer since the last look.
    pub fn deliveries(&mut self, consumer: ConsumerId) -> Vec<Delivery> {
        let mut all = Vec::new();
        for (session, event) in std::mem::take(&mut self.inbox) {
            match event {
                Event::Deliver(whose, deliveries) if whose == consumer => all.extend(deliveries),
                event => self.inbox.push_back((session, event)),
            }
        }
        all
    }

    pub fn seen(&mut self, consumer: ConsumerId) -> Vec<Seen> {
        self.deliveries(consumer).iter().map(look).collect()
    }

    /// Takes everything that is ready, to be settled.
    pub fn get_all(&mut self, session: u64, queue: &str) -> Vec<Delivery> {
        let mut all = Vec::new();
        loop {
            match self.broker.get(SessionId(session), CallId(7), "/", queue, false, ONE).unwrap() {
                Got::Message(delivery, _) => all.push(delivery),
                Got::Empty => {
                    assert_eq!(self.broker.queue(SessionId(session), "/", queue).unwrap().ready, 0);
                    return all;
                }
                Got::Pending => {
                    self.settle_down();
                    let told = self.inbox.iter().any(|(_, event)| matches!(event, Event::GetReady(CallId(7))));
                    assert!(told, "a get that waits is told when it need not");
                    self.inbox.clear();
                }
            }
        }
    }

    pub fn seen_all(&mut self, session: u64, queue: &str) -> Vec<Seen> {
        self.get_all(session, queue).iter().map(look).collect()
    }

    pub fn depth(&self, queue: &str) -> (u64, u64) {
        let info = self.broker.queue(SessionId(1), "/", queue).unwrap();
        (info.ready, info.unsettled)
    }

    pub fn bind(&mut self, exchange: &str, queue: &str, key: &str) {
        self.broker.bind(SessionId(1), &binding(exchange, queue, key)).unwrap();
    }
}

pub fn look(delivery: &Delivery) -> Seen {
    let text = match &delivery.body {
        Body::Unit(unit) => Toy::texts(unit).concat(),
        Body::Neutral(message) => String::from_utf8(message.value.as_ref().unwrap().to_vec()).unwrap(),
    };
    (text, delivery.redelivered, delivery.attempts)
}

pub fn first(text: &str) -> Seen {
    (text.to_owned(), false, 0)
}

pub fn again(text: &str) -> Seen {
    (text.to_owned(), true, 1)
}

pub fn keys(deliveries: &[Delivery]) -> Vec<DeliveryKey> {
    deliveries.iter().map(|delivery| delivery.key).collect()
}

pub fn spec(text: &str) -> QueueSpec {
    QueueSpec {
        tenant: name("/"),
        name: name(text),
        durable: false,
        exclusive: false,
        auto_delete: false,
        topic: None,
        arguments: BTreeMap::new(),
        argument_types: BTreeMap::new(),
        options: QueueOptions::default(),
    }
}

pub fn exchange(text: &str, kind: ExchangeKind) -> ExchangeSpec {
    ExchangeSpec {
        tenant: name("/"),
        name: name(text),
        kind,
        durable: false,
        auto_delete: false,
        internal: false,
        alternate: None,
        delayed: false,
        number: 0,
        arguments: BTreeMap::new(),
    }
}

pub fn binding(exchange: &str, queue: &str, key: &str) -> BindingSpec {
    BindingSpec {
        tenant: name("/"),
        exchange: name(exchange),
        destination: Destination::Queue(name(queue)),
        key: name(key),
        arguments: BTreeMap::new(),
    }
}

/// Appends `bodies` to a topic's log, as one unit of many messages.
pub fn append(rig: &mut Rig, log: LogId, bodies: &[&str]) {
    let units = Toy::unit(bodies);
    let request = AppendRequest {
        log,
        format: &Toy(MANY),
        units: &units,
        count: bodies.len() as u32,
        time_max: Wall(1),
        producer: None,
        policy: SyncPolicy::Sync,
    };
    rig.broker.append(&request, rig.now).unwrap();
}
