//! The driver: sockets on one side, sessions and the core on the other, all on one data thread that waits nowhere but
//! in `poll`. A turn reads whoever can be read, lets sessions work, ends the core's turn with one write, hands out
//! what came of it, and writes whoever can be written. What waits for a disk goes to the pools.
//!
//! It knows no protocol: tongues are told apart by their doors only. `serve` starts it; tests run it with a toy.

mod connection;
mod connections;
mod deadlines;
mod handshakes;
mod input;
mod lane;
pub mod listeners;
mod memory;
mod opening;
mod pools;
mod secure;
mod sending;
mod tls;
mod turn;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker::{Broker, Progress, SessionId, Tongue};
use console::counters::Counters;
use mio::{Events, Interest, Poll, Token, Waker};
use model::{Mono, Now};

use crate::clock::Clock;
use crate::tls::Keeper;
use connection::READ_BYTES_PER_TURN;
use connections::Connections;
use deadlines::Deadlines;
use handshakes::Handshakes;
use input::Pool;
use listeners::{DoorPlan, Listener};
use memory::Memory;
use pools::Pools;
use secure::Buffers;

/// The bell's token; listeners have the next ones, connections their session's id (from 2³² on).
const BELL: Token = Token(0);

/// Sessions have so long to say goodbye and their last words so long to leave when the server stops.
const STOP_GRACE: Duration = Duration::from_millis(700);

/// The last sync has so long after that: two seconds are promised for all.
const STOP_SYNC: Duration = Duration::from_millis(800);

/// What a driver is made of.
pub struct Parts {
    /// The core.
    pub broker: Broker,
    /// The tongues, by the numbers in `plans`.
    pub tongues: Vec<Box<dyn Tongue>>,
    /// The doors.
    pub plans: Vec<DoorPlan>,
    /// Their open sockets.
    pub listeners: Vec<Listener>,
    /// What time it is.
    pub clock: Box<dyn Clock>,
    /// Counts by door, in the order of `plans`.
    pub counters: Arc<Counters>,
    /// Bytes of memory for what is on its way.
    pub memory_budget: usize,
    /// What doors that speak TLS use; without it they take nobody.
    pub tls: Option<Arc<Keeper>>,
}

/// Stops a driver from another thread.
#[derive(Clone, Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    bell: Arc<Waker>,
}

impl Stop {
    /// Asks the driver to end; it does within two seconds.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Release);
        let _ = self.bell.wake(); // a driver that is gone needs no waking
    }
}

/// The data thread's state.
pub struct Driver {
    poll: Poll,
    stop: Stop,
    clock: Box<dyn Clock>,
    now: Now,
    broker: Broker,
    tongues: Vec<Box<dyn Tongue>>,
    plans: Vec<DoorPlan>,
    listeners: Vec<Listener>,
    connections: Connections,
    /// Those whose TLS handshake is under way.
    handshakes: Handshakes,
    tls: Option<Arc<Keeper>>,
    deadlines: Deadlines,
    pools: Pools,
    counters: Arc<Counters>,
    /// Who is to be read, written, told of progress in this turn or the next.
    lists: Lists,
    /// Where bytes are read to; shared, since a turn reads one connection after the other.
    scratch: Vec<u8>,
    /// Where TLS puts what was in them.
    plain: Vec<u8>,
    buffers: Buffers,
    pool: Pool,
    /// What sessions were last told.
    told: (Progress, bool),
    /// No descriptors are left: accepting waits until then, or until a connection goes.
    accept_again: Option<Mono>,
    /// Listeners that may have more waiting.
    accepting: Vec<usize>,
    memory: Memory,
    /// Work is left for another turn.
    more: bool,
    /// Storage lags behind: nothing is read before this moment.
    read_again: Option<Mono>,
    /// When it was last said that no descriptors are left.
    exhausted: Option<Mono>,
    /// The server stops: connections end at this moment at the latest.
    stop_at: Option<Mono>,
}

#[derive(Default)]
struct Lists {
    read: Vec<SessionId>,
    write: Vec<SessionId>,
    progress: Vec<SessionId>,
    /// To be read when there is memory for it.
    held: Vec<SessionId>,
}

impl Driver {
    /// A driver with its threads started and its doors open.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(parts: Parts) -> io::Result<Driver> {
        let poll = Poll::new()?;
        let bell = Arc::new(Waker::new(poll.registry(), BELL)?);
        let mut listeners = parts.listeners;
        for (at, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(&mut listener.socket, Token(at + 1), Interest::READABLE)?;
        }
        let now = parts.clock.now();
        let accepting = (0..listeners.len()).collect();
        Ok(Driver {
            pools: Pools::start(&bell, parts.tls.is_some())?,
            stop: Stop { asked: Arc::default(), bell },
            poll,
            clock: parts.clock,
            now,
            told: (parts.broker.progress(), false),
            broker: parts.broker,
            tongues: parts.tongues,
            plans: parts.plans,
            listeners,
            connections: Connections::default(),
            handshakes: Handshakes::default(),
            tls: parts.tls,
            deadlines: Deadlines::default(),
            counters: parts.counters,
            memory: Memory::new(parts.memory_budget),
            lists: Lists::default(),
            scratch: Vec::with_capacity(READ_BYTES_PER_TURN),
            plain: Vec::new(),
            buffers: Buffers::default(),
            pool: Pool::default(),
            accept_again: None,
            accepting,
            more: true,
            read_again: None,
            exhausted: None,
            stop_at: None,
        })
    }

    /// A handle to stop it by.
    #[must_use]
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// When the operating system's event queue fails.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.is_stopped() {
            let wait = self.wait();
            match self.poll.poll(&mut events, wait) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.now = self.clock.now();
            self.turn(&events);
        }
        Ok(())
    }

    /// Ends the threads; waits for the jobs they have.
    pub fn join(self) {
        let Driver { pools, .. } = self;
        pools.join();
    }

    /// How long the next poll may wait: for ever, unless somebody has a deadline.
    fn wait(&mut self) -> Option<Duration> {
        let reads = !self.lists.read.is_empty() && self.read_again.is_none();
        if self.more || reads || !self.lists.write.is_empty() {
            return Some(Duration::ZERO);
        }
        let stop = self.stop_at.map(|at| if self.connections.len() == 0 { at.plus(STOP_SYNC) } else { at });
        let again = self.read_again.filter(|_| !self.lists.read.is_empty());
        let look = self.memory.look_at(self.now.mono);
        let handshakes = self.handshakes.deadline();
        let deadlines =
            [self.deadlines.next(), self.broker.deadline(), self.accept_again, stop, again, look, handshakes];
        let first = deadlines.into_iter().flatten().min()?;
        Some(first.since(self.clock.now().mono))
    }

    fn is_stopped(&self) -> bool {
        let Some(at) = self.stop_at else { return false };
        let ended = self.connections.len() == 0 && self.is_durable() && !self.more;
        ended || self.now.mono >= at.plus(STOP_SYNC)
    }

    /// Whether everything is synced, or can never be.
    fn is_durable(&self) -> bool {
        let progress = self.broker.progress();
        progress.synced >= progress.written || self.broker.failure().is_some()
    }
}
