//! A full disk: the publisher is asked to wait, all others go on, and it heals alone (case X02).

use crate::rig::*;

const BLOCKED: (u16, u16) = (10, 60);
const UNBLOCKED: (u16, u16) = (10, 61);

fn methods(frames: &[Got]) -> Vec<(u16, u16)> {
    frames.iter().filter(|got| got.kind == amqp::wire::frame::Kind::Method).map(|got| got.method).collect()
}

fn ready(world: &mut World, at: usize) -> u32 {
    let got = world.one(at, &declare(1, "q", PASSIVE));
    u32::from_be_bytes(got.fields[2..6].try_into().unwrap())
}

/// Publishes until the disk is full; answers how many were taken.
fn fill(world: &mut World, at: usize) -> u32 {
    world.disk.set_capacity(0);
    for count in 0..200 {
        let frames = world.ask(at, &publish(1, ("", "q"), 0, TRANSIENT, &[7; 100_000]));
        if methods(&frames).contains(&BLOCKED) {
            let blocked = frames.iter().find(|got| got.method == BLOCKED).unwrap();
            assert_eq!(blocked.fields, b"\x0blow on disk");
            return count;
        }
        world.pass(1_000);
    }
    panic!("the disk is never full");
}

fn world() -> (World, usize, usize) {
    let mut world = World::new();
    let (publisher, other) = (world.client(), world.client());
    world.send(publisher, &declare(1, "q", DURABLE));
    world.take(publisher);
    (world, publisher, other)
}

#[test]
fn a_publisher_is_blocked_until_there_is_room_and_its_message_is_kept() {
    let (mut world, publisher, other) = world();
    let taken = fill(&mut world, publisher);
    world.pass(1_000);
    assert_eq!(ready(&mut world, other), taken, "others go on; the message that waits is nowhere yet");
    assert_eq!(ready(&mut world, publisher), taken, "all but publishing goes on here too");
    assert_eq!(bodies(&world.ask(publisher, &get(1, "q", true))).len(), 1);
    assert!(world.ask(publisher, &publish(1, ("", "q"), 0, TRANSIENT, b"held on the way")).is_empty());
    assert!(world.ask(publisher, &declare(1, "q", PASSIVE)).is_empty(), "behind it everything waits");
    world.pass(60_000);
    assert!(!world.is_closed(publisher), "nobody who is not heard is taken for dead");
    world.disk.set_capacity(1 << 40);
    for _ in 0..20 {
        world.pass(1_000);
    }
    let told = methods(&world.take(publisher));
    assert_eq!(told.iter().filter(|method| **method == UNBLOCKED).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|method| **method == BLOCKED).count(), 0, "it was said once");
    assert!(told.contains(&(50, 11)), "what waited behind is answered");
    assert_eq!(ready(&mut world, other), taken + 1);
}

#[test]
fn a_confirm_waits_with_its_message() {
    let (mut world, publisher, _) = world();
    world.send(publisher, &confirm(1));
    world.take(publisher);
    let taken = fill(&mut world, publisher);
    assert!(world.take(publisher).is_empty());
    world.disk.set_capacity(1 << 40);
    for _ in 0..20 {
        world.pass(1_000);
    }
    let frames = world.take(publisher);
    let confirmed = frames.iter().rfind(|got| got.method == (60, 80)).expect("confirmed at last");
    assert_eq!(confirmed.fields[..8], u64::from(taken + 1).to_be_bytes());
}

#[test]
fn a_blocked_message_goes_with_its_channel() {
    let (mut world, publisher, other) = world();
    let taken = fill(&mut world, publisher);
    let told = methods(&world.ask(publisher, &close_channel(1)));
    assert_eq!(told, [(20, 41), UNBLOCKED]);
    world.disk.set_capacity(1 << 40);
    for _ in 0..20 {
        world.pass(1_000);
    }
    assert_eq!(ready(&mut world, other), taken);
}

#[test]
fn while_memory_is_low_a_publisher_waits_after_its_next_message() {
    let (mut world, publisher, other) = world();
    world.broker.set_low_on_memory(true);
    assert_eq!(ready(&mut world, publisher), 0, "who does not publish is not told");
    let told = world.ask(publisher, &publish(1, ("", "q"), 0, TRANSIENT, b"taken"));
    assert_eq!(methods(&told), [BLOCKED]);
    assert_eq!(told[0].fields, b"\x0dlow on memory");
    assert_eq!(ready(&mut world, publisher), 1, "all but publishing goes on");
    assert_eq!(bodies(&world.ask(other, &get(1, "q", true))), ["taken"]);
    assert!(world.ask(publisher, &publish(1, ("", "q"), 0, TRANSIENT, b"waits")).is_empty());
    world.pass(60_000);
    assert!(!world.is_closed(publisher));
    assert_eq!(ready(&mut world, other), 0);
    world.broker.set_low_on_memory(false);
    world.pass(1_000);
    assert_eq!(methods(&world.take(publisher)), [UNBLOCKED]);
    assert_eq!(bodies(&world.ask(other, &get(1, "q", true))), ["waits"]);
}
