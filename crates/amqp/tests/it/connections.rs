//! What operators see of a connection, and how they end it.

use crate::rig::*;
use broker::SessionId;

#[test]
fn a_connection_is_seen_with_its_channels_and_consumers_until_it_goes() {
    let mut world = World::new();
    let at = world.client();
    world.ask(at, &declare(1, "q", DURABLE));
    world.ask(at, &consume(1, "q", "tag", 0));
    world.ask(at, &publish(1, ("", "q"), 0, PERSISTENT, b"one"));
    world.ask(at, &publish(1, ("", "nowhere"), 0, PERSISTENT, b"two"));
    {
        let all: Vec<_> = world.broker.connections().collect();
        let [connection] = all[..] else { panic!("{} connections", all.len()) };
        assert_eq!(connection.info.name(), "127.0.0.1:40000 -> 127.0.0.1:5672");
        assert_eq!((&*connection.info.user, &*connection.info.tenant), ("guest", "/"));
        assert!(connection.figures.received_bytes.get() > 0 && connection.figures.sent_bytes.get() > 0);
        let figures = &connection.channels[&1];
        let counted = [&figures.published, &figures.routed, &figures.dropped, &figures.delivered].map(|c| c.get());
        assert_eq!(counted, [2, 1, 1, 1]);
        assert_eq!(figures.unsettled(), 1);
    }
    let consumers = world.broker.consumers_of("/", "q");
    assert_eq!(consumers.len(), 1);
    assert_eq!((consumers[0].label.tag.as_str(), consumers[0].label.channel), ("tag", 1));
    assert_eq!(world.broker.open_of_user("guest"), (1, 1));
    world.ask(at, &ack(1, 1, false));
    world.ask(at, &method(1, (20, 40), |out| out.extend_from_slice(&[0; 7])));
    assert_eq!(world.broker.open_of_user("guest"), (1, 0));
    assert!(world.broker.consumers_of("/", "q").is_empty());
    world.ask(at, &method(0, (10, 50), |out| out.extend_from_slice(&[0; 7])));
    assert_eq!(world.broker.open_of_user("guest"), (0, 0));
    assert_eq!(world.broker.totals().messages.acked, 1);
}

#[test]
fn an_operator_closes_a_connection_and_its_client_is_told_why() {
    let mut world = World::new();
    let at = world.client();
    let session = world.broker.connections().next().unwrap().info.session;
    assert!(world.broker.close_connection(session, "go away"));
    world.run();
    let told = world.take(at);
    assert_eq!(told[0].close(), (320, "CONNECTION_FORCED - go away".to_owned(), (0, 0)));
    assert!(!world.broker.close_connection(session, "again"));
    assert!(!world.broker.close_connection(SessionId(99), "nobody"));
}
