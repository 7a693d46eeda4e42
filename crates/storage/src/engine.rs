//! The engine behind the facade: owns the parts and routes between them. A turn is commit, commit …, flush; jobs come
//! and go between.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use model::{LogId, Offset};

use crate::bring::Readers;
use crate::checkpoint::{self, Known};
use crate::compact::{Compacted, Compacting};
use crate::held::Held;
use crate::index::{Extent, IdMap, Index, Log};
use crate::job::{Job, JobDone, Lane, Mark, Outcome};
use crate::journal::entry::batch_bytes;
use crate::journal::record::StateChangeRecord;
use crate::journal::recover::{self, Base, disk_error};
use crate::journal::writer::{Start, Writer};
use crate::near::Near;
use crate::reads::ReadDesk;
use crate::replay::{Before, Replay};
use crate::scrub::Scrub;
use crate::segment::open::OpenSegments;
use crate::segment::{FileId, PACKS, SEGMENTS};
use crate::settle::Settler;
use crate::space::Space;
use crate::state::StateTable;
use crate::tail::TailCache;
use crate::trust::Trust;
use crate::{
    Append, Batch, Completed, Damage, Disk, LogRange, Lsn, Options, Owner, Progress, Recovered, StateChange,
    StorageError, SyncPolicy,
};

/// The bounds of [`Storage::set_index_step`]: less would make indexes large, and more a single read.
const INDEX_STEP_MIN: u32 = 4 << 10;
const INDEX_STEP_MAX: u32 = 1 << 20;

/// One storage: a journal and the logs in it.
pub struct Storage {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    pub(crate) writer: Writer,
    pub(crate) index: Index,
    pub(crate) tail: TailCache,
    pub(crate) state: StateTable,
    pub(crate) desk: ReadDesk,
    pub(crate) trust: Trust,
    pub(crate) readers: Readers,
    pub(crate) held: Held,
    pub(crate) near: Near,
    pub(crate) segments: OpenSegments,
    pub(crate) settler: Settler,
    pub(crate) compacting: Option<Compacting>,
    pub(crate) compacted: Option<Compacted>,
    pub(crate) space: Space,
    pub(crate) jobs: VecDeque<Job>,
    /// The running turn.
    turn: Lsn,
    /// Whether anything was committed in it.
    turn_used: bool,
    progress: Progress,
    /// The last turn somebody waits for a sync of.
    sync_wanted: Lsn,
    syncing: bool,
    pub(crate) synced_bytes: u64,
    pub(crate) unit_bytes: u64,
    pub(crate) syncs: u64,
    failure: Option<StorageError>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) scrub: Scrub,
}

impl Storage {
    /// Opens (or makes) the storage on `disk` and recovers what an unclean stop left.
    ///
    /// # Errors
    /// [`StorageError::Unusable`] when another process has it or a newer version wrote it, [`StorageError::Disk`] when
    /// the disk fails. Damage is not an error: it is listed in [`Recovered`].
    pub fn open(disk: Arc<dyn Disk>, mut options: Options) -> Result<(Storage, Recovered), StorageError> {
        options.journal_file_bytes = options.journal_file_bytes.clamp(64 << 10, 1 << 30);
        options.journal_files_max = options.journal_files_max.max(2);
        match disk.lock() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(StorageError::Unusable("the data folder is in use by another process".to_owned()));
            }
            Err(error) => return Err(disk_error("locking the data folder", &error)),
        }
        let Opened { index, state, start, settler, recovered } = recover_all(&*disk)?;
        let (own_journal_from, own_files_from) = (start.number_next, settler.file_next);
        let writer = Writer::new(Arc::clone(&disk), &options, start)
            .map_err(|error| disk_error("making a journal file", &error))?;
        // The folder itself is new at the first start.
        disk.sync_folder("").map_err(|error| disk_error("syncing the data folder", &error))?;
        let mut storage = Storage {
            space: Space::new(options.reserve_bytes),
            tail: TailCache::new(options.tail_cache_bytes),
            desk: ReadDesk::default(),
            trust: Trust::new(own_journal_from, own_files_from),
            readers: Readers::default(),
            held: Held::new(options.read_ahead_bytes),
            near: Near::new(options.read_ahead_bytes),
            segments: OpenSegments::default(),
            settler,
            compacting: None,
            compacted: None,
            jobs: VecDeque::new(),
            turn: Lsn(1),
            turn_used: false,
            progress: Progress::default(),
            sync_wanted: Lsn(0),
            syncing: false,
            synced_bytes: 0,
            unit_bytes: 0,
            syncs: 0,
            failure: None,
            damage: recovered.damage.clone(),
            scrub: Scrub::load(&*disk),
            disk,
            options,
            writer,
            index,
            state,
        };
        storage.writer.note_recent(storage.index.touched(storage.writer.current_number()));
        storage.jobs.extend(storage.writer.prepare_job());
        // Settling, too: a window at its limit would refuse appends, and nothing else might come.
        storage.go_on_settling();
        Ok((storage, recovered))
    }

    /// Puts `batch` into the write buffer and answers its place: the number of the running turn. Appends of one turn
    /// that continue each other (same targets, same format, next offset) become one extent. It is visible to
    /// [`Storage::read`] at once; who may see it when is the caller's business, by [`Storage::progress`].
    ///
    /// # Errors
    /// [`StorageError::Full`] or [`StorageError::Behind`] (nothing was taken; later commits may succeed),
    /// [`StorageError::TooLarge`], [`StorageError::Closed`], [`StorageError::OutOfRange`] when an append lies before
    /// its log's end.
    pub fn commit(&mut self, batch: &Batch<'_>, policy: SyncPolicy) -> Result<Lsn, StorageError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let bytes = batch_bytes(batch);
        let bytes_max = self.writer.batch_bytes_max();
        if bytes > bytes_max {
            return Err(StorageError::TooLarge { bytes, bytes_max });
        }
        for append in batch.appends {
            self.check(append)?;
        }
        if !batch.appends.is_empty() && !batch.uses_reserve {
            self.check_lag()?;
            self.space.check(&*self.disk, self.writer.written_bytes)?;
        }
        let file_bytes = self.options.journal_file_bytes;
        let full = |why: io::Error| self.space.refuse(&*self.disk, file_bytes, &why);
        let room = (bytes, !batch.appends.is_empty());
        self.writer.make_room(room, &mut self.index, &mut self.tail).map_err(full)?;
        let file = self.writer.current_number();
        for (log, first) in batch.rolls {
            self.writer.entry().0.roll(*log, *first);
            self.index.roll(*log, *first, file);
        }
        for append in batch.appends {
            self.take_append(append, policy);
        }
        let (entry, _) = self.writer.entry();
        for (log, before) in batch.trims {
            entry.trim(*log, *before);
            self.index.trim(*log, *before, file);
        }
        for log in batch.drops {
            entry.drop_log(*log);
            self.index.drop_log(*log);
        }
        for (owner, change) in batch.state {
            entry.state(*owner, change);
            self.state.apply(*owner, as_record(change));
        }
        if !batch.trims.is_empty() || !batch.drops.is_empty() {
            self.note_trims();
        }
        self.turn_used = true;
        if policy == SyncPolicy::Sync {
            self.sync_wanted = self.turn;
        }
        if !self.writer.is_reserved() {
            self.jobs.extend(self.writer.prepare_job());
        }
        Ok(self.turn)
    }

    fn check(&self, append: &Append<'_>) -> Result<(), StorageError> {
        debug_assert!(!append.targets.is_empty() && !append.units.is_empty(), "an append has targets and units");
        for target in append.targets {
            let end = self.index.end(target.log);
            if target.first < end {
                let start = self.index.get(target.log).map_or(Offset::ZERO, |log| log.start);
                return Err(StorageError::OutOfRange { asked: target.first, start, end });
            }
        }
        Ok(())
    }

    fn take_append(&mut self, append: &Append<'_>, policy: SyncPolicy) {
        let file = self.writer.current_number();
        let index = &mut self.index;
        let (entry, entry_at) = self.writer.entry();
        self.unit_bytes += append.units.len() as u64;
        let place = entry.append(append, policy, |log| index.end(log));
        for target in append.targets {
            if place.continues {
                index.extend_last(target.log, |extent| {
                    extent.bytes += append.units.len() as u32;
                    extent.count += append.count;
                    extent.last_delta += append.last_delta + 1;
                    extent.time_max = extent.time_max.max(append.time_max);
                });
                continue;
            }
            let extent = Extent {
                first: target.first,
                time_max: append.time_max,
                file,
                at: (entry_at + place.at as u64) as u32,
                bytes: append.units.len() as u32,
                last_delta: append.last_delta,
                count: append.count,
                crc: 0,
                format: append.format.tag(),
                lost: false,
            };
            index.push(target.log, extent);
        }
    }

    /// Closes what was committed so far in this turn to what comes, so that reading it copies nothing. The turn goes
    /// on; its end writes all of it at once.
    pub fn seal(&mut self) {
        self.writer.seal(&mut self.index, &mut self.tail);
    }

    /// Ends a turn: one write of all that was committed since; starts a sync when somebody waits for one.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when the write failed, now or before.
    pub fn flush(&mut self) -> Result<Progress, StorageError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.writer.seal(&mut self.index, &mut self.tail);
        if let Err(error) = self.writer.write() {
            return Err(self.close("writing the journal", &error));
        }
        self.tail.shrink();
        if self.turn_used {
            self.progress.written = self.turn;
            self.turn.0 += 1;
            self.turn_used = false;
        }
        self.start_sync();
        self.go_on_settling();
        Ok(self.progress)
    }

    // One sync at a time: those who come while it runs share the next.
    pub(crate) fn start_sync(&mut self) {
        let dirty = self.writer.written_bytes - self.synced_bytes;
        let wanted = self.sync_wanted > self.progress.synced
            || dirty > self.options.dirty_bytes_max
            || self.settler.checkpointing.wants_sync()
            || self.settler.removing.wants_sync();
        if self.syncing || !wanted || self.writer.written_seq == self.writer.synced_seq {
            return;
        }
        self.syncing = true;
        let upto = Mark { lsn: self.progress.written, seq: self.writer.written_seq, bytes: self.writer.written_bytes };
        let files = self.writer.take_unsynced();
        self.jobs.push_back(Job::new(Lane::Sync, move || {
            let result = files.iter().try_for_each(|file| file.handle.sync());
            JobDone { what: Outcome::Synced { upto, result } }
        }));
    }

    /// Asks for a sync of everything written so far, though nobody waits for it: bounds how long commits without
    /// [`SyncPolicy::Sync`] may stay in memory. To be called by a timer of the driver.
    pub fn request_sync(&mut self) {
        self.sync_wanted = self.sync_wanted.max(self.progress.written);
        if self.failure.is_none() {
            self.start_sync();
        }
    }

    /// The next piece of work for another thread, if any. To be asked after every flush, read and completion.
    pub fn next_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// Takes back the outcome of a job.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when it was a sync or settling that failed: fatal for this journal.
    pub fn complete(&mut self, done: JobDone) -> Result<Completed, StorageError> {
        match done.what {
            Outcome::Synced { upto, result } => self.synced(upto, &result),
            Outcome::Prepared { number, result } => {
                match result {
                    Ok(file) => self.writer.prepared(file),
                    Err(error) => {
                        tracing::warn!(number, %error, "a journal file could not be made ready");
                        self.writer.not_prepared();
                    }
                }
                Ok(Completed::Nothing)
            }
            Outcome::Read { id, pieces } => {
                pieces.iter().for_each(|piece| self.trust.note_read_back(piece.place.source));
                self.desk.land(id, pieces);
                Ok(Completed::Read(id))
            }
            Outcome::BroughtIn { id, first, found } => {
                self.brought_in(id, first, found);
                Ok(Completed::Read(id))
            }
            Outcome::Opened { id, file, result } => {
                self.opened(id, file, result);
                Ok(Completed::Read(id))
            }
            Outcome::Weeded { weeder, result } => self.weeded(weeder, result),
            Outcome::Copied { purpose, copier, result } => self.copied(purpose, copier, result),
            Outcome::Woken => {
                self.woken();
                Ok(Completed::Nothing)
            }
            Outcome::Checkpointed { result } => self.checkpointed(result),
            Outcome::Scrubbed { file, result } => {
                self.scrubbed(file, result);
                Ok(Completed::Nothing)
            }
            Outcome::Removed => {
                self.removed();
                Ok(Completed::Nothing)
            }
        }
    }

    fn synced(&mut self, upto: Mark, result: &io::Result<()>) -> Result<Completed, StorageError> {
        self.syncing = false;
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if let Err(error) = result {
            return Err(self.close("syncing the journal", error));
        }
        self.syncs += 1;
        self.progress.synced = upto.lsn;
        self.writer.synced_seq = upto.seq;
        self.synced_bytes = upto.bytes;
        self.start_sync();
        self.go_on_settling();
        Ok(Completed::Progress)
    }

    // For ever: what a failed write or sync left on the disk is unknown, and asking again would only hide it.
    pub(crate) fn close(&mut self, what: &str, error: &io::Error) -> StorageError {
        tracing::error!(%error, "{what} failed: the journal is closed");
        let failure = StorageError::Closed(format!("{what}: {error}").into());
        self.failure = Some(failure.clone());
        failure
    }

    /// How far the journal has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Why the journal takes no more, if so.
    #[must_use]
    pub fn failure(&self) -> Option<&StorageError> {
        self.failure.as_ref()
    }

    /// From now on what is written of `log` to files of the store has an entry in their index every so many bytes, and
    /// lies there in pieces no larger than that. Usually 64 KiB; for who reads single messages all over a log less is
    /// better. Forgotten by a restart: whoever owns the log says it again.
    pub fn set_index_step(&mut self, log: LogId, bytes: u32) {
        self.index.set_step(log, bytes.clamp(INDEX_STEP_MIN, INDEX_STEP_MAX));
    }

    /// What is held of `log`; `None` when it was never written to.
    #[must_use]
    pub fn range(&self, log: LogId) -> Option<LogRange> {
        self.index.range(log)
    }

    /// An owner whose deltas have outgrown its snapshot: the layer above should commit a new snapshot for it soon.
    pub fn wants_snapshot(&mut self) -> Option<Owner> {
        self.state.next_outgrown()
    }
}

pub(crate) struct Opened {
    pub(crate) index: Index,
    state: StateTable,
    start: Start,
    settler: Settler,
    recovered: Recovered,
}

/// Recovers what a stop left: the checkpoint, then the window, then a look at the store.
///
/// # Errors
/// As [`Storage::open`].
pub(crate) fn recover_all(disk: &dyn Disk) -> Result<Opened, StorageError> {
    let loaded = checkpoint::load(disk)?;
    checkpoint::make_equal(disk, &loaded.behind)?;
    let known = loaded.checkpoint.unwrap_or(Known { first_file: 1, first_seq: 1, file_next: 1, ..Known::default() });
    let base = Base { first_file: known.first_file, first_seq: known.first_seq, durable: known.last_seq };
    let (mut index, mut state) = (Index::default(), known.state);
    let mut before = Before { seq: known.seq, owners: known.owners, ..Before::default() };
    let mut covered = IdMap::default();
    known.files.iter().for_each(|(file, bytes, tier)| index.store.open(*file, *bytes, *tier));
    for entry in known.logs {
        covered.insert(entry.log, entry.covered);
        before.logs.insert(entry.log, entry.seq);
        index.restore(entry.log, entry.range, entry.runs, entry.shape);
    }
    known.files.iter().for_each(|(file, ..)| index.store.close(file.number));
    let file = known.first_file;
    let mut replay = Replay { index: &mut index, state: &mut state, covered, known: before, missing: Vec::new(), file };
    let found = recover::recover(disk, base, &mut replay)?;
    let mut damage: Vec<Damage> =
        loaded.damaged.into_iter().map(|(file, bytes)| recover::damage(file, 0, bytes)).collect();
    damage.extend(found.damage);
    let mut settler = Settler::new(known.file_next);
    check_store(disk, &mut index, &mut settler, &mut damage)?;
    let recovered = Recovered {
        logs: index.iter().map(|(id, log)| (id, LogRange { start: log.start, end: log.end })).collect(),
        state: state.to_recovered(),
        damage,
        torn_bytes: found.torn_bytes,
    };
    Ok(Opened { index, state, start: found.start, settler, recovered })
}

// Names files that are missing; has those removed that nothing alive points to, unless something is damaged: then they
// may be all that is left.
fn check_store(
    disk: &dyn Disk,
    index: &mut Index,
    settler: &mut Settler,
    damage: &mut Vec<Damage>,
) -> Result<(), StorageError> {
    let there = list_store(disk).map_err(|error| disk_error("listing the store", &error))?;
    index.store.take_doomed();
    let mut missing: BTreeMap<u64, FileId> = index.store.iter().map(|(file, _)| (file.number, file)).collect();
    for file in &there {
        missing.remove(&file.number);
    }
    for file in missing.values() {
        let has = |log: &Log| log.runs.iter().any(|run| run.segment == file.number);
        let logs = index.iter().filter(|(_, log)| has(log)).map(|(id, _)| id).collect();
        damage.push(Damage { file: file.name(), at: 0, bytes: 0, logs });
    }
    let next = there.iter().map(|file| file.number + 1).max();
    settler.file_next = settler.file_next.max(next.unwrap_or(0));
    if damage.is_empty() {
        settler.removing.add(there.into_iter().filter(|file| !index.store.holds(file.number)).collect());
    }
    Ok(())
}

fn list_store(disk: &dyn Disk) -> io::Result<Vec<FileId>> {
    let mut files: Vec<FileId> = disk.list(PACKS)?.iter().filter_map(|name| FileId::parse_pack(name)).collect();
    for folder in disk.list_folders(SEGMENTS)? {
        let Ok(log) = folder.parse().map(LogId) else { continue };
        files.extend(disk.list(&FileId::log_folder(log))?.iter().filter_map(|name| FileId::parse_own(log, name)));
    }
    Ok(files)
}

fn as_record<'a>(change: &StateChange<'a>) -> StateChangeRecord<'a> {
    match change {
        StateChange::Snapshot(content) => StateChangeRecord::Snapshot(content),
        StateChange::Delta(content) => StateChangeRecord::Delta(content),
        StateChange::Drop => StateChangeRecord::Drop,
    }
}
