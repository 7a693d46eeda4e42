//! A driver on a simulated disk with a toy tongue of lines, listening on a free port of this machine.

pub mod raw_kafka;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use broker::group::{LedgerCodec, LedgerEntry};
use broker::topic::NewTopic;
use broker::{
    Broker, CallId, Cx, Door, Event, Input, Lsn, OUTPUT_ROOM_BYTES, Options, Peer, Session, SessionId, Tongue,
};
use console::counters::Counters;
use model::{FormatTag, Formats, Message, Mono, Name, Now};
use server::clock::{Clock, SystemClock};
use server::driver::listeners::{self, DoorPlan, Listen};
use server::driver::{Driver, Parts, Stop};
use server::tls::Keeper;
use storage::sim_disk::SimDisk;

struct NoLedger;

impl LedgerCodec for NoLedger {
    fn encode(&self, _: &LedgerEntry) -> Message {
        Message::default()
    }

    fn decode(&self, _: &Message) -> Option<LedgerEntry> {
        None
    }

    fn format(&self) -> FormatTag {
        FormatTag(1)
    }
}

/// The machine's clock; counts how often it is read, which is how often the driver had a turn.
#[derive(Clone, Default)]
pub struct CountingClock {
    clock: Arc<SystemClock>,
    pub reads: Arc<AtomicUsize>,
}

impl Clock for CountingClock {
    fn now(&self) -> Now {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.clock.now()
    }
}

/// Speaks lines: `echo X`, `aside X`, `create TOPIC`, `tick`, `flood`, `panic`, `bye`.
#[derive(Default)]
pub struct Toy {
    /// The most bytes that any session saw waiting to be sent.
    pub queued_max: Arc<AtomicUsize>,
    /// Sessions that were told that the peer is gone.
    pub closed: Arc<AtomicUsize>,
    /// Whether what is asked `aside` may be done.
    pub gate: Arc<AtomicBool>,
}

struct ToySession {
    me: SessionId,
    gate: Arc<AtomicBool>,
    /// A line waits for what is done aside, or that was done.
    waits: bool,
    is_ready: bool,
    queued_max: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    held: Vec<(Lsn, String)>,
    deadline: Option<Mono>,
    flood: bool,
}

impl Tongue for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn doors(&self) -> Vec<Door> {
        vec![Door { name: "toy", port: 0, try_it: "", tls: false }]
    }

    fn session(&self, _: &'static str, peer: Peer) -> Box<dyn Session> {
        let (queued_max, closed, gate) = (self.queued_max.clone(), self.closed.clone(), self.gate.clone());
        let (me, held, deadline) = (peer.session, Vec::new(), None);
        let (waits, is_ready, flood) = (false, false, false);
        Box::new(ToySession { me, gate, waits, is_ready, queued_max, closed, held, deadline, flood })
    }
}

impl ToySession {
    fn line(&mut self, line: &str, cx: &mut Cx<'_>) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "echo" => cx.out.buffer().extend_from_slice(format!("{rest}\n").as_bytes()),
            "create" => {
                let name = Name::new(rest).unwrap();
                let tenant = Name::fixed("/");
                let topic = NewTopic { tenant, name, partitions: 1, config: Vec::new(), validate_only: false };
                let (_, lsn) = cx.broker.create_topic(&topic, cx.now).unwrap();
                self.held.push((lsn, rest.to_owned()));
            }
            "aside" => cx.out.buffer().extend_from_slice(b"done\n"),
            "tick" => self.deadline = Some(cx.now.mono.plus(Duration::from_millis(5))),
            "flood" => {
                self.flood = true;
                self.pour(cx);
            }
            "panic" => panic!("asked to"),
            "bye" => {
                cx.out.buffer().extend_from_slice(b"bye\n");
                cx.out.close();
            }
            _ => cx.out.buffer().extend_from_slice(b"what?\n"),
        }
        self.queued_max.fetch_max(cx.out.queued_bytes(), Ordering::Relaxed);
    }

    fn ask_aside(&mut self, cx: &mut Cx<'_>) {
        let gate = self.gate.clone();
        self.waits = true;
        cx.broker.work_aside(self.me, CallId(1), move || {
            while !gate.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    fn pour(&self, cx: &mut Cx<'_>) {
        while cx.out.queued_bytes() <= OUTPUT_ROOM_BYTES {
            cx.out.push(vec![b'.'; 64 << 10].into());
        }
    }
}

impl Session for ToySession {
    fn handle(&mut self, input: Input<'_>, cx: &mut Cx<'_>) -> usize {
        match input {
            Input::Bytes(bytes) => {
                let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return 0 };
                if bytes.starts_with(b"aside") && !std::mem::take(&mut self.is_ready) {
                    self.ask_aside(cx);
                    return 0; // it is handed in again
                }
                self.line(std::str::from_utf8(&bytes[..end]).unwrap(), cx);
                return end + 1;
            }
            Input::Progress => {
                let synced = cx.broker.progress().synced;
                while self.held.first().is_some_and(|(lsn, _)| *lsn <= synced) {
                    let (_, name) = self.held.remove(0);
                    cx.out.buffer().extend_from_slice(format!("created {name}\n").as_bytes());
                }
            }
            Input::Tick => {
                self.deadline = None;
                cx.out.buffer().extend_from_slice(b"tock\n");
            }
            Input::Room if self.flood => self.pour(cx),
            Input::Stopping => {
                cx.out.buffer().extend_from_slice(b"stopping\n");
                cx.out.close();
            }
            Input::Closed => {
                self.closed.fetch_add(1, Ordering::Relaxed);
            }
            Input::Event(Event::Aside(..)) => (self.waits, self.is_ready) = (false, true),
            Input::Room | Input::Event(_) => {}
        }
        0
    }

    fn deadline(&self) -> Option<Mono> {
        self.deadline
    }

    fn wants_input(&self) -> bool {
        !self.waits
    }

    fn awaits_progress(&self) -> bool {
        !self.held.is_empty()
    }
}

/// A server of these tongues, the first door of each on a free port; where they listen. It ends with the process.
pub fn start(tongues: Vec<Box<dyn Tongue>>) -> Vec<SocketAddr> {
    let (mut formats, clock) = (Formats::default(), SystemClock::default());
    tongues.iter().filter_map(|tongue| tongue.format()).for_each(|format| formats.add(format));
    let ledger = tongues.iter().find_map(|tongue| tongue.ledger()).unwrap();
    let broker = Broker::open(Arc::new(SimDisk::new()), options(), formats, ledger, clock.now()).unwrap();
    let names: Vec<&'static str> = tongues.iter().map(|tongue| tongue.doors()[0].name).collect();
    let plan =
        |(tongue, name): (usize, &&'static str)| DoorPlan { name, tongue, listen: Listen::Localhost(0), tls: false };
    let plans: Vec<DoorPlan> = names.iter().enumerate().map(plan).collect();
    let listeners = listeners::open(&plans).unwrap();
    let address = |door| listeners.iter().find(|listener| listener.door == door).unwrap().address;
    let addresses = (0..plans.len()).map(address).collect();
    let counters = Arc::new(Counters::new(names));
    let parts = Parts {
        broker,
        tongues,
        plans,
        listeners,
        clock: Box::new(clock),
        counters,
        memory_budget: 1 << 30,
        tls: None,
    };
    let mut driver = Driver::new(parts).unwrap();
    std::thread::spawn(move || driver.run());
    addresses
}

fn options() -> Options {
    let storage =
        storage::Options { journal_file_bytes: 1 << 20, reserve_bytes: 64 << 10, ..storage::Options::default() };
    Options { storage, ..Options::default() }
}

/// A running driver.
pub struct Running {
    pub address: SocketAddr,
    pub stop: Stop,
    pub clock: CountingClock,
    pub queued_max: Arc<AtomicUsize>,
    pub closed: Arc<AtomicUsize>,
    pub gate: Arc<AtomicBool>,
    pub counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start() -> Running {
        Running::with_memory(1 << 30)
    }

    pub fn with_memory(memory_budget: usize) -> Running {
        Running::with(memory_budget, None)
    }

    /// Its door speaks TLS if there is a keeper.
    pub fn with(memory_budget: usize, tls: Option<Arc<Keeper>>) -> Running {
        let clock = CountingClock::default();
        let storage =
            storage::Options { journal_file_bytes: 1 << 20, reserve_bytes: 64 << 10, ..storage::Options::default() };
        let options = Options { storage, ..Options::default() };
        let disk = Arc::new(SimDisk::new());
        let broker = Broker::open(disk, options, Formats::default(), Box::new(NoLedger), clock.now()).unwrap();
        let plans = vec![DoorPlan { name: "toy", tongue: 0, listen: Listen::Localhost(0), tls: tls.is_some() }];
        let listeners = listeners::open(&plans).unwrap();
        let address = listeners[0].address;
        let toy = Toy::default();
        let (queued_max, closed, gate) = (toy.queued_max.clone(), toy.closed.clone(), toy.gate.clone());
        let counters = Arc::new(Counters::new(["toy"]));
        let parts = Parts {
            broker,
            tongues: vec![Box::new(toy)],
            plans,
            listeners,
            clock: Box::new(clock.clone()),
            counters: counters.clone(),
            memory_budget,
            tls,
        };
        let mut driver = Driver::new(parts).unwrap();
        let stop = driver.stopper();
        let thread = std::thread::spawn(move || {
            driver.run().unwrap();
            driver.join();
        });
        Running { address, stop, clock, queued_max, closed, gate, counters, thread: Some(thread) }
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { reader: BufReader::with_capacity(1024, stream.try_clone().unwrap()), stream }
    }

    /// Stops it and waits for its end.
    pub fn end(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.gate.store(true, Ordering::Relaxed);
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub struct Client {
    pub stream: TcpStream,
    pub reader: BufReader<TcpStream>,
}

impl Client {
    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// One line, without its end; empty at the end of the stream.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    pub fn ask(&mut self, text: &str) -> String {
        self.send(&format!("{text}\n"));
        self.line()
    }
}
