//! What the core tells a connection: a login is decided, messages have come, the journal has moved. Called by
//! `session.rs`.

use broker::{CallId, Cx, Event, Evicted, Outbox, Progress};

use crate::api::basic::{deliver, get};
use crate::api::reply;
use crate::channel::Life;
use crate::errors::{Code, Refusal};
use crate::session::{AmqpSession, Phase};

impl AmqpSession {
    pub(super) fn event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Login(call, result) if self.phase == Phase::LoggingIn(call) => self.login_answered(result, cx),
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

    pub(super) fn get_ready(&mut self, id: CallId, cx: &mut Cx<'_>) {
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

    /// New credit for consumers without prefetch while the output has room.
    pub(super) fn refill(&mut self, cx: &mut Cx<'_>) {
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

    pub(super) fn progress(&mut self, cx: &mut Cx<'_>) {
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

    pub(super) fn channel_progress(&mut self, number: u16, progress: Progress, out: &mut Outbox) -> bool {
        let Some(ch) = self.channels.get_mut(number) else {
            return false;
        };
        self.conn.confirms_waiting -= ch.progress(progress, out);
        ch.listed = ch.waits();
        if ch.listed {
            return true;
        }
        if ch.life == Life::Gone {
            self.channels.remove(number);
        }
        false
    }
}
