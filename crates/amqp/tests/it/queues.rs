//! Queues, exchanges, bindings: what is made, what is refused, in which words (features R2, R3; cases A06, A17).

use crate::rig::*;
use amqp::wire::short;
use model::ByteReader;

/// (name, messages, consumers) of a declare-ok.
fn declared(got: &Got) -> (String, u32, u32) {
    assert_eq!(got.method, (50, 11), "{got:?}");
    let mut r = ByteReader::new(&got.fields);
    (short(&mut r).unwrap().to_owned(), r.u32().unwrap(), r.u32().unwrap())
}

const LOCKED: &str = "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared \
                      on another connection or the exclusive property value does not match that of the original \
                      declaration.";

fn locked() -> (u16, String) {
    // A reply text ends at 255 bytes.
    let whole = format!("RESOURCE_LOCKED - {LOCKED}");
    (405, whole[..whole.len().min(255)].split_once(" - ").unwrap().1.to_owned())
}

#[test]
fn a_queue_is_declared_counted_purged_and_deleted() {
    let mut world = World::new();
    let at = world.client();
    assert_eq!(declared(&world.one(at, &declare(1, "q", DURABLE))), ("q".into(), 0, 0));
    for _ in 0..3 {
        world.send(at, &publish(1, ("", "q"), 0, TRANSIENT, b"x"));
    }
    world.send(at, &get(1, "q", false));
    world.take(at);
    assert_eq!(declared(&world.one(at, &declare(1, "q", DURABLE))), ("q".into(), 2, 0));
    assert_eq!(declared(&world.one(at, &declare(1, "q", PASSIVE))), ("q".into(), 2, 0));
    assert_eq!(declared(&world.one(at, &declare(1, "", PASSIVE))).0, "q", "the one declared last");
    let purge = method(1, (50, 30), |out| out.extend_from_slice(&[0, 0, 1, b'q', 0]));
    assert_eq!(world.one(at, &purge).fields, [0, 0, 0, 2]);
    world.send(at, &publish(1, ("", "q"), 0, TRANSIENT, b"x"));
    assert_eq!(world.one(at, &delete(1, "q", 0)).fields, [0, 0, 0, 1]);
    assert_eq!(world.one(at, &delete(1, "q", 0)).fields, [0, 0, 0, 0], "a missing queue is no error");
}

#[test]
fn what_is_missing_is_404() {
    let mut world = World::new();
    let at = world.client();
    let no_queue = said(404, "no queue 'q' in vhost '/'");
    assert_eq!(refused(&mut world, at, &declare(1, "q", PASSIVE)), no_queue);
    assert_eq!(refused(&mut world, at, &get(1, "q", true)), no_queue);
    assert_eq!(refused(&mut world, at, &consume(1, "q", "", 0)), no_queue);
    assert_eq!(refused(&mut world, at, &bind(1, "q", "amq.direct", "k")), no_queue);
    assert_eq!(refused(&mut world, at, &method(1, (50, 30), |out| out.extend_from_slice(b"\0\0\x01q\0"))), no_queue);
    let no_exchange = said(404, "no exchange 'x' in vhost '/'");
    assert_eq!(refused(&mut world, at, &declare_exchange(1, "x", "direct", PASSIVE)), no_exchange);
    assert_eq!(refused(&mut world, at, &publish(1, ("x", "k"), 0, TRANSIENT, b"")), no_exchange);
    world.send(at, &declare(1, "q", 0));
    world.take(at);
    assert_eq!(refused(&mut world, at, &bind(1, "q", "x", "k")), no_exchange);
    assert_eq!(refused(&mut world, at, &get(1, "", true)), said(404, "no previously declared queue"));
}

#[test]
fn a_second_declaration_must_be_equal() {
    let mut world = World::new();
    let at = world.client();
    world.send(at, &declare(1, "q", DURABLE));
    world.take(at);
    let differs = |what: &str, got: &str, is: &str| {
        said(
            406,
            &format!("inequivalent arg '{what}' for queue 'q' in vhost '/': received '{got}' but current is '{is}'"),
        )
    };
    assert_eq!(refused(&mut world, at, &declare(1, "q", 0)), differs("durable", "false", "true"));
    let auto_delete = declare(1, "q", DURABLE | AUTO_DELETE);
    assert_eq!(refused(&mut world, at, &auto_delete), differs("auto_delete", "true", "false"));
    assert_eq!(refused(&mut world, at, &declare(1, "q", DURABLE | EXCLUSIVE)), locked());

    world.send(at, &declare_exchange(1, "x", "direct", DURABLE));
    world.take(at);
    let differs = |what: &str, got: &str, is: &str| {
        let text =
            format!("inequivalent arg '{what}' for exchange 'x' in vhost '/': received '{got}' but current is '{is}'");
        said(406, &text)
    };
    let fanout = declare_exchange(1, "x", "fanout", DURABLE);
    assert_eq!(refused(&mut world, at, &fanout), differs("type", "fanout", "direct"));
    let transient = declare_exchange(1, "x", "direct", 0);
    assert_eq!(refused(&mut world, at, &transient), differs("durable", "false", "true"));
    assert_eq!(world.one(at, &declare_exchange(1, "x", "direct", DURABLE)).method, (40, 11));
    assert_eq!(world.one(at, &declare_exchange(1, "amq.direct", "direct", DURABLE)).method, (40, 11));
}

#[test]
fn reserved_and_unknown_things_are_refused() {
    let mut world = World::new();
    let at = world.client();
    let queue = said(403, "queue name 'amq.foo' contains reserved prefix 'amq.*'");
    assert_eq!(refused(&mut world, at, &declare(1, "amq.foo", 0)), queue);
    let exchange = said(403, "exchange name 'amq.foo' contains reserved prefix 'amq.*'");
    assert_eq!(refused(&mut world, at, &declare_exchange(1, "amq.foo", "direct", 0)), exchange);
    let system = said(403, "deletion of system exchange 'amq.direct' in vhost '/' not allowed");
    assert_eq!(refused(&mut world, at, &delete_exchange(1, "amq.direct")), system);
    let default = said(403, "operation not permitted on the default exchange");
    assert_eq!(refused(&mut world, at, &declare_exchange(1, "", "direct", 0)), default);
    assert_eq!(refused(&mut world, at, &delete_exchange(1, "")), default);
    world.send(at, &declare(1, "q", 0));
    world.take(at);
    assert_eq!(refused(&mut world, at, &bind(1, "q", "", "k")), default);
    let unknown = said(406, "unknown exchange type 'z'");
    assert_eq!(refused(&mut world, at, &declare_exchange(1, "x", "z", 0)), unknown);
}

#[test]
fn a_bad_argument_closes_the_channel_and_an_unknown_one_is_ignored() {
    let mut world = World::new();
    let at = world.client();
    let ttl = declare_with(1, "q", 0, b"\x0dx-message-ttlI\xff\xff\xff\xff");
    let text = "invalid arg 'x-message-ttl' for queue 'q' in vhost '/': {value_negative,-1}";
    assert_eq!(refused(&mut world, at, &ttl), said(406, text));
    let unknown = declare_with(1, "q", 0, b"\x05x-fooI\0\0\x03\xe8\x0cx-queue-typeS\0\0\0\x07classic");
    assert_eq!(declared(&world.one(at, &unknown)).0, "q");
    assert_eq!(declared(&world.one(at, &declare(1, "q", 0))).0, "q", "unknown arguments are not compared");
}

#[test]
fn an_exclusive_queue_is_locked_to_others_and_goes_with_its_connection() {
    let mut world = World::new();
    let (owner, other) = (world.client(), world.client());
    world.send(owner, &declare(1, "q", EXCLUSIVE));
    world.take(owner);
    assert_eq!(refused(&mut world, other, &declare(1, "q", DURABLE)), locked());
    assert_eq!(refused(&mut world, other, &declare(1, "q", PASSIVE)), locked());
    assert_eq!(refused(&mut world, other, &get(1, "q", true)), locked());
    assert_eq!(refused(&mut world, other, &delete(1, "q", 0)), locked());
    assert_eq!(refused(&mut world, owner, &declare(1, "q", 0)), locked(), "its owner too may not change it");
    assert_eq!(declared(&world.one(owner, &declare(1, "q", EXCLUSIVE))).0, "q");
    assert_eq!(world.one(owner, &close_connection()).method, (10, 51));
    assert_eq!(declared(&world.one(other, &declare(1, "q", DURABLE))).0, "q");
}

#[test]
fn an_exclusive_queue_goes_with_a_lost_connection() {
    let mut world = World::new();
    let (owner, other) = (world.client(), world.client());
    world.send(owner, &declare(1, "q", EXCLUSIVE));
    world.drop_link(owner);
    let missing = said(404, "no queue 'q' in vhost '/'");
    assert_eq!(refused(&mut world, other, &declare(1, "q", PASSIVE)), missing);
}

#[test]
fn the_server_names_queues_and_remembers_the_last() {
    let mut world = World::new();
    let at = world.client();
    let first = declared(&world.one(at, &declare(1, "", EXCLUSIVE))).0;
    let second = declared(&world.one(at, &declare(1, "", EXCLUSIVE))).0;
    assert!(first.starts_with("amq.gen-") && first.len() == 30 && first != second);
    world.send(at, &bind(1, "", "amq.direct", ""));
    world.send(at, &publish(1, ("amq.direct", &second), 0, TRANSIENT, b"to the last"));
    world.take(at);
    assert_eq!(bodies(&world.ask(at, &get(1, "", true))), ["to the last"]);
}

#[test]
fn direct_and_fanout_route_by_their_bindings_once_to_each_queue() {
    let mut world = World::new();
    let at = world.client();
    for queue in ["a", "b"] {
        world.send(at, &declare(1, queue, 0));
        world.send(at, &bind(1, queue, "amq.fanout", "any"));
        world.send(at, &bind(1, queue, "amq.fanout", "other"));
    }
    world.send(at, &bind(1, "a", "amq.direct", "k"));
    world.send(at, &bind(1, "a", "amq.direct", "k"));
    world.send(at, &publish(1, ("amq.fanout", "x"), 0, TRANSIENT, b"fanout"));
    world.send(at, &publish(1, ("amq.direct", "k"), 0, TRANSIENT, b"direct"));
    world.send(at, &publish(1, ("amq.direct", "K"), 0, TRANSIENT, b"nowhere"));
    world.take(at);
    for (queue, expected) in [("a", vec!["fanout", "direct"]), ("b", vec!["fanout"])] {
        let mut got = Vec::new();
        while let [body] = bodies(&world.ask(at, &get(1, queue, true))).as_slice() {
            got.push(body.clone());
        }
        assert_eq!(got, expected);
    }
    let unbind = method(1, (50, 50), |out| out.extend_from_slice(b"\0\0\x01a\x0aamq.direct\x01k\0\0\0\0"));
    assert_eq!(world.one(at, &unbind).method, (50, 51));
    assert_eq!(world.one(at, &unbind).method, (50, 51), "twice is no error");
    world.send(at, &publish(1, ("amq.direct", "k"), 1, TRANSIENT, b"gone"));
    assert_eq!(world.take(at)[0].method, (60, 50));
}

#[test]
fn deletes_may_ask_for_unused_and_empty() {
    let mut world = World::new();
    let at = world.client();
    world.send(at, &[declare(1, "q", 0), publish(1, ("", "q"), 0, TRANSIENT, b"x")].concat());
    world.take(at);
    assert_eq!(refused(&mut world, at, &delete(1, "q", 2)), said(406, "queue 'q' in vhost '/' not empty"));
    world.send(at, &[open_channel(2), consume(2, "q", "t", 0)].concat());
    world.take(at);
    assert_eq!(refused(&mut world, at, &delete(1, "q", 1)), said(406, "queue 'q' in vhost '/' in use"));
}

#[test]
fn a_deleted_queue_cancels_its_consumers_with_notice() {
    let mut world = World::new();
    let (at, other) = (world.client(), world.client());
    world.send(at, &[declare(1, "q", 0), consume(1, "q", "t", 0)].concat());
    world.take(at);
    assert_eq!(world.one(other, &delete(1, "q", 0)).method, (50, 41));
    let got = world.take(at);
    assert_eq!((got[0].method, got[0].fields.as_slice()), ((60, 30), &b"\x01t\x01"[..]));
    assert_eq!(world.one(at, &cancel(1, "t")).method, (60, 31), "a later cancel is still answered");
    assert_eq!(world.one(other, &delete(1, "q", 0)).fields, [0; 4]);

    let quiet = world.connect_from("127.0.0.1:9");
    world.open(quiet, false);
    world.send(quiet, &[open_channel(1), declare(1, "q", 0), consume(1, "q", "t", 0)].concat());
    world.take(quiet);
    world.send(other, &delete(1, "q", 0));
    assert!(world.take(quiet).is_empty(), "who has not shown the capability is told nothing");
}

#[test]
fn an_auto_delete_queue_goes_after_its_last_consumer() {
    let mut world = World::new();
    let at = world.client();
    world.send(at, &[declare(1, "q", AUTO_DELETE), consume(1, "q", "a", 0), consume(1, "q", "b", 0)].concat());
    world.send(at, &cancel(1, "a"));
    world.take(at);
    assert_eq!(declared(&world.one(at, &declare(1, "q", PASSIVE))), ("q".into(), 0, 1));
    world.send(at, &cancel(1, "b"));
    world.take(at);
    assert_eq!(refused(&mut world, at, &declare(1, "q", PASSIVE)).0, 404);
}

#[test]
fn durable_things_survive_a_restart() {
    let mut world = World::new();
    let at = world.client();
    world.send(
        at,
        &[declare(1, "d", DURABLE), declare(1, "t", 0), declare_exchange(1, "x", "fanout", DURABLE)].concat(),
    );
    world.send(at, &bind(1, "d", "x", ""));
    world.send(at, &[confirm(1), publish(1, ("x", ""), 0, PERSISTENT, b"kept")].concat());
    assert_eq!(world.take(at).last().unwrap().method, (60, 80));
    let mut world = World::on(world.disk.crash(7), options());
    let at = world.client();
    assert_eq!(declared(&world.one(at, &declare(1, "d", PASSIVE))), ("d".into(), 1, 0));
    assert_eq!(refused(&mut world, at, &declare(1, "t", PASSIVE)).0, 404);
    assert_eq!(bodies(&world.ask(at, &get(1, "d", true))), ["kept"]);
    world.send(at, &publish(1, ("x", ""), 1, TRANSIENT, b"again"));
    assert_eq!(bodies(&world.ask(at, &get(1, "d", true))), ["again"]);
}

#[test]
fn a_declaration_is_answered_only_when_it_is_on_disk_and_in_order() {
    let mut world = World::new();
    let at = world.client();
    world.jobs = false;
    world.send(at, &[declare(1, "q", DURABLE), consume(1, "q", "t", 0), open_channel(2)].concat());
    let early: Vec<_> = world.take(at).iter().map(|got| (got.channel, got.method)).collect();
    assert_eq!(early, [(2, (20, 11))], "other channels are not held up");
    world.send(at, &publish(2, ("", "q"), 0, TRANSIENT, b"x"));
    assert!(world.take(at).is_empty());
    world.jobs = true;
    world.run();
    let late: Vec<_> = world.take(at).iter().filter(|got| got.method != (0, 0)).map(|got| got.method).collect();
    assert_eq!(late, [(50, 11), (60, 21), (60, 60)]);
}
