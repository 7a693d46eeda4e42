//! What all parts stand on: storage, the catalog, the logs with their watermarks, events, formats. Groups and queues
//! are handed this and never the [`crate::Broker`] that owns them.

use std::sync::Arc;
use std::time::Duration;

use cluster::Command;
use model::{Formats, LogId, Mono, Now, Offset};
use storage::{Batch, Lsn, Owner, StateChange, Storage, StorageError, SyncPolicy};

use crate::access::Grants;
use crate::aside::Aside;
use crate::catalog::CatalogStore;
use crate::connection::Connections;
use crate::events::Events;
use crate::ids::{self, Ids};
use crate::ledger::Ledger;
use crate::partition::{Compactor, Partitions, Producers, Sweep, Times};
use crate::topic::Topics;
use crate::user::Users;
use crate::{BrokerError, Event, state};

/// How often idle producers are looked for.
pub(crate) const UPKEEP_EVERY: Duration = Duration::from_secs(3600);

/// How long what was written without asking for a sync may stay unsynced.
const UNSYNCED_MAX: Duration = Duration::from_secs(1);

/// How often it is looked whether a full disk has space again.
const LOOK_FOR_SPACE_EVERY: Duration = Duration::from_secs(1);

/// How long nothing must have been written before background work of storage goes on at full speed.
const CALM: Duration = Duration::from_millis(20);

/// Scrubbing takes a step so often.
pub(crate) const SCRUB_STEP_EVERY: Duration = Duration::from_secs(1);

/// The shared ground of all parts.
pub(crate) struct Core {
    /// The journal and the logs. Commit through [`Core::commit`], so that watermarks follow.
    pub(crate) storage: Storage,
    /// What exists. Change it through [`Core::run`].
    pub(crate) catalog: CatalogStore,
    /// Events for sessions.
    pub(crate) events: Events,
    /// The formats of all tongues.
    pub(crate) formats: Arc<Formats>,
    /// Every log: its next offset, watermark, producers, watches.
    pub(crate) partitions: Partitions,
    /// Topics by name and id.
    pub(crate) topics: Topics,
    /// The internal offsets topic.
    pub(crate) ledger: Ledger,
    /// Logins.
    pub(crate) users: Users,
    /// Who is connected.
    pub(crate) connections: Connections,
    /// Who may do what.
    pub(crate) grants: Grants,
    /// The sequence of log and queue ids.
    pub(crate) log_ids: Ids,
    /// The sequence of producer ids.
    pub(crate) producer_ids: Ids,
    /// Both clocks as of the running turn.
    pub(crate) now: Now,
    /// Memory has run short: who writes should wait.
    pub(crate) low_on_memory: bool,
    /// What others do for sessions and look-ups.
    pub(crate) aside: Aside,
    /// Look-ups by time that others do.
    pub(crate) times: Times,
    /// What made storage take no more.
    pub(crate) failure: Option<StorageError>,
    /// A buffer for records on their way to storage; empty between calls.
    pub(crate) scratch: Vec<u8>,
    /// When idle producers are looked for next.
    pub(crate) next_upkeep: Mono,
    /// An owner whose snapshot could not be stored: storage does not ask twice.
    pub(crate) snapshot_due: Option<Owner>,
    /// Retention.
    pub(crate) sweep: Sweep,
    /// Compaction.
    pub(crate) compactor: Compactor,
    /// When everything is synced though nobody asked; `None` while all is.
    pub(crate) sync_at: Option<Mono>,
    /// When it is looked for space again; `None` while nothing waits for it.
    pub(crate) space_at: Option<Mono>,
    /// When storage, whose background work has been put off, is told that a moment has passed.
    pub(crate) calm_at: Option<Mono>,
    /// Scrubbing goes on; `None` when it is switched off.
    pub(crate) scrub_at: Option<Mono>,
    /// Bytes a second, and the pause between two times.
    pub(crate) scrub: (u64, Duration),
}

impl Core {
    /// Commits `batch`, which has no rolls of its own if it appends: those due come with it. The watermarks of the logs
    /// it appends to will follow by `policy`.
    pub(crate) fn commit(&mut self, batch: &Batch<'_>, policy: SyncPolicy) -> Result<Lsn, StorageError> {
        let Batch { rolls, appends, trims, drops, state, uses_reserve: _ } = batch;
        if rolls.is_empty() && appends.is_empty() && trims.is_empty() && drops.is_empty() && state.is_empty() {
            return Ok(Lsn::default()); // a turn in which nothing is written would never be synced
        }
        let due = if appends.is_empty() { Vec::new() } else { self.rolls_before(appends) };
        let lsn = match due.is_empty() {
            true => self.storage.commit(batch, policy)?,
            false => self.storage.commit(&Batch { rolls: &due, ..*batch }, policy)?,
        };
        for append in batch.appends {
            for target in append.targets {
                let end = target.first.plus(u64::from(append.last_delta) + 1);
                self.partitions.appended(target.log, end, lsn, policy);
            }
        }
        Ok(lsn)
    }

    /// Checks, stores and applies a command of the catalog. The answer to it must wait until the [`Lsn`] is synced.
    pub(crate) fn run(&mut self, command: &Command) -> Result<Lsn, BrokerError> {
        self.catalog.run(command, &mut self.storage)
    }

    /// An id for a log or queue, never given before.
    pub(crate) fn new_log_id(&mut self) -> Result<LogId, BrokerError> {
        // Whatever names the id is committed after its reservation, in the same order: no need to wait here.
        let (id, _) = self.log_ids.give(&mut self.storage)?;
        Ok(LogId(id))
    }

    /// Forgets `logs` and drops what they hold; watches on them fire. The catalog must have forgotten them before.
    pub(crate) fn drop_logs(&mut self, logs: &[LogId]) {
        let state: Vec<_> = logs.iter().map(|log| (state::producers_of(*log), StateChange::Drop)).collect();
        let batch = Batch { drops: logs, state: &state, ..Batch::default() };
        if let Err(why) = self.storage.commit(&batch, SyncPolicy::None) {
            // No harm: a log that the catalog does not name is dropped at the next start.
            tracing::warn!(%why, "logs could not be dropped now");
        }
        for log in logs {
            self.partitions.remove(*log, &mut self.events);
        }
    }

    /// Moves watermarks, tells watches, and leaves in `moved` what moved.
    pub(crate) fn advance(&mut self, moved: &mut Vec<(LogId, Offset)>) {
        let progress = self.storage.progress();
        self.sync_at = match self.sync_at {
            _ if progress.synced == progress.written => None,
            Some(sync_at) => Some(sync_at),
            None => Some(self.now.mono.plus(UNSYNCED_MAX)),
        };
        self.space_at = match self.space_at {
            _ if !self.storage.waits_for_space() => None,
            Some(space_at) => Some(space_at),
            None => Some(self.now.mono.plus(LOOK_FOR_SPACE_EVERY)),
        };
        self.calm_at = self.storage.wants_tick().then(|| self.calm_at.unwrap_or_else(|| self.now.mono.plus(CALM)));
        self.partitions.advance(progress, moved);
        let events = &mut self.events;
        for (log, watermark) in moved.iter() {
            let tell = |session, call| events.push(session, Event::Readable(call));
            self.partitions.watches.moved(*log, *watermark, tell);
        }
        self.partitions.tell_followers(events);
    }

    /// Storage takes no more: remembered, and said once.
    pub(crate) fn failed(&mut self, why: &StorageError) {
        if self.failure.is_none() {
            tracing::error!(%why, "storage has failed: nothing is acknowledged any more");
            self.failure = Some(why.clone());
        }
    }

    /// When [`Core::tick`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let upkeep = [
            Some(self.next_upkeep),
            Some(self.sweep.deadline()),
            self.compaction_deadline(),
            self.sync_at,
            self.space_at,
            self.calm_at,
            self.scrub_at,
        ];
        upkeep.into_iter().flatten().min()
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Now) {
        self.now = now;
        if self.sync_at.is_some_and(|sync_at| now.mono >= sync_at) {
            self.storage.request_sync();
            self.sync_at = Some(now.mono.plus(UNSYNCED_MAX));
        }
        if self.space_at.is_some_and(|space_at| now.mono >= space_at) {
            self.storage.look_for_space();
            let waits = self.storage.waits_for_space();
            self.space_at = waits.then(|| now.mono.plus(LOOK_FOR_SPACE_EVERY));
        }
        if self.calm_at.is_some_and(|calm_at| now.mono >= calm_at) {
            if let Err(why) = self.storage.tick() {
                self.failed(&why);
            }
            self.calm_at = self.storage.wants_tick().then(|| now.mono.plus(CALM));
        }
        if self.scrub_at.is_some_and(|scrub_at| now.mono >= scrub_at) {
            let goes_on = self.storage.scrub(self.scrub.0);
            let pause = if goes_on { SCRUB_STEP_EVERY } else { self.scrub.1 };
            self.scrub_at = Some(now.mono.plus(pause));
        }
        if now.mono >= self.next_upkeep {
            self.next_upkeep = now.mono.plus(UPKEEP_EVERY);
            self.expire_producers();
        }
    }

    /// Forgets producers that have been idle for long.
    pub(crate) fn expire_producers(&mut self) {
        let without = self.partitions.expire_producers(self.now.wall);
        if without.is_empty() {
            return;
        }
        let state: Vec<_> = without.iter().map(|log| (state::producers_of(*log), StateChange::Drop)).collect();
        let batch = Batch { state: &state, ..Batch::default() };
        if let Err(why) = self.storage.commit(&batch, SyncPolicy::None) {
            // No harm: they are expired again after the next start.
            tracing::warn!(%why, "idle producers could not be dropped now");
        }
    }

    /// The whole state of an owner of this part; `None` when it is gone.
    pub(crate) fn snapshot(&self, owner: Owner) -> Result<Option<Vec<u8>>, BrokerError> {
        let log = LogId(owner.id);
        match (owner.kind, owner.id) {
            (state::CATALOG, _) => self.catalog.snapshot().map(Some),
            (state::IDS, ids::LOGS) => Ok(Some(self.log_ids.snapshot())),
            (state::IDS, ids::PRODUCERS) => Ok(Some(self.producer_ids.snapshot())),
            (state::PRODUCERS, _) => {
                let producers = self.partitions.get(log).and_then(|partition| partition.producers.as_deref());
                Ok(producers.map(Producers::snapshot))
            }
            _ => Err(BrokerError::Invalid(format!("no part of this version owns state of kind {}", owner.kind))),
        }
    }
}
