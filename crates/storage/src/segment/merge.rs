//! Merging segments: copies runs of several into one, neighbours of a log joined. Runs as a job.

use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;

use model::{LogId, Offset};

use super::build::{Builder, Built};
use super::open::{Cut, OpenSegment, open_segment};
use crate::Disk;
use crate::index::{IdMap, Run};
use crate::reads::{Place, Source, read_place};

/// Runs of one log, neighbours in its order, that become one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub(crate) log: LogId,
    /// What lies before this is not copied.
    pub(crate) start: Offset,
    pub(crate) runs: Vec<Run>,
}

/// Copies `groups` (in the order of logs and offsets) into the segment `number`. `None` when anything cannot be read:
/// the segments then stay as they are, so that what can be read of them still can.
///
/// # Errors
/// The disk's, when writing.
pub(crate) fn merge(disk: &dyn Disk, number: u64, groups: &[Group]) -> io::Result<Option<Built>> {
    let mut builder = Builder::new(disk, number)?;
    let mut open: IdMap<u64, OpenSegment> = IdMap::default();
    for group in groups {
        builder.begin_run()?;
        for run in &group.runs {
            let segment = match open.entry(run.segment) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    // One that is gone was trimmed away meanwhile; one that cannot be read is left alone.
                    let Ok(Some(segment)) = open_segment(disk, run.segment) else { return Ok(None) };
                    place.insert(segment)
                }
            };
            if !copy(segment, group, run, &mut builder)? {
                return Ok(None);
            }
        }
    }
    let built = builder.finish()?;
    Ok(Some(built).filter(|built| built.runs.len() == groups.len()))
}

fn copy(segment: &OpenSegment, group: &Group, run: &Run, builder: &mut Builder) -> io::Result<bool> {
    let footer = Arc::clone(&segment.footer);
    let Some(found) =
        footer.run(group.log, run.first).filter(|found| (found.first, found.last) == (run.first, run.last))
    else {
        return Ok(false);
    };
    let ends = found.blocks.iter().skip(1).map(|block| block.at).chain([found.end]);
    for (block, end) in found.blocks.iter().zip(ends) {
        let Some(bytes) = end.checked_sub(block.at) else { return Ok(false) };
        let place = Place { source: Source::Segment(run.segment), at: block.at, bytes: bytes as usize };
        let Ok(bytes) = read_place(&*segment.handle, place).result else { return Ok(false) };
        let cut = Cut { log: group.log, at: block.at, bytes: &bytes, from: group.start };
        let mut outcome = Ok(());
        let walked = cut.walk(&segment.generation, |header, units| {
            outcome = builder.add(header, &units);
            outcome.is_ok()
        });
        outcome?;
        if walked.is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
