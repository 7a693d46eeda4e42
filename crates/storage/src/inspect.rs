//! Looking at a data folder whose server is stopped, for people: what is in which file, what is damaged, what the next
//! start would cut off. Opens it as a start does, but over a disk that keeps all changes in memory:
//! nothing is changed, unless a repair is asked for. For the command line only.

mod files;
mod overlay;
mod repair;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{LogId, Offset, Wall};

pub use files::{Item, items};
use overlay::Overlay;
pub use repair::{Rebuild, Repair, Torn};

use crate::journal::frame::file_name;
use crate::journal::recover::disk_error;
use crate::{Chunk, Damage, Disk, JobDone, Options, Read, ReadRequest, Recovered, Storage, StorageError};

/// What is read at once.
const READ_BYTES: usize = 4 << 20;

/// A folder being looked at. Its lock is held as long.
pub struct Inspection {
    storage: Storage,
    overlay: Arc<Overlay>,
    /// What a start would find.
    pub recovered: Recovered,
}

/// Messages of one log that lie together in one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The log.
    pub log: LogId,
    /// First offset.
    pub first: Offset,
    /// Last offset.
    pub last: Offset,
    /// The file's name within the data folder.
    pub file: String,
    /// Where they begin in it.
    pub at: u64,
    /// Bytes they take there.
    pub bytes: u64,
    /// The latest time.
    pub time_max: Wall,
    /// How many messages, if that is known without reading them.
    pub messages: Option<u64>,
}

impl Inspection {
    /// Opens the folder of `disk` without changing it.
    ///
    /// # Errors
    /// As [`Storage::open`]: a running server has it, a newer version wrote it, the checkpoint is damaged in both
    /// copies.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Inspection, StorageError> {
        let overlay = Arc::new(Overlay::new(disk));
        let options = options(&*overlay)?;
        let (storage, recovered) = Storage::open(Arc::clone(&overlay) as Arc<dyn Disk>, options)?;
        Ok(Inspection { storage, overlay, recovered })
    }

    /// Everything that is alive, by log and offset.
    #[must_use]
    pub fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (id, log) in self.storage.index.iter() {
            pieces.extend(log.runs.iter().map(|run| Piece {
                log: id,
                first: run.first.max(log.start),
                last: run.last,
                file: self.storage.index.store.file(run.segment).name(),
                at: run.at,
                bytes: run.bytes,
                time_max: run.time_max,
                messages: None,
            }));
            let from = pieces.len();
            for extent in log.window.iter().filter(|extent| !extent.lost) {
                let file = file_name(u64::from(extent.file));
                let last = pieces.get_mut(from..).and_then(<[Piece]>::last_mut).filter(|last| last.file == file);
                match last {
                    Some(piece) => {
                        piece.last = extent.last();
                        piece.bytes += u64::from(extent.bytes);
                        piece.time_max = piece.time_max.max(extent.time_max);
                        piece.messages = piece.messages.map(|count| count + u64::from(extent.count));
                    }
                    None => pieces.push(Piece {
                        log: id,
                        first: extent.first,
                        last: extent.last(),
                        file,
                        at: u64::from(extent.at),
                        bytes: u64::from(extent.bytes),
                        time_max: extent.time_max,
                        messages: Some(u64::from(extent.count)),
                    }),
                }
            }
        }
        pieces.sort_by_key(|piece| (piece.log, piece.first));
        pieces
    }

    /// Where `offset` of `log` lies: the last piece that begins at or before it. Offsets between two pieces were
    /// compacted away or never given.
    #[must_use]
    pub fn piece_of(&self, log: LogId, offset: Offset) -> Option<Piece> {
        let range = self.storage.range(log).filter(|range| (range.start..range.end).contains(&offset))?;
        let from = |piece: &Piece| piece.log == log && piece.first <= offset && piece.last >= range.start;
        self.pieces().into_iter().rfind(from)
    }

    /// Reads `log` from `from` on; `visit` is shown each chunk until it answers false. Damage is passed over: see
    /// [`Inspection::damage`].
    ///
    /// # Errors
    /// [`StorageError::OutOfRange`], [`StorageError::Disk`].
    pub fn read(
        &mut self,
        log: LogId,
        mut from: Offset,
        visit: &mut dyn FnMut(&Chunk) -> bool,
    ) -> Result<(), StorageError> {
        let until = self.storage.range(log).map_or(Offset::ZERO, |range| range.end);
        loop {
            match self.storage.read(&ReadRequest { log, from, until, bytes_max: READ_BYTES }) {
                Ok(Read::Ready(chunks)) if chunks.is_empty() => return Ok(()),
                Ok(Read::Ready(chunks)) => {
                    for chunk in &chunks {
                        from = chunk.last.plus(1);
                        if !visit(chunk) {
                            return Ok(());
                        }
                    }
                }
                Ok(Read::Pending(_)) => self.run_reads()?,
                Err(StorageError::Damaged { .. }) => {
                    from = self.storage.after_damage(log, from);
                    if from >= until {
                        return Ok(());
                    }
                }
                Err(why) => return Err(why),
            }
        }
    }

    // Reads only: nothing is settled or removed, not even in memory.
    fn run_reads(&mut self) -> Result<(), StorageError> {
        while let Some(job) = self.storage.next_job() {
            if job.lane == crate::job::Lane::Read {
                let done: JobDone = job.run();
                self.storage.complete(done)?;
            }
        }
        Ok(())
    }

    /// Reads everything that is alive, and the heads and indexes of all files; `progress` is told of bytes read, and of
    /// how many there are. Answers all damage.
    ///
    /// # Errors
    /// [`StorageError::Disk`] when the disk fails.
    pub fn verify(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Damage>, StorageError> {
        let pieces = self.pieces();
        let all: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        let mut done = 0;
        let mut logs: Vec<(LogId, Offset)> = Vec::new();
        for (log, range) in &self.recovered.logs {
            logs.push((*log, range.start));
        }
        for (log, start) in logs {
            self.read(log, start, &mut |chunk| {
                done += chunk.units.len() as u64;
                progress(done.min(all), all);
                true
            })?;
        }
        let mut by_file: BTreeMap<&str, Vec<LogId>> = BTreeMap::new();
        for piece in &pieces {
            by_file.entry(&piece.file).or_default().push(piece.log);
        }
        let mut found = Vec::new();
        files::check_journal(&*self.overlay, &mut found)?;
        for (id, _) in self.storage.index.store.iter() {
            let logs = by_file.get(id.name().as_str()).map(Vec::as_slice).unwrap_or_default();
            files::check(&*self.overlay, id, logs, &mut found)?;
        }
        found.into_iter().for_each(|damage| self.storage.note_damage(damage));
        progress(all, all);
        Ok(self.storage.damage().to_vec())
    }

    /// Damage known so far: what opening found and reading has run into.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        self.storage.damage()
    }
}

// With files of the size that is there, so that opening goes on in the last one and makes none.
fn options(disk: &dyn Disk) -> Result<Options, StorageError> {
    let told = |error| disk_error("looking at the journal", &error);
    let names = disk.list("journal").map_err(told)?;
    let last = names.iter().rfind(|name| name.len() == 20);
    let last = last.map(|name| disk.open(&format!("journal/{name}"), false).and_then(|file| file.len()));
    let journal_file_bytes = last.transpose().map_err(told)?.unwrap_or(0);
    Ok(Options { journal_file_bytes, reserve_bytes: 0, tail_cache_bytes: 0, ..Options::default() })
}
