//! When a client has to wait: its publish found no room on the disk, all publishers wait for memory, or it asks what is
//! in a queue before its own last publish can be seen there. Called by `session.rs` before each frame and at each tick.

use broker::Cx;

use crate::api::basic::publish;
use crate::api::tx;
use crate::config::STALLED_AGAIN;
use crate::session::{AmqpSession, Phase};
use crate::wire::frame;

impl AmqpSession {
    /// Whether `frame` begins a publish while another one waits for room on the disk, or all wait for memory. All else
    /// is still taken: acknowledgements, above all.
    pub(super) fn must_stall(&mut self, frame: &frame::Frame<'_>) -> bool {
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

    /// Whether `frame` asks what is in a queue while this connection's last publish cannot be seen there yet.
    pub(super) fn must_wait(&mut self, frame: &frame::Frame<'_>, cx: &Cx<'_>) -> bool {
        const LOOKING: [&[u8]; 4] = [&[0, 60, 0, 70], &[0, 50, 0, 10], &[0, 50, 0, 30], &[0, 50, 0, 40]];
        let Some(unseen) = self.conn.unseen else { return false };
        let looks = frame.kind == frame::Kind::Method && LOOKING.iter().any(|method| frame.payload.starts_with(method));
        if looks && (cx.broker.failure().is_some() || unseen.is_seen(cx.broker.progress())) {
            self.conn.unseen = None;
        }
        looks && self.conn.unseen.is_some()
    }

    /// Looks whether there is memory again.
    pub(super) fn calm_down(&mut self, cx: &Cx<'_>) {
        let is_low = cx.broker.is_low_on_memory();
        if let Some(alarmed) = &mut self.conn.alarmed
            && alarmed.again_at <= cx.now.mono
        {
            alarmed.again_at = cx.now.mono.plus(STALLED_AGAIN);
            self.conn.alarmed.take_if(|_| !is_low);
        }
    }

    /// Tries the publish again that waits for room.
    pub(super) fn try_again(&mut self, cx: &mut Cx<'_>) {
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
    pub(super) fn unblock(&mut self, cx: &mut Cx<'_>) {
        let is_free = self.conn.stalled.is_none() && self.conn.alarmed.is_none();
        if self.conn.blocked_said && is_free && self.phase == Phase::Running {
            self.conn.blocked_said = false;
            frame::put_method(cx.out.buffer(), 0, (10, 61), |_| {});
        }
    }
}
