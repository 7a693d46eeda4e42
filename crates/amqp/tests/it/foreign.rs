//! Messages of another tongue, read through a queue that shares a topic (`x-topic`), and ours as others see them.

use std::ops::ControlFlow;

use crate::rig::*;
use amqp::wire::{props, table};
use broker::SyncPolicy;
use broker::partition::AppendRequest;
use broker::topic::NewTopic;
use bytes::Bytes;
use model::format::{Visit, VisitUnit};
use model::{Format, FormatError, FormatTag, Header, HeaderValue, Message, Name, Offset, UnitAt, Wall};

/// Another tongue's units: one length byte and the body, which is also the key.
pub struct Other;

impl Format for Other {
    fn tag(&self) -> FormatTag {
        FormatTag(9)
    }

    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError> {
        let (mut at, mut first) = (0, base);
        while at < units.len() {
            let bytes = 1 + usize::from(units[at]);
            if visit(UnitAt { first, count: 1, at, bytes }) == ControlFlow::Break(()) {
                break;
            }
            at += bytes;
            first = first.plus(1);
        }
        Ok(())
    }

    fn open(&self, units: &Bytes, base: Offset, visit: &mut Visit<'_>) -> Result<(), FormatError> {
        self.split(units, base, &mut |unit| {
            let body = units.slice(unit.at + 1..unit.at + unit.bytes);
            let header = Header { name: "h".into(), value: HeaderValue::Bytes(Bytes::from_static(b"text")) };
            let message = Message {
                key: Some(body.clone()),
                value: Some(body),
                created: Some(Wall(5_000)),
                headers: vec![header],
                ..Message::default()
            };
            visit(unit.first, message)
        })
    }

    fn build(&self, _: &[(Offset, Message)], _: &mut Vec<u8>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("never built here"))
    }
}

fn x_topic(topic: &str) -> Vec<u8> {
    let mut out = b"\x07x-topicS\0\0\0".to_vec();
    out.push(topic.len() as u8);
    out.extend_from_slice(topic.as_bytes());
    out
}

fn world_with_topic(partitions: i64) -> World {
    let mut world = World::with_formats(vec![Box::new(Other)]);
    let topic =
        NewTopic { tenant: Name::fixed("/"), name: Name::fixed("t"), partitions, config: vec![], validate_only: false };
    world.broker.create_topic(&topic, world.now).unwrap();
    world.run();
    world
}

fn write(world: &mut World, bodies: &[&str]) {
    let log = world.broker.topic("/", "t").unwrap().partitions[0];
    let mut units = Vec::new();
    for body in bodies {
        units.push(body.len() as u8);
        units.extend_from_slice(body.as_bytes());
    }
    let request = AppendRequest {
        log,
        format: &Other,
        units: &units,
        count: bodies.len() as u32,
        time_max: Wall(5_000),
        producer: None,
        policy: SyncPolicy::None,
    };
    world.broker.append(&request, world.now).unwrap();
    world.run();
}

#[test]
fn a_queue_over_a_topic_delivers_what_another_tongue_wrote() {
    let mut world = world_with_topic(1);
    write(&mut world, &["one", "two"]);
    let at = world.client();
    assert_eq!(world.one(at, &declare_with(1, "q", DURABLE, &x_topic("t"))).method, (50, 11));
    world.send(at, &[qos(1, 10, false), consume(1, "q", "c", 0)].concat());
    write(&mut world, &["three"]);
    let frames = world.take(at);
    assert_eq!(bodies(&frames), ["one", "two", "three"]);
    let deliver = frames.iter().find(|got| got.method == (60, 60)).unwrap();
    assert!(deliver.fields.ends_with(b"\x00\x03one"), "no exchange, the key as routing key: {deliver:?}");
    let content = &contents(&frames)[0];
    let props = props::read(&content.props).unwrap();
    assert_eq!((props.delivery_mode, props.timestamp), (Some(2), Some(5)));
    let headers = table::read(props.headers.unwrap()).unwrap();
    assert_eq!(headers, [Header { name: "h".into(), value: HeaderValue::Text("text".into()) }]);
    world.send(at, &[ack(1, 2, true), close_channel(1), open_channel(1)].concat());
    world.take(at);
    assert_eq!(bodies(&world.ask(at, &get(1, "q", true))), ["three"]);
}

#[test]
fn a_topic_that_is_missing_or_in_the_way_is_named() {
    let mut world = world_with_topic(3);
    let at = world.client();
    let got = world.one(at, &declare_with(1, "q", DURABLE, &x_topic("nosuch")));
    assert_eq!(got.close(), (404, "NOT_FOUND - no topic 'nosuch' in vhost '/'".into(), (50, 10)));
    world.send(at, &[close_ok(1), open_channel(1)].concat());
    world.take(at);
    let (code, text, _) = world.one(at, &declare(1, "t", DURABLE)).close();
    assert_eq!(code, 406);
    assert!(text.contains("'t' in vhost '/' is a topic") && text.contains("x-topic"), "{text}");
}

#[test]
fn what_is_published_to_a_shared_topic_reaches_every_queue_over_it() {
    let mut world = world_with_topic(1);
    let at = world.client();
    for queue in ["q1", "q2"] {
        world.send(at, &declare_with(1, queue, DURABLE, &x_topic("t")));
    }
    world.send(at, &[confirm(1), publish(1, ("", "q1"), 1, PERSISTENT, b"both")].concat());
    assert_eq!(world.take(at).last().unwrap().method, (60, 80));
    for queue in ["q1", "q2"] {
        assert_eq!(bodies(&world.ask(at, &get(1, queue, true))), ["both"]);
    }
}

#[test]
fn a_topic_answers_as_an_exchange_of_its_name() {
    let mut world = world_with_topic(3);
    let at = world.client();
    assert_eq!(world.one(at, &declare_exchange(1, "t", "direct", PASSIVE)).method, (40, 11));
    world.send(at, &[declare_with(1, "q", DURABLE, &x_topic("t")), confirm(1)].concat());
    world.take(at);
    for key in ["order-1", "order-2", "abc", "order-1"] {
        let frames = world.ask(at, &publish(1, ("t", key), 1, PERSISTENT, key.as_bytes()));
        assert_eq!(frames[0].method, (60, 80), "{frames:?}");
    }
    let mut got = Vec::new();
    while let [content] = contents(&world.ask(at, &get(1, "q", true))).as_slice() {
        got.push(String::from_utf8(content.body.clone()).unwrap());
    }
    got.sort();
    assert_eq!(got, ["abc", "order-1", "order-1", "order-2"]);
}

#[test]
fn a_routing_key_from_another_door_that_amqp_could_not_spell_is_refused() {
    let mut world = World::new();
    let dialect = broker::Tongue::dialect(&amqp::Amqp::default()).unwrap();
    let (user, tenant) = (Name::fixed("guest"), Name::fixed("/"));
    for (bytes, is_taken) in [(255, true), (256, false), (1 << 20, false)] {
        let key = "k".repeat(bytes);
        let ask = broker::dialect::PublishAsk {
            user: &user,
            impersonates: false,
            tenant: &tenant,
            exchange: "amq.fanout",
            key: &key,
            properties: &[],
            body: b"x",
        };
        let published = dialect.publish(&mut world.broker, &ask, model::Now::default());
        assert_eq!(
            published.map(drop).map_err(|fault| fault.code),
            if is_taken { Ok(()) } else { Err(406) },
            "{bytes}"
        );
    }
}
