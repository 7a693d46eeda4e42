//! Small extents of the window, from the page cache: stretches of journal files that were just read hold their
//! neighbours too, which readers of several logs come for next. So a system call brings many extents, where there are
//! such readers; whether there are is seen from what it saved so far.
//!
//! What it copies is not checked here. Nothing here waits for the disk. Used by [`crate::sending`].

use crate::DiskFile;
use crate::index::Extent;

/// Bytes of a stretch.
const STRETCH_BYTES: usize = 16 << 10;
/// Larger extents are read alone.
pub(crate) const SMALL_BYTES_MAX: usize = STRETCH_BYTES / 2;
/// Of the memory for reading ahead, one part in so many.
const SHARE: usize = 4;

/// What reading a stretch costs more than an extent alone, and what finding an extent there saves: 0.9 and 0.6 µs.
const COST: u32 = 3;
const GAIN: u32 = 2;
/// So much is lost, in the same measure, before extents are read alone: a reader of one log of many, two milliseconds.
const PATIENCE: u32 = 2000 * COST;
/// Then one in so many is tried, for those that come later.
const TRY_EVERY: u32 = 32;

#[derive(Default)]
struct Stretch {
    file: u32,
    number: u64,
    /// Empty: none.
    bytes: Vec<u8>,
}

/// The stretches: each has one place where it can be, so that neighbours never push each other out.
pub(crate) struct Near {
    stretches: Vec<Stretch>,
    places: usize,
    /// What may still be lost.
    patience: u32,
    alone: u32,
}

impl Near {
    /// Holds nothing, and never more than its share of `bytes_max`.
    pub(crate) fn new(bytes_max: usize) -> Near {
        Near { stretches: Vec::new(), places: bytes_max / SHARE / STRETCH_BYTES, patience: PATIENCE, alone: 0 }
    }

    /// Bytes of memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.bytes.capacity()).sum()
    }

    /// Appends the units of an extent of `file` to `to`; false when they are not in memory, or not all there. Of the
    /// file, nothing before `past` is ever written again.
    pub(crate) fn copy(&mut self, file: &dyn DiskFile, past: u64, extent: &Extent, to: &mut Vec<u8>) -> bool {
        let (at, bytes) = (u64::from(extent.at), extent.bytes as usize);
        let before = to.len();
        let numbers = at / STRETCH_BYTES as u64..=(at + bytes as u64 - 1) / STRETCH_BYTES as u64;
        let mut is_here = true;
        for number in numbers.clone() {
            is_here = is_here && self.get(extent.file, number).is_some();
        }
        if is_here {
            self.patience = (self.patience + GAIN).min(PATIENCE);
        } else if !self.tries() || !self.bring(file, past, (extent.file, numbers.clone())) {
            return read_alone(file, extent, to);
        }
        for number in numbers {
            let begin = number * STRETCH_BYTES as u64;
            let from = usize::try_from(at.saturating_sub(begin)).unwrap_or(usize::MAX);
            let end = usize::try_from(at + bytes as u64 - begin).unwrap_or(usize::MAX).min(STRETCH_BYTES);
            let part = self.get(extent.file, number).and_then(|stretch| stretch.bytes.get(from..end));
            to.extend_from_slice(part.unwrap_or_default());
        }
        if to.len() == before + bytes {
            return true;
        }
        // Where there are few places, its second half may have pushed out the first.
        to.truncate(before);
        read_alone(file, extent, to)
    }

    fn place(&self, file: u32, number: u64) -> Option<usize> {
        // Files are 128 MiB as a rule, a multiple of all places: the file moves it.
        let spread = number.wrapping_add(u64::from(file) * 211);
        (self.places > 0).then(|| (spread % self.places as u64) as usize)
    }

    fn get(&self, file: u32, number: u64) -> Option<&Stretch> {
        let found = self.place(file, number).and_then(|place| self.stretches.get(place));
        found.filter(|found| (found.file, found.number) == (file, number) && !found.bytes.is_empty())
    }

    fn tries(&mut self) -> bool {
        if self.patience >= COST {
            return true;
        }
        self.alone = (self.alone + 1) % TRY_EVERY;
        self.alone == 0
    }

    fn bring(&mut self, handle: &dyn DiskFile, past: u64, wanted: (u32, std::ops::RangeInclusive<u64>)) -> bool {
        let (file, numbers) = wanted;
        if self.stretches.is_empty() {
            self.stretches.resize_with(self.places, Stretch::default);
        }
        for number in numbers {
            let begin = number * STRETCH_BYTES as u64;
            if self.get(file, number).is_some() {
                continue;
            }
            let place = self.place(file, number);
            let Some(stretch) = place.and_then(|place| self.stretches.get_mut(place)) else { return false };
            if begin + STRETCH_BYTES as u64 > past {
                return false;
            }
            stretch.bytes.resize(STRETCH_BYTES, 0);
            (stretch.file, stretch.number) = (file, number);
            if !matches!(handle.read_now(begin, &mut stretch.bytes), Ok(Some(STRETCH_BYTES))) {
                stretch.bytes.clear();
                return false;
            }
            self.patience = self.patience.saturating_sub(COST);
        }
        true
    }
}

fn read_alone(file: &dyn DiskFile, extent: &Extent, to: &mut Vec<u8>) -> bool {
    let (before, bytes) = (to.len(), extent.bytes as usize);
    to.resize(before + bytes, 0);
    let read = to.get_mut(before..).map(|buffer| file.read_now(u64::from(extent.at), buffer));
    let is_here = matches!(read, Some(Ok(Some(got))) if got == bytes);
    if !is_here {
        to.truncate(before);
    }
    is_here
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, SimDisk};
    use model::{FormatTag, Offset, Wall};
    use std::sync::Arc;

    const BYTES: usize = 1000;

    fn extent(at: usize) -> Extent {
        let (first, time_max, format) = (Offset(0), Wall(0), FormatTag(1));
        let (at, bytes) = (at as u32, BYTES as u32);
        Extent { first, time_max, file: 1, at, bytes, last_delta: 0, count: 1, crc: 0, format, lost: false }
    }

    fn file() -> (Arc<dyn DiskFile>, Vec<u8>) {
        let content: Vec<u8> = (0..20 * STRETCH_BYTES).map(|at| (at / 7) as u8).collect();
        let file = SimDisk::new().open("file", true).unwrap();
        file.write_at(0, &content).unwrap();
        (file, content)
    }

    #[test]
    fn extents_come_as_they_lie_wherever_stretches_end_and_whoever_else_is_held() {
        let (file, content) = file();
        // One place, four, all; and none.
        for bytes_max in [SHARE * STRETCH_BYTES, 4 * SHARE * STRETCH_BYTES, 1 << 30, 0] {
            let mut near = Near::new(bytes_max);
            let mut got = Vec::new();
            let ats: Vec<usize> = (0..200).map(|n| n * 7919 % (content.len() - BYTES)).collect();
            for at in &ats {
                got.clear();
                got.push(7);
                assert!(near.copy(&*file, 1 << 30, &extent(*at), &mut got));
                assert_eq!(got[1..], content[*at..*at + BYTES]);
            }
            assert!(near.bytes() <= bytes_max / SHARE);
        }
    }

    #[test]
    fn what_may_still_be_written_is_not_held() {
        let (file, _) = file();
        let mut near = Near::new(1 << 30);
        let mut got = Vec::new();
        let past = STRETCH_BYTES as u64 + BYTES as u64;
        assert!(near.copy(&*file, past, &extent(STRETCH_BYTES), &mut got));
        file.write_at(past, &[1; BYTES]).unwrap();
        got.clear();
        assert!(near.copy(&*file, past + BYTES as u64, &extent(past as usize), &mut got));
        assert_eq!(got, [1; BYTES]);
        assert!(!near.copy(&*file, 1 << 30, &extent(20 * STRETCH_BYTES - 1), &mut got), "beyond the end");
        assert_eq!(got.len(), BYTES);
    }

    #[test]
    fn it_is_left_alone_when_nobody_comes_for_the_neighbours_and_taken_up_when_somebody_does() {
        let (file, _) = file();
        let mut near = Near::new(SHARE * STRETCH_BYTES); // one place: nothing is ever found again
        let mut got = Vec::new();
        let mut alternate = |near: &mut Near, count: usize| {
            for n in 0..count {
                got.clear();
                assert!(near.copy(&*file, 1 << 30, &extent(n % 19 * STRETCH_BYTES), &mut got));
            }
        };
        alternate(&mut near, 3000);
        assert!(near.patience < PATIENCE / 20, "{}", near.patience);
        got.clear();
        (0..200 * 64).for_each(|_| {
            got.clear();
            near.copy(&*file, 1 << 30, &extent(0), &mut got);
        });
        assert!(near.patience > PATIENCE / 2);
    }
}
