//! How a connection reads and writes when TLS stands between its socket and its session. The same bounds hold as
//! without. Ranges of files come through memory here: they must be sealed.

use std::io;

use broker::{FileRange, Piece};
use rustix::buffer::spare_capacity;
use rustix::net::SendFlags;

use super::connection::{Asks, Connection, READ_BYTES_PER_TURN, Reading, WRITE_BYTES_PER_TURN};
use super::tls::Tls;

/// What is sealed before it is written: four records.
const SEAL_BYTES: usize = 64 << 10;

/// Pieces smaller than a record are gathered, so that not each becomes one.
const GATHER_BYTES: usize = 16 << 10;

/// Of a range that is not in memory, so much is read by one job.
const FILL_BYTES: usize = 512 << 10;

/// Buffers for writing that all connections share, one after the other.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Records on their way.
    pub sealed: Vec<u8>,
    /// Small pieces put together.
    pub gathered: Vec<u8>,
}

/// What stands in the way of writing more.
enum Stop {
    /// The socket is full.
    Full,
    /// A pool must read what comes next.
    Cold(FileRange),
    /// Nothing waits.
    Empty,
}

impl Connection {
    /// As [`Connection::read`], through TLS. All that was received is opened at once: what the session does not take
    /// waits as plaintext.
    pub(super) fn read_secure(&mut self, with: &mut Reading<'_>) -> io::Result<()> {
        let mut budget = READ_BYTES_PER_TURN;
        self.offer_waiting(with);
        while self.readable && budget > 0 && self.takes_input() {
            let Some(tls) = self.tls.as_mut() else { break };
            with.scratch.clear();
            with.scratch.extend_from_slice(tls.rest());
            let room = with.scratch.capacity() - with.scratch.len();
            let read = rustix::io::read(&self.stream, spare_capacity(with.scratch)).map_err(io::Error::from);
            let Some(count) = self.note_read(read)? else { break };
            *with.received += count as u64;
            budget = budget.saturating_sub(count);
            if count < room {
                self.readable = self.half_closed;
            }
            let Some(tls) = self.tls.as_mut() else { break };
            with.plain.clear();
            let opened = tls.open(with.scratch, with.plain);
            self.offer_opened(with);
            if opened? {
                // Whatever follows on the socket is not the peer's word.
                (self.ended, self.half_closed, self.readable) = (true, true, false);
            }
        }
        Ok(())
    }

    fn offer_opened(&mut self, with: &mut Reading<'_>) {
        if with.plain.is_empty() {
            return;
        }
        let plain = std::mem::take(with.plain);
        if self.input.is_empty() {
            self.offer_fresh(&plain, with);
        } else {
            self.input.keep(&plain, with.pool);
            self.starved = false;
            self.offer_waiting(with);
        }
        *with.plain = plain;
    }

    /// As [`Connection::write`], through TLS. After the last byte of a session that has said goodbye comes TLS's own.
    pub(super) fn write_secure(&mut self, with: &mut Buffers) -> io::Result<usize> {
        let mut sent = 0;
        if let Some(tls) = &mut self.tls {
            tls.lend(&mut with.sealed);
        }
        while self.writable && !self.is_lent && sent < WRITE_BYTES_PER_TURN {
            match self.write_some(with, &mut sent)? {
                None => {}
                Some(Stop::Full) => self.writable = false,
                Some(Stop::Cold(range)) => {
                    self.is_lent = true;
                    self.asks = Some(Asks::Fill(range));
                }
                Some(Stop::Empty) => break,
            }
        }
        if let Some(tls) = &mut self.tls {
            tls.give_back(&mut with.sealed);
        }
        Ok(sent)
    }

    /// Sends what is sealed, or seals what comes next.
    fn write_some(&mut self, with: &mut Buffers, sent: &mut usize) -> io::Result<Option<Stop>> {
        let owes_goodbye = self.owes_goodbye();
        let Some(tls) = self.tls.as_mut() else { return Ok(Some(Stop::Empty)) };
        if !tls.is_drained() {
            return send(tls, &self.stream, sent);
        }
        match self.out.pieces().front() {
            None if owes_goodbye => tls.say_goodbye(),
            None => return Ok(Some(Stop::Empty)),
            Some(Piece::File(range)) if range.resident(SEAL_BYTES).covers(&range.front(SEAL_BYTES)) => {
                let bytes = range.front(SEAL_BYTES).read()?;
                self.out.filled(bytes);
            }
            Some(Piece::File(range)) => return Ok(Some(Stop::Cold(range.front(FILL_BYTES)))),
            Some(Piece::Bytes(first)) if first.len() >= GATHER_BYTES => {
                let part = first.get(..SEAL_BYTES).unwrap_or(first);
                tls.seal(part)?;
                let count = part.len();
                self.out.sent(count);
            }
            Some(Piece::Bytes(_)) => {
                let gathered = &mut with.gathered;
                gathered.clear();
                for piece in self.out.pieces() {
                    let Piece::Bytes(bytes) = piece else { break };
                    let room = GATHER_BYTES - gathered.len();
                    gathered.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                    if gathered.len() == GATHER_BYTES {
                        break;
                    }
                }
                tls.seal(gathered)?;
                self.out.sent(gathered.len());
            }
        }
        Ok(None)
    }

    /// The last word to a peer that is let go: tried once, since nobody waits for it.
    pub fn part(&mut self) {
        let Some(tls) = self.tls.as_mut() else { return };
        tls.say_goodbye();
        let _ = send(tls, &self.stream, &mut 0); // the peer may be gone already
    }
}

fn send(tls: &mut Tls, socket: &mio::net::TcpStream, sent: &mut usize) -> io::Result<Option<Stop>> {
    let waiting = tls.unsent();
    match rustix::net::send(socket, waiting, SendFlags::NOSIGNAL) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(count) => {
            let is_full = count < waiting.len();
            *sent += count;
            tls.advance(count);
            Ok(is_full.then_some(Stop::Full))
        }
        Err(rustix::io::Errno::AGAIN) => Ok(Some(Stop::Full)),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
