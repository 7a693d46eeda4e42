//! The tail cache: the last entries written, still in memory, so that readers at the tail get slices and no copy.

use std::collections::VecDeque;

use bytes::Bytes;

struct Piece {
    file: u32,
    at: u64,
    bytes: Bytes,
}

/// Bytes just written, by their place in the journal. Oldest first.
pub(crate) struct TailCache {
    pieces: VecDeque<Piece>,
    bytes: usize,
    bytes_max: usize,
}

// What a piece costs beside its bytes.
const PIECE_BYTES: usize = 96;

impl TailCache {
    pub(crate) fn new(bytes_max: usize) -> TailCache {
        TailCache { pieces: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Adds an entry; the oldest ones go when it gets too much.
    pub(crate) fn push(&mut self, file: u32, at: u64, bytes: Bytes) {
        self.bytes += bytes.len() + PIECE_BYTES;
        self.pieces.push_back(Piece { file, at, bytes });
    }

    /// Lets go of the oldest pieces beyond the bound. Called after they were written, never before.
    pub(crate) fn shrink(&mut self) {
        while self.bytes > self.bytes_max {
            let Some(piece) = self.pieces.pop_front() else { break };
            self.bytes -= piece.bytes.len() + PIECE_BYTES;
        }
        if self.pieces.capacity() > 64 && self.pieces.len() * 4 < self.pieces.capacity() {
            self.pieces.shrink_to(self.pieces.len() * 2);
        }
    }

    /// The bytes of a place, if they are here.
    pub(crate) fn get(&self, file: u32, at: u64, count: usize) -> Option<Bytes> {
        self.pieces.front().filter(|oldest| (oldest.file, oldest.at) <= (file, at))?;
        let after = self.pieces.partition_point(|piece| (piece.file, piece.at) <= (file, at));
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        if piece.file != file {
            return None;
        }
        let from = usize::try_from(at.checked_sub(piece.at)?).ok()?;
        let to = from.checked_add(count)?;
        (to <= piece.bytes.len()).then(|| piece.bytes.slice(from..to))
    }

    /// Whether this place lies before all that is here.
    pub(crate) fn is_behind(&self, file: u32, at: u64) -> bool {
        self.pieces.front().is_none_or(|oldest| (file, at) < (oldest.file, oldest.at))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_newest_bytes_within_its_bound() {
        let mut tail = TailCache::new(2 * (100 + PIECE_BYTES));
        for n in 0..3u8 {
            tail.push(1, u64::from(n) * 100, Bytes::from(vec![n; 100]));
            tail.shrink();
        }
        assert_eq!(tail.get(1, 0, 100), None);
        assert_eq!(tail.get(1, 150, 50), Some(Bytes::from(vec![1; 50])));
        assert_eq!(tail.get(1, 150, 51), None, "never over the end of a piece");
        assert_eq!(tail.get(2, 250, 1), None);
        assert_eq!(tail.get(1, 299, 1), Some(Bytes::from(vec![2; 1])));
    }
}
