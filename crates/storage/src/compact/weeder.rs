//! The work of compaction within jobs: first the keys of what is not compacted yet are read, then each group of
//! segments is written anew without what was written again later. Works in steps; knows nothing of the index.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use model::{Format, Keyed, Left, LogId, Offset, Sieve, UnitAt, Wall};

use super::CompactRequest;
use super::keys::KeyMap;
use crate::Disk;
use crate::index::{Extent, Run};
use crate::journal::files::JournalFile;
use crate::segment::build::Builder;
use crate::segment::source::Sources;
use crate::segment::{ExtentHeader, FileId, PACKS, SEGMENTS};

/// Units that may have gaps between them are made one extent up to this.
const EXTENT_BYTES_MAX: usize = 64 << 10;

/// Where extents lie, in the order of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    Run(FileId, Run),
    Extent(Extent),
}

/// What a step came to.
pub(crate) enum WeedStep {
    /// There is more to do.
    More,
    /// The keys are known up to this offset.
    Mapped(Offset),
    /// The group is written and durable: its file and its run, if anything is left, and the latest time in it.
    Rewritten(Option<(FileId, Run)>),
    /// Something cannot be read: nothing was made.
    Unreadable,
}

enum Task {
    /// Reading keys.
    Map,
    /// Writing a group anew.
    Rewrite { file: FileId, builder: Option<Box<Builder>>, pending: Option<(ExtentHeader, Vec<u8>)> },
}

/// The work on one log, between steps.
pub(crate) struct Weeder {
    disk: Arc<dyn Disk>,
    request: CompactRequest,
    /// Bytes from one entry of the new file's index to the next.
    step: u32,
    keys: KeyMap,
    /// Keys are known up to here.
    mapped: Offset,
    sources: Sources,
    items: VecDeque<Item>,
    /// Where in the file of the run at the front the next extent is.
    run_at: Option<u64>,
    task: Task,
    /// Until when any tombstone stays that was kept.
    pub(crate) tombstones_until: Option<Wall>,
    pub(crate) removed: u64,
    /// Bytes read since it was last looked at.
    pub(crate) done_bytes: u64,
}

impl Weeder {
    /// Begins with the keys of `items`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        (request, step): (CompactRequest, u32),
        items: Vec<Item>,
        files: Vec<Arc<JournalFile>>,
    ) -> Weeder {
        Weeder {
            sources: Sources::new(Arc::clone(&disk), files),
            disk,
            keys: KeyMap::new(request.keys_bytes_max),
            mapped: Offset::ZERO,
            request,
            step,
            items: items.into(),
            run_at: None,
            task: Task::Map,
            tombstones_until: None,
            removed: 0,
            done_bytes: 0,
        }
    }

    /// Goes on with a group, to be written to `file`.
    pub(crate) fn rewrite(&mut self, file: FileId, items: Vec<Item>, files: Vec<Arc<JournalFile>>) {
        self.sources = Sources::new(Arc::clone(&self.disk), files);
        self.items = items.into();
        self.run_at = None;
        self.task = Task::Rewrite { file, builder: None, pending: None };
    }

    /// Works through about `bytes`.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn step(&mut self, bytes: u64) -> io::Result<WeedStep> {
        let step = self.go_on(bytes);
        if matches!(step, Ok(WeedStep::Unreadable) | Err(_)) {
            self.undo();
        }
        step
    }

    fn go_on(&mut self, bytes: u64) -> io::Result<WeedStep> {
        let until = self.done_bytes + bytes;
        while self.done_bytes < until {
            let Some(item) = self.items.front().copied() else {
                return match self.task {
                    Task::Map => {
                        self.mapped = self.request.upto;
                        Ok(WeedStep::Mapped(self.mapped))
                    }
                    Task::Rewrite { .. } => self.finish(),
                };
            };
            let Some((header, units)) = self.next(item)? else { return Ok(WeedStep::Unreadable) };
            self.done_bytes += header.whole_bytes();
            let outcome = match self.task {
                Task::Map => self.map(&header, &units),
                Task::Rewrite { .. } => self.weed(&header, &units)?,
            };
            match outcome {
                Some(ControlFlow::Continue(())) => {}
                Some(ControlFlow::Break(())) => return Ok(WeedStep::Mapped(self.mapped)),
                None => return Ok(WeedStep::Unreadable),
            }
        }
        if let Task::Rewrite { builder: Some(builder), .. } = &self.task {
            builder.sync()?;
        }
        Ok(WeedStep::More)
    }

    // The next extent; `None` when it cannot be read.
    fn next(&mut self, item: Item) -> io::Result<Option<(ExtentHeader, Bytes)>> {
        let (file, run) = match item {
            Item::Extent(extent) => {
                self.items.pop_front();
                let found = self.sources.extent(self.request.log, &extent)?;
                return Ok(Some(found).filter(|(header, _)| !header.lost));
            }
            Item::Run(file, run) => (file, run),
        };
        let at = self.run_at.unwrap_or(run.at);
        let found = self.sources.run(file, &run, at)?.filter(|(header, _)| header.log == self.request.log);
        let Some((header, units)) = found else { return Ok(None) };
        let next = at + header.whole_bytes();
        self.run_at = Some(next);
        if next >= run.at + run.bytes {
            self.items.pop_front();
            self.run_at = None;
        }
        Ok(Some((header, units)))
    }

    // `None` when the units are none of their format.
    fn map(&mut self, header: &ExtentHeader, units: &Bytes) -> Option<ControlFlow<()>> {
        let formats = Arc::clone(&self.request.formats);
        let format = formats.get(header.format).ok()?;
        for unit in borders(format, header, units)? {
            if self.keys.is_full() {
                self.mapped = unit.first;
                return Some(ControlFlow::Break(()));
            }
            let keys = &mut self.keys;
            let visit = &mut |keyed: &Keyed<'_>| {
                if let Some(key) = keyed.key {
                    keys.note(key, keyed.offset);
                }
            };
            format.keys(&units.slice(unit.at..unit.at + unit.bytes), unit.first, visit).ok()?;
        }
        self.mapped = header.last().plus(1);
        Some(ControlFlow::Continue(()))
    }

    fn weed(&mut self, header: &ExtentHeader, units: &Bytes) -> io::Result<Option<ControlFlow<()>>> {
        let formats = Arc::clone(&self.request.formats);
        let Ok(format) = formats.get(header.format) else { return Ok(None) };
        let Some(borders) = borders(format, header, units) else { return Ok(None) };
        let mut out = Vec::new();
        for unit in borders {
            out.clear();
            let slice = units.slice(unit.at..unit.at + unit.bytes);
            let Some(left) = self.weed_unit(format, &unit, &slice, &mut out) else { return Ok(None) };
            if let Some(left) = left {
                self.add(format, &unit, &left, &out)?;
            }
        }
        Ok(Some(ControlFlow::Continue(())))
    }

    fn weed_unit(
        &mut self,
        format: &dyn Format,
        unit: &UnitAt,
        bytes: &Bytes,
        out: &mut Vec<u8>,
    ) -> Option<Option<Left>> {
        let (keys, now) = (&self.keys, self.request.now);
        // Behind what is mapped an older message of the key may still be there: too early to count a tombstone's days.
        let until = Some(self.request.tombstones_until).filter(|_| unit.first < self.mapped);
        let (mut kept_until, mut removed) = (self.tombstones_until, 0);
        let mut keep = |keyed: &Keyed<'_>| {
            let stays = keyed.key.is_some_and(|key| !keys.is_superseded(key, keyed.offset));
            let over = keyed.is_tombstone && keyed.stays_until.is_some_and(|until| now > until);
            if stays && !over && keyed.is_tombstone {
                kept_until = kept_until.max(keyed.stays_until.or(until));
            }
            removed += u64::from(!stays || over);
            stays && !over
        };
        let mut sieve = Sieve { keep: &mut keep, tombstones_until: until };
        let left = format.weed(bytes, unit.first, &mut sieve, out).ok()?;
        self.tombstones_until = kept_until;
        self.removed += removed;
        Some(left)
    }

    fn add(&mut self, format: &dyn Format, unit: &UnitAt, left: &Left, out: &[u8]) -> io::Result<()> {
        let Task::Rewrite { pending, .. } = &mut self.task else { return Ok(()) };
        let last_delta = u32::try_from(left.last.since(unit.first)).unwrap_or(u32::MAX);
        let header = ExtentHeader {
            log: self.request.log,
            first: unit.first,
            time_max: left.time_max,
            bytes: out.len() as u32,
            last_delta,
            count: left.count,
            crc: 0,
            format: format.tag(),
            lost: false,
        };
        if let Some((held, units)) = pending
            && format.allows_gaps()
            && held.format == header.format
            && units.len() + out.len() <= EXTENT_BYTES_MAX.min(self.step as usize)
            && let Ok(span) = u32::try_from(left.last.since(held.first))
        {
            held.last_delta = span;
            held.count += left.count;
            held.bytes += out.len() as u32;
            held.time_max = held.time_max.max(left.time_max);
            units.extend_from_slice(out);
            return Ok(());
        }
        let done = pending.replace((header, out.to_vec()));
        self.write(done)
    }

    fn write(&mut self, extent: Option<(ExtentHeader, Vec<u8>)>) -> io::Result<()> {
        let Task::Rewrite { file, builder, .. } = &mut self.task else { return Ok(()) };
        let Some((header, units)) = extent else { return Ok(()) };
        let builder = match builder {
            Some(builder) => builder,
            None => {
                let builder = builder.insert(Box::new(Builder::new(&*self.disk, *file)?));
                builder.begin_run(self.step)?;
                builder
            }
        };
        builder.add(&header, &units)
    }

    fn finish(&mut self) -> io::Result<WeedStep> {
        if let Task::Rewrite { pending, .. } = &mut self.task {
            let last = pending.take();
            self.write(last)?;
        }
        let Task::Rewrite { file, builder, .. } = &mut self.task else { return Ok(WeedStep::Rewritten(None)) };
        let Some(builder) = builder.take() else { return Ok(WeedStep::Rewritten(None)) };
        let file = *file;
        let finished = builder.finish().and_then(|found| {
            match file.own {
                Some((log, _)) => {
                    self.disk.sync_folder(&FileId::log_folder(log))?;
                    self.disk.sync_folder(SEGMENTS)?;
                }
                None => self.disk.sync_folder(PACKS)?,
            }
            self.disk.sync_folder("")?;
            Ok(found)
        });
        match finished {
            Ok((runs, _)) => Ok(WeedStep::Rewritten(runs.first().map(|(_, run)| (file, *run)))),
            Err(error) => {
                let _ = self.disk.remove(&file.name());
                Err(error)
            }
        }
    }

    // What cannot be removed now is an orphan for the next start.
    fn undo(&mut self) {
        if let Task::Rewrite { file, builder, .. } = &mut self.task
            && builder.take().is_some()
        {
            let _ = self.disk.remove(&file.name());
        }
    }

    /// The log it works on.
    pub(crate) fn log(&self) -> LogId {
        self.request.log
    }
}

fn borders(format: &dyn Format, header: &ExtentHeader, units: &Bytes) -> Option<Vec<UnitAt>> {
    let mut borders = Vec::new();
    let visit = &mut |unit: UnitAt| {
        borders.push(unit);
        ControlFlow::Continue(())
    };
    format.split(units, header.first, visit).ok()?;
    let fits = |unit: &UnitAt| unit.at.checked_add(unit.bytes).is_some_and(|end| end <= units.len());
    borders.iter().all(fits).then_some(borders)
}
