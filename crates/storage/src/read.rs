//! What a read is asked and answers.

use bytes::Bytes;
use model::{FormatTag, LogId, Offset, Wall};

use crate::FileRange;
use crate::index::Extent;
use crate::reads::chunk;

/// Names a read that waits for the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadId(pub u64);

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The log.
    pub log: LogId,
    /// The first offset wanted. The answer begins with the extent that holds it (or the next one after a gap).
    pub from: Offset,
    /// No extent that begins at or after this offset is served. The first extent may reach over it (storage cannot cut
    /// units), later ones do not: who must not see beyond cuts by [`model::Format::split`].
    pub until: Offset,
    /// Stop before exceeding this many bytes; the first chunk is served whole however large it is.
    pub bytes_max: usize,
}

/// Units of one extent (or of a run of adjacent extents of one format), back to back.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Offset of the first message.
    pub first: Offset,
    /// Offset of the last message.
    pub last: Offset,
    /// How many messages.
    pub count: u32,
    /// The latest time in it.
    pub time_max: Wall,
    /// What the units are.
    pub format: FormatTag,
    /// The units as stored. Shared, not copied, when they come from the tail cache.
    pub units: Bytes,
}

/// The answer to a read.
#[derive(Clone, Debug)]
pub enum Read {
    /// What there is from memory or the page cache; empty when `from` is the end.
    Ready(Vec<Chunk>),
    /// The disk must be waited for: [`crate::Storage::complete`] will name this id, then ask again.
    Pending(ReadId),
}

/// How many bytes of a [`StoredChunk`] come with it.
pub const HEAD_BYTES: usize = 64;

/// A chunk that stays in its file until it is sent.
#[derive(Clone, Debug)]
pub struct StoredChunk {
    /// Offset of the first message; not before the offset asked for.
    pub first: Offset,
    /// Offset of the last message.
    pub last: Offset,
    /// How many messages.
    pub count: u32,
    /// The first bytes of the units.
    pub head: [u8; HEAD_BYTES],
    /// All of the units.
    pub range: FileRange,
}

/// Chunks of one format that lie back to back in memory. They are one piece for who wants all of them.
#[derive(Clone, Debug)]
pub struct Together {
    /// What the units are.
    pub format: FormatTag,
    /// All units.
    pub units: Bytes,
    pub(crate) extents: Vec<(Extent, usize)>,
}

impl Together {
    /// Each chunk, oldest first.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> {
        self.extents.iter().map(|(extent, at)| {
            let end = at + extent.bytes as usize;
            chunk(extent, self.units.slice(*at..end))
        })
    }

    /// Whether `is_so` of each chunk's first offset and units.
    pub fn all(&self, mut is_so: impl FnMut(Offset, &[u8]) -> bool) -> bool {
        let units = |(extent, at): &(Extent, usize)| self.units.get(*at..at + extent.bytes as usize);
        self.extents.iter().all(|extent| units(extent).is_some_and(|units| is_so(extent.0.first, units)))
    }

    /// As if they were one.
    #[must_use]
    pub fn whole(&self) -> Option<Chunk> {
        let ((first, _), (last, _)) = (self.extents.first()?, self.extents.last()?);
        Some(Chunk {
            first: first.first,
            last: last.last(),
            count: self.extents.iter().map(|(extent, _)| extent.count).sum(),
            time_max: self.extents.iter().map(|(extent, _)| extent.time_max).max()?,
            format: self.format,
            units: self.units.clone(),
        })
    }
}

/// A part of what is read to be sent on.
#[derive(Clone, Debug)]
pub enum Part {
    /// In memory.
    Chunk(Chunk),
    /// Several in memory.
    Together(Together),
    /// In its file, of the format asked for, checked.
    Stored(StoredChunk),
}

/// The answer to a read to be sent on.
#[derive(Clone, Debug)]
pub enum Parts {
    /// What there is, oldest first; empty when `from` is the end.
    Ready(Vec<Part>),
    /// The disk must be waited for, as in [`Read::Pending`].
    Pending(ReadId),
}
