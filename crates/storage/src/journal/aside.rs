//! Keeping journal files of which the disk did not give all: once they are settled they are renamed, not used again.
//! From the checkpoint that lets go of them until they are renamed a mark beside them says so: else a start in between
//! would take them for files that only wait to be removed, and what may still be got out of them would be gone.

use std::io;

use super::frame::file_name;
use crate::Disk;

const FOLDER: &str = "journal";

/// What the file is named when it is nobody's any more.
fn kept_name(number: u32) -> String {
    format!("{}.unreadable", file_name(u64::from(number)))
}

/// The name of its mark.
fn mark_name(number: u32) -> String {
    format!("{}.keep", file_name(u64::from(number)))
}

/// Marks files, durably. Before the checkpoint is written that no longer needs them.
///
/// # Errors
/// The disk's.
pub(crate) fn mark(disk: &dyn Disk, numbers: &[u32]) -> io::Result<()> {
    if numbers.is_empty() {
        return Ok(());
    }
    for number in numbers {
        disk.open(&mark_name(*number), true)?;
    }
    disk.sync_folder(FOLDER)
}

/// Renames files that are nobody's any more; their marks go after the new names are durable.
///
/// # Errors
/// The disk's. The next start tries again with what is marked.
pub(crate) fn set_aside(disk: &dyn Disk, numbers: &[u32]) -> io::Result<()> {
    if numbers.is_empty() {
        return Ok(());
    }
    for number in numbers {
        let (name, kept) = (file_name(u64::from(*number)), kept_name(*number));
        disk.rename(&name, &kept)?;
        tracing::error!("{name} could not be read everywhere: it is kept as {kept}");
    }
    disk.sync_folder(FOLDER)?;
    numbers.iter().try_for_each(|number| disk.remove(&mark_name(*number)))
}

/// Does at a start what a stop has kept from being done: of the files called `names`, those marked and numbered below
/// `first_file` are set aside; other marks are of no use any more.
///
/// # Errors
/// The disk's.
pub(crate) fn recover(disk: &dyn Disk, names: &[String], first_file: u32) -> io::Result<()> {
    let is_there = |number: &u32| names.iter().any(|name| name.parse() == Ok(*number));
    let marked = names.iter().filter_map(|name| name.strip_suffix(".keep")?.parse::<u32>().ok());
    let (aside, stale): (Vec<u32>, Vec<u32>) = marked.partition(|number| *number < first_file && is_there(number));
    set_aside(disk, &aside)?;
    stale.iter().try_for_each(|number| disk.remove(&mark_name(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    #[test]
    fn a_marked_file_is_kept_by_the_start_that_no_longer_needs_it_and_no_mark_stays() {
        let disk = SimDisk::new();
        for number in [3, 4, 5] {
            disk.open(&file_name(number), true).unwrap();
        }
        mark(&disk, &[2, 4, 5]).unwrap();
        recover(&disk, &disk.list(FOLDER).unwrap(), 5).unwrap();
        assert_eq!(disk.names(), [file_name(3), kept_name(4), file_name(5)]);
    }
}
