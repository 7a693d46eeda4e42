//! What the driver counts at each door and `/metrics` shows. Written by the data thread alone, readable from anywhere.

use std::sync::atomic::{AtomicU64, Ordering};

use model::Mono;

use crate::machine::{Listening, Machine, Surroundings};

/// Counts of all doors.
#[derive(Debug, Default)]
pub struct Counters {
    doors: Vec<Door>,
    memory_used: AtomicU64,
    memory_budget: AtomicU64,
    let_go: AtomicU64,
    /// Where the server listens and what it uses.
    pub surroundings: Surroundings,
    certificate_ends: AtomicU64,
    certificates_taken: AtomicU64,
    certificates_refused: AtomicU64,
}

#[derive(Debug)]
struct Door {
    name: &'static str,
    accepted: AtomicU64,
    closed: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    handshakes_failed: AtomicU64,
}

/// One door's counts as they stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoorCounts {
    /// The door's name.
    pub name: &'static str,
    /// Connections open now.
    pub open: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Bytes received since the start.
    pub received_bytes: u64,
    /// Bytes sent since the start.
    pub sent_bytes: u64,
    /// TLS handshakes that came to nothing.
    pub handshakes_failed: u64,
}

impl Counters {
    /// Counts of the doors of these names.
    #[must_use]
    pub fn new(doors: impl IntoIterator<Item = &'static str>) -> Counters {
        let door = |name| Door {
            name,
            accepted: AtomicU64::default(),
            closed: AtomicU64::default(),
            received_bytes: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
            handshakes_failed: AtomicU64::default(),
        };
        Counters { doors: doors.into_iter().map(door).collect(), ..Counters::default() }
    }

    fn add(&self, door: usize, count: u64, pick: impl Fn(&Door) -> &AtomicU64) {
        if let Some(door) = self.doors.get(door) {
            pick(door).fetch_add(count, Ordering::Relaxed);
        }
    }

    /// A connection came by the door at this place.
    pub fn opened(&self, door: usize) {
        self.add(door, 1, |door| &door.accepted);
    }

    /// A connection went.
    pub fn closed(&self, door: usize) {
        self.add(door, 1, |door| &door.closed);
    }

    /// Bytes came in.
    pub fn received(&self, door: usize, bytes: u64) {
        self.add(door, bytes, |door| &door.received_bytes);
    }

    /// Bytes went out.
    pub fn sent(&self, door: usize, bytes: u64) {
        self.add(door, bytes, |door| &door.sent_bytes);
    }

    /// A TLS handshake came to nothing.
    pub fn handshake_failed(&self, door: usize) {
        self.add(door, 1, |door| &door.handshakes_failed);
    }

    /// Memory held by what is on its way, of how much.
    pub fn memory(&self, used: u64, budget: u64) {
        self.memory_used.store(used, Ordering::Relaxed);
        self.memory_budget.store(budget, Ordering::Relaxed);
    }

    /// A connection was closed for lack of memory.
    pub fn let_go(&self) {
        self.let_go.fetch_add(1, Ordering::Relaxed);
    }

    /// The TLS doors show a certificate that ends then, in seconds since 1970.
    pub fn certificate(&self, ends: u64) {
        self.certificate_ends.store(ends, Ordering::Relaxed);
    }

    /// The TLS files were read again while the server ran, and could be used or not.
    pub fn certificate_read_again(&self, is_taken: bool) {
        let count = if is_taken { &self.certificates_taken } else { &self.certificates_refused };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// When the certificate ends (0: there is none), times new files were taken, times they were refused.
    pub fn read_certificate(&self) -> [u64; 3] {
        let all = [&self.certificate_ends, &self.certificates_taken, &self.certificates_refused];
        all.map(|count| count.load(Ordering::Relaxed))
    }

    /// Memory used, its budget, and connections closed for lack of it.
    pub fn read_memory(&self) -> [u64; 3] {
        [&self.memory_used, &self.memory_budget, &self.let_go].map(|count| count.load(Ordering::Relaxed))
    }

    /// Where the server listens.
    pub fn listening(&self) -> &[Listening] {
        self.surroundings.listening()
    }

    /// What is used of the machine now.
    pub fn machine(&self) -> Machine {
        self.surroundings.machine()
    }

    /// Where the data are.
    pub fn data_folder(&self) -> &str {
        self.surroundings.data_folder()
    }

    /// How long the process has run, in milliseconds: its clock begins with it.
    pub fn uptime_ms(&self, now: Mono) -> u64 {
        now.0 / 1_000_000
    }

    /// All counts.
    pub fn read(&self) -> impl Iterator<Item = DoorCounts> + '_ {
        self.doors.iter().map(|door| {
            let accepted = door.accepted.load(Ordering::Relaxed);
            DoorCounts {
                name: door.name,
                open: accepted.saturating_sub(door.closed.load(Ordering::Relaxed)),
                accepted,
                received_bytes: door.received_bytes.load(Ordering::Relaxed),
                sent_bytes: door.sent_bytes.load(Ordering::Relaxed),
                handshakes_failed: door.handshakes_failed.load(Ordering::Relaxed),
            }
        })
    }
}
