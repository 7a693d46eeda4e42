//! Direct reply-to (feature R10, case A12).

use crate::rig::*;
use amqp::wire::props;

const REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// Properties with that reply-to and a correlation id.
fn question() -> Vec<u8> {
    let mut out = vec![0b0000_0110, 0, 1, b'7', REPLY_TO.len() as u8];
    out.extend_from_slice(REPLY_TO.as_bytes());
    out
}

fn world() -> (World, usize, usize) {
    let mut world = World::new();
    let (client, worker) = (world.client(), world.client());
    world.send(worker, &declare(1, "work", DURABLE));
    world.take(worker);
    (world, client, worker)
}

/// The client asks; answers the name under which the worker may answer.
fn ask(world: &mut World, client: usize, worker: usize) -> String {
    world.send(client, &publish(1, ("", "work"), 0, &question(), b"what?"));
    let got = world.ask(worker, &get(1, "work", true));
    let message = &contents(&got)[0];
    let props = props::read(&message.props).unwrap();
    assert_eq!(props.correlation_id, Some(&b"7"[..]), "nothing else is changed");
    String::from_utf8(props.reply_to.unwrap().to_vec()).unwrap()
}

#[test]
fn an_answer_comes_at_once_to_who_asked() {
    let (mut world, client, worker) = world();
    assert_eq!(world.one(client, &consume(1, REPLY_TO, "tag", 2)).method, (60, 21));
    let name = ask(&mut world, client, worker);
    assert!(name.starts_with("amq.rabbitmq.reply-to."));
    world.send(worker, &confirm(1));
    world.take(worker);
    let told = world.ask(worker, &publish(1, ("", &name), 1, TRANSIENT, b"that"));
    assert_eq!(told.iter().map(|got| got.method).collect::<Vec<_>>(), [(60, 80)], "routed, and confirmed");
    let frames = world.take(client);
    assert_eq!((frames[0].method, bodies(&frames)), ((60, 60), vec!["that".to_owned()]));
    assert!(frames[0].fields.starts_with(b"\x03tag\0\0\0\0\0\0\0\x01\0\0"), "{:?}", frames[0].fields);
    let exists = world.one(worker, &declare(1, &name, PASSIVE));
    assert!(exists.fields.ends_with(&[0, 0, 0, 0, 0, 0, 0, 1]));
}

#[test]
fn an_answer_to_who_has_left_is_dropped() {
    for lost in [false, true] {
        let (mut world, client, worker) = world();
        world.send(client, &consume(1, REPLY_TO, "", 2));
        let name = ask(&mut world, client, worker);
        if lost {
            world.drop_link(client);
        } else {
            world.send(client, &close_channel(1));
        }
        let told = world.ask(worker, &publish(1, ("", &name), 1, TRANSIENT, b"late"));
        assert_eq!(told[0].method, (60, 50), "mandatory: it comes back");
        assert!(world.ask(worker, &publish(1, ("", &name), 0, TRANSIENT, b"late")).is_empty());
        let missing = said(404, &format!("no queue '{name}' in vhost '/'"));
        assert_eq!(refused(&mut world, worker, &declare(1, &name, PASSIVE)), missing);
    }
}

#[test]
fn mistakes_are_named() {
    let (mut world, client, worker) = world();
    let none = said(406, "fast reply consumer does not exist");
    assert_eq!(refused(&mut world, client, &publish(1, ("", "work"), 0, &question(), b"?")), none);
    let acks = said(406, "reply consumer cannot acknowledge");
    assert_eq!(refused(&mut world, client, &consume(1, REPLY_TO, "a", 0)), acks);
    world.send(client, &consume(1, REPLY_TO, "a", 2));
    world.take(client);
    let twice = said(406, "reply consumer already set");
    assert_eq!(refused(&mut world, client, &consume(1, REPLY_TO, "b", 2)), twice);
    world.send(client, &consume(1, REPLY_TO, "a", 2));
    world.take(client);
    assert_eq!(world.one(client, &consume(1, "work", "a", 2)).code(), 530, "the tag is taken");
    assert_eq!(world.one(worker, &declare(1, REPLY_TO, PASSIVE)).method, (50, 11));
}

#[test]
fn a_cancelled_reply_consumer_can_be_started_again() {
    let (mut world, client, worker) = world();
    world.send(client, &consume(1, REPLY_TO, "a", 2));
    let first = ask(&mut world, client, worker);
    world.take(client);
    assert_eq!(world.one(client, &cancel(1, "a")).method, (60, 31));
    assert_eq!(world.one(client, &consume(1, REPLY_TO, "a", 2)).method, (60, 21));
    let second = ask(&mut world, client, worker);
    assert_ne!(first, second);
    world.send(worker, &publish(1, ("", &second), 0, TRANSIENT, b"answer"));
    assert_eq!(bodies(&world.take(client)), ["answer"]);
}
