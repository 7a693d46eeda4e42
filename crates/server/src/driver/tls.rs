//! TLS between a socket and a session, without I/O: ciphertext in, plaintext out, and the reverse. It holds the rest
//! of a record that has not arrived whole, and records that the socket has not taken; an idle connection holds neither.
//!
//! Handshakes are `handshakes.rs`; when to read and write is `secure.rs`. It knows no protocol above TLS.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};

/// Room for what rustls itself writes: more than any single piece of a handshake.
const PIECE_BYTES: usize = 4 << 10;

/// Room that a record takes beyond its content, and the most content of one.
const RECORD_EXTRA_BYTES: usize = 64;
const RECORD_BYTES: usize = 16 << 10;

/// What is said of a connection on which the library of TLS panicked.
const BROKEN: &str = "a mistake in the library of TLS";

/// What came of going through received bytes.
#[derive(Debug, Default)]
pub struct Passed {
    /// So many of them are done with.
    pub consumed: usize,
    /// The peer has said that it will send no more.
    pub closed: bool,
    /// The connection is broken: the alert is among the output.
    pub failed: Option<rustls::Error>,
}

/// Goes through `incoming`, appends what it holds to `plain` and what must be answered to `out`. A mistake in the
/// library of TLS ends this connection and no other.
pub fn pass(
    conn: &mut UnbufferedServerConnection,
    incoming: &mut [u8],
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Passed {
    let passed = catch_unwind(AssertUnwindSafe(|| go_through(conn, incoming, plain, out)));
    passed.unwrap_or_else(|_| Passed { failed: Some(rustls::Error::General(BROKEN.into())), ..Passed::default() })
}

fn go_through(
    conn: &mut UnbufferedServerConnection,
    incoming: &mut [u8],
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Passed {
    let mut passed = Passed::default();
    loop {
        let rest = incoming.get_mut(passed.consumed..).unwrap_or_default();
        let UnbufferedStatus { mut discard, state } = conn.process_tls_records(rest);
        let mut goes_on = true;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let Ok(record) = record else { break };
                    discard += record.discard;
                    plain.extend_from_slice(record.payload);
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut piece)) => encode(out, |room| piece.encode(room)),
            Ok(ConnectionState::TransmitTlsData(piece)) => piece.done(),
            Ok(ConnectionState::PeerClosed) => passed.closed = true,
            Ok(ConnectionState::Closed) => (passed.closed, goes_on) = (true, false),
            // Waiting for more; early data is not offered, and states that are not known yet cannot be served.
            Ok(_) => goes_on = false,
            Err(error) => (passed.failed, goes_on) = (Some(error), false),
        }
        passed.consumed += discard;
        if !goes_on {
            break;
        }
    }
    if passed.failed.is_some() {
        // Only as long as something is to be sent: what has failed must not be read a second time.
        let rest = incoming.get_mut(passed.consumed..).unwrap_or_default();
        while conn.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut alert)) = conn.process_tls_records(rest).state
        {
            encode(out, |room| alert.encode(room));
        }
    }
    passed
}

fn encode(out: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) {
    let at = out.len();
    out.resize(at + PIECE_BYTES, 0);
    let mut written = write(out.get_mut(at..).unwrap_or_default());
    if let Err(EncodeError::InsufficientSize(short)) = &written {
        out.resize(at + short.required_size, 0);
        written = write(out.get_mut(at..).unwrap_or_default());
    }
    out.truncate(at + written.unwrap_or(0));
}

type Traffic<'a> = WriteTraffic<'a, rustls::server::ServerConnectionData>;
type Write<'a> = dyn FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError> + 'a;

/// A connection whose handshake is over.
pub struct Tls {
    conn: UnbufferedServerConnection,
    /// The beginning of a record of which more must come. Bounded by the largest record.
    rest: Vec<u8>,
    /// Records that wait to leave.
    sealed: Vec<u8>,
    /// So many bytes of them have left.
    sent: usize,
    said_goodbye: bool,
    /// The peer broke the rules: it has been told, and nothing more is said.
    has_failed: bool,
}

impl Tls {
    /// After a handshake that left `rest` unread and `sealed` to be sent.
    pub fn new(conn: UnbufferedServerConnection, rest: Vec<u8>, sealed: Vec<u8>) -> Tls {
        Tls { conn, rest, sealed, sent: 0, said_goodbye: false, has_failed: false }
    }

    /// What is to be put in front of the bytes that are read next.
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Reads records: `incoming` begins with [`Tls::rest`]. What they hold is appended to `plain`; answers whether the
    /// peer has said that no more comes.
    ///
    /// # Errors
    /// `InvalidData` when they are not what the peer should have sent: the connection is to be ended.
    pub fn open(&mut self, incoming: &mut [u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        let passed = pass(&mut self.conn, incoming, plain, &mut self.sealed);
        self.rest.clear();
        self.rest.extend_from_slice(incoming.get(passed.consumed..).unwrap_or_default());
        if self.rest.is_empty() {
            self.rest = Vec::new(); // an idle connection holds no memory
        }
        match passed.failed {
            Some(error) => {
                self.has_failed = true;
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
            None => Ok(passed.closed),
        }
    }

    /// Makes records of `plain`, behind all before.
    ///
    /// # Errors
    /// When the connection takes no more.
    pub fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        let records = plain.len() / RECORD_BYTES + 1;
        self.write(plain.len() + records * RECORD_EXTRA_BYTES, |traffic, room| traffic.encrypt(plain, room))
    }

    /// Says that no more comes.
    pub fn say_goodbye(&mut self) {
        if !std::mem::replace(&mut self.said_goodbye, true) {
            // One that takes no more needs no goodbye.
            let _ = self.write(RECORD_EXTRA_BYTES, |traffic, room| traffic.queue_close_notify(room));
        }
    }

    fn write(
        &mut self,
        room: usize,
        mut write: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> io::Result<()> {
        if self.has_failed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let written = catch_unwind(AssertUnwindSafe(|| self.write_records(room, &mut write)));
        let written = written.unwrap_or_else(|_| Err(io::Error::other(BROKEN)));
        self.has_failed = written.is_err();
        written
    }

    fn write_records(&mut self, room: usize, write: &mut Write<'_>) -> io::Result<()> {
        loop {
            match self.conn.process_tls_records(&mut self.rest).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let at = self.sealed.len();
                    self.sealed.resize(at + room, 0);
                    let mut written = write(&mut traffic, self.sealed.get_mut(at..).unwrap_or_default());
                    if let Err(EncryptError::InsufficientSize(short)) = &written {
                        self.sealed.resize(at + short.required_size, 0);
                        written = write(&mut traffic, self.sealed.get_mut(at..).unwrap_or_default());
                    }
                    self.sealed.truncate(at + written.as_ref().copied().unwrap_or(0));
                    return written.map(|_| ()).map_err(io::Error::other);
                }
                // A change of keys goes first.
                Ok(ConnectionState::EncodeTlsData(mut piece)) => encode(&mut self.sealed, |room| piece.encode(room)),
                Ok(ConnectionState::TransmitTlsData(piece)) => piece.done(),
                Ok(ConnectionState::PeerClosed) => {}
                Ok(_) => return Err(io::ErrorKind::NotConnected.into()),
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }

    /// Whether nothing is sealed and not sent.
    pub fn is_drained(&self) -> bool {
        self.sealed.len() == self.sent
    }

    /// Whether it was said that no more comes.
    pub fn has_said_goodbye(&self) -> bool {
        self.said_goodbye
    }

    /// What waits to leave.
    pub fn unsent(&self) -> &[u8] {
        self.sealed.get(self.sent..).unwrap_or_default()
    }

    /// So many bytes of it have left.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.is_drained() {
            self.sealed.clear();
            self.sent = 0;
        }
    }

    /// Lends it a buffer to seal into, while nothing waits.
    pub fn lend(&mut self, spare: &mut Vec<u8>) {
        if self.is_drained() && self.sealed.capacity() < spare.capacity() {
            std::mem::swap(&mut self.sealed, spare);
        }
    }

    /// Takes the buffer back if nothing waits in it.
    pub fn give_back(&mut self, spare: &mut Vec<u8>) {
        if self.is_drained() {
            let mine = std::mem::take(&mut self.sealed);
            if mine.capacity() > spare.capacity() {
                *spare = mine;
            }
        }
    }

    /// Memory held, without what rustls has for itself.
    pub fn held_bytes(&self) -> usize {
        self.rest.capacity() + self.sealed.capacity()
    }
}
