//! Topics that feed the queues bound to them: by key pattern and headers, from the binding on, each message once.

use crate::rig::*;
use broker::queue::*;
use broker::routing::*;
use broker::topic::NewTopic;
use broker::{BrokerError, SessionId};
use model::LogId;

const ME: SessionId = SessionId(1);

fn topic(rig: &mut Rig, partitions: i64) -> Vec<LogId> {
    let new = NewTopic { tenant: name("/"), name: name("t"), partitions, config: Vec::new(), validate_only: false };
    rig.broker.create_topic(&new, rig.now).unwrap().0.partitions
}

fn texts(rig: &mut Rig, queue: &str) -> Vec<String> {
    rig.seen_all(1, queue).into_iter().map(|(text, ..)| text).collect()
}

#[test]
fn queues_are_fed_by_key_pattern_and_headers_from_their_binding_on() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, 2);
    append(&mut rig, logs[0], &["a.1:too early"]);
    for queue in ["by key", "all", "by header", "other"] {
        rig.queue(queue);
    }
    rig.bind("t", "by key", "a.*");
    rig.bind("t", "by key", "a.#");
    rig.bind("t", "all", "#");
    let arguments = [("x-match".to_owned(), "all".into()), ("h".to_owned(), "red".into())].into();
    rig.broker.bind(ME, &BindingSpec { arguments, ..binding("t", "by header", "") }).unwrap();
    assert_eq!(rig.broker.bindings("/").len(), 4);
    append(&mut rig, logs[0], &["a.1:1", "b.1:2", "gap", "no key"]);
    append(&mut rig, logs[1], &["a.2:3/red", "b.2:4/blue", "/red"]);
    rig.settle_down();
    assert_eq!(texts(&mut rig, "by key"), ["a.1:1", "a.2:3/red"]);
    assert_eq!(texts(&mut rig, "all"), ["a.1:1", "b.1:2", "no key", "a.2:3/red", "b.2:4/blue", "/red"]);
    assert_eq!(texts(&mut rig, "by header"), ["a.2:3/red", "/red"]);
    assert!(texts(&mut rig, "other").is_empty());
    rig.broker.unbind(ME, &binding("t", "by key", "a.#")).unwrap();
    append(&mut rig, logs[0], &["a.b.c:5", "a.1:6"]);
    rig.settle_down();
    assert_eq!(texts(&mut rig, "by key"), ["a.1:6"]);
}

#[test]
fn each_message_is_fed_once_whatever_is_killed() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, 1);
    rig.queue("q");
    rig.bind("t", "q", "#");
    rig.settle_down();
    let mut fed = Vec::new();
    for round in 0..20 {
        let bodies = [format!("k:{round} one"), format!("k:{round} two")];
        append(&mut rig, logs[0], &[&bodies[0], &bodies[1]]);
        for _ in 0..round % 4 {
            rig.broker.end_turn(rig.now);
        }
        fed.extend(bodies);
        rig = rig.killed();
        rig.settle_down();
    }
    let seen = texts(&mut rig, "q");
    let known = seen.iter().filter(|text| fed.contains(text)).count();
    assert_eq!(known, seen.len());
    let mut once = seen.clone();
    once.dedup();
    assert_eq!(once, seen, "none twice");
    let end = rig.broker.bounds(logs[0]).unwrap().end.0;
    assert_eq!(seen.len() as u64, end, "what the topic has, the queue has");
}

#[test]
fn a_feed_goes_with_its_topic_its_queue_or_its_last_binding() {
    for how in ["topic", "queue", "binding"] {
        let mut rig = Rig::new();
        let logs = topic(&mut rig, 1);
        rig.queue("q");
        rig.queue("keeps");
        rig.bind("t", "q", "#");
        match how {
            "topic" => drop(rig.broker.delete_topic("/", "t", rig.now).unwrap()),
            "queue" => drop(rig.broker.delete_queue(ME, "/", "q", false, false).unwrap()),
            _ => drop(rig.broker.unbind(ME, &binding("t", "q", "#")).unwrap()),
        }
        assert_eq!(rig.broker.bindings("/").len(), 0);
        rig.settle_down();
        let mut rig = rig.killed();
        assert_eq!(rig.broker.bindings("/").len(), 0);
        if how == "topic" {
            assert!(matches!(rig.broker.bind(ME, &binding("t", "keeps", "")), Err(BrokerError::Missing { .. })));
        } else {
            append(&mut rig, logs[0], &["a:1"]);
            rig.bind("t", "keeps", "#");
            append(&mut rig, logs[0], &["a:2"]);
            rig.settle_down();
            assert_eq!(texts(&mut rig, "keeps"), ["a:2"]);
        }
    }
}

#[test]
fn an_exchange_of_the_topics_name_goes_before_it_and_a_shared_topic_is_not_fed() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, 1);
    rig.queue("q");
    rig.bind("t", "q", "a");
    let shared = QueueSpec { topic: Some(name("t")), durable: true, ..spec("shared") };
    rig.broker.declare_queue(ME, &shared, rig.now).unwrap();
    assert!(matches!(rig.broker.bind(ME, &binding("t", "shared", "a")), Err(BrokerError::Invalid(_))));
    rig.broker.declare_exchange(&ExchangeSpec { durable: true, ..exchange("t", ExchangeKind::Fanout) }).unwrap();
    rig.bind("t", "q", "other");
    assert_eq!(rig.publish("t", "a", "by the exchange").unwrap().queues, 1);
    append(&mut rig, logs[0], &["a:by the topic", "other:nobody"]);
    rig.settle_down();
    assert_eq!(texts(&mut rig, "q"), ["by the exchange", "a:by the topic"]);
    rig.broker.delete_exchange("/", "t", false).unwrap();
    rig.settle_down();
    assert_eq!(rig.killed().broker.bindings("/").len(), 1, "the topic's binding is not the exchange's");
}

#[test]
fn exchanges_bound_to_a_topic_pass_on_what_it_feeds() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, 1);
    rig.queue("q");
    rig.broker.declare_exchange(&ExchangeSpec { durable: true, ..exchange("x", ExchangeKind::Direct) }).unwrap();
    rig.bind("x", "q", "k");
    rig.broker
        .bind(ME, &BindingSpec { destination: Destination::Exchange(name("x")), ..binding("t", "", "#") })
        .unwrap();
    append(&mut rig, logs[0], &["k:1", "l:2"]);
    rig.settle_down();
    assert_eq!(texts(&mut rig, "q"), ["k:1"]);
}

#[test]
fn partitions_made_after_the_binding_are_fed_from_their_beginning() {
    let mut rig = Rig::new();
    topic(&mut rig, 1);
    rig.queue("q");
    rig.bind("t", "q", "#");
    rig.broker.grow_topic(("/", "t"), 3, false, rig.now).unwrap();
    let logs = rig.broker.topic("/", "t").unwrap().partitions.clone();
    append(&mut rig, logs[2], &["k:1"]);
    rig.settle_down();
    let mut rig = rig.killed();
    append(&mut rig, logs[1], &["k:2"]);
    append(&mut rig, logs[2], &["k:3"]);
    rig.settle_down();
    let mut seen = texts(&mut rig, "q");
    seen.sort_unstable();
    assert_eq!(seen, ["k:1", "k:2", "k:3"]);
}
