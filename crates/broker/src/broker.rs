//! The owner of all parts. It only routes: each part keeps its own state in its own folder, and the calls that tongues
//! make stand beside it (`topic/api.rs`, `group/api.rs`, `queue/api.rs` …).

use std::sync::Arc;

use model::{Formats, LogId, Mono, Now, Offset};
use storage::{Batch, Completed, Disk, Progress, StateChange, StorageError, SyncPolicy};

use crate::core::Core;
use crate::dialect::Dialect;
use crate::group::{Coordinator, GroupOptions, LedgerCodec};
use crate::partition::UpkeepOptions;
use crate::queue::Queues;
use crate::{BrokerError, Event, Job, JobDone, SessionId, state};

/// Snapshots committed in one turn: they can be long, and nobody waits for them.
const SNAPSHOTS_PER_TURN: usize = 4;

/// How often in one turn what a write made visible leads to more to write: dead letters of dead letters.
const ROUNDS_PER_TURN: usize = 32;

/// Settings of the core.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Storage's own settings.
    pub storage: storage::Options,
    /// How operators declare who do it by another door, from [`crate::Tongue::dialect`].
    pub dialect: Option<Arc<dyn Dialect>>,
    /// Exchanges that every tenant always has, from [`crate::Tongue::exchanges`]; their tenant says nothing.
    pub exchanges: Vec<crate::routing::ExchangeSpec>,
    /// Consumer groups.
    pub groups: GroupOptions,
    /// What is done to logs without anybody asking.
    pub upkeep: UpkeepOptions,
}

/// One shard: the core on one journal. All calls are made from its data thread.
pub struct Broker {
    /// What all parts stand on. Parts are handed this, never the broker.
    pub(crate) core: Core,
    /// Consumer groups.
    pub(crate) groups: Coordinator,
    /// Queues, exchanges and bindings.
    pub(crate) queues: Queues,
    /// See [`Options::dialect`].
    pub(crate) dialect: Option<Arc<dyn Dialect>>,
    /// Watermarks that have just moved; kept for its memory.
    pub(crate) moved: Vec<(LogId, Offset)>,
}

impl Broker {
    /// Opens the storage and brings back everything in it.
    ///
    /// # Errors
    /// [`BrokerError::Storage`] when the data folder cannot be used.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        formats: Formats,
        ledger: Box<dyn LedgerCodec>,
        now: Now,
    ) -> Result<Broker, BrokerError> {
        crate::open::open(disk, options, formats, ledger, now)
    }

    /// Ends a turn: one write; moves watermarks; makes events for whoever waits. Call again while events lead to work.
    pub fn end_turn(&mut self, now: Now) {
        self.core.now = now;
        self.queues.govern_on(&mut self.core);
        self.queues.feed(&mut self.core);
        self.queues.begin_end(&mut self.core);
        self.foresee();
        self.queues.before_flush(&mut self.core);
        self.rewrite_ledger();
        self.snapshots();
        self.flush();
        // What queues have just handed out is recorded before it can reach a socket, so that after a crash it is known
        // to have been delivered.
        if self.queues.record(&mut self.core) {
            self.flush();
        }
        for _ in 0..ROUNDS_PER_TURN {
            if !self.queues.is_burying(now.mono) && !self.queues.has_buried() {
                break;
            }
            self.queues.bury(&mut self.core);
            self.queues.record(&mut self.core);
            self.flush();
        }
    }

    /// Shows queues what this turn's write will make visible, so that handing it out is recorded with the same write:
    /// no event reaches a session before that.
    fn foresee(&mut self) {
        let mut moved = std::mem::take(&mut self.moved);
        self.core.partitions.foresee(&mut moved);
        if !moved.is_empty() {
            self.core.storage.seal();
        }
        for (log, end) in moved.drain(..) {
            self.queues.log_moved(&mut self.core, log, end);
        }
        self.moved = moved;
    }

    fn flush(&mut self) {
        if let Err(why) = self.core.storage.flush() {
            self.core.failed(&why);
            // Of what was handed out some may not be stored, and will never be.
            self.core.events.withdraw(|event| matches!(event, Event::Deliver(..)));
        }
        self.progressed();
    }

    /// The next event for a session, if any.
    pub fn next_event(&mut self) -> Option<(SessionId, Event)> {
        self.core.events.pop()
    }

    /// The next job for another thread, if any.
    pub fn next_job(&mut self) -> Option<Job> {
        let users = self.core.users.next_job();
        users.or_else(|| self.core.storage.next_job().map(Job::Storage)).or_else(|| self.core.aside.next_job())
    }

    /// Takes back the outcome of a job.
    pub fn complete(&mut self, done: JobDone, now: Now) {
        self.core.now = now;
        match done {
            JobDone::Storage(done) => match self.core.storage.complete(done) {
                Ok(Completed::Progress) => self.progressed(),
                Ok(Completed::Read(read)) => self.read_ready(read),
                Ok(Completed::Nothing) => {}
                Err(why) => self.core.failed(&why),
            },
            JobDone::User(done) => self.core.user_done(done),
            JobDone::Time(done) => {
                let read = self.core.time_done(done);
                self.read_ready(read);
            }
            JobDone::Aside(done) => {
                let (session, event) = self.core.aside.done(done);
                self.core.events.push(session, event);
            }
        }
    }

    /// What somebody waits for is there: they ask again.
    fn read_ready(&mut self, read: storage::ReadId) {
        self.core.partitions.read_ready(read, &mut self.core.events);
        self.queues.read_ready(&mut self.core, read);
        self.queues.feeds.read_ready(read);
    }

    /// When [`Broker::tick`] must be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        let parts = [
            self.core.deadline(),
            self.groups.deadline(),
            self.queues.deadline(self.core.now),
            self.queues.feed_deadline(),
            self.core.is_rewriting().then_some(Mono(0)), // goes on at once
        ];
        parts.into_iter().flatten().min()
    }

    /// Time has passed: session time-outs, rebalances.
    pub fn tick(&mut self, now: Now) {
        self.core.tick(now);
        self.core.compact();
        if self.core.sweep_begins() {
            let consumed = self.consumed();
            self.core.begin_sweep(consumed);
        }
        if now.mono >= self.core.sweep.deadline() {
            for (log, start) in self.core.sweep() {
                self.queues.start_moved(log, start);
            }
        }
        self.groups.tick(&mut self.core, now);
        self.queues.tick(&mut self.core, now);
    }

    /// How far the journal has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.core.storage.progress()
    }

    /// Syncs with the next [`Broker::end_turn`] what nobody has asked to sync: the server stops.
    pub fn sync_now(&mut self) {
        self.core.storage.request_sync();
    }

    /// Figures of the storage, for metrics.
    #[must_use]
    pub fn storage_stats(&self) -> storage::Stats {
        self.core.storage.stats()
    }

    /// Damaged places that storage knows of: their ranges are off line.
    #[must_use]
    pub fn damage(&self) -> &[storage::Damage] {
        self.core.storage.damage()
    }

    /// A range that was to be sent could not be read: whoever asks again is told so, or gets what is left.
    pub fn distrust(&mut self, range: &storage::FileRange) {
        self.core.storage.distrust(range);
    }

    /// How much more slowly than it can the owner of the sockets should read: 0 not at all, 1000 hardly any more,
    /// because storage cannot settle what is appended as fast as it comes.
    #[must_use]
    pub fn lag_permille(&self) -> u32 {
        self.core.storage.lag_permille()
    }

    /// Why storage takes no more, if so: replies held back must become errors.
    #[must_use]
    pub fn failure(&self) -> Option<&StorageError> {
        self.core.failure.as_ref().or_else(|| self.core.storage.failure())
    }

    /// Bytes of memory that reading keeps for later readers, what queues have read ahead for their consumers, and what
    /// look-ups by time go through.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.core.storage.memory_bytes() + self.queues.windows_bytes + self.core.times.memory_bytes()
    }

    /// For the owner of the sockets: whether memory has run short. Sessions of tongues that know a word for it ask
    /// their peers to write no more for a while.
    pub fn set_low_on_memory(&mut self, is_low: bool) {
        if is_low != self.core.low_on_memory {
            tracing::warn!(is_low, "the memory alarm has changed: publishers wait while it is low");
        }
        self.core.low_on_memory = is_low;
    }

    /// Whether memory has run short, so that who writes should wait: it heals alone.
    #[must_use]
    pub fn is_low_on_memory(&self) -> bool {
        self.core.low_on_memory
    }

    /// Why messages are refused for lack of space, if they are: for a while, it heals alone.
    #[must_use]
    pub fn full(&self) -> Option<StorageError> {
        self.core.storage.full()
    }

    /// Looks at the volume now, also when nobody writes: whoever asks after alarms is told how it stands.
    pub fn look_for_space(&mut self) {
        self.core.storage.look_for_space();
    }

    /// The formats of all tongues.
    #[must_use]
    pub fn formats(&self) -> &Arc<Formats> {
        &self.core.formats
    }

    /// Everything that a session held is released: watches, consumers (unsettled messages go back), exclusive queues.
    pub fn session_closed(&mut self, session: SessionId, now: Now) {
        self.core.now = now;
        self.core.partitions.session_closed(session);
        self.groups.session_closed(&mut self.core, session, now);
        self.queues.mailboxes.session_closed(session);
        self.queues.session_closed(&mut self.core, session, now);
        self.core.users.session_closed(session);
        self.core.aside.session_closed(session);
        self.core.connections.closed(session);
    }

    /// The cluster's id: 22 characters.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.core.catalog.get().cluster_id
    }

    /// Storage has come further: watermarks move, and those who wait for them are told.
    fn progressed(&mut self) {
        self.groups.progressed(&mut self.core); // also after a failure: then what it holds back is refused
        if self.failure().is_some() {
            return;
        }
        let mut moved = std::mem::take(&mut self.moved);
        self.core.advance(&mut moved);
        for (log, watermark) in moved.drain(..) {
            self.queues.log_moved(&mut self.core, log, watermark);
            self.queues.feeds.log_moved(log, watermark.0);
        }
        self.moved = moved;
        self.queues.after_flush(&mut self.core);
    }

    /// Commits the snapshots that storage asks for.
    fn snapshots(&mut self) {
        for _ in 0..SNAPSHOTS_PER_TURN {
            let Some(owner) = self.core.snapshot_due.take().or_else(|| self.core.storage.wants_snapshot()) else {
                return;
            };
            let snapshot = match owner.kind {
                state::CURSOR => Ok(self.queues.snapshot(owner)),
                state::DELAYS => Ok(self.queues.delays.snapshot(owner)),
                state::FEED => Ok(self.queues.feeds.position(LogId(owner.id)).map(|next| next.to_be_bytes().to_vec())),
                _ => self.core.snapshot(owner),
            };
            let stored = snapshot.and_then(|snapshot| {
                let change = snapshot.as_deref().map_or(StateChange::Drop, StateChange::Snapshot);
                let batch = Batch { state: &[(owner, change)], ..Batch::default() };
                Ok(self.core.storage.commit(&batch, SyncPolicy::None)?)
            });
            if let Err(why) = stored {
                tracing::warn!(%why, ?owner, "a snapshot could not be stored now");
                let is_hopeless = matches!(why, BrokerError::Storage(StorageError::TooLarge { .. }));
                self.core.snapshot_due = (!is_hopeless).then_some(owner);
                return;
            }
        }
    }

    /// Writes partitions of the offsets topic again that hold much more than is still valid, a slice each turn.
    fn rewrite_ledger(&mut self) {
        while !self.core.is_rewriting()
            && let Some(partition) = self.core.ledger_overgrown()
        {
            let Some(live) = self.groups.ledger_count(partition) else { continue };
            if self.core.ledger_outgrows(partition, live) {
                let cursor = self.groups.groups().ledger_cursor(partition);
                let _ = self.core.begin_rewriting(partition, cursor); // it is there: it has just grown
            }
        }
        if let Err(why) = self.core.go_on_rewriting(self.groups.groups()) {
            tracing::warn!(%why, "the offsets topic could not be shortened now");
        }
    }
}
