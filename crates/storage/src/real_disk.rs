//! The disk of the operating system: a folder on a mounted volume. Used by the server; tests mostly use the simulated
//! one. It retries interrupted calls, finishes short ones and reads again, for a second, what the disk does not give.
//! It does nothing else on its own.

use std::fs::{self, File, FileType};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::disk::PAST_CACHE_STEP;
use crate::disk_pages::Pages;
use crate::patience::Patience;
use crate::{Disk, DiskFile};

/// From this size on the kernel is asked whether bytes are in memory before they are read without waiting.
const ASK_FIRST_BYTES: usize = 8 << 10;

/// What [`DiskFile::write_over`] may write behind, at most.
const ZEROS: [u8; 4096] = [0; 4096];
/// So much one call of [`DiskFile::write_at`] hands over. A kernel that does not preempt itself copies all of it first,
/// a millisecond for a megabyte where the page cache gets new pages, and whoever appends waits for the core so long.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that one call writes (IOV_MAX).
const SLICES_MAX: usize = 1024;

/// A data folder.
#[derive(Debug)]
pub struct RealDisk {
    folder: PathBuf,
    // The lock lives as long as the open file does; the kernel lets go of it when the process dies.
    held: Mutex<Option<File>>,
}

impl RealDisk {
    /// The disk of `folder`, which is made when it is not there.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(folder: &Path) -> io::Result<RealDisk> {
        again(|| fs::create_dir_all(folder))?;
        Ok(RealDisk { folder: folder.to_path_buf(), held: Mutex::new(None) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn entries(&self, folder: &str, wanted: fn(&FileType) -> bool) -> io::Result<Vec<String>> {
        let entries = match again(|| fs::read_dir(self.path(folder))) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            // A name that is not UTF-8 is none of ours.
            if wanted(&entry.file_type()?)
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

impl Disk for RealDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path(name);
        let mut options = File::options();
        options.read(true).write(true).create(create).truncate(false);
        for _ in 0..8 {
            if create && let Some(parent) = path.parent() {
                again(|| fs::create_dir_all(parent))?;
            }
            match options.open(&path) {
                // The folder was empty and somebody has just removed it.
                Err(error) if create && error.kind() == io::ErrorKind::NotFound => {}
                opened => {
                    return Ok(Arc::new(RealFile {
                        file: opened?,
                        pages: Pages::default(),
                        past_cache: OnceLock::new(),
                        patience: Patience::default(),
                    }));
                }
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.entries(folder, FileType::is_file)
    }

    fn list_folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.entries(folder, FileType::is_dir)
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        again(|| fs::remove_dir(self.path(folder)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        again(|| fs::rename(self.path(from), self.path(to)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match again(|| fs::remove_file(self.path(name))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        File::open(self.path(folder))?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let volume = rustix::io::retry_on_intr(|| rustix::fs::statvfs(&self.folder))?;
        Ok(volume.f_bavail.saturating_mul(volume.f_frsize))
    }

    fn lock(&self) -> io::Result<()> {
        let file = File::options().create(true).truncate(false).write(true).open(self.path("lock"))?;
        let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, exclusive))?;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }
}

// Some calls are not tried again by the standard library when a signal interrupts them.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

struct RealFile {
    file: File,
    pages: Pages,
    /// The file once more, opened for reading past the page cache when that is first asked for.
    past_cache: OnceLock<Option<File>>,
    patience: Patience,
}

impl RealFile {
    #[cfg(target_os = "linux")]
    fn open_past_cache(&self) -> Option<File> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::OpenOptionsExt;
        // By its descriptor: the file may have got another name, or none, since it was opened.
        let name = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        File::options().read(true).custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32).open(name).ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn open_past_cache(&self) -> Option<File> {
        None
    }
}

fn read_fully(file: &File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

// As `read_fully`, of a file opened for reading past the page cache; `None` from a file system that cannot.
fn read_directly(file: &File, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(count) => {
                done += count;
                // The end of the file; a call that begins off the step would be refused.
                if count % PAST_CACHE_STEP != 0 || count == 0 {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(done))
}

impl DiskFile for RealFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut at = at;
        for piece in bytes.chunks(PIECE_BYTES) {
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn write_over(&self, at: u64, pieces: &[&[u8]], spare: usize) -> io::Result<()> {
        let zeros = ZEROS.get(..spare).unwrap_or_default();
        let mut slices: Vec<_> = pieces.iter().chain([&zeros]).map(|piece| IoSlice::new(piece)).collect();
        let end = at + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let (mut left, mut at) = (slices.as_mut_slice(), at);
        // Only what matters must be there.
        while at < end {
            let (now, _) = left.split_at(left.len().min(SLICES_MAX));
            let written = rustix::io::retry_on_intr(|| rustix::io::pwritev(&self.file, now, at))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            at += written as u64;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.patience.read(std::thread::sleep, || read_fully(&self.file, at, buffer))
    }

    fn read_past_cache(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(file) = self.past_cache.get_or_init(|| self.open_past_cache()) else { return Ok(None) };
        self.patience.read(std::thread::sleep, || read_directly(file, at, buffer))
    }

    #[cfg(target_os = "linux")]
    fn read_now(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        use rustix::io::{Errno, ReadWriteFlags};
        let wanted = buffer.len();
        // The call copies what is there before it finds that the rest is not, and begins to read that ahead, megabytes
        // of it, on the thread that asks.
        if wanted >= ASK_FIRST_BYTES && !self.are_cached(at, wanted) {
            return Ok(None);
        }
        let mut done = 0;
        while done < wanted {
            let Some(rest) = buffer.get_mut(done..) else { break };
            let slices = &mut [io::IoSliceMut::new(rest)];
            match rustix::io::preadv2(self.file.as_fd(), slices, at + done as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => return Ok(Some(done)),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                // Not in memory, or a file system that cannot say: let the pool read it.
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(done))
    }

    #[cfg(not(target_os = "linux"))]
    fn read_now(&self, _at: u64, _buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let _ = self.file.as_fd();
        Ok(None) // no call asks without waiting: the pool reads it
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(again(|| self.file.metadata())?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        use rustix::io::Errno;
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, 0, bytes)) {
            Err(Errno::OPNOTSUPP) => self.file.set_len(bytes),
            other => Ok(other?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn are_cached(&self, at: u64, bytes: usize) -> bool {
        self.pages.are_cached(&self.file, at, bytes)
    }

    fn resident_bytes(&self, at: u64, bytes: usize) -> usize {
        self.pages.resident_bytes(&self.file, at, bytes)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn writing_over_reaches_as_far_as_was_spared_and_no_farther() {
        let folder = std::env::temp_dir().join(format!("fourfold-disk-{}", std::process::id()));
        let file = RealDisk::new(&folder).unwrap().open("file", true).unwrap();
        fs::remove_dir_all(&folder).unwrap(); // open, it lives on
        file.write_at(0, &[7; 10_000]).unwrap();
        file.write_over(4000, &[&[8; 100], &[8; 200]], 3892).unwrap();
        file.write_over(9000, &[&[9; 10]], 0).unwrap();
        let mut got = vec![0; 10_000];
        assert_eq!(file.read_at(0, &mut got).unwrap(), got.len());
        let run = |byte, count| vec![byte; count];
        assert!(got == [run(7, 4000), run(8, 300), run(0, 3892), run(7, 808), run(9, 10), run(7, 990)].concat());
    }
}
