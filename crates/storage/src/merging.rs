//! Which files of the store are merged, and when. Packs go through two tiers of eight: what lives long is written to
//! the journal, to a pack, and twice more. Packs that are still small then go on merging (they are a small part of what
//! was written meanwhile), and those that are mostly dead are written anew without the dead part. Segments of one log
//! that are small are merged with their neighbours. So the number of files stays small and space comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{LogId, Offset};

use crate::copying::{Copying, Purpose};
use crate::engine::Storage;
use crate::inventory::SegmentUse;
use crate::segment::FileId;
use crate::segment::copy::{Group, Source, Task};

/// So many files of one tier become one of the next.
const FAN: usize = 8;
/// Files of this tier are merged only while they are small, or mostly dead.
const LAST_TIER: u8 = 2;
/// A merge moves at most so many journal files' bytes.
const MERGE_FILES_MAX: u64 = 32;
/// Pieces of the log table that one slice goes through.
const SLICE_CHUNKS: usize = 4;

/// The bounds of merging.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Packs of the last tier are small below this; segments below a quarter of it.
    small: u64,
    /// A merge moves no more.
    most: u64,
}

/// What is to be merged, as far as its logs have been gone through.
#[derive(Default)]
pub(crate) struct MergePlan {
    files: BTreeMap<u64, FileId>,
    tier: u8,
    chunk: usize,
    groups: Vec<Group>,
    bytes: u64,
}

// What to merge, and the tier it then has: the mostly dead first, then packs, then the segments of one log.
fn choose<'a>(files: impl Iterator<Item = (FileId, &'a SegmentUse)>, bounds: Bounds) -> Option<(Vec<FileId>, u8)> {
    let mut dead: Vec<(FileId, &SegmentUse)> = Vec::new();
    let mut packs: BTreeMap<u8, Vec<(FileId, &SegmentUse)>> = BTreeMap::new();
    let mut own: BTreeMap<(LogId, u8), Vec<(FileId, &SegmentUse)>> = BTreeMap::new();
    for (file, used) in files.filter(|(_, used)| used.live < bounds.most) {
        let is_small = used.live < if file.own.is_some() { bounds.small / 4 } else { bounds.small };
        if used.live < used.bytes / 2 && used.bytes >= bounds.small / 128 {
            dead.push((file, used));
        }
        match file.own {
            Some((log, _)) if is_small && used.tier < LAST_TIER => {
                own.entry((log, used.tier)).or_default().push((file, used));
            }
            None if is_small || used.tier < LAST_TIER => packs.entry(used.tier).or_default().push((file, used)),
            _ => {}
        }
    }
    if let Some(chosen) = oldest(dead, bounds.most, 1) {
        let tier = chosen.iter().map(|(_, used)| used.tier).max().unwrap_or(0);
        return Some((chosen.into_iter().map(|(file, _)| file).collect(), tier));
    }
    for (tier, files) in packs.into_iter().chain(own.into_iter().map(|((_, tier), files)| (tier, files))) {
        if files.len() < FAN {
            continue;
        }
        if let Some(chosen) = oldest(files, bounds.most, 2) {
            return Some((chosen.into_iter().map(|(file, _)| file).collect(), tier.saturating_add(1)));
        }
    }
    None
}

// The oldest of `files`, at most eight and no more than `most` bytes; nothing when they are less than `least`.
fn oldest(mut files: Vec<(FileId, &SegmentUse)>, most: u64, least: usize) -> Option<Vec<(FileId, &SegmentUse)>> {
    files.sort_unstable_by_key(|(file, _)| file.number);
    let mut sum = 0;
    let fits = |(_, used): &(FileId, &SegmentUse)| {
        sum += used.live;
        sum <= most
    };
    let chosen: Vec<_> = files.into_iter().take(FAN).take_while(fits).collect();
    (chosen.len() >= least).then_some(chosen)
}

impl Storage {
    /// Chooses what to merge, if something is due.
    pub(crate) fn start_merging(&mut self) {
        if self.settler.merging.is_some() || self.settler.merge_plan.is_some() || self.settling_waits() {
            return;
        }
        if !std::mem::take(&mut self.settler.merge_due) {
            return;
        }
        let file_bytes = self.options.journal_file_bytes;
        let bounds = Bounds { small: file_bytes, most: MERGE_FILES_MAX * file_bytes };
        let sound = self.index.store.iter().filter(|(file, _)| !self.settler.unmergeable.contains(&file.number));
        if let Some((files, tier)) = choose(sound, bounds) {
            let files = files.into_iter().map(|file| (file.number, file)).collect();
            self.settler.merge_plan = Some(MergePlan { files, tier, ..MergePlan::default() });
        }
    }

    /// Goes through a slice of the logs. Answers whether there is more.
    pub(crate) fn plan_merging(&mut self) -> bool {
        let Some(plan) = &mut self.settler.merge_plan else { return false };
        for _ in 0..SLICE_CHUNKS {
            let Some(logs) = self.index.slice(plan.chunk) else {
                self.begin_merging();
                return false;
            };
            plan.chunk += 1;
            for (id, log) in logs {
                let mut joins = false;
                let mut end = None;
                for run in &log.runs {
                    // No run crosses from one segment of the log into the next.
                    if end.is_none_or(|end| run.first >= end) {
                        joins = false;
                        end = Some(log.shape.next_after(run.first).unwrap_or(Offset(u64::MAX)));
                    }
                    let Some(file) = plan.files.get(&run.segment) else {
                        joins = false;
                        continue;
                    };
                    plan.bytes += run.bytes;
                    match plan.groups.last_mut().filter(|_| joins) {
                        Some(Group { source: Source::Runs(runs), .. }) => runs.push((*file, *run)),
                        _ => {
                            let source = Source::Runs(vec![(*file, *run)]);
                            let (start, step) = (log.start, self.index.step(id));
                            plan.groups.push(Group { log: id, start, step, source });
                        }
                    }
                    joins = true;
                }
            }
        }
        true
    }

    fn begin_merging(&mut self) {
        let Some(plan) = self.settler.merge_plan.take() else { return };
        let sources = plan.files.into_keys().collect();
        let (number, own_bytes) = (self.settler.file_next, self.own_bytes());
        let task = Task { groups: plan.groups, bytes: plan.bytes, files: Vec::new(), number, own_bytes };
        let purpose = Purpose::Merge { tier: plan.tier };
        let merging = Copying::begin(purpose, task, Arc::clone(&self.disk), self.writer.written_bytes);
        self.settler.merging = Some(merging.with_sources(sources));
        self.reserve_numbers();
        self.go_on_copying();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { small: 1000, most: 50_000 };

    fn pack(number: u64) -> FileId {
        FileId { number, own: None }
    }

    fn used(live: u64, bytes: u64, tier: u8) -> SegmentUse {
        SegmentUse { runs: 1, live, bytes, tier, own: None }
    }

    fn chosen(files: &[(FileId, SegmentUse)]) -> Option<(Vec<u64>, u8)> {
        let files = files.iter().map(|(file, used)| (*file, used));
        choose(files, BOUNDS).map(|(files, tier)| (files.iter().map(|file| file.number).collect(), tier))
    }

    #[test]
    fn eight_packs_of_a_tier_are_merged_and_the_mostly_dead_before_them() {
        let mut files: Vec<_> = (0..7).map(|n| (pack(n), used(5000, 5000, 0))).collect();
        assert_eq!(chosen(&files), None);
        files.push((pack(7), used(5000, 5000, 0)));
        assert_eq!(chosen(&files), Some(((0..8).collect(), 1)));
        files.push((pack(20), used(10, 5000, 2)));
        assert_eq!(chosen(&files), Some((vec![20], 2)));
    }

    #[test]
    fn the_last_tier_merges_only_while_it_is_small_and_never_more_than_is_moved_at_once() {
        let of = |live, tier| (0..8).map(|n| (pack(n), used(live, live, tier))).collect::<Vec<_>>();
        assert_eq!(chosen(&of(999, 2)).map(|(_, tier)| tier), Some(3));
        assert_eq!(chosen(&of(1000, 2)), None);
        assert_eq!(chosen(&of(20_000, 1)), Some((vec![0, 1], 2)));
        assert_eq!(chosen(&of(60_000, 0)), None);
    }

    #[test]
    fn small_segments_are_merged_with_those_of_the_same_log_only() {
        let own = |n: u64, log| (FileId { number: n, own: Some((LogId(log), Offset(n))) }, used(200, 200, 0));
        let mut files: Vec<_> = (0..14).map(|n| own(n, n % 2)).collect();
        assert_eq!(chosen(&files), None);
        files.push(own(14, 0));
        assert_eq!(chosen(&files), Some((vec![0, 2, 4, 6, 8, 10, 12, 14], 1)));
    }
}
