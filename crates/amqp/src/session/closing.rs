//! How a connection ends, whoever ends it, and what it gives back then. Called by `session.rs` and `running.rs`.

use broker::{Cx, StorageError};

use crate::config::CLOSE_WAIT_MAX;
use crate::errors::{Code, Refusal};
use crate::handshake;
use crate::session::{AmqpSession, Phase};
use crate::wire::frame;

impl AmqpSession {
    /// Closes the channel or the connection, whichever the code is for.
    pub(crate) fn refuse(&mut self, channel: u16, refusal: Refusal, cx: &mut Cx<'_>) {
        if channel == 0 || refusal.code.is_hard() {
            self.close(&refusal, Phase::Closing, cx);
        } else {
            self.close_channel(channel, &refusal, cx);
        }
    }

    /// Says connection.close; before a login the socket is just cut. What the connection held goes back at once.
    pub(super) fn close(&mut self, refusal: &Refusal, next: Phase, cx: &mut Cx<'_>) {
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

    pub(super) fn stopping(&mut self, cx: &mut Cx<'_>) {
        match self.phase {
            Phase::Closing | Phase::Discarding | Phase::Done => {}
            _ => {
                let text = "broker forced connection closure with reason 'shutdown'";
                self.close(&Refusal::new(Code::ConnectionForced, text), Phase::Closing, cx);
            }
        }
    }

    /// The journal has failed: what waits for it is refused, never acknowledged.
    pub(super) fn failed(&mut self, failure: &StorageError, cx: &mut Cx<'_>) {
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

    /// Closes the socket once all before is sent.
    pub(crate) fn cut(&mut self, cx: &mut Cx<'_>) {
        cx.out.close();
        self.phase = Phase::Done;
    }

    /// Gives back what the connection holds in the core. Once.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>) {
        if std::mem::replace(&mut self.released, true) {
            return;
        }
        let conn = &mut self.conn;
        conn.settles.flush(conn.peer.session, cx.broker);
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
}
