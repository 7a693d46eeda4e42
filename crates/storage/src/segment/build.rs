//! Writing one file of the store: small neighbours are made one extent. Runs within a job; knows nothing of the index
//! and not where the extents come from.

use std::io;
use std::sync::Arc;

use model::LogId;
use model::checksum::crc32c;

use super::footer::{Footer, FooterRun};
use super::pages::encode;
use super::{EXTENTS_AT, ExtentHeader, FileId};
use crate::index::Run;
use crate::journal::files::new_generation;
use crate::journal::frame::{FileHeader, Generation, SEGMENT};
use crate::{Disk, DiskFile};

/// Neighbours are made one extent up to this, or up to the index's step, if that is less.
const MERGE_BYTES_MAX: usize = 64 << 10;
/// The step of the index unless it is said otherwise: what is read is checked, and that can only be a whole extent.
pub(crate) const STEP_BYTES: u32 = 64 << 10;
const WRITE_BYTES: usize = 1 << 20;

/// A file being written.
pub(crate) struct Builder {
    pub(crate) file: FileId,
    generation: Generation,
    handle: Arc<dyn DiskFile>,
    /// Bytes not written yet and where they go.
    buffer: Vec<u8>,
    at: u64,
    footer: Footer,
    /// The extent that its neighbour may join.
    held: Option<ExtentHeader>,
    held_units: Vec<u8>,
    /// The next extent begins a run.
    fresh: bool,
    /// Bytes from one entry of the index to the next.
    step: u32,
}

impl Builder {
    /// Begins the file.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn new(disk: &dyn Disk, file: FileId) -> io::Result<Builder> {
        let handle = disk.open(&file.name(), true)?;
        handle.set_len(0)?; // an orphan of this name may have been there
        let generation = new_generation()?;
        let buffer = FileHeader { number: file.number, generation }.encode(&SEGMENT);
        debug_assert_eq!(buffer.len() as u64, EXTENTS_AT);
        Ok(Builder {
            file,
            generation,
            handle,
            buffer,
            at: 0,
            footer: Footer::default(),
            held: None,
            held_units: Vec::new(),
            fresh: true,
            step: STEP_BYTES,
        })
    }

    /// What is added from here on is another run, with so many bytes from one entry of the index to the next. Runs come
    /// in the order of logs and offsets.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn begin_run(&mut self, step: u32) -> io::Result<()> {
        self.release()?;
        self.fresh = true;
        self.step = step;
        Ok(())
    }

    /// Adds an extent to the run.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn add(&mut self, header: &ExtentHeader, units: &[u8]) -> io::Result<()> {
        if !self.joins(header) {
            self.release()?;
            self.held = Some(*header);
            self.held_units.extend_from_slice(units);
        } else if let Some(held) = &mut self.held {
            held.bytes += header.bytes;
            held.count += header.count;
            held.last_delta += header.last_delta + 1;
            held.time_max = held.time_max.max(header.time_max);
            self.held_units.extend_from_slice(units);
        }
        Ok(())
    }

    // Only dense neighbours: within one extent the format counts offsets from the first.
    fn joins(&self, next: &ExtentHeader) -> bool {
        let dense = |extent: &ExtentHeader| u64::from(extent.count) == u64::from(extent.last_delta) + 1;
        self.held.as_ref().is_some_and(|held| {
            !held.lost
                && !next.lost
                && held.log == next.log
                && held.format == next.format
                && dense(held)
                && dense(next)
                && held.last().plus(1) == next.first
                && self.held_units.len() + next.bytes as usize <= MERGE_BYTES_MAX.min(self.step as usize)
        })
    }

    fn release(&mut self) -> io::Result<()> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        held.crc = crc32c(&self.held_units); // of all that joined; that of one is what it was
        self.footer.push(&held, self.at + self.buffer.len() as u64, (!self.fresh, u64::from(self.step)));
        self.fresh = false;
        held.encode(&self.generation, &mut self.buffer);
        self.buffer.append(&mut self.held_units);
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.handle.write_at(self.at, &self.buffer)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes durable what has been written: not too much is left to the end, so that no other sync waits long for it.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.handle.sync()
    }

    /// Ends the file and makes its content durable; answers its runs and its length. Its name is durable when the
    /// caller has synced the folder.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn finish(mut self) -> io::Result<(Vec<(LogId, Run)>, u64)> {
        self.release()?;
        let at = self.at + self.buffer.len() as u64;
        self.buffer.extend_from_slice(&encode(self.footer.entries(), &self.generation, at));
        let header = FileHeader { number: self.file.number, generation: self.generation };
        self.buffer.extend_from_slice(&header.encode(&SEGMENT));
        self.write()?;
        self.handle.sync()?;
        let run = |run: &FooterRun| {
            let (first, last, time_max, bytes) = (run.first, run.last, run.time_max, run.bytes());
            (run.log, Run { segment: self.file.number, first, last, time_max, at: run.at(), bytes })
        };
        Ok((self.footer.runs.iter().map(run).collect(), self.at))
    }
}
