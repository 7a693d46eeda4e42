//! Raw frames in and out of place: the handshake, channels' lives, every code of the connection (case A05).

use crate::rig::*;
use amqp::wire::frame::{self, Kind};
use amqp::wire::{long, table};
use model::{ByteReader, HeaderValue};

fn raw(kind: Kind, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, kind, channel, |out| out.extend_from_slice(payload));
    out
}

/// A fresh connection says `bytes` and is closed: code, text, method.
fn refused(bytes: &[u8]) -> (u16, String, (u16, u16)) {
    let mut world = World::new();
    let at = world.client();
    let got = world.one(at, bytes);
    assert_eq!((got.channel, got.method), (0, (10, 50)), "the connection is closed, not the channel");
    assert!(!world.is_closed(at), "until the client has answered");
    got.close()
}

#[test]
fn frames_out_of_place_close_the_connection_with_rabbitmqs_codes() {
    let cases: Vec<(Vec<u8>, u16, &str)> = vec![
        (raw(Kind::Heartbeat, 1, &[]), 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>"),
        (raw(Kind::Unknown(9), 0, &[]), 501, "FRAME_ERROR - type 9, all octets = <<>>: unknown_frame"),
        (raw(Kind::Body, 1, b"x"), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead"),
        (raw(Kind::Header, 1, &[0; 14]), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead"),
        (
            vec![1, 0, 1, 0, 3, 0x0d, 0x40],
            501,
            "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,200000,131064}",
        ),
        (vec![8, 0, 0, 0, 0, 0, 0, 0], 501, "FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,0}"),
        (ack(7, 1, false), 504, "CHANNEL_ERROR - expected 'channel.open'"),
        (open_channel(1), 504, "CHANNEL_ERROR - second 'channel.open' seen"),
        (method(1, (60, 60), |_| {}), 503, "COMMAND_INVALID - unimplemented method"),
        (method(1, (77, 1), |_| {}), 503, "COMMAND_INVALID - unknown method 1 of class 77"),
        (method(1, (20, 20), |out| out.push(0)), 540, "NOT_IMPLEMENTED - active=false"),
        (publish(1, ("", "q"), 2, TRANSIENT, b""), 540, "NOT_IMPLEMENTED - immediate=true"),
        (method(1, (60, 110), |out| out.push(0)), 540, "NOT_IMPLEMENTED - requeue=false"),
        (
            method(1, (60, 10), |out| out.extend_from_slice(&[0, 0, 0, 10, 0, 0, 0])),
            540,
            "NOT_IMPLEMENTED - prefetch_size!=0 (10)",
        ),
        (method(1, (50, 10), |_| {}), 502, "SYNTAX_ERROR - malformed fields: 2 bytes wanted, 0 left"),
        (declare_with(1, "q", 0, b"\x01az"), 502, "SYNTAX_ERROR - unknown table field type 122"),
    ];
    for (bytes, code, text) in cases {
        let closed = refused(&bytes);
        assert_eq!((closed.0, closed.1.as_str()), (code, text));
    }
}

#[test]
fn a_refusal_names_the_method_that_caused_it() {
    assert_eq!(refused(&open_channel(1)).2, (20, 10));
    assert_eq!(refused(&publish(1, ("", "q"), 2, TRANSIENT, b"")).2, (60, 40));
}

#[test]
fn a_publish_must_be_followed_by_its_content() {
    let start = |rest: Vec<u8>| {
        let whole = publish(1, ("", "q"), 0, TRANSIENT, b"");
        let header_bytes = 8 + 14;
        [&whole[..whole.len() - header_bytes], &rest].concat()
    };
    let header = |body: u64| {
        let mut out = Vec::new();
        frame::put_header(&mut out, 1, body, TRANSIENT);
        out
    };
    assert_eq!(refused(&start(raw(Kind::Body, 1, b"x"))).0, 505);
    assert_eq!(refused(&start(ack(1, 1, false))).0, 505);
    assert_eq!(refused(&start([header(4), header(4)].concat())).0, 505);
    assert_eq!(refused(&start([header(4), ack(1, 1, false)].concat())).0, 505);
    assert_eq!(refused(&start([header(4), raw(Kind::Body, 1, b"12345")].concat())).0, 501);
    let of_class = |class: u8| raw(Kind::Header, 1, &[0, class, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let text = refused(&start(of_class(10))).1;
    assert_eq!(text, "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead");
    let odd_flags = raw(Kind::Header, 1, &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(refused(&start(odd_flags)).0, 502);
}

#[test]
fn a_closing_channel_ignores_all_until_close_ok() {
    let mut world = World::new();
    let at = world.client();
    let got = world.one(at, &ack(1, 9, false));
    assert_eq!(got.close(), (406, "PRECONDITION_FAILED - unknown delivery tag 9".into(), (60, 80)));
    assert!(world.ask(at, &ack(1, 10, false)).is_empty());
    assert!(world.ask(at, &publish(1, ("", "q"), 2, TRANSIENT, b"x")).is_empty());
    assert!(world.ask(at, &open_channel(1)).is_empty());
    assert_eq!(world.one(at, &close_channel(1)).method, (20, 41), "a close that crossed ours is answered");
    assert!(world.ask(at, &close_ok(1)).is_empty());
    assert_eq!(world.one(at, &open_channel(1)).method, (20, 11));
}

#[test]
fn frames_may_come_in_any_pieces() {
    let mut world = World::new();
    let at = world.client();
    let bytes = [declare(1, "q", 0), publish(1, ("", "q"), 0, TRANSIENT, b"hello"), get(1, "q", true)].concat();
    for byte in bytes {
        world.send(at, &[byte]);
    }
    let frames = world.take(at);
    assert_eq!(frames[0].method, (50, 11));
    assert_eq!(bodies(&frames), ["hello"]);
}

#[test]
fn after_our_close_only_close_ok_counts() {
    let mut world = World::new();
    let at = world.client();
    world.one(at, &open_channel(1));
    assert!(world.ask(at, &declare(1, "q", 0)).is_empty());
    world.send(at, &close_ok(0));
    assert!(world.is_closed(at));
    let at = world.client();
    world.one(at, &open_channel(1));
    world.pass(2_999);
    assert!(!world.is_closed(at));
    world.pass(1);
    assert!(world.is_closed(at), "it need not be waited for longer than 3 s");
}

#[test]
fn the_client_may_close_channel_and_connection() {
    let mut world = World::new();
    let at = world.client();
    assert_eq!(world.one(at, &close_channel(1)).method, (20, 41));
    assert_eq!(world.one(at, &open_channel(1)).method, (20, 11));
    assert_eq!(world.one(at, &close_connection()).method, (10, 51));
    assert!(!world.is_closed(at), "the client hangs up first");
    world.pass(3_000);
    assert!(world.is_closed(at), "unless it does not");
}

#[test]
fn another_protocol_is_told_ours_and_closed() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"\x16\x03\x01"] {
        let mut world = World::new();
        let at = world.connect_from("127.0.0.1:1");
        world.send(at, bytes);
        assert_eq!(world.take_raw(at), b"AMQP\x00\x00\x09\x01");
        assert!(world.is_closed(at));
    }
}

#[test]
fn a_wrong_password_is_told_only_to_those_who_understand() {
    let mut world = World::new();
    let at = world.connect_from("127.0.0.1:1");
    world.send(at, b"AMQP\x00\x00\x09\x01");
    world.take(at);
    let got = world.one(at, &start_ok("guest", "wrong", true));
    let text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker \
                logfile.";
    assert_eq!(got.close(), (403, text.into(), (0, 0)));

    let at = world.connect_from("127.0.0.1:2");
    world.send(at, b"AMQP\x00\x00\x09\x01");
    world.take(at);
    assert!(world.ask(at, &start_ok("guest", "wrong", false)).is_empty());
    world.pass(3_000);
    assert!(world.is_closed(at) && world.take(at).is_empty());
}

#[test]
fn guest_may_only_come_from_this_machine() {
    let mut world = World::new();
    let at = world.connect_from("192.0.2.1:1");
    world.send(at, b"AMQP\x00\x00\x09\x01");
    world.take(at);
    assert_eq!(world.one(at, &start_ok("guest", "guest", true)).code(), 403);
}

#[test]
fn only_the_default_vhost_is_there() {
    let mut world = World::new();
    let at = world.connect_from("127.0.0.1:1");
    world.send(at, b"AMQP\x00\x00\x09\x01");
    world.send(at, &start_ok("guest", "guest", true));
    world.send(at, &method(0, (10, 31), |out| out.extend_from_slice(&[0, 10, 0, 0, 0x10, 0, 0, 0])));
    world.take(at);
    assert_eq!(
        world.one(at, &open_vhost("nope")).close(),
        (530, "NOT_ALLOWED - vhost nope not found".into(), (10, 40))
    );
}

#[test]
fn the_count_of_channels_is_limited_not_their_number() {
    let mut world = World::new();
    let at = world.client();
    for number in 2..=2046 {
        world.push(at, &open_channel(number));
    }
    world.run();
    assert_eq!(world.take(at).len(), 2045);
    assert_eq!(world.one(at, &open_channel(30_000)).method, (20, 11));
    assert_eq!(world.one(at, &open_channel(9_999)).code(), 530);
}

#[test]
fn heartbeats_go_out_and_silence_is_noticed() {
    let mut world = World::new();
    let at = world.connect_from("127.0.0.1:1");
    world.send(at, b"AMQP\x00\x00\x09\x01");
    world.send(at, &start_ok("guest", "guest", true));
    world.send(at, &method(0, (10, 31), |out| out.extend_from_slice(&[0, 10, 0, 0, 0x10, 0, 0, 10])));
    world.send(at, &open_vhost("/"));
    world.take(at);
    world.pass(5_000);
    assert_eq!(world.take(at)[0].kind, Kind::Heartbeat);
    world.send(at, &raw(Kind::Heartbeat, 0, &[]));
    for _ in 0..4 {
        world.pass(5_000);
    }
    assert!(!world.is_closed(at));
    assert_eq!(world.take(at).len(), 4);
    world.pass(5_000);
    assert!(world.is_closed(at), "25 s of silence at an interval of 10 s");
}

#[test]
fn a_slow_or_talkative_stranger_is_cut() {
    let mut world = World::new();
    let silent = world.connect_from("127.0.0.1:1");
    world.pass(0);
    world.pass(10_000);
    assert!(world.is_closed(silent));
    let talker = world.connect_from("127.0.0.1:2");
    world.send(talker, b"AMQP\x00\x00\x09\x01");
    for _ in 0..9_000 {
        world.push(talker, &raw(Kind::Heartbeat, 0, &[]));
    }
    world.run();
    assert!(world.is_closed(talker), "64 KiB before a login are enough");
    let large = world.connect_from("127.0.0.1:3");
    world.send(large, b"AMQP\x00\x00\x09\x01");
    world.send(large, &[1, 0, 0, 0, 0, 0x40, 0]);
    assert!(world.is_closed(large));
}

#[test]
fn a_stopping_server_says_so() {
    let mut world = World::new();
    let at = world.client();
    world.stop(at);
    assert_eq!(world.take(at)[0].code(), 320);
    world.send(at, &close_ok(0));
    assert!(world.is_closed(at));
}

#[test]
fn the_server_shows_only_what_it_honours() {
    let mut world = World::new();
    let at = world.connect_from("127.0.0.1:1");
    let start = world.one(at, b"AMQP\x00\x00\x09\x01");
    let mut r = ByteReader::new(&start.fields);
    assert_eq!((r.u8().unwrap(), r.u8().unwrap()), (0, 9));
    let properties = table::read(table::body(&mut r).unwrap()).unwrap();
    let names: Vec<_> = properties.iter().map(|property| property.name.as_str()).collect();
    let order = ["capabilities", "cluster_name", "copyright", "information", "platform", "product", "version"];
    assert_eq!(names, order, "as RabbitMQ orders them");
    assert_eq!(properties[5].value, HeaderValue::Text("RabbitMQ".into()), "clients switch features by it");
    let HeaderValue::Table(capabilities) = &properties[0].value else { panic!("a table") };
    let shown: Vec<_> = capabilities.iter().map(|capability| capability.name.as_str()).collect();
    for name in [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ] {
        assert!(shown.contains(&name), "{name}");
    }
    assert_eq!(long(&mut r).unwrap(), b"AMQPLAIN PLAIN");
    assert_eq!(long(&mut r).unwrap(), b"en_US");
}
