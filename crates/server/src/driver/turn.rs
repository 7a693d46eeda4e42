//! One turn of the driver, step by step.

use std::time::Duration;

use broker::{Input, SessionId};
use mio::{Events, Token};
use model::Mono;

use super::connection::{Asks, End, Reading};
use super::listeners::{Accepted, accept};
use super::pools::Done;
use super::sending::Carried;
use super::{BELL, Driver, STOP_GRACE};

/// Connections let go at once when memory is short.
const LET_GO_PER_LOOK: usize = 16;

/// Connections accepted at one door before others have their turn.
const ACCEPTS_PER_TURN: usize = 128;

/// Rounds of "end the core's turn, hand out what came of it" in one turn of the driver.
const ROUNDS_PER_TURN: usize = 16;

/// Events handed out in one round.
const EVENTS_PER_ROUND: usize = 100_000;

/// With no descriptors left, accepting is tried again after so long.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// That no descriptors are left is said again after so long.
const SAY_EXHAUSTED_AGAIN: Duration = Duration::from_secs(60);

/// While storage lags behind, sockets are read once in this time …
const LAG_PAUSE: Duration = Duration::from_millis(5);

/// … and not more than this, less the greater the lag is.
const LAG_READ_BYTES: u64 = 512 << 10;

/// A peer that neither reads our last words nor hangs up is cut off after so long.
const LINGER: Duration = Duration::from_secs(5);

impl Driver {
    pub(super) fn turn(&mut self, events: &Events) {
        self.more = false;
        self.begin_stop();
        for event in events {
            self.note(event);
        }
        self.take_outcomes();
        self.accept_waiting();
        self.relieve();
        self.read_listed();
        self.fire_deadlines();
        self.go_on_stopping();
        for _ in 0..ROUNDS_PER_TURN {
            self.end_core_turn();
            let told = self.tell_progress() | self.tell_events() | self.write_listed();
            if !told {
                return;
            }
        }
        self.more = true;
    }

    fn note(&mut self, event: &mio::event::Event) {
        match event.token() {
            BELL => {}
            Token(at) if at <= self.listeners.len() => self.accepting.push(at - 1),
            Token(id) => {
                let id = SessionId(id as u64);
                if self.handshakes.note(id, event) {
                    return self.go_on_opening(id);
                }
                let Some(connection) = self.connections.get(id) else { return };
                connection.note(event);
                self.after(id);
            }
        }
    }

    fn take_outcomes(&mut self) {
        while let Some(done) = self.pools.done() {
            match done {
                Done::Job(done) => self.broker.complete(done, self.now),
                Done::Filled(id, read) => self.filled(id, read),
                Done::Sent(id, sent) => self.sent(id, sent),
                Done::Handshake(id, stepped) => self.handshake_stepped(id, *stepped),
            }
        }
    }

    /// What a connection was to send next has been read.
    fn filled(&mut self, id: SessionId, read: std::io::Result<bytes::Bytes>) {
        let Some(connection) = self.connections.get(id) else { return };
        match read {
            Ok(bytes) => {
                connection.filled(bytes);
                self.after(id);
            }
            Err(error) => {
                // The peer was promised these bytes: nothing else can follow.
                tracing::error!(session = id.0, %error, "closed: what it was being sent cannot be read");
                self.distrust(id);
                self.remove(id);
            }
        }
    }

    /// A pool has sent for a connection.
    fn sent(&mut self, id: SessionId, sent: std::io::Result<Carried>) {
        let Some(connection) = self.connections.get(id) else { return };
        match sent {
            Ok(done) => {
                connection.sent(done);
                self.note_sent(id, done.sent);
            }
            Err(error) => self.lose(id, &error),
        }
    }

    /// Looks again at those that were not read for lack of memory, and lets go of who stands still and holds much.
    fn relieve(&mut self) {
        self.memory.core_holds(self.broker.memory_bytes());
        self.counters.memory(self.memory.used() as u64, self.memory.budget() as u64);
        self.broker.set_low_on_memory(self.memory.is_low());
        let looks = self.memory.must_look(self.now.mono);
        for _ in 0..LET_GO_PER_LOOK {
            if !looks || !self.memory.is_tight() {
                break;
            }
            let Some(id) = self.most_idle() else { break };
            tracing::warn!(session = id.0, "closed: memory is short, and its peer neither reads nor goes on sending");
            self.counters.let_go();
            self.remove(id);
        }
        if !self.memory.is_tight() || looks {
            for id in std::mem::take(&mut self.lists.held) {
                let Some(connection) = self.connections.get(id) else { continue };
                connection.listed.held = false;
                self.after(id);
            }
        }
    }

    /// Of those that hold much and stand still, the one that has for the longest time.
    fn most_idle(&mut self) -> Option<SessionId> {
        let mut found: Option<((bool, Mono), SessionId)> = None;
        for id in self.connections.ids() {
            let Some(connection) = self.connections.get(id) else { continue };
            let (holds, moved) = (connection.accounted, connection.moved);
            // One that would send more if we read it comes last.
            let place = (connection.listed.held, moved);
            if self.memory.stands_still(holds, moved, self.now.mono) && found.is_none_or(|(first, _)| place < first) {
                found = Some((place, id));
            }
        }
        found.map(|(_, id)| id)
    }

    fn accept_waiting(&mut self) {
        if self.accept_again.is_some_and(|at| at > self.now.mono) || self.stop_at.is_some() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.accepting);
        if self.accept_again.take().is_some() {
            waiting = (0..self.listeners.len()).collect();
        }
        for at in waiting {
            if !self.accept_at(at) {
                self.accepting.push(at);
                self.more |= self.accept_again.is_none();
            }
        }
    }

    /// Whether nobody waits there any more.
    fn accept_at(&mut self, at: usize) -> bool {
        let Some(listener) = self.listeners.get(at) else { return true };
        let door = listener.door;
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = self.listeners.get(at) else { return true };
            match accept(&listener.socket) {
                Accepted::Nobody => return true,
                Accepted::Gone => {}
                Accepted::Exhausted(error) => {
                    let mono = self.now.mono;
                    if self.exhausted.is_none_or(|said| mono.since(said) >= SAY_EXHAUSTED_AGAIN) {
                        self.exhausted = Some(mono);
                        tracing::error!(
                            "no more connections can be accepted ({error}): raise the limit of open files or close some"
                        );
                    }
                    self.accept_again = Some(self.now.mono.plus(ACCEPT_PAUSE));
                    return false;
                }
                Accepted::Peer(stream, remote, local) => {
                    self.add(door, stream, remote, local);
                }
            }
        }
        false
    }

    fn read_listed(&mut self) {
        let Some(mut room) = self.room_to_read() else { return };
        let mut listed = std::mem::take(&mut self.lists.read).into_iter();
        while room > 0 {
            let Some(id) = listed.next() else { break };
            let Some(connection) = self.connections.get(id) else { continue };
            connection.listed.read = false;
            connection.set_room(self.memory.room());
            let mut received = 0;
            let mut with = Reading {
                broker: &mut self.broker,
                now: self.now,
                scratch: &mut self.scratch,
                plain: &mut self.plain,
                pool: &mut self.pool,
                received: &mut received,
            };
            let read = connection.read(&mut with);
            self.counters.received(connection.door, received);
            room = room.saturating_sub(received);
            if received > 0 {
                connection.moved = self.now.mono;
            }
            match read {
                Ok(()) => self.after(id),
                Err(error) => self.lose(id, &error),
            }
        }
        // Those who had no turn come first in the next.
        let later = std::mem::take(&mut self.lists.read);
        self.lists.read = listed.chain(later).collect();
    }

    /// How many bytes may be read in this turn; `None`: nothing yet. While storage lags behind, everybody is read more
    /// slowly: also consumers, but what they send is little.
    fn room_to_read(&mut self) -> Option<u64> {
        let lag = u64::from(self.broker.lag_permille());
        if lag == 0 {
            self.read_again = None;
            return Some(u64::MAX);
        }
        if self.read_again.is_some_and(|at| at > self.now.mono) {
            return None;
        }
        self.read_again = Some(self.now.mono.plus(LAG_PAUSE));
        Some(LAG_READ_BYTES * 1000u64.saturating_sub(lag) / 1000 + 1)
    }

    fn fire_deadlines(&mut self) {
        let mono = self.now.mono;
        // All of them before any is looked at: one that stays due must not keep the turn from ending.
        let due: Vec<SessionId> = std::iter::from_fn(|| self.deadlines.due(mono)).collect();
        for id in due {
            let Some(connection) = self.connections.get(id) else { continue };
            connection.scheduled = None;
            if connection.linger_until.is_some_and(|until| until <= mono) {
                self.remove(id);
                continue;
            }
            if connection.is_due(mono) {
                connection.tell(Input::Tick, &mut self.broker, self.now);
            }
            self.after(id);
        }
        self.end_late_handshakes();
        if self.broker.deadline().is_some_and(|at| at <= mono) {
            self.broker.tick(self.now);
        }
    }

    fn end_core_turn(&mut self) {
        self.broker.end_turn(self.now);
        while let Some(job) = self.broker.next_job() {
            self.pools.run(job);
        }
    }

    fn tell_progress(&mut self) -> bool {
        let state = (self.broker.progress(), self.broker.failure().is_some());
        if state == self.told {
            return false;
        }
        self.told = state;
        let waiting = std::mem::take(&mut self.lists.progress);
        let any = !waiting.is_empty();
        for id in waiting {
            let Some(connection) = self.connections.get(id) else { continue };
            connection.listed.progress = false;
            if connection.awaits_progress() {
                connection.tell(Input::Progress, &mut self.broker, self.now);
            }
            self.after(id);
        }
        any
    }

    fn tell_events(&mut self) -> bool {
        let mut told = 0;
        while told < EVENTS_PER_ROUND {
            let Some((id, event)) = self.broker.next_event() else { break };
            told += 1;
            let Some(connection) = self.connections.get(id) else { continue };
            connection.tell(Input::Event(event), &mut self.broker, self.now);
            self.after(id);
        }
        told > 0
    }

    /// Writes; answers whether a session was told of room and may have worked.
    fn write_listed(&mut self) -> bool {
        let mut told = false;
        for id in std::mem::take(&mut self.lists.write) {
            let Some(connection) = self.connections.get(id) else { continue };
            connection.listed.write = false;
            match connection.write(&mut self.buffers) {
                Ok(sent) => told |= self.note_sent(id, sent),
                Err(error) => self.lose(id, &error),
            }
        }
        told
    }

    /// So much has left; answers whether the session was told of room and may have worked.
    fn note_sent(&mut self, id: SessionId, sent: usize) -> bool {
        let Some(connection) = self.connections.get(id) else { return false };
        self.counters.sent(connection.door, sent as u64);
        if sent > 0 {
            connection.moved = self.now.mono;
        }
        match connection.take_asks() {
            Some(Asks::Fill(range)) => self.pools.fill(id, range),
            Some(Asks::Send(errand)) => self.pools.send(id, errand),
            None => {}
        }
        let has_room = connection.has_room();
        if has_room {
            connection.tell(Input::Room, &mut self.broker, self.now);
        }
        self.after(id);
        has_room
    }

    /// Puts a connection on the lists where its state now belongs, or ends it. To be called whenever it was touched.
    pub(super) fn after(&mut self, id: SessionId) {
        let Some(connection) = self.connections.get(id) else { return };
        if let Some(end) = connection.end() {
            if end == End::Tls {
                connection.alert();
            }
            self.log_end(id, end);
            self.remove(id);
            return;
        }
        if connection.is_finished() && connection.has_session() {
            connection.close_session(&mut self.broker, self.now);
            connection.shut_down();
        }
        let leaves = connection.is_half_closed() || !connection.has_session() || connection.is_closing();
        if leaves && connection.linger_until.is_none() {
            connection.linger_until = Some(self.now.mono.plus(LINGER));
        }
        let (deadline, listed) = (connection.deadline(), &mut connection.scheduled);
        self.deadlines.schedule(id, deadline, listed);
        let holds = connection.memory_bytes();
        self.memory.changed(std::mem::replace(&mut connection.accounted, holds), holds);
        if connection.can_read() {
            // A request that was held and can go on now gives memory back.
            let may_read = connection.has_input() || self.memory.may_read(holds);
            let (listed, list) = match may_read {
                true => (&mut connection.listed.read, &mut self.lists.read),
                false => (&mut connection.listed.held, &mut self.lists.held),
            };
            if !std::mem::replace(listed, true) {
                list.push(id);
            }
        }
        if connection.can_write() && !std::mem::replace(&mut connection.listed.write, true) {
            self.lists.write.push(id);
        }
        if connection.awaits_progress() && !std::mem::replace(&mut connection.listed.progress, true) {
            self.lists.progress.push(id);
        }
    }

    fn log_end(&self, id: SessionId, end: End) {
        match end {
            End::Panic => tracing::error!(session = id.0, "a session panicked; its connection is closed"),
            End::Tls => tracing::info!(
                session = id.0,
                "closed: a client began with TLS at a door without; let it use the door that speaks TLS (amqps, \
                 kafka-ssl, https), or no TLS"
            ),
            End::Flood => tracing::warn!(session = id.0, "closed: the peer sent a frame that does not end"),
            End::Peer | End::Done => tracing::debug!(session = id.0, ?end, "disconnected"),
        }
    }

    /// A connection is dead.
    fn lose(&mut self, id: SessionId, error: &std::io::Error) {
        tracing::debug!(session = id.0, %error, "disconnected");
        // No network says so: it was the disk of what was to be sent.
        if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) {
            tracing::error!(session = id.0, %error, "closed: what it was being sent cannot be read");
            self.distrust(id);
        }
        self.remove(id);
    }

    /// What a connection was being sent cannot be read: who asks for it again must not be sent it unread.
    fn distrust(&mut self, id: SessionId) {
        let ranges: Vec<_> = self.connections.get(id).map(|of| of.ranges().collect()).unwrap_or_default();
        ranges.iter().for_each(|range| self.broker.distrust(range));
    }

    fn remove(&mut self, id: SessionId) {
        let Some(mut connection) = self.connections.remove(id) else { return };
        self.deadlines.forget(id, connection.scheduled);
        connection.close_session(&mut self.broker, self.now);
        connection.part();
        self.memory.changed(connection.accounted, 0);
        let _ = self.poll.registry().deregister(&mut connection.stream); // closing it does the same
        self.counters.closed(connection.door);
        self.more = true; // what it held in the core may have gone to others
        if self.accept_again.is_some() {
            self.accept_again = Some(self.now.mono);
        }
    }

    fn begin_stop(&mut self) {
        if self.stop_at.is_some() || !self.stop.asked.load(std::sync::atomic::Ordering::Acquire) {
            return;
        }
        self.stop_at = Some(self.now.mono.plus(STOP_GRACE));
        self.listeners.clear();
        self.end_handshakes();
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.get(id) {
                connection.tell(Input::Stopping, &mut self.broker, self.now);
            }
            self.after(id);
        }
        self.more = true;
    }

    /// Ends the connections whose time is over, and syncs what is not.
    fn go_on_stopping(&mut self) {
        let Some(at) = self.stop_at else { return };
        if self.now.mono >= at {
            for id in self.connections.ids() {
                self.remove(id);
            }
        }
        if !self.is_durable() {
            self.broker.sync_now();
        }
    }
}
