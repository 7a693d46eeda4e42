//! Logging in by certificate (the mechanism EXTERNAL): who is offered it, and who comes in.

use std::sync::Arc;
use std::time::SystemTime;

use crate::rig::*;
use broker::Secured;
use broker::secured::Certificate;

const HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";

/// What TLS says of a client that showed a certificate of this subject, if any.
fn secured(subject: Option<&str>) -> Option<Arc<Secured>> {
    let certificate = subject.map(|subject| Certificate {
        subject: subject.to_owned(),
        issuer: "CN=authority".to_owned(),
        common_names: Vec::new(),
        alternative_names: Vec::new(),
        not_before: SystemTime::UNIX_EPOCH,
        not_after: SystemTime::UNIX_EPOCH,
        validity: "then - later".to_owned(),
    });
    Some(Arc::new(Secured { version: "TLSv1.3", cipher_suite: "TLS_AES_128_GCM_SHA256".to_owned(), certificate }))
}

/// Whether a client that came this way is offered EXTERNAL.
fn is_offered(tls: Option<Arc<Secured>>) -> bool {
    let mut world = World::new();
    let at = world.connect_by("127.0.0.1:40000", tls);
    let start = world.one(at, HEADER);
    start.fields.windows(8).any(|window| window == b"EXTERNAL")
}

#[test]
fn external_is_offered_to_those_who_showed_a_certificate() {
    assert!(!is_offered(None));
    assert!(!is_offered(secured(None)));
    assert!(is_offered(secured(Some("CN=alice"))));
}

#[test]
fn a_certificate_logs_in_the_user_it_names() {
    let mut world = World::new();
    world.make("CN=alice,O=Example", "t");
    world.permit("CN=alice,O=Example", "t", ["", "", ""]);
    let at = world.connect_by("10.0.0.1:40000", secured(Some("CN=alice,O=Example")));
    assert_eq!(world.one(at, HEADER).method, (10, 10));
    assert_eq!(world.one(at, &start_ok_by("EXTERNAL", b"", true)).method, (10, 30));
    world.send(at, &method(0, (10, 31), |out| out.extend_from_slice(&[0x07, 0xff, 0, 2, 0, 0, 0, 0])));
    assert_eq!(world.one(at, &open_vhost("t")).method, (10, 41));
    let info = &world.broker.connections().last().unwrap().info;
    assert_eq!((info.user.as_str(), info.mechanism.as_str()), ("CN=alice,O=Example", "EXTERNAL"));
    assert_eq!(info.encryption.as_ref().unwrap().peer_subject.as_deref(), Some("CN=alice,O=Example"));
}

#[test]
fn a_certificate_of_nobody_known_and_guests_from_afar_are_refused() {
    for (from, subject) in [("127.0.0.1:1", "CN=nobody"), ("10.0.0.1:1", "guest")] {
        let mut world = World::new();
        let at = world.connect_by(from, secured(Some(subject)));
        assert_eq!(world.one(at, HEADER).method, (10, 10));
        let close = world.one(at, &start_ok_by("EXTERNAL", b"", true)).close();
        assert_eq!(close.0, 403);
        assert!(close.1.contains("using authentication mechanism EXTERNAL"), "{}", close.1);
    }
}

#[test]
fn external_without_a_certificate_is_no_mechanism() {
    let mut world = World::new();
    let at = world.connect_by("127.0.0.1:1", secured(None));
    assert_eq!(world.one(at, HEADER).method, (10, 10));
    world.send(at, &start_ok_by("EXTERNAL", b"", true));
    assert!(world.is_closed(at), "nobody is logged in: the socket is just cut");
}
