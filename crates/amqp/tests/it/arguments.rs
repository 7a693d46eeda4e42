//! The types of arguments, by their letters on the wire, as refusals say them. What is expected here was answered by
//! the real server.

use crate::rig::*;

/// Every letter with the word for it, and the value 100 where it is a number.
const LETTERS: [(u8, &str, &[u8]); 8] = [
    (b'b', "byte", &[100]),
    (b'B', "unsignedbyte", &[100]),
    (b's', "short", &[0, 100]),
    (b'u', "unsignedshort", &[0, 100]),
    (b'I', "signedint", &[0, 0, 0, 100]),
    (b'i', "unsignedint", &[0, 0, 0, 100]),
    (b'l', "long", &[0, 0, 0, 0, 0, 0, 0, 100]),
    (b'L', "long", &[0, 0, 0, 0, 0, 0, 0, 100]),
];

const OTHERS: [(u8, &str, &[u8]); 10] = [
    (b'f', "float", &[0x42, 0xc8, 0, 0]),
    (b'd', "double", &[0x40, 0x59, 0, 0, 0, 0, 0, 0]),
    (b'D', "decimal", &[2, 0, 0, 0, 150]),
    (b'T', "timestamp", &[0, 0, 0, 0, 0, 0, 0, 100]),
    (b'S', "longstr", &[0, 0, 0, 1, b'1']),
    (b'x', "binary", &[0, 0, 0, 1, 0xff]),
    (b't', "bool", &[1]),
    (b'V', "void", &[]),
    (b'F', "table", &[0, 0, 0, 0]),
    (b'A', "array", &[0, 0, 0, 0]),
];

fn entry(name: &str, letter: u8, value: &[u8]) -> Vec<u8> {
    [&[name.len() as u8], name.as_bytes(), &[letter], value].concat()
}

fn inequivalent(what: &str) -> (u16, String) {
    said(406, &format!("inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': {what}"))
}

#[test]
fn a_second_declaration_is_told_the_type_that_it_sent() {
    let mut world = World::new();
    let at = world.client();
    world.send(at, &declare(1, "q", 0));
    world.take(at);
    for (letter, word, value) in LETTERS {
        let asked = declare_with(1, "q", 0, &entry("x-message-ttl", letter, value));
        let text = format!("received the value '100' of type '{word}' but current is none");
        assert_eq!(refused(&mut world, at, &asked), inequivalent(&text));
    }
    for (letter, word, shown) in [(b'f', "float", "100.0"), (b't', "bool", "true"), (b'V', "void", "undefined")] {
        let value = OTHERS.iter().find(|other| other.0 == letter).unwrap().2;
        let asked = declare_with(1, "q", 0, &entry("x-message-ttl", letter, value));
        let text = format!("received the value '{shown}' of type '{word}' but current is none");
        assert_eq!(refused(&mut world, at, &asked), inequivalent(&text));
    }
}

#[test]
fn the_type_that_a_queue_was_declared_with_is_told_also_after_a_restart() {
    for (letter, word, value) in LETTERS {
        let mut world = World::new();
        let at = world.client();
        let table = entry("x-message-ttl", letter, value);
        assert_eq!(world.one(at, &declare_with(1, "q", DURABLE, &table)).method, (50, 11));
        let text = format!("received none but current is the value '100' of type '{word}'");
        assert_eq!(refused(&mut world, at, &declare(1, "q", DURABLE)), inequivalent(&text));
        let mut world = World::on(world.disk.kill(), options());
        let at = world.client();
        assert_eq!(refused(&mut world, at, &declare(1, "q", DURABLE)), inequivalent(&text));
        for (other, _, value) in LETTERS {
            let table = entry("x-message-ttl", other, value);
            assert_eq!(world.one(at, &declare_with(1, "q", DURABLE, &table)).method, (50, 11), "widths are equal");
        }
    }
}

#[test]
fn what_is_no_integer_is_called_by_its_type() {
    let mut world = World::new();
    let at = world.client();
    for (letter, word, value) in OTHERS {
        let asked = declare_with(1, "q", 0, &entry("x-message-ttl", letter, value));
        let text = format!("invalid arg 'x-message-ttl' for queue 'q' in vhost '/': \"expected integer, got {word}\"");
        assert_eq!(refused(&mut world, at, &asked), said(406, &text));
    }
    for (letter, word, value) in LETTERS {
        let asked = declare_with(1, "q", 0, &entry("x-dead-letter-exchange", letter, value));
        let text = format!("invalid type '{word}' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'");
        assert_eq!(refused(&mut world, at, &asked), said(406, &text));
        let asked = declare_with(1, "q", 0, &entry("x-single-active-consumer", letter, value));
        let text =
            format!("invalid arg 'x-single-active-consumer' for queue 'q' in vhost '/': {{unacceptable_type,{word}}}");
        assert_eq!(refused(&mut world, at, &asked), said(406, &text));
    }
}

/// Of a queue that is there what is asked is compared first, as the original does.
#[test]
fn a_bad_argument_for_a_queue_that_is_there_is_said_to_differ() {
    let mut world = World::new();
    let at = world.client();
    let seven = entry("x-message-ttl", b'I', &[0, 0, 0, 7]);
    world.send(at, &declare_with(1, "q", 0, &seven));
    world.take(at);
    let asked = declare_with(1, "q", 0, &entry("x-message-ttl", b'S', &[0, 0, 0, 3, b'1', b'0', b'0']));
    assert_eq!(refused(&mut world, at, &asked), inequivalent("received '100' but current is '7'"));
    let asked = declare_with(1, "q", 0, &entry("x-message-ttl", b'V', &[]));
    assert_eq!(refused(&mut world, at, &asked), inequivalent("received none but current is '7'"));
}

/// Whatever letter a header came with it goes with.
#[test]
fn headers_keep_their_letters() {
    let mut world = World::new();
    let at = world.client();
    let named = LETTERS
        .iter()
        .chain(&OTHERS)
        .enumerate()
        .map(|(i, (letter, _, value))| entry(&format!("{i:02}"), *letter, value));
    let headers = named.collect::<Vec<_>>().concat();
    let mut props = vec![0x20, 0];
    props.extend_from_slice(&(headers.len() as u32).to_be_bytes());
    props.extend_from_slice(&headers);
    let dlx = [entry("x-dead-letter-exchange", b'S', &[0; 4]), entry("x-message-ttl", b'b', &[1])].concat();
    let dlx = [dlx, entry("x-dead-letter-routing-key", b'S', &[0, 0, 0, 1, b'q'])].concat();
    world.send(at, &declare(1, "q", 0));
    world.send(at, &declare_with(1, "short", 0, &dlx));
    world.take(at);
    world.send(at, &publish(1, ("", "q"), 0, &props, b"x"));
    assert_eq!(contents(&world.ask(at, &get(1, "q", true)))[0].props, props);
    world.send(at, &publish(1, ("", "short"), 0, &props, b"x"));
    world.pass(10);
    world.broker.tick(world.now);
    world.run();
    let letter = contents(&world.ask(at, &get(1, "q", true))).remove(0);
    assert!(letter.props.windows(headers.len()).any(|part| part == headers), "as a dead letter too");
}
