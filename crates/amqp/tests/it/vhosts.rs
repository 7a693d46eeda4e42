//! Virtual hosts know nothing of each other: the same names stand for different things in each.

use crate::rig::*;
use amqp::wire::{short, table};
use broker::access::Tenant;
use broker::queue::QueueKind;
use model::ByteReader;

const ALL: [&str; 3] = [".*"; 3];

/// Clients of one user in `/` and in `t`.
fn both() -> (World, [usize; 2]) {
    let mut world = World::new();
    world.make("u", "t");
    world.permit("u", "t", ALL);
    world.permit("u", "/", ALL);
    let clients = ["/", "t"].map(|vhost| world.client_of("u", vhost));
    (world, clients)
}

#[test]
fn queues_and_exchanges_of_one_name_are_two_in_two_virtual_hosts() {
    let (mut world, [root, t]) = both();
    for at in [root, t] {
        world.ask(at, &declare(1, "q", DURABLE));
        world.ask(at, &declare_exchange(1, "e", "direct", DURABLE));
    }
    world.ask(root, &bind(1, "q", "e", "k"));
    for (at, text) in [(root, "from /"), (t, "from t")] {
        world.ask(at, &publish(1, ("", "q"), 0, PERSISTENT, text.as_bytes()));
        world.ask(at, &publish(1, ("e", "k"), 0, PERSISTENT, text.as_bytes()));
        world.ask(at, &publish(1, ("amq.fanout", "k"), 0, PERSISTENT, text.as_bytes()));
    }
    assert_eq!(all_of(&mut world, root, "q"), ["from /", "from /"]);
    assert_eq!(all_of(&mut world, t, "q"), ["from t"], "the binding is the other's");
    world.ask(t, &bind(1, "q", "amq.fanout", ""));
    world.ask(root, &publish(1, ("amq.fanout", "k"), 0, PERSISTENT, b"x"));
    assert!(all_of(&mut world, t, "q").is_empty(), "an exchange that is always there is one in each");
    world.ask(t, &delete(1, "q", 0));
    assert_eq!(world.one(root, &declare(1, "q", PASSIVE)).method, (50, 11));
    let text = "no queue 'q' in vhost 't'";
    assert_eq!(refused(&mut world, t, &declare(1, "q", PASSIVE)), said(404, text));
    let text = "no exchange 'none' in vhost 't'";
    assert_eq!(refused(&mut world, t, &publish(1, ("none", ""), 0, TRANSIENT, b"")), said(404, text));
}

#[test]
fn dead_letters_and_alternates_stay_in_their_virtual_host() {
    let (mut world, [root, t]) = both();
    for at in [root, t] {
        world.ask(at, &declare(1, "dead", DURABLE));
        world.ask(at, &declare(1, "other", DURABLE));
    }
    let arguments = |key: &str, value: &str| {
        let mut out = Vec::new();
        table::put(&mut out, &[text_header(key, value), text_header("x-dead-letter-routing-key", "dead")]);
        out.split_off(4)
    };
    world.ask(t, &declare_with(1, "q", DURABLE, &arguments("x-dead-letter-exchange", "")));
    world.ask(t, &publish(1, ("", "q"), 0, PERSISTENT, b"dies"));
    world.ask(t, &get(1, "q", false));
    world.ask(t, &nack(1, 1, 0));
    for at in [root, t] {
        world.ask(at, &declare_exchange(1, "instead", "fanout", DURABLE));
        world.ask(at, &bind(1, "other", "instead", ""));
    }
    world.ask(t, &declare_exchange_with(1, ("e", "direct"), DURABLE, &[text_header("alternate-exchange", "instead")]));
    world.ask(t, &publish(1, ("e", "nowhere"), 0, PERSISTENT, b"goes on"));
    assert_eq!(
        (all_of(&mut world, t, "dead"), all_of(&mut world, t, "other")),
        (vec!["dies".into()], vec!["goes on".into()])
    );
    assert!(all_of(&mut world, root, "dead").is_empty() && all_of(&mut world, root, "other").is_empty());
}

#[test]
fn an_answer_reaches_its_asker_only_within_the_virtual_host() {
    let (mut world, [root, t]) = both();
    world.ask(t, &consume(1, "amq.rabbitmq.reply-to", "c", 2));
    world.ask(t, &declare(1, "asked", DURABLE));
    let mut props = vec![0x02, 0x00];
    amqp::wire::text::put_short(&mut props, "amq.rabbitmq.reply-to");
    world.ask(t, &publish(1, ("", "asked"), 0, &props, b"?"));
    let got = contents(&world.ask(t, &get(1, "asked", true)));
    let reply_to = short(&mut ByteReader::new(&got[0].props[2..])).unwrap().to_owned();
    world.ask(root, &publish(1, ("", &reply_to), 0, TRANSIENT, b"from elsewhere"));
    assert!(world.take(t).is_empty());
    let answered = world.ask(t, &publish(1, ("", &reply_to), 0, TRANSIENT, b"!"));
    assert_eq!(bodies(&answered), ["!"]);
}

#[test]
fn a_queue_that_says_no_type_gets_its_virtual_hosts_default_if_it_lasts() {
    let (mut world, [_, t]) = both();
    let default_queue_kind = Some(QueueKind::Safe);
    world.broker.put_tenant(&Tenant { name: "t".into(), default_queue_kind, ..Tenant::default() }).unwrap();
    for (queue, bits, kind) in [
        ("lasts", DURABLE, QueueKind::Safe),
        ("lasts", DURABLE, QueueKind::Safe),
        ("not", 0, QueueKind::Plain),
        ("mine", DURABLE | EXCLUSIVE, QueueKind::Plain),
    ] {
        assert_eq!(world.one(t, &declare(1, queue, bits)).method, (50, 11));
        let all = world.broker.queues("t");
        assert_eq!(all.iter().find(|one| &*one.name == queue).unwrap().kind, kind, "{queue}");
    }
}

#[test]
fn what_is_durable_in_a_virtual_host_is_there_after_a_kill() {
    let (mut world, [root, t]) = both();
    world.ask(t, &declare(1, "q", DURABLE));
    world.ask(root, &declare(1, "other", DURABLE));
    world.ask(t, &confirm(1));
    world.ask(t, &publish(1, ("", "q"), 0, PERSISTENT, b"kept"));
    let mut world = World::on(world.disk.crash(7), options());
    let at = world.client_of("u", "t");
    assert_eq!(all_of(&mut world, at, "q"), ["kept"]);
    assert_eq!(refused(&mut world, at, &declare(1, "other", PASSIVE)).0, 404);
}
