//! Making journal files ready ahead of use: reserved, with a fresh generation in the header, durable with their name.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use model::LogId;

use super::frame::{FILE_HEADER_BYTES, FileHeader, Generation, HEADER_COPY_AT, JOURNAL, file_name};
use crate::disk::PAST_CACHE_STEP;
use crate::{Disk, DiskFile};

/// How often bytes are read before an error of the disk counts.
const TRIES: usize = 3;
const EIO: i32 = 5;

/// An open journal file.
pub(crate) struct JournalFile {
    pub(crate) number: u32,
    pub(crate) generation: Generation,
    pub(crate) handle: Arc<dyn DiskFile>,
    /// Where the disk did not give its bytes, however often it was asked.
    unread: Mutex<Vec<Unread>>,
}

/// Bytes that the disk does not give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unread {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Whose messages are in it, if that is known.
    pub(crate) log: Option<LogId>,
}

impl JournalFile {
    pub(crate) fn new(number: u32, generation: Generation, handle: Arc<dyn DiskFile>) -> JournalFile {
        JournalFile { number, generation, handle, unread: Mutex::default() }
    }

    /// Notes bytes that the disk does not give.
    pub(crate) fn note_unread(&self, unread: Unread) {
        let mut all = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().any(|known| known.at <= unread.at && unread.at + unread.bytes <= known.at + known.bytes) {
            return;
        }
        let joins = |last: &&mut Unread| last.log == unread.log && last.at + last.bytes == unread.at;
        match all.last_mut().filter(joins) {
            Some(last) => last.bytes += unread.bytes,
            None => all.push(unread),
        }
    }

    /// What the disk did not give so far, and has been noted.
    pub(crate) fn unread(&self) -> Vec<Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads as [`DiskFile::read_at`] does, again if the disk fails: once may be an accident.
///
/// # Errors
/// The disk's, the last time.
pub(crate) fn read_again(handle: &dyn DiskFile, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut tries = 1;
    loop {
        match handle.read_at(at, buffer) {
            Err(_) if tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

/// Whether the disk said that it cannot give these bytes, and not that it is gone.
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(EIO)
}

/// Bytes that are read alone where the disk does not give more at once.
const PAGE_BYTES: usize = 4 << 10;

/// Reads as [`read_again`]; what the disk does not give of it, though it gives others, is zero: whoever reads it checks
/// it, and finds damaged what lies there, and nothing else.
///
/// # Errors
/// The disk's, when it gives nothing.
pub(crate) fn read_around(handle: &dyn DiskFile, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let error = match handle.read_at(at, buffer) {
        Err(error) if is_unreadable(&error) => error,
        other => return other,
    };
    let mut is_all = true;
    let got = read_by_pages(handle, at, buffer, |_, _| is_all = false)?;
    if is_all || gives_others(handle) { Ok(got) } else { Err(error) }
}

/// Reads page by page, each as [`read_again`]; what the disk does not give is zero, and told to `lost`: where, and how
/// many bytes.
///
/// # Errors
/// The disk's, but for places that it cannot read.
pub(crate) fn read_by_pages(
    handle: &dyn DiskFile,
    from: u64,
    buffer: &mut [u8],
    mut lost: impl FnMut(u64, usize),
) -> io::Result<usize> {
    let mut got = 0;
    while let Some(rest) = buffer.get_mut(got..).filter(|rest| !rest.is_empty()) {
        let at = from + got as u64;
        let count = (PAGE_BYTES - (at % PAGE_BYTES as u64) as usize).min(rest.len());
        let Some(page) = rest.get_mut(..count) else { break };
        match read_again(handle, at, page) {
            Ok(read) => {
                got += read;
                if read < count {
                    break;
                }
            }
            Err(error) if is_unreadable(&error) => {
                page.fill(0);
                got += count;
                lost(at, count);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Whether the disk gives anything of the file, from three places far from each other: past the page cache, where that
/// can be, since what is in memory says nothing of a disk that is gone.
pub(crate) fn gives_others(handle: &dyn DiskFile) -> bool {
    let Ok(len) = handle.len() else { return false };
    let mut buffer = vec![0; 2 * PAST_CACHE_STEP];
    let skipped = buffer.as_ptr().align_offset(PAST_CACHE_STEP).min(PAST_CACHE_STEP);
    let Some(page) = buffer.get_mut(skipped..skipped + PAST_CACHE_STEP) else { return false };
    let gives = |at: u64| match handle.read_past_cache(at - at % PAST_CACHE_STEP as u64, page) {
        Ok(None) => handle.read_at(at, &mut [0]).is_ok(),
        past => past.is_ok(),
    };
    [0, len / 2, len.saturating_sub(1)].into_iter().any(gives)
}

/// Makes the file `number` ready, out of the settled file `spare` if there is one: its pages are written already, which
/// makes appending and syncing cheaper.
///
/// # Errors
/// The disk's. The file is then not used; what is left of it is removed, or at the next start.
pub(crate) fn prepare(disk: &dyn Disk, number: u32, spare: Option<u32>, bytes: u64) -> io::Result<Arc<JournalFile>> {
    let name = file_name(u64::from(number));
    let made = make(disk, &name, number, spare, bytes);
    if made.is_err() {
        let _ = disk.remove(&name); // if this fails too, the next start does it
    }
    made
}

fn make(disk: &dyn Disk, name: &str, number: u32, spare: Option<u32>, bytes: u64) -> io::Result<Arc<JournalFile>> {
    if let Some(spare) = spare {
        disk.rename(&file_name(u64::from(spare)), name)?;
    }
    let handle = disk.open(name, true)?;
    handle.allocate(bytes)?;
    let generation = new_generation()?;
    let mut head = FileHeader { number: u64::from(number), generation }.encode(&JOURNAL);
    head.resize(HEADER_COPY_AT, 0);
    head.extend_from_within(..FILE_HEADER_BYTES);
    handle.write_at(0, &head)?;
    handle.sync()?;
    disk.sync_folder("journal")?;
    Ok(Arc::new(JournalFile::new(number, generation, handle)))
}

/// A generation that no file had before.
///
/// # Errors
/// When the operating system has no randomness to give.
pub(crate) fn new_generation() -> io::Result<Generation> {
    let mut generation = Generation::default();
    getrandom::fill(&mut generation).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    /// A file of which the page cache has the first page, on a disk that is gone.
    struct Cached(Arc<dyn DiskFile>);

    fn gone() -> io::Error {
        io::Error::from_raw_os_error(EIO)
    }

    impl DiskFile for Cached {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(gone())
        }
        fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
            if at + buffer.len() as u64 <= PAGE_BYTES as u64 { self.0.read_at(at, buffer) } else { Err(gone()) }
        }
        fn read_past_cache(&self, _: u64, _: &mut [u8]) -> io::Result<Option<usize>> {
            Err(gone())
        }
        fn read_now(&self, _: u64, _: &mut [u8]) -> io::Result<Option<usize>> {
            Ok(None)
        }
        fn sync(&self) -> io::Result<()> {
            Err(gone())
        }
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Err(gone())
        }
        fn allocate(&self, _: u64) -> io::Result<()> {
            Err(gone())
        }
    }

    #[test]
    fn what_the_page_cache_has_does_not_make_a_disk_that_is_gone_a_bad_sector() {
        let disk = SimDisk::new();
        let file = disk.open("file", true).unwrap();
        file.write_at(0, &[7; 3 * PAGE_BYTES]).unwrap();
        let mut buffer = [1; 2 * PAGE_BYTES];
        assert_eq!(read_around(&Cached(Arc::clone(&file)), 0, &mut buffer).unwrap_err().raw_os_error(), Some(EIO));
        // One bad sector is one.
        disk.make_unreadable("file", 0..512);
        assert_eq!(read_around(&*file, 0, &mut buffer).unwrap(), buffer.len());
        assert!(buffer[..PAGE_BYTES] == [0; PAGE_BYTES] && buffer[PAGE_BYTES..] == [7; PAGE_BYTES]);
    }
}
