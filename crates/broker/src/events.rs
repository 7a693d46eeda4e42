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
    /// Emptied batches of deliveries, to be filled again: those with room for many, and those for a few.
    batches: [Vec<Vec<Delivery>>; 2],
}

/// Emptied batches that are kept: of those with room for many, and of those for a few. With thousands of queues each
/// message comes in a batch of its own.
const BATCHES_MAX: [usize; 2] = [32, 1024];

/// Deliveries for which one keeps room.
const BATCH_ROOM_MAX: usize = 512;

/// A few.
const BATCH_ROOM_SMALL: usize = 8;

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
        let [large, small] = &mut self.batches;
        small.pop().or_else(|| large.pop()).unwrap_or_default()
    }

    /// A batch has been dealt with.
    pub(crate) fn spent(&mut self, mut batch: Vec<Delivery>) {
        let is_small = usize::from(batch.capacity() <= BATCH_ROOM_SMALL);
        let kept = &mut self.batches[is_small];
        if kept.len() < BATCHES_MAX[is_small] && batch.capacity() <= BATCH_ROOM_MAX {
            batch.clear();
            kept.push(batch);
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

    /// Takes back all events of which `which` is true.
    pub(crate) fn withdraw(&mut self, which: impl Fn(&Event) -> bool) {
        self.queue.retain(|(_, _, event)| !which(event));
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
