//! One connection: cuts frames, hands each request to its API's handler, lets replies leave in order. It does not know
//! what any request means; `api/` does.

use std::sync::Arc;

use broker::tongue::OUTPUT_BYTES_MAX;
use broker::{CallId, Cx, Event, Input, Peer, Session};
use model::{ByteReader, Mono};
use tracing::debug;

use crate::api::{self, Asker, Waiting};
use crate::call::{Call, CallHead};
use crate::config::Settings;
use crate::pending::{Answer, Replies};
use crate::presence::Presence;
use crate::silence::Silence;

/// A frame's length stands before it.
const LENGTH_BYTES: usize = 4;

/// A Kafka client's connection.
pub(crate) struct KafkaSession {
    asker: Asker,
    replies: Replies,
    silence: Silence,
    presence: Presence,
    closing: bool,
}

impl KafkaSession {
    /// The session of a connection just accepted.
    pub fn new(peer: Peer, settings: Arc<Settings>) -> KafkaSession {
        KafkaSession {
            asker: Asker::new(peer, settings),
            replies: Replies::default(),
            silence: Silence::default(),
            presence: Presence::default(),
            closing: false,
        }
    }

    fn bytes(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let mut consumed = 0;
        while self.wants_input() && cx.out.queued_bytes() <= OUTPUT_BYTES_MAX {
            let rest = &bytes[consumed..];
            let Some(length) = rest.first_chunk::<LENGTH_BYTES>().map(|length| i32::from_be_bytes(*length)) else {
                break;
            };
            // Checked before anything else arrives: nobody keeps memory for a frame that will be refused.
            let api = rest.get(LENGTH_BYTES..).and_then(<[u8]>::first_chunk).map(|api| i16::from_be_bytes(*api));
            let bytes_max = self.asker.settings.bytes_max_of(api.unwrap_or(api::PRODUCE));
            let Some(length) = usize::try_from(length).ok().filter(|length| *length <= bytes_max) else {
                self.close("the request's length is negative or beyond what such a request may take", cx);
                return bytes.len();
            };
            let Some(frame) = rest.get(LENGTH_BYTES..LENGTH_BYTES + length) else {
                break;
            };
            if !self.frame(frame, cx) {
                break;
            }
            self.silence.request_done();
            consumed += LENGTH_BYTES + length;
        }
        // What is left because we take no more now is not the client's fault.
        let is_half = consumed < bytes.len() && self.wants_input() && cx.out.queued_bytes() <= OUTPUT_BYTES_MAX;
        self.silence.heard(cx.now.mono, is_half);
        // What follows after the end is nobody's.
        if self.closing { bytes.len() } else { consumed }
    }

    /// Handles a request; false when it is held, to be handed in again.
    fn frame(&mut self, frame: &[u8], cx: &mut Cx<'_>) -> bool {
        let mut reader = ByteReader::new(frame);
        let Ok(head) = CallHead::read(&mut reader) else {
            self.close("a request without a whole header", cx);
            return true;
        };
        let Some(row) = api::row(head.api).filter(|row| row.serves(head.version)) else {
            match api::answer_unserved(head) {
                Some((to, sink)) => self.replies.push(to, Answer::Ready(sink)),
                None => self.close("an API or version that is not served", cx),
            }
            return true;
        };
        let Ok(call) = Call::read(row, head, reader) else {
            self.close("a request whose header is malformed", cx);
            return true;
        };
        if let Some(why) = self.presence.no_room(&self.asker, cx) {
            self.close(why, cx);
            return true;
        }
        self.asker.buffer = self.replies.buffer();
        let done = (row.handle)(&mut self.asker, cx, &call);
        self.presence.announce(&self.asker, call.client_id, cx);
        match done {
            Ok(Answer::Held) => return false,
            Ok(Answer::Close(why)) => self.close(why, cx),
            Ok(answer) => self.replies.push(call.to, answer),
            Err(error) => {
                debug!(session = ?self.asker.peer.session, api = row.name, version = head.version, %error, "malformed");
                self.close("a malformed request", cx);
            }
        }
        true
    }

    fn close(&mut self, why: &str, cx: &mut Cx<'_>) {
        debug!(session = ?self.asker.peer.session, remote = %self.asker.peer.remote, why, "closing");
        self.closing = true;
        cx.out.close();
    }

    fn event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let event = match event {
            Event::Aside(call, found) => {
                if !api::look::come_back(&mut self.asker, cx, call, found) {
                    self.close("a look into a batch failed", cx);
                }
                return;
            }
            other => other,
        };
        let call = match &event {
            Event::Readable(call)
            | Event::Joined(call, _)
            | Event::Synced(call, _)
            | Event::Login(call, _)
            | Event::GetReady(call) => *call,
            Event::Close(why) => {
                let why = why.clone();
                return self.close(&why, cx);
            }
            Event::Evicted(_) => return self.close("its tenant or user was deleted", cx),
            // Queues and users are not this tongue's.
            Event::Aside(..)
            | Event::Deliver(..)
            | Event::ConsumerCancelled(_)
            | Event::SettleLate(..)
            | Event::UserStored(..)
            | Event::Mail(_) => return,
        };
        if let Some((at, to, waiting)) = self.replies.take_waiting(call) {
            self.asker.buffer = self.replies.buffer();
            let answer = waiting.resume(&mut self.asker, cx, to, Some(event));
            self.put_back(at, answer, cx);
        }
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        let is_waiting = self.replies.len() > 0 || cx.out.queued_bytes() > 0 || self.asker.looks.are_awaited();
        let idle_max = self.asker.settings.idle_max;
        if !self.closing
            && let Some(why) = self.silence.tick(cx.now.mono, is_waiting, idle_max)
        {
            self.close(why, cx);
            return;
        }
        while let Some((at, to, waiting)) = self.replies.take_overdue(cx.now.mono) {
            self.asker.buffer = self.replies.buffer();
            let answer = Waiting::resume(waiting, &mut self.asker, cx, to, None);
            self.put_back(at, answer, cx);
        }
    }

    fn put_back(&mut self, at: usize, answer: Answer, cx: &mut Cx<'_>) {
        match answer {
            Answer::Close(why) => self.close(why, cx),
            answer => self.replies.resumed(at, answer),
        }
    }
}

impl Session for KafkaSession {
    fn handle(&mut self, input: Input<'_>, cx: &mut Cx<'_>) -> usize {
        let queued_before = cx.out.queued_bytes();
        let consumed = match input {
            Input::Bytes(bytes) if self.closing => bytes.len(),
            Input::Bytes(bytes) => self.bytes(bytes, cx),
            Input::Event(event) => {
                self.event(event, cx);
                0
            }
            Input::Tick => {
                self.tick(cx);
                0
            }
            Input::Closed => {
                self.closing = true;
                cx.broker.session_closed(self.asker.peer.session, cx.now);
                return 0;
            }
            // The protocol has no word for goodbye.
            Input::Progress | Input::Room | Input::Stopping => 0,
        };
        if self.replies.len() > 0 {
            let progress = cx.broker.progress();
            self.replies.drain(progress, cx.broker.failure(), cx.out);
        }
        self.presence.count(consumed, cx.out.queued_bytes().saturating_sub(queued_before));
        consumed
    }

    fn deadline(&self) -> Option<Mono> {
        let silence = self.silence.deadline();
        Some(self.replies.deadline().map_or(silence, |reply| reply.min(silence))).filter(|_| !self.closing)
    }

    fn wants_input(&self) -> bool {
        let settings = &self.asker.settings;
        !self.closing
            && !self.asker.looks.are_awaited()
            && self.replies.len() < settings.pending_replies_max
            && self.replies.bytes() < settings.pending_bytes_max
    }

    fn awaits_progress(&self) -> bool {
        self.replies.awaits_progress()
    }

    fn memory_bytes(&self) -> usize {
        self.replies.bytes() + self.asker.memory_bytes()
    }
}

/// Call ids of one session.
#[derive(Debug, Default)]
pub(crate) struct CallIds(u64);

impl CallIds {
    /// The next.
    pub fn next(&mut self) -> CallId {
        self.0 += 1;
        CallId(self.0)
    }
}
