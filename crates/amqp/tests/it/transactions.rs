//! Class tx: all at once or nothing, and what it refuses (feature R7).

use crate::rig::*;

fn select() -> Vec<u8> {
    method(1, (90, 10), |_| {})
}

fn commit() -> Vec<u8> {
    method(1, (90, 20), |_| {})
}

fn rollback() -> Vec<u8> {
    method(1, (90, 30), |_| {})
}

fn world() -> (World, usize, usize) {
    let mut world = World::new();
    let (client, other) = (world.client(), world.client());
    world.send(client, &declare(1, "q", DURABLE));
    world.send(other, &declare(1, "r", DURABLE));
    world.take(client);
    world.take(other);
    (world, client, other)
}

#[test]
fn publishes_and_acks_count_from_the_commit_on() {
    let (mut world, at, other) = world();
    for body in ["1", "2", "3"] {
        world.send(other, &publish(1, ("", "q"), 0, PERSISTENT, body.as_bytes()));
    }
    assert_eq!(world.one(at, &select()).method, (90, 11));
    for _ in 0..3 {
        assert_eq!(world.ask(at, &get(1, "q", false))[0].method, (60, 71));
    }
    assert!(world.ask(at, &ack(1, 2, true)).is_empty());
    for body in ["a", "b"] {
        assert!(world.ask(at, &publish(1, ("", "r"), 0, PERSISTENT, body.as_bytes())).is_empty());
        assert!(world.ask(at, &publish(1, ("", "q"), 0, TRANSIENT, body.as_bytes())).is_empty());
    }
    assert!(all_of(&mut world, other, "r").is_empty());
    let told = world.ask(at, &commit());
    assert_eq!(told[0].method, (90, 21));
    let counted = world.one(at, &declare(1, "r", PASSIVE));
    assert!(counted.fields.starts_with(b"\x01r\0\0\0\x02"), "who commits and looks sees");
    assert_eq!(all_of(&mut world, other, "r"), ["a", "b"]);
    world.drop_link(at);
    assert_eq!(all_of(&mut world, other, "q"), ["3", "a", "b"], "1 and 2 were acknowledged");
}

#[test]
fn what_waits_for_a_commit_or_an_acknowledgement_counts_as_memory() {
    let (mut world, at, _) = world();
    let idle = world.memory(at);
    world.send(at, &select());
    for _ in 0..10 {
        world.send(at, &publish(1, ("", "q"), 0, PERSISTENT, &[7; 10_000]));
    }
    assert!(world.memory(at) >= idle + 100_000, "{}", world.memory(at));
    world.send(at, &commit());
    let scratch = world.memory(at);
    assert!(scratch < idle + 50_000, "{scratch}: what was put together last stays, and nothing else");
    for _ in 0..10 {
        world.send(at, &get(1, "q", false));
    }
    assert!(world.memory(at) >= scratch + 10 * 32, "{}", world.memory(at));
    world.send(at, &publish(1, ("", "q"), 0, PERSISTENT, b"").repeat(1000));
    let empty_ones = world.memory(at);
    assert!(empty_ones >= scratch + 100_000, "{empty_ones}: a message without a body takes memory too");
}

#[test]
fn a_rollback_forgets_publishes_and_gives_acks_back() {
    let (mut world, at, other) = world();
    world.send(other, &publish(1, ("", "q"), 0, PERSISTENT, b"1"));
    world.send(at, &select());
    world.ask(at, &get(1, "q", false));
    world.send(at, &ack(1, 1, false));
    world.send(at, &publish(1, ("", "r"), 0, PERSISTENT, b"a"));
    world.take(at);
    assert_eq!(world.one(at, &rollback()).method, (90, 31));
    assert_eq!(world.one(at, &commit()).method, (90, 21));
    assert!(all_of(&mut world, other, "r").is_empty());
    assert!(all_of(&mut world, other, "q").is_empty(), "nor is it given back: it waits for its ack again");
    assert!(world.ask(at, &[ack(1, 1, false), commit()].concat()).iter().any(|got| got.method == (90, 21)));
    world.drop_link(at);
    assert!(all_of(&mut world, other, "q").is_empty());
}

#[test]
fn what_a_transaction_held_goes_back_with_its_channel() {
    let (mut world, at, other) = world();
    world.send(other, &publish(1, ("", "q"), 0, PERSISTENT, b"1"));
    world.send(at, &select());
    world.ask(at, &get(1, "q", false));
    world.send(at, &[ack(1, 1, false), publish(1, ("", "r"), 0, PERSISTENT, b"a")].concat());
    assert_eq!(world.one(at, &close_channel(1)).method, (20, 41));
    assert_eq!(all_of(&mut world, other, "q"), ["1"]);
    assert!(all_of(&mut world, other, "r").is_empty());
}

#[test]
fn what_nobody_takes_is_returned_before_the_commit_is_answered() {
    let (mut world, at, _) = world();
    world.send(at, &select());
    world.take(at);
    assert!(world.ask(at, &publish(1, ("", "nobody"), 1, PERSISTENT, b"back")).is_empty());
    let told: Vec<_> = world.ask(at, &commit()).iter().map(|got| got.method).collect();
    assert_eq!((told[0], told[told.len() - 1]), ((60, 50), (90, 21)));
}

#[test]
fn modes_are_not_mixed_and_faults_are_said_at_once() {
    let (mut world, at, _) = world();
    let none = said(406, "channel is not transactional");
    assert_eq!(refused(&mut world, at, &commit()), none);
    assert_eq!(refused(&mut world, at, &rollback()), none);
    world.send(at, &select());
    world.take(at);
    assert_eq!(refused(&mut world, at, &confirm(1)), said(406, "cannot switch from tx to confirm mode"));
    world.send(at, &confirm(1));
    world.take(at);
    assert_eq!(refused(&mut world, at, &select()), said(406, "cannot switch from confirm to tx mode"));
    world.send(at, &select());
    world.take(at);
    let missing = said(404, "no exchange 'no' in vhost '/'");
    assert_eq!(refused(&mut world, at, &publish(1, ("no", "k"), 0, PERSISTENT, b"x")), missing);
    world.send(at, &select());
    world.take(at);
    assert_eq!(refused(&mut world, at, &ack(1, 9, false)), said(406, "unknown delivery tag 9"));
}

#[test]
fn a_commit_on_a_full_disk_waits_for_room_with_all_that_follows_on_its_channel() {
    let (mut world, at, other) = world();
    world.send(other, &publish(1, ("", "q"), 0, PERSISTENT, b"1"));
    world.send(at, &select());
    world.ask(at, &get(1, "q", false));
    world.send(at, &[ack(1, 1, false), publish(1, ("", "r"), 0, PERSISTENT, &[b'x'; 100_000])].concat());
    world.disk.set_capacity(0);
    let mut filled = 0;
    while !world.ask(other, &publish(1, ("", "filler"), 0, TRANSIENT, b"x")).iter().any(|got| got.method == (10, 60)) {
        world.send(other, &declare(1, "filler", DURABLE));
        world.send(other, &publish(1, ("", "filler"), 0, TRANSIENT, &[7; 100_000]));
        world.pass(1_000);
        filled += 1;
        assert!(filled < 200, "the disk is never full");
    }
    let told = world.ask(at, &commit());
    assert_eq!(told.iter().map(|got| got.method).collect::<Vec<_>>(), [(10, 60)], "asked to wait, not refused");
    assert!(world.ask(at, &declare(1, "r", PASSIVE)).is_empty(), "what follows waits behind it");
    world.disk.set_capacity(1 << 40);
    for _ in 0..20 {
        world.pass(1_000);
    }
    let told = world.take(at).iter().map(|got| got.method).collect::<Vec<_>>();
    assert!(told.contains(&(90, 21)) && told.contains(&(10, 61)) && told.contains(&(50, 11)), "{told:?}");
    world.drop_link(at);
    assert!(all_of(&mut world, other, "q").is_empty(), "the ack is stored");
    assert_eq!(all_of(&mut world, other, "r").len(), 1);
}
