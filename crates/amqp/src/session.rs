//! A connection's state machine, sans I/O: bytes and events in, frames out. The phases, in order:
//!
//! ```text
//! New ─► Header ─► StartOk ─► LoggingIn ─► TuneOk ─► Open ─► Running ─► Closing ─► Done
//!                                 └► LoginFailed ─► Done       └► Discarding ─► Done
//! ```
//!
//! `Closing` waits for the client's close-ok; `Discarding` is the same when the stream is out of step and no frame can
//! be cut any more. This file takes input and cuts frames. What leads to an open connection is in `session/opening.rs`,
//! what makes a client wait in `back_pressure.rs`, what the core tells in `events.rs`, how it ends in `closing.rs`;
//! what frames mean on an open connection is in `running.rs`.

mod back_pressure;
mod closing;
mod events;
mod opening;

use std::sync::Arc;

use broker::{CallId, Cx, Input, OUTPUT_BYTES_MAX, Peer, Session};
use model::Mono;

use crate::channels::Channels;
use crate::config::{BYTES_MAX_BEFORE_LOGIN, CONFIRMS_WAITING_MAX, Config, HANDSHAKE_TIME_MAX};
use crate::conn::{Call, Conn};
use crate::errors::{Code, MethodId, Refusal};
use crate::heartbeat::Heartbeat;
use crate::presence::Presence;
use crate::wire::frame::{self, FrameError};

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
        self.channels.memory_bytes()
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
        self.conn.settles.flush(self.conn.peer.session, cx.broker);
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

    pub(crate) fn call<'a, 'b>(
        &'a mut self,
        channel: u16,
        method: MethodId,
        cx: &'a mut Cx<'b>,
    ) -> Option<Call<'a, 'b>> {
        let ch = self.channels.get_mut(channel)?;
        Some(Call { cx, conn: &mut self.conn, ch, method })
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
}
