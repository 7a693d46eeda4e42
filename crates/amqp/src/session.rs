//! A connection's state machine, sans I/O: bytes and events in, frames out. The phases, in order:
//!
//! ```text
//! New ─► Header ─► StartOk ─► LoggingIn ─► TuneOk ─► Open ─► Running ─► Closing ─► Done
//!                                 └► LoginFailed ─► Done       └► Discarding ─► Done
//! ```
//!
//! `Closing` waits for the client's close-ok; `Discarding` is the same when the stream is out of step and no frame can
//! be cut any more. What frames mean on an open connection is in `running.rs`.

use std::sync::Arc;

use broker::access::{Pass, Role};
use broker::{CallId, Cx, Event, Evicted, Input, OUTPUT_BYTES_MAX, Outbox, Peer, Session, StorageError};
use model::{Mono, Name};

use crate::api::basic::{deliver, get, publish};
use crate::api::{reply, tx};
use crate::channels::Channels;
use crate::config::{
    BYTES_MAX_BEFORE_LOGIN, CLOSE_WAIT_MAX, CONFIRMS_WAITING_MAX, Config, HANDSHAKE_TIME_MAX, STALLED_AGAIN,
};
use crate::conn::{Call, Conn, Done};
use crate::errors::{Code, MethodId, Refusal};
use crate::handshake::{self, Proof};
use crate::heartbeat::Heartbeat;
use crate::presence::{self, Presence};
use crate::wire::frame::{self, FrameError, PROTOCOL_HEADER};

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nothing has happened yet.
    New,
    /// The protocol header is expected.
    Header,
    /// We have said start.
    StartOk,
    /// The password is being checked.
    LoggingIn(CallId),
    /// It was wrong, and the client would not understand if we said so: silence.
    LoginFailed,
    /// We have said tune.
    TuneOk,
    /// connection.open is expected.
    Open,
    /// Channels may be used.
    Running,
    /// We have said close.
    Closing,
    /// As `Closing`, but nothing that comes can be understood; or both have said all: the client is to hang up.
    Discarding,
    /// Over.
    Done,
}

/// One connection.
pub struct AmqpSession {
    pub(crate) conn: Conn,
    pub(crate) channels: Channels,
    pub(crate) phase: Phase,
    /// When the phase is over at the latest.
    until: Option<Mono>,
    heartbeat: Heartbeat,
    presence: Presence,
    failure_close: bool,
    /// Bytes taken before the connection was open.
    early_bytes: usize,
    /// A channel holds more replies back than it should: nothing is read until progress moves.
    pub(crate) held_full: bool,
    released: bool,
}

impl Session for AmqpSession {
    fn handle(&mut self, input: Input<'_>, cx: &mut Cx<'_>) -> usize {
        let queued_before = cx.out.queued_bytes();
        if self.phase == Phase::New {
            self.phase = Phase::Header;
            self.until = Some(cx.now.mono.plus(HANDSHAKE_TIME_MAX));
        }
        let mut consumed = 0;
        match input {
            Input::Bytes(bytes) => consumed = self.bytes(bytes, cx),
            Input::Event(event) => self.event(event, cx),
            Input::Progress => self.progress(cx),
            Input::Room => {}
            Input::Tick => self.tick(cx),
            Input::Stopping => self.stopping(cx),
            Input::Closed => {
                self.release(cx);
                self.phase = Phase::Done;
            }
        }
        self.refill(cx);
        self.unblock(cx);
        self.count(consumed, cx.out.queued_bytes().saturating_sub(queued_before));
        if cx.out.queued_bytes() > queued_before {
            self.heartbeat.sent(cx.now.mono);
        }
        consumed
    }

    fn deadline(&self) -> Option<Mono> {
        match self.phase {
            // A tick at once: only then is the time known from which the client's silence counts.
            Phase::New => Some(Mono(0)),
            Phase::Done => None,
            _ => {
                let stalled = self.conn.stalled.map(|stalled| stalled.again_at);
                let alarmed = self.conn.alarmed.map(|alarmed| alarmed.again_at);
                self.until.into_iter().chain(self.heartbeat.deadline()).chain(stalled).chain(alarmed).min()
            }
        }
    }

    fn wants_input(&self) -> bool {
        match self.phase {
            Phase::LoggingIn(_) => false,
            Phase::Running => {
                self.conn.getting.is_none()
                    && !self.conn.looking
                    && self.conn.confirms_waiting < CONFIRMS_WAITING_MAX
                    && !self.held_full
                    && !self.is_stalled()
            }
            _ => true,
        }
    }

    fn is_stalled(&self) -> bool {
        let (stalled, alarmed) = (self.conn.stalled, self.conn.alarmed);
        stalled.is_some_and(|stalled| stalled.holds_input) || alarmed.is_some_and(|alarmed| alarmed.holds_input)
    }

    fn awaits_progress(&self) -> bool {
        !self.conn.waiting.is_empty() || self.conn.looking
    }

    fn memory_bytes(&self) -> usize {
        let unfinished = usize::try_from(self.conn.unfinished_bytes).unwrap_or(usize::MAX);
        unfinished.saturating_add(self.channels.memory_bytes())
    }
}

impl AmqpSession {
    /// Of a connection just accepted.
    #[must_use]
    pub fn new(config: Arc<Config>, peer: Peer) -> AmqpSession {
        AmqpSession {
            conn: Conn::new(config, peer),
            channels: Channels::default(),
            phase: Phase::New,
            until: None,
            heartbeat: Heartbeat::default(),
            presence: Presence::default(),
            failure_close: false,
            early_bytes: 0,
            held_full: false,
            released: false,
        }
    }

    fn count(&self, received: usize, sent: usize) {
        let figures = &self.conn.figures;
        if received > 0 {
            figures.received.add(1);
            figures.received_bytes.add(received as u64);
        }
        if sent > 0 {
            figures.sent.add(1);
            figures.sent_bytes.add(sent as u64);
        }
        figures.blocked.set((self.conn.stalled.is_some() || self.conn.alarmed.is_some()).into());
    }

    fn bytes(&mut self, input: &[u8], cx: &mut Cx<'_>) -> usize {
        self.heartbeat.received(cx.now.mono);
        let mut at = 0;
        while let Some(rest) = input.get(at..)
            && !rest.is_empty()
            && self.wants_input()
            && cx.out.queued_bytes() <= OUTPUT_BYTES_MAX
        {
            let used = self.step(rest, cx);
            if used == 0 {
                break;
            }
            at += used;
            if self.is_early() {
                self.early_bytes += used;
                if self.early_bytes > BYTES_MAX_BEFORE_LOGIN {
                    self.cut(cx);
                }
            }
        }
        self.conn.settles.flush(self.conn.peer.session, &self.conn.consumers, cx.broker);
        at
    }

    /// Whether nobody is logged in yet.
    fn is_early(&self) -> bool {
        matches!(self.phase, Phase::New | Phase::Header | Phase::StartOk | Phase::LoggingIn(_))
    }

    fn step(&mut self, rest: &[u8], cx: &mut Cx<'_>) -> usize {
        match self.phase {
            Phase::New | Phase::Header => self.protocol_header(rest, cx),
            Phase::LoggingIn(_) => 0,
            Phase::LoginFailed | Phase::Discarding | Phase::Done => rest.len(),
            Phase::StartOk | Phase::TuneOk | Phase::Open | Phase::Running | Phase::Closing => self.frame(rest, cx),
        }
    }

    fn protocol_header(&mut self, rest: &[u8], cx: &mut Cx<'_>) -> usize {
        let Some(header) = rest.first_chunk::<8>() else {
            // Not even the beginning of it: no need to wait for eight bytes.
            if !PROTOCOL_HEADER.starts_with(rest.get(..4.min(rest.len())).unwrap_or_default()) {
                return self.not_amqp(rest, cx);
            }
            return 0;
        };
        // 0-9 spelled the old way is taken too, as RabbitMQ does.
        if *header != PROTOCOL_HEADER && header != b"AMQP\x01\x01\x00\x09" {
            return self.not_amqp(rest, cx);
        }
        handshake::put_start(cx.out.buffer(), &self.conn.config, cx.broker, self.conn.certificate().is_some());
        self.phase = Phase::StartOk;
        header.len()
    }

    /// The specification: say which protocol is spoken here, then close.
    fn not_amqp(&mut self, rest: &[u8], cx: &mut Cx<'_>) -> usize {
        cx.out.buffer().extend_from_slice(&PROTOCOL_HEADER);
        self.cut(cx);
        rest.len()
    }

    fn frame(&mut self, rest: &[u8], cx: &mut Cx<'_>) -> usize {
        match frame::cut(rest, self.conn.frame_bytes_max) {
            Ok(None) => 0,
            Ok(Some(frame)) if self.must_wait(&frame, cx) => {
                self.conn.looking = true;
                0
            }
            Ok(Some(frame)) if self.must_stall(&frame) => 0,
            Ok(Some(frame)) => {
                if let Err(refusal) = self.on_frame(&frame, cx) {
                    self.refuse(frame.channel, refusal, cx);
                }
                frame.bytes
            }
            Err(error) => {
                let text = match error {
                    FrameError::TooLarge { kind, size, size_max } => {
                        format!("type {kind}, all octets = <<>>: {{frame_too_large,{size},{size_max}}}")
                    }
                    FrameError::End { kind, found } => {
                        format!("type {kind}, all octets = <<>>: {{invalid_frame_end_marker,{found}}}")
                    }
                };
                self.close(&Refusal::new(Code::FrameError, text), Phase::Discarding, cx);
                rest.len()
            }
        }
    }

    /// Whether `frame` begins a publish while another one waits for room on the disk, or all wait for memory. All else
    /// is still taken: acknowledgements, above all.
    fn must_stall(&mut self, frame: &frame::Frame<'_>) -> bool {
        if self.conn.stalled.is_none() && self.conn.alarmed.is_none() {
            return false;
        }
        let publishes = frame.kind == frame::Kind::Method && frame.payload.starts_with(&[0, 60, 0, 40]);
        if let Some(alarmed) = &mut self.conn.alarmed {
            alarmed.holds_input |= publishes;
        }
        let Some(stalled) = &mut self.conn.stalled else { return publishes };
        let waits = publishes || (stalled.content.is_none() && stalled.channel == frame.channel);
        stalled.holds_input |= waits;
        waits
    }

    /// Looks whether there is memory again.
    fn calm_down(&mut self, cx: &Cx<'_>) {
        let is_low = cx.broker.is_low_on_memory();
        if let Some(alarmed) = &mut self.conn.alarmed
            && alarmed.again_at <= cx.now.mono
        {
            alarmed.again_at = cx.now.mono.plus(STALLED_AGAIN);
            self.conn.alarmed.take_if(|_| !is_low);
        }
    }

    /// Tries the publish again that waits for room.
    fn try_again(&mut self, cx: &mut Cx<'_>) {
        let Some(before) = self.conn.stalled.take_if(|stalled| stalled.again_at <= cx.now.mono) else { return };
        let number = before.channel;
        let method = if before.content.is_some() { (60, 40) } else { (90, 20) };
        let Some(mut call) = self.call(number, method, cx) else { return };
        let done = match before.content {
            Some(content) => publish::again(&mut call, content),
            None => tx::again(&mut call),
        };
        if let Some(stalled) = &mut self.conn.stalled {
            stalled.holds_input = before.holds_input;
        }
        if let Err(refusal) = done {
            self.refuse(number, refusal, cx);
        }
    }

    /// The client may publish again.
    fn unblock(&mut self, cx: &mut Cx<'_>) {
        let is_free = self.conn.stalled.is_none() && self.conn.alarmed.is_none();
        if self.conn.blocked_said && is_free && self.phase == Phase::Running {
            self.conn.blocked_said = false;
            frame::put_method(cx.out.buffer(), 0, (10, 61), |_| {});
        }
    }

    /// Whether `frame` asks what is in a queue while this connection's last publish cannot be seen there yet.
    fn must_wait(&mut self, frame: &frame::Frame<'_>, cx: &Cx<'_>) -> bool {
        const LOOKING: [&[u8]; 4] = [&[0, 60, 0, 70], &[0, 50, 0, 10], &[0, 50, 0, 30], &[0, 50, 0, 40]];
        let Some(unseen) = self.conn.unseen else { return false };
        let looks = frame.kind == frame::Kind::Method && LOOKING.iter().any(|method| frame.payload.starts_with(method));
        if looks && (cx.broker.failure().is_some() || unseen.is_seen(cx.broker.progress())) {
            self.conn.unseen = None;
        }
        looks && self.conn.unseen.is_some()
    }

    /// A method on channel 0, before the connection is open or after.
    pub(crate) fn on_connection_method(&mut self, method: MethodId, fields: &[u8], cx: &mut Cx<'_>) -> Done {
        match (self.phase, method) {
            (Phase::StartOk, (10, 11)) => self.start_ok(fields, cx)?,
            (Phase::TuneOk, (10, 31)) => {
                let tuned = handshake::tune_ok(fields, &self.conn.config)?;
                self.conn.frame_bytes_max = tuned.frame_bytes_max as usize;
                self.conn.channel_count_max = tuned.channel_count_max.into();
                self.heartbeat.start(tuned.heartbeat, cx.now.mono);
                self.presence.heartbeat = tuned.heartbeat;
                self.phase = Phase::Open;
            }
            (Phase::Open, (10, 40)) => {
                self.enter(handshake::open(fields)?, cx)?;
                handshake::put_open_ok(cx.out.buffer());
                presence::announce(&mut self.conn, std::mem::take(&mut self.presence), cx);
                self.phase = Phase::Running;
                self.until = None;
            }
            (Phase::TuneOk | Phase::Open | Phase::Running, (10, 50)) => self.closed_by_client(cx),
            // A password does not expire: what the client says anew is what it said before.
            (Phase::Running, (10, 70)) => frame::put_method(cx.out.buffer(), 0, (10, 71), |_| {}),
            _ => {
                let state = if self.phase == Phase::Running { "running" } else { "opening" };
                let text = format!("unexpected method in connection state {state}");
                return Err(Refusal::new(Code::ChannelError, text));
            }
        }
        Ok(())
    }

    /// The connection chooses its virtual host.
    fn enter(&mut self, vhost: Name, cx: &Cx<'_>) -> Done {
        let user = &self.conn.user;
        cx.broker.enter(user, &vhost).map_err(|why| Refusal::no_entry(why, user, &vhost))?;
        self.conn.pass = Pass::new(user, &vhost);
        self.conn.tenant = vhost;
        Ok(())
    }

    fn start_ok(&mut self, fields: &[u8], cx: &mut Cx<'_>) -> Done {
        let start = handshake::start_ok(fields, self.conn.certificate().is_some())?;
        self.presence.mechanism = start.mechanism;
        self.presence.properties = start.properties;
        self.failure_close = start.failure_close;
        self.conn.cancel_notify = start.cancel_notify;
        self.conn.blocked_notify = start.blocked_notify;
        let call = self.conn.next_call();
        let (session, loopback) = (self.conn.session(), self.conn.peer.remote.ip().to_canonical().is_loopback());
        match start.proof {
            Proof::Password(user, password) => cx.broker.login(session, call, &user, &password, loopback),
            Proof::Certificate => {
                let named = self.conn.certificate().and_then(|shown| self.conn.config.certificate_login.user(shown));
                cx.broker.login_vouched(session, call, &named.unwrap_or_default(), loopback);
            }
            Proof::None => {
                self.login_failed(cx);
                return Ok(());
            }
        }
        self.phase = Phase::LoggingIn(call);
        Ok(())
    }

    fn login_failed(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::LoginFailed;
        if self.failure_close {
            let refusal = handshake::refused(&self.presence.mechanism);
            handshake::put_close(cx.out.buffer(), 0, &refusal, &self.conn.tenant);
            self.phase = Phase::Closing;
        }
        self.until = Some(cx.now.mono.plus(CLOSE_WAIT_MAX));
    }

    fn event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Login(call, result) if self.phase == Phase::LoggingIn(call) => match result {
                Ok(principal) => {
                    self.conn.impersonator = Role::Impersonator.is_in(&principal.tags);
                    self.conn.user = principal.user;
                    handshake::put_tune(cx.out.buffer(), &self.conn.config);
                    self.phase = Phase::TuneOk;
                }
                Err(error) => {
                    let mechanism = &self.presence.mechanism;
                    tracing::info!(remote = %self.conn.peer.remote, %mechanism, %error, "login refused");
                    self.login_failed(cx);
                }
            },
            Event::Deliver(consumer, deliveries) => {
                let number = self.conn.consumers.get(&consumer).copied().unwrap_or_default();
                match self.call(number, (60, 60), cx) {
                    Some(mut call) => deliver::deliveries(&mut call, consumer, deliveries),
                    None => self.conn.give_back(&deliveries, cx.broker),
                }
            }
            Event::Mail(mail) => {
                let found = self.conn.mailboxes.iter().find(|(id, _)| *id == mail.mailbox);
                let number = found.map_or(0, |(_, number)| *number);
                if let Some(mut call) = self.call(number, (60, 60), cx) {
                    reply::deliver(&mut call, &mail);
                }
            }
            Event::GetReady(id) => self.get_ready(id, cx),
            Event::SettleLate(key, ms) => self.settle_late(key, ms, cx),
            Event::ConsumerCancelled(consumer) => self.consumer_cancelled(consumer, cx),
            Event::Close(reason) if !matches!(self.phase, Phase::Closing | Phase::Discarding | Phase::Done) => {
                self.close(&Refusal::new(Code::ConnectionForced, reason), Phase::Closing, cx);
            }
            Event::Evicted(why) if !matches!(self.phase, Phase::Closing | Phase::Discarding | Phase::Done) => {
                let text = match why {
                    Evicted::Tenant => format!("vhost '{}' is deleted", self.conn.tenant),
                    Evicted::User => format!("user '{}' is deleted", self.conn.user),
                };
                self.close(&Refusal::new(Code::ConnectionForced, text), Phase::Closing, cx);
            }
            _ => {}
        }
    }

    fn get_ready(&mut self, id: CallId, cx: &mut Cx<'_>) {
        let Some(getting) = self.conn.getting.take_if(|getting| getting.call == id) else {
            return;
        };
        let (number, method) = (getting.channel, (60, 70));
        if let Some(mut call) = self.call(number, method, cx)
            && let Err(refusal) = get::ask(&mut call, getting)
        {
            self.refuse(number, refusal.caused_by(method), cx);
        }
    }

    pub(crate) fn call<'a, 'b>(
        &'a mut self,
        channel: u16,
        method: MethodId,
        cx: &'a mut Cx<'b>,
    ) -> Option<Call<'a, 'b>> {
        let ch = self.channels.get_mut(channel)?;
        Some(Call { cx, conn: &mut self.conn, ch, method })
    }

    /// New credit for consumers without prefetch while the output has room.
    fn refill(&mut self, cx: &mut Cx<'_>) {
        if self.conn.starved.is_empty() || !deliver::has_room(cx.out) {
            return;
        }
        let mut starved = std::mem::take(&mut self.conn.starved);
        for consumer in starved.drain(..) {
            if let Some(number) = self.conn.consumers.get(&consumer).copied()
                && let Some(mut call) = self.call(number, (0, 0), cx)
            {
                deliver::refill(&mut call, consumer);
            }
        }
        self.conn.starved = starved; // its memory is used again
    }

    fn progress(&mut self, cx: &mut Cx<'_>) {
        self.conn.looking = false;
        if let Some(failure) = cx.broker.failure().cloned() {
            return self.failed(&failure, cx);
        }
        let progress = cx.broker.progress();
        self.held_full = false;
        let mut waiting = std::mem::take(&mut self.conn.waiting);
        waiting.retain(|number| self.channel_progress(*number, progress, cx.out));
        self.conn.waiting = waiting;
    }

    /// The journal has failed: what waits for it is refused, never acknowledged.
    fn failed(&mut self, failure: &StorageError, cx: &mut Cx<'_>) {
        let mut held = false;
        for number in std::mem::take(&mut self.conn.waiting) {
            let Some(ch) = self.channels.get_mut(number) else {
                continue;
            };
            ch.listed = false;
            held |= !ch.held.is_empty();
            if let Some(confirms) = &mut ch.confirms {
                let count = confirms.fail(number, ch.held.sink(cx.out));
                self.conn.confirms_waiting -= count;
                ch.figures.refused.add(count as u64);
            }
        }
        if held {
            let refusal = Refusal::of_storage(failure);
            self.close(&refusal, Phase::Closing, cx);
        }
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now.mono;
        self.try_again(cx);
        self.calm_down(cx);
        // While nothing is read of what the client sends, it cannot be heard.
        let is_missed = self.heartbeat.is_missed(now) && !self.is_stalled();
        if self.until.is_some_and(|until| until <= now) || is_missed {
            tracing::debug!(remote = %self.conn.peer.remote, phase = ?self.phase, "the client is too slow");
            self.release(cx);
            self.cut(cx);
        } else if self.heartbeat.is_due(now) {
            frame::put_heartbeat(cx.out.buffer());
        }
    }

    fn stopping(&mut self, cx: &mut Cx<'_>) {
        match self.phase {
            Phase::Closing | Phase::Discarding | Phase::Done => {}
            _ => {
                let text = "broker forced connection closure with reason 'shutdown'";
                self.close(&Refusal::new(Code::ConnectionForced, text), Phase::Closing, cx);
            }
        }
    }

    /// Closes the channel or the connection, whichever the code is for.
    pub(crate) fn refuse(&mut self, channel: u16, refusal: Refusal, cx: &mut Cx<'_>) {
        if channel == 0 || refusal.code.is_hard() {
            self.close(&refusal, Phase::Closing, cx);
        } else {
            self.close_channel(channel, &refusal, cx);
        }
    }

    /// Says connection.close; before a login the socket is just cut. What the connection held goes back at once.
    fn close(&mut self, refusal: &Refusal, next: Phase, cx: &mut Cx<'_>) {
        let why = refusal.reply_text(&self.conn.tenant);
        tracing::debug!(remote = %self.conn.peer.remote, %why, "connection closed by us");
        if self.is_early() {
            return self.cut(cx);
        }
        self.release(cx);
        handshake::put_close(cx.out.buffer(), 0, refusal, &self.conn.tenant);
        self.phase = next;
        self.until = Some(cx.now.mono.plus(CLOSE_WAIT_MAX));
    }

    /// connection.close from the client. Exclusive queues are gone before it reads our close-ok.
    pub(crate) fn closed_by_client(&mut self, cx: &mut Cx<'_>) {
        self.release(cx);
        frame::put_method(cx.out.buffer(), 0, (10, 51), |_| {});
        // Who closes the socket first is the client: some take an end right behind close-ok for a broken connection.
        self.phase = Phase::Discarding;
        self.until = Some(cx.now.mono.plus(CLOSE_WAIT_MAX));
    }

    /// Closes the socket once all before is sent.
    pub(crate) fn cut(&mut self, cx: &mut Cx<'_>) {
        cx.out.close();
        self.phase = Phase::Done;
    }

    /// Gives back what the connection holds in the core. Once.
    fn release(&mut self, cx: &mut Cx<'_>) {
        if std::mem::replace(&mut self.released, true) {
            return;
        }
        let conn = &mut self.conn;
        conn.settles.flush(conn.peer.session, &conn.consumers, cx.broker);
        conn.consumers.clear();
        conn.starved.clear();
        conn.waiting.clear();
        conn.getting = None;
        conn.mailboxes.clear();
        conn.stalled = None;
        conn.confirms_waiting = 0;
        conn.unfinished_bytes = 0;
        self.channels.clear();
        cx.broker.session_closed(conn.peer.session, cx.now);
    }

    fn channel_progress(&mut self, number: u16, progress: broker::Progress, out: &mut Outbox) -> bool {
        let Some(ch) = self.channels.get_mut(number) else {
            return false;
        };
        self.conn.confirms_waiting -= ch.progress(progress, out);
        ch.listed = ch.waits();
        if ch.listed {
            return true;
        }
        if ch.life == crate::channel::Life::Gone {
            self.channels.remove(number);
        }
        false
    }
}
