//! Reading a journal file from front to back: entry by entry, and after damage by looking at every place where an entry
//! may begin.

use std::io;

use super::files::{JournalFile, Unread, is_unreadable, read_by_pages};
use super::frame::{ALIGN, ENTRIES_AT, ENTRY_HEADER_BYTES, EntryHeader};

/// After a jump little is read, and more and more as long as reading goes straight on.
const BUFFER_BYTES_MIN: usize = 4 << 10;
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// With more unreadable bytes than this in a file, no smaller pieces are tried: each try may take seconds.
const UNREAD_BYTES_MAX: u64 = 4 << 20;

/// Whether the disk did not give so much of the file that it is no bad sector.
pub(crate) fn gives_too_little(file: &JournalFile) -> bool {
    let unread: u64 = file.unread().iter().map(|unread| unread.bytes).sum();
    // Nor is it if that is most of a small file.
    unread > UNREAD_BYTES_MAX.min(file.handle.len().unwrap_or(0) / 2)
}

/// A window of bytes over a file that moves forward.
pub(crate) struct Scanner<'a> {
    file: &'a JournalFile,
    /// The file's length.
    pub(crate) len: u64,
    buffer: Vec<u8>,
    at: u64,
    /// Bytes that the disk did not give.
    unread_bytes: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(file: &'a JournalFile) -> io::Result<Scanner<'a>> {
        Ok(Scanner { file, len: file.handle.len()?, buffer: Vec::new(), at: 0, unread_bytes: 0 })
    }

    /// `count` bytes at `at`; fewer at the end of the file.
    pub(crate) fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let inside = at >= self.at && at + count as u64 <= self.at + self.buffer.len() as u64;
        if !inside {
            let straight = (self.at..=self.at + self.buffer.len() as u64).contains(&at);
            let ahead = if straight { self.buffer.len() * 2 } else { 0 };
            let left = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
            let wanted = count.max(ahead.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)).min(left);
            self.buffer.clear();
            self.buffer.resize(wanted, 0);
            let got = match self.file.handle.read_at(at, &mut self.buffer) {
                Err(error) if is_unreadable(&error) => self.read_by_pages(at)?,
                other => other?,
            };
            self.buffer.truncate(got);
            self.at = at;
        }
        let from = (at - self.at) as usize;
        Ok(self.buffer.get(from..(from + count).min(self.buffer.len())).unwrap_or_default())
    }

    // What the disk does not give is zero, which no entry is, and noted: it costs no more than what lies in it.
    fn read_by_pages(&mut self, from: u64) -> io::Result<usize> {
        if self.unread_bytes >= UNREAD_BYTES_MAX {
            self.buffer.fill(0);
            self.file.note_unread(Unread { at: from, bytes: self.buffer.len() as u64, log: None });
            return Ok(self.buffer.len());
        }
        let (file, unread) = (&self.file, &mut self.unread_bytes);
        read_by_pages(&*file.handle, from, &mut self.buffer, |at, count| {
            *unread += count as u64;
            file.note_unread(Unread { at, bytes: count as u64, log: None });
        })
    }

    /// The header of an entry at `at`, if there is one and the entry ends within the file.
    pub(crate) fn header(&mut self, at: u64) -> io::Result<Option<EntryHeader>> {
        let generation = self.file.generation;
        let len = self.len;
        let bytes = self.bytes(at, ENTRY_HEADER_BYTES)?;
        Ok(EntryHeader::decode(&generation, at, bytes).filter(|header| header.end() <= len))
    }

    /// Calls `note` with each header with a sequence number above `seq`, in order.
    pub(crate) fn headers(&mut self, mut seq: u64, mut note: impl FnMut(&EntryHeader)) -> io::Result<()> {
        let mut at = ENTRIES_AT;
        while at + ENTRY_HEADER_BYTES as u64 <= self.len {
            match self.header(at)?.filter(|header| header.seq > seq) {
                Some(header) => {
                    seq = header.seq;
                    at = header.end();
                    note(&header);
                }
                None => at += ALIGN,
            }
        }
        Ok(())
    }
}
