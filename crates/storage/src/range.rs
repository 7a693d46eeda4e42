//! A range of a file on its way to a reader: stored bytes that nobody has to copy through memory. It keeps its file
//! open, so removing the file does not hurt it, and keeps a journal file from being used again.
//!
//! It sends nothing itself: whoever owns the socket does, when the range is in memory; else a job reads it.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytes::Bytes;

use crate::DiskFile;

/// Bytes of a file that were found right since it was opened.
#[derive(Clone)]
pub struct FileRange {
    file: Arc<dyn DiskFile>,
    at: u64,
    bytes: usize,
}

impl FileRange {
    /// A range of `file`; `None` where the operating system cannot send from it.
    #[must_use]
    pub fn of(file: &Arc<dyn DiskFile>, at: u64, bytes: usize) -> Option<FileRange> {
        file.descriptor()?;
        Some(FileRange { file: Arc::clone(file), at, bytes })
    }

    /// Where it begins in its file.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first `count` bytes have been sent.
    pub fn advance(&mut self, count: usize) {
        let count = count.min(self.bytes);
        self.at += count as u64;
        self.bytes -= count;
    }

    /// The first bytes of it, at most `count`.
    #[must_use]
    pub fn front(&self, count: usize) -> FileRange {
        FileRange { bytes: self.bytes.min(count), ..self.clone() }
    }

    /// The bytes from its first on, at most `count` and beyond its own end too, that can be sent without waiting for a
    /// disk.
    #[must_use]
    pub fn resident(&self, count: usize) -> FileRange {
        FileRange { bytes: self.file.resident_bytes(self.at, count), ..self.clone() }
    }

    /// As [`FileRange::resident`], all or nothing and for who may wait a moment: what is just being read counts too.
    #[must_use]
    pub fn cached(&self, count: usize) -> FileRange {
        let has = |bytes: &usize| self.file.are_cached(self.at, *bytes);
        FileRange { bytes: [count, self.bytes.min(count)].into_iter().find(has).unwrap_or(0), ..self.clone() }
    }

    /// Whether all of `other` lies in it.
    #[must_use]
    pub fn covers(&self, other: &FileRange) -> bool {
        let (end, end_of_other) = (self.at + self.bytes as u64, other.at + other.bytes as u64);
        Arc::ptr_eq(&self.file, &other.file) && self.at <= other.at && end_of_other <= end
    }

    /// Whether it is a range of `file`.
    pub(crate) fn is_of(&self, file: &Arc<dyn DiskFile>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }

    /// What to send from, at [`FileRange::at`].
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    /// Reads it, however long the disk takes: never on the data thread.
    ///
    /// # Errors
    /// The disk's; `UnexpectedEof` when the file is shorter.
    pub fn read(&self) -> io::Result<Bytes> {
        let mut buffer = vec![0; self.bytes];
        match self.file.read_at(self.at, &mut buffer)? {
            got if got == self.bytes => Ok(Bytes::from(buffer)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl fmt::Debug for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileRange({}..{})", self.at, self.at + self.bytes as u64)
    }
}

impl PartialEq for FileRange {
    fn eq(&self, other: &FileRange) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && (self.at, self.bytes) == (other.at, other.bytes)
    }
}

impl Eq for FileRange {}
