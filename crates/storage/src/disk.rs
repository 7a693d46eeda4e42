//! The disk behind a trait, so that tests can keep unsynced writes apart, drop, reorder and tear them, and fail any
//! call.
//!
//! Names are paths relative to the data folder, made by this crate from ids only (`journal/…`, `packs/…`), never
//! from anything a client said.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What reads past the page cache begin and end at multiples of, in the file and in memory.
pub const PAST_CACHE_STEP: usize = 4096;

/// A folder on a volume.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing; creates it (and its folder) when `create` is set.
    ///
    /// # Errors
    /// The operating system's.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>>;

    /// Names of the files directly in `folder`, without the folder; empty when there is none.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Names of the folders directly in `folder`; empty when there is none.
    ///
    /// # Errors
    /// The operating system's.
    fn list_folders(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Removes a folder that is empty.
    ///
    /// # Errors
    /// The operating system's; also when it is not empty.
    fn remove_folder(&self, folder: &str) -> io::Result<()>;

    /// Renames a file, replacing the target.
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// The operating system's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals in `folder` durable.
    ///
    /// # Errors
    /// The operating system's.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;

    /// Bytes free on the volume.
    ///
    /// # Errors
    /// The operating system's.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Takes the data folder for this process; held until the disk is dropped.
    ///
    /// # Errors
    /// `WouldBlock` when another process holds it.
    fn lock(&self) -> io::Result<()>;
}

/// An open file. All calls may be made from any thread.
#[allow(clippy::len_without_is_empty)] // nobody asks whether a file is empty
pub trait DiskFile: Send + Sync {
    /// Writes all of `bytes` at `at`, extending the file as needed.
    ///
    /// # Errors
    /// The operating system's; how much was written is then unknown.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes all of `pieces` back to back from `at` on, as one call if the disk has one. The `spare` bytes behind may
    /// become zeros, if that spares the writer a wait: of a page that is not in memory and not written whole, the rest
    /// must be read from the disk first.
    ///
    /// # Errors
    /// As [`DiskFile::write_at`].
    fn write_over(&self, at: u64, pieces: &[&[u8]], spare: usize) -> io::Result<()> {
        let _ = spare;
        let mut at = at;
        for piece in pieces {
            self.write_at(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Fills `buffer` from `at`; answers how many bytes there were (fewer only at the end of the file).
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// As [`DiskFile::read_at`], past the page cache; `None` where that cannot be done. `at`, and the place and length
    /// of `buffer`, are multiples of [`PAST_CACHE_STEP`].
    ///
    /// # Errors
    /// The operating system's.
    fn read_past_cache(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let _ = (at, buffer);
        Ok(None)
    }

    /// As [`DiskFile::read_at`], but `None` when the bytes are not all in memory and the disk would have to be waited
    /// for.
    ///
    /// # Errors
    /// The operating system's.
    fn read_now(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Makes the file's data durable (fdatasync).
    ///
    /// # Errors
    /// The operating system's. After an error nothing may be assumed of what was unsynced: never call again and believe
    /// it.
    fn sync(&self) -> io::Result<()>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn len(&self) -> io::Result<u64>;

    /// Cuts the file or extends it with zeros.
    ///
    /// # Errors
    /// The operating system's.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Reserves space up to `bytes` and makes the file that long.
    ///
    /// # Errors
    /// `StorageFull` when the volume cannot hold it.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Whether all of these bytes are in memory, or on their way into it: cheaper to ask than
    /// [`DiskFile::resident_bytes`], and enough for who may wait a moment, or is told by [`DiskFile::read_now`].
    fn are_cached(&self, at: u64, bytes: usize) -> bool {
        self.resident_bytes(at, bytes) == bytes
    }

    /// How many of these bytes, from the first on, are in memory, so that sending them waits for no disk. None when
    /// nobody can say.
    fn resident_bytes(&self, at: u64, bytes: usize) -> usize {
        let _ = (at, bytes);
        0
    }

    /// What the operating system knows the file by, if it does: ranges of such a file can go to a socket uncopied.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
