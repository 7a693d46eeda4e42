//! What an operator wants to know of a storage, as plain numbers.

use crate::engine::Storage;

/// Figures for metrics. Counters count since opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Bytes of units handed to [`Storage::commit`].
    pub unit_bytes: u64,
    /// Bytes written to packs and segments by settling.
    pub settled_bytes: u64,
    /// Bytes written to packs and segments by merging.
    pub merged_bytes: u64,
    /// Bytes written to checkpoints, both copies.
    pub checkpoint_bytes: u64,
    /// How often journal files were settled.
    pub settles: u64,
    /// How often packs or segments were merged.
    pub merges: u64,
    /// How often a checkpoint was made.
    pub checkpoints: u64,
    /// Syncs of the journal that came back.
    pub syncs: u64,
    /// Bytes written to the journal and not synced yet.
    pub dirty_bytes: u64,
    /// Journal files of the window.
    pub window_files: usize,
    /// Bytes the window takes on disk.
    pub window_bytes: u64,
    /// Extents of the window in memory.
    pub extents: usize,
    /// Bytes of the tail cache.
    pub tail_bytes: usize,
    /// Packs and segments that hold something alive.
    pub segments: usize,
    /// Bytes of what is alive in them.
    pub segment_live_bytes: u64,
    /// Bytes of what was alive in them when they were made: what they take on disk, but for their indexes.
    pub segment_bytes: u64,
    /// Bytes that scrubbing has checked.
    pub scrubbed_bytes: u64,
    /// How often it has gone through all packs and segments.
    pub scrubs: u64,
    /// Logs.
    pub logs: usize,
    /// Owners in the state table.
    pub owners: usize,
}

impl Stats {
    /// Bytes written for each byte of units, in thousandths; 0 before the first.
    #[must_use]
    pub fn write_amplification_permille(&self) -> u64 {
        let written = self.journal_bytes + self.settled_bytes + self.merged_bytes + self.checkpoint_bytes;
        written.saturating_mul(1000).checked_div(self.unit_bytes).unwrap_or(0)
    }

    /// Bytes that packs and segments take for each byte alive in them, in thousandths; 1000 when there is none.
    #[must_use]
    pub fn space_amplification_permille(&self) -> u64 {
        self.segment_bytes.saturating_mul(1000).checked_div(self.segment_live_bytes).unwrap_or(1000)
    }
}

impl Storage {
    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let window_files = self.writer.files().len();
        Stats {
            journal_bytes: self.writer.written_bytes,
            unit_bytes: self.unit_bytes,
            settled_bytes: self.settler.settled_bytes,
            merged_bytes: self.settler.merged_bytes,
            checkpoint_bytes: self.settler.checkpoint_bytes,
            checkpoints: self.settler.checkpoints,
            settles: self.settler.settles,
            merges: self.settler.merges,
            syncs: self.syncs,
            dirty_bytes: self.writer.written_bytes - self.synced_bytes,
            window_files,
            window_bytes: window_files as u64 * self.options.journal_file_bytes,
            extents: self.index.extents(),
            tail_bytes: self.tail.bytes(),
            segments: self.index.store.len(),
            segment_live_bytes: self.index.store.live(),
            segment_bytes: self.index.store.bytes(),
            scrubbed_bytes: self.scrub.bytes,
            scrubs: self.scrub.passes,
            logs: self.index.len(),
            owners: self.state.len(),
        }
    }
}
