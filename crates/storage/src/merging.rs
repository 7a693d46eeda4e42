//! Which segments are merged, and when: those that are mostly dead are written anew without the dead part, and as soon
//! as there are several of about one size they become one. So the number of segments stays small, space comes back, and
//! a byte that lives long is copied a few times only.

use std::io;
use std::sync::Arc;

use crate::engine::Storage;
use crate::index::SegmentUse;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::segment::build::Built;
use crate::segment::merge::{Group, merge};
use crate::segment::segment_name;
use crate::settle::{Freed, Stage};
use crate::{Completed, StorageError};

/// So many segments of one size class become one; the classes grow by this factor.
const FAN: usize = 8;
/// The smallest class is this part of a journal file.
const UNIT_PART: u64 = 128;

fn class(live: u64, unit: u64) -> u32 {
    (live / unit.max(1) + 1).ilog(FAN as u64)
}

// What to merge: the mostly dead first, then the first full class. Never more than `bytes_max` at once, and nothing
// that is as large alone.
fn choose(segments: impl Iterator<Item = (u64, SegmentUse)>, unit: u64, bytes_max: u64) -> Vec<u64> {
    let mut segments: Vec<(u64, SegmentUse)> = segments.filter(|(_, segment)| segment.live < bytes_max).collect();
    segments.sort_unstable_by_key(|(number, _)| *number);
    let mut sum = 0;
    let mut fits = |segment: &SegmentUse| {
        sum += segment.live;
        sum <= bytes_max
    };
    let dead = |segment: &SegmentUse| segment.bytes >= unit && segment.live < segment.bytes / 2;
    let chosen: Vec<u64> = segments
        .iter()
        .filter(|(_, segment)| dead(segment) && fits(segment))
        .map(|(number, _)| *number)
        .take(FAN)
        .collect();
    if !chosen.is_empty() {
        return chosen;
    }
    let largest = segments.iter().map(|(_, segment)| class(segment.live, unit)).max().unwrap_or(0);
    for wanted in 0..=largest {
        let of_class: Vec<&(u64, SegmentUse)> =
            segments.iter().filter(|(_, segment)| class(segment.live, unit) == wanted).take(FAN).collect();
        let sum: u64 = of_class.iter().map(|(_, segment)| segment.live).sum();
        if of_class.len() == FAN && sum <= bytes_max {
            return of_class.iter().map(|(number, _)| *number).collect();
        }
    }
    Vec::new()
}

impl Storage {
    /// Starts a merge if one is due.
    pub(crate) fn start_merging(&mut self) {
        if !std::mem::take(&mut self.settler.merge_due) {
            return;
        }
        let file_bytes = self.options.journal_file_bytes;
        let all = self.index.segments().iter().map(|(number, segment)| (*number, *segment));
        let sound = all.filter(|(number, _)| !self.settler.unmergeable.contains(number));
        let chosen = choose(sound, file_bytes / UNIT_PART, 2 * file_bytes);
        if chosen.is_empty() {
            return;
        }
        let mut groups: Vec<Group> = Vec::new();
        for (id, log) in self.index.iter() {
            let mut joins = false;
            for run in &log.runs {
                if !chosen.contains(&run.segment) {
                    joins = false;
                    continue;
                }
                match groups.last_mut().filter(|_| joins) {
                    Some(group) => group.runs.push(*run),
                    None => groups.push(Group { log: id, start: log.start, runs: vec![*run] }),
                }
                joins = true;
            }
        }
        groups.sort_unstable_by_key(|group| (group.log, group.runs.first().map(|run| run.first)));
        let number = self.settler.segment_next;
        self.settler.segment_next += 1;
        self.settler.stage = Stage::Merging;
        let disk = Arc::clone(&self.disk);
        self.jobs.push_back(Job::new(Lane::Work, move || {
            let result = merge(&*disk, number, &groups).and_then(|built| {
                disk.sync_folder("segments")?;
                Ok(built)
            });
            if !matches!(result, Ok(Some(_))) {
                let _ = disk.remove(&segment_name(number)); // else an orphan for the next start
            }
            JobDone { what: Outcome::Merged { groups, result } }
        }));
    }

    /// The merged segment is durable: readers go there, and the checkpoint that knows of it is drawn up.
    ///
    /// # Errors
    /// [`StorageError::Closed`] when the disk failed.
    pub(crate) fn merged(
        &mut self,
        groups: &[Group],
        result: io::Result<Option<Built>>,
    ) -> Result<Completed, StorageError> {
        if !matches!(self.settler.stage, Stage::Merging) {
            return Ok(Completed::Nothing);
        }
        let built = match result {
            Ok(Some(built)) => built,
            Ok(None) => {
                self.settler.stage = Stage::Idle;
                let mut sources = groups.iter().flat_map(|group| &group.runs).map(|run| run.segment);
                // One of them is damaged; unless it was only trimmed away meanwhile.
                if sources.clone().all(|number| self.index.holds(number)) {
                    self.settler.unmergeable.extend(&mut sources);
                }
                return Ok(Completed::Nothing);
            }
            Err(error) => return self.settling_failed("merging segments", &error),
        };
        self.note_doomed(); // those before go by their own rule
        self.settler.merges += 1;
        self.settler.written_bytes += built.bytes;
        for (group, (log, run)) in groups.iter().zip(&built.runs) {
            self.index.replace(*log, &group.runs, *run);
        }
        self.index.note_segment(built.number, built.runs.iter().map(|(_, run)| run.bytes).sum());
        // The checkpoint of today still points to the old ones: they go after the next.
        let mut freed = Freed { journal: 0, segments: self.index.take_doomed() };
        freed.segments.iter().for_each(|number| self.segments.remove(*number));
        if self.index.holds(built.number) {
            self.segments.insert(built.number, built.open);
        } else {
            freed.segments.push(built.number);
        }
        self.begin_checkpoint(freed);
        Ok(Completed::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(live: u64, bytes: u64) -> SegmentUse {
        SegmentUse { runs: 1, live, bytes }
    }

    #[test]
    fn the_mostly_dead_and_full_classes_are_merged() {
        let small = |count: u64| (0..count).map(|n| (n, segment(100, 100)));
        assert!(choose(small(7), 1000, 1 << 20).is_empty());
        assert_eq!(choose(small(9), 1000, 1 << 20), (0..8).collect::<Vec<_>>());
        let dead = small(9).chain([(20, segment(10, 5000))]);
        assert_eq!(choose(dead, 1000, 1 << 20), [20]);
        let large = (0..8).map(|n| (n, segment(1 << 18, 1 << 18)));
        assert!(choose(large, 1000, 1 << 20).is_empty(), "more than is moved at once");
    }
}
