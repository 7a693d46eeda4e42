//! Redriving: dead messages go back to the queues where they died, or to one that an operator names. A batch's messages
//! are stored in their new places and settled in the old one by one atomic batch: after a crash each is in one of both.
//!
//! It knows nothing of whoever asks for it; that calls again until there is no more to move.

use std::sync::Arc;

use bytes::Bytes;
use model::{DeadLetters, Format, Marks, Now};
use storage::{Lsn, SyncPolicy};

use crate::queue::{Body, Delivery, DeliveryKey, Got};
use crate::routing::{PublishRequest, no_headers};
use crate::{Broker, BrokerError, CallId, SessionId};

/// Messages moved by one call.
const MESSAGES_MAX: u64 = 256;
/// Their bytes: one larger message goes alone.
const BYTES_MAX: usize = 1 << 20;

/// What is to be moved.
#[derive(Clone, Copy, Debug)]
pub struct RedriveAsk<'a> {
    /// Whose queues.
    pub tenant: &'a str,
    /// The queue with the dead.
    pub queue: &'a str,
    /// The queue they go to; `None`: each to the one where it died last.
    pub to: Option<&'a str>,
    /// At most so many.
    pub count_max: u64,
}

/// What one call has moved.
#[derive(Debug)]
pub struct Redriven {
    /// So many messages.
    pub moved: u64,
    /// Messages that cannot be moved: the session holds them until [`Broker::put_back`], so that they are met once.
    pub kept: Vec<DeliveryKey>,
    /// Why the first of them cannot.
    pub why: Option<String>,
    /// What comes next.
    pub next: RedriveNext,
    /// Hold the answer back until synced up to here.
    pub lsn: Lsn,
}

/// How redriving goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedriveNext {
    /// There is more: call again, best in a later turn.
    More,
    /// The disk must be waited for: [`crate::Event::GetReady`] says when to call again.
    Waits,
    /// All have been looked at.
    End,
}

/// A batch in the making.
#[derive(Default)]
struct Moving {
    /// The units, back to back, as they go on.
    bytes: Vec<u8>,
    list: Vec<Moved>,
    kept: Vec<DeliveryKey>,
    why: Option<String>,
}

struct Moved {
    end: usize,
    to: String,
    marks: Marks,
    key: DeliveryKey,
}

impl Broker {
    /// Moves the next messages of a queue of dead letters. Each is as it was before it died: under the exchange and key
    /// it was published with then, without the time to live that was taken off it; its history stays in its headers.
    ///
    /// # Errors
    /// [`BrokerError::Missing`] or [`BrokerError::Locked`] of a queue that is named, [`BrokerError::Invalid`] when that
    /// is a stream or both are one, [`BrokerError::Storage`]; nothing was moved then.
    pub fn redrive(
        &mut self,
        (session, call): (SessionId, CallId),
        ask: &RedriveAsk<'_>,
        now: Now,
    ) -> Result<Redriven, BrokerError> {
        if let Some(to) = ask.to {
            self.queues.find(session, ask.tenant, to)?;
        }
        if ask.to == Some(ask.queue) {
            return Err(BrokerError::Invalid(format!("the messages of '{}' are there already", ask.queue)));
        }
        let formats = Arc::clone(&self.core.formats);
        let Some((format, keeper)) = formats.for_dead_letters() else {
            return Err(BrokerError::Invalid("no tongue here keeps dead letters".to_owned()));
        };
        let mut moving = Moving::default();
        let next = loop {
            if moving.list.len() as u64 >= ask.count_max.min(MESSAGES_MAX) || moving.bytes.len() >= BYTES_MAX {
                break RedriveNext::More;
            }
            match self.get(session, call, ask.tenant, ask.queue, false, format.tag()) {
                Ok(Got::Message(delivery, _)) => {
                    if !self.add(ask, (format, keeper), &delivery, &mut moving, now) {
                        self.put_back(session, &[delivery.key]);
                        break RedriveNext::More;
                    }
                }
                Ok(Got::Pending) => break RedriveNext::Waits,
                Ok(Got::Empty) => break RedriveNext::End,
                Err(error) => {
                    self.put_back(session, &moving.keys());
                    return Err(error);
                }
            }
        };
        match self.store(session, ask.tenant, format, &moving, now) {
            Ok(lsn) => {
                let Moving { list, kept, why, .. } = moving;
                Ok(Redriven { moved: list.len() as u64, kept, why, next, lsn })
            }
            Err(error) => {
                self.put_back(session, &moving.keys());
                Err(error)
            }
        }
    }

    /// Gives messages that redriving has kept back to their places, as if nobody had looked at them.
    pub fn put_back(&mut self, session: SessionId, keys: &[DeliveryKey]) {
        self.queues.put_back(session, keys);
    }

    /// Takes one message into the batch, or notes why it stays. False when it must wait for the next batch.
    fn add(
        &mut self,
        ask: &RedriveAsk<'_>,
        (format, keeper): (&dyn Format, &dyn DeadLetters),
        delivery: &Delivery,
        moving: &mut Moving,
        now: Now,
    ) -> bool {
        let from = moving.bytes.len();
        let revived = unit_of(format, delivery).and_then(|unit| {
            let to = ask.to.map(str::to_owned).or(keeper.origin(&unit)?);
            keeper.revive(&unit, now.wall, &mut moving.bytes)?;
            let unit = Bytes::copy_from_slice(moving.bytes.get(from..).unwrap_or_default());
            Ok((to, format.marks(&unit)?))
        });
        let fits = match revived {
            Err(error) => Err(format!("a message cannot be read: {error}")),
            Ok((None, _)) => Err("a message says of no queue that it died there: name one to move it to".to_owned()),
            Ok((Some(to), marks)) => self.destined(ask, to, marks, moving),
        };
        match fits {
            Ok(None) => {
                moving.bytes.truncate(from);
                return false;
            }
            Ok(Some((to, marks))) => {
                moving.list.push(Moved { end: moving.bytes.len(), to, marks, key: delivery.key });
            }
            Err(why) => {
                moving.bytes.truncate(from);
                moving.kept.push(delivery.key);
                moving.why.get_or_insert(why);
            }
        }
        true
    }

    /// Whether the queue where a message is to go takes it; `None` when that is known after this batch only: of queues
    /// that refuse what is too much one message goes at a time.
    fn destined(
        &self,
        ask: &RedriveAsk<'_>,
        to: String,
        marks: Marks,
        moving: &Moving,
    ) -> Result<Option<(String, Marks)>, String> {
        if to == ask.queue {
            return Err(format!("a message died in '{to}' itself: name another queue to move it to"));
        }
        match self.queues.takes(&self.core, (ask.tenant, &to), &marks) {
            None => {
                Err(format!("there is no queue '{to}' any more, where a message died: declare it, or name another"))
            }
            Some((false, _)) => Err(format!("queue '{to}' is full and refuses more")),
            Some((true, is_limited)) if is_limited && moving.list.iter().any(|other| other.to == to) => Ok(None),
            Some((true, _)) => Ok(Some((to, marks))),
        }
    }

    fn store(
        &mut self,
        session: SessionId,
        tenant: &str,
        format: &dyn Format,
        moving: &Moving,
        now: Now,
    ) -> Result<Lsn, BrokerError> {
        let mut from = 0;
        let requests = moving.list.iter().map(|one| {
            let unit = moving.bytes.get(std::mem::replace(&mut from, one.end)..one.end).unwrap_or_default();
            PublishRequest {
                tenant,
                exchange: "",
                key: &one.to,
                more_keys: &[],
                headers: &no_headers,
                format,
                unit,
                time: now.wall,
                persistent: one.marks.persistent,
                marks: one.marks,
                policy: if one.marks.persistent { SyncPolicy::Sync } else { SyncPolicy::None },
            }
        });
        let requests = requests.collect::<Vec<_>>();
        if requests.is_empty() {
            return Ok(Lsn::default());
        }
        let keys = moving.list.iter().map(|one| one.key).collect::<Vec<_>>();
        let published = self.publish_all(&requests, (session, &keys), now)?;
        Ok(published.iter().map(|told| told.lsn).max().unwrap_or_default())
    }
}

impl Moving {
    /// All that was taken.
    fn keys(&self) -> Vec<DeliveryKey> {
        self.list.iter().map(|one| one.key).chain(self.kept.iter().copied()).collect()
    }
}

/// The message as a unit of the format that keeps deaths.
fn unit_of(format: &dyn Format, delivery: &Delivery) -> Result<Bytes, model::FormatError> {
    match &delivery.body {
        Body::Unit(unit) => Ok(unit.clone()),
        Body::Neutral(message) => {
            let mut unit = Vec::new();
            format.build(&[(delivery.key.offset, (**message).clone())], &mut unit)?;
            Ok(unit.into())
        }
    }
}
