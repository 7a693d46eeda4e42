//! The messages in flight of one log: who has which. Nearly all are given out in the order of their offsets and settled
//! about as they came, so they stand in line; an entry in line costs no memory of its own.
//!
//! It knows nothing of what becomes of a message; the cursor does.

use std::collections::VecDeque;

use super::rare::RareMap;
use super::sums::Weight;
use crate::SessionId;

/// Entries that have ended and may stand in line beside as many again as are in flight.
const ENDED_MIN: usize = 32;

/// Entries for which an empty line keeps room.
const ROOM_KEPT: usize = 4;

/// A message in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flight {
    /// How many deliveries were made before this one.
    pub(super) attempts: u32,
    /// Whatever moment the queue counts from; see [`super::cursor::Cursor::held_since`].
    pub(super) since: u32,
    pub(super) weight: Weight,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u64,
    session: SessionId,
    flight: Flight,
    /// False once it has ended: it leaves the line when it comes to the front, or when too many such stand there.
    lives: bool,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Invariant: offsets ascend; the front lives.
    line: VecDeque<Entry>,
    /// Given out behind later ones: what was given back and taken again.
    strays: RareMap<(SessionId, Flight)>,
    /// How many in line live.
    in_line: usize,
}

impl Held {
    /// `session` is given the message at `offset`, which nobody has.
    pub(super) fn insert(&mut self, session: SessionId, offset: u64, flight: Flight) {
        if self.line.back().is_some_and(|last| last.offset >= offset) {
            self.strays.insert(offset, (session, flight));
            return;
        }
        self.in_line += 1;
        self.line.push_back(Entry { offset, session, flight, lives: true });
    }

    /// What is known of a message that `session` has.
    pub(super) fn get(&self, session: SessionId, offset: u64) -> Option<&Flight> {
        if let Some(entry) = self.at(offset).and_then(|at| self.line.get(at)) {
            return (entry.session == session).then_some(&entry.flight);
        }
        self.strays.get(offset).filter(|(whose, _)| *whose == session).map(|(_, flight)| flight)
    }

    /// Takes a message that `session` has out of flight.
    pub(super) fn remove(&mut self, session: SessionId, offset: u64) -> Option<Flight> {
        let flight = *self.get(session, offset)?;
        let Some(entry) = self.at(offset).and_then(|at| self.line.get_mut(at)) else {
            self.strays.remove(offset);
            return Some(flight);
        };
        entry.lives = false;
        self.in_line -= 1;
        self.tidy();
        Some(flight)
    }

    /// A message that `session` has is another's; false when it does not have it.
    pub(super) fn hand_over(&mut self, session: SessionId, offset: u64, to: SessionId) -> bool {
        if let Some(entry) = self.at(offset).and_then(|at| self.line.get_mut(at)) {
            let has = entry.session == session;
            entry.session = if has { to } else { entry.session };
            return has;
        }
        let stray = self.strays.get_mut(offset).filter(|(whose, _)| *whose == session);
        stray.map(|(whose, _)| *whose = to).is_some()
    }

    /// The message at `offset`, whoever has it, has this many bytes; answers how many were known, if it is in flight.
    pub(super) fn weigh(&mut self, offset: u64, bytes: u32) -> Option<u32> {
        let flight = match self.at(offset).and_then(|at| self.line.get_mut(at)) {
            Some(entry) => &mut entry.flight,
            None => self.strays.get_mut(offset).map(|(_, flight)| flight)?,
        };
        Some(std::mem::replace(&mut flight.weight.bytes, bytes))
    }

    /// All in flight, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, u64, &Flight)> {
        let in_line = self.line.iter().filter(|entry| entry.lives);
        let in_line = in_line.map(|entry| (entry.session, entry.offset, &entry.flight));
        in_line.chain(self.strays.iter().map(|(offset, (session, flight))| (*session, *offset, flight)))
    }

    /// How many are in flight.
    pub(super) fn len(&self) -> usize {
        self.in_line + self.strays.len()
    }

    /// Whether none is.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where in line the message at `offset` stands, if it lives there.
    fn at(&self, offset: u64) -> Option<usize> {
        // The oldest are settled first, mostly.
        let at = match self.line.front() {
            Some(front) if front.offset == offset => 0,
            _ => self.line.binary_search_by_key(&offset, |entry| entry.offset).ok()?,
        };
        self.line.get(at).filter(|entry| entry.lives).map(|_| at)
    }

    fn tidy(&mut self) {
        while self.line.front().is_some_and(|entry| !entry.lives) {
            self.line.pop_front();
        }
        if self.line.len() > 2 * self.in_line + ENDED_MIN {
            self.line.retain(|entry| entry.lives);
        }
        if self.line.is_empty() && self.line.capacity() > ROOM_KEPT {
            self.line = VecDeque::new();
        } else if self.line.capacity() > 1024 && self.line.len() * 8 < self.line.capacity() {
            self.line.shrink_to(self.line.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_knows_what_a_plain_map_knows(steps in proptest::collection::vec((0u8..4, 0u64..40, 1u64..4), 1..300)) {
            let (mut held, mut plain) = (Held::default(), BTreeMap::<u64, SessionId>::new());
            for (step, offset, session) in steps {
                let session = SessionId(session);
                let has = plain.get(&offset) == Some(&session);
                match step {
                    0 | 1 if !plain.contains_key(&offset) => {
                        held.insert(session, offset, Flight { attempts: offset as u32, ..Flight::default() });
                        plain.insert(offset, session);
                    }
                    2 => {
                        let removed = held.remove(session, offset).map(|flight| flight.attempts);
                        prop_assert_eq!(removed, has.then_some(offset as u32));
                        if has {
                            plain.remove(&offset);
                        }
                    }
                    3 => {
                        prop_assert_eq!(held.hand_over(session, offset, SessionId(9)), has);
                        if has {
                            plain.insert(offset, SessionId(9));
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(held.get(session, offset).is_some(), plain.get(&offset) == Some(&session));
                let all: BTreeMap<_, _> = held.iter().map(|(session, offset, _)| (offset, session)).collect();
                prop_assert_eq!((&all, held.len()), (&plain, plain.len()));
            }
        }
    }

    #[test]
    fn a_message_held_for_long_does_not_keep_those_after_it() {
        let (mut held, session) = (Held::default(), SessionId(1));
        for offset in 0..100_000 {
            held.insert(session, offset, Flight::default());
            if offset > 0 {
                held.remove(session, offset);
            }
        }
        assert_eq!(held.len(), 1);
        assert!(held.line.len() <= 2 + ENDED_MIN && held.strays.is_empty());
    }
}
