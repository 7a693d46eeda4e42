//! Exchanges that delay: when a message comes, what it says then, what is refused, what a kill and a deletion leave.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod rig;

use amqp::wire::{props, table};
use model::{Header, HeaderValue};
use rig::*;

const KIND: &str = "x-delayed-message";

fn int(name: &str, value: i64) -> Header {
    Header { name: name.into(), value: HeaderValue::Int(value) }
}

/// Persistent, with headers.
fn props_of(headers: &[Header]) -> Vec<u8> {
    let mut out = vec![0x30, 0];
    table::put(&mut out, headers);
    out.push(2);
    out
}

fn delayed(kind: &str) -> Vec<u8> {
    declare_exchange_with(1, ("late", KIND), DURABLE, &[text_header("x-delayed-type", kind)])
}

fn put(world: &mut World, at: usize, ms: i64, body: &str) -> Vec<Got> {
    world.ask(at, &publish(1, ("late", "k"), 1, &props_of(&[int("x-delay", ms)]), body.as_bytes()))
}

fn world() -> (World, usize) {
    let mut world = World::new();
    let at = world.client();
    world.send(at, &declare(1, "q", DURABLE));
    assert_eq!(world.ask(at, &delayed("direct")).last().unwrap().method, (40, 11));
    assert_eq!(world.one(at, &bind(1, "q", "late", "k")).method, (50, 21));
    (world, at)
}

fn pass(world: &mut World, ms: u64) {
    let end = world.now.wall.0 + ms as i64;
    world.pass(ms);
    world.broker.tick(world.now);
    world.run();
    assert_eq!(world.now.wall.0, end);
}

fn got(world: &mut World, at: usize) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    loop {
        let frames = world.ask(at, &get(1, "q", true));
        if frames[0].method != (60, 71) {
            return all;
        }
        let content = contents(&frames).remove(0);
        let headers = table::read(props::read(&content.props).unwrap().headers.unwrap()).unwrap();
        let delay = headers.iter().find(|header| header.name == "x-delay").unwrap();
        let HeaderValue::Int(ms) = delay.value else { panic!("{delay:?}") };
        all.push((String::from_utf8(content.body).unwrap(), ms));
    }
}

fn pairs(all: &[(&str, i64)]) -> Vec<(String, i64)> {
    all.iter().map(|(body, ms)| ((*body).to_owned(), *ms)).collect()
}

#[test]
fn a_short_delay_does_not_wait_behind_a_long_one_and_comes_in_its_millisecond() {
    let (mut world, at) = world();
    world.ask(at, &confirm(1));
    for (ms, body) in [(5000, "long"), (100, "short")] {
        let frames = put(&mut world, at, ms, body);
        assert_eq!(frames.iter().map(|got| got.method).collect::<Vec<_>>(), [(60, 80)], "confirmed, not returned");
    }
    pass(&mut world, 99);
    assert_eq!(got(&mut world, at), []);
    pass(&mut world, 1);
    assert_eq!(got(&mut world, at), pairs(&[("short", -100)]));
    pass(&mut world, 4899);
    assert_eq!(got(&mut world, at), []);
    pass(&mut world, 1);
    assert_eq!(got(&mut world, at), pairs(&[("long", -5000)]));
}

#[test]
fn a_confirmation_waits_until_the_delayed_message_is_synced() {
    let (mut world, at) = world();
    world.ask(at, &confirm(1));
    world.jobs = false;
    assert_eq!(put(&mut world, at, 100, "x"), []);
    world.jobs = true;
    world.run();
    assert_eq!(world.take(at)[0].method, (60, 80));
}

#[test]
fn what_asks_for_no_delay_is_routed_at_once_as_it_is() {
    let (mut world, at) = world();
    for ms in [0, -7] {
        assert_eq!(put(&mut world, at, ms, "now"), []);
    }
    assert_eq!(got(&mut world, at), pairs(&[("now", 0), ("now", -7)]));
    let bare = publish(1, ("late", "elsewhere"), 1, PERSISTENT, b"x");
    assert_eq!(world.ask(at, &bare)[0].method, (60, 50), "mandatory, routed at once: returned");
    let other = publish(1, ("", "q"), 0, &props_of(&[int("x-delay", 5000)]), b"not of that kind");
    world.send(at, &other);
    assert_eq!(got(&mut world, at), pairs(&[("not of that kind", 5000)]));
}

#[test]
fn bad_declarations_and_delays_are_refused_by_name() {
    let (mut world, at) = world();
    let text = "Invalid argument, 'x-delayed-type' must be an existing exchange type";
    for table in [vec![], vec![int("x-delayed-type", 1)], vec![text_header("x-delayed-type", KIND)]] {
        let asked = declare_exchange_with(1, ("other", KIND), DURABLE, &table);
        assert_eq!(refused(&mut world, at, &asked), said(406, text));
    }
    let asked = declare_exchange_with(1, ("other", KIND), DURABLE, &[text_header("x-delayed-type", "no")]);
    assert_eq!(refused(&mut world, at, &asked), said(406, "unknown exchange type 'no'"));
    assert_eq!(world.one(at, &delayed("direct")).method, (40, 11), "the same again");
    let text = "inequivalent arg 'x-delayed-type' for exchange 'late' in vhost '/': received the value 'topic' of type \
                'longstr' but current is the value 'direct' of type 'longstr'";
    assert_eq!(refused(&mut world, at, &delayed("topic")), said(406, text));
    let text = "inequivalent arg 'type' for exchange 'late' in vhost '/': received 'direct' but current is \
                'x-delayed-message'";
    let asked = declare_exchange(1, "late", "direct", DURABLE);
    assert_eq!(refused(&mut world, at, &asked), said(406, text));
    for value in [HeaderValue::Text("soon".into()), HeaderValue::Int(315_360_000_001)] {
        let props = props_of(&[Header { name: "x-delay".into(), value }]);
        assert_eq!(refused(&mut world, at, &publish(1, ("late", "k"), 0, &props, b"x")).0, 406);
    }
}

#[test]
fn what_would_not_be_delayed_is_refused_by_name() {
    let (mut world, at) = world();
    let asked = bind_exchange(1, 30, ("late", "amq.direct"), "k");
    let text = "a binding to exchange 'late' of type 'x-delayed-message' is not served yet";
    let close = world.one(at, &asked).close();
    assert_eq!((close.0, close.1), (540, format!("NOT_IMPLEMENTED - {text}")));
    let at = world.client();
    world.ask(at, &method(1, (90, 10), |_| {}));
    assert_eq!(put(&mut world, at, 100, "x")[0].code(), 540);
}

#[test]
fn a_kill_leaves_what_waits_and_its_moment() {
    let (mut world, at) = world();
    world.ask(at, &confirm(1));
    put(&mut world, at, 1000, "x");
    pass(&mut world, 400);
    let now = world.now.wall.0;
    let mut world = World::on(world.disk.kill(), options());
    let since = (now - world.now.wall.0) as u64;
    pass(&mut world, since);
    let at = world.client();
    pass(&mut world, 599);
    assert_eq!(got(&mut world, at), []);
    pass(&mut world, 1);
    assert_eq!(got(&mut world, at), pairs(&[("x", -1000)]));
}

#[test]
fn what_waits_goes_with_its_exchange_and_not_to_a_later_one_of_the_name() {
    let (mut world, at) = world();
    put(&mut world, at, 100, "of the first");
    world.send(at, &delete_exchange(1, "late"));
    world.send(at, &delayed("direct"));
    world.send(at, &bind(1, "q", "late", "k"));
    world.take(at);
    put(&mut world, at, 100, "of the second");
    pass(&mut world, 100);
    assert_eq!(got(&mut world, at), pairs(&[("of the second", -100)]));
    assert_eq!(world.broker.delayed(), 0);
}
