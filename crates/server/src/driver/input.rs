//! Bytes received from one peer that its session has not consumed yet. Takes memory only for bytes that have arrived,
//! and gives it back when they are consumed: an idle connection holds none. It knows nothing of frames.

use std::io;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;

/// The least room made for a read.
const READ_BYTES_MIN: usize = 16 << 10;

/// Buffers up to this size are kept for the next connection that needs one.
const POOLED_BYTES_MAX: usize = 2 << 20;

/// So many buffers are kept at most.
const POOLED_COUNT_MAX: usize = 4;

/// Emptied buffers, kept so that large frames need no fresh pages each time.
#[derive(Debug, Default)]
pub struct Pool {
    spare: Vec<Vec<u8>>,
}

impl Pool {
    fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= POOLED_BYTES_MAX && self.spare.len() < POOLED_COUNT_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// What has arrived and waits to be consumed.
#[derive(Debug, Default)]
pub struct InputBuffer {
    bytes: Vec<u8>,
    /// Everything before was consumed. Invariant: start ≤ bytes.len(), and both are 0 when nothing waits.
    start: usize,
}

impl InputBuffer {
    /// What waits, oldest first.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Keeps `bytes` behind what waits.
    pub fn keep(&mut self, bytes: &[u8], pool: &mut Pool) {
        if bytes.is_empty() {
            return;
        }
        if self.bytes.capacity() == 0 {
            // A short rest of a frame (all that an idle connection may hold) takes its own size, not a pooled giant.
            self.bytes = if bytes.len() < READ_BYTES_MIN { Vec::with_capacity(bytes.len()) } else { pool.take() };
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Reads once from `source`, at most `bytes_max` bytes, and answers how many came; 0 is the end.
    ///
    /// # Errors
    /// The operating system's; `WouldBlock` when there is nothing now.
    pub fn fill(&mut self, source: impl AsFd, bytes_max: usize, pool: &mut Pool) -> io::Result<usize> {
        self.make_room(bytes_max, pool);
        Ok(rustix::io::read(source, spare_capacity(&mut self.bytes))?)
    }

    /// Room grows with what has arrived: at most doubled, whatever length the peer has announced.
    fn make_room(&mut self, bytes_max: usize, pool: &mut Pool) {
        if self.start > 0 && self.start * 2 >= self.bytes.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let wanted = bytes_max.min(self.bytes.len().max(READ_BYTES_MIN));
        if self.bytes.capacity() - self.bytes.len() >= wanted.min(READ_BYTES_MIN) {
            return;
        }
        let pooled = pool.take();
        if pooled.capacity() >= self.bytes.len() + wanted {
            let small = std::mem::replace(&mut self.bytes, pooled);
            self.bytes.extend_from_slice(&small);
        } else {
            pool.give(pooled);
            self.bytes.reserve_exact(wanted);
        }
    }

    /// The first `count` bytes that wait are done with.
    pub fn consume(&mut self, count: usize, pool: &mut Pool) {
        self.start = (self.start + count).min(self.bytes.len());
        if self.is_empty() {
            self.start = 0;
            pool.give(std::mem::take(&mut self.bytes));
        }
    }

    /// Bytes of memory held.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_kept_is_consumed_in_order_and_leaves_nothing_behind() {
        let (mut pool, mut input) = (Pool::default(), InputBuffer::default());
        input.keep(b"abc", &mut pool);
        input.keep(b"def", &mut pool);
        input.consume(2, &mut pool);
        assert_eq!(input.waiting(), b"cdef");
        input.consume(4, &mut pool);
        assert!(input.is_empty());
        assert_eq!(input.held_bytes(), 0);
    }

    #[test]
    fn a_short_rest_holds_no_more_than_its_own_size() {
        let (mut pool, mut input) = (Pool::default(), InputBuffer::default());
        pool.give(Vec::with_capacity(POOLED_BYTES_MAX));
        input.keep(&[1; 100], &mut pool);
        assert!(input.held_bytes() <= 256, "{}", input.held_bytes());
    }

    #[test]
    fn memory_grows_with_what_arrives() {
        let (mut pool, mut input) = (Pool::default(), InputBuffer::default());
        let (mut peer, ours) = UnixStream::pair().unwrap();
        input.keep(b"\xff\xff\xff\xff", &mut pool);
        peer.write_all(&[1; 1000]).unwrap();
        assert_eq!(input.fill(&ours, 1 << 20, &mut pool).unwrap(), 1000);
        assert_eq!(input.waiting().len(), 1004);
        assert!(input.held_bytes() <= 2 * READ_BYTES_MIN, "{}", input.held_bytes());
    }
}
