//! What a tongue is to the rest: doors to listen at, a format, and sessions that are told what happened and answer
//! with bytes. Sessions do no I/O, own no clock and spawn nothing; `server` drives them.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use model::{Format, Mono, Now};

use crate::dialect::Dialect;
use crate::group::LedgerCodec;
use crate::{Broker, Event, FileRange, Secured, SessionId};

/// A protocol by which clients reach the broker.
pub trait Tongue: Send + Sync {
    /// Its name: `kafka`, `amqp`, `http` …
    fn name(&self) -> &'static str;

    /// Where it listens.
    fn doors(&self) -> Vec<Door>;

    /// The format of the units its clients write, if they write any.
    fn format(&self) -> Option<Box<dyn Format>> {
        None
    }

    /// The codec of the internal offsets topic, from the one tongue whose tools read that topic.
    fn ledger(&self) -> Option<Box<dyn LedgerCodec>> {
        None
    }

    /// Exchanges that its clients expect always to be there, in every tenant. The server gathers them into
    /// [`crate::Options::exchanges`].
    fn exchanges(&self) -> Vec<crate::routing::ExchangeSpec> {
        Vec::new()
    }

    /// How its users declare and publish, for operators who do it by another door, if it has words of its own for that.
    fn dialect(&self) -> Option<Arc<dyn Dialect>> {
        None
    }

    /// A session for a connection just accepted at `door`.
    fn session(&self, door: &'static str, peer: Peer) -> Box<dyn Session>;
}

/// A named listening place.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    /// Its name: also the flag and the key in the configuration.
    pub name: &'static str,
    /// The usual port.
    pub port: u16,
    /// A line that shows how to try it; `{addr}`, `{host}` and `{port}` stand for the address it listens at.
    pub try_it: &'static str,
    /// Whether its connections go through TLS. Such a door opens only when it is given an address.
    pub tls: bool,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The session's id: unique while the process lives.
    pub session: SessionId,
    /// The client's address.
    pub remote: SocketAddr,
    /// Our address, as the client reached it: what clients are told when no address is advertised.
    pub local: SocketAddr,
    /// What TLS has established, when the connection goes through it.
    pub tls: Option<Arc<Secured>>,
}

/// What happens to a session.
#[derive(Debug)]
pub enum Input<'a> {
    /// All bytes received and not consumed yet, oldest first. The session answers how many it consumed; the rest comes
    /// again, with more behind it. An incomplete frame is left unconsumed.
    Bytes(&'a [u8]),
    /// Something the session asked for has happened.
    Event(Event),
    /// [`Broker::progress`] has moved (or failed), and [`Session::awaits_progress`] was true.
    Progress,
    /// The output had grown beyond [`OUTPUT_ROOM_BYTES`] and has drained below: there is room for more.
    Room,
    /// [`Session::deadline`] has passed.
    Tick,
    /// The server is stopping: say goodbye if the protocol has a word for it.
    Stopping,
    /// The peer is gone; nothing sent will arrive. Release what the session holds in the broker. The last input.
    Closed,
}

/// What a session works with while it handles an input.
pub struct Cx<'a> {
    /// The core. Calls are function calls: sessions run on the shard's data thread.
    pub broker: &'a mut Broker,
    /// Both clocks, read once a turn.
    pub now: Now,
    /// Where bytes to send go.
    pub out: &'a mut Outbox,
}

/// One connection's protocol state machine.
pub trait Session: Send {
    /// Handles one input; for [`Input::Bytes`] answers how many bytes were consumed, else 0.
    fn handle(&mut self, input: Input<'_>, cx: &mut Cx<'_>) -> usize;

    /// When it wants a [`Input::Tick`] at the latest.
    fn deadline(&self) -> Option<Mono>;

    /// Whether it takes bytes now. While false the driver reads nothing from the socket: back pressure.
    fn wants_input(&self) -> bool;

    /// Whether it takes no input until something changes that its peer has no part in, so that it need not be kept once
    /// the peer has hung up, whatever the peer has still sent.
    fn is_stalled(&self) -> bool {
        false
    }

    /// Whether it holds replies back until [`Broker::progress`] moves.
    fn awaits_progress(&self) -> bool;

    /// Bytes of memory it holds that its peer can make more: what is put together, replies held back. Asked often.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// A piece of what waits to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of a file: the driver sends it without a copy when it is in the page cache, and reads it else.
    File(FileRange),
}

impl Piece {
    /// How many bytes it has.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // pieces are never empty
    pub fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::File(range) => range.bytes(),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Piece::Bytes(bytes) => bytes::Buf::advance(bytes, count),
            Piece::File(range) => range.advance(count),
        }
    }
}

/// What is on its way to the peer, in order. Small pieces are gathered in one buffer, large ones kept shared.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: std::collections::VecDeque<Piece>,
    open: Vec<u8>,
    /// What was gathered last: about as much will be again.
    gathered_bytes: usize,
    queued_bytes: usize,
    file_bytes: usize,
    /// How large an answer may be now; 0 when nobody has said.
    room: usize,
    closing: bool,
}

/// While more bytes than this wait to be sent, the driver reads nothing from the peer and hands its session no bytes. A
/// session that must go on reading (acknowledgements) while it sends keeps its own output below this.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A session that sends of its own accord (deliveries) stops when so many bytes wait; [`Input::Room`] comes when they
/// have drained below it again.
pub const OUTPUT_ROOM_BYTES: usize = 256 << 10;

/// The gathering buffer begins with no more room than this.
const GATHER_ROOM_BYTES: usize = 16 << 10;

/// Shared pieces from this size on are not copied into the gathering buffer.
const SHARE_BYTES_MIN: usize = 4096;

impl Outbox {
    /// The gathering buffer: append to it, never shorten it below what it held.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.open.capacity() == 0 {
            self.open.reserve_exact(self.gathered_bytes.min(GATHER_ROOM_BYTES));
        }
        &mut self.open
    }

    /// Queues `bytes` behind all before, without a copy when they are large.
    pub fn push(&mut self, bytes: Bytes) {
        if bytes.len() < SHARE_BYTES_MIN {
            self.open.extend_from_slice(&bytes);
        } else {
            self.seal();
            self.queued_bytes += bytes.len();
            self.pieces.push_back(Piece::Bytes(bytes));
        }
    }

    /// Queues a range of a file behind all before.
    pub fn push_file(&mut self, range: FileRange) {
        self.seal();
        self.queued_bytes += range.bytes();
        self.file_bytes += range.bytes();
        self.pieces.push_back(Piece::File(range));
    }

    /// How large one answer may be: less when memory is short. A session that can answer with less keeps to it.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.room == 0 { usize::MAX } else { self.room }
    }

    /// For the driver: how large one answer may be from now on.
    pub fn set_room(&mut self, bytes: usize) {
        self.room = bytes;
    }

    /// Closes the connection once all before is sent.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Whether [`Outbox::close`] was called.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes + self.open.len()
    }

    /// Bytes of memory that what waits takes, about; ranges of files take none.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.queued_bytes - self.file_bytes + self.open.capacity()
    }

    /// For the driver: the pieces in order, the gathered ones sealed. Take from the front with [`Outbox::sent`].
    pub fn pieces(&mut self) -> &std::collections::VecDeque<Piece> {
        self.seal();
        &self.pieces
    }

    /// For the driver: what comes next, `bytes_max` or a little more, for somebody else to send; it stays here too
    /// until [`Outbox::sent`] says that it has been.
    #[must_use]
    pub fn front(&mut self, bytes_max: usize) -> Outbox {
        let mut front = Outbox::default();
        for piece in self.pieces() {
            if front.queued_bytes >= bytes_max {
                break;
            }
            front.queued_bytes += piece.len();
            if matches!(piece, Piece::File(_)) {
                front.file_bytes += piece.len();
            }
            front.pieces.push_back(piece.clone());
        }
        front
    }

    /// For the driver: the first `count` bytes have been sent.
    pub fn sent(&mut self, mut count: usize) {
        while count > 0 {
            let Some(first) = self.pieces.front_mut() else {
                return;
            };
            let (bytes, done) = (first.len(), first.len() <= count);
            let gone = bytes.min(count);
            self.queued_bytes = self.queued_bytes.saturating_sub(gone);
            if matches!(first, Piece::File(_)) {
                self.file_bytes = self.file_bytes.saturating_sub(gone);
            }
            if done {
                self.pieces.pop_front();
            } else {
                first.advance(gone);
            }
            count -= gone;
        }
    }

    /// For the driver: `bytes` are what the first piece, a range of a file, begins with. They are sent in its place.
    pub fn filled(&mut self, bytes: Bytes) {
        let Some(Piece::File(range)) = self.pieces.front_mut() else { return };
        let count = bytes.len().min(range.bytes());
        range.advance(count);
        let is_done = range.bytes() == 0;
        self.file_bytes = self.file_bytes.saturating_sub(count);
        if is_done {
            self.pieces.pop_front();
        }
        self.pieces.push_front(Piece::Bytes(bytes.slice(..count)));
    }

    /// For tests and the simulator: takes everything, as one. Waits for the disk where a file must be read.
    pub fn take_all(&mut self) -> Vec<u8> {
        self.seal();
        let mut all = Vec::with_capacity(self.queued_bytes);
        for piece in std::mem::take(&mut self.pieces) {
            match piece {
                Piece::Bytes(bytes) => all.extend_from_slice(&bytes),
                Piece::File(range) => all.extend_from_slice(&range.read().unwrap_or_default()),
            }
        }
        (self.queued_bytes, self.file_bytes) = (0, 0);
        all
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            self.gathered_bytes = self.open.len();
            let gathered = Bytes::from(std::mem::take(&mut self.open));
            self.queued_bytes += gathered.len();
            self.pieces.push_back(Piece::Bytes(gathered));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_leave_in_order_and_by_count() {
        let mut out = Outbox::default();
        out.buffer().extend_from_slice(b"head");
        out.push(Bytes::from(vec![7; SHARE_BYTES_MIN]));
        out.push(Bytes::from_static(b"tail"));
        assert_eq!(out.queued_bytes(), 8 + SHARE_BYTES_MIN);
        assert_eq!(out.pieces().len(), 3);
        out.sent(2 + 3);
        assert_eq!(out.queued_bytes(), 3 + SHARE_BYTES_MIN);
        assert_eq!(out.pieces()[0].len(), SHARE_BYTES_MIN - 1);
        out.sent(SHARE_BYTES_MIN - 1 + 4);
        assert_eq!(out.queued_bytes(), 0);
        assert!(out.pieces().is_empty());
    }

    #[test]
    fn what_somebody_else_sends_stays_until_it_is_sent() {
        let mut out = Outbox::default();
        out.buffer().extend_from_slice(b"head");
        out.push(Bytes::from(vec![7; SHARE_BYTES_MIN]));
        out.push(Bytes::from(vec![8; SHARE_BYTES_MIN]));
        let front = out.front(5);
        assert_eq!((front.queued_bytes(), out.queued_bytes()), (4 + SHARE_BYTES_MIN, 4 + 2 * SHARE_BYTES_MIN));
        out.sent(front.queued_bytes());
        assert_eq!(out.take_all(), vec![8; SHARE_BYTES_MIN]);
    }
}
