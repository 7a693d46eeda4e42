//! What becomes of a message that was handed out: it is settled, given back, dies, or was not sent after all.

use model::{LogId, Reason};

use super::queue::Queue;
use super::{DeliveryKey, Settle};
use crate::SessionId;
use crate::dead_letter::Dead;

impl Queue {
    /// Settles one message; false when the session does not hold it.
    pub(super) fn settle(&mut self, session: SessionId, key: DeliveryKey, how: Settle) -> bool {
        let offset = key.offset.0;
        match how {
            Settle::Ack => {
                let done = self.settle_silently(session, key);
                self.tally.get().acked += u64::from(done);
                done
            }
            Settle::Requeue => self.give_back(session, key.log, offset),
            Settle::Discard => self.discard(session, key.log, offset, Reason::Rejected),
        }
    }

    /// A message that needed no acknowledgement is done with.
    pub(super) fn settle_silently(&mut self, session: SessionId, key: DeliveryKey) -> bool {
        self.track(key.log).is_some_and(|track| track.cursor.settle(session, key.offset.0))
    }

    /// A message that `session` holds is ready again, unless that was once too often.
    pub(super) fn give_back(&mut self, session: SessionId, log: LogId, offset: u64) -> bool {
        let limit = self.rules.as_ref().and_then(|rules| rules.delivery_limit());
        let Some(track) = self.track(log) else { return false };
        let made = track.cursor.attempts_of(session, offset).unwrap_or(0);
        if limit.is_some_and(|limit| made > limit) {
            return self.discard(session, log, offset, Reason::DeliveryLimit);
        }
        track.cursor.requeue(session, offset)
    }

    /// A message that `session` holds dies.
    fn discard(&mut self, session: SessionId, log: LogId, offset: u64, reason: Reason) -> bool {
        let Ok(at) = self.tracks.binary_search_by_key(&log, |track| track.cursor.log) else { return false };
        let Some(track) = self.tracks.get_mut(at) else { return false };
        match self.rules.as_deref_mut().filter(|rules| rules.options.dead_letters.is_some()) {
            Some(rules) if track.cursor.doom(session, offset) => {
                rules.dying.push(Dead::at(log, offset, reason));
                true
            }
            Some(_) => false,
            None => track.cursor.settle(session, offset),
        }
    }

    /// What needs no settling is settled once its event has left: all before event `left`.
    pub(super) fn settle_unconfirmed(&mut self, left: u64) {
        while let Some(&(number, session, key)) = self.unconfirmed.front()
            && number <= left
        {
            self.unconfirmed.pop_front();
            self.settle_silently(session, key);
        }
        if self.consumers.count() == 0 && self.unconfirmed.is_empty() {
            drop(self.unconfirmed.take());
        }
    }

    /// A delivery that lay in the event queue was taken out of it.
    pub(super) fn untake(&mut self, session: SessionId, key: DeliveryKey) {
        if let Some(track) = self.track(key.log) {
            track.cursor.untake(session, key.offset.0);
        }
        self.unconfirmed.retain(|(_, _, sent)| *sent != key);
    }
}
