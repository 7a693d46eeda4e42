//! Events on their way to sessions, oldest first. The parts push, the driver pops by [`crate::Broker::next_event`].

use std::collections::VecDeque;

use crate::queue::Delivery;
use crate::{Event, SessionId};

/// The queue of events. An event for a session that has closed is passed over by the driver.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<(u64, SessionId, Event)>,
    /// The number of the next event.
    next: u64,
    /// Emptied batches of deliveries, to be filled again.
    batches: Vec<Vec<Delivery>>,
}

/// Emptied batches that are kept.
const BATCHES_MAX: usize = 32;

/// Deliveries for which one keeps room.
const BATCH_ROOM_MAX: usize = 512;

impl Events {
    /// Tells `session`.
    pub(crate) fn push(&mut self, session: SessionId, event: Event) {
        self.queue.push_back((self.next, session, event));
        self.next += 1;
    }

    /// The oldest event.
    pub(crate) fn pop(&mut self) -> Option<(SessionId, Event)> {
        self.queue.pop_front().map(|(_, session, event)| (session, event))
    }

    /// An empty batch, with room if one was spent before.
    pub(crate) fn batch(&mut self) -> Vec<Delivery> {
        self.batches.pop().unwrap_or_default()
    }

    /// A batch has been dealt with.
    pub(crate) fn spent(&mut self, mut batch: Vec<Delivery>) {
        if self.batches.len() < BATCHES_MAX && batch.capacity() <= BATCH_ROOM_MAX {
            batch.clear();
            self.batches.push(batch);
        }
    }

    /// The number that the next event gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// All events with lower numbers have left.
    pub(crate) fn left(&self) -> u64 {
        self.queue.front().map_or(self.next, |(number, ..)| *number)
    }

    /// Takes out the events of `session` for which `wanted` holds, in order: deliveries to go back, say.
    pub(crate) fn take_where(&mut self, session: SessionId, mut wanted: impl FnMut(&Event) -> bool) -> Vec<Event> {
        let mut taken = Vec::new();
        for (number, whose, event) in std::mem::take(&mut self.queue) {
            if whose == session && wanted(&event) {
                taken.push(event);
            } else {
                self.queue.push_back((number, whose, event));
            }
        }
        taken
    }
}
