//! Making journal files ready ahead of use: reserved, with a fresh generation in the header, durable with their name.

use std::io;
use std::sync::Arc;

use super::frame::{FILE_HEADER_BYTES, FileHeader, Generation, HEADER_COPY_AT, JOURNAL, file_name};
use crate::{Disk, DiskFile};

/// An open journal file.
pub(crate) struct JournalFile {
    pub(crate) number: u32,
    pub(crate) generation: Generation,
    pub(crate) handle: Arc<dyn DiskFile>,
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
    Ok(Arc::new(JournalFile { number, generation, handle }))
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
