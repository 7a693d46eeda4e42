//! Exchanges that delay: when a message comes, what it says then, what is refused, what a kill and a deletion leave.

use crate::rig::*;
use amqp::wire::{props, table};
use broker::topic::NewTopic;
use model::{Header, HeaderValue, Name};

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
fn a_topic_bound_to_a_delayed_exchange_is_refused_by_name() {
    let (mut world, at) = world();
    let (tenant, name) = (Name::fixed("/"), Name::fixed("events"));
    let topic = NewTopic { tenant, name, partitions: 1, config: vec![], validate_only: false };
    world.broker.create_topic(&topic, world.now).unwrap();
    world.run();
    let close = world.one(at, &bind_exchange(1, 30, ("late", "events"), "k")).close();
    let text = "a binding of a topic to exchange 'late' of type 'x-delayed-message' is not served yet";
    assert_eq!((close.0, close.1), (540, format!("NOT_IMPLEMENTED - {text}")));
}

/// The table of a declaration.
fn entries(headers: &[Header]) -> Vec<u8> {
    let mut out = Vec::new();
    table::put(&mut out, headers);
    out.split_off(4)
}

/// Time goes by in which nobody asks for anything.
fn idle(world: &mut World) {
    world.now.mono.0 += 300_000_000;
    world.now.wall.0 += 300;
}

/// After a power cut, at the same moment.
fn cut(world: &World, seed: u64) -> World {
    let now = world.now.wall.0;
    let mut world = World::on(world.disk.crash(seed), options());
    let since = (now - world.now.wall.0) as u64;
    pass(&mut world, since);
    world
}

#[test]
fn what_comes_by_a_binding_between_exchanges_waits_and_others_have_it_at_once() {
    let (mut world, at) = world();
    world.send(at, &declare(1, "other", DURABLE));
    world.send(at, &bind(1, "other", "amq.direct", "k"));
    world.send(at, &bind_exchange(1, 30, ("late", "amq.direct"), "k"));
    world.ask(at, &confirm(1));
    idle(&mut world);
    let sent = publish(1, ("amq.direct", "k"), 1, &props_of(&[int("x-delay", 100)]), b"x");
    assert_eq!(world.ask(at, &sent).iter().map(|got| got.method).collect::<Vec<_>>(), [(60, 80)]);
    for seed in 0..10 {
        let mut world = cut(&world, seed);
        let at = world.client();
        assert_eq!(bodies(&world.ask(at, &get(1, "other", true))), ["x"]);
        pass(&mut world, 99);
        assert_eq!(got(&mut world, at), []);
        pass(&mut world, 1);
        assert_eq!(got(&mut world, at), pairs(&[("x", -100)]));
        pass(&mut world, 1000);
        assert_eq!(got(&mut world, at), [], "once");
    }
}

#[test]
fn what_only_waits_is_not_returned_and_a_chain_of_delayed_exchanges_delays_once() {
    let (mut world, at) = world();
    let first = declare_exchange_with(1, ("first", KIND), DURABLE, &[text_header("x-delayed-type", "fanout")]);
    world.send(at, &first);
    world.send(at, &bind_exchange(1, 30, ("late", "first"), ""));
    let sent = publish(1, ("first", "k"), 1, &props_of(&[int("x-delay", 100)]), b"x");
    world.take(at);
    assert_eq!(world.ask(at, &sent), []);
    pass(&mut world, 100);
    assert_eq!(got(&mut world, at), pairs(&[("x", -100)]));
}

#[test]
fn a_delay_in_a_transaction_begins_with_the_commit_and_a_power_cut_leaves_all_or_nothing() {
    let (mut world, at) = world();
    world.ask(at, &method(1, (90, 10), |_| {}));
    put(&mut world, at, 100, "rolled back");
    world.ask(at, &method(1, (90, 30), |_| {}));
    for (ms, body) in [(200, "b"), (100, "a"), (0, "now"), (100, "a2")] {
        assert_eq!(put(&mut world, at, ms, body), []);
    }
    pass(&mut world, 500);
    assert_eq!(world.broker.delayed(), 0);
    world.jobs = false;
    idle(&mut world);
    assert_eq!(world.ask(at, &method(1, (90, 20), |_| {})), [], "it waits for the sync");
    for seed in 0..20 {
        let mut world = cut(&world, seed);
        pass(&mut world, 1000);
        let at = world.client();
        let all = got(&mut world, at);
        assert!(all.is_empty() || all.len() == 4, "seed {seed}: {all:?}");
    }
    world.jobs = true;
    world.run();
    assert_eq!(world.take(at)[0].method, (90, 21));
    assert_eq!(got(&mut world, at), pairs(&[("now", 0)]));
    pass(&mut world, 100);
    assert_eq!(got(&mut world, at), pairs(&[("a", -100), ("a2", -100)]));
    pass(&mut world, 100);
    assert_eq!(got(&mut world, at), pairs(&[("b", -200)]));
}

#[test]
fn a_dead_letter_waits_and_a_power_cut_leaves_it_there_or_in_its_queue() {
    let (mut world, at) = world();
    let dead = [text_header("x-dead-letter-exchange", "late"), text_header("x-dead-letter-routing-key", "k")];
    world.send(at, &declare_with(1, "src", DURABLE, &entries(&dead)));
    world.ask(at, &confirm(1));
    for body in ["1", "2"] {
        world.ask(at, &publish(1, ("", "src"), 0, &props_of(&[int("x-delay", 100)]), body.as_bytes()));
        world.ask(at, &get(1, "src", false));
    }
    assert_eq!(world.ask(at, &nack(1, 2, 1)), []);
    pass(&mut world, 0);
    assert_eq!(world.broker.delayed(), 2);
    for seed in 0..20 {
        let mut world = cut(&world, seed);
        pass(&mut world, 200);
        let at = world.client();
        let mut all = got(&mut world, at).into_iter().map(|(body, _)| body).collect::<Vec<_>>();
        loop {
            let found = bodies(&world.ask(at, &get(1, "src", true)));
            if found.is_empty() {
                break;
            }
            all.extend(found);
        }
        all.sort();
        assert_eq!(all, ["1", "2"], "seed {seed}");
    }
    pass(&mut world, 99);
    assert_eq!(got(&mut world, at), []);
    pass(&mut world, 1);
    assert_eq!(got(&mut world, at), pairs(&[("1", -100), ("2", -100)]));
}

#[test]
fn what_an_alternate_exchange_gets_waits_with_all_its_routes() {
    let (mut world, at) = world();
    let first = declare_exchange_with(1, ("first", "direct"), DURABLE, &[text_header("alternate-exchange", "late")]);
    world.send(at, &first);
    let mut routes = (0..300).map(|number| HeaderValue::Text(format!("no{number}"))).collect::<Vec<_>>();
    routes.push(HeaderValue::Text("k".into()));
    let headers = [int("x-delay", 100), Header { name: "CC".into(), value: HeaderValue::List(routes) }];
    world.take(at);
    assert_eq!(world.ask(at, &publish(1, ("first", "none"), 1, &props_of(&headers), b"x")), []);
    pass(&mut world, 99);
    assert_eq!(got(&mut world, at), []);
    pass(&mut world, 1);
    assert_eq!(got(&mut world, at), pairs(&[("x", -100)]));
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
