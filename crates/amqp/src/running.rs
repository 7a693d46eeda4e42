//! What frames mean on an open connection: which channel, which life it is in, who handles them.

use broker::Cx;
use broker::queue::{ConsumerId, DeliveryKey};
use model::ByteReader;

use crate::api::{self, basic::publish};
use crate::channel::assembly::Assembly;
use crate::channel::{Channel, Life};
use crate::config::HELD_BYTES_MAX;
use crate::conn::{Call, Done};
use crate::errors::{Code, MethodId, Refusal};
use crate::handshake::put_close;
use crate::session::{AmqpSession, Phase};
use crate::wire::frame::{Frame, Kind};
use crate::wire::text::put_short;

const CHANNEL_OPEN: MethodId = (20, 10);
const CHANNEL_CLOSE: MethodId = (20, 40);
const CHANNEL_CLOSE_OK: MethodId = (20, 41);
const CONNECTION_CLOSE: MethodId = (10, 50);
const CONNECTION_CLOSE_OK: MethodId = (10, 51);

/// The ids before a method's fields.
fn method(payload: &[u8]) -> Result<(MethodId, &[u8]), Refusal> {
    let mut r = ByteReader::new(payload);
    Ok(((r.u16()?, r.u16()?), r.rest()))
}

/// A frame as RabbitMQ's errors show it.
fn shown(frame: &Frame<'_>) -> String {
    let octets: Vec<_> = frame.payload.iter().take(16).map(u8::to_string).collect();
    format!("type {}, all octets = <<{}>>", frame.kind.byte(), octets.join(","))
}

impl AmqpSession {
    /// One frame, whole.
    pub(crate) fn on_frame(&mut self, frame: &Frame<'_>, cx: &mut Cx<'_>) -> Done {
        if self.phase == Phase::Closing {
            self.while_closing(frame, cx);
            return Ok(());
        }
        match frame.kind {
            Kind::Unknown(_) => return Err(Refusal::new(Code::FrameError, format!("{}: unknown_frame", shown(frame)))),
            Kind::Heartbeat if frame.channel == 0 => return Ok(()),
            Kind::Heartbeat => return Err(Refusal::new(Code::UnexpectedFrame, shown(frame))),
            Kind::Method | Kind::Header | Kind::Body => {}
        }
        if frame.channel != 0 {
            if self.phase != Phase::Running {
                return Err(Refusal::new(Code::UnexpectedFrame, shown(frame)));
            }
            return self.on_channel_frame(frame, cx);
        }
        if frame.kind != Kind::Method {
            return Err(Refusal::new(Code::UnexpectedFrame, shown(frame)));
        }
        let (id, fields) = method(frame.payload)?;
        self.on_connection_method(id, fields, cx).map_err(|refusal| refusal.caused_by(id))
    }

    /// We have said connection.close: only its answer counts, and a close that crossed it.
    fn while_closing(&mut self, frame: &Frame<'_>, cx: &mut Cx<'_>) {
        if frame.kind != Kind::Method || frame.channel != 0 {
            return;
        }
        match method(frame.payload) {
            Ok((CONNECTION_CLOSE_OK, _)) => self.cut(cx),
            Ok((CONNECTION_CLOSE, _)) => self.closed_by_client(cx),
            _ => {}
        }
    }

    fn on_channel_frame(&mut self, frame: &Frame<'_>, cx: &mut Cx<'_>) -> Done {
        let number = frame.channel;
        let Some(ch) = self.channels.get_mut(number) else {
            return self.on_closed_channel(frame, cx);
        };
        if ch.life != Life::Open {
            self.on_closing_channel(frame, cx);
            return Ok(());
        }
        let method_at_hand = publish_or_none(ch.assembly);
        let mut call = Call { cx, conn: &mut self.conn, ch, method: method_at_hand };
        let done = match frame.kind {
            Kind::Header => publish::header(&mut call, frame.payload),
            Kind::Body => publish::body(&mut call, frame.payload),
            _ if call.ch.assembly != Assembly::Idle => Err(publish::unexpected(&call, frame.kind)),
            _ => {
                let (id, fields) = method(frame.payload)?;
                call.method = id;
                match id {
                    CHANNEL_OPEN => Err(Refusal::new(Code::ChannelError, "second 'channel.open' seen")),
                    CHANNEL_CLOSE => {
                        self.channel_closed_by_client(number, cx);
                        return Ok(());
                    }
                    CHANNEL_CLOSE_OK => Ok(()),
                    _ => api::dispatch(&mut call, fields),
                }
                .map_err(|refusal| refusal.caused_by(id))
            }
        };
        if !call.ch.held.is_empty() && call.ch.held.bytes() > HELD_BYTES_MAX {
            self.held_full = true;
        }
        done
    }

    /// No such channel: it can only be opened.
    fn on_closed_channel(&mut self, frame: &Frame<'_>, cx: &mut Cx<'_>) -> Done {
        if frame.kind != Kind::Method {
            let text = "expected method frame, got non method frame instead";
            return Err(Refusal::new(Code::UnexpectedFrame, text));
        }
        let (id, _) = method(frame.payload)?;
        match id {
            CHANNEL_OPEN => {
                let (count, count_max) = (self.channels.len(), self.conn.channel_count_max);
                if count_max > 0 && count >= count_max {
                    let text = format!(
                        "number of channels opened ({count}) has reached the negotiated channel_max ({count_max})"
                    );
                    return Err(Refusal::new(Code::NotAllowed, text).caused_by(id));
                }
                if let Some(max) = cx.broker.channels_full(&self.conn.user) {
                    let text = format!(
                        "number of channels opened for user '{}' has reached the maximum allowed user limit of ({max})",
                        self.conn.user
                    );
                    return Err(Refusal::new(Code::NotAllowed, text).caused_by(id));
                }
                let figures = cx.broker.channel_opened(self.conn.session(), frame.channel);
                self.channels.insert(Channel::new(frame.channel, figures));
                if let Some(mut call) = self.call(frame.channel, id, cx) {
                    call.reply(|out| out.extend_from_slice(&[0; 4]));
                }
                Ok(())
            }
            // The last word on a channel whose closings crossed.
            CHANNEL_CLOSE_OK => Ok(()),
            _ => Err(Refusal::new(Code::ChannelError, "expected 'channel.open'").caused_by(id)),
        }
    }

    /// We have said channel.close: only its answer counts, and a close that crossed it.
    fn on_closing_channel(&mut self, frame: &Frame<'_>, cx: &mut Cx<'_>) {
        if frame.kind != Kind::Method {
            return;
        }
        match method(frame.payload) {
            Ok((CHANNEL_CLOSE_OK, _)) => self.channels.remove(frame.channel),
            Ok((id @ CHANNEL_CLOSE, _)) => {
                if let Some(mut call) = self.call(frame.channel, id, cx) {
                    call.reply(|_| {});
                }
            }
            _ => {}
        }
    }

    fn channel_closed_by_client(&mut self, number: u16, cx: &mut Cx<'_>) {
        let Some(mut call) = self.call(number, CHANNEL_CLOSE, cx) else {
            return;
        };
        call.conn.release(call.ch, call.cx.broker);
        call.reply(|_| {});
        call.ch.life = Life::Gone;
        // Its number is free for the client once it reads close-ok; until then held replies keep it.
        if call.ch.held.is_empty() {
            self.channels.remove(number);
        }
    }

    /// Says channel.close; what the channel held goes back.
    pub(crate) fn close_channel(&mut self, number: u16, refusal: &Refusal, cx: &mut Cx<'_>) {
        let Some(call) = self.call(number, refusal.method, cx) else {
            return;
        };
        call.conn.release(call.ch, call.cx.broker);
        call.ch.life = Life::Closing;
        put_close(call.ch.held.sink(call.cx.out), number, refusal, &call.conn.tenant);
    }

    /// A delivery is not acknowledged in the time that its queue gives: its channel is closed, and gives it back.
    pub(crate) fn settle_late(&mut self, key: DeliveryKey, ms: u64, cx: &mut Cx<'_>) {
        // Acknowledged in this very turn is acknowledged.
        self.conn.settles.flush(self.conn.peer.session, cx.broker);
        let Some(number) = self.channels.find_where(|channel| channel.unacked.has(key)) else { return };
        let text = format!(
            "delivery acknowledgement on channel {number} timed out. Timeout value used: {ms} ms. This timeout value \
             can be configured, see consumers doc guide to learn more"
        );
        self.close_channel(number, &Refusal::precondition(text), cx);
    }

    /// A consumer's queue is gone.
    pub(crate) fn consumer_cancelled(&mut self, id: ConsumerId, cx: &mut Cx<'_>) {
        let notify = self.conn.cancel_notify;
        let Some(number) = self.conn.consumers.remove(&id) else {
            return;
        };
        let Some(mut call) = self.call(number, (60, 30), cx) else {
            return;
        };
        call.ch.parked.retain(|(consumer, _)| *consumer != id);
        if let Some(consumer) = call.ch.consumers.remove(id)
            && notify
        {
            call.say((60, 30), |out| {
                put_short(out, &consumer.tag);
                out.push(1);
            });
        }
    }
}

/// What a frame that is no method belongs to.
fn publish_or_none(assembly: Assembly) -> MethodId {
    if assembly == Assembly::Idle { (0, 0) } else { (60, 40) }
}
