//! Writing a segment, out of journal files or of other segments: small neighbours are made one extent. Runs as a job;
//! knows nothing of the index.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use model::LogId;
use model::checksum::crc32c;

use super::footer::{Footer, FooterRun};
use super::{EXTENTS_AT, ExtentHeader, segment_name};
use crate::index::{Extent, Run};
use crate::journal::files::{JournalFile, new_generation};
use crate::journal::frame::{FileHeader, Generation, SEGMENT};
use crate::reads::{Place, Source, read_place};
use crate::segment::open::OpenSegment;
use crate::{Disk, DiskFile};

/// Neighbours are made one extent up to this.
const MERGE_BYTES_MAX: usize = 64 << 10;
const WRITE_BYTES: usize = 1 << 20;

/// What one segment is made of: logs in order, and the extents of each.
pub(crate) struct Plan {
    pub(crate) number: u64,
    pub(crate) logs: Vec<(LogId, Vec<Extent>)>,
}

/// A segment that was made.
pub(crate) struct Built {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) open: OpenSegment,
    pub(crate) runs: Vec<(LogId, Run)>,
}

/// A segment being written.
pub(crate) struct Builder {
    number: u64,
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
}

/// Makes a segment out of journal files and makes it durable (its name too, when the caller syncs the folder).
///
/// # Errors
/// The disk's. What is left of the file is an orphan that the next start removes.
pub(crate) fn build(disk: &dyn Disk, plan: &Plan, files: &[Arc<JournalFile>]) -> io::Result<Built> {
    let mut builder = Builder::new(disk, plan.number)?;
    for (log, extents) in &plan.logs {
        builder.begin_run()?;
        for extent in extents {
            let file = files.iter().find(|file| file.number == extent.file);
            let units = read_units(extent, file.map(|file| &**file))?;
            let header = ExtentHeader {
                log: *log,
                first: extent.first,
                time_max: extent.time_max,
                bytes: units.as_ref().map_or(0, |units| units.len() as u32),
                last_delta: extent.last_delta,
                count: extent.count,
                crc: extent.crc,
                format: extent.format,
                lost: units.is_none(),
            };
            builder.add(&header, &units.unwrap_or_default())?;
        }
    }
    builder.finish()
}

// The units of an extent; `None` when they are damaged.
fn read_units(extent: &Extent, file: Option<&JournalFile>) -> io::Result<Option<Bytes>> {
    let Some(file) = file.filter(|_| !extent.lost) else { return Ok(None) };
    let source = Source::Journal(extent.file);
    let place = Place { source, at: u64::from(extent.at), bytes: extent.bytes as usize };
    match read_place(&*file.handle, place).result {
        Ok(units) => Ok(Some(units).filter(|units| crc32c(units) == extent.crc)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

impl Builder {
    /// Begins the segment `number`.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn new(disk: &dyn Disk, number: u64) -> io::Result<Builder> {
        let handle = disk.open(&segment_name(number), true)?;
        handle.set_len(0)?; // an orphan of this name may have been there
        let generation = new_generation()?;
        let buffer = FileHeader { number, generation }.encode(&SEGMENT);
        debug_assert_eq!(buffer.len() as u64, EXTENTS_AT);
        Ok(Builder {
            number,
            generation,
            handle,
            buffer,
            at: 0,
            footer: Footer::default(),
            held: None,
            held_units: Vec::new(),
            fresh: true,
        })
    }

    /// What is added from here on is another run. Runs come in the order of logs and offsets.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn begin_run(&mut self) -> io::Result<()> {
        self.release()?;
        self.fresh = true;
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
                && self.held_units.len() + next.bytes as usize <= MERGE_BYTES_MAX
        })
    }

    fn release(&mut self) -> io::Result<()> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        held.crc = crc32c(&self.held_units); // of all that joined; that of one is what it was
        self.footer.push(&held, self.at + self.buffer.len() as u64, !self.fresh);
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

    /// Ends the segment and makes its content durable.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn finish(mut self) -> io::Result<Built> {
        self.release()?;
        let at = self.at + self.buffer.len() as u64;
        self.buffer.extend_from_slice(&self.footer.encode(&self.generation, at));
        let header = FileHeader { number: self.number, generation: self.generation };
        self.buffer.extend_from_slice(&header.encode(&SEGMENT));
        self.write()?;
        self.handle.sync()?;
        let number = self.number;
        let run = |run: &FooterRun| {
            let (first, last, time_max, bytes) = (run.first, run.last, run.time_max, run.bytes());
            (run.log, Run { segment: number, first, last, time_max, bytes })
        };
        let runs = self.footer.runs.iter().map(run).collect();
        let open = OpenSegment { handle: self.handle, generation: self.generation, footer: Arc::new(self.footer) };
        Ok(Built { number, bytes: self.at, open, runs })
    }
}
