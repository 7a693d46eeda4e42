//! Exchanges of every kind, bindings between them, copies: who gets a message, and what is refused (feature R4).

use crate::rig::*;
use amqp::wire::{props, table};
use model::{Header, HeaderValue};

fn world_with_queues(queues: &[&str]) -> (World, usize) {
    let mut world = World::new();
    let at = world.client();
    for queue in queues {
        world.send(at, &declare(1, queue, DURABLE));
    }
    world.take(at);
    (world, at)
}

fn got(world: &mut World, at: usize, queue: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let frames = world.ask(at, &get(1, queue, true));
        if frames[0].method != (60, 71) {
            return all;
        }
        all.extend(bodies(&frames));
    }
}

fn headers_props(headers: &[Header]) -> Vec<u8> {
    let mut out = vec![0x20, 0];
    table::put(&mut out, headers);
    out
}

fn list(name: &str, texts: &[&str]) -> Header {
    let texts = texts.iter().map(|text| HeaderValue::Text((*text).into())).collect();
    Header { name: name.into(), value: HeaderValue::List(texts) }
}

#[test]
fn a_topic_exchange_routes_by_words() {
    let (mut world, at) = world_with_queues(&["q1", "q2", "q3"]);
    assert_eq!(world.one(at, &declare_exchange(1, "t", "topic", DURABLE)).method, (40, 11));
    for (queue, key) in [("q1", "a.*.c"), ("q2", "a.#"), ("q3", "#.c"), ("q3", "a.b.c")] {
        assert_eq!(world.one(at, &bind(1, queue, "t", key)).method, (50, 21));
    }
    for key in ["a", "a.b", "a.b.c", "a.c", "a.b.b.c", "c", "b"] {
        world.send(at, &publish(1, ("t", key), 0, TRANSIENT, key.as_bytes()));
    }
    assert_eq!(got(&mut world, at, "q1"), ["a.b.c"]);
    assert_eq!(got(&mut world, at, "q2"), ["a", "a.b", "a.b.c", "a.c", "a.b.b.c"]);
    assert_eq!(got(&mut world, at, "q3"), ["a.b.c", "a.c", "a.b.b.c", "c"]);
    assert_eq!(world.one(at, &bind(1, "q1", "amq.topic", "x.#")).method, (50, 21));
    world.send(at, &publish(1, ("amq.topic", "x"), 0, TRANSIENT, b"built in"));
    assert_eq!(got(&mut world, at, "q1"), ["built in"]);
}

#[test]
fn a_headers_exchange_routes_by_headers_and_a_bad_match_is_refused() {
    let (mut world, at) = world_with_queues(&["all", "any", "all-with-x"]);
    for kind in ["all", "any", "all-with-x"] {
        let n = Header { name: "n".into(), value: HeaderValue::Int(7) };
        let table = [text_header("x-match", kind), text_header("a", "1"), n, text_header("x-b", "2")];
        assert_eq!(world.one(at, &bind_with(1, kind, ("amq.headers", ""), &table)).method, (50, 21));
    }
    let n = Header { name: "n".into(), value: HeaderValue::Int(7) };
    for (headers, body) in [
        (vec![text_header("a", "1"), n.clone()], "a n"),
        (vec![text_header("a", "1")], "a"),
        (vec![text_header("n", "7")], "no number"),
        (vec![text_header("a", "1"), n, text_header("x-b", "2")], "a n x"),
    ] {
        let props = headers_props(&headers);
        world.send(at, &publish(1, ("amq.headers", "ignored"), 0, &props, body.as_bytes()));
    }
    world.send(at, &publish(1, ("amq.headers", ""), 0, TRANSIENT, b"none"));
    assert_eq!(got(&mut world, at, "all"), ["a n", "a n x"]);
    assert_eq!(got(&mut world, at, "any"), ["a n", "a", "a n x"]);
    assert_eq!(got(&mut world, at, "all-with-x"), ["a n x"]);
    let bogus = bind_with(1, "all", ("amq.match", ""), &[text_header("x-match", "bogus")]);
    let why = "Invalid x-match field value <<\"bogus\">>; expected all, any, all-with-x, or any-with-x";
    assert_eq!(refused(&mut world, at, &bogus), said(406, why));
    let anywhere_else = bind_with(1, "all", ("amq.direct", ""), &[text_header("x-match", "bogus")]);
    assert_eq!(world.one(at, &anywhere_else).method, (50, 21), "elsewhere it says nothing");
}

#[test]
fn exchanges_are_bound_to_exchanges_and_unbound_again() {
    let (mut world, at) = world_with_queues(&["q"]);
    world.send(at, &declare_exchange(1, "from", "topic", 0));
    world.send(at, &declare_exchange(1, "to", "fanout", INTERNAL));
    world.send(at, &bind(1, "q", "to", ""));
    world.take(at);
    assert_eq!(world.one(at, &bind_exchange(1, 30, ("to", "from"), "k.*")).method, (40, 31));
    let from_publish = publish(1, ("from", "k.1"), 0, TRANSIENT, b"through");
    world.send(at, &from_publish);
    assert_eq!(got(&mut world, at, "q"), ["through"]);
    let internal = said(403, "cannot publish to internal exchange 'to' in vhost '/'");
    assert_eq!(refused(&mut world, at, &publish(1, ("to", ""), 0, TRANSIENT, b"x")), internal);
    assert_eq!(world.one(at, &bind_exchange(1, 40, ("to", "from"), "k.*")).method, (40, 51));
    assert_eq!(world.one(at, &bind_exchange(1, 40, ("no", "from"), "k.*")).method, (40, 51));
    world.send(at, &from_publish);
    assert!(got(&mut world, at, "q").is_empty());
    let missing = said(404, "no exchange 'no' in vhost '/'");
    assert_eq!(refused(&mut world, at, &bind_exchange(1, 30, ("no", "from"), "")), missing);
    assert_eq!(refused(&mut world, at, &bind_exchange(1, 30, ("to", "no"), "")), missing);
    let default = said(403, "operation not permitted on the default exchange");
    for ends in [("", "from"), ("to", "")] {
        assert_eq!(refused(&mut world, at, &bind_exchange(1, 30, ends, "")), default);
    }
}

#[test]
fn an_alternate_exchange_takes_the_rest_and_is_compared_on_redeclaring() {
    let (mut world, at) = world_with_queues(&["q", "rest"]);
    let with =
        |alternate| declare_exchange_with(1, ("x", "direct"), DURABLE, &[text_header("alternate-exchange", alternate)]);
    world.send(at, &declare_exchange(1, "ae", "fanout", DURABLE));
    world.take(at);
    assert_eq!(world.one(at, &with("ae")).method, (40, 11));
    assert_eq!(world.one(at, &with("ae")).method, (40, 11));
    world.send(at, &bind(1, "q", "x", "k"));
    world.send(at, &bind(1, "rest", "ae", ""));
    world.send(at, &publish(1, ("x", "k"), 1, TRANSIENT, b"1"));
    assert!(world.ask(at, &publish(1, ("x", "other"), 1, TRANSIENT, b"2")).len() <= 2, "nothing is returned");
    assert_eq!(got(&mut world, at, "q"), ["1"]);
    let rest = world.ask(at, &get(1, "rest", true));
    assert_eq!(bodies(&rest), ["2"]);
    assert_eq!(&rest[0].fields[9..], b"\x01x\x05other\0\0\0\0", "it keeps the first exchange's name");
    let differs = |received: &str, current: &str| {
        let text = format!(
            "inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received {received} but current is \
             {current}"
        );
        said(406, &text)
    };
    let none = refused(&mut world, at, &declare_exchange(1, "x", "direct", DURABLE));
    assert_eq!(none, differs("none", "the value 'ae' of type 'longstr'"));
    let other = refused(&mut world, at, &with("b"));
    assert_eq!(other, differs("the value 'b' of type 'longstr'", "the value 'ae' of type 'longstr'"));
}

#[test]
fn copies_go_to_further_keys_and_blind_ones_are_not_shown() {
    let (mut world, at) = world_with_queues(&["q1", "q2", "q3"]);
    for queue in ["q1", "q2", "q3"] {
        world.send(at, &bind(1, queue, "amq.direct", queue));
    }
    world.take(at);
    for exchange in ["", "amq.direct"] {
        let props = headers_props(&[list("CC", &["q2", "q1"]), list("BCC", &["q3", "no"]), text_header("a", "1")]);
        world.send(at, &publish(1, (exchange, "q1"), 0, &props, b"x"));
        for queue in ["q1", "q2", "q3"] {
            let frames = world.ask(at, &get(1, queue, true));
            let message = &contents(&frames)[0];
            let shown = table::read(props::read(&message.props).unwrap().headers.unwrap()).unwrap();
            assert_eq!(shown, [list("CC", &["q2", "q1"]), text_header("a", "1")]);
            assert!(frames[0].fields.ends_with(b"\x02q1\0\0\0\0"), "the first key is shown to all");
            assert!(got(&mut world, at, queue).is_empty(), "once each");
        }
        world.send(at, &publish(1, (exchange, "q1"), 0, TRANSIENT, b"no copies"));
        assert_eq!(got(&mut world, at, "q1"), ["no copies"]);
        assert!(got(&mut world, at, "q2").is_empty());
    }
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    let (mut world, at) = world_with_queues(&["q"]);
    world.send(at, &declare_exchange(1, "x", "topic", AUTO_DELETE_EXCHANGE));
    world.send(at, &bind(1, "q", "x", "#"));
    world.send(at, &delete(1, "q", 0));
    world.take(at);
    let missing = said(404, "no exchange 'x' in vhost '/'");
    assert_eq!(refused(&mut world, at, &declare_exchange(1, "x", "topic", PASSIVE)), missing);
}
