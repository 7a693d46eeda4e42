//! The end of the journal: the entry being built, sealed entries that wait for the flush, the file they go to and the
//! next one, made ready ahead.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use model::LogId;

use super::entry::{Entry, Head};
use super::files::{JournalFile, prepare};
use super::frame::{ENTRIES_AT, align};
use super::record::LOG_RANGE_BYTES;
use crate::index::Index;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::tail::TailCache;
use crate::{Disk, Options};

/// A turn with more than this is several entries.
const ENTRY_BYTES_MAX: usize = 4 << 20;
/// Log ranges in one entry: what a turn may take is bounded.
const RANGES_MAX: usize = 512;
// Settled files kept for use again.
const SPARES_MAX: usize = 1;

struct Sealed {
    file: Arc<JournalFile>,
    at: u64,
    bytes: Bytes,
}

/// The writing end.
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    file_bytes: u64,
    /// The window, oldest first; the last one is being written.
    files: Vec<Arc<JournalFile>>,
    /// Sequence number of the first entry of each file of the window.
    first_seqs: Vec<u64>,
    /// Where the next entry of the current file begins.
    at: u64,
    entry: Entry,
    /// Whether `entry` has begun.
    building: bool,
    /// The next entry goes to the next file.
    end_file: bool,
    sealed: Vec<Sealed>,
    /// The number of the next entry to be sealed.
    seq_next: u64,
    /// Everything up to this entry is durable.
    pub(crate) synced_seq: u64,
    /// The last entry that was written.
    pub(crate) written_seq: u64,
    pub(crate) written_bytes: u64,
    /// Files with bytes that no sync covers yet.
    unsynced: Vec<Arc<JournalFile>>,
    reserved: Option<Arc<JournalFile>>,
    preparing: bool,
    /// After a file could not be made ready, none is tried before this entry.
    prepare_again_seq: u64,
    number_next: u32,
    spares: Vec<u32>,
    /// See [`Writer::take_aside`].
    aside: Vec<u32>,
    /// Files among those of the window that cannot be read at all.
    unreadable: Vec<u32>,
    /// Logs whose ranges are still to be told of, since a file has ended.
    ranges: Vec<LogId>,
    /// Logs that the last entries have changed, some more than once: the next mark tells their ranges.
    recent: Vec<LogId>,
    /// What the last entry with units took: about as much the next one will.
    size_hint: usize,
}

/// What the writer starts from: the outcome of recovery.
pub(crate) struct Start {
    pub(crate) files: Vec<Arc<JournalFile>>,
    pub(crate) first_seqs: Vec<u64>,
    /// Numbers of files among them that cannot be read at all.
    pub(crate) unreadable: Vec<u32>,
    pub(crate) seq_next: u64,
    pub(crate) number_next: u32,
    /// Where the last file goes on, if it may.
    pub(crate) go_on_at: Option<u64>,
}

/// Pages of memory are so large, or a multiple of it.
const PAGE_BYTES: u64 = 4096;

// How much of the file may become zeros with an entry of `bytes` at `at`: the rest of its last page, if it is the first
// in that page. A file that is used again holds old bytes there; when they are not in memory, writing a part of the
// page waits until the disk has brought them.
fn spare_behind(at: u64, bytes: usize, file_bytes: u64) -> usize {
    let end = at + bytes as u64;
    let page = end / PAGE_BYTES * PAGE_BYTES;
    if end == page || at > page {
        return 0;
    }
    usize::try_from((page + PAGE_BYTES).min(file_bytes).saturating_sub(end)).unwrap_or_default()
}

impl Writer {
    /// Goes on in the last file, or in a new one which is made ready here. If the volume is full, that is tried again
    /// when it is needed.
    ///
    /// # Errors
    /// The disk's, when the file cannot be made for another reason.
    pub(crate) fn new(disk: Arc<dyn Disk>, options: &Options, start: Start) -> io::Result<Writer> {
        let (file_bytes, mut number_next) = (options.journal_file_bytes, start.number_next);
        let mut at = file_bytes;
        let mut reserved = None;
        match (start.files.last(), start.go_on_at) {
            // Not if it was made when files had another size.
            (Some(last), Some(go_on_at)) if last.handle.len()? == file_bytes => at = go_on_at,
            _ => {
                match prepare(&*disk, number_next, None, file_bytes) {
                    Ok(file) => reserved = Some(file),
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                    Err(error) => return Err(error),
                }
                number_next += 1;
            }
        }
        Ok(Writer {
            disk,
            file_bytes,
            files: start.files,
            first_seqs: start.first_seqs,
            at,
            entry: Entry::default(),
            building: false,
            end_file: false,
            sealed: Vec::new(),
            seq_next: start.seq_next,
            synced_seq: start.seq_next - 1,
            written_seq: start.seq_next - 1,
            written_bytes: 0,
            unsynced: Vec::new(),
            reserved,
            preparing: false,
            prepare_again_seq: 0,
            number_next,
            spares: Vec::new(),
            aside: Vec::new(),
            unreadable: start.unreadable,
            ranges: Vec::new(),
            recent: Vec::new(),
            size_hint: 0,
        })
    }

    fn current(&self) -> Option<&Arc<JournalFile>> {
        self.files.last()
    }

    /// Number of the file being written.
    pub(crate) fn current_number(&self) -> u32 {
        self.current().map_or(0, |file| file.number)
    }

    /// The file of the window with this number.
    pub(crate) fn file(&self, number: u32) -> Option<&Arc<JournalFile>> {
        self.files.iter().rev().find(|file| file.number == number)
    }

    /// The window, oldest first.
    pub(crate) fn files(&self) -> &[Arc<JournalFile>] {
        &self.files
    }

    /// The first file after `number`, and the sequence number of its first entry.
    pub(crate) fn first_after(&self, number: u32) -> (u32, u64) {
        let at = self.files.partition_point(|file| file.number <= number);
        let first_seq = self.first_seqs.get(at).copied().unwrap_or(self.seq_next);
        (self.files.get(at).map_or(number + 1, |file| file.number), first_seq)
    }

    /// The next entry goes to the next file, however much room there is.
    pub(crate) fn end_file_soon(&mut self) {
        self.end_file = self.written_seq >= self.first_seqs.last().copied().unwrap_or(0);
    }

    /// The number that the entry being built has or the next one gets.
    pub(crate) fn seq_next(&self) -> u64 {
        self.seq_next
    }

    /// The largest batch.
    pub(crate) fn batch_bytes_max(&self) -> usize {
        // Half a file: the first entry of a file also holds the ranges of the logs of the file before.
        usize::try_from(self.file_bytes / 2).unwrap_or(usize::MAX).saturating_sub(ENTRIES_AT as usize)
    }

    /// Makes sure that `bytes` more, with units or without, fit in the entry being built: seals it and begins another,
    /// in the next file if need be.
    ///
    /// # Errors
    /// The disk's, when there is no next file and none can be made; nothing has changed then.
    pub(crate) fn make_room(
        &mut self,
        (bytes, has_units): (usize, bool),
        index: &mut Index,
        tail: &mut TailCache,
    ) -> io::Result<()> {
        if self.building && !self.end_file {
            let bytes_then = self.entry.bytes() + bytes;
            if bytes_then <= ENTRY_BYTES_MAX && self.at + align(bytes_then as u64) <= self.file_bytes {
                return Ok(());
            }
        }
        self.seal(index, tail);
        let header = super::frame::ENTRY_HEADER_BYTES;
        if self.end_file || self.at + align((header + bytes) as u64) > self.file_bytes {
            let full = self.current_number();
            self.next_file()?;
            self.end_file = false;
            self.begin(bytes, has_units);
            self.ranges.extend_from_slice(index.touched(full));
        } else {
            self.begin(bytes, has_units);
        }
        self.add_ranges(bytes, index);
        Ok(())
    }

    // Ranges of the logs that the file before touched, some with each entry, where they leave room for what comes.
    fn add_ranges(&mut self, bytes: usize, index: &Index) {
        let room = self.file_bytes.saturating_sub(self.at + align((self.entry.bytes() + bytes) as u64));
        let count = RANGES_MAX.min(room as usize / LOG_RANGE_BYTES).min(self.ranges.len());
        for id in self.ranges.drain(self.ranges.len() - count..) {
            if let Some(log) = index.get(id) {
                self.entry.log_range(id, log.start, log.end);
            }
        }
        if self.ranges.is_empty() {
            self.ranges = Vec::new();
        }
    }

    fn begin(&mut self, bytes: usize, has_units: bool) {
        let hint = if has_units { self.size_hint } else { 0 };
        self.entry.begin(hint.max(bytes + 2 * super::frame::ENTRY_HEADER_BYTES));
        self.building = true;
    }

    // Who heeds the lag (see `hurry_permille`) finds the next file ready; whoever does not waits for it here.
    fn next_file(&mut self) -> io::Result<()> {
        let file = match self.reserved.take() {
            Some(file) => file,
            None => {
                let number = self.number_next;
                self.number_next += 1;
                let spare = self.spares.pop();
                prepare(&*self.disk, number, spare, self.file_bytes)?
            }
        };
        self.files.push(file);
        self.first_seqs.push(self.seq_next);
        self.at = ENTRIES_AT;
        Ok(())
    }

    /// The entry being built and where its first byte will lie. Only after [`Writer::make_room`].
    pub(crate) fn entry(&mut self) -> (&mut Entry, u64) {
        (&mut self.entry, self.at)
    }

    /// Closes the entry being built, if any; later commits go to the next.
    pub(crate) fn seal(&mut self, index: &mut Index, tail: &mut TailCache) {
        let Some(file) = self.current().filter(|_| self.building).cloned() else { return };
        let head = Head { seq: self.seq_next, synced: self.synced_seq, at: self.at, generation: &file.generation };
        self.recent.extend(self.entry.logs().take(RANGES_MAX));
        if self.recent.len() > 2 * RANGES_MAX {
            self.recent.drain(..self.recent.len() - RANGES_MAX);
        }
        let mut has_units = false;
        let bytes = self.entry.seal(head, |log, first, crc| {
            has_units = true;
            index.set_crc(log, first, crc);
        });
        self.building = false;
        self.seq_next += 1;
        if has_units {
            self.size_hint = bytes.len().min(1 << 20);
            tail.push(file.number, self.at, bytes.clone()); // nobody reads the others
        }
        let at = self.at;
        self.at += bytes.len() as u64;
        self.sealed.push(Sealed { file, at, bytes });
    }

    /// Whether everything is durable, and the last entry is one that no later one vouches for.
    pub(crate) fn wants_mark(&self) -> bool {
        let room = self.at + super::frame::ENTRY_HEADER_BYTES as u64 <= self.file_bytes;
        let is_clean = self.synced_seq == self.written_seq && self.written_seq + 1 == self.seq_next;
        room && is_clean && !self.building && !self.files.is_empty()
    }

    /// Notes logs that the entries before may have changed; the last ones count.
    pub(crate) fn note_recent(&mut self, logs: &[LogId]) {
        self.recent.extend_from_slice(logs.get(logs.len().saturating_sub(RANGES_MAX)..).unwrap_or_default());
    }

    /// Makes an entry without content: it says how far everything is durable, and where the logs end that were changed
    /// last. Else nothing would say what is missing if the last entry with content were found damaged.
    pub(crate) fn seal_mark(&mut self, index: &mut Index, tail: &mut TailCache) {
        self.entry.begin(super::frame::ENTRY_HEADER_BYTES);
        self.building = true;
        let mut logs = std::mem::take(&mut self.recent);
        logs.drain(..logs.len().saturating_sub(RANGES_MAX));
        logs.sort_unstable();
        logs.dedup();
        let room = self.file_bytes.saturating_sub(self.at + 2 * super::frame::ENTRY_HEADER_BYTES as u64);
        for id in logs.iter().take(room as usize / LOG_RANGE_BYTES) {
            if let Some(log) = index.get(*id) {
                self.entry.log_range(*id, log.start, log.end);
            }
        }
        self.seal(index, tail);
        self.recent.clear();
    }

    /// Hands all that is sealed to the operating system. Answers whether there was anything.
    ///
    /// # Errors
    /// The disk's: what was written is then unknown.
    pub(crate) fn write(&mut self) -> io::Result<bool> {
        let any = !self.sealed.is_empty();
        // Entries of one file lie back to back.
        for together in self.sealed.chunk_by(|one, next| one.file.number == next.file.number) {
            let [first, ..] = together else { continue };
            let pieces: Vec<&[u8]> = together.iter().map(|sealed| &*sealed.bytes).collect();
            let bytes = pieces.iter().map(|piece| piece.len()).sum();
            let spare = spare_behind(first.at, bytes, self.file_bytes);
            first.file.handle.write_over(first.at, &pieces, spare)?;
        }
        for sealed in self.sealed.drain(..) {
            self.written_bytes += sealed.bytes.len() as u64;
            self.written_seq += 1;
            if self.unsynced.last().is_none_or(|file| file.number != sealed.file.number) {
                self.unsynced.push(sealed.file);
            }
        }
        self.sealed.shrink_to(16);
        Ok(any)
    }

    /// The files a sync of everything written must cover, oldest first.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<JournalFile>> {
        std::mem::take(&mut self.unsynced)
    }

    /// Whether this place lies in the entry being built, and so not in the file yet.
    pub(crate) fn is_building(&self, file: u32, at: u64) -> bool {
        self.building && file == self.current_number() && at >= self.at
    }

    /// Whether an entry is being built.
    pub(crate) fn is_in_entry(&self) -> bool {
        self.building
    }

    /// Whether this place is in its file: neither being built nor waiting for the flush.
    pub(crate) fn is_written(&self, file: u32, at: u64) -> bool {
        let waits = self.sealed.first().is_some_and(|sealed| (file, at) >= (sealed.file.number, sealed.at));
        !waits && !self.is_building(file, at)
    }

    /// Whether everything before this place has been written that ever will be.
    pub(crate) fn is_past(&self, file: u32, at: u64) -> bool {
        self.is_written(file, at) && (file != self.current_number() || at <= self.at)
    }

    /// Of a file, everything before this place has been written that ever will be.
    pub(crate) fn past(&self, file: u32) -> u64 {
        match self.sealed.first() {
            Some(sealed) if sealed.file.number < file => 0,
            Some(sealed) if sealed.file.number == file => sealed.at,
            _ if file == self.current_number() => self.at,
            _ => u64::MAX,
        }
    }

    /// Bytes of the entry being built, for a reader who is early.
    pub(crate) fn copy(&self, file: u32, at: u64, count: usize) -> Option<Bytes> {
        if !self.building || file != self.current_number() {
            return None;
        }
        self.entry.copy(usize::try_from(at.checked_sub(self.at)?).ok()?, count)
    }

    /// Whether the next file is ready.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    /// A job that makes the next file ready, if there is none and none is on its way.
    pub(crate) fn prepare_job(&mut self) -> Option<Job> {
        if self.preparing || self.reserved.is_some() || self.seq_next < self.prepare_again_seq {
            return None;
        }
        self.preparing = true;
        let number = self.number_next;
        self.number_next += 1;
        let (disk, spare, bytes) = (Arc::clone(&self.disk), self.spares.pop(), self.file_bytes);
        Some(Job::new(Lane::Work, move || {
            let result = prepare(&*disk, number, spare, bytes);
            JobDone { what: Outcome::Prepared { number, result } }
        }))
    }

    /// Takes the file a job has made. One with a number below the current (a commit could not wait for it) is a spare.
    pub(crate) fn prepared(&mut self, file: Arc<JournalFile>) {
        self.preparing = false;
        if file.number > self.current_number() {
            self.reserved = Some(file);
        } else {
            self.spares.push(file.number);
        }
    }

    /// The job could not make the file.
    pub(crate) fn not_prepared(&mut self) {
        self.preparing = false;
        self.prepare_again_seq = self.seq_next + 16;
    }

    /// How much of the current file is used while the next one is being made ready, beyond a half: 0 to 999 of 1000.
    pub(crate) fn hurry_permille(&self) -> u32 {
        if !self.preparing || self.reserved.is_some() {
            return 0;
        }
        let half = self.file_bytes / 2;
        let used = self.at + if self.building { self.entry.bytes() as u64 } else { 0 };
        (used.saturating_sub(half) * 1000 / half.max(1)).min(999) as u32
    }

    /// Files of the window up to `number` of which the disk did not give all.
    pub(crate) fn unread_until(&self, number: u32) -> Vec<u32> {
        let settled = self.files.iter().take_while(|file| file.number <= number);
        let in_part = settled.filter(|file| !file.unread().is_empty()).map(|file| file.number);
        in_part.chain(self.unreadable.iter().copied().filter(|of| *of <= number)).collect()
    }

    /// Files that are settled and of which the disk did not give all: they are kept, but not here.
    pub(crate) fn take_aside(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.aside)
    }

    /// Files of the window up to `number` are settled: lets go of them. Answers numbers of files to remove. One that
    /// somebody still reads from, or sends from, is not used again: its bytes must stay what they are.
    pub(crate) fn release(&mut self, number: u32) -> Vec<u32> {
        let mut removed = Vec::new();
        while self.files.len() > 1 && self.files.first().is_some_and(|file| file.number <= number) {
            let file = self.files.remove(0);
            self.first_seqs.remove(0);
            let is_free = Arc::strong_count(&file) == 1 && Arc::strong_count(&file.handle) == 1;
            match file.unread().is_empty() {
                true if is_free => self.spares.push(file.number),
                true => removed.push(file.number),
                false => self.aside.push(file.number),
            }
        }
        self.aside.extend(self.unreadable.extract_if(.., |of| *of <= number));
        let extra = self.spares.len().saturating_sub(SPARES_MAX);
        removed.extend(self.spares.drain(..extra));
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_in_a_page_writes_it_to_its_end() {
        let spare = |at, bytes| spare_behind(at, bytes, 4 * PAGE_BYTES);
        assert_eq!([spare(4096, 64), spare(4160, 64), spare(8000, 256)], [4032, 0, 4032]);
        assert_eq!([spare(4096, 4096), spare(4096, 8256), spare(8192 - 64, 64)], [0, 4032, 0]);
        assert_eq!(spare_behind(8192, 64, 8192 + 128), 64);
    }
}
