//! Where messages are written to: one buffer, and beside it shared pieces (stored batches) that are not copied into it.

use broker::Piece;
use model::ByteWriter;

/// Pieces shorter than this are copied into the buffer.
const SHARE_BYTES_MIN: usize = 4096;

/// Bytes being written.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    buffer: Vec<u8>,
    /// Each stands before the byte of `buffer` at its position. Invariant: positions ascend.
    shared: Vec<(usize, Piece)>,
    shared_bytes: usize,
}

impl Sink {
    /// A sink that writes into `buffer`, emptied first: buffers are used again.
    pub fn reuse(mut buffer: Vec<u8>) -> Sink {
        buffer.clear();
        Sink { buffer, shared: Vec::new(), shared_bytes: 0 }
    }

    /// For fields.
    pub fn writer(&mut self) -> ByteWriter<'_> {
        ByteWriter::new(&mut self.buffer)
    }

    /// Puts a piece here, without a copy when it is large.
    pub fn share(&mut self, piece: &Piece) {
        match piece {
            Piece::Bytes(bytes) if bytes.len() < SHARE_BYTES_MIN => self.buffer.extend_from_slice(bytes),
            _ => {
                self.shared_bytes += piece.len();
                self.shared.push((self.buffer.len(), piece.clone()));
            }
        }
    }

    /// All bytes written.
    pub fn len(&self) -> usize {
        self.buffer.len() + self.shared_bytes
    }

    /// The buffer and the shared pieces with their positions in it.
    pub fn into_parts(self) -> (Vec<u8>, Vec<(usize, Piece)>) {
        (self.buffer, self.shared)
    }

    /// Everything in memory in one piece; for what is known to be small, and for tests.
    pub fn flatten(self) -> Vec<u8> {
        if self.shared.is_empty() {
            return self.buffer;
        }
        let mut flat = Vec::with_capacity(self.len());
        let mut done = 0;
        for (at, piece) in &self.shared {
            flat.extend_from_slice(&self.buffer[done..*at]);
            if let Piece::Bytes(piece) = piece {
                flat.extend_from_slice(piece);
            }
            done = *at;
        }
        flat.extend_from_slice(&self.buffer[done..]);
        flat
    }

    /// Writes the frame's length into its first four bytes.
    pub fn seal_frame(&mut self) {
        let bytes = self.len().saturating_sub(4);
        self.writer().patch_u32(0, u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}
