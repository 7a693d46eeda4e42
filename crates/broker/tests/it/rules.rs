//! What queues do besides keeping messages: lives that end, lengths that are limited, priorities, dead letters; on a
//! disk that dies.

use std::time::Duration;

use crate::rig::*;
use broker::queue::*;
use broker::{BrokerError, CallId, Event, SessionId};
use model::Wall;

const ME: SessionId = SessionId(1);

fn with(options: QueueOptions, text: &str) -> QueueSpec {
    QueueSpec { durable: true, options, ..spec(text) }
}

fn letters_to(queue: &str) -> Option<DeadLetterTo> {
    Some(DeadLetterTo { exchange: String::new(), key: Some(queue.to_owned()), at_least_once: false })
}

/// The toy format keeps the key `dead`: letters go to the queue of that name.
fn dead() -> Option<DeadLetterTo> {
    letters_to("dead")
}

/// What lies in a queue, oldest first, without the moment of a death.
fn texts(rig: &mut Rig, queue: &str) -> Vec<String> {
    let all = rig.get_all(9, queue);
    let clean = |text: String| {
        let (text, deaths) = text.split_once('|').map_or((text.as_str(), ""), |(text, deaths)| (text, deaths));
        let words = text.split(' ').filter(|word| !word.starts_with("at="));
        let text = words.collect::<Vec<_>>().join(" ");
        if deaths.is_empty() { text } else { format!("{text}|{deaths}") }
    };
    let texts = all.iter().map(|delivery| clean(look(delivery).0)).collect();
    rig.broker.session_closed(SessionId(9), rig.now);
    texts
}

/// A rig with the queue `dead` and the queue `q` with these options.
fn rig(options: QueueOptions) -> Rig {
    let mut rig = Rig::new();
    rig.queue("dead");
    rig.declare(&with(options, "q")).unwrap();
    rig.settle_down();
    rig
}

/// Publishes with the moment written on it, as a tongue's unit has it.
fn put(rig: &mut Rig, text: &str) -> u32 {
    let text = format!("{text} at={}", rig.now.wall.0);
    let published = rig.publish("", "q", &text).unwrap();
    rig.settle_down();
    published.refused
}

#[test]
fn of_a_queues_and_a_messages_time_to_live_the_smaller_counts() {
    let mut rig = rig(QueueOptions { message_ttl_ms: Some(500), ..Default::default() });
    put(&mut rig, "short ttl=200");
    rig.pass(199);
    assert_eq!(rig.depth("q"), (1, 0));
    rig.pass(1);
    assert_eq!(rig.depth("q"), (0, 0));
    put(&mut rig, "long ttl=900");
    rig.pass(499);
    assert_eq!(rig.depth("q"), (1, 0));
    rig.pass(1);
    assert_eq!(rig.depth("q"), (0, 0));
}

#[test]
fn a_message_dies_of_age_only_at_the_head_and_is_never_delivered_dead() {
    let mut rig = rig(QueueOptions { dead_letters: dead(), ..Default::default() });
    put(&mut rig, "long ttl=3000");
    put(&mut rig, "short ttl=100");
    rig.pass(600);
    assert_eq!(rig.depth("q"), (2, 0), "the short one is behind the long one");
    let consumer = rig.consume(1, "q", 9);
    rig.settle_down();
    assert_eq!(rig.seen(consumer).len(), 1);
    assert_eq!(texts(&mut rig, "dead"), ["short|q:expired"]);
}

#[test]
fn many_lives_that_end_at_once_take_several_turns() {
    let mut rig = rig(QueueOptions { message_ttl_ms: Some(1000), ..Default::default() });
    for _ in 0..20_000 {
        rig.publish("", "q", &format!("a at={}", rig.now.wall.0)).unwrap();
    }
    rig.settle_down();
    (rig.now.mono, rig.now.wall) = (rig.now.mono.plus(Duration::from_millis(1000)), Wall(rig.now.wall.0 + 1000));
    rig.broker.tick(rig.now);
    rig.turn();
    let (left, _) = rig.depth("q");
    assert!((1..20_000).contains(&left), "{left}");
    assert_eq!(rig.broker.deadline(), Some(rig.now.mono), "the next turn is asked for");
    rig.pass(0);
    assert_eq!(rig.depth("q"), (0, 0));
}

#[test]
fn lives_end_on_time_after_a_restart() {
    for mixed in [false, true] {
        let message_ttl_ms = (!mixed).then_some(1000);
        let mut rig = rig(QueueOptions { message_ttl_ms, dead_letters: dead(), ..Default::default() });
        put(&mut rig, if mixed { "a ttl=1000" } else { "a" });
        rig.pass(400);
        let now = rig.now;
        let mut rig = rig.killed();
        let behind = now.wall.0 - rig.now.wall.0;
        rig.pass(behind as u64 + 599);
        assert_eq!((rig.depth("q"), rig.depth("dead")), ((1, 0), (0, 0)));
        rig.pass(1);
        assert_eq!((rig.depth("q"), rig.depth("dead")), ((0, 0), (1, 0)));
    }
}

#[test]
fn what_has_no_time_to_live_reaches_a_consumer_that_waits_and_nobody_else() {
    let mut rig = rig(QueueOptions { message_ttl_ms: Some(0), ..Default::default() });
    put(&mut rig, "nobody");
    assert_eq!(rig.depth("q"), (0, 0));
    let consumer = rig.consume(1, "q", 1);
    put(&mut rig, "somebody");
    put(&mut rig, "no credit");
    assert_eq!(rig.seen(consumer).len(), 1);
    assert_eq!(rig.depth("q"), (0, 1));
}

#[test]
fn a_queue_that_nobody_uses_goes_and_use_keeps_it() {
    let mut rig = rig(QueueOptions { expires_ms: Some(1000), ..Default::default() });
    rig.pass(900);
    rig.declare(&with(QueueOptions::default(), "q")).unwrap();
    rig.pass(900);
    assert!(texts(&mut rig, "q").is_empty(), "a get is use");
    rig.pass(900);
    let consumer = rig.consume(1, "q", 1);
    rig.pass(5000);
    rig.broker.cancel(consumer);
    rig.settle_down();
    rig.pass(999);
    assert!(rig.broker.queue(ME, "/", "q").is_ok());
    let mut rig = rig.killed();
    rig.pass(999);
    assert!(rig.broker.queue(ME, "/", "q").is_ok(), "a restart is use");
    rig.pass(1);
    assert!(matches!(rig.broker.queue(ME, "/", "q"), Err(BrokerError::Missing { .. })));
    assert!(rig.killed().broker.queue(ME, "/", "q").is_err());
}

#[test]
fn a_rejected_message_is_in_its_queue_or_in_the_dead_letters_and_never_in_both() {
    for seed in 0..40 {
        let mut rig = rig(QueueOptions { dead_letters: dead(), ..Default::default() });
        for text in ["a", "b", "c"] {
            put(&mut rig, text);
        }
        let consumer = rig.consume(1, "q", 3);
        rig.settle_down();
        let got = keys(&rig.deliveries(consumer));
        rig.broker.settle(ME, &got[..2], Settle::Discard);
        assert_eq!(rig.depth("q"), (0, 1), "what dies is gone at once");
        if seed > 0 {
            rig.turn();
        }
        let mut rig = if seed < 2 { rig.killed() } else { rig.power_cut(seed) };
        let mut all = texts(&mut rig, "q");
        all.extend(texts(&mut rig, "dead"));
        all.iter_mut().for_each(|text| text.truncate(1));
        all.sort();
        assert_eq!(all, ["a", "b", "c"], "seed {seed}");
    }
}

#[test]
fn a_full_queue_drops_its_oldest_messages_to_the_dead_letters() {
    let mut rig = rig(QueueOptions { length_max: Some(2), dead_letters: dead(), ..Default::default() });
    for text in ["a", "b", "c", "d"] {
        put(&mut rig, text);
    }
    assert_eq!(texts(&mut rig, "dead"), ["a|q:maxlen", "b|q:maxlen"]);
    let mut rig = rig.killed();
    assert_eq!(texts(&mut rig, "q"), ["c", "d"]);
}

#[test]
fn only_waiting_messages_count_for_the_length_and_many_are_dropped_at_once() {
    let mut rig = rig(QueueOptions { length_max: Some(2), ..Default::default() });
    let consumer = rig.consume(1, "q", 3);
    for number in 0..9 {
        rig.publish("", "q", &number.to_string()).unwrap();
    }
    rig.settle_down();
    assert_eq!((rig.seen(consumer).len(), rig.depth("q")), (3, (2, 3)));
    rig.broker.session_closed(ME, rig.now);
    rig.settle_down();
    assert_eq!(rig.depth("q"), (2, 0), "what comes back counts, too");
    assert_eq!(texts(&mut rig, "q"), ["7", "8"]);
}

#[test]
fn a_get_in_the_turn_of_a_requeue_never_answers_what_is_too_much() {
    // The second time more than die at once.
    for count in [2, 600] {
        let mut rig = rig(QueueOptions { length_max: Some(2), dead_letters: dead(), ..Default::default() });
        let mut held = Vec::new();
        for _ in 0..count {
            put(&mut rig, "old");
            held.extend(rig.get_all(1, "q"));
        }
        put(&mut rig, "c");
        put(&mut rig, "d");
        rig.broker.settle(ME, &keys(&held), Settle::Requeue);
        assert_eq!(texts(&mut rig, "q"), ["c", "d"], "{count} given back");
        rig.settle_down();
        assert_eq!(rig.depth("dead"), (count, 0));
    }
}

#[test]
fn bytes_are_counted_through_settling_and_restarts() {
    let mut rig = rig(QueueOptions { bytes_max: Some(30), ..Default::default() });
    for _ in 0..5 {
        rig.publish("", "q", "0123456789").unwrap();
    }
    rig.settle_down();
    assert_eq!(rig.depth("q"), (3, 0));
    let mut rig = rig.killed();
    rig.publish("", "q", "012345678901234").unwrap();
    rig.settle_down();
    assert_eq!(rig.depth("q"), (2, 0), "25 of 30 bytes");
    let mut rig = rig.killed();
    let consumer = rig.consume(1, "q", 1);
    rig.settle_down();
    let got = keys(&rig.deliveries(consumer));
    rig.broker.settle(ME, &got, Settle::Ack);
    rig.publish("", "q", "012345678901234").unwrap();
    rig.settle_down();
    assert_eq!(rig.depth("q"), (2, 0), "30 of 30 bytes");
}

#[test]
fn a_full_queue_refuses_if_it_is_told_to_while_others_take_the_message() {
    for (overflow, letters) in [(Overflow::Reject, 0), (Overflow::RejectToDeadLetters, 1)] {
        let options =
            QueueOptions { length_max: Some(1), overflow: Some(overflow), dead_letters: dead(), ..Default::default() };
        let mut rig = rig(options);
        assert_eq!((put(&mut rig, "a"), put(&mut rig, "b")), (0, 1));
        assert_eq!((rig.depth("q"), rig.depth("dead")), ((1, 0), (letters, 0)));
        rig.queue("other");
        rig.bind("amq.fanout", "q", "");
        rig.bind("amq.fanout", "other", "");
        let published = rig.publish("amq.fanout", "", "c").unwrap();
        assert_eq!((published.queues, published.refused), (2, 1));
        rig.settle_down();
        assert_eq!(rig.depth("other"), (1, 0));
        let consumer = rig.consume(1, "q", 9);
        rig.settle_down();
        assert_eq!(rig.seen(consumer).len(), 1);
        assert_eq!(put(&mut rig, "d"), 0, "a consumer takes it at once");
        assert_eq!(rig.seen(consumer).len(), 1);
    }
}

#[test]
fn higher_priorities_go_first_and_keep_their_place_through_requeue_and_restart() {
    let mut rig = rig(QueueOptions { priority_max: Some(5), ..Default::default() });
    for text in ["n", "a level=9", "b level=3", "c level=5", "d level=1", "e level=0"] {
        put(&mut rig, text);
    }
    let mut rig = rig.killed();
    let consumer = rig.consume(1, "q", 2);
    rig.settle_down();
    let got = rig.deliveries(consumer);
    assert!(look(&got[0]).0.starts_with('a') && look(&got[1]).0.starts_with('c'));
    rig.broker.settle(ME, &keys(&got), Settle::Requeue);
    rig.broker.cancel(consumer);
    rig.settle_down();
    let first = |text: &String| text.chars().next().unwrap();
    assert_eq!(texts(&mut rig, "q").iter().map(first).collect::<String>(), "acbdne");
    rig.broker.purge(ME, "/", "q").unwrap();
    assert_eq!(rig.depth("q"), (0, 0));
    rig.broker.delete_queue(ME, "/", "q", false, false).unwrap();
}

#[test]
fn a_message_given_back_too_often_dies() {
    let mut rig = rig(QueueOptions { delivery_limit: Some(2), dead_letters: dead(), ..Default::default() });
    put(&mut rig, "poison");
    for attempts in 0..3 {
        let got = rig.get_all(1, "q");
        assert_eq!(got[0].attempts, attempts);
        if attempts == 1 {
            rig.broker.session_closed(ME, rig.now); // a lost session counts as well
        } else {
            rig.broker.settle(ME, &keys(&got), Settle::Requeue);
        }
        rig.settle_down();
    }
    assert_eq!(rig.depth("q"), (0, 0));
    assert_eq!(texts(&mut rig, "dead"), ["poison|q:delivery_limit"]);
}

#[test]
fn a_restart_ends_transient_messages_of_a_lasting_queue_and_counts_them_out() {
    let mut rig = rig(QueueOptions::default());
    for text in ["a", "transient b", "c", "transient d", "transient e"] {
        put(&mut rig, text);
    }
    let got = rig.get_all(1, "q");
    rig.broker.settle(ME, &[got[1].key], Settle::Ack);
    rig.settle_down();
    let mut rig = rig.killed();
    assert_eq!(rig.depth("q"), (2, 0));
    put(&mut rig, "transient f");
    assert_eq!(texts(&mut rig, "q"), ["a", "c", "transient f"]);
    let mut rig = rig.killed();
    assert_eq!((rig.depth("q"), texts(&mut rig, "q")), ((2, 0), vec!["a".to_owned(), "c".to_owned()]));
    let mut rig = self::rig(QueueOptions { kind: QueueKind::Safe, ..Default::default() });
    put(&mut rig, "transient");
    assert_eq!(rig.killed().depth("q"), (1, 0), "here every message survives");
}

#[test]
fn a_message_that_died_of_age_does_not_go_round_for_ever_and_a_rejection_breaks_the_cycle() {
    let mut rig = Rig::new();
    let to_itself = DeadLetterTo { exchange: String::new(), key: None, at_least_once: false };
    let options = QueueOptions { message_ttl_ms: Some(10), dead_letters: Some(to_itself), ..Default::default() };
    rig.declare(&with(options, "dead")).unwrap();
    rig.publish("", "dead", "a").unwrap();
    rig.settle_down();
    rig.pass(100);
    assert_eq!(rig.depth("dead"), (0, 0));
    let to_delay = DeadLetterTo { exchange: "amq.direct".into(), key: None, at_least_once: false };
    let mut rig = self::rig(QueueOptions { dead_letters: Some(to_delay), ..Default::default() });
    rig.broker.delete_queue(ME, "/", "dead", false, false).unwrap();
    let back = DeadLetterTo { exchange: "amq.fanout".into(), key: None, at_least_once: false };
    let options = QueueOptions { message_ttl_ms: Some(10), dead_letters: Some(back), ..Default::default() };
    rig.declare(&with(options, "delay")).unwrap();
    rig.bind("amq.direct", "delay", "dead");
    rig.bind("amq.fanout", "q", "");
    put(&mut rig, "work");
    for _ in 0..3 {
        let got = rig.get_all(1, "q");
        assert_eq!(got.len(), 1);
        rig.broker.settle(ME, &keys(&got), Settle::Discard);
        rig.settle_down();
        rig.pass(20);
    }
    assert_eq!(rig.depth("q"), (1, 0));
}

#[test]
fn dead_letters_wait_while_the_disk_is_full_and_acks_go_on() {
    let mut rig = rig(QueueOptions { dead_letters: dead(), ..Default::default() });
    for text in ["a", "b"] {
        put(&mut rig, text);
    }
    let got = keys(&rig.get_all(1, "q"));
    rig.disk.set_capacity(0);
    let filler = "x".repeat(200);
    while rig.publish("", "dead", &filler).is_ok() {
        rig.pass(1000);
    }
    let before = rig.depth("dead").0;
    rig.broker.settle(ME, &got[..1], Settle::Discard);
    rig.broker.settle(ME, &got[1..], Settle::Ack);
    rig.settle_down();
    rig.pass(2000);
    assert_eq!((rig.depth("q"), rig.depth("dead").0), ((0, 0), before));
    rig.disk.set_capacity(1 << 40);
    rig.pass(30_000);
    assert_eq!(rig.depth("dead").0, before + 1);
}

#[test]
fn a_get_behind_letters_that_cannot_be_written_waits_without_being_asked_again() {
    let mut rig = rig(QueueOptions { message_ttl_ms: Some(60_000), dead_letters: dead(), ..Default::default() });
    let moment = rig.now.wall.0;
    for _ in 0..600 {
        rig.publish("", "q", &format!("a at={moment}")).unwrap();
    }
    rig.settle_down();
    rig.disk.set_capacity(0);
    while rig.publish("", "dead", &"x".repeat(200)).is_ok() {
        rig.pass(10);
        assert!(rig.now.wall.0 < moment + 60_000);
    }
    rig.pass(60_000);
    let waits = rig.broker.get(ME, CallId(3), "/", "q", true, ONE).unwrap();
    assert!(matches!(waits, Got::Pending), "more die than letters can be kept: {waits:?}");
    rig.inbox.clear();
    for _ in 0..20 {
        rig.turn();
        rig.pass(1000);
    }
    assert!(rig.inbox.is_empty(), "nothing has changed: {:?}", rig.inbox);
    rig.disk.set_capacity(1 << 40);
    rig.pass(30_000);
    assert!(rig.inbox.iter().any(|(_, event)| matches!(event, Event::GetReady(CallId(3)))));
    assert!(matches!(rig.broker.get(ME, CallId(4), "/", "q", true, ONE).unwrap(), Got::Empty));
    assert_eq!(rig.depth("q"), (0, 0));
}

#[test]
fn who_keeps_a_message_for_too_long_is_told() {
    let mut rig = rig(QueueOptions { settle_ms_max: Some(1000), ..Default::default() });
    put(&mut rig, "a");
    let got = keys(&rig.get_all(1, "q"));
    rig.pass(900);
    assert!(rig.inbox.is_empty());
    rig.pass(1100);
    let late = |event: &(SessionId, Event)| matches!(event, (ME, Event::SettleLate(key, 1000)) if *key == got[0]);
    assert!(rig.inbox.iter().any(late));
}

#[test]
fn many_deaths_at_once_are_written_in_pieces_and_none_is_lost() {
    let mut rig = rig(QueueOptions { message_ttl_ms: Some(10), dead_letters: dead(), ..Default::default() });
    for number in 0..3000 {
        rig.publish("", "q", &format!("{number} at={}", rig.now.wall.0)).unwrap();
    }
    rig.settle_down();
    rig.pass(10);
    rig.pass(10);
    assert_eq!((rig.depth("q"), rig.depth("dead")), ((0, 0), (3000, 0)));
    let texts = texts(&mut rig, "dead");
    assert!((0..3000).all(|number| texts[number] == format!("{number}|q:expired")));
}

#[test]
fn dead_letters_keep_the_order_of_deaths_however_slow_the_disk_and_large_the_messages() {
    let mut rig = rig(QueueOptions { dead_letters: dead(), ..Default::default() });
    rig.disk.set_cache_misses(3);
    let count = 2_000;
    for number in 0..count {
        // Some are so large that a batch of letters has no room for them, and for small ones behind them.
        let filler = if number % 97 == 0 { "x".repeat(180) } else { String::new() };
        rig.publish("", "q", &format!("{number:05} {filler}")).unwrap();
    }
    rig.settle_down();
    let mut rig = rig.killed();
    rig.disk.set_cache_misses(3);
    let keys: Vec<_> = rig.get_all(1, "q").iter().map(|delivery| delivery.key).collect();
    assert_eq!(keys.len(), count);
    rig.broker.settle(SessionId(1), &keys, Settle::Discard);
    rig.settle_down();
    let numbers: Vec<usize> =
        texts(&mut rig, "dead").iter().map(|text| text.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
}
