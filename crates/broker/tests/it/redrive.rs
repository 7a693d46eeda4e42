//! Redriving: the dead go back where they came from, once, whatever happens on the way.

use crate::rig::*;
use broker::queue::*;
use broker::redrive::{RedriveAsk, RedriveNext, Redriven};
use broker::{BrokerError, CallId, SessionId};

const OPERATOR: SessionId = SessionId(7);

fn ask(to: Option<&str>) -> RedriveAsk<'_> {
    RedriveAsk { tenant: "/", queue: "dead", to, count_max: u64::MAX }
}

fn redrive(rig: &mut Rig, ask: &RedriveAsk<'_>) -> Result<Redriven, BrokerError> {
    let done = rig.broker.redrive((OPERATOR, CallId(1)), ask, rig.now);
    rig.settle_down();
    done
}

/// Queues `a` and `b` whose rejected messages are in `dead`: so many of each, by turns.
fn with_dead(count: usize, options: QueueOptions) -> Rig {
    let mut rig = Rig::new();
    rig.queue("dead");
    let dead_letters =
        Some(DeadLetterTo { exchange: String::new(), key: Some("dead".to_owned()), at_least_once: false });
    let options = QueueOptions { dead_letters, ..options };
    for queue in ["a", "b"] {
        rig.declare(&QueueSpec { durable: true, options: options.clone(), ..spec(queue) }).unwrap();
    }
    rig.settle_down();
    for number in 0..count {
        for queue in ["a", "b"] {
            rig.publish("", queue, &format!("{queue}{number}")).unwrap();
            rig.settle_down();
            let keys: Vec<_> = rig.get_all(1, queue).iter().map(|delivery| delivery.key).collect();
            rig.broker.settle(SessionId(1), &keys, Settle::Discard);
            rig.settle_down();
        }
    }
    assert_eq!(rig.depth("dead"), (2 * count as u64, 0));
    rig
}

fn texts(rig: &mut Rig, queue: &str) -> Vec<String> {
    let all = rig.get_all(9, queue);
    let first = |text: String| text.split([' ', '|']).next().unwrap().to_owned();
    let texts = all.iter().map(|delivery| first(look(delivery).0)).collect();
    rig.broker.session_closed(SessionId(9), rig.now);
    rig.settle_down();
    texts
}

#[test]
fn each_goes_back_to_the_queue_where_it_died_in_its_order() {
    let mut rig = with_dead(3, QueueOptions::default());
    let done = redrive(&mut rig, &ask(None)).unwrap();
    assert_eq!((done.moved, done.kept.len(), done.next), (6, 0, RedriveNext::End));
    for _ in 0..2 {
        assert_eq!(rig.depth("dead"), (0, 0));
        assert_eq!(texts(&mut rig, "a"), ["a0", "a1", "a2"]);
        assert_eq!(texts(&mut rig, "b"), ["b0", "b1", "b2"]);
        rig = rig.killed();
    }
}

#[test]
fn a_limit_and_another_queue_are_heeded() {
    let mut rig = with_dead(2, QueueOptions::default());
    rig.queue("other");
    let done = redrive(&mut rig, &RedriveAsk { count_max: 3, ..ask(Some("other")) }).unwrap();
    assert_eq!((done.moved, done.next), (3, RedriveNext::More));
    assert_eq!(texts(&mut rig, "other"), ["a0", "b0", "a1"]);
    assert_eq!(texts(&mut rig, "dead"), ["b1"]);
}

#[test]
fn what_has_nowhere_to_go_stays_in_its_place_and_the_rest_goes() {
    let mut rig = with_dead(1, QueueOptions::default());
    rig.publish("", "dead", "stranger").unwrap();
    rig.settle_down();
    rig.broker.delete_queue(OPERATOR, "/", "a", false, false).unwrap();
    let done = redrive(&mut rig, &ask(None)).unwrap();
    assert_eq!((done.moved, done.kept.len(), done.next), (1, 2, RedriveNext::End));
    assert_eq!(done.why.as_deref().map(|why| why.contains("no queue 'a' any more")), Some(true), "{:?}", done.why);
    rig.broker.put_back(OPERATOR, &done.kept);
    rig.settle_down();
    assert_eq!(texts(&mut rig, "b"), ["b0"]);
    let seen: Vec<_> =
        rig.get_all(9, "dead").iter().map(look).map(|(text, redelivered, _)| (text, redelivered)).collect();
    assert_eq!(seen.iter().map(|(_, redelivered)| *redelivered).collect::<Vec<_>>(), [false, false], "{seen:?}");
    assert!(seen[0].0.starts_with("a0") && seen[1].0 == "stranger", "{seen:?}");
}

#[test]
fn a_queue_that_refuses_what_is_too_much_gets_what_fits() {
    let limited = QueueOptions { length_max: Some(2), overflow: Some(Overflow::Reject), ..QueueOptions::default() };
    let mut rig = with_dead(4, limited);
    let mut moved = 0;
    let mut kept = Vec::new();
    loop {
        let done = redrive(&mut rig, &ask(None)).unwrap();
        moved += done.moved;
        kept.extend(done.kept);
        if done.next == RedriveNext::End {
            assert!(done.why.unwrap().contains("is full"));
            break;
        }
    }
    rig.broker.put_back(OPERATOR, &kept);
    rig.settle_down();
    assert_eq!((moved, kept.len()), (4, 4));
    assert_eq!((rig.depth("a"), rig.depth("b"), rig.depth("dead")), ((2, 0), (2, 0), (4, 0)));
}

#[test]
fn what_makes_no_sense_is_refused_and_moves_nothing() {
    let mut rig = with_dead(1, QueueOptions::default());
    assert!(matches!(redrive(&mut rig, &ask(Some("dead"))), Err(BrokerError::Invalid(_))));
    assert!(matches!(redrive(&mut rig, &ask(Some("none"))), Err(BrokerError::Missing { .. })));
    let none = RedriveAsk { queue: "none", ..ask(None) };
    assert!(matches!(redrive(&mut rig, &none), Err(BrokerError::Missing { .. })));
    rig.disk.set_capacity(0);
    let filled = (0..10_000).any(|_| {
        rig.turn();
        rig.publish("", "b", &"x".repeat(250)).is_err()
    });
    assert!(filled);
    assert!(matches!(redrive(&mut rig, &ask(None)), Err(BrokerError::Storage(_))));
    assert_eq!(rig.depth("dead"), (2, 0));
}

#[test]
fn a_power_cut_at_any_sync_leaves_each_message_in_one_place() {
    for seed in 0..40 {
        let mut rig = with_dead(5, QueueOptions::default());
        let mut left = seed % 11;
        while left > 0 {
            let count_max = left.min(3);
            rig.broker.redrive((OPERATOR, CallId(1)), &RedriveAsk { count_max, ..ask(None) }, rig.now).unwrap();
            left -= count_max;
            if seed % 2 == 0 {
                rig.turn();
            }
        }
        let mut rig = if seed % 3 == 0 { rig.killed() } else { rig.power_cut(seed) };
        rig.settle_down();
        let mut all: Vec<_> = ["a", "b", "dead"].into_iter().flat_map(|queue| texts(&mut rig, queue)).collect();
        all.sort();
        let mut wanted: Vec<_> = (0..5).flat_map(|at| [format!("a{at}"), format!("b{at}")]).collect();
        wanted.sort();
        assert_eq!(all, wanted, "seed {seed}");
    }
}
