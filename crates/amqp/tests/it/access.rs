//! Who may what: every method against the permissions it needs, the texts of refusals, limits.

use crate::rig::*;
use amqp::api::{METHODS, Need, Of};
use amqp::wire::{table, text::put_short};
use broker::access::*;
use broker::topic::NewTopic;
use model::{Header, HeaderValue, Name};

const ALL: [&str; 3] = [".*"; 3];

/// User `u` in virtual host `t`, where there are queue `q`, exchanges `e` and `f`, and topic `log`.
fn world() -> (World, usize) {
    let mut world = World::new();
    world.make("u", "t");
    world.permit("guest", "t", ALL);
    world.permit("u", "t", ["", "", ""]);
    let owner = world.client_of("guest", "t");
    world.ask(owner, &declare(1, "q", DURABLE));
    for exchange in ["e", "f"] {
        world.ask(owner, &declare_exchange(1, exchange, "topic", DURABLE));
    }
    let topic = NewTopic { tenant: name("t"), name: name("log"), partitions: 1, config: vec![], validate_only: false };
    world.broker.create_topic(&topic, world.now).unwrap();
    let at = world.client_of("u", "t");
    (world, at)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// What a method is tried with: the names its needs are about.
struct Example {
    bytes: Vec<u8>,
    needs: Vec<(Operation, Of, Resource<'static>)>,
}

fn example(bytes: Vec<u8>, needs: &[(Operation, Of, Resource<'static>)]) -> Example {
    Example { bytes, needs: needs.to_vec() }
}

/// Ways to use each method that together need all that its row says. A new method is not to be forgotten here.
fn examples(id: (u16, u16)) -> Vec<Example> {
    use Operation::{Configure, Read, Write};
    let queue = Resource::Queue("q");
    let binds = [(Write, Of::Destination, queue), (Read, Of::Source, Resource::Exchange("e"))];
    let between = [(Write, Of::Destination, Resource::Exchange("f")), (Read, Of::Source, Resource::Exchange("e"))];
    let plain = |out: fn(&mut Vec<u8>)| vec![example(method(1, id, out), &[])];
    match id {
        (60, 40) => {
            vec![example(publish(1, ("e", "k"), 0, TRANSIENT, b"x"), &[(Write, Of::Exchange, Resource::Exchange("e"))])]
        }
        (60, 80) => vec![example(ack(1, 1, false), &[])],
        (60, 120) => vec![example(nack(1, 1, 0), &[])],
        (60, 90) => plain(|out| out.extend_from_slice(&[0; 9])),
        (60, 70) => vec![example(get(1, "q", true), &[(Read, Of::Queue, queue)])],
        (60, 10) => vec![example(qos(1, 1, false), &[])],
        (60, 20) => vec![example(consume(1, "q", "c", 0), &[(Read, Of::Queue, queue)])],
        (60, 30) => vec![example(cancel(1, "c"), &[])],
        (60, 31) => plain(|out| put_short(out, "c")),
        (60, 100 | 110) => plain(|out| out.push(1)),
        (20, 20 | 21) => plain(|out| out.push(1)),
        (30, 10) => plain(|out| out.extend_from_slice(&[0, 0])),
        (40, 10) => {
            let arguments = [text_header("alternate-exchange", "f")];
            let made = Resource::Exchange("new");
            vec![
                example(
                    declare_exchange_with(1, ("new", "direct"), 0, &arguments),
                    &[
                        (Configure, Of::Exchange, made),
                        (Read, Of::Exchange, made),
                        (Write, Of::Alternate, Resource::Exchange("f")),
                    ],
                ),
                example(declare_exchange(1, "e", "topic", PASSIVE), &[(Read, Of::Seen, Resource::Exchange("e"))]),
            ]
        }
        (40, 20) => {
            vec![example(delete_exchange(1, "e"), &[(Configure, Of::Exchange, Resource::Exchange("e"))])]
        }
        (40, 30 | 40) => vec![example(bind_exchange(1, id.1, ("f", "e"), "k"), &between)],
        (50, 10) => new_queue(),
        (50, 20) => vec![example(bind(1, "q", "e", "k"), &binds)],
        (50, 30) => vec![example(
            method(1, id, |out| {
                out.extend_from_slice(&[0, 0]);
                put_short(out, "q");
                out.push(0);
            }),
            &[(Read, Of::Queue, queue)],
        )],
        (50, 40) => vec![example(delete(1, "q", 0), &[(Configure, Of::Queue, queue)])],
        (50, 50) => vec![example(
            method(1, id, |out| {
                out.extend_from_slice(&[0, 0]);
                ["q", "e", "k"].iter().for_each(|text| put_short(out, text));
                table::put(out, &[]);
            }),
            &binds,
        )],
        (85, 10) => plain(|out| out.push(0)),
        (90, 10 | 20 | 30) => plain(|_| {}),
        other => panic!("method {other:?} has a row, but nothing tries it"),
    }
}

fn new_queue() -> Vec<Example> {
    use Operation::{Configure, Read, Write};
    let made = Resource::Queue("new");
    let with = |arguments: &[Header]| {
        let mut out = Vec::new();
        table::put(&mut out, arguments);
        declare_with(1, "new", DURABLE, &out[4..])
    };
    vec![
        example(
            with(&[text_header("x-dead-letter-exchange", "e"), text_header("x-topic", "log")]),
            &[
                (Configure, Of::Queue, made),
                (Read, Of::Queue, made),
                (Write, Of::DeadLetters, Resource::Exchange("e")),
                (Read, Of::Topic, Resource::Topic("log")),
            ],
        ),
        example(declare(1, "q", PASSIVE), &[(Read, Of::Seen, Resource::Queue("q"))]),
    ]
}

/// Patterns that grant exactly `needs`.
fn granting(needs: &[(Operation, Of, Resource<'static>)]) -> [String; 3] {
    [Operation::Configure, Operation::Write, Operation::Read].map(|operation| {
        let names = needs.iter().filter(|need| need.0 == operation).map(|need| need.2.name());
        names.map(|name| format!("^{name}$")).collect::<Vec<_>>().join("|")
    })
}

/// What a new client granted exactly `needs` is answered, if its channel is closed with 403.
fn denied(needs: &[(Operation, Of, Resource<'static>)], bytes: &[u8]) -> Option<String> {
    let (mut world, at) = world();
    let [configure, write, read] = granting(needs);
    world.permit("u", "t", [&configure, &write, &read]);
    let got = world.ask(at, bytes);
    let close = got.iter().find(|got| matches!(got.method, (20, 40) | (10, 50)))?.close();
    (close.0 == 403).then_some(close.1)
}

#[test]
fn every_method_needs_exactly_the_permissions_of_its_row() {
    for row in METHODS {
        let examples = examples(row.id);
        let tried: Vec<Need> = examples.iter().flat_map(|one| &one.needs).map(|need| (need.0, need.1)).collect();
        assert_eq!(tried, row.needs, "method {:?}: what is tried is what its row says", row.id);
        for Example { bytes, needs } in examples {
            assert_eq!(denied(&needs, &bytes), None, "method {:?} with all it needs", row.id);
            for lacking in 0..needs.len() {
                let mut rest = needs.clone();
                let (_, _, resource) = rest.remove(lacking);
                let (kind, name) = (resource.kind(), resource.name());
                let text = format!("ACCESS_REFUSED - access to {kind} '{name}' in vhost 't' refused for user 'u'");
                assert_eq!(denied(&rest, &bytes), Some(text), "method {:?} without {:?}", row.id, needs[lacking]);
            }
        }
    }
}

#[test]
fn names_that_the_server_makes_and_the_default_exchange_are_looked_at_under_their_own_names() {
    let (mut world, at) = world();
    let (code, text) = refused(&mut world, at, &declare(1, "", 0));
    assert!(code == 403 && text.starts_with("access to queue 'amq.gen-"), "{text}");
    let text = "access to exchange 'amq.default' in vhost 't' refused for user 'u'";
    assert_eq!(refused(&mut world, at, &publish(1, ("", "q"), 0, TRANSIENT, b"x")), said(403, text));
    world.permit("u", "t", ["^amq\\.gen-", "^amq\\.default$", ""]);
    assert_eq!(world.one(at, &declare(1, "", 0)).method, (50, 11));
    assert!(world.ask(at, &publish(1, ("", "q"), 0, TRANSIENT, b"x")).is_empty());
}

/// As answered by the real server: what is looked at first when several things are wrong.
#[test]
fn refusals_come_in_rabbitmqs_order() {
    let (mut world, at) = world();
    for (bytes, text) in [
        (declare(1, "amq.x", 0), "queue name 'amq.x' contains reserved prefix 'amq.*'"),
        (declare_exchange(1, "", "direct", 0), "operation not permitted on the default exchange"),
        (delete_exchange(1, ""), "operation not permitted on the default exchange"),
        (delete_exchange(1, "amq.direct"), "deletion of system exchange 'amq.direct' in vhost 't' not allowed"),
        (bind(1, "q", "", "k"), "access to queue 'q' in vhost 't' refused for user 'u'"),
        (bind(1, "none", "e", "k"), "access to queue 'none' in vhost 't' refused for user 'u'"),
        (get(1, "none", true), "access to queue 'none' in vhost 't' refused for user 'u'"),
        (delete(1, "none", 0), "access to queue 'none' in vhost 't' refused for user 'u'"),
        (publish(1, ("none", "k"), 0, TRANSIENT, b""), "access to exchange 'none' in vhost 't' refused for user 'u'"),
    ] {
        assert_eq!(refused(&mut world, at, &bytes), said(403, text));
    }
    world.permit("u", "t", [".*", "", ""]);
    let mut out = Vec::new();
    table::put(&mut out, &[text_header("x-dead-letter-exchange", "e")]);
    let text = "inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost 't': received the value 'e' of type \
                'longstr' but current is none";
    assert_eq!(refused(&mut world, at, &declare_with(1, "q", DURABLE, &out[4..])), said(406, text));
}

#[test]
fn routing_keys_are_looked_at_where_exchanges_route_by_patterns() {
    let (mut world, at) = world();
    world.permit("u", "t", ALL);
    let (user, tenant, exchange) = ("u".into(), "t".into(), "e".into());
    let (write, read) = ("^{username}\\.{vhost}\\.".into(), "^r".into());
    world.broker.put_topic_permission(&TopicPermission { user, tenant, exchange, write, read }).unwrap();
    let refused_key =
        |key: &str| said(403, &format!("access to topic '{key}' in exchange 'e' in vhost 't' refused for user 'u'"));
    assert!(world.ask(at, &publish(1, ("e", "u.t.x"), 0, TRANSIENT, b"x")).is_empty());
    assert_eq!(refused(&mut world, at, &publish(1, ("e", "o.t.x"), 0, TRANSIENT, b"x")), refused_key("o.t.x"));
    assert!(world.ask(at, &publish(1, ("f", "o.t.x"), 0, TRANSIENT, b"x")).is_empty());
    let mut copies = vec![0x20, 0];
    table::put(
        &mut copies,
        &[Header { name: "CC".into(), value: HeaderValue::List(vec![HeaderValue::Text("o".into())]) }],
    );
    assert_eq!(refused(&mut world, at, &publish(1, ("e", "u.t.x"), 0, &copies, b"x")), refused_key("o"));
    assert_eq!(world.one(at, &bind(1, "q", "e", "r.x")).method, (50, 21));
    assert_eq!(refused(&mut world, at, &bind(1, "q", "e", "s.x")), refused_key("s.x"));
    assert_eq!(refused(&mut world, at, &bind_exchange(1, 30, ("f", "e"), "s.x")), refused_key("s.x"));
}

#[test]
fn a_change_of_permissions_holds_from_the_next_method_on() {
    let (mut world, at) = world();
    world.permit("u", "t", ["", "^e$", ""]);
    let publish = publish(1, ("e", "k"), 0, TRANSIENT, b"x");
    assert!(world.ask(at, &publish).is_empty());
    world.permit("u", "t", ["", "^f$", ""]);
    assert_eq!(refused(&mut world, at, &publish).0, 403);
}

#[test]
fn a_publish_in_a_transaction_is_refused_like_any_other() {
    let (mut world, at) = world();
    assert_eq!(world.one(at, &method(1, (90, 10), |_| {})).method, (90, 11));
    let text = "access to exchange 'e' in vhost 't' refused for user 'u'";
    assert_eq!(refused(&mut world, at, &publish(1, ("e", "k"), 0, TRANSIENT, b"x")), said(403, text));
}

/// The answer to connection.open of `u`.
fn enters(world: &mut World, vhost: &str) -> Result<usize, (u16, String)> {
    let at = world.connect_from("127.0.0.1:40009");
    let got = world.enter(at, ("u", "guest"), vhost, true);
    if got.method == (10, 41) {
        return Ok(at);
    }
    let (code, text, cause) = got.close();
    assert_eq!(cause, (10, 40));
    Err((code, text))
}

#[test]
fn who_gets_into_a_virtual_host_is_said_in_rabbitmqs_words() {
    let mut world = World::new();
    world.make("u", "t");
    let no = |text: &str| Err(said(530, &format!("NOT_ALLOWED - {text}")));
    assert_eq!(enters(&mut world, "nope"), no("vhost nope not found"));
    assert_eq!(enters(&mut world, "t"), no("access to vhost 't' refused for user 'u'"));
    world.permit("u", "t", [""; 3]);
    assert!(enters(&mut world, "t").is_ok());
}

#[test]
fn connections_channels_and_queues_are_limited_for_users_and_virtual_hosts() {
    let (mut world, at) = world();
    world.permit("u", "t", ALL);
    let limits = |connections_max, queues_max| Tenant {
        name: "t".into(),
        limits: TenantLimits { connections_max, queues_max },
        ..Tenant::default()
    };
    let no = |text: &str| Err(said(530, &format!("NOT_ALLOWED - {text}")));
    world.broker.put_tenant(&limits(Some(2), Some(1))).unwrap();
    let full = no("access to vhost 't' refused for user 'u': connection limit (2) is reached");
    assert_eq!(enters(&mut world, "t"), full);
    let text = "cannot declare queue 'r': queue limit in vhost 't' (1) is reached";
    assert_eq!(refused(&mut world, at, &declare(1, "r", DURABLE)), said(406, text));
    assert_eq!(world.one(at, &declare(1, "q", DURABLE)).method, (50, 11), "one that is there is no new one");
    world.broker.put_tenant(&limits(None, None)).unwrap();
    let of_user = |connections_max, channels_max| UserLimits { connections_max, channels_max };
    world.broker.set_user_limits("u", of_user(Some(1), Some(2))).unwrap();
    assert_eq!(enters(&mut world, "t"), no("connection refused for user 'u': user connection limit (1) is reached"));
    assert_eq!(world.one(at, &open_channel(2)).method, (20, 11));
    let text = "NOT_ALLOWED - number of channels opened for user 'u' has reached the maximum allowed user limit of (2)";
    assert_eq!(world.one(at, &open_channel(3)).close(), (530, text.to_owned(), (20, 10)));
    world.send(at, &close_ok(0));
    assert!(enters(&mut world, "t").is_ok(), "what is closed counts no more");
}

#[test]
fn who_stands_on_a_deleted_user_or_virtual_host_is_told_so_and_cut_off() {
    for (delete_user, text) in [(true, "user 'u' is deleted"), (false, "vhost 't' is deleted")] {
        let (mut world, at) = world();
        let other = world.client();
        if delete_user {
            world.broker.delete_user("u").unwrap();
        } else {
            let now = world.now;
            world.broker.delete_tenant("t", now).unwrap();
        }
        world.run();
        assert_eq!(world.take(at)[0].close(), (320, format!("CONNECTION_FORCED - {text}"), (0, 0)));
        assert_eq!(world.one(other, &declare(1, "q", DURABLE)).method, (50, 11), "nobody else notices");
    }
}
