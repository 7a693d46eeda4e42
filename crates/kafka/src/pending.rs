//! Replies under way, in the order of their requests: the order in which they leave. A reply may be held back until the
//! journal has come far enough, or not be known yet.

use std::collections::VecDeque;

use broker::{CallId, Lsn, Outbox, Progress, StorageError, SyncPolicy};
use model::Mono;

use crate::api::Waiting;
use crate::call::{ReplyTo, send};
use crate::wire::Sink;

/// How far the journal must come before a reply may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    Written(Lsn),
    Synced(Lsn),
}

impl Gate {
    /// The gate for something stored at `lsn` under `policy`.
    pub fn of(policy: SyncPolicy, lsn: Lsn) -> Gate {
        match policy {
            SyncPolicy::None => Gate::Written(lsn),
            SyncPolicy::Sync => Gate::Synced(lsn),
        }
    }

    fn is_open(self, progress: Progress) -> bool {
        match self {
            Gate::Written(lsn) => progress.written >= lsn,
            Gate::Synced(lsn) => progress.synced >= lsn,
        }
    }
}

/// Turns a finished reply of success into one of failure, since what it tells was not stored.
pub(crate) type Fail = fn(ReplyTo, &[u8]) -> Option<Sink>;

/// What a handler makes of a request.
pub(crate) enum Answer {
    /// The reply.
    Ready(Sink),
    /// The reply, once the gate is open; `Fail` makes it an error if the journal fails first.
    Gated(Gate, Sink, Fail),
    /// It comes later, by the event of this call.
    Later(CallId, Waiting),
    /// None is wanted.
    Silent,
    /// Not yet: the request is to be handed in again once the session takes input again.
    Held,
    /// The connection ends.
    Close(&'static str),
}

struct Pending {
    to: ReplyTo,
    state: State,
}

enum State {
    Ready(Sink),
    Gated(Gate, Sink, Fail),
    Waiting(CallId, Waiting),
}

/// The replies of one connection.
#[derive(Default)]
pub(crate) struct Replies {
    queue: VecDeque<Pending>,
    waiting: usize,
    bytes: usize,
    /// A buffer to write the next reply into.
    spare: Vec<Vec<u8>>,
}

/// Buffers kept for later replies, and the size above which one is given back.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 64 << 10;

impl Replies {
    /// How many are under way.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of finished replies that wait for their turn, and of requests that wait for their answer.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A buffer to write a reply into.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(buffer);
        }
    }

    /// Takes a handler's answer behind all before.
    pub fn push(&mut self, to: ReplyTo, answer: Answer) {
        let Some(state) = self.state_of(answer) else {
            return;
        };
        self.queue.push_back(Pending { to, state });
    }

    fn state_of(&mut self, answer: Answer) -> Option<State> {
        match answer {
            Answer::Ready(sink) => {
                self.bytes += sink.len();
                Some(State::Ready(sink))
            }
            Answer::Gated(gate, sink, fail) => {
                self.bytes += sink.len();
                Some(State::Gated(gate, sink, fail))
            }
            Answer::Later(call, waiting) => {
                self.waiting += 1;
                self.bytes += waiting.bytes();
                Some(State::Waiting(call, waiting))
            }
            Answer::Silent | Answer::Held | Answer::Close(_) => None,
        }
    }

    /// Takes out what waits for `call`, to be resumed and put back by [`Replies::resumed`].
    pub fn take_waiting(&mut self, call: CallId) -> Option<(usize, ReplyTo, Waiting)> {
        if self.waiting == 0 {
            return None;
        }
        let at = self.queue.iter().position(|p| matches!(&p.state, State::Waiting(own, _) if *own == call))?;
        self.take_at(at)
    }

    /// The same for the first whose time is over.
    pub fn take_overdue(&mut self, now: Mono) -> Option<(usize, ReplyTo, Waiting)> {
        if self.waiting == 0 {
            return None;
        }
        let at = self.queue.iter().position(|pending| match &pending.state {
            State::Waiting(_, waiting) => waiting.deadline().is_some_and(|deadline| deadline <= now),
            _ => false,
        })?;
        self.take_at(at)
    }

    fn take_at(&mut self, at: usize) -> Option<(usize, ReplyTo, Waiting)> {
        let pending = self.queue.get_mut(at)?;
        let placeholder = State::Ready(Sink::default());
        match std::mem::replace(&mut pending.state, placeholder) {
            State::Waiting(_, waiting) => {
                self.waiting -= 1;
                self.bytes = self.bytes.saturating_sub(waiting.bytes());
                Some((at, pending.to, waiting))
            }
            other => {
                pending.state = other;
                None
            }
        }
    }

    /// Puts the outcome in the place that [`Replies::take_waiting`] named.
    pub fn resumed(&mut self, at: usize, answer: Answer) {
        let state = self.state_of(answer);
        if let (Some(pending), Some(state)) = (self.queue.get_mut(at), state) {
            pending.state = state;
        }
    }

    /// When the first of those that wait must be woken.
    pub fn deadline(&self) -> Option<Mono> {
        if self.waiting == 0 {
            return None;
        }
        let deadlines = self.queue.iter().filter_map(|pending| match &pending.state {
            State::Waiting(_, waiting) => waiting.deadline(),
            _ => None,
        });
        deadlines.min()
    }

    /// Whether the first reply is held back for the journal.
    pub fn awaits_progress(&self) -> bool {
        matches!(self.queue.front(), Some(Pending { state: State::Gated(..), .. }))
    }

    /// Sends all replies from the front that may leave.
    pub fn drain(&mut self, progress: Progress, failure: Option<&StorageError>, out: &mut Outbox) {
        while let Some(pending) = self.queue.pop_front() {
            let to = pending.to;
            let sink = match pending.state {
                State::Ready(sink) => sink,
                State::Gated(gate, sink, _) if gate.is_open(progress) => sink,
                State::Gated(_, sink, fail) if failure.is_some() => {
                    self.bytes = self.bytes.saturating_sub(sink.len());
                    match fail(to, &sink.flatten()) {
                        Some(failed) => {
                            self.bytes += failed.len();
                            failed
                        }
                        None => {
                            out.close();
                            return;
                        }
                    }
                }
                held => {
                    self.queue.push_front(Pending { to, state: held });
                    return;
                }
            };
            self.bytes = self.bytes.saturating_sub(sink.len());
            let buffer = send(sink, out);
            self.keep(buffer);
        }
    }
}
