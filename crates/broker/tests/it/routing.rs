//! Exchanges, bindings, publishing and queues over topics, through the broker's own calls.

use crate::rig::*;
use broker::queue::*;
use broker::routing::*;
use broker::topic::{ConfigChange, NewTopic};
use broker::{BrokerError, Lsn, SessionId, SyncPolicy};
use model::{LogId, Offset, Wall};

const ME: SessionId = SessionId(1);

fn topic(rig: &mut Rig, text: &str, partitions: i64) -> Vec<LogId> {
    let new = NewTopic { tenant: name("/"), name: name(text), partitions, config: Vec::new(), validate_only: false };
    rig.broker.create_topic(&new, rig.now).unwrap().0.partitions
}

fn over(topic: &str, text: &str) -> QueueSpec {
    QueueSpec { topic: Some(name(topic)), durable: true, ..spec(text) }
}

#[test]
fn direct_routes_by_key_and_fanout_to_all_each_queue_once() {
    let mut rig = Rig::new();
    rig.broker.declare_exchange(&exchange("d", ExchangeKind::Direct)).unwrap();
    rig.broker.declare_exchange(&exchange("f", ExchangeKind::Fanout)).unwrap();
    for queue in ["q1", "q2"] {
        rig.queue(queue);
        rig.bind("f", queue, "");
        rig.bind("f", queue, "other");
    }
    rig.bind("d", "q1", "k");
    assert_eq!(rig.publish("d", "k", "a").unwrap().queues, 1);
    let none = Published::unstored(0, 0);
    assert_eq!(rig.publish("d", "nobody", "b").unwrap(), none);
    assert_eq!(rig.publish("f", "whatever", "c").unwrap().queues, 2);
    assert_eq!(rig.publish("", "q2", "e").unwrap().queues, 1);
    assert_eq!(rig.publish("", "nosuch", "x").unwrap().queues, 0);
    assert!(matches!(rig.publish("nosuch", "k", "x"), Err(BrokerError::Missing { kind: "exchange", .. })));
    rig.settle_down();
    assert_eq!(rig.seen_all(1, "q1"), ["a", "c"].map(first));
    assert_eq!(rig.seen_all(1, "q2"), ["c", "e"].map(first));
}

#[test]
fn built_in_exchanges_are_there_and_their_bindings_last() {
    let mut rig = Rig::new();
    rig.queue("q");
    assert_eq!(rig.broker.exchange("/", "amq.fanout").unwrap().kind, ExchangeKind::Fanout);
    assert_eq!(rig.publish("amq.direct", "k", "unheard").unwrap().queues, 0);
    rig.bind("amq.direct", "q", "k");
    rig.broker.declare_exchange(&ExchangeSpec { durable: true, ..exchange("x", ExchangeKind::Fanout) }).unwrap();
    rig.bind("x", "q", "");
    rig.settle_down();
    let mut rig = rig.killed();
    assert_eq!(rig.publish("amq.direct", "k", "a").unwrap().queues, 1);
    assert_eq!(rig.publish("x", "", "b").unwrap().queues, 1);
    rig.broker.unbind(ME, &binding("amq.direct", "q", "k")).unwrap();
    rig.broker.unbind(ME, &binding("amq.direct", "q", "k")).unwrap();
    assert_eq!(rig.publish("amq.direct", "k", "c").unwrap().queues, 0);
    rig.broker.delete_queue(ME, "/", "q", false, false).unwrap();
    rig.settle_down();
    let mut rig = rig.killed();
    assert_eq!(rig.publish("x", "", "d").unwrap().queues, 0);
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    for by_queue in [false, true] {
        let mut rig = Rig::new();
        rig.queue("q");
        let spec = ExchangeSpec { auto_delete: true, durable: true, ..exchange("x", ExchangeKind::Direct) };
        rig.broker.declare_exchange(&spec).unwrap();
        rig.bind("x", "q", "1");
        rig.bind("x", "q", "2");
        let in_use = rig.broker.delete_exchange("/", "x", true);
        assert!(matches!(in_use, Err(BrokerError::InUse { why: "in use", .. })));
        rig.broker.unbind(ME, &binding("x", "q", "1")).unwrap();
        assert!(rig.broker.exchange("/", "x").is_some());
        if by_queue {
            rig.broker.delete_queue(ME, "/", "q", false, false).unwrap();
        } else {
            rig.broker.unbind(ME, &binding("x", "q", "2")).unwrap();
        }
        assert!(rig.broker.exchange("/", "x").is_none());
        rig.settle_down();
        assert!(rig.killed().broker.exchange("/", "x").is_none());
    }
}

#[test]
fn a_fanout_is_in_all_queues_or_in_none_after_a_power_cut() {
    for seed in 0..60 {
        let mut rig = Rig::new();
        rig.broker.declare_exchange(&ExchangeSpec { durable: true, ..exchange("f", ExchangeKind::Fanout) }).unwrap();
        let queues = ["q1", "q2", "q3"];
        for queue in queues {
            rig.queue(queue);
            rig.bind("f", queue, "");
        }
        let confirmed = rig.publish("f", "", "safe").unwrap().lsn;
        rig.settle_down();
        assert!(rig.is_synced(confirmed));
        for n in 0..5 {
            rig.publish_with("f", "", &format!("unsafe {n}"), SyncPolicy::None).unwrap();
            rig.turn();
        }
        let mut rig = rig.power_cut(seed);
        let [one, two, three] = queues.map(|queue| rig.seen_all(1, queue));
        assert!(one == two && two == three, "seed {seed}");
        assert_eq!(one.first(), Some(&first("safe")));
    }
}

#[test]
fn a_full_disk_refuses_the_publish_whole_and_heals() {
    let mut rig = Rig::new();
    rig.queue("q1");
    rig.queue("q2");
    rig.bind("amq.fanout", "q1", "");
    rig.bind("amq.fanout", "q2", "");
    rig.settle_down();
    rig.disk.set_capacity(0);
    let body = "x".repeat(200);
    let mut stored = 0;
    let refused = loop {
        match rig.publish("amq.fanout", "", &body) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        if stored % 50 == 0 {
            rig.settle_down();
        }
        assert!(stored < 100_000, "the disk never got full");
    };
    assert!(matches!(refused, BrokerError::Storage(storage::StorageError::Full { .. })), "{refused}");
    rig.settle_down();
    assert_eq!((rig.depth("q1"), rig.depth("q2")), ((stored, 0), (stored, 0)));
    // Acks and reads go on.
    let got = rig.get_all(1, "q1");
    rig.broker.settle(ME, &keys(&got), Settle::Ack);
    rig.settle_down();
    assert_eq!(rig.depth("q1"), (0, 0));
    rig.disk.set_capacity(1 << 40);
    rig.settle_down();
    assert_eq!(rig.publish("amq.fanout", "", "healed").unwrap().queues, 2);
    rig.settle_down();
    assert_eq!((rig.depth("q1").0, rig.depth("q2").0), (1, stored + 1));
}

#[test]
fn two_consumers_share_a_topic_without_a_copy_and_the_topic_keeps_it_all() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, "orders", 4);
    append(&mut rig, logs[0], &["early"]);
    rig.settle_down();
    rig.declare(&over("orders", "work")).unwrap();
    assert_eq!(rig.depth("work"), (1, 0), "it begins at the topic's earliest message");
    for (at, log) in logs.iter().enumerate() {
        append(&mut rig, *log, &[&format!("{at}a"), &format!("{at}b")]);
    }
    rig.settle_down();
    let (one, two) = (rig.consume(1, "work", 100), rig.consume(2, "work", 100));
    rig.settle_down();
    let (of_one, of_two) = (rig.deliveries(one), rig.deliveries(two));
    assert!(of_one.len() >= 4 && of_two.len() >= 4);
    let mut texts: Vec<_> = of_one.iter().chain(&of_two).map(|delivery| look(delivery).0).collect();
    texts.sort();
    assert_eq!(texts, ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b", "early"]);
    rig.broker.settle(ME, &keys(&of_one), Settle::Ack);
    rig.settle_down();
    for log in &logs {
        assert_eq!(rig.broker.bounds(*log).unwrap().start.0, 0, "an ack trims no topic");
    }
    let mut rig = rig.killed();
    let mut left = rig.seen_all(1, "work");
    left.sort();
    let mut expected: Vec<_> = of_two.iter().map(|delivery| again(&look(delivery).0)).collect();
    expected.sort();
    assert_eq!(left, expected);
}

#[test]
fn a_batch_of_another_tongue_is_handed_on_message_by_message() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, "t", 1);
    append(&mut rig, logs[0], &["a", "gap", "b", "c", "gap"]);
    append(&mut rig, logs[0], &["d"]);
    rig.declare(&over("t", "q")).unwrap();
    let consumer = rig.consume(1, "q", 3);
    rig.settle_down();
    let got = rig.deliveries(consumer);
    let seen: Vec<_> = got.iter().map(|one| (one.key.offset.0, look(one).0)).collect();
    assert_eq!(seen, [(0, "a".to_owned()), (2, "b".to_owned()), (3, "c".to_owned())]);
    rig.broker.settle(ME, &keys(&got[..1]), Settle::Requeue);
    rig.broker.credit(consumer, 9);
    rig.settle_down();
    assert_eq!(rig.seen(consumer), [again("a"), first("d")], "an opened batch is opened again for what came back");
    assert_eq!(rig.depth("q"), (0, 4));
}

#[test]
fn publishing_to_a_shared_topic_keeps_a_key_in_one_partition() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, "orders", 10);
    rig.declare(&over("orders", "work")).unwrap();
    rig.declare(&over("orders", "audit")).unwrap();
    for key in ["order-1", "order-2", "abc"] {
        rig.bind("amq.direct", "work", key);
    }
    rig.bind("amq.fanout", "work", "");
    rig.bind("amq.fanout", "audit", "");
    for key in ["order-1", "order-2", "abc", "order-1"] {
        assert_eq!(rig.publish("amq.direct", key, key).unwrap().queues, 1);
    }
    let twice = rig.publish("amq.fanout", "abc", "both").unwrap();
    assert_eq!(twice.queues, 2, "both queues have it");
    rig.settle_down();
    let ends: Vec<_> = logs.iter().map(|log| rig.broker.bounds(*log).unwrap().end.0).collect();
    assert_eq!(ends, [0, 0, 0, 1, 0, 0, 2, 2, 0, 0], "but the topic has it once");
    assert_eq!((rig.depth("work").0, rig.depth("audit").0), (5, 5));
    for n in 0..10 {
        rig.publish("", "work", &format!("{n}")).unwrap();
    }
    rig.settle_down();
    let ends: Vec<_> = logs.iter().map(|log| rig.broker.bounds(*log).unwrap().end.0).collect();
    assert_eq!(ends, [1, 1, 1, 2, 1, 1, 3, 3, 1, 1], "without a key partitions take turns");
}

#[test]
fn purging_a_shared_topic_moves_only_the_queue() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, "t", 2);
    for log in &logs {
        append(&mut rig, *log, &["a", "b"]);
    }
    rig.declare(&over("t", "q")).unwrap();
    rig.declare(&over("t", "other")).unwrap();
    rig.settle_down();
    assert_eq!(rig.broker.purge(ME, "/", "q").unwrap().0, 4);
    rig.settle_down();
    let rig = rig.killed();
    assert_eq!((rig.depth("q"), rig.depth("other")), ((0, 0), (4, 0)));
}

#[test]
fn a_queue_over_a_trimmed_topic_passes_over_what_is_gone_even_if_it_was_read_ahead() {
    let mut rig = Rig::new();
    let log = topic(&mut rig, "t", 1)[0];
    append(&mut rig, log, &["a", "b", "c", "d", "e"]);
    rig.declare(&over("t", "q")).unwrap();
    let consumer = rig.consume(1, "q", 1);
    rig.settle_down();
    let held = rig.deliveries(consumer);
    assert_eq!(held.iter().map(look).collect::<Vec<_>>(), [first("a")]);
    let beyond = rig.broker.trim(log, Some(Offset(6)), rig.now);
    assert!(matches!(beyond, Err(BrokerError::OutOfRange { .. })));
    assert_eq!(rig.broker.trim(log, Some(Offset(3)), rig.now).unwrap().0, Offset(3));
    assert_eq!(rig.depth("q"), (2, 1), "what is in flight stays its consumer's");
    assert_eq!(rig.broker.trim(log, Some(Offset(1)), rig.now).unwrap().0, Offset(3), "never back");
    rig.broker.credit(consumer, 1);
    rig.settle_down();
    assert_eq!(rig.seen(consumer), [first("d")]);
    rig.broker.settle(ME, &keys(&held), Settle::Requeue);
    rig.settle_down();
    let mut rig = rig.killed();
    assert_eq!(rig.seen_all(2, "q"), [again("d"), first("e")], "what was trimmed does not come back");
    assert_eq!(rig.broker.trim(log, None, rig.now).unwrap().0, Offset(5));
    rig.settle_down();
    assert_eq!(rig.power_cut(3).broker.bounds(log).unwrap().start, Offset(5));
}

#[test]
fn retention_wins_over_a_queue_and_what_it_passed_over_is_counted() {
    let mut rig = Rig::new();
    let log = topic(&mut rig, "t", 1)[0];
    append(&mut rig, log, &["a", "b", "c"]);
    rig.declare(&over("t", "q")).unwrap();
    rig.settle_down();
    assert_eq!((rig.depth("q"), rig.broker.passed_over()), ((3, 0), 0));
    let weeks = std::time::Duration::from_secs(14 * 86_400);
    rig.now.mono = rig.now.mono.plus(weeks);
    rig.now.wall.0 += weeks.as_millis() as i64;
    rig.broker.tick(rig.now);
    rig.settle_down();
    assert_eq!((rig.depth("q"), rig.broker.passed_over()), ((0, 0), 3));
    append(&mut rig, log, &["d"]);
    rig.settle_down();
    assert_eq!(rig.seen_all(2, "q"), [first("d")]);
}

#[test]
fn a_topic_that_lets_go_of_what_is_consumed_waits_for_the_queues_over_it() {
    let mut rig = Rig::new();
    let log = topic(&mut rig, "t", 1)[0];
    let set = |value: &str| ConfigChange::Set(value.to_owned());
    let changes = [("retention.consumed".to_owned(), set("true")), ("retention.ms".to_owned(), set("-1"))];
    rig.broker.alter_topic(("/", "t"), &changes, false, rig.now).unwrap();
    rig.declare(&over("t", "q")).unwrap();
    append(&mut rig, log, &["a", "b", "c"]);
    rig.settle_down();
    let sweep = |rig: &mut Rig| {
        rig.now.mono = rig.now.mono.plus(std::time::Duration::from_secs(3600));
        rig.broker.tick(rig.now);
        rig.settle_down();
        rig.broker.bounds(log).unwrap().start
    };
    let held = rig.get_all(1, "q");
    assert_eq!(sweep(&mut rig), Offset(0), "they are handed out, and not settled");
    rig.broker.settle(ME, &keys(&held), Settle::Ack);
    rig.settle_down();
    assert_eq!(sweep(&mut rig), Offset(3));
    assert_eq!(rig.broker.passed_over(), 0);
}

#[test]
fn a_queue_over_a_topic_that_grows_runs_over_the_new_partitions_too() {
    let mut rig = Rig::new();
    topic(&mut rig, "t", 1);
    rig.declare(&over("t", "q")).unwrap();
    rig.settle_down();
    let refused = rig.broker.grow_topic(("/", "t"), 1, false, rig.now);
    assert!(matches!(refused, Err(BrokerError::InvalidGrowth { has: 1, asked: 1, .. })));
    rig.broker.grow_topic(("/", "t"), 3, false, rig.now).unwrap();
    let logs = rig.broker.topic("/", "t").unwrap().partitions.clone();
    assert_eq!(logs.len(), 3);
    append(&mut rig, logs[2], &["new"]);
    rig.settle_down();
    assert_eq!(rig.depth("q"), (1, 0));
    let held = rig.get_all(1, "q");
    assert_eq!(held.iter().map(look).collect::<Vec<_>>(), [first("new")]);
    rig.broker.settle(ME, &keys(&held), Settle::Ack);
    append(&mut rig, logs[1], &["later"]);
    rig.settle_down();
    let mut rig = rig.killed();
    assert_eq!(rig.seen_all(1, "q"), [first("later")], "what was acknowledged of a new partition stays so");
    assert_eq!(rig.publish("", "q", "x").unwrap().queues, 1);
}

#[test]
fn names_are_shared_with_topics_and_a_queue_goes_with_its_topic() {
    let mut rig = Rig::new();
    topic(&mut rig, "t", 1);
    assert!(matches!(rig.declare(&spec("t")), Err(BrokerError::Exists { kind: "topic", .. })));
    assert!(matches!(rig.declare(&over("nosuch", "q")), Err(BrokerError::Missing { kind: "topic", .. })));
    rig.declare(&over("t", "q")).unwrap();
    let consumer = rig.consume(1, "q", 1);
    rig.broker.delete_topic("/", "t", rig.now).unwrap();
    rig.settle_down();
    assert!(rig.broker.queue(ME, "/", "q").is_err());
    let told = |event: &broker::Event| matches!(event, broker::Event::ConsumerCancelled(who) if *who == consumer);
    assert!(rig.inbox.iter().any(|(_, event)| told(event)));
    assert!(rig.killed().broker.queues("/").is_empty());
}

#[test]
fn whoever_finds_a_queue_or_exchange_waits_for_the_sync_of_whoever_made_it() {
    let mut rig = Rig::new();
    let durable = QueueSpec { durable: true, ..spec("q") };
    let made = rig.declare(&durable).unwrap();
    assert!(made.created && made.lsn > Lsn(0));
    let found = rig.declare(&durable).unwrap();
    assert!(!found.created && found.lsn >= made.lsn, "the second answer may not leave before the queue is on disk");
    let x = ExchangeSpec { durable: true, ..exchange("x", ExchangeKind::Fanout) };
    let made = rig.broker.declare_exchange(&x).unwrap().1;
    assert!(rig.broker.declare_exchange(&x).unwrap().1 >= made);
    let bound = rig.broker.bind(ME, &binding("x", "q", "")).unwrap();
    assert!(rig.broker.bind(ME, &binding("x", "q", "")).unwrap() >= bound);
}

fn between(from: &str, to: &str, key: &str) -> BindingSpec {
    BindingSpec { destination: Destination::Exchange(name(to)), ..binding(from, "", key) }
}

#[test]
fn a_message_passes_exchanges_in_a_circle_once_and_reaches_each_queue_once() {
    let mut rig = Rig::new();
    for (text, kind) in [("a", ExchangeKind::Fanout), ("b", ExchangeKind::Topic), ("c", ExchangeKind::Direct)] {
        rig.broker.declare_exchange(&ExchangeSpec { durable: true, ..exchange(text, kind) }).unwrap();
    }
    rig.queue("q1");
    rig.queue("q2");
    for (from, to, key) in [("a", "b", ""), ("b", "c", "k.#"), ("c", "a", "k.1"), ("a", "a", "")] {
        rig.broker.bind(ME, &between(from, to, key)).unwrap();
        rig.broker.bind(ME, &between(from, to, key)).unwrap();
    }
    for (from, to, key) in [("a", "q1", ""), ("b", "q1", "#"), ("c", "q1", "k.1"), ("c", "q2", "k.1")] {
        rig.bind(from, to, key);
    }
    assert_eq!(rig.broker.bindings("/").len(), 8);
    rig.settle_down();
    let mut rig = rig.killed();
    for from in ["a", "b", "c"] {
        assert_eq!(rig.publish(from, "k.1", from).unwrap().queues, 2, "from {from}");
    }
    assert_eq!(rig.publish("a", "k.2", "only q1").unwrap().queues, 1);
    assert!(matches!(rig.broker.bind(ME, &between("a", "no", "")), Err(BrokerError::Missing { kind: "exchange", .. })));
    rig.broker.unbind(ME, &between("b", "c", "k.#")).unwrap();
    rig.broker.unbind(ME, &between("b", "no", "k.#")).unwrap();
    assert_eq!(rig.publish("a", "k.1", "only q1").unwrap().queues, 1);
    rig.settle_down();
    assert_eq!(rig.seen_all(1, "q2"), ["a", "b", "c"].map(first));
}

#[test]
fn auto_delete_exchanges_go_one_after_the_other() {
    let mut rig = Rig::new();
    let auto = |text| ExchangeSpec { auto_delete: true, durable: true, ..exchange(text, ExchangeKind::Fanout) };
    for text in ["a", "b", "c"] {
        rig.broker.declare_exchange(&auto(text)).unwrap();
    }
    rig.queue("q");
    rig.broker.bind(ME, &between("a", "b", "")).unwrap();
    rig.broker.bind(ME, &between("b", "c", "")).unwrap();
    rig.bind("c", "q", "");
    assert_eq!(rig.publish("a", "", "x").unwrap().queues, 1);
    rig.broker.delete_queue(ME, "/", "q", false, false).unwrap();
    for text in ["a", "b", "c"] {
        assert!(rig.broker.exchange("/", text).is_none(), "{text} went with what it led to");
    }
    rig.settle_down();
    assert!(rig.killed().broker.exchange("/", "a").is_none());
}

#[test]
fn what_no_binding_takes_goes_to_alternates_one_after_the_other() {
    let mut rig = Rig::new();
    let with = |text, kind, alternate: &str| ExchangeSpec {
        durable: true,
        alternate: Some(name(alternate)),
        ..exchange(text, kind)
    };
    rig.broker.declare_exchange(&with("a", ExchangeKind::Direct, "b")).unwrap();
    rig.broker.declare_exchange(&with("b", ExchangeKind::Topic, "c")).unwrap();
    rig.broker.declare_exchange(&with("c", ExchangeKind::Fanout, "a")).unwrap();
    for queue in ["q1", "q2", "q3"] {
        rig.queue(queue);
    }
    assert_eq!(rig.publish("a", "x", "a circle without any binding").unwrap().queues, 0);
    rig.bind("a", "q1", "x");
    rig.bind("b", "q2", "y.*");
    rig.bind("c", "q3", "");
    rig.settle_down();
    let mut rig = rig.killed();
    for (key, text) in [("x", "1"), ("y.1", "2"), ("z", "3")] {
        assert_eq!(rig.publish("a", key, text).unwrap().queues, 1);
    }
    rig.settle_down();
    for (queue, text) in [("q1", "1"), ("q2", "2"), ("q3", "3")] {
        assert_eq!(rig.seen_all(1, queue), [first(text)]);
    }
    rig.broker.delete_exchange("/", "b", false).unwrap();
    assert_eq!(rig.publish("a", "z", "no way on").unwrap().queues, 0);
}

#[test]
fn more_keys_and_headers_route_too_and_nobody_publishes_to_an_internal_exchange() {
    let mut rig = Rig::new();
    rig.broker.declare_exchange(&exchange("d", ExchangeKind::Direct)).unwrap();
    rig.broker.declare_exchange(&exchange("h", ExchangeKind::Headers)).unwrap();
    rig.broker.declare_exchange(&ExchangeSpec { internal: true, ..exchange("in", ExchangeKind::Fanout) }).unwrap();
    for queue in ["q1", "q2", "q3"] {
        rig.queue(queue);
        rig.bind("d", queue, queue);
    }
    let arguments = [("x-match".to_owned(), "any".into()), ("color".to_owned(), "red".into())].into();
    rig.broker.bind(ME, &BindingSpec { arguments, ..binding("h", "q3", "") }).unwrap();
    let unit = Toy::unit(&["text"]);
    let red = || vec![model::Header { name: "color".into(), value: model::HeaderValue::Text("red".into()) }];
    let request = PublishRequest {
        tenant: "/",
        exchange: "d",
        key: "q1",
        more_keys: &["q2", "q1", "none"],
        headers: &red,
        format: &Toy(ONE),
        unit: &unit,
        time: Wall(1),
        persistent: true,
        marks: model::Marks::default(),
        policy: SyncPolicy::Sync,
    };
    let mut queues = |request: PublishRequest<'_>| rig.broker.publish(&request, rig.now).map(|told| told.queues);
    assert_eq!(queues(request), Ok(2));
    assert_eq!(queues(PublishRequest { exchange: "", ..request }), Ok(2));
    assert_eq!(queues(PublishRequest { exchange: "h", more_keys: &[], ..request }), Ok(1));
    assert_eq!(queues(PublishRequest { exchange: "h", more_keys: &[], headers: &no_headers, ..request }), Ok(0));
    assert_eq!(queues(PublishRequest { exchange: "in", ..request }), Err(BrokerError::Internal("in".into())));
    rig.broker.bind(ME, &between("h", "in", "")).unwrap();
    rig.bind("in", "q1", "");
    assert_eq!(rig.publish("h", "", "through").unwrap().queues, 1);
}

#[test]
fn messages_without_a_key_take_turns_among_a_topics_partitions() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, "t", 3);
    for _ in 0..6 {
        rig.publish("t", "", "x").unwrap();
    }
    rig.settle_down();
    for log in logs {
        assert_eq!(rig.broker.bounds(log).unwrap().end.0, 2);
    }
}
