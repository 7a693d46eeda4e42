//! From an outbox to a socket, without ever waiting: bytes gathered in one call, ranges of files by sendfile(2) as far
//! as they are in memory. What is not, and what there is much of, is sent by a thread that may wait: an [`Errand`].
//!
//! It knows no connection: the caller decides how much is sent, when and by whom.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use broker::{FileRange, Outbox, Piece};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Pieces of output in one system call.
const PIECES_PER_WRITE: usize = 64;

/// Of a range of a file, so much is sent in one system call.
const FILE_BYTES_PER_WRITE: usize = 256 << 10;

/// Of a file, so much is asked about in one system call: what comes next mostly lies behind.
const FILE_BYTES_PER_QUESTION: usize = 512 << 10;

/// Of a range that is not in memory, so much is read by one job.
const FILL_BYTES: usize = 512 << 10;

/// When so much waits, a pool sends it: it would keep the data thread from others for longer than a hand-over takes.
pub const MUCH_BYTES: usize = 512 << 10;

/// A pool sends so much, or a little more, before others have their turn.
const ERRAND_BYTES: usize = 4 << 20;

/// And so much, if it must come from a disk.
const COLD_ERRAND_BYTES: usize = 1 << 20;

/// What came of sending what is at the front.
#[derive(Debug)]
pub enum Step {
    /// So many bytes left; the socket may take more.
    Sent(usize),
    /// So many bytes left; the socket is full, and the kernel reports when there is room (epoll(7)).
    Full(usize),
    /// A range of a file that is not in memory comes next: this much of it may be read by a pool at once.
    Cold(FileRange),
    /// Nothing waits.
    Empty,
}

/// What was found to be in memory. To be forgotten soon: memory may be needed for something else.
#[derive(Debug, Default)]
pub struct Resident {
    known: Option<FileRange>,
    waits: Waits,
}

/// For what may be waited while a range is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Waits {
    /// Nothing: on the data thread.
    #[default]
    Never,
    /// What is already being read.
    Briefly,
    /// The disk: nobody asks.
    ForDisk,
}

impl Resident {
    fn has(&mut self, range: &FileRange) -> bool {
        if self.waits == Waits::ForDisk {
            return true;
        }
        if !self.known.as_ref().is_some_and(|known| known.covers(range)) {
            self.known = Some(match self.waits {
                Waits::Briefly => range.cached(FILE_BYTES_PER_QUESTION),
                _ => range.resident(FILE_BYTES_PER_QUESTION),
            });
        }
        self.known.as_ref().is_some_and(|known| known.covers(range))
    }
}

/// Sending that is left to a pool. Meanwhile nobody else may send to the socket.
#[derive(Debug)]
pub struct Errand {
    socket: OwnedFd,
    out: Outbox,
    /// Whether it is for a thread that may wait for a disk.
    pub is_cold: bool,
}

/// What came of an errand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// So many bytes left.
    pub sent: usize,
    /// Why no more did.
    pub stopped: Stopped,
}

/// Why an errand ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// All is sent.
    Done,
    /// The socket is full.
    Full,
    /// A disk would have to be waited for.
    Cold,
}

impl Errand {
    /// Sends what comes next in `out`, which must be told what has left; `is_cold` when that must come from a disk.
    ///
    /// # Errors
    /// The operating system's, when it has no more descriptors.
    pub fn of(out: &mut Outbox, socket: impl AsFd, is_cold: bool) -> io::Result<Errand> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        Ok(Errand { socket, out: out.front(if is_cold { COLD_ERRAND_BYTES } else { ERRAND_BYTES }), is_cold })
    }

    /// Sends until nothing is left or the socket is full; or, unless it is a cold errand, a disk would be waited for.
    ///
    /// # Errors
    /// Those of [`send_front`].
    pub fn run(mut self) -> io::Result<Carried> {
        let waits = if self.is_cold { Waits::ForDisk } else { Waits::Briefly };
        let (mut sent, mut resident) = (0, Resident { known: None, waits });
        loop {
            match send_front(&self.socket, &mut self.out, &mut resident)? {
                Step::Sent(count) => sent += count,
                Step::Full(count) => return Ok(Carried { sent: sent + count, stopped: Stopped::Full }),
                Step::Cold(_) => return Ok(Carried { sent, stopped: Stopped::Cold }),
                Step::Empty => return Ok(Carried { sent, stopped: Stopped::Done }),
            }
        }
    }
}

/// Sends once what is at the front of `out`.
///
/// # Errors
/// The network's: the connection is dead. The file's, when it is shorter than it was: so is the connection then, since
/// the peer was promised more.
pub fn send_front(socket: impl AsFd, out: &mut Outbox, resident: &mut Resident) -> io::Result<Step> {
    let pieces = out.pieces();
    let sent = match pieces.front() {
        None => return Ok(Step::Empty),
        Some(Piece::Bytes(_)) => {
            let mut slices = [IoSlice::new(&[]); PIECES_PER_WRITE];
            let (mut offered, mut count) = (0, 0);
            for (slice, piece) in slices.iter_mut().zip(pieces) {
                let Piece::Bytes(bytes) = piece else { break };
                *slice = IoSlice::new(bytes);
                offered += bytes.len();
                count += 1;
            }
            // What follows belongs to it: not a packet of its own.
            let more = if count < pieces.len() { SendFlags::MORE } else { SendFlags::empty() };
            let mut nothing = SendAncillaryBuffer::new(&mut [] as &mut [MaybeUninit<u8>]);
            let slices = slices.get(..count).unwrap_or_default();
            (sendmsg(socket, slices, &mut nothing, SendFlags::NOSIGNAL | more), offered)
        }
        Some(Piece::File(range)) if resident.has(&range.front(FILE_BYTES_PER_WRITE)) => {
            let offered = range.bytes().min(FILE_BYTES_PER_WRITE);
            (send_range(socket, range, offered), offered)
        }
        Some(Piece::File(range)) => return Ok(Step::Cold(range.front(FILL_BYTES))),
    };
    match sent {
        (Ok(0), _) => Err(io::ErrorKind::WriteZero.into()),
        (Ok(count), offered) => {
            out.sent(count);
            Ok(if count < offered { Step::Full(count) } else { Step::Sent(count) })
        }
        (Err(rustix::io::Errno::AGAIN), _) => Ok(Step::Full(0)),
        (Err(rustix::io::Errno::INTR), _) => Ok(Step::Sent(0)),
        (Err(error), _) => Err(error.into()),
    }
}

#[cfg(target_os = "linux")]
fn send_range(socket: impl AsFd, range: &FileRange, bytes: usize) -> rustix::io::Result<usize> {
    let file = range.descriptor().ok_or(rustix::io::Errno::BADF)?;
    rustix::fs::sendfile(socket, file, Some(&mut range.at()), bytes)
}

#[cfg(not(target_os = "linux"))]
fn send_range(socket: impl AsFd, range: &FileRange, bytes: usize) -> rustix::io::Result<usize> {
    // By a pool only: no range is known to be in memory here.
    let bytes = range.front(bytes).read().map_err(|_| rustix::io::Errno::IO)?;
    rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::BorrowedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use storage::{Disk as _, DiskFile, RealDisk};

    /// A file of which the test says whether it is in memory.
    struct Switched {
        file: Arc<dyn DiskFile>,
        warm: Arc<AtomicBool>,
    }

    impl DiskFile for Switched {
        fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            self.file.write_at(at, bytes)
        }
        fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.file.read_at(at, buffer)
        }
        fn read_now(&self, _at: u64, _buffer: &mut [u8]) -> io::Result<Option<usize>> {
            Ok(None)
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }
        fn set_len(&self, bytes: u64) -> io::Result<()> {
            self.file.set_len(bytes)
        }
        fn allocate(&self, bytes: u64) -> io::Result<()> {
            self.file.allocate(bytes)
        }
        fn resident_bytes(&self, _at: u64, bytes: usize) -> usize {
            if self.warm.load(Ordering::Relaxed) { bytes } else { 0 }
        }
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            self.file.descriptor()
        }
    }

    fn file_of(bytes: &[u8], name: &str) -> (Arc<dyn DiskFile>, Arc<AtomicBool>) {
        let folder = std::env::temp_dir().join(format!("fourfold-sending-{}-{name}", std::process::id()));
        let file = RealDisk::new(&folder).unwrap().open("file", true).unwrap();
        std::fs::remove_dir_all(&folder).unwrap(); // open, it lives on
        file.write_at(0, bytes).unwrap();
        let warm = Arc::new(AtomicBool::new(true));
        (Arc::new(Switched { file, warm: Arc::clone(&warm) }), warm)
    }

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, peer)
    }

    fn receive(mut peer: UnixStream) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            all
        })
    }

    fn stored(count: usize) -> Vec<u8> {
        (0..count).map(|n| (n / 251) as u8).collect()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn bytes_and_ranges_arrive_in_their_order() {
        let content = stored(1 << 20);
        let (file, _) = file_of(&content, "order");
        let (ours, peer) = pair();
        let mut out = Outbox::default();
        out.buffer().extend_from_slice(b"head");
        out.push_file(FileRange::of(&file, 1000, 700_000).unwrap());
        out.buffer().extend_from_slice(b"between");
        out.push_file(FileRange::of(&file, 0, 100).unwrap());
        out.push(Bytes::from_static(b"end"));
        assert_eq!(out.queued_bytes(), 700_114);
        assert!(out.memory_bytes() < 10_000);
        let received = receive(peer);
        loop {
            match send_front(&ours, &mut out, &mut Resident::default()).unwrap() {
                Step::Empty => break,
                Step::Cold(_) => panic!("all is in memory"),
                Step::Sent(_) | Step::Full(_) => {}
            }
        }
        assert_eq!(out.queued_bytes(), 0);
        drop(ours);
        let want = [b"head".as_slice(), &content[1000..701_000], b"between", &content[..100], b"end"].concat();
        assert!(received.join().unwrap() == want);
    }

    #[test]
    fn a_cold_range_is_left_to_a_pool_that_may_wait() {
        let content = stored(2 << 20);
        let (file, warm) = file_of(&content, "cold");
        warm.store(false, Ordering::Relaxed);
        let (ours, peer) = pair();
        let mut out = Outbox::default();
        out.push_file(FileRange::of(&file, 0, content.len()).unwrap());
        let received = receive(peer);
        let nothing = Carried { sent: 0, stopped: Stopped::Cold };
        assert_eq!(Errand::of(&mut out, &ours, false).unwrap().run().unwrap(), nothing, "this one may not wait");
        loop {
            match send_front(&ours, &mut out, &mut Resident::default()).unwrap() {
                Step::Empty => break,
                Step::Cold(_) => {
                    let errand = Errand::of(&mut out, &ours, true).unwrap();
                    out.sent(errand.run().unwrap().sent);
                }
                Step::Sent(_) | Step::Full(_) => panic!("the data thread has waited for the disk"),
            }
        }
        assert_eq!(out.queued_bytes(), 0);
        drop(ours);
        assert!(received.join().unwrap() == content);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_that_has_shrunk_ends_the_connection() {
        let (file, _) = file_of(&stored(100_000), "shrunk");
        let (ours, _peer) = pair();
        let mut out = Outbox::default();
        out.push_file(FileRange::of(&file, 0, 100_000).unwrap());
        file.set_len(0).unwrap();
        assert_eq!(send_front(&ours, &mut out, &mut Resident::default()).unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
