//! Random use of a queue by several consumers, with kills and power cuts, against a list of what must be in it.

use std::collections::BTreeMap;

use crate::rig::*;
use broker::partition::AppendRequest;
use broker::queue::*;
use broker::topic::NewTopic;
use broker::{SessionId, SyncPolicy};
use model::Wall;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Publish(u8),
    Consume {
        session: u64,
        credit: u32,
        auto_settle: bool,
    },
    Credit(usize, u32),
    /// Settles some of what a session holds: every `nth`.
    Give {
        session: u64,
        nth: usize,
        how: Settle,
    },
    Cancel {
        nth: usize,
        before_events_leave: bool,
    },
    Close(u64),
    Purge,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![3 => Just(Settle::Ack), 2 => Just(Settle::Requeue), 1 => Just(Settle::Discard)];
    prop_oneof![
        6 => (1u8..6).prop_map(Step::Publish),
        3 => (1u64..4, 0u32..7, any::<bool>())
            .prop_map(|(session, credit, auto_settle)| Step::Consume { session, credit, auto_settle }),
        4 => (0usize..4, 1u32..5).prop_map(|(nth, more)| Step::Credit(nth, more)),
        8 => (1u64..4, 1usize..4, how).prop_map(|(session, nth, how)| Step::Give { session, nth, how }),
        2 => (0usize..4, any::<bool>()).prop_map(|(nth, early)| Step::Cancel { nth, before_events_leave: early }),
        1 => (1u64..4).prop_map(Step::Close),
        1 => Just(Step::Purge),
        2 => Just(Step::Kill),
    ]
}

/// A message that is still in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    text: String,
    deliveries: u32,
    holder: Option<(u64, DeliveryKey)>,
}

struct Storm {
    rig: Rig,
    /// By offset.
    open: BTreeMap<u64, Open>,
    consumers: Vec<(ConsumerId, u64, bool, u32)>,
    published: u64,
    over_topic: bool,
}

impl Storm {
    fn new(over_topic: bool, cold: u64) -> Storm {
        let mut rig = Rig::new();
        let topic = over_topic.then(|| name("t"));
        if over_topic {
            let (tenant, name) = (name("/"), name("t"));
            let new = NewTopic { tenant, name, partitions: 1, config: Vec::new(), validate_only: false };
            rig.broker.create_topic(&new, rig.now).unwrap();
        }
        rig.declare(&QueueSpec { durable: true, topic, ..spec("q") }).unwrap();
        rig.settle_down();
        rig.disk.set_cache_misses(cold);
        Storm { rig, open: BTreeMap::new(), consumers: Vec::new(), published: 0, over_topic }
    }

    fn publish(&mut self, count: u8) {
        let texts: Vec<String> = (0..u64::from(count)).map(|n| format!("m{}", self.published + n)).collect();
        if self.over_topic {
            let bodies: Vec<&str> = texts.iter().map(String::as_str).collect();
            let request = AppendRequest {
                log: self.rig.broker.topic("/", "t").unwrap().partitions[0],
                format: &Toy(MANY),
                units: &Toy::unit(&bodies),
                count: u32::from(count),
                time_max: Wall(1),
                producer: None,
                policy: SyncPolicy::Sync,
            };
            self.rig.broker.append(&request, self.rig.now).unwrap();
        } else {
            for text in &texts {
                self.rig.publish("", "q", text).unwrap();
            }
        }
        for text in texts {
            self.open.insert(self.published, Open { text, deliveries: 0, holder: None });
            self.published += 1;
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Publish(count) => self.publish(count),
            Step::Consume { session, credit, auto_settle } => {
                let spec = ConsumeSpec { auto_settle, exclusive: false, credit, priority: 0 };
                let id = self.rig.broker.consume(SessionId(session), "/", "q", spec, ONE).unwrap();
                self.consumers.push((id, session, auto_settle, credit));
            }
            Step::Credit(nth, more) => {
                if let Some((id, _, _, credit)) = self.consumers.get_mut(nth) {
                    self.rig.broker.credit(*id, more);
                    *credit += more;
                }
            }
            Step::Give { session, nth, how } => self.give(session, nth, how),
            Step::Cancel { nth, before_events_leave } if nth < self.consumers.len() => {
                if before_events_leave {
                    self.rig.broker.end_turn(self.rig.now);
                }
                let (id, ..) = self.consumers.remove(nth);
                self.rig.broker.cancel(id);
            }
            Step::Cancel { .. } => {}
            Step::Close(session) => {
                self.rig.broker.session_closed(SessionId(session), self.rig.now);
                self.consumers.retain(|(_, whose, ..)| *whose != session);
                self.release(|holder| holder == session);
            }
            Step::Purge => {
                let ready = self.open.values().filter(|open| open.holder.is_none()).count();
                assert_eq!(self.rig.broker.purge(SessionId(1), "/", "q").unwrap().0, ready as u64);
                self.open.retain(|_, open| open.holder.is_some());
            }
            Step::Kill => {
                let options = Rig::options();
                self.rig = Rig::on(self.rig.disk.kill(), options);
                self.consumers.clear();
                self.release(|_| true);
            }
        }
        self.rig.settle_down();
        self.take_deliveries();
        self.check();
    }

    fn release(&mut self, whose: impl Fn(u64) -> bool) {
        for open in self.open.values_mut() {
            open.holder = open.holder.filter(|(holder, _)| !whose(*holder));
        }
    }

    fn give(&mut self, session: u64, nth: usize, how: Settle) {
        let held = |open: &Open| open.holder.filter(|(holder, _)| *holder == session).map(|(_, key)| key);
        let chosen: Vec<_> = self.open.values().filter_map(held).step_by(nth).collect();
        self.rig.broker.settle(SessionId(session), &chosen, how);
        for key in chosen {
            if how == Settle::Requeue {
                self.open.get_mut(&key.offset.0).unwrap().holder = None;
            } else {
                self.open.remove(&key.offset.0);
            }
        }
    }

    fn take_deliveries(&mut self) {
        let ready = self.open.iter().filter(|(_, open)| open.holder.is_none());
        let mut ready = ready.map(|(offset, _)| *offset).collect::<Vec<_>>();
        let mut delivered = Vec::new();
        for (id, session, auto_settle, credit) in &mut self.consumers {
            let got = self.rig.deliveries(*id);
            assert!(got.len() <= *credit as usize, "more than its credit");
            *credit -= got.len() as u32;
            assert!(got.is_sorted_by_key(|delivery| delivery.key.offset));
            for delivery in got {
                let offset = delivery.key.offset.0;
                let open = self.open.get_mut(&offset).expect("delivered, though settled");
                assert_eq!(look(&delivery), (open.text.clone(), open.deliveries > 0, open.deliveries));
                open.deliveries += 1;
                open.holder = Some((*session, delivery.key));
                delivered.push(offset);
                if *auto_settle {
                    self.open.remove(&offset);
                }
            }
        }
        delivered.sort_unstable();
        ready.truncate(delivered.len());
        assert_eq!(delivered, ready, "the lowest ready ones go first");
        let credit_left: u32 = self.consumers.iter().map(|(.., credit)| *credit).sum();
        let ready_left = self.open.values().filter(|open| open.holder.is_none()).count();
        assert!(credit_left == 0 || ready_left == 0, "{ready_left} wait while there is credit");
    }

    fn check(&mut self) {
        let held = self.open.values().filter(|open| open.holder.is_some()).count() as u64;
        assert_eq!(self.rig.depth("q"), (self.open.len() as u64 - held, held));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn no_message_is_lost_repeated_or_out_of_place(
        over_topic in any::<bool>(), cold in 0u64..3, steps in proptest::collection::vec(step(), 1..60)
    ) {
        let mut storm = Storm::new(over_topic, cold);
        for step in steps {
            storm.run(step);
        }
        storm.run(Step::Kill);
        let left: Vec<Seen> = storm.rig.seen_all(9, "q");
        let expected = storm.open.into_values().map(|open| (open.text, open.deliveries > 0, open.deliveries));
        prop_assert_eq!(left, expected.collect::<Vec<_>>());
    }

    #[test]
    fn after_a_power_cut_confirmed_messages_are_there_in_order_and_synced_acks_hold(
        seed in any::<u64>(), acked in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        tail in 0u8..5
    ) {
        let mut rig = Rig::new();
        rig.queue("q");
        let texts: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
        rig.publish_all("q", &texts.iter().map(String::as_str).collect::<Vec<_>>());
        let got = rig.get_all(1, "q");
        let acked: Vec<_> = acked.iter().map(|index| index.get(&got).key).collect();
        for key in &acked {
            rig.broker.settle(SessionId(1), &[*key], Settle::Ack);
            rig.turn();
        }
        let synced = rig.publish("", "q", "last").unwrap().lsn;
        rig.settle_down();
        prop_assert!(rig.is_synced(synced));
        for n in 0..tail {
            rig.publish_with("", "q", &format!("tail{n}"), SyncPolicy::None).unwrap();
            rig.turn();
        }
        let mut rig = rig.power_cut(seed);
        let seen = rig.seen_all(1, "q");
        let unacked = got.iter().filter(|delivery| !acked.contains(&delivery.key));
        let kept = unacked.map(|delivery| again(&look(delivery).0));
        let mut expected: Vec<_> = kept.collect();
        expected.push(first("last"));
        let tail_seen = seen.len().saturating_sub(expected.len());
        expected.extend((0..tail_seen).map(|n| first(&format!("tail{n}"))));
        prop_assert_eq!(seen, expected);
    }
}
