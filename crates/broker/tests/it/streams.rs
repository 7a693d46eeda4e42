//! Streams: readers with places of their own, on a simulated disk that is killed and loses power.

use crate::rig::*;
use broker::partition::AppendRequest;
use broker::queue::*;
use broker::topic::{ConfigChange, NewTopic};
use broker::{BrokerError, CallId, Event, SessionId, SyncPolicy};
use model::{LogId, Wall};

fn stream(text: &str) -> QueueSpec {
    let options = QueueOptions { kind: QueueKind::Stream, ..QueueOptions::default() };
    QueueSpec { durable: true, options, ..spec(text) }
}

fn view(text: &str, topic: &str) -> QueueSpec {
    QueueSpec { topic: Some(name(topic)), ..stream(text) }
}

/// A rig with the stream `st`.
fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.declare(&stream("st")).unwrap();
    rig.settle_down();
    rig
}

fn topic(rig: &mut Rig, text: &str, partitions: i64) -> Vec<LogId> {
    let topic = NewTopic { tenant: name("/"), name: name(text), partitions, config: Vec::new(), validate_only: false };
    rig.broker.create_topic(&topic, rig.now).unwrap().0.partitions
}

fn read(rig: &mut Rig, session: u64, credit: u32, read: ReadSpec) -> ConsumerId {
    let spec = ConsumeSpec { auto_settle: false, exclusive: false, credit, priority: 0 };
    let consumer = rig.broker.read_stream((SessionId(session), "/", "st"), spec, read, ONE).unwrap();
    rig.settle_down();
    consumer
}

fn from(from: ReadFrom) -> ReadSpec {
    ReadSpec { from, ..ReadSpec::default() }
}

/// Text and offset of what has come for a consumer.
fn seen(rig: &mut Rig, consumer: ConsumerId) -> Vec<(String, u64)> {
    rig.deliveries(consumer).iter().map(|delivery| (look(delivery).0, delivery.key.offset.0)).collect()
}

fn all(texts: &[&str], from: u64) -> Vec<(String, u64)> {
    (from..).zip(texts).map(|(offset, text)| ((*text).to_owned(), offset)).collect()
}

#[test]
fn each_reader_has_its_own_place_and_reading_takes_nothing_away() {
    let mut rig = rig();
    rig.publish_all("st", &["a", "b", "c", "d"]);
    for (place, texts, at) in [
        (ReadFrom::First, &["a", "b", "c", "d"][..], 0),
        (ReadFrom::Last, &["d"], 3),
        (ReadFrom::Next, &[], 4),
        (ReadFrom::Offset(1), &["b", "c", "d"], 1),
        (ReadFrom::Offset(4), &[], 4),
    ] {
        let reader = read(&mut rig, 1, 99, from(place));
        assert_eq!(seen(&mut rig, reader), all(texts, at), "{place:?}");
    }
    assert_eq!(rig.depth("st"), (4, 0), "nothing is taken out and nothing is in flight");
    let beyond = read(&mut rig, 2, 99, from(ReadFrom::Offset(5)));
    let last = read(&mut rig, 3, 99, from(ReadFrom::Last));
    seen(&mut rig, last);
    rig.publish_all("st", &["e", "f"]);
    assert_eq!(seen(&mut rig, beyond), all(&["f"], 5), "what comes before the offset asked for is passed over");
    assert_eq!(seen(&mut rig, last), all(&["e", "f"], 4));
}

#[test]
fn a_reader_gets_as_much_as_it_has_credit_for_and_settling_changes_nothing() {
    let mut rig = rig();
    rig.publish_all("st", &["a", "b", "c", "d"]);
    let reader = read(&mut rig, 1, 2, from(ReadFrom::First));
    let got = rig.deliveries(reader);
    assert_eq!(got.len(), 2);
    assert!(got.iter().all(|delivery| delivery.tell == Tell::Offset && !delivery.redelivered));
    for how in [Settle::Ack, Settle::Requeue, Settle::Discard] {
        rig.broker.settle(SessionId(1), &keys(&got), how);
        rig.settle_down();
    }
    assert_eq!(seen(&mut rig, reader), []);
    assert_eq!(rig.depth("st"), (4, 0));
    rig.broker.credit(reader, 1);
    rig.settle_down();
    assert_eq!(seen(&mut rig, reader), all(&["c"], 2));
    rig.broker.cancel(reader);
    let again = read(&mut rig, 1, 9, from(ReadFrom::First));
    assert_eq!(seen(&mut rig, again).len(), 4);
}

#[test]
fn messages_of_a_stream_survive_a_kill_and_a_power_cut_where_they_were() {
    let mut rig = rig();
    rig.publish_all("st", &["a", "b", "c"]);
    let reader = read(&mut rig, 1, 2, from(ReadFrom::First));
    seen(&mut rig, reader);
    for seed in 0..20 {
        let mut after = rig.power_cut(seed);
        assert_eq!(after.depth("st"), (3, 0));
        let reader = read(&mut after, 1, 9, from(ReadFrom::Offset(1)));
        assert_eq!(seen(&mut after, reader), all(&["b", "c"], 1));
    }
    let mut rig = rig.killed();
    rig.publish_all("st", &["d"]);
    let reader = read(&mut rig, 1, 9, from(ReadFrom::First));
    assert_eq!(seen(&mut rig, reader), all(&["a", "b", "c", "d"], 0));
    assert_eq!(rig.broker.queue(SessionId(1), "/", "st").unwrap().kind, QueueKind::Stream);
}

#[test]
fn a_stream_is_a_topic_of_its_name_that_comes_and_goes_with_it() {
    let mut rig = rig();
    let logs = rig.broker.topic("/", "st").unwrap().partitions.clone();
    assert_eq!(logs.len(), 1);
    append(&mut rig, logs[0], &["x", "y"]);
    rig.settle_down();
    rig.publish_all("st", &["z"]);
    let reader = read(&mut rig, 1, 9, from(ReadFrom::First));
    assert_eq!(seen(&mut rig, reader), all(&["x", "y", "z"], 0), "what others appended to the topic is in the stream");
    assert!(matches!(rig.declare(&spec("st")).unwrap().info.kind, QueueKind::Stream));
    rig.inbox.clear();
    rig.broker.delete_queue(SessionId(1), "/", "st", false, false).unwrap();
    rig.settle_down();
    assert!(rig.broker.topic("/", "st").is_none());
    assert!(rig.inbox.iter().any(|(_, event)| matches!(event, Event::ConsumerCancelled(gone) if *gone == reader)));
    let mut rig = rig.killed();
    assert!(rig.broker.topic("/", "st").is_none() && rig.broker.queues("/").is_empty());
    rig.declare(&stream("st")).unwrap();
    rig.broker.delete_topic("/", "st", rig.now).unwrap();
    assert!(rig.broker.queues("/").is_empty(), "the stream goes with its topic too");
}

#[test]
fn a_view_of_a_topic_leaves_the_topic_when_it_goes() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, "t", 1);
    append(&mut rig, logs[0], &["x"]);
    rig.declare(&view("st", "t")).unwrap();
    rig.declare(&stream("t")).unwrap();
    rig.settle_down();
    let reader = read(&mut rig, 1, 9, from(ReadFrom::First));
    assert_eq!(seen(&mut rig, reader), all(&["x"], 0));
    let mut rig = rig.killed();
    assert_eq!((rig.depth("st"), rig.depth("t")), ((1, 0), (1, 0)));
    for queue in ["st", "t"] {
        rig.broker.delete_queue(SessionId(1), "/", queue, false, false).unwrap();
    }
    assert!(rig.broker.topic("/", "t").is_some());
    let limited = |text| {
        let mut spec = stream(text);
        spec.options.age_ms_max = Some(1);
        spec
    };
    assert!(matches!(rig.declare(&limited("t")), Err(BrokerError::Invalid(_))), "its topic says what it keeps");
    assert!(matches!(rig.declare(&view("st", "no")), Err(BrokerError::Missing { .. })));
}

#[test]
fn several_partitions_are_read_in_turn_or_one_alone() {
    let mut rig = Rig::new();
    let logs = topic(&mut rig, "t", 2);
    rig.declare(&view("st", "t")).unwrap();
    append(&mut rig, logs[0], &["a0", "a1"]);
    append(&mut rig, logs[1], &["b0", "b1"]);
    rig.settle_down();
    let both = read(&mut rig, 1, 9, from(ReadFrom::First));
    let got = rig.deliveries(both);
    let texts = got.iter().map(|delivery| (look(delivery).0, delivery.tell)).collect::<Vec<_>>();
    let place = |text: &str, partition| (text.to_owned(), Tell::Place(partition));
    assert_eq!(texts, [place("a0", 0), place("b0", 1), place("a1", 0), place("b1", 1)]);
    let one = ReadSpec { partition: Some(1), ..from(ReadFrom::Offset(1)) };
    let second = read(&mut rig, 1, 9, one);
    assert_eq!(seen(&mut rig, second), all(&["b1"], 1));
    let spec = ConsumeSpec { auto_settle: false, exclusive: false, credit: 9, priority: 0 };
    let mut refused =
        |read| rig.broker.read_stream((SessionId(1), "/", "st"), spec, read, ONE).unwrap_err().to_string();
    assert!(refused(from(ReadFrom::Offset(1))).contains("say which one"));
    assert!(refused(ReadSpec { partition: Some(2), ..ReadSpec::default() }).contains("the topic has 2"));
    let grown = rig.broker.grow_topic(("/", "t"), 3, false, rig.now);
    grown.unwrap();
    let third = rig.broker.topic("/", "t").unwrap().partitions[2];
    append(&mut rig, third, &["c0"]);
    rig.settle_down();
    assert_eq!(seen(&mut rig, both), all(&["c0"], 0), "who reads all reads the new one too");
    assert_eq!(seen(&mut rig, second), []);
}

/// Appends one message of a time of its own.
fn append_at(rig: &mut Rig, log: LogId, text: &str, time: i64) {
    let units = Toy::unit(&[text]);
    let request = AppendRequest {
        log,
        format: &Toy(MANY),
        units: &units,
        count: 1,
        time_max: Wall(time),
        producer: None,
        policy: SyncPolicy::Sync,
    };
    rig.broker.append(&request, rig.now).unwrap();
}

#[test]
fn a_reader_begins_at_a_time_also_when_that_is_on_disk_only() {
    let mut rig = rig();
    let log = rig.broker.topic("/", "st").unwrap().partitions[0];
    for time in [1000, 2000, 3000] {
        append_at(&mut rig, log, &format!("at={time}"), time);
    }
    rig.settle_down();
    let mut rig = rig.killed();
    for (time, first) in [(0, 0), (1000, 0), (1001, 1), (3000, 2), (3001, 3)] {
        let reader = read(&mut rig, 1, 9, from(ReadFrom::Time(Wall(time))));
        let offsets = seen(&mut rig, reader).into_iter().map(|(_, offset)| offset);
        assert!(offsets.eq(first..3), "{time}");
    }
}

#[test]
fn a_filter_lets_marked_messages_through_and_unmarked_ones_if_asked() {
    let mut rig = rig();
    rig.publish_all("st", &["k:1/red", "k:2/blue", "plain", "k:3/green"]);
    let filter = |values: &[&str], unmarked| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let filter = Some(ReadFilter { header: "h".into(), values, unmarked });
        ReadSpec { filter, ..from(ReadFrom::First) }
    };
    let some = read(&mut rig, 1, 9, filter(&["red", "green"], false));
    assert_eq!(seen(&mut rig, some), [("k:1/red".to_owned(), 0), ("k:3/green".to_owned(), 3)]);
    let more = read(&mut rig, 1, 9, filter(&["blue"], true));
    assert_eq!(seen(&mut rig, more), [("k:2/blue".to_owned(), 1), ("plain".to_owned(), 2)]);
}

#[test]
fn a_filter_goes_on_looking_though_nothing_else_happens() {
    let mut rig = rig();
    rig.publish_all("st", &vec!["k:1/blue"; 10_000]);
    rig.publish_all("st", &["k:2/red"]);
    let filter = Some(ReadFilter { header: "h".into(), values: vec!["red".to_owned()], unmarked: false });
    let reader = read(&mut rig, 1, 9, ReadSpec { filter, ..from(ReadFrom::First) });
    assert!(seen(&mut rig, reader).is_empty(), "others have their turn first");
    assert_eq!(rig.broker.deadline(), Some(rig.now.mono), "the next turn is asked for");
    rig.pass(0);
    assert_eq!(seen(&mut rig, reader), [("k:2/red".to_owned(), 10_000)]);
}

#[test]
fn a_stream_forgets_what_is_too_much_and_readers_go_on_behind_the_gap() {
    let mut rig = Rig::new();
    let mut limited = stream("st");
    limited.options.bytes_max = Some(300);
    limited.options.segment_bytes_max = Some(200);
    rig.declare(&limited).unwrap();
    rig.settle_down();
    let late = read(&mut rig, 1, 1, from(ReadFrom::First));
    let text = "x".repeat(90);
    for _ in 0..20 {
        rig.publish_all("st", &[&text]);
    }
    assert_eq!(seen(&mut rig, late).len(), 1);
    rig.pass(301_000);
    let (kept, _) = rig.depth("st");
    assert!((1..20).contains(&kept), "{kept}");
    rig.broker.credit(late, 99);
    rig.settle_down();
    let rest = seen(&mut rig, late);
    assert_eq!((rest.len() as u64, rest.last().unwrap().1), (kept, 19));
    let first = read(&mut rig, 2, 1, from(ReadFrom::First));
    assert_eq!(seen(&mut rig, first)[0].1, 20 - kept);
    assert_eq!(rig.broker.passed_over(), 0);
    // And the topic's own setting says so, to whoever knows it as a topic.
    let set = [("retention.bytes".to_owned(), ConfigChange::Set("-1".to_owned()))];
    rig.broker.alter_topic(("/", "st"), &set, false, rig.now).unwrap();
}

#[test]
fn what_queues_do_and_streams_do_not_is_refused() {
    let mut rig = rig();
    rig.publish_all("st", &["a"]);
    let invalid = |error: BrokerError| assert!(matches!(error, BrokerError::Invalid(_)), "{error:?}");
    invalid(rig.broker.get(SessionId(1), CallId(1), "/", "st", false, ONE).unwrap_err());
    invalid(rig.broker.purge(SessionId(1), "/", "st").unwrap_err());
    let spec = ConsumeSpec { auto_settle: true, exclusive: false, credit: 1, priority: 0 };
    invalid(rig.broker.consume(SessionId(1), "/", "st", spec, ONE).unwrap_err());
    rig.queue("q");
    let spec = ConsumeSpec { auto_settle: false, ..spec };
    invalid(rig.broker.read_stream((SessionId(1), "/", "q"), spec, ReadSpec::default(), ONE).unwrap_err());
    for refused in [
        QueueSpec { durable: false, ..stream("new") },
        QueueSpec { exclusive: true, ..stream("new") },
        QueueSpec { auto_delete: true, ..stream("new") },
    ] {
        invalid(rig.declare(&refused).unwrap_err());
    }
    assert_eq!(rig.depth("st"), (1, 0));
}

#[test]
fn a_slow_reader_holds_up_nobody_and_a_fast_one_gets_all_of_a_long_stream() {
    let mut rig = rig();
    let text = "y".repeat(200);
    for _ in 0..60 {
        for _ in 0..100 {
            rig.publish("", "st", &text).unwrap();
        }
        rig.settle_down();
    }
    let slow = read(&mut rig, 1, 1, from(ReadFrom::First));
    let fast = read(&mut rig, 2, 100_000, from(ReadFrom::First));
    let other = read(&mut rig, 3, 100_000, from(ReadFrom::Offset(1000)));
    rig.settle_down();
    assert_eq!(seen(&mut rig, slow).len(), 1);
    let got = seen(&mut rig, fast);
    assert_eq!(got.len(), 6000);
    assert!(got.iter().map(|(_, offset)| *offset).eq(0..6000));
    assert_eq!(seen(&mut rig, other).len(), 5000);
}
