//! Copying what is alive into new files of the store: out of the journal when it settles, out of packs and segments
//! when they merge. Works in steps, each a job, so that whoever hands them out can pace them; between steps what was
//! written is synced. Knows nothing of the index.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use model::{LogId, Offset};

use super::build::Builder;
use super::source::Sources;
use super::{ExtentHeader, FileId, PACKS, SEGMENTS};
use crate::Disk;
use crate::index::{Extent, Run};
use crate::journal::files::JournalFile;

/// Making a file durable counts as so many bytes.
const FILE_COSTS: u64 = 256 << 10;

/// Where the extents of a group lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// In journal files.
    Window(Vec<Extent>),
    /// In files of the store: neighbours in the log's order, which become one run.
    Runs(Vec<(FileId, Run)>),
}

/// What is copied of one log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub(crate) log: LogId,
    /// What lies before this is not copied out of the store.
    pub(crate) start: Offset,
    /// Bytes from one entry of the index to the next.
    pub(crate) step: u32,
    pub(crate) source: Source,
}

impl Group {
    /// Bytes to copy, about.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.source {
            Source::Window(extents) => extents.iter().map(|extent| u64::from(extent.bytes)).sum(),
            Source::Runs(runs) => runs.iter().map(|(_, run)| run.bytes).sum(),
        }
    }

    fn first(&self) -> Option<Offset> {
        match &self.source {
            Source::Window(extents) => extents.first().map(|extent| extent.first),
            Source::Runs(runs) => runs.first().map(|(_, run)| run.first),
        }
    }
}

/// What is to be done.
pub(crate) struct Task {
    pub(crate) groups: Vec<Group>,
    /// Bytes of all groups, about.
    pub(crate) bytes: u64,
    /// The journal files that the groups' extents lie in.
    pub(crate) files: Vec<Arc<JournalFile>>,
    /// Numbers of new files from here on; as many are free as there are groups, and one.
    pub(crate) number: u64,
    /// A log with at least so many bytes gets files of its own: one for each such group, and for several smaller ones
    /// together.
    pub(crate) own_bytes: u64,
}

/// A run that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Moved {
    pub(crate) log: LogId,
    /// The runs it stands for; none when it came out of the journal.
    pub(crate) old: Vec<Run>,
    pub(crate) new: Run,
}

/// A file that was made.
pub(crate) struct Built {
    pub(crate) file: FileId,
    /// Its length.
    pub(crate) bytes: u64,
    /// Its runs.
    pub(crate) moved: Vec<Moved>,
    /// The index knows of the file.
    pub(crate) is_known: bool,
}

/// What a step came to.
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// All files are durable.
    Done(Vec<Built>),
    /// A source cannot be read: nothing was made.
    Unreadable,
}

/// The group being copied, and how far it is.
struct InHand {
    group: Group,
    /// It goes to a file of its log alone.
    is_own: bool,
    /// Position of the next extent, or of the run being read.
    item: usize,
    /// Where in the file of that run.
    at: u64,
}

/// The runs of a log that one new run stands for.
type Old = (LogId, Vec<Run>);

/// The work, between steps.
pub(crate) struct Copier {
    disk: Arc<dyn Disk>,
    sources: Sources,
    number: u64,
    own_bytes: u64,
    /// Not arranged before the first step.
    arranged: bool,
    waiting: VecDeque<Group>,
    in_hand: Option<InHand>,
    /// Logs that have files of their own.
    big: HashSet<LogId>,
    pack: Option<Builder>,
    own: Option<Builder>,
    /// Bytes in the file of its own that is being written.
    own_done: u64,
    /// What the runs of the pack, and of that file, stand for, in their order.
    pack_old: Vec<Old>,
    own_old: Vec<Old>,
    built: Vec<Built>,
    /// Extents of groups that are copied. They came from the data thread and are given back to it: to free them here
    /// would take the allocator's lock of that thread, and a thread that stands back may lose its core with it in hand.
    pub(crate) spent: Vec<Vec<Extent>>,
    /// Bytes of all steps so far.
    pub(crate) done_bytes: u64,
}

impl Copier {
    pub(crate) fn new(disk: Arc<dyn Disk>, task: Task) -> Copier {
        Copier {
            sources: Sources::new(Arc::clone(&disk), task.files),
            disk,
            number: task.number,
            own_bytes: task.own_bytes,
            arranged: false,
            waiting: task.groups.into(),
            in_hand: None,
            big: HashSet::new(),
            pack: None,
            own: None,
            own_done: 0,
            pack_old: Vec::new(),
            own_old: Vec::new(),
            built: Vec::new(),
            spent: Vec::new(),
            done_bytes: 0,
        }
    }

    /// Copies about `bytes`. After anything but [`Step::More`], or an error, no step follows; nothing is left of the
    /// files unless it is done.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn step(&mut self, bytes: u64) -> io::Result<Step> {
        let step = self.go_on(bytes);
        if !matches!(step, Ok(Step::More | Step::Done(_))) {
            self.undo();
        }
        step
    }

    fn go_on(&mut self, bytes: u64) -> io::Result<Step> {
        if !std::mem::replace(&mut self.arranged, true) {
            self.arrange();
        }
        let until = self.done_bytes + bytes;
        while self.done_bytes < until {
            if self.in_hand.is_none() {
                let Some(group) = self.waiting.pop_front() else { return self.finish() };
                self.begin(group)?;
            }
            if !self.copy_some()? {
                return Ok(Step::Unreadable);
            }
        }
        for builder in [&self.pack, &self.own].into_iter().flatten() {
            builder.sync()?;
        }
        Ok(Step::More)
    }

    // In the order of files: the small ones go into one pack by log; large ones come between, each its own.
    fn arrange(&mut self) {
        let groups = self.waiting.make_contiguous();
        groups.sort_unstable_by_key(|group| (group.log, group.first()));
        for of_log in groups.chunk_by(|a, b| a.log == b.log) {
            if of_log.iter().map(Group::bytes).sum::<u64>() >= self.own_bytes {
                self.big.extend(of_log.first().map(|group| group.log));
            }
        }
    }

    fn begin(&mut self, group: Group) -> io::Result<()> {
        let is_own = self.big.contains(&group.log);
        let at = match &group.source {
            Source::Runs(runs) => runs.first().map_or(0, |(_, run)| run.at),
            Source::Window(_) => 0,
        };
        if let Some(builder) = if is_own { &mut self.own } else { &mut self.pack } {
            builder.begin_run(group.step)?;
        }
        self.in_hand = Some(InHand { group, is_own, item: 0, at });
        Ok(())
    }

    // Copies an extent of the group in hand. Answers false when it cannot be read.
    fn copy_some(&mut self) -> io::Result<bool> {
        let Some(mut hand) = self.in_hand.take() else { return Ok(true) };
        let more = match &hand.group.source {
            Source::Window(extents) => {
                if let Some(extent) = extents.get(hand.item) {
                    let (header, units) = self.sources.extent(hand.group.log, extent)?;
                    self.add(&header, &units, (hand.is_own, hand.group.step))?;
                }
                hand.item += 1;
                hand.item < extents.len()
            }
            Source::Runs(runs) => {
                let Some((file, run)) = runs.get(hand.item) else { return Ok(false) };
                let Some((header, units)) = self.sources.run(*file, run, hand.at)? else { return Ok(false) };
                if header.log != hand.group.log {
                    return Ok(false);
                }
                hand.at += header.whole_bytes();
                if header.last() >= hand.group.start {
                    self.add(&header, &units, (hand.is_own, hand.group.step))?;
                } else {
                    self.done_bytes += header.whole_bytes();
                }
                if hand.at >= run.at + run.bytes {
                    hand.item += 1;
                    hand.at = runs.get(hand.item).map_or(0, |(_, next)| next.at);
                }
                hand.item < runs.len()
            }
        };
        if more {
            self.in_hand = Some(hand);
        } else {
            self.end(hand)?;
        }
        Ok(true)
    }

    fn add(&mut self, header: &ExtentHeader, units: &[u8], (is_own, step): (bool, u32)) -> io::Result<()> {
        let builder = if is_own { &mut self.own } else { &mut self.pack };
        let builder = match builder {
            Some(builder) => builder,
            None => {
                let own = is_own.then_some((header.log, header.first));
                let file = FileId { number: self.number, own };
                self.number += 1;
                let builder = builder.insert(Builder::new(&*self.disk, file)?);
                builder.begin_run(step)?;
                builder
            }
        };
        self.done_bytes += header.whole_bytes();
        if is_own {
            self.own_done += header.whole_bytes();
        }
        builder.add(header, units)
    }

    fn end(&mut self, hand: InHand) -> io::Result<()> {
        let old = match hand.group.source {
            Source::Window(extents) => {
                self.spent.push(extents);
                Vec::new()
            }
            Source::Runs(runs) => runs.into_iter().map(|(_, run)| run).collect(),
        };
        if !hand.is_own {
            self.pack_old.push((hand.group.log, old));
            return Ok(());
        }
        self.own_old.push((hand.group.log, old));
        // Small groups of a log share a file; none shares one with a large one.
        let next = self.waiting.front().filter(|next| next.log == hand.group.log);
        if self.own_done < self.own_bytes && next.is_some_and(|next| next.bytes() < self.own_bytes) {
            return Ok(());
        }
        self.own_done = 0;
        let (builder, old) = (self.own.take(), std::mem::take(&mut self.own_old));
        self.close(builder, old)
    }

    fn close(&mut self, builder: Option<Builder>, old: Vec<Old>) -> io::Result<()> {
        let Some(builder) = builder else { return Ok(()) };
        let file = builder.file;
        self.built.push(Built { file, bytes: 0, moved: Vec::new(), is_known: false }); // known to `undo` from here on
        let (runs, bytes) = builder.finish()?;
        self.done_bytes += FILE_COSTS;
        let mut old = old.into_iter();
        let mut moved = Vec::with_capacity(runs.len());
        for (log, new) in runs {
            // A group of which nothing was left made no run.
            let matches =
                |(of, old): &Old| *of == log && (old.is_empty() || old.iter().any(|run| run.last == new.last));
            let Some((_, old)) = old.by_ref().find(matches) else { continue };
            moved.push(Moved { log, old, new });
        }
        if let Some(built) = self.built.last_mut() {
            (built.bytes, built.moved) = (bytes, moved);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<Step> {
        let (builder, old) = (self.pack.take(), std::mem::take(&mut self.pack_old));
        self.close(builder, old)?;
        let built = std::mem::take(&mut self.built);
        let folders: BTreeSet<String> =
            built.iter().filter_map(|built| built.file.own).map(|own| own.0).map(FileId::log_folder).collect();
        let synced = || -> io::Result<()> {
            if built.is_empty() {
                return Ok(());
            }
            for folder in &folders {
                self.disk.sync_folder(folder)?;
            }
            if !folders.is_empty() {
                self.disk.sync_folder(SEGMENTS)?;
            }
            if built.iter().any(|built| built.file.own.is_none()) {
                self.disk.sync_folder(PACKS)?;
            }
            self.disk.sync_folder("")
        };
        match synced() {
            Ok(()) => Ok(Step::Done(built)),
            Err(error) => {
                self.built = built;
                Err(error)
            }
        }
    }

    // Gives the space back at once; what cannot be removed now is an orphan for the next start.
    fn undo(&mut self) {
        let open = [self.pack.take(), self.own.take()];
        let files =
            open.iter().flatten().map(|builder| builder.file).chain(self.built.drain(..).map(|built| built.file));
        for file in files {
            let _ = self.disk.remove(&file.name());
        }
    }
}
