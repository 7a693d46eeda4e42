//! The cursor against a simple model that lists every message, under random use, crashes and lost turns.

use std::collections::BTreeMap;

use model::LogId;
use proptest::prelude::*;

use super::cursor::Cursor;
use super::record;
use super::sums::Weight;
use crate::SessionId;

fn take(cursor: &mut Cursor, session: SessionId) -> Option<super::cursor::Taken> {
    cursor.take(session, 0, Weight::default())
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u64),
    Take(u64, usize),
    /// Settle or requeue or give back unseen the n-th message that the session holds; with all before it if `multiple`.
    Give {
        session: u64,
        nth: usize,
        multiple: bool,
        how: How,
    },
    Purge,
    Lost(u64),
    /// Bytes are limited from now on: sums are kept.
    Limit,
    /// So many of the messages that came before are counted.
    Count(usize),
    EndTurn {
        snapshot: bool,
    },
    /// The process dies; `keep_turn` says whether the running turn was written.
    Crash {
        keep_turn: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum How {
    Ack,
    Requeue,
    Untake,
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![4 => Just(How::Ack), 2 => Just(How::Requeue), 1 => Just(How::Untake)];
    prop_oneof![
        4 => (1u64..6).prop_map(Step::Publish),
        6 => (1u64..4, 1usize..6).prop_map(|(session, count)| Step::Take(session, count)),
        8 => (1u64..4, 0usize..8, any::<bool>(), how)
            .prop_map(|(session, nth, multiple, how)| Step::Give { session, nth, multiple, how }),
        1 => Just(Step::Purge),
        2 => (1u64..4).prop_map(Step::Lost),
        1 => Just(Step::Limit),
        3 => (1usize..6).prop_map(Step::Count),
        4 => any::<bool>().prop_map(|snapshot| Step::EndTurn { snapshot }),
        2 => any::<bool>().prop_map(|keep_turn| Step::Crash { keep_turn }),
    ]
}

/// Every message that is not settled, with the deliveries made of it and who has it.
#[derive(Clone, Debug, Default)]
struct Model {
    end: u64,
    open: BTreeMap<u64, (u32, Option<u64>)>,
}

impl Model {
    fn ready(&self) -> Vec<u64> {
        self.open.iter().filter(|(_, state)| state.1.is_none()).map(|(&offset, _)| offset).collect()
    }

    fn ready_bytes(&self) -> u64 {
        self.ready().into_iter().map(|offset| u64::from(weight(offset).bytes)).sum()
    }

    fn held(&self, session: u64) -> Vec<u64> {
        self.open.iter().filter(|(_, state)| state.1 == Some(session)).map(|(&offset, _)| offset).collect()
    }
}

/// What a message weighs.
fn weight(offset: u64) -> Weight {
    Weight { bytes: 1 + (offset % 7) as u32, transient: false }
}

struct World {
    cursor: Cursor,
    model: Model,
    records: Vec<Vec<u8>>,
    /// The model as of the last written turn.
    written: Model,
}

impl World {
    fn new() -> World {
        let cursor = Cursor::new(LogId(3), 0);
        World { cursor, model: Model::default(), records: Vec::new(), written: Model::default() }
    }

    fn end_turn(&mut self, snapshot: bool) {
        let mut out = Vec::new();
        record::begin(&mut out);
        if snapshot {
            record::put_snapshot(&self.cursor, &mut out);
            self.records.clear();
            self.records.push(out);
        } else if self.cursor.has_news() {
            record::put_delta(&self.cursor, &mut out);
            self.records.push(out);
        }
        self.cursor.recorded();
        self.written = self.model.clone();
    }

    fn crash(&mut self, keep_turn: bool) {
        if keep_turn {
            self.end_turn(false);
        }
        self.model = self.written.clone();
        for state in self.model.open.values_mut() {
            state.1 = None;
        }
        self.written = self.model.clone();
        let mut cursors = vec![Cursor::new(LogId(3), 0)];
        for bytes in &self.records {
            record::replay(bytes, &mut cursors).unwrap();
        }
        self.cursor = cursors.pop().unwrap();
        // What came after the last record is counted.
        let counted = self.cursor.sums().map_or(u64::MAX, |sums| sums.counted);
        for offset in counted..self.model.end {
            self.cursor.appended(offset, weight(offset));
        }
        // The own log is trimmed up to the head, as the queue does.
        let start = self.model.open.keys().next().copied().unwrap_or(self.model.end);
        self.cursor.reopen(start.min(self.cursor.head()), self.model.end);
    }

    fn take(&mut self, session: u64, count: usize) {
        for _ in 0..count {
            let lowest = self.model.ready().first().copied();
            assert_eq!(self.cursor.peek(), lowest, "the lowest ready message comes first");
            // Without sums nobody looks at messages.
            let known = self.cursor.sums().and(lowest).map_or(Weight::default(), weight);
            let taken = self.cursor.take(SessionId(session), 0, known);
            assert_eq!(taken.map(|taken| taken.offset), lowest);
            let Some(taken) = taken else { return };
            let state = self.model.open.get_mut(&taken.offset).unwrap();
            assert_eq!(taken.attempts, state.0, "deliveries made of {} before", taken.offset);
            *state = (state.0 + 1, Some(session));
        }
    }

    fn give(&mut self, session: u64, nth: usize, multiple: bool, how: How) {
        let held = self.model.held(session);
        let Some(&last) = held.get(nth) else {
            return;
        };
        for offset in held.into_iter().filter(|&offset| offset == last || (multiple && offset < last)) {
            let id = SessionId(session);
            let state = self.model.open.get_mut(&offset).unwrap();
            match how {
                How::Ack => {
                    assert!(self.cursor.settle(id, offset));
                    assert!(!self.cursor.settle(id, offset), "settled twice");
                    self.model.open.remove(&offset);
                }
                How::Requeue => {
                    assert!(self.cursor.requeue(id, offset));
                    state.1 = None;
                }
                How::Untake => {
                    assert!(self.cursor.untake(id, offset));
                    *state = (state.0 - 1, None);
                }
            }
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Publish(count) => {
                for offset in self.model.end..self.model.end + count {
                    self.model.open.insert(offset, (0, None));
                    self.cursor.appended(offset, weight(offset));
                }
                self.model.end += count;
                self.cursor.visible(self.model.end);
            }
            Step::Take(session, count) => self.take(session, count),
            Step::Give { session, nth, multiple, how } => self.give(session, nth, multiple, how),
            Step::Purge => {
                let ready = self.model.ready();
                assert_eq!(self.cursor.purge(), ready.len() as u64);
                self.model.open.retain(|_, state| state.1.is_some());
            }
            Step::Lost(session) => {
                let held = self.model.held(session);
                let lost = self.cursor.held_by(SessionId(session));
                assert_eq!(lost.len(), held.len());
                for offset in lost {
                    assert!(self.cursor.requeue(SessionId(session), offset));
                }
                for offset in held {
                    self.model.open.get_mut(&offset).unwrap().1 = None;
                }
            }
            Step::Limit => self.cursor.keep_sums(self.model.end),
            Step::Count(count) => {
                for _ in 0..count {
                    let Some((next, _)) = self.cursor.uncounted() else { break };
                    self.cursor.count(next, weight(next));
                    self.cursor.counted(next + 1);
                }
            }
            Step::EndTurn { snapshot } => self.end_turn(snapshot),
            Step::Crash { keep_turn } => self.crash(keep_turn),
        }
        self.check();
    }

    fn check(&self) {
        let ready = self.model.ready().len();
        assert_eq!(self.cursor.ready(), ready as u64);
        assert_eq!(self.cursor.unsettled(), (self.model.open.len() - ready) as u64);
        let lowest = self.model.open.keys().next().copied().unwrap_or(self.model.end);
        assert_eq!(self.cursor.head(), lowest, "everything before the head is settled, nothing else");
        if self.cursor.sums().is_some() {
            let (bytes, all) = (self.cursor.ready_bytes(), self.model.ready_bytes());
            assert!(bytes <= all, "never too many bytes are counted: {bytes} of {all}");
            assert!(bytes == all || self.cursor.uncounted().is_some(), "{bytes} bytes of {all} once all are counted");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn order_counts_depth_and_bytes_are_right_through_crashes(steps in proptest::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in steps {
            world.run(step);
        }
        world.crash(true);
        world.take(9, usize::MAX);
    }
}

#[test]
fn requeued_messages_come_before_later_ones_at_their_old_places() {
    let mut cursor = Cursor::new(LogId(1), 0);
    cursor.visible(10);
    let me = SessionId(1);
    for _ in 0..5 {
        take(&mut cursor, me);
    }
    for offset in [2, 0, 1] {
        assert!(cursor.requeue(me, offset));
    }
    let order: Vec<_> =
        std::iter::from_fn(|| take(&mut cursor, me)).map(|taken| (taken.offset, taken.attempts)).collect();
    assert_eq!(order, [(0, 1), (1, 1), (2, 1), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0)]);
}

#[test]
fn a_message_is_settled_only_by_the_session_that_holds_it() {
    let mut cursor = Cursor::new(LogId(1), 0);
    cursor.visible(1);
    take(&mut cursor, SessionId(1));
    assert!(!cursor.settle(SessionId(2), 0));
    assert!(!cursor.requeue(SessionId(2), 0));
    assert!(cursor.settle(SessionId(1), 0));
    assert_eq!(cursor.head(), 1);
}

#[test]
fn a_log_trimmed_by_retention_takes_unsettled_messages_with_it() {
    let mut cursor = Cursor::new(LogId(1), 0);
    cursor.visible(10);
    let me = SessionId(1);
    for _ in 0..4 {
        take(&mut cursor, me);
    }
    cursor.requeue(me, 1);
    cursor.settle(me, 3);
    cursor.start_moved(6);
    assert_eq!((cursor.head(), cursor.ready(), cursor.peek()), (6, 4, Some(6)));
    assert!(cursor.requeue(me, 2), "held, but its place is gone");
    assert_eq!((cursor.ready(), cursor.peek()), (4, Some(6)));
}

#[test]
fn memory_grows_with_messages_in_flight_not_with_the_backlog() {
    let mut cursor = Cursor::new(LogId(1), 0);
    cursor.visible(1 << 40);
    let me = SessionId(1);
    for _ in 0..100_000 {
        let taken = take(&mut cursor, me).unwrap();
        cursor.settle(me, taken.offset);
    }
    cursor.recorded();
    assert_eq!(cursor.ready(), (1 << 40) - 100_000);
    let mut snapshot = Vec::new();
    record::put_snapshot(&cursor, &mut snapshot);
    assert!(snapshot.len() < 32);
}
