//! One server without sockets, threads or clock: the core on a simulated disk, sessions joined to raw clients by
//! byte vectors, jobs run in an order drawn by seed. It does what the server's driver does, one turn at a time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, BrokerError, Cx, Event, Input, Job, Options, Outbox, Peer, Session, SessionId, Tongue};
use model::{Formats, Now};
use storage::sim_disk::SimDisk;

use crate::random::Random;

/// Names a connection of the world.
pub type ConnectionId = u64;

/// What a session is shown in one turn, unless one frame is larger: so that the window, which is small, does not
/// overflow in a single turn.
const READ_BYTES: usize = 16 << 10;

/// A running server.
pub struct World {
    broker: Broker,
    disk: SimDisk,
    connections: BTreeMap<ConnectionId, Connection>,
    jobs: Vec<Job>,
    now: Now,
    random: Random,
    /// About so many jobs come back in one go: in some worlds background work keeps up, in others it does not.
    haste: usize,
}

struct Connection {
    session: Box<dyn Session>,
    /// Sent by the client and not consumed yet.
    input: Vec<u8>,
    out: Outbox,
    /// Sent by the server and not taken by the client yet.
    received: Vec<u8>,
    closed: bool,
}

impl World {
    /// Opens a server on `disk`, with so small a window that it settles and merges all the time.
    ///
    /// # Errors
    /// The core's, when the disk cannot be used.
    pub fn open(disk: SimDisk, tongues: &[&dyn Tongue], seed: u64) -> Result<World, BrokerError> {
        let mut options = Options::default();
        options.storage.journal_file_bytes = 128 << 10;
        options.storage.journal_files_max = 2;
        options.storage.reserve_bytes = 0;
        World::open_with(disk, tongues, seed, options)
    }

    /// Opens a server with settings of its own.
    ///
    /// # Errors
    /// As [`World::open`].
    pub fn open_with(
        disk: SimDisk,
        tongues: &[&dyn Tongue],
        seed: u64,
        options: Options,
    ) -> Result<World, BrokerError> {
        let now = Now { mono: model::Mono(1), wall: model::Wall(1_700_000_000_000) };
        let mut formats = Formats::default();
        tongues.iter().filter_map(|tongue| tongue.format()).for_each(|format| formats.add(format));
        let ledger = tongues.iter().find_map(|tongue| tongue.ledger());
        let ledger = ledger.ok_or_else(|| BrokerError::Invalid("no tongue brings a ledger".to_owned()))?;
        let dialect = options.dialect.or_else(|| tongues.iter().find_map(|tongue| tongue.dialect()));
        let options = Options { dialect, ..options };
        let broker = Broker::open(Arc::new(disk.clone()), options, formats, ledger, now)?;
        let (connections, jobs) = (BTreeMap::new(), Vec::new());
        let mut random = Random::new(seed);
        let haste = [2, 4, 32][random.below(3)];
        Ok(World { broker, disk, connections, jobs, now, random, haste })
    }

    /// A connection through `tongue`'s first door.
    pub fn connect(&mut self, tongue: &dyn Tongue) -> ConnectionId {
        let id = self.connections.keys().next_back().map_or(1, |last| last + 1);
        let door = tongue.doors().first().map_or("", |door| door.name);
        let remote = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let local = SocketAddr::from(([127, 0, 0, 1], 9_092));
        let session = tongue.session(door, Peer { session: SessionId(id), remote, local, tls: None });
        let (input, received) = (Vec::new(), Vec::new());
        self.connections.insert(id, Connection { session, input, out: Outbox::default(), received, closed: false });
        id
    }

    /// The client sends `bytes`; the server sees them in its next turn.
    pub fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.input.extend_from_slice(bytes);
        }
    }

    /// What the server has sent and the client has not taken; the client takes from its front.
    pub fn received(&mut self, id: ConnectionId) -> &mut Vec<u8> {
        &mut self.connections.entry(id).or_insert_with(|| unreachable!("connection {id} was never made")).received
    }

    /// Whether the server has closed the connection.
    #[must_use]
    pub fn is_closed(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_none_or(|connection| connection.closed)
    }

    /// One turn: input to sessions, one write, events, output; then perhaps some jobs, in any order.
    pub fn turn(&mut self) {
        self.now.mono = self.now.mono.plus(Duration::from_millis(1));
        self.now.wall.0 += 1;
        self.deliver_input();
        if self.broker.deadline().is_some_and(|deadline| deadline <= self.now.mono) {
            self.broker.tick(self.now);
        }
        self.settle_turn();
        if self.random.once_in(2) {
            self.run_some_jobs();
        }
    }

    /// Turns until `done` says so.
    ///
    /// # Panics
    /// When it does not within 10,000 turns: a reply was lost.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut World) -> bool) {
        for _ in 0..10_000 {
            if done(self) {
                return;
            }
            self.turn();
        }
        panic!("10,000 turns have passed without: {what}");
    }

    /// Whether jobs are under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// What storage has done in this life.
    #[must_use]
    pub fn storage_stats(&self) -> storage::Stats {
        self.broker.storage_stats()
    }

    /// The power fails: unsynced writes are kept, dropped, torn or reordered by `seed`.
    #[must_use]
    pub fn power_cut(self, seed: u64) -> SimDisk {
        self.disk.crash(seed)
    }

    /// The process dies: what was written survives.
    #[must_use]
    pub fn kill(self) -> SimDisk {
        self.disk.kill()
    }

    fn deliver_input(&mut self) {
        // As the driver does while background work does not keep up, or clients would soon be refused.
        if self.broker.lag_permille() > 0 {
            return;
        }
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let mut cx = Cx { broker: &mut self.broker, now: self.now, out: &mut connection.out };
            if connection.session.deadline().is_some_and(|deadline| deadline <= self.now.mono) {
                connection.session.handle(Input::Tick, &mut cx);
            }
            if !connection.input.is_empty() && connection.session.wants_input() {
                let (mut shown, mut consumed) = (READ_BYTES, 0);
                while consumed == 0 && shown < 2 * connection.input.len().max(READ_BYTES) {
                    let bytes = connection.input.get(..shown).unwrap_or(&connection.input);
                    consumed = connection.session.handle(Input::Bytes(bytes), &mut cx);
                    shown *= 2;
                }
                connection.input.drain(..consumed);
            }
        }
    }

    fn settle_turn(&mut self) {
        loop {
            let before = self.broker.progress();
            self.broker.end_turn(self.now);
            let mut worked = before != self.broker.progress();
            while let Some((session, event)) = self.broker.next_event() {
                worked = true;
                self.hand_over(session, Input::Event(event));
            }
            self.announce_progress();
            while let Some(job) = self.broker.next_job() {
                self.jobs.push(job);
            }
            if !worked {
                break;
            }
        }
        self.deliver_output();
    }

    fn announce_progress(&mut self) {
        for connection in self.connections.values_mut() {
            if connection.session.awaits_progress() {
                let mut cx = Cx { broker: &mut self.broker, now: self.now, out: &mut connection.out };
                connection.session.handle(Input::Progress, &mut cx);
            }
        }
    }

    fn hand_over(&mut self, session: SessionId, input: Input<'_>) {
        if let Some(connection) = self.connections.get_mut(&session.0) {
            let mut cx = Cx { broker: &mut self.broker, now: self.now, out: &mut connection.out };
            connection.session.handle(input, &mut cx);
        } else if let Input::Event(Event::Deliver(consumer, _)) = input {
            self.broker.cancel(consumer);
        }
    }

    fn deliver_output(&mut self) {
        for connection in self.connections.values_mut() {
            let sent = connection.out.take_all();
            connection.received.extend_from_slice(&sent);
            connection.closed |= connection.out.is_closing();
            if !sent.is_empty() {
                let mut cx = Cx { broker: &mut self.broker, now: self.now, out: &mut connection.out };
                connection.session.handle(Input::Room, &mut cx);
            }
        }
    }

    fn run_some_jobs(&mut self) {
        while !self.jobs.is_empty() && !self.random.once_in(self.haste) {
            let job = self.jobs.swap_remove(self.random.below(self.jobs.len()));
            self.broker.complete(job.run(), self.now);
            while let Some(job) = self.broker.next_job() {
                self.jobs.push(job);
            }
        }
        self.settle_turn();
    }
}
