//! Connections whose TLS handshake is under way: no session yet, a bound on bytes and time, and nothing taken at its
//! word. What costs time (signatures, checking a client's certificate) is done by a pool, so that clients that all come
//! at once do not hold up those that are there.
//!
//! It reads and writes the socket and decides when a peer has had its chance; making sessions is the driver's business.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use broker::{Secured, SessionId};
use mio::net::TcpStream;
use model::Mono;
use rustix::net::SendFlags;
use rustls::server::UnbufferedServerConnection;

use super::tls::{Passed, pass};
use crate::tls::certificate;

/// A peer must be through with it after so long.
const TIME_MAX: Duration = Duration::from_secs(10);

/// It need not send more than this for it.
const BYTES_MAX: usize = 64 << 10;

/// Read at once.
const READ_BYTES: usize = 16 << 10;

/// About what rustls holds for one under way.
const HELD_BYTES: usize = 16 << 10;

/// The first byte of a record that begins a handshake.
const HANDSHAKE_RECORD: u8 = 22;

/// A piece of a handshake for a pool.
pub struct Step {
    conn: Box<UnbufferedServerConnection>,
    incoming: Vec<u8>,
}

/// What came of it.
pub struct Stepped {
    conn: Box<UnbufferedServerConnection>,
    /// What is left of the input: a record that is not whole.
    rest: Vec<u8>,
    /// To be sent.
    out: Vec<u8>,
    /// What followed on the handshake.
    plain: Vec<u8>,
    closed: bool,
    failed: Option<rustls::Error>,
    secured: Option<Secured>,
}

impl Step {
    /// Does it.
    pub fn run(self) -> Stepped {
        let Step { mut conn, mut incoming } = self;
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let Passed { consumed, closed, failed } = pass(&mut conn, &mut incoming, &mut plain, &mut out);
        incoming.drain(..consumed.min(incoming.len()));
        let is_done = failed.is_none() && !conn.is_handshaking();
        let secured = is_done.then(|| secured(&conn));
        Stepped { conn, rest: incoming, out, plain, closed, failed, secured }
    }
}

fn secured(conn: &UnbufferedServerConnection) -> Secured {
    let version = match conn.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLS",
    };
    let suite = conn.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str().map(str::to_owned));
    let shown = conn.peer_certificates().and_then(|chain| chain.first());
    Secured {
        version,
        cipher_suite: suite.unwrap_or_default().replace("TLS13_", "TLS_"),
        certificate: shown.and_then(|der| certificate(der)),
    }
}

/// One under way.
struct Handshake {
    door: usize,
    stream: TcpStream,
    remote: SocketAddr,
    local: SocketAddr,
    /// Away while a pool has it.
    conn: Option<Box<UnbufferedServerConnection>>,
    incoming: Vec<u8>,
    received: usize,
    out: Vec<u8>,
    readable: bool,
    /// The peer will send no more.
    ended: bool,
    until: Mono,
    accounted: usize,
}

/// Why one ended without a connection.
#[derive(Debug)]
pub enum Failure {
    /// The peer hung up, or the network did.
    Gone,
    /// It took too long.
    Slow,
    /// It sent too much.
    Flood,
    /// It does not speak TLS; how it began.
    Plain(String),
    /// It speaks TLS, but not so that both sides are content.
    Tls(rustls::Error),
}

/// What comes next for one.
pub enum Next {
    /// Nothing now.
    Wait,
    /// This is for a pool.
    Pool(Step),
    /// It is over, badly. The socket has heard what there was to say.
    Failed(Failure, Ended),
    /// It is over, well.
    Done(Box<Opened>),
}

/// What is left of one that failed.
pub struct Ended {
    /// The place of its door.
    pub door: usize,
    /// Who it was.
    pub remote: SocketAddr,
    /// Its socket.
    pub stream: TcpStream,
    /// What the driver had on its account for it.
    pub accounted: usize,
}

/// A connection that may begin.
pub struct Opened {
    /// What is left of the handshake.
    pub ended: Ended,
    /// Our address.
    pub local: SocketAddr,
    /// The state of TLS.
    pub conn: UnbufferedServerConnection,
    /// Received, not yet opened.
    pub rest: Vec<u8>,
    /// Sealed, not yet sent.
    pub out: Vec<u8>,
    /// Received behind the handshake.
    pub plain: Vec<u8>,
    /// The peer has already said that no more comes.
    pub closed: bool,
    /// What was established.
    pub secured: Secured,
}

/// All under way.
#[derive(Default)]
pub struct Handshakes {
    all: HashMap<SessionId, Handshake>,
    /// When to look at each: all have the same time, so the first in is the first out.
    due: VecDeque<(Mono, SessionId)>,
}

impl Handshakes {
    /// Begins one.
    pub fn begin(
        &mut self,
        id: SessionId,
        door: usize,
        (stream, remote, local): (TcpStream, SocketAddr, SocketAddr),
        conn: UnbufferedServerConnection,
        now: Mono,
    ) {
        let until = now.plus(TIME_MAX);
        self.due.push_back((until, id));
        let (incoming, out, conn) = (Vec::new(), Vec::new(), Some(Box::new(conn)));
        let one = Handshake {
            door,
            stream,
            remote,
            local,
            conn,
            incoming,
            received: 0,
            out,
            readable: true,
            ended: false,
            until,
            accounted: 0,
        };
        self.all.insert(id, one);
    }

    /// What the socket reports; whether it is one of ours.
    pub fn note(&mut self, id: SessionId, event: &mio::event::Event) -> bool {
        let Some(one) = self.all.get_mut(&id) else { return false };
        one.readable |= event.is_readable() || event.is_read_closed();
        true
    }

    /// When to look for those that are late.
    pub fn deadline(&self) -> Option<Mono> {
        self.due.front().map(|(at, _)| *at)
    }

    /// Takes one whose time is over.
    pub fn take_late(&mut self, now: Mono) -> Option<SessionId> {
        while self.deadline().is_some_and(|at| at <= now) {
            let (_, id) = self.due.pop_front()?;
            let Some(one) = self.all.get_mut(&id) else { continue };
            if one.conn.is_some() {
                return Some(id);
            }
            // It waits for us, not we for it.
            one.until = now.plus(TIME_MAX);
            self.due.push_back((one.until, id));
        }
        None
    }

    /// The ids of all.
    pub fn ids(&self) -> Vec<SessionId> {
        self.all.keys().copied().collect()
    }

    /// How the account of one changes: what it held, what it holds.
    pub fn account(&mut self, id: SessionId) -> (usize, usize) {
        let Some(one) = self.all.get_mut(&id) else { return (0, 0) };
        let holds = HELD_BYTES + one.incoming.capacity() + one.out.capacity();
        (std::mem::replace(&mut one.accounted, holds), holds)
    }

    /// Goes on with one as far as its socket allows.
    pub fn go_on(&mut self, id: SessionId) -> Next {
        let Some(one) = self.all.get_mut(&id) else { return Next::Wait };
        match one.go_on() {
            Ok(None) => Next::Wait,
            Ok(Some(step)) => Next::Pool(step),
            Err(failure) => self.fail(id, failure),
        }
    }

    /// Ends one.
    pub fn fail(&mut self, id: SessionId, failure: Failure) -> Next {
        match self.all.remove(&id) {
            Some(one) => {
                let _ = one.stream.shutdown(std::net::Shutdown::Write); // the peer may be gone already
                Next::Failed(failure, one.end())
            }
            None => Next::Wait,
        }
    }

    /// A pool has brought one further.
    pub fn stepped(&mut self, id: SessionId, stepped: Stepped) -> Next {
        let Some(one) = self.all.get_mut(&id) else { return Next::Wait };
        let Stepped { conn, rest, out, plain, closed, failed, secured } = stepped;
        one.out.extend_from_slice(&out);
        if one.flush().is_err() {
            return self.fail(id, Failure::Gone);
        }
        if let Some(error) = failed {
            return self.fail(id, Failure::Tls(error));
        }
        let Some(secured) = secured else {
            one.conn = Some(conn);
            one.incoming = rest;
            return self.go_on(id);
        };
        let Some(mut one) = self.all.remove(&id) else { return Next::Wait };
        let (out, local) = (std::mem::take(&mut one.out), one.local);
        Next::Done(Box::new(Opened { ended: one.end(), local, conn: *conn, rest, out, plain, closed, secured }))
    }
}

impl Handshake {
    fn go_on(&mut self) -> Result<Option<Step>, Failure> {
        self.flush().map_err(|_| Failure::Gone)?;
        if self.conn.is_none() {
            return Ok(None);
        }
        let before = self.incoming.len();
        self.read()?;
        if let Some(first) = self.incoming.first().filter(|_| self.received == self.incoming.len())
            && *first != HANDSHAKE_RECORD
        {
            let begins = self.incoming.get(..self.incoming.len().min(16)).unwrap_or_default();
            return Err(Failure::Plain(begins.escape_ascii().to_string()));
        }
        if self.incoming.len() == before {
            let is_over = self.received >= BYTES_MAX;
            return if self.ended {
                Err(Failure::Gone)
            } else if is_over {
                Err(Failure::Flood)
            } else {
                Ok(None)
            };
        }
        Ok(self.conn.take().map(|conn| Step { conn, incoming: std::mem::take(&mut self.incoming) }))
    }

    /// What lies behind the handshake may be much and is not to be read here: no more at once than a handshake needs.
    fn read(&mut self) -> Result<(), Failure> {
        let enough = self.incoming.len() + READ_BYTES;
        while self.readable && self.received < BYTES_MAX && self.incoming.len() < enough {
            let room = READ_BYTES.min(BYTES_MAX - self.received);
            self.incoming.reserve_exact(room);
            let at = self.incoming.len();
            self.incoming.resize(at + room, 0);
            let read = rustix::io::read(&self.stream, self.incoming.get_mut(at..).unwrap_or_default());
            self.incoming.truncate(at + read.unwrap_or(0));
            match read {
                Ok(0) => (self.ended, self.readable) = (true, false),
                Ok(count) => self.received += count,
                Err(rustix::io::Errno::AGAIN) => self.readable = false,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(Failure::Gone),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match rustix::net::send(&self.stream, &self.out, SendFlags::NOSIGNAL) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.out.drain(..count)),
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn end(self) -> Ended {
        Ended { door: self.door, remote: self.remote, stream: self.stream, accounted: self.accounted }
    }
}

/// A word on why it failed that helps whoever runs the server, beside rustls' own.
pub fn advice(error: &rustls::Error) -> &'static str {
    use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};
    match error {
        Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::BadCertificate) => {
            ": the client does not trust the certificate of tls.cert, or was not given its authority"
        }
        Error::AlertReceived(AlertDescription::CertificateExpired) => ": for the client the certificate has ended",
        Error::NoCertificatesPresented => ": tls.client_auth is 'required' and the client showed no certificate",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            ": the client's certificate comes from none of tls.client_ca"
        }
        Error::InvalidCertificate(_) => ": the client's certificate is refused",
        Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered | PeerIncompatible::Tls13RequiredForQuic) => {
            ": the client offers only versions of TLS that are not taken"
        }
        _ => "",
    }
}
