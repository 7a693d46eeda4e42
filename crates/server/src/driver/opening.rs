//! From an accepted socket to a connection with a session: at once at a plain door, behind a handshake at one that
//! speaks TLS. What a handshake is, step by step, is in `handshakes.rs`.

use std::net::SocketAddr;
use std::sync::Arc;

use broker::{Peer, SessionId};
use mio::net::TcpStream;
use mio::{Interest, Token};
use rustls::server::UnbufferedServerConnection;

use super::Driver;
use super::connection::Connection;
use super::handshakes::{Ended, Failure, Next, Opened, Stepped, advice};
use super::tls::Tls;

impl Driver {
    /// Takes in whoever was accepted at a door.
    pub(super) fn add(&mut self, door: usize, mut stream: TcpStream, remote: SocketAddr, local: SocketAddr) {
        let Some(plan) = self.plans.get(door) else { return };
        let Some(tongue) = self.tongues.get(plan.tongue) else { return };
        let (name, is_tls) = (plan.name, plan.tls);
        let id = self.connections.reserve();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, Token(id.0 as usize), interest) {
            tracing::error!("a connection cannot be watched: {error}");
            self.connections.release(id);
            return;
        }
        self.counters.opened(door);
        tracing::debug!(door = name, session = id.0, %remote, "connected");
        if is_tls {
            return self.begin_handshake(id, door, (stream, remote, local));
        }
        let session = tongue.session(name, Peer { session: id, remote, local, tls: None });
        self.open(Connection::new(id, door, stream, session));
    }

    fn open(&mut self, mut connection: Connection) {
        let id = connection.id;
        connection.moved = self.now.mono;
        self.connections.place(connection);
        self.after(id);
    }

    fn begin_handshake(&mut self, id: SessionId, door: usize, peer: (TcpStream, SocketAddr, SocketAddr)) {
        let config = self.tls.as_ref().map(|keeper| Arc::clone(&keeper.current().config));
        let Some(Ok(conn)) = config.map(UnbufferedServerConnection::new) else {
            let ended = Ended { door, remote: peer.1, stream: peer.0, accounted: 0 };
            return self.forget(id, ended);
        };
        self.handshakes.begin(id, door, peer, conn, self.now.mono);
        self.go_on_opening(id);
    }

    /// A socket whose handshake is under way has something for us.
    pub(super) fn go_on_opening(&mut self, id: SessionId) {
        let next = self.handshakes.go_on(id);
        self.opening(id, next);
    }

    /// A pool has brought a handshake further.
    pub(super) fn handshake_stepped(&mut self, id: SessionId, stepped: Stepped) {
        let next = self.handshakes.stepped(id, stepped);
        self.opening(id, next);
    }

    /// Ends the handshakes that take too long.
    pub(super) fn end_late_handshakes(&mut self) {
        while let Some(id) = self.handshakes.take_late(self.now.mono) {
            let next = self.handshakes.fail(id, Failure::Slow);
            self.opening(id, next);
        }
    }

    /// Ends all handshakes: the server stops.
    pub(super) fn end_handshakes(&mut self) {
        for id in self.handshakes.ids() {
            let next = self.handshakes.fail(id, Failure::Gone);
            self.opening(id, next);
        }
    }

    fn opening(&mut self, id: SessionId, next: Next) {
        match next {
            Next::Wait => {}
            Next::Pool(step) => self.pools.handshake(id, step),
            Next::Failed(failure, ended) => {
                self.log_failed(&failure, &ended);
                self.counters.handshake_failed(ended.door);
                return self.forget(id, ended);
            }
            Next::Done(opened) => return self.opened(id, *opened),
        }
        let (before, now) = self.handshakes.account(id);
        self.memory.changed(before, now);
    }

    fn log_failed(&self, failure: &Failure, ended: &Ended) {
        let (door, remote) = (self.plans.get(ended.door).map_or("", |plan| plan.name), ended.remote);
        match failure {
            Failure::Gone => tracing::debug!(door, %remote, "hung up in the TLS handshake"),
            Failure::Slow => tracing::info!(door, %remote, "closed: the TLS handshake took too long"),
            Failure::Flood => tracing::info!(door, %remote, "closed: the TLS handshake does not end"),
            Failure::Plain(begins) => tracing::info!(
                door,
                %remote,
                "closed: this door speaks TLS and the client does not (it begins with \"{begins}\"): let it use TLS, \
                 or the door without"
            ),
            Failure::Tls(error) => {
                tracing::info!(door, %remote, "closed: the TLS handshake failed: {error}{}", advice(error));
            }
        }
    }

    /// Undoes what was done for a socket that came to nothing.
    fn forget(&mut self, id: SessionId, mut ended: Ended) {
        let _ = self.poll.registry().deregister(&mut ended.stream); // closing it does the same
        self.memory.changed(ended.accounted, 0);
        self.connections.release(id);
        self.counters.closed(ended.door);
        if self.accept_again.is_some() {
            self.accept_again = Some(self.now.mono);
        }
    }

    fn opened(&mut self, id: SessionId, opened: Opened) {
        let Opened { ended, local, conn, rest, out, plain, closed, secured } = opened;
        self.memory.changed(ended.accounted, 0);
        let (door, remote) = (ended.door, ended.remote);
        let plan = self.plans.get(door);
        let Some((name, tongue)) = plan.and_then(|plan| Some((plan.name, self.tongues.get(plan.tongue)?))) else {
            return self.forget(id, ended);
        };
        tracing::debug!(door = name, session = id.0, %remote, version = secured.version, "TLS handshake done");
        let session = tongue.session(name, Peer { session: id, remote, local, tls: Some(Arc::new(secured)) });
        let connection = Connection::new(id, door, ended.stream, session);
        let connection = connection.through(Tls::new(conn, rest, out), &plain, closed, &mut self.pool);
        self.open(connection);
    }
}
