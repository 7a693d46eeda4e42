//! One connection: a socket, its session, what has arrived and what waits to leave. It knows when it may read and
//! write; who comes next is the driver's business.

use std::io;
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};

use broker::{Broker, Cx, FileRange, Input, OUTPUT_BYTES_MAX, OUTPUT_ROOM_BYTES, Outbox, Piece, Session, SessionId};
use bytes::Bytes;
use mio::net::TcpStream;
use model::{Mono, Now};

use super::input::{InputBuffer, Pool};
use super::secure::Buffers;
use super::sending::{Carried, Errand, MUCH_BYTES, Resident, Step, Stopped, send_front};
use super::tls::Tls;

/// Bytes read from one connection before others have their turn.
pub const READ_BYTES_PER_TURN: usize = 256 << 10;

/// Bytes written to one connection before others have their turn.
pub const WRITE_BYTES_PER_TURN: usize = MUCH_BYTES;

/// More unconsumed bytes than any tongue's largest frame: a session that lets so much pile up has lost its way.
const INPUT_BYTES_MAX: usize = 256 << 20;

/// Why a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The peer hung up, or the network did.
    Peer,
    /// The session said goodbye and everything is sent.
    Done,
    /// The session panicked: a mistake of ours.
    Panic,
    /// The session consumed nothing of an enormous input.
    Flood,
    /// The peer began with TLS where there is none.
    Tls,
}

/// How a TLS connection begins: a handshake record of any version.
const TLS_BEGINS: [u8; 2] = [22, 3];

/// What tells such a peer that it is wrong here: an alert (fatal, unexpected message).
const TLS_ALERT: [u8; 7] = [21, 3, 1, 0, 2, 2, 10];

/// On which of the driver's lists a connection stands, so that it stands there once.
#[derive(Debug, Default)]
pub struct Listed {
    /// To be read.
    pub read: bool,
    /// To be read when there is memory for it.
    pub held: bool,
    /// To be written.
    pub write: bool,
    /// Waits for progress.
    pub progress: bool,
}

/// A connection.
pub struct Connection {
    /// Its session's id.
    pub id: SessionId,
    /// The place of its door in the driver's list.
    pub door: usize,
    /// Lists it stands on.
    pub listed: Listed,
    /// The entry in the driver's deadlines.
    pub scheduled: Option<Mono>,
    /// What it holds, as the driver's account has it.
    pub accounted: usize,
    /// When bytes last came or went.
    pub moved: Mono,
    /// When it is closed even though bytes are still on their way.
    pub linger_until: Option<Mono>,
    /// The socket.
    pub stream: TcpStream,
    session: Option<Box<dyn Session>>,
    pub(super) input: InputBuffer,
    pub(super) out: Outbox,
    /// What stands between socket and session, when that is TLS.
    pub(super) tls: Option<Box<Tls>>,
    /// The socket may have bytes for us: true until a read says otherwise.
    pub(super) readable: bool,
    /// The socket may take bytes: true until a write says otherwise.
    pub(super) writable: bool,
    /// The peer will send no more. A short read no longer means that there is nothing behind it.
    pub(super) half_closed: bool,
    /// All that the peer sent has been read.
    pub(super) ended: bool,
    /// Nothing has come yet.
    fresh: bool,
    /// The first bytes were TLS, and this door speaks none.
    is_foreign: bool,
    /// The session left what waits because it lacks the rest of a frame.
    pub(super) starved: bool,
    /// More than [`OUTPUT_ROOM_BYTES`] were queued: the session will be told of room.
    crowded: bool,
    /// The session panicked.
    broken: bool,
    /// A pool reads or sends what comes next: nobody else may send.
    pub(super) is_lent: bool,
    pub(super) asks: Option<Asks>,
    /// What comes next must come from a disk.
    is_cold: bool,
}

/// What a pool is to do before more can be sent.
pub enum Asks {
    /// Read this.
    Fill(FileRange),
    /// Send that.
    Send(Errand),
}

/// What a reading turn works with.
pub struct Reading<'a> {
    /// The core.
    pub broker: &'a mut Broker,
    /// What time it is.
    pub now: Now,
    /// Where bytes are read to while a connection has none waiting.
    pub scratch: &'a mut Vec<u8>,
    /// Where TLS puts what was in them.
    pub plain: &'a mut Vec<u8>,
    /// Emptied buffers.
    pub pool: &'a mut Pool,
    /// Counts what was read.
    pub received: &'a mut u64,
}

impl Connection {
    /// A connection just accepted.
    pub fn new(id: SessionId, door: usize, stream: TcpStream, session: Box<dyn Session>) -> Connection {
        Connection {
            id,
            door,
            listed: Listed::default(),
            scheduled: None,
            linger_until: None,
            accounted: 0,
            moved: Mono::default(),
            stream,
            session: Some(session),
            input: InputBuffer::default(),
            out: Outbox::default(),
            tls: None,
            readable: true,
            writable: true,
            half_closed: false,
            ended: false,
            fresh: true,
            is_foreign: false,
            starved: false,
            crowded: false,
            broken: false,
            is_lent: false,
            asks: None,
            is_cold: false,
        }
    }

    /// With TLS in between, whose handshake may already have brought `plain`.
    #[must_use]
    pub fn through(mut self, tls: Tls, plain: &[u8], closed: bool, pool: &mut Pool) -> Connection {
        self.tls = Some(Box::new(tls));
        self.input.keep(plain, pool);
        if closed {
            (self.ended, self.half_closed, self.readable) = (true, true, false);
        }
        self
    }

    /// What the socket reports.
    pub fn note(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable() || event.is_read_closed();
        self.writable |= event.is_writable() || event.is_error();
        self.half_closed |= event.is_read_closed();
    }

    /// Bytes of memory it holds, about.
    pub fn memory_bytes(&self) -> usize {
        let session = self.session.as_ref().map_or(0, |session| session.memory_bytes());
        let tls = self.tls.as_ref().map_or(0, |tls| tls.held_bytes());
        self.input.held_bytes() + self.out.memory_bytes() + session + tls
    }

    /// How large an answer its session may give.
    pub fn set_room(&mut self, bytes: usize) {
        self.out.set_room(bytes);
    }

    /// Gives the session an input other than bytes.
    pub fn tell(&mut self, input: Input<'_>, broker: &mut Broker, now: Now) {
        self.hand(input, broker, now);
    }

    fn hand(&mut self, input: Input<'_>, broker: &mut Broker, now: Now) -> usize {
        let Some(session) = self.session.as_mut().filter(|_| !self.broken) else {
            return 0;
        };
        let mut cx = Cx { broker, now, out: &mut self.out };
        // A mistake in one session must not end the others. What it did to the core by then stands.
        let handled = catch_unwind(AssertUnwindSafe(|| session.handle(input, &mut cx)));
        self.crowded |= self.out.queued_bytes() > OUTPUT_ROOM_BYTES;
        handled.unwrap_or_else(|_| {
            self.broken = true;
            0
        })
    }

    /// The last input: the peer is gone, or will hear no more.
    pub fn close_session(&mut self, broker: &mut Broker, now: Now) {
        self.hand(Input::Closed, broker, now);
        if self.session.take().is_some() {
            broker.session_closed(self.id, now);
        }
    }

    /// Whether its session is still there (else only the last bytes drain).
    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// When its session wants to be woken.
    pub fn deadline(&self) -> Option<Mono> {
        let session = self.session.as_ref().and_then(|session| session.deadline());
        session.into_iter().chain(self.linger_until).min()
    }

    /// Whether its session wants to be woken now.
    pub fn is_due(&self, now: Mono) -> bool {
        self.session.as_ref().and_then(|session| session.deadline()).is_some_and(|at| at <= now)
    }

    /// Whether its session holds replies back.
    pub fn awaits_progress(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.awaits_progress())
    }

    /// Whether bytes wait that the session may go on with: it takes no memory to offer them to it.
    pub fn has_input(&self) -> bool {
        !(self.input.is_empty() || self.starved)
    }

    /// Whether there are bytes that the session would take now.
    pub fn can_read(&self) -> bool {
        let news = self.readable || self.has_input();
        news && (self.session.is_none() || self.takes_input())
    }

    /// Whether there are bytes that the socket would take now, or a goodbye to be carried out.
    pub fn can_write(&self) -> bool {
        self.writable && !self.is_lent && (self.has_unsent() || self.owes_goodbye())
    }

    /// Whether bytes wait to leave.
    fn has_unsent(&self) -> bool {
        self.out.queued_bytes() > 0 || self.tls.as_ref().is_some_and(|tls| !tls.is_drained())
    }

    /// Whether TLS must still say that no more comes.
    pub(super) fn owes_goodbye(&self) -> bool {
        self.out.is_closing() && self.tls.as_ref().is_some_and(|tls| !tls.has_said_goodbye())
    }

    pub(super) fn takes_input(&self) -> bool {
        !(self.broken || self.is_foreign || self.out.is_closing())
            && self.out.queued_bytes() <= OUTPUT_BYTES_MAX
            && self.session.as_ref().is_some_and(|session| session.wants_input())
    }

    /// Why the connection must end now, if so.
    pub fn end(&self) -> Option<End> {
        if self.broken {
            return Some(End::Panic);
        }
        if self.is_foreign {
            return Some(End::Tls);
        }
        if self.input.waiting().len() > INPUT_BYTES_MAX {
            return Some(End::Flood);
        }
        let Some(session) = self.session.as_ref() else {
            return self.ended.then_some(End::Done);
        };
        if self.half_closed && session.is_stalled() {
            return Some(End::Peer);
        }
        // A peer that has only closed its sending side still gets the answers that are on their way.
        let answers_left = self.has_unsent() || session.awaits_progress() || !session.wants_input();
        (self.ended && !answers_left && !self.has_input()).then_some(End::Peer)
    }

    /// Whether the peer has closed its side (answers may still be on their way).
    pub fn is_half_closed(&self) -> bool {
        self.ended
    }

    /// Whether the session has said goodbye.
    pub fn is_closing(&self) -> bool {
        self.out.is_closing()
    }

    /// Whether everything is sent and the session has said goodbye.
    pub fn is_finished(&self) -> bool {
        self.out.is_closing() && !self.has_unsent() && !self.owes_goodbye()
    }

    /// Says to the peer that nothing more comes, and goes on reading (to nowhere) until it hangs up: closing a socket
    /// with unread bytes would reset it and could take our last words with it.
    pub fn shut_down(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write); // the peer may be gone already
        self.readable = true;
        self.input = InputBuffer::default();
    }

    /// Tells a peer that began with TLS that there is none here. A courtesy: tried once.
    pub fn alert(&self) {
        let _ = rustix::net::send(&self.stream, &TLS_ALERT, rustix::net::SendFlags::NOSIGNAL);
    }

    /// Reads what there is, within the turn's bound, and hands it to the session.
    ///
    /// # Errors
    /// The network's: the connection is dead.
    pub fn read(&mut self, with: &mut Reading<'_>) -> io::Result<()> {
        if self.session.is_none() {
            return self.discard(with);
        }
        if self.tls.is_some() {
            return self.read_secure(with);
        }
        let mut budget = READ_BYTES_PER_TURN;
        self.offer_waiting(with);
        while self.readable && budget > 0 && self.takes_input() {
            let waiting = self.input.is_empty();
            let room = if waiting { with.scratch.capacity() } else { budget };
            let read = if waiting {
                with.scratch.clear();
                rustix::io::read(&self.stream, rustix::buffer::spare_capacity(with.scratch)).map_err(io::Error::from)
            } else {
                self.input.fill(&self.stream, room, with.pool)
            };
            let Some(count) = self.note_read(read)? else { break };
            *with.received += count as u64;
            budget = budget.saturating_sub(count);
            if waiting && count < room {
                self.readable = self.half_closed;
            }
            if waiting {
                let scratch = std::mem::take(with.scratch);
                self.is_foreign = std::mem::take(&mut self.fresh) && scratch.starts_with(&TLS_BEGINS);
                self.offer_fresh(&scratch, with);
                *with.scratch = scratch;
            } else {
                self.starved = false;
                self.offer_waiting(with);
            }
        }
        Ok(())
    }

    /// How many bytes came; `None` when there are no more now.
    pub(super) fn note_read(&mut self, read: io::Result<usize>) -> io::Result<Option<usize>> {
        match read {
            Ok(0) => {
                self.ended = true;
                self.readable = false;
                Ok(None)
            }
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands bytes just received to the session, while none wait; keeps what it leaves.
    pub(super) fn offer_fresh(&mut self, bytes: &[u8], with: &mut Reading<'_>) {
        let mut done = 0;
        loop {
            let rest = bytes.get(done..).unwrap_or_default();
            if rest.is_empty() || !self.takes_input() {
                break;
            }
            let consumed = self.hand(Input::Bytes(rest), with.broker, with.now).min(rest.len());
            done += consumed;
            self.starved = consumed == 0 && self.takes_input();
            if consumed == 0 {
                break;
            }
        }
        self.input.keep(bytes.get(done..).unwrap_or_default(), with.pool);
    }

    pub(super) fn offer_waiting(&mut self, with: &mut Reading<'_>) {
        while !self.input.is_empty() && !self.starved && self.takes_input() {
            // Taken out for the call: the session and its input are borrowed at once.
            let mut input = std::mem::take(&mut self.input);
            let consumed = self.hand(Input::Bytes(input.waiting()), with.broker, with.now);
            input.consume(consumed, with.pool);
            self.input = input;
            // A session that has stopped taking input lacks nothing: it goes on from here when it takes it again.
            self.starved = consumed == 0 && self.takes_input();
        }
    }

    fn discard(&mut self, with: &mut Reading<'_>) -> io::Result<()> {
        let mut budget = READ_BYTES_PER_TURN;
        while self.readable && budget > 0 {
            with.scratch.clear();
            let read = rustix::io::read(&self.stream, rustix::buffer::spare_capacity(with.scratch));
            match self.note_read(read.map_err(io::Error::from))? {
                Some(count) => budget = budget.saturating_sub(count),
                None => break,
            }
        }
        Ok(())
    }

    /// Sends what waits, within the turn's bound; answers how many bytes left.
    ///
    /// # Errors
    /// The network's: the connection is dead.
    pub fn write(&mut self, with: &mut Buffers) -> io::Result<usize> {
        if self.tls.is_some() {
            return self.write_secure(with);
        }
        let (mut sent, mut resident) = (0, Resident::default());
        let is_cold = std::mem::take(&mut self.is_cold);
        if (is_cold || self.out.queued_bytes() >= MUCH_BYTES) && self.writable && self.lend(is_cold).is_ok() {
            return Ok(0);
        }
        while self.writable && !self.is_lent && sent < WRITE_BYTES_PER_TURN {
            match send_front(&self.stream, &mut self.out, &mut resident)? {
                Step::Sent(count) => sent += count,
                Step::Full(count) => {
                    sent += count;
                    self.writable = false;
                }
                Step::Cold(range) => {
                    if self.lend(true).is_err() {
                        (self.is_lent, self.asks) = (true, Some(Asks::Fill(range)));
                    }
                }
                Step::Empty => break,
            }
        }
        Ok(sent)
    }

    /// Leaves the sending of what comes next to a pool. Fails with no descriptors left.
    fn lend(&mut self, is_cold: bool) -> io::Result<()> {
        if self.is_lent {
            return Ok(());
        }
        self.asks = Some(Asks::Send(Errand::of(&mut self.out, &self.stream, is_cold)?));
        self.is_lent = true;
        // Room that is reported from now on is not to be missed, whatever the pool says of the time before.
        self.writable = false;
        Ok(())
    }

    /// The files' ranges that wait to be sent.
    pub fn ranges(&mut self) -> impl Iterator<Item = FileRange> {
        let range = |piece: &Piece| match piece {
            Piece::File(range) => Some(range.clone()),
            Piece::Bytes(_) => None,
        };
        self.out.pieces().iter().filter_map(range)
    }

    /// What a pool must do before more can be sent; named once.
    pub fn take_asks(&mut self) -> Option<Asks> {
        self.asks.take()
    }

    /// A pool has read it.
    pub fn filled(&mut self, bytes: Bytes) {
        self.is_lent = false;
        self.out.filled(bytes);
    }

    /// A pool has sent it, or a part of it.
    pub fn sent(&mut self, done: Carried) {
        self.is_lent = false;
        self.writable |= done.stopped != Stopped::Full;
        self.is_cold = done.stopped == Stopped::Cold;
        self.out.sent(done.sent);
    }

    /// Whether the session is to be told that there is room again; true once for each time it was crowded.
    pub fn has_room(&mut self) -> bool {
        let room = self.crowded && self.out.queued_bytes() <= OUTPUT_ROOM_BYTES;
        if room {
            self.crowded = false;
        }
        room && self.session.is_some()
    }
}
