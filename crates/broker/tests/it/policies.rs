//! Policies: what they make of queues and exchanges, at once, and after a restart.

use crate::rig::*;
use broker::access::Tenant;
use broker::policy::{AppliesTo, Policy, PolicyKey, PolicyOptions, merged};
use broker::queue::*;
use broker::routing::ExchangeKind;
use broker::topic::NewTopic;
use broker::{BrokerError, SessionId};

const ME: SessionId = SessionId(1);

fn policy(text: &str, pattern: &str, options: PolicyOptions) -> Policy {
    Policy {
        tenant: "/".into(),
        name: text.into(),
        is_operator: false,
        pattern: pattern.into(),
        applies_to: AppliesTo::All,
        priority: 0,
        definition: options.length_max.map(|max| ("length".to_owned(), max.into())).into_iter().collect(),
        options,
        unfit: Vec::new(),
    }
}

fn operator(text: &str, pattern: &str, options: PolicyOptions) -> Policy {
    Policy { is_operator: true, ..policy(text, pattern, options) }
}

fn length(max: u64) -> PolicyOptions {
    PolicyOptions { length_max: Some(max), ..PolicyOptions::default() }
}

fn put(rig: &mut Rig, policy: &Policy) {
    rig.broker.put_policy(policy).unwrap();
    rig.settle_down();
}

fn delete(rig: &mut Rig, policy: &Policy) {
    rig.broker.delete_policy(&policy.key()).unwrap();
    rig.settle_down();
}

/// A lasting queue `q`, with so many messages.
fn filled(options: QueueOptions, count: usize) -> Rig {
    let mut rig = Rig::new();
    rig.queue("dead");
    rig.declare(&QueueSpec { durable: true, options, ..spec("q") }).unwrap();
    fill(&mut rig, count);
    rig
}

/// Messages with the moment written on them, as a tongue's unit has it.
fn fill(rig: &mut Rig, count: usize) {
    for number in 0..count {
        let text = format!("{number} at={}", rig.now.wall.0);
        rig.publish("", "q", &text).unwrap();
    }
    rig.settle_down();
}

fn names(rig: &Rig) -> (Option<String>, Option<String>) {
    let ruling = rig.broker.queue(ME, "/", "q").unwrap().ruling;
    (ruling.policy.map(|one| one.name.clone()), ruling.operator.map(|one| one.name.clone()))
}

#[test]
fn a_shorter_length_drops_the_heads_at_once_and_holds_from_then_on() {
    let mut rig = filled(QueueOptions::default(), 10);
    let four = policy("p", "^q$", length(4));
    put(&mut rig, &four);
    assert_eq!(rig.depth("q"), (4, 0));
    fill(&mut rig, 3);
    assert_eq!(rig.depth("q"), (4, 0));
    put(&mut rig, &policy("p", "^q$", length(2)));
    assert_eq!(rig.depth("q"), (2, 0));
    delete(&mut rig, &four);
    fill(&mut rig, 5);
    assert_eq!(rig.depth("q"), (7, 0), "without the policy nothing limits it");
    assert_eq!(names(&rig), (None, None));
}

#[test]
fn a_time_to_live_and_an_end_for_want_of_use_begin_and_stop_with_their_policy() {
    let mut rig = filled(QueueOptions::default(), 3);
    let ttl = policy("p", "^q", PolicyOptions { message_ttl_ms: Some(500), ..PolicyOptions::default() });
    put(&mut rig, &ttl);
    rig.pass(499);
    assert_eq!(rig.depth("q"), (3, 0));
    rig.pass(1);
    assert_eq!(rig.depth("q"), (0, 0));
    fill(&mut rig, 1);
    delete(&mut rig, &ttl);
    rig.pass(1000);
    assert_eq!(rig.depth("q"), (1, 0));
    let expires = policy("p", "^q", PolicyOptions { expires_ms: Some(1500), ..PolicyOptions::default() });
    put(&mut rig, &expires);
    rig.pass(1400);
    delete(&mut rig, &expires);
    rig.pass(1000);
    assert_eq!(rig.depth("q"), (1, 0), "it was taken back in time");
    put(&mut rig, &expires);
    rig.pass(1499);
    assert_eq!(rig.depth("q"), (1, 0), "it is unused from when the policy came");
    rig.pass(1);
    assert_eq!(rig.broker.queue(ME, "/", "q"), Err(BrokerError::Missing { kind: "queue", name: "q".into() }));
}

#[test]
fn of_numbers_the_smallest_counts_and_of_others_what_was_declared() {
    for (declared, by_policy, by_operator, left) in
        [(7, Some(5), Some(3), 3), (7, Some(5), None, 5), (2, Some(5), Some(3), 2), (7, None, Some(3), 3)]
    {
        let mut rig = filled(QueueOptions { length_max: Some(declared), ..QueueOptions::default() }, 0);
        by_policy.iter().for_each(|max| put(&mut rig, &policy("p", "", length(*max))));
        by_operator.iter().for_each(|max| put(&mut rig, &operator("p", "", length(*max))));
        fill(&mut rig, 10);
        assert_eq!(rig.depth("q"), (left, 0), "{declared} {by_policy:?} {by_operator:?}");
    }
    let full = PolicyOptions { overflow: Some(Overflow::Reject), ..length(1) };
    for (declared, left) in [(Some(Overflow::DropHead), 0), (None, 1)] {
        let mut rig = filled(QueueOptions { overflow: declared, ..QueueOptions::default() }, 0);
        put(&mut rig, &policy("p", "", full.clone()));
        let refused = ["a", "b"].map(|text| rig.publish("", "q", text).unwrap().refused);
        assert_eq!(refused, [0, left]);
    }
}

#[test]
fn one_policy_rules_by_priority_and_only_what_it_is_for() {
    let mut rig = filled(QueueOptions::default(), 0);
    put(&mut rig, &policy("low", "q", length(5)));
    put(&mut rig, &Policy { priority: 1, ..policy("high", "q", length(9)) });
    put(&mut rig, &operator("limit", "q", length(7)));
    assert_eq!(names(&rig), (Some("high".into()), Some("limit".into())));
    assert_eq!(merged(&rig.broker.queue(ME, "/", "q").unwrap().ruling)["length"], 7);
    put(&mut rig, &Policy { priority: 2, applies_to: AppliesTo::Exchanges, ..policy("high", "q", length(9)) });
    assert_eq!(names(&rig).0, Some("low".into()));
    put(&mut rig, &Policy { priority: 2, unfit: vec![QueueKind::Plain], ..policy("high", "q", length(9)) });
    assert_eq!(names(&rig).0, Some("low".into()), "its kind does not know all of it");
    put(&mut rig, &Policy { applies_to: AppliesTo::QueuesOf(QueueKind::Safe), ..policy("low", "q", length(9)) });
    let other = Tenant { name: "other".into(), ..Tenant::default() };
    rig.broker.put_tenant(&other).unwrap();
    put(&mut rig, &Policy { tenant: "other".into(), ..policy("elsewhere", "q", length(9)) });
    assert_eq!(names(&rig).0, None);
    put(&mut rig, &policy("b", "q", length(9)));
    put(&mut rig, &policy("a", "q", length(9)));
    assert_eq!(names(&rig).0, Some("a".into()), "of two of one priority the first by name");
    let bad = rig.broker.put_policy(&policy("bad", "(", length(1))).unwrap_err();
    assert!(bad.to_string().starts_with("pattern should be regular expression but is invalid"), "{bad}");
    let gone = rig.broker.delete_policy(&policy("bad", "(", length(1)).key()).unwrap_err();
    assert_eq!(gone, BrokerError::Missing { kind: "policy", name: "bad".into() });
}

#[test]
fn policies_act_as_before_after_a_crash() {
    let mut rig = filled(QueueOptions::default(), 0);
    put(&mut rig, &policy("p", "^q", length(3)));
    put(&mut rig, &policy("gone", "^q", length(1)));
    let key = PolicyKey { tenant: "/".into(), name: "gone".into(), is_operator: false };
    let lsn = rig.broker.delete_policy(&key).unwrap();
    rig.settle_down();
    assert!(rig.is_synced(lsn));
    let mut rig = rig.power_cut(1);
    fill(&mut rig, 5);
    assert_eq!(rig.depth("q"), (3, 0));
    assert_eq!(names(&rig).0, Some("p".into()));
    assert_eq!(rig.broker.policies(false).map(|one| one.name.as_str()).collect::<Vec<_>>(), ["p"]);
}

#[test]
fn dead_letters_and_delivery_limits_come_and_go_with_their_policy() {
    let mut rig = filled(QueueOptions::default(), 3);
    let to = PolicyOptions {
        dead_letter_exchange: Some(String::new()),
        dead_letter_key: Some("dead".into()),
        delivery_limit: Some(1),
        ..PolicyOptions::default()
    };
    let letters = policy("p", "^q", to);
    put(&mut rig, &letters);
    let refuse = |rig: &mut Rig, how| {
        let Got::Message(delivery, _) = rig.broker.get(ME, broker::CallId(1), "/", "q", false, ONE).unwrap() else {
            panic!("it holds messages")
        };
        rig.broker.settle(ME, &[delivery.key], how);
        rig.settle_down();
    };
    refuse(&mut rig, Settle::Discard);
    assert_eq!((rig.depth("q"), rig.depth("dead")), ((2, 0), (1, 0)));
    refuse(&mut rig, Settle::Requeue);
    refuse(&mut rig, Settle::Requeue);
    assert_eq!((rig.depth("q"), rig.depth("dead")), ((1, 0), (2, 0)), "given back once too often");
    delete(&mut rig, &letters);
    refuse(&mut rig, Settle::Requeue);
    refuse(&mut rig, Settle::Discard);
    assert_eq!((rig.depth("q"), rig.depth("dead")), ((0, 0), (2, 0)));
}

#[test]
fn letters_that_nobody_takes_wait_no_longer_than_their_policy() {
    let mut rig = filled(QueueOptions { kind: QueueKind::Safe, ..QueueOptions::default() }, 1);
    let to = PolicyOptions {
        dead_letter_exchange: Some("nowhere".into()),
        dead_letter_at_least_once: Some(true),
        message_ttl_ms: Some(10),
        ..PolicyOptions::default()
    };
    let letters = policy("p", "^q", to);
    put(&mut rig, &letters);
    rig.pass(1000);
    delete(&mut rig, &letters);
    rig.pass(1000);
    let mut rig = rig.power_cut(3);
    assert_eq!(rig.depth("q"), (0, 0), "it died, and nobody wants its letter");
    fill(&mut rig, 1);
    assert_eq!(rig.depth("q"), (1, 0));
}

#[test]
fn an_exchange_gets_an_alternate_unless_it_was_declared_with_one() {
    let mut rig = Rig::new();
    for text in ["q", "r"] {
        rig.queue(text);
    }
    for text in ["x", "y", "to", "other"] {
        let lasting = broker::routing::ExchangeSpec { durable: true, ..exchange(text, ExchangeKind::Fanout) };
        rig.broker.declare_exchange(&lasting).unwrap();
    }
    let mut with = exchange("z", ExchangeKind::Direct);
    with.alternate = Some(name("other"));
    rig.broker.declare_exchange(&with).unwrap();
    rig.bind("to", "q", "");
    rig.bind("other", "r", "");
    let to = PolicyOptions { alternate: Some("to".into()), ..PolicyOptions::default() };
    put(&mut rig, &policy("p", "^(x|z|new|amq.direct)$", to));
    rig.broker.declare_exchange(&exchange("new", ExchangeKind::Direct)).unwrap();
    for (exchange, queues) in [("x", 1), ("y", 0), ("z", 1), ("new", 1), ("amq.direct", 1)] {
        assert_eq!(rig.publish(exchange, "k", "m").unwrap().queues, queues, "{exchange}");
    }
    rig.settle_down();
    assert_eq!((rig.depth("q"), rig.depth("r")), ((3, 0), (1, 0)));
    let mut rig = rig.power_cut(1);
    assert_eq!(rig.broker.exchange_ruling("/", "amq.direct").policy.unwrap().name, "p");
    for exchange in ["x", "amq.direct"] {
        assert_eq!(rig.publish(exchange, "k", "m").unwrap().queues, 1, "{exchange}");
    }
}

#[test]
fn a_queue_over_a_topic_keeps_the_topics_messages_whatever_a_policy_says() {
    let mut rig = Rig::new();
    let new = NewTopic { tenant: name("/"), name: name("t"), partitions: 1, config: Vec::new(), validate_only: false };
    let log = rig.broker.create_topic(&new, rig.now).unwrap().0.partitions[0];
    rig.declare(&QueueSpec { topic: Some(name("t")), durable: true, ..spec("q") }).unwrap();
    append(&mut rig, log, &["a", "b", "c"]);
    rig.settle_down();
    put(&mut rig, &policy("p", "^q", length(1)));
    assert_eq!((rig.depth("q"), names(&rig).0), ((3, 0), Some("p".into())));
}

#[test]
fn a_stream_forgets_by_its_policy_and_by_nothing_else_of_it() {
    let mut rig = Rig::new();
    let options = QueueOptions { kind: QueueKind::Stream, segment_bytes_max: Some(100), ..QueueOptions::default() };
    rig.declare(&QueueSpec { durable: true, options, ..spec("q") }).unwrap();
    for _ in 0..10 {
        rig.publish("", "q", &"x".repeat(60)).unwrap();
        rig.settle_down();
    }
    let by = PolicyOptions { expires_ms: Some(1), message_ttl_ms: Some(1), length_max: Some(1), ..Default::default() };
    let limits = policy("p", "", by.clone());
    put(&mut rig, &limits);
    rig.pass(301_000);
    assert_eq!(rig.depth("q"), (10, 0), "a stream has no use for these");
    put(&mut rig, &policy("p", "", PolicyOptions { bytes_max: Some(300), ..by }));
    let mut rig = rig.killed();
    rig.pass(301_000);
    let (kept, _) = rig.depth("q");
    assert!((1..10).contains(&kept), "{kept}");
    delete(&mut rig, &limits);
    for _ in 0..10 {
        rig.publish("", "q", &"x".repeat(60)).unwrap();
    }
    rig.pass(301_000);
    assert_eq!(rig.depth("q"), (kept + 10, 0));
}

#[test]
fn a_changed_policy_holds_no_turn_up_however_many_queues_it_is_held_against() {
    const EACH_TURN: usize = 32;
    let mut rig = Rig::new();
    for number in 0..150 {
        rig.queue(&format!("q{number}"));
    }
    rig.settle_down();
    let ruled = |rig: &Rig| rig.broker.queues("/").iter().filter(|queue| !queue.ruling.is_empty()).count();
    let by = |rig: &Rig, name: &str| {
        let all = rig.broker.queues("/");
        all.iter().filter(|queue| queue.ruling.policy.as_ref().is_some_and(|policy| policy.name == name)).count()
    };
    rig.broker.put_policy(&policy("one", "^(?=(q+)+\\d)", length(5))).unwrap();
    let mut before = ruled(&rig);
    assert_eq!(before, 0);
    for _ in 0..2 {
        assert!(rig.broker.deadline().is_some_and(|at| at <= rig.now.mono), "it goes on by itself");
        rig.turn();
        assert_eq!(ruled(&rig) - before, EACH_TURN);
        before = ruled(&rig);
    }
    // A change on the way begins anew, and what is made meanwhile is ruled at once.
    rig.broker.put_policy(&Policy { priority: 1, ..policy("two", "^q", length(7)) }).unwrap();
    rig.queue("q-late");
    assert_eq!(by(&rig, "two"), 1);
    for _ in 0..5 {
        let before = by(&rig, "two");
        rig.turn();
        assert!(by(&rig, "two") - before <= EACH_TURN);
    }
    rig.settle_down();
    assert_eq!((by(&rig, "two"), by(&rig, "one")), (151, 0));
    rig.turn();
    assert!(rig.broker.deadline().is_none_or(|at| at > rig.now.mono), "it is done");
}
