//! Limits of bytes that come by a policy when messages are there: what lay in a queue uncounted counts, too.

use std::collections::BTreeMap;

use crate::rig::*;
use broker::SessionId;
use broker::policy::{AppliesTo, Policy, PolicyOptions};
use broker::queue::*;

const ME: SessionId = SessionId(1);

/// A rig with the queues `dead` and `q`.
fn queue(durable: bool, dead_letters: Option<DeadLetterTo>) -> Rig {
    let mut rig = Rig::new();
    rig.queue("dead");
    rig.declare(&QueueSpec { durable, options: QueueOptions { dead_letters, ..Default::default() }, ..spec("q") })
        .unwrap();
    rig
}

fn dead() -> Option<DeadLetterTo> {
    Some(DeadLetterTo { exchange: String::new(), key: Some("dead".to_owned()), at_least_once: false })
}

fn limit(rig: &mut Rig, max: u64) {
    rig.broker.put_policy(&bytes(max)).unwrap();
    rig.pass(0);
}

/// A policy that limits bytes.
fn bytes(max: u64) -> Policy {
    Policy {
        tenant: "/".into(),
        name: "bytes".into(),
        is_operator: false,
        pattern: "^q$".into(),
        applies_to: AppliesTo::All,
        priority: 0,
        definition: BTreeMap::new(),
        options: PolicyOptions { bytes_max: Some(max), ..PolicyOptions::default() },
        unfit: Vec::new(),
    }
}

/// Messages of ten bytes each.
fn tens(rig: &mut Rig, count: usize) {
    for _ in 0..count {
        rig.publish("", "q", "0123456789").unwrap();
    }
    rig.settle_down();
}

#[test]
fn a_limit_of_bytes_drops_the_heads_at_once_and_holds_through_restarts() {
    for (durable, dead_letters) in [(true, None), (false, None), (true, dead())] {
        let mut rig = queue(durable, dead_letters);
        tens(&mut rig, 20);
        limit(&mut rig, 75);
        assert_eq!(rig.depth("q"), (7, 0), "what was there counts");
        tens(&mut rig, 1);
        assert_eq!(rig.depth("q"), (7, 0));
        limit(&mut rig, 40);
        assert_eq!(rig.depth("q"), (4, 0));
        if durable {
            rig = rig.killed();
            assert_eq!(rig.depth("q"), (4, 0));
            tens(&mut rig, 2);
            assert_eq!(rig.depth("q"), (4, 0));
        }
        rig.broker.delete_policy(&bytes(0).key()).unwrap();
        tens(&mut rig, 5);
        assert_eq!(rig.depth("q"), (9, 0), "without the policy nothing limits it");
        limit(&mut rig, 50);
        assert_eq!(rig.depth("q"), (5, 0));
    }
}

#[test]
fn bytes_in_flight_are_not_limited_and_count_again_when_they_come_back() {
    let mut rig = queue(true, None);
    tens(&mut rig, 6);
    let held = rig.get_all(1, "q");
    tens(&mut rig, 6);
    limit(&mut rig, 40);
    assert_eq!(rig.depth("q"), (4, 6));
    rig.broker.settle(ME, &keys(&held[..2]), Settle::Ack);
    rig.settle_down();
    assert_eq!(rig.depth("q"), (4, 4), "the end of others changes nothing");
    rig.broker.settle(ME, &keys(&held[2..]), Settle::Requeue);
    rig.settle_down();
    assert_eq!(rig.depth("q"), (4, 0), "the oldest are too many");
}

#[test]
fn counting_a_long_queue_takes_turns_in_which_others_are_served() {
    let mut rig = queue(true, None);
    let text = "x".repeat(200);
    for _ in 0..8_000 {
        rig.publish("", "q", &text).unwrap();
    }
    rig.settle_down();
    rig.broker.put_policy(&bytes(100_000)).unwrap();
    let mut turns = 0;
    while rig.depth("q").0 > 500 {
        rig.turn();
        turns += 1;
        assert!(turns < 1_000 && rig.depth("q").0 >= 500);
        if turns == 2 {
            rig.publish("", "dead", "other").unwrap();
        }
    }
    assert!(turns > 4, "{turns} turns");
    let mut rig = rig.killed();
    rig.pass(0);
    assert_eq!(rig.depth("q"), (500, 0));
    rig.publish("", "q", &text).unwrap();
    rig.settle_down();
    assert_eq!((rig.depth("q"), rig.depth("dead")), ((500, 0), (1, 0)));
}

#[test]
fn a_kill_amid_counting_begins_it_anew() {
    let mut rig = queue(true, None);
    let text = "x".repeat(200);
    for _ in 0..8_000 {
        rig.publish("", "q", &text).unwrap();
    }
    rig.settle_down();
    rig.broker.put_policy(&bytes(2_000)).unwrap();
    for _ in 0..3 {
        rig.turn();
    }
    let before = rig.depth("q").0;
    assert!((11..8_000).contains(&before), "{before}");
    let mut rig = rig.killed();
    rig.pass(0);
    assert_eq!(rig.depth("q"), (10, 0));
}
