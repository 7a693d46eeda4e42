//! Queues through the broker's own calls, on a disk that dies.

use crate::rig::*;
use broker::queue::*;
use broker::{BrokerError, CallId, Event, SessionId, SyncPolicy};
use storage::sim_disk::Fault;

const ME: SessionId = SessionId(1);

#[test]
fn acked_messages_never_come_back_and_unacked_ones_do_as_redelivered() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.publish_all("q", &["a", "b", "c", "d", "e"]);
    let consumer = rig.consume(1, "q", 4);
    rig.settle_down();
    let got = rig.deliveries(consumer);
    assert_eq!(got.iter().map(look).collect::<Vec<_>>(), ["a", "b", "c", "d"].map(first));
    rig.broker.settle(ME, &[got[0].key, got[2].key], Settle::Ack);
    assert_eq!(rig.depth("q"), (1, 2));
    rig.settle_down();
    let mut rig = rig.killed();
    assert_eq!(rig.depth("q"), (3, 0));
    assert_eq!(rig.seen_all(1, "q"), [again("b"), again("d"), first("e")]);
}

#[test]
fn what_a_session_was_handed_is_known_as_delivered_however_soon_the_process_dies() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.settle_down();
    let consumer = rig.consume(1, "q", 9);
    rig.publish_with("", "q", "a", SyncPolicy::None).unwrap();
    rig.turn();
    assert_eq!(rig.seen(consumer), [first("a")]);
    assert_eq!(rig.killed().seen_all(1, "q"), [again("a")]);
}

#[test]
fn what_could_not_be_written_is_handed_to_nobody() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.settle_down();
    let consumer = rig.consume(1, "q", 9);
    rig.turn();
    rig.publish_with("", "q", "a", SyncPolicy::None).unwrap();
    rig.disk.fail_at(rig.disk.calls().all + 1, Fault::Eio);
    rig.turn();
    assert!(rig.broker.failure().is_some());
    assert_eq!(rig.seen(consumer), []);
}

#[test]
fn requeued_messages_come_again_before_later_ones_while_others_stay_in_flight() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.publish_all("q", &["m1", "m2", "m3", "m4", "m5", "m6", "m7"]);
    let consumer = rig.consume(1, "q", 5);
    rig.settle_down();
    let got = keys(&rig.deliveries(consumer));
    rig.broker.settle(ME, &got[..3], Settle::Requeue);
    rig.broker.credit(consumer, 4);
    rig.settle_down();
    assert_eq!(rig.seen(consumer), [again("m1"), again("m2"), again("m3"), first("m6")]);
    assert_eq!(rig.depth("q"), (1, 6));
}

#[test]
fn a_lost_session_gives_its_messages_back_in_order() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.publish_all("q", &["a", "b", "c"]);
    let lost = rig.consume(2, "q", 2);
    rig.settle_down();
    assert_eq!(rig.seen(lost).len(), 2);
    rig.broker.session_closed(SessionId(2), rig.now);
    rig.broker.settle(SessionId(2), &[], Settle::Ack);
    assert_eq!(rig.seen_all(1, "q"), [again("a"), again("b"), first("c")]);
}

#[test]
fn consumers_with_credit_take_turns() {
    let mut rig = Rig::new();
    rig.queue("q");
    let (one, two) = (rig.consume(1, "q", 10), rig.consume(2, "q", 2));
    rig.publish_all("q", &["a", "b", "c", "d", "e", "f"]);
    let text = |seen: Vec<Seen>| seen.into_iter().map(|(text, ..)| text).collect::<String>();
    assert_eq!((text(rig.seen(one)), text(rig.seen(two))), ("acef".to_owned(), "bd".to_owned()));
}

#[test]
fn a_cancelled_consumers_waiting_deliveries_go_back_as_if_never_made() {
    for auto_settle in [false, true] {
        let mut rig = Rig::new();
        rig.queue("q");
        rig.publish_all("q", &["a", "b"]);
        let spec = ConsumeSpec { auto_settle, exclusive: false, credit: 9, priority: 0 };
        let consumer = rig.broker.consume(ME, "/", "q", spec, ONE).unwrap();
        rig.broker.end_turn(rig.now); // the event waits in the broker
        rig.broker.cancel(consumer);
        rig.settle_down();
        assert!(rig.inbox.is_empty());
        assert_eq!(rig.depth("q"), (2, 0));
        let rig2 = rig.killed();
        let mut rig = rig2;
        assert_eq!(rig.seen_all(1, "q"), [first("a"), first("b")]);
    }
}

#[test]
fn what_a_consumer_need_not_settle_is_gone_once_it_was_sent() {
    let mut rig = Rig::new();
    rig.queue("q");
    let spec = ConsumeSpec { auto_settle: true, exclusive: false, credit: 2, priority: 0 };
    let consumer = rig.broker.consume(ME, "/", "q", spec, ONE).unwrap();
    rig.publish_all("q", &["a", "b", "c"]);
    assert_eq!(rig.seen(consumer), [first("a"), first("b")]);
    assert_eq!(rig.depth("q"), (1, 0));
    assert_eq!(rig.killed().seen_all(1, "q"), [first("c")]);
}

#[test]
fn a_plain_queue_hands_out_what_is_written_while_its_publisher_still_waits_for_the_sync() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.settle_down();
    let consumer = rig.consume(1, "q", 9);
    let lsn = rig.publish_with("", "q", "a", SyncPolicy::Sync).unwrap().lsn;
    rig.turn();
    assert!(!rig.is_synced(lsn));
    assert_eq!(rig.seen(consumer), [first("a")]);
    let mut rig = rig.killed();
    assert_eq!(rig.seen_all(1, "q"), [again("a")]);
}

#[test]
fn what_was_handed_out_and_settled_before_its_sync_is_gone_or_back_after_a_power_cut_and_never_in_between() {
    for seed in 0..60 {
        let mut rig = Rig::new();
        rig.queue("q");
        rig.publish_all("q", &["a"]);
        let consumer = rig.consume(1, "q", 9);
        for text in ["b", "c", "d"] {
            rig.publish_with("", "q", text, SyncPolicy::Sync).unwrap();
            rig.turn();
            let delivered = rig.deliveries(consumer);
            rig.broker.settle(ME, &keys(&delivered), Settle::Ack);
        }
        rig.turn();
        let mut rig = rig.power_cut(seed);
        rig.publish_all("q", &["e"]);
        let left: Vec<_> = rig.seen_all(1, "q").into_iter().map(|(text, ..)| text).collect();
        let Some((last, left)) = left.split_last() else { panic!("seed {seed}: a confirmed message is missing") };
        let texts = ["a", "b", "c", "d"].map(str::to_owned);
        let from = left.first().and_then(|text| texts.iter().position(|one| one == text)).unwrap_or(0);
        assert_eq!((last.as_str(), left), ("e", &texts[from..from + left.len()]), "seed {seed}");
    }
}

#[test]
fn a_safe_queue_delivers_nothing_before_it_is_as_safe_as_its_publisher_asked() {
    let mut rig = Rig::new();
    let options = QueueOptions { kind: QueueKind::Safe, ..QueueOptions::default() };
    rig.declare(&QueueSpec { durable: true, options, ..spec("q") }).unwrap();
    rig.settle_down();
    let consumer = rig.consume(1, "q", 9);
    let lsn = rig.publish_with("", "q", "a", SyncPolicy::Sync).unwrap().lsn;
    rig.turn();
    assert!(!rig.is_synced(lsn));
    assert_eq!((rig.depth("q"), rig.seen(consumer)), ((0, 0), vec![]));
    rig.settle_down();
    assert!(rig.is_synced(lsn));
    assert_eq!(rig.seen(consumer), [first("a")]);
}

#[test]
fn get_says_how_many_are_left_and_settles_if_asked() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.publish_all("q", &["a", "b"]);
    let Got::Message(delivery, 1) = rig.broker.get(ME, CallId(1), "/", "q", true, ONE).unwrap() else { panic!() };
    assert_eq!(look(&delivery), first("a"));
    assert_eq!(rig.depth("q"), (1, 0));
    let missing = rig.broker.get(ME, CallId(1), "/", "nosuch", true, ONE);
    assert!(matches!(missing, Err(BrokerError::Missing { kind: "queue", .. })));
}

#[test]
fn messages_on_a_cold_disk_are_waited_for_and_none_is_lost() {
    let mut rig = Rig::new();
    rig.queue("q");
    let texts: Vec<String> = (0..200).map(|n| format!("m{n}")).collect();
    rig.publish_all("q", &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let rig = rig.killed();
    rig.disk.set_cache_misses(11);
    let mut rig = rig;
    let consumer = rig.consume(1, "q", 100);
    rig.settle_down();
    let mut seen = rig.seen(consumer);
    seen.extend(rig.seen_all(1, "q"));
    assert_eq!(seen, texts.iter().map(|text| first(text)).collect::<Vec<_>>());
}

#[test]
fn a_get_waits_too_while_a_consumers_read_waits() {
    for seed in 1..20 {
        let mut rig = Rig::new();
        rig.queue("q");
        rig.publish_all("q", &["a", "b", "c"]);
        let mut rig = rig.killed();
        rig.disk.set_cache_misses(seed);
        rig.consume(1, "q", 1);
        rig.turn();
        assert!(rig.get_all(2, "q").len() >= 2, "seed {seed}");
    }
}

#[test]
fn a_message_taken_back_and_got_again_in_one_turn_must_be_settled() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.publish_all("q", &["a"]);
    let spec = ConsumeSpec { auto_settle: true, exclusive: false, credit: 9, priority: 0 };
    let consumer = rig.broker.consume(ME, "/", "q", spec, ONE).unwrap();
    rig.broker.end_turn(rig.now);
    rig.broker.cancel(consumer);
    assert_eq!(rig.seen_all(1, "q"), [first("a")]);
    rig.settle_down();
    assert_eq!(rig.depth("q"), (0, 1));
}

#[test]
fn a_queues_own_log_shrinks_as_its_head_is_settled_and_goes_with_the_queue() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.publish_all("q", &["a", "b", "c", "d"]);
    let got = keys(&rig.get_all(1, "q"));
    rig.broker.settle(ME, &[got[0], got[1], got[3]], Settle::Ack);
    rig.settle_down();
    assert_eq!(rig.broker.bounds(got[0].log).unwrap().start, got[2].offset);
    rig.broker.delete_queue(ME, "/", "q", false, false).unwrap();
    rig.settle_down();
    assert!(rig.broker.bounds(got[0].log).is_err());
}

#[test]
fn a_long_backlog_is_handed_out_in_bounded_turns() {
    const COUNT: usize = 40_000;
    let mut rig = Rig::new();
    rig.queue("q");
    for n in 0..COUNT {
        rig.publish_with("", "q", &n.to_string(), SyncPolicy::None).unwrap();
    }
    rig.settle_down();
    let consumer = rig.consume(1, "q", u32::MAX);
    rig.turn();
    let first_turn = rig.deliveries(consumer).len();
    assert!(first_turn < COUNT, "others must have their turn");
    rig.settle_down();
    assert_eq!(first_turn + rig.deliveries(consumer).len(), COUNT);
}

#[test]
fn an_exclusive_queue_is_locked_for_others_and_goes_with_its_session() {
    let mut rig = Rig::new();
    let mine = QueueSpec { exclusive: true, durable: true, ..spec("mine") };
    assert!(rig.declare(&mine).unwrap().created);
    let other = SessionId(2);
    assert!(matches!(rig.broker.declare_queue(other, &spec("mine"), rig.now), Err(BrokerError::Locked(_))));
    assert!(matches!(rig.broker.queue(other, "/", "mine"), Err(BrokerError::Locked(_))));
    assert!(matches!(rig.broker.delete_queue(other, "/", "mine", false, false), Err(BrokerError::Locked(_))));
    rig.publish_all("mine", &["a"]);
    rig.broker.session_closed(ME, rig.now);
    assert!(rig.broker.declare_queue(other, &spec("mine"), rig.now).unwrap().created);
    assert_eq!(rig.broker.queue(other, "/", "mine").unwrap().ready, 0);
}

#[test]
fn only_durable_queues_outlive_the_process() {
    let mut rig = Rig::new();
    rig.queue("lasting");
    rig.declare(&spec("fleeting")).unwrap();
    rig.declare(&QueueSpec { exclusive: true, durable: true, ..spec("mine") }).unwrap();
    for queue in ["lasting", "fleeting", "mine"] {
        rig.publish_all(queue, &["a"]);
    }
    let mut rig = rig.killed();
    let names: Vec<_> = rig.broker.queues("/").into_iter().map(|info| info.name.to_string()).collect();
    assert_eq!(names, ["lasting"]);
    rig.declare(&spec("fleeting")).unwrap();
    assert_eq!((rig.depth("lasting"), rig.depth("fleeting")), ((1, 0), (0, 0)));
}

#[test]
fn an_auto_delete_queue_goes_after_its_last_consumer() {
    let mut rig = Rig::new();
    rig.declare(&QueueSpec { auto_delete: true, durable: true, ..spec("q") }).unwrap();
    let (one, two) = (rig.consume(1, "q", 1), rig.consume(2, "q", 1));
    rig.broker.cancel(one);
    assert!(rig.broker.queue(ME, "/", "q").is_ok());
    rig.broker.session_closed(SessionId(2), rig.now);
    rig.broker.cancel(two);
    assert!(rig.broker.queue(ME, "/", "q").is_err());
    rig.settle_down();
    assert!(rig.killed().broker.queues("/").is_empty());
}

#[test]
fn a_deleted_queues_consumers_are_told_and_its_messages_are_gone() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.publish_all("q", &["a", "b"]);
    let consumer = rig.consume(1, "q", 1);
    rig.settle_down();
    let got = keys(&rig.deliveries(consumer));
    let in_use = rig.broker.delete_queue(ME, "/", "q", true, false);
    assert!(matches!(in_use, Err(BrokerError::InUse { why: "in use", .. })));
    let not_empty = rig.broker.delete_queue(ME, "/", "q", false, true);
    assert!(matches!(not_empty, Err(BrokerError::InUse { why: "not empty", .. })));
    assert_eq!(rig.broker.delete_queue(ME, "/", "q", false, false).unwrap().0, 1);
    assert_eq!(rig.broker.delete_queue(ME, "/", "q", true, true).unwrap().0, 0, "a missing queue is no error");
    rig.broker.settle(ME, &got, Settle::Ack); // the queue is gone: passed over
    rig.settle_down();
    assert!(matches!(rig.inbox.pop_front(), Some((ME, Event::ConsumerCancelled(whose))) if whose == consumer));
    assert!(rig.inbox.is_empty());
    rig.queue("q");
    assert_eq!(rig.depth("q"), (0, 0));
    rig.settle_down();
    let mut rig = rig.killed();
    assert_eq!(rig.seen_all(1, "q"), []);
}

#[test]
fn a_purge_takes_what_is_ready_and_leaves_what_is_in_flight() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.publish_all("q", &["a", "b", "c"]);
    let consumer = rig.consume(1, "q", 1);
    rig.settle_down();
    assert_eq!(rig.deliveries(consumer).len(), 1);
    assert_eq!(rig.broker.purge(ME, "/", "q").unwrap().0, 2);
    assert_eq!(rig.depth("q"), (0, 1));
    rig.publish_all("q", &["d"]);
    let mut rig = rig.killed();
    assert_eq!(rig.seen_all(1, "q"), [again("a"), first("d")]);
}

#[test]
fn an_exclusive_consumer_stays_alone() {
    let mut rig = Rig::new();
    rig.queue("q");
    let alone = ConsumeSpec { auto_settle: false, exclusive: true, credit: 1, priority: 0 };
    let consumer = rig.broker.consume(ME, "/", "q", alone, ONE).unwrap();
    let spec = ConsumeSpec { exclusive: false, ..alone };
    let refused = rig.broker.consume(SessionId(2), "/", "q", spec, ONE);
    assert!(matches!(refused, Err(BrokerError::ExclusiveUse(_))));
    rig.broker.cancel(consumer);
    assert!(rig.broker.consume(SessionId(2), "/", "q", spec, ONE).is_ok());
}

#[test]
fn a_confirmed_message_survives_a_power_cut_and_a_synced_ack_stays() {
    for seed in 0..40 {
        let mut rig = Rig::new();
        rig.queue("q");
        rig.publish_all("q", &["a", "b", "c"]);
        let got = rig.get_all(1, "q");
        rig.broker.settle(ME, &keys(&got[..1]), Settle::Ack);
        rig.publish_all("q", &["d"]); // synced, and with it the ack before
        rig.publish_with("", "q", "e", SyncPolicy::None).unwrap();
        rig.turn();
        let mut rig = rig.power_cut(seed);
        let seen: Vec<_> = rig.seen_all(1, "q").into_iter().filter(|(text, ..)| text != "e").collect();
        assert_eq!(seen, [again("b"), again("c"), first("d")], "seed {seed}");
    }
}

#[test]
fn a_damaged_message_is_passed_over_and_the_others_are_served() {
    let mut rig = Rig::new();
    rig.queue("q");
    for text in ["before", "victim", "after"] {
        rig.publish_all("q", &[text]);
    }
    let disk = rig.disk.kill();
    for file in disk.names() {
        let mut bytes = disk.bytes_of(&file).unwrap();
        if let Some(at) = bytes.windows(6).position(|window| window == b"victim") {
            bytes[at] ^= 1;
            disk.put_bytes(&file, bytes);
        }
    }
    let mut rig = Rig::on(disk, Rig::options());
    let consumer = rig.consume(1, "q", 9);
    rig.settle_down();
    assert_eq!(rig.seen(consumer), [first("before"), first("after")]);
    assert_eq!(rig.depth("q"), (0, 2));
}

#[test]
fn ten_thousand_queues_are_declared_used_and_found_again() {
    let mut rig = Rig::new();
    for n in 0..10_000 {
        rig.queue(&format!("q{n}"));
        if n % 1000 == 0 {
            rig.settle_down();
        }
    }
    for n in (0..10_000).step_by(97) {
        rig.publish("", &format!("q{n}"), "x").unwrap();
    }
    rig.settle_down();
    let mut rig = rig.killed();
    assert_eq!(rig.broker.queues("/").len(), 10_000);
    assert_eq!(rig.seen_all(1, "q97"), [first("x")]);
}

/// Moves a message from `q` to `r`: what it publishes and the ack are one.
fn move_one(rig: &mut Rig, text: &str) -> Result<Vec<broker::routing::Published>, BrokerError> {
    let unit = Toy::unit(&[text]);
    let request = broker::routing::PublishRequest {
        tenant: "/",
        exchange: "",
        key: "r",
        more_keys: &[],
        headers: &Vec::new,
        format: &Toy(ONE),
        unit: &unit,
        time: model::Wall(1),
        persistent: true,
        marks: model::Marks::default(),
        policy: broker::SyncPolicy::Sync,
    };
    let Got::Message(delivery, _) = rig.broker.get(SessionId(1), CallId(1), "/", "q", false, ONE).unwrap() else {
        panic!("a message is there")
    };
    rig.broker.publish_all(&[request], (SessionId(1), &[delivery.key]), rig.now)
}

#[test]
fn an_ack_and_a_publish_made_together_are_both_there_after_a_power_cut_or_neither() {
    let mut both = [0, 0];
    for seed in 0..60 {
        let mut rig = Rig::new();
        rig.queue("q");
        rig.queue("r");
        rig.publish_all("q", &["a"]);
        move_one(&mut rig, "moved").unwrap();
        rig.turn(); // written; the sync is still to come
        let mut after = rig.power_cut(seed);
        let (left, moved) = (after.seen_all(2, "q").len(), after.seen_all(2, "r").len());
        assert_eq!(left + moved, 1, "seed {seed}");
        both[moved] += 1;
    }
    assert!(both[0] > 0 && both[1] > 0, "{both:?}");
}

#[test]
fn what_is_acknowledged_with_a_publish_that_cannot_be_stored_is_not() {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.queue("r");
    rig.publish_all("q", &["a"]);
    rig.disk.set_capacity(0);
    while rig.publish("", "r", &"x".repeat(200)).is_ok() {
        rig.pass(1000);
    }
    assert!(move_one(&mut rig, "moved").is_err());
    assert_eq!(rig.depth("q"), (0, 1));
    rig.broker.session_closed(SessionId(1), rig.now);
    rig.settle_down();
    assert_eq!(rig.depth("q"), (1, 0));
}
