//! Messages through a broker: what is published is delivered byte for byte, confirms, returns, acknowledgements,
//! prefetch (features R5 to R7; cases A09, A11, A14).

use crate::rig::*;
use amqp::wire::frame::Kind;

fn client_with_queue(world: &mut World) -> usize {
    let at = world.client();
    world.send(at, &declare(1, "q", DURABLE));
    world.take(at);
    at
}

fn fill(world: &mut World, at: usize, count: usize) {
    for number in 0..count {
        world.push(at, &publish(1, ("", "q"), 0, PERSISTENT, number.to_string().as_bytes()));
    }
    world.run();
    assert!(world.take(at).is_empty());
}

/// (method, number, multiple) of confirms.
fn confirms(frames: &[Got]) -> Vec<(u16, u64, bool)> {
    frames
        .iter()
        .filter(|got| matches!(got.method, (60, 80 | 120)))
        .map(|got| (got.method.1, u64::from_be_bytes(got.fields[..8].try_into().unwrap()), got.fields[8] & 1 == 1))
        .collect()
}

/// Closed by 406 `unknown delivery tag`; then the channel is open again.
fn unknown_tag(world: &mut World, at: usize, bytes: &[u8], tag: u64) {
    let got = world.one(at, bytes);
    assert_eq!(got.channel, 1);
    assert_eq!(got.close(), (406, format!("PRECONDITION_FAILED - unknown delivery tag {tag}"), got.close().2));
    world.send(at, &[close_ok(1), open_channel(1)].concat());
    assert_eq!(world.take(at)[0].method, (20, 11));
}

#[test]
fn properties_and_body_come_back_byte_for_byte() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    let unset: &[u8] = &[0, 0];
    let empty_table: &[u8] = &[0x20, 0, 0, 0, 0, 0];
    let odd: &[u8] = b"\xb0\x40\x04t/xy\0\0\0\x08\x01aL\0\0\0\0\0\0\0\x05\x02\0\0\0\0\0\0\0\x09";
    let odd = [&odd[..7], &odd[7..]].concat();
    let odd = fix_table(&odd);
    for (props, body) in [(unset, &b""[..]), (empty_table, b""), (&odd, b"body")] {
        world.send(at, &publish(1, ("", "q"), 0, props, body));
    }
    for (props, body) in [(unset, &b""[..]), (empty_table, b""), (&odd, b"body")] {
        let frames = world.ask(at, &get(1, "q", true));
        let got = &contents(&frames)[0];
        assert_eq!((got.props.as_slice(), got.body.as_slice()), (props, body));
        assert_eq!(frames.iter().any(|frame| frame.kind == Kind::Body), !body.is_empty(), "no body, no body frame");
    }
    assert_eq!(world.one(at, &get(1, "q", true)).method, (60, 72));
}

#[test]
fn who_publishes_sees_the_message_in_the_next_breath() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    // All in one read of the socket: the messages appear in the queue only when the turn ends.
    let put = publish(1, ("", "q"), 0, TRANSIENT, b"x");
    let all = [put.clone(), put, passive(1, "q"), get(1, "q", true), get(1, "q", true), get(1, "q", true)].concat();
    let frames = world.ask(at, &all);
    let methods: Vec<_> = frames.iter().filter(|got| got.kind == Kind::Method).map(|got| got.method).collect();
    assert_eq!(methods, [(50, 11), (60, 71), (60, 71), (60, 72)]);
    assert!(frames[0].fields.ends_with(&[0, 0, 0, 2, 0, 0, 0, 0]), "two messages, no consumer");
}

/// queue.declare that only looks.
fn passive(channel: u16, queue: &str) -> Vec<u8> {
    declare(channel, queue, 1)
}

/// The table in `odd` above holds 11 bytes.
fn fix_table(odd: &[u8]) -> Vec<u8> {
    let mut bytes = odd.to_vec();
    bytes[10] = 11;
    bytes
}

#[test]
fn large_bodies_are_cut_into_frames_of_the_agreed_size() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    let body: Vec<u8> = (0..300_000u32).map(|at| at as u8).collect();
    world.send(at, &publish(1, ("", "q"), 0, TRANSIENT, &body));
    let frames = world.ask(at, &get(1, "q", false));
    assert_eq!(contents(&frames)[0].body, body);
    assert_eq!(frames.iter().filter(|got| got.kind == Kind::Body).count(), 3);
    assert_eq!(u64::from_be_bytes(frames[1].fields[4..12].try_into().unwrap()), 300_000);
}

#[test]
fn a_message_too_large_closes_the_channel_before_it_is_taken() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    let whole = publish(1, ("", "q"), 0, TRANSIENT, b"");
    let mut huge = whole.clone();
    let size_at = whole.len() - 1 - 2 - 8;
    huge[size_at..size_at + 8].copy_from_slice(&(16_777_217u64).to_be_bytes());
    let text = "PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216";
    assert_eq!(world.one(at, &huge).close(), (406, text.into(), (60, 40)));
}

#[test]
fn a_message_larger_than_a_journal_file_takes_closes_the_channel_and_says_so() {
    for asks_for_confirms in [true, false] {
        let mut world = World::new();
        let at = client_with_queue(&mut world);
        if asks_for_confirms {
            world.send(at, &confirm(1));
            world.take(at);
        }
        world.send(at, &publish(1, ("", "q"), 0, PERSISTENT, &[7; 700 << 10]));
        let (code, text, method) = world.take(at).pop().unwrap().close();
        let said = text.starts_with("PRECONDITION_FAILED - message size ") && text.ends_with(" of the journal");
        assert!(code == 406 && said && method == (60, 40), "{code} {text}");
    }
}

#[test]
fn refused_properties_close_the_channel() {
    for (props, code, text) in [
        (&b"\x10\0\x03"[..], 406, "invalid message: {delivery_mode_unknown,3}"),
        (b"\0\x10\x05other", 406, "user_id property set to 'other' but authenticated user was 'guest'"),
        (b"\x01\0\x03abc", 406, "invalid expiration 'abc': no_integer"),
        (b"\x02\0\x15amq.rabbitmq.reply-to", 406, "fast reply consumer does not exist"),
        (b"\x20\0\0\0\0\x09\x02CCS\0\0\0\x01a", 406, "invalid message: {unacceptable_type_in_header,\"CC\",longstr}"),
    ] {
        let mut world = World::new();
        let at = client_with_queue(&mut world);
        let (got_code, got_text, method) = world.one(at, &publish(1, ("", "q"), 0, props, b"x")).close();
        assert_eq!((got_code, got_text.split_once(" - ").unwrap().1, method), (code, text, (60, 40)));
    }
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    assert!(world.ask(at, &publish(1, ("", "q"), 0, b"\0\x10\x05guest", b"x")).is_empty());
}

#[test]
fn a_return_comes_before_its_ack() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    world.send(at, &confirm(1));
    world.take(at);
    let frames = world.ask(at, &publish(1, ("", "nosuch"), 1, PERSISTENT, b"back"));
    let order: Vec<_> = frames.iter().map(|got| (got.kind, got.method)).collect();
    let expected = [(Kind::Method, (60, 50)), (Kind::Header, (0, 0)), (Kind::Body, (0, 0)), (Kind::Method, (60, 80))];
    assert_eq!(order, expected);
    assert_eq!(frames[0].fields, b"\x01\x38\x08NO_ROUTE\0\x06nosuch");
    assert_eq!(frames[1].fields[12..], *PERSISTENT);
    assert_eq!(confirms(&frames), [(80, 1, false)]);
    assert_eq!(confirms(&world.ask(at, &publish(1, ("", "nosuch"), 0, PERSISTENT, b""))), [(80, 2, false)]);
    let got = world.one(at, &publish(1, ("nosuch", ""), 1, PERSISTENT, b""));
    assert_eq!(got.code(), 404);
}

#[test]
fn persistent_messages_are_confirmed_when_synced_and_the_unroutable_at_once() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    world.send(at, &confirm(1));
    world.take(at);
    world.jobs = false;
    for key in ["q", "q", "q", "q", "q", "nosuch"] {
        world.push(at, &publish(1, ("", key), 0, PERSISTENT, b"x"));
    }
    world.run();
    assert_eq!(confirms(&world.take(at)), [(80, 6, false)]);
    world.jobs = true;
    world.run();
    assert_eq!(confirms(&world.take(at)), [(80, 5, true)]);
    world.jobs = false;
    world.send(at, &publish(1, ("", "q"), 0, TRANSIENT, b"x"));
    assert_eq!(confirms(&world.take(at)), [(80, 7, false)], "transient ones need no sync");
}

/// There every message lasts, whatever its publisher says: also one that is not marked persistent.
#[test]
fn quorum_queues_and_streams_confirm_all_messages_when_synced() {
    for kind in ["quorum", "stream"] {
        for commit in [false, true] {
            let mut world = World::new();
            let at = world.client();
            let mut table = Vec::new();
            amqp::wire::table::put(&mut table, &[text_header("x-queue-type", kind)]);
            assert_eq!(world.one(at, &declare_with(1, "q", DURABLE, &table[4..])).method, (50, 11));
            let select = if commit { method(1, (90, 10), |_| {}) } else { confirm(1) };
            world.ask(at, &select);
            world.jobs = false;
            world.send(at, &publish(1, ("", "q"), 0, TRANSIENT, b"x"));
            if commit {
                world.send(at, &method(1, (90, 20), |_| {}));
            }
            assert_eq!(world.take(at), [], "{kind}");
            world.jobs = true;
            world.run();
            let answer = if commit { (90, 21) } else { (60, 80) };
            assert_eq!(world.take(at)[0].method, answer, "{kind}");
        }
    }
}

#[test]
fn what_a_failed_sync_covers_is_refused_never_acknowledged() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    world.send(at, &confirm(1));
    world.take(at);
    world.jobs = false;
    world.push(at, &publish(1, ("", "q"), 0, PERSISTENT, b"1"));
    world.push(at, &publish(1, ("", "q"), 0, PERSISTENT, b"2"));
    world.run();
    assert!(world.take(at).is_empty());
    let next = world.disk.calls().all + 1;
    world.disk.fail_at(next, storage::sim_disk::Fault::Eio);
    world.jobs = true;
    world.run();
    assert_eq!(confirms(&world.take(at)), [(120, 2, true)]);
    let frames = world.ask(at, &publish(1, ("", "q"), 0, PERSISTENT, b"3"));
    assert_eq!(confirms(&frames), [(120, 3, false)]);
}

#[test]
fn a_tag_is_acknowledged_once() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 2);
    world.send(at, &[get(1, "q", false), get(1, "q", false)].concat());
    assert_eq!(bodies(&world.take(at)), ["0", "1"]);
    assert!(world.ask(at, &ack(1, 1, false)).is_empty());
    unknown_tag(&mut world, at, &ack(1, 1, false), 1);
    let again = contents(&world.ask(at, &get(1, "q", false)));
    assert_eq!((again[0].body.as_slice(), again[0].redelivered, again[0].tag), (&b"1"[..], true, 1));
    world.send(at, &ack(1, 0, true));
    assert!(world.ask(at, &ack(1, 0, true)).is_empty(), "all of nothing is fine");
    unknown_tag(&mut world, at, &ack(1, 0, false), 0);
    unknown_tag(&mut world, at, &ack(1, 99, true), 99);
    unknown_tag(&mut world, at, &nack(1, 7, 0), 7);
    assert_eq!(world.one(at, &get(1, "q", true)).method, (60, 72));
}

#[test]
fn no_ack_deliveries_have_tags_that_cannot_be_acknowledged() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 1);
    let frames = world.ask(at, &consume(1, "q", "t", 2));
    assert_eq!(contents(&frames)[0].tag, 1);
    unknown_tag(&mut world, at, &ack(1, 1, false), 1);
    assert_eq!(world.one(at, &get(1, "q", true)).method, (60, 72), "it is gone");
}

#[test]
fn requeued_messages_take_their_old_places() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 5);
    for _ in 0..4 {
        world.send(at, &get(1, "q", false));
    }
    world.take(at);
    world.send(at, &[nack(1, 2, 2), nack(1, 4, 2), nack(1, 1, 2)].concat());
    let mut seen = Vec::new();
    for _ in 0..4 {
        let frames = world.ask(at, &get(1, "q", false));
        seen.push((bodies(&frames)[0].clone(), contents(&frames)[0].redelivered));
    }
    let expected = [("0", true), ("1", true), ("3", true), ("4", false)];
    assert_eq!(seen, expected.map(|(body, redelivered)| (body.to_owned(), redelivered)));
}

#[test]
fn rejected_messages_are_gone_and_recovered_ones_come_again() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 3);
    for _ in 0..3 {
        world.send(at, &get(1, "q", false));
    }
    world.take(at);
    let reject = method(1, (60, 90), |out| out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0]));
    assert!(world.ask(at, &reject).is_empty());
    let recover = method(1, (60, 110), |out| out.push(1));
    assert_eq!(world.one(at, &recover).method, (60, 111));
    let again = contents(&world.ask(at, &[get(1, "q", true), get(1, "q", true), get(1, "q", true)].concat()));
    let again: Vec<_> = again.iter().map(|content| (content.body.as_slice(), content.redelivered)).collect();
    assert_eq!(again, [(&b"1"[..], true), (b"2", true)]);
}

#[test]
fn a_closed_channel_gives_back_all_it_held() {
    for lost in [false, true] {
        let mut world = World::new();
        let (at, other) = (client_with_queue(&mut world), world.client());
        fill(&mut world, at, 3);
        world.send(at, &consume(1, "q", "t", 0));
        world.send(at, &ack(1, 2, false));
        world.take(at);
        if lost {
            world.drop_link(at);
        } else {
            world.send(at, &close_channel(1));
        }
        let back = contents(&world.ask(other, &[get(1, "q", true), get(1, "q", true), get(1, "q", true)].concat()));
        let back: Vec<_> = back.iter().map(|content| (content.body.as_slice(), content.redelivered)).collect();
        assert_eq!(back.first(), Some(&(&b"0"[..], true)), "{back:?}");
        assert_eq!(back.last(), Some(&(&b"2"[..], true)));
    }
}

#[test]
fn prefetch_holds_for_each_consumer_to_come() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 10);
    world.send(at, &[qos(1, 2, false), consume(1, "q", "a", 0), qos(1, 3, false), consume(1, "q", "b", 0)].concat());
    let frames = world.take(at);
    let mut by_tag = [0, 0];
    for got in frames.iter().filter(|got| got.method == (60, 60)) {
        by_tag[usize::from(got.fields[1] == b'b')] += 1;
    }
    assert_eq!(by_tag, [2, 3]);
    assert_eq!(contents(&world.ask(at, &ack(1, 5, true))).len(), 5, "each acknowledged one makes room");
}

#[test]
fn global_prefetch_is_shared_by_the_channel() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 10);
    world.send(at, &[qos(1, 3, true), consume(1, "q", "a", 0), consume(1, "q", "b", 0)].concat());
    let first = contents(&world.take(at));
    assert_eq!(first.len(), 3);
    let mut seen: Vec<_> = first.iter().map(|content| content.body[0]).collect();
    for round in 1..=7 {
        let more = contents(&world.ask(at, &ack(1, round, false)));
        assert_eq!(more.len(), 1);
        seen.extend(more.iter().map(|content| content.body[0]));
    }
    seen.sort_unstable();
    assert_eq!(seen, b"0123456789", "each once");
    world.send(at, &close_channel(1));
    let other = world.client();
    let back = contents(&world.ask(other, &[get(1, "q", true), get(1, "q", true), get(1, "q", true)].concat()));
    assert_eq!(back.len(), 3, "what was not acknowledged is back");
}

#[test]
fn what_the_shared_prefetch_keeps_back_returns_with_its_consumer() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 6);
    world.send(at, &[qos(1, 2, true), consume(1, "q", "a", 0)].concat());
    world.send(at, &qos(1, 1, true));
    world.send(at, &ack(1, 1, false));
    assert_eq!(contents(&world.take(at)).len(), 2, "the one still out fills the smaller prefetch");
    world.send(at, &cancel(1, "a"));
    let other = world.client();
    let gets = (0..6).flat_map(|_| get(1, "q", true)).collect::<Vec<_>>();
    assert_eq!(bodies(&world.ask(other, &gets)), ["2", "3", "4", "5"], "0 is done, 1 is still out");
}

#[test]
fn a_cancelled_consumer_gets_nothing_more_but_may_still_acknowledge() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 3);
    world.send(at, &[qos(1, 1, false), consume(1, "q", "t", 0)].concat());
    assert_eq!(bodies(&world.take(at)), ["0"]);
    assert_eq!(world.one(at, &cancel(1, "t")).method, (60, 31));
    assert!(world.ask(at, &ack(1, 1, false)).is_empty());
    assert_eq!(bodies(&world.ask(at, &get(1, "q", true))), ["1"]);
}

#[test]
fn consumers_tags_are_unique_and_exclusive_means_alone() {
    let mut world = World::new();
    let at = client_with_queue(&mut world);
    let got = world.one(at, &consume(1, "q", "", 0));
    assert!(got.fields[1..].starts_with(b"amq.ctag-") && got.fields.len() == 32);
    world.send(at, &open_channel(2));
    world.take(at);
    let got = world.one(at, &consume(2, "q", "x", 4));
    assert_eq!(got.close(), (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use".into(), (60, 20)));
    world.send(at, &consume(1, "q", "t", 0));
    world.take(at);
    let got = world.one(at, &consume(1, "q", "t", 0));
    assert_eq!((got.channel, got.close().1.as_str()), (0, "NOT_ALLOWED - attempt to reuse consumer tag 't'"));
}

#[test]
fn a_consumer_whose_socket_is_stuck_is_sent_a_bounded_amount() {
    let mut world = World::new();
    let (at, writer) = (client_with_queue(&mut world), world.client());
    world.send(at, &consume(1, "q", "t", 2));
    world.take(at);
    world.links[at].drains = false;
    let body = vec![7; 10_000];
    for _ in 0..1_000 {
        world.push(writer, &publish(1, ("", "q"), 0, TRANSIENT, &body));
    }
    world.run();
    assert!(world.take(at).is_empty());
    world.links[at].drains = true;
    world.run();
    let all = contents(&world.take(at));
    assert_eq!(all.len(), 1_000, "and all once it moves again");
    assert!(all.iter().enumerate().all(|(number, content)| content.tag == number as u64 + 1));
}

#[test]
fn unfinished_messages_of_a_connection_are_bounded_together() {
    let mut world = World::new();
    let at = world.client();
    let body = vec![0; 16 << 20]; // its last frame has 1,032 bytes
    let mut closed = None;
    for channel in 2..8 {
        let whole = publish(channel, ("", "q"), 0, TRANSIENT, &body);
        let frames = world.ask(at, &[open_channel(channel), whole[..whole.len() - 1_032].to_vec()].concat());
        closed = frames.iter().find(|got| got.method == (10, 50)).map(Got::code);
        if closed.is_some() {
            break;
        }
    }
    assert_eq!(closed, Some(530));
}

#[test]
fn a_get_that_waits_for_the_disk_holds_back_what_follows_and_loses_nothing() {
    let mut cold = options();
    cold.storage.tail_cache_bytes = 0;
    for seed in 1..20 {
        let mut world = World::on(storage::SimDisk::new(), cold.clone());
        let at = client_with_queue(&mut world);
        fill(&mut world, at, 6);
        let mut world = World::on(world.disk.kill(), cold.clone());
        world.disk.set_cache_misses(seed);
        let at = world.client();
        let gets = (0..7).flat_map(|_| get(1, "q", false)).collect::<Vec<_>>();
        let frames = world.ask(at, &[gets, declare(1, "q", DURABLE)].concat());
        assert_eq!(bodies(&frames), ["0", "1", "2", "3", "4", "5"]);
        let last: Vec<_> = frames.iter().rev().take(2).map(|got| got.method).collect();
        assert_eq!(last, [(50, 11), (60, 72)], "in the order asked");
    }
}

#[test]
fn a_get_that_waits_ends_with_its_connection() {
    let mut cold = options();
    cold.storage.tail_cache_bytes = 0;
    let mut world = World::on(storage::SimDisk::new(), cold.clone());
    let at = client_with_queue(&mut world);
    fill(&mut world, at, 3);
    let mut world = World::on(world.disk.kill(), cold);
    world.disk.set_cache_misses(3);
    let at = world.client();
    world.jobs = false;
    let gets = (0..3).flat_map(|_| get(1, "q", false)).collect::<Vec<_>>();
    world.send(at, &gets);
    world.drop_link(at);
    world.jobs = true;
    world.run();
    world.disk.set_cache_misses(0);
    let other = world.client();
    assert_eq!(bodies(&world.ask(other, &gets)), ["0", "1", "2"]);
}
