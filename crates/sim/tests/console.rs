//! What takes long over HTTP, beside what takes little: judged by the order of answers, not by time.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test

use broker::Tongue;
use console::Console;
use sim::world::{ConnectionId, World};
use storage::sim_disk::SimDisk;

/// `guest:guest`, and what a body is.
const LOGIN: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Type: application/json\r\n";

fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{LOGIN}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The answer that has come, if it is whole.
fn answer(world: &mut World, id: ConnectionId) -> Option<String> {
    let text = String::from_utf8(world.received(id).clone()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head
        .to_lowercase()
        .split_once("content-length: ")
        .map_or(0, |(_, rest)| rest.split("\r\n").next().unwrap().trim().parse::<usize>().unwrap());
    if body.len() < length {
        return None;
    }
    world.received(id).clear();
    Some(text)
}

fn ask(world: &mut World, id: ConnectionId, request: &[u8]) -> String {
    world.send(id, request);
    let mut found = None;
    world.until("an answer", |world| {
        found = answer(world, id);
        found.is_some()
    });
    found.unwrap()
}

/// A server with an HTTP door that knows how to declare, and two clients that have logged in.
fn two_clients() -> (World, ConnectionId, ConnectionId) {
    let console = Console::new(std::sync::Arc::default());
    let (kafka, amqp) = (::kafka::KafkaTongue::default(), ::amqp::Amqp::default());
    let tongues: [&dyn Tongue; 3] = [&kafka, &amqp, &console];
    let mut world = World::open(SimDisk::new(), &tongues, 1).unwrap();
    let clients = [world.connect(&console), world.connect(&console)];
    for client in clients {
        assert!(ask(&mut world, client, &request("GET", "/api/whoami", "")).starts_with("HTTP/1.1 200"));
    }
    (world, clients[0], clients[1])
}

fn queues(count: usize) -> String {
    let one = |number| format!(r#"{{"vhost":"/","name":"q{number}","durable":true,"arguments":{{}}}}"#);
    format!(r#"{{"queues":[{}]}}"#, (0..count).map(one).collect::<Vec<_>>().join(","))
}

#[test]
fn others_are_answered_while_definitions_are_taken_in() {
    let (mut world, importer, other) = two_clients();
    world.send(importer, &request("POST", "/api/definitions", &queues(2_000)));
    let mut between = 0;
    loop {
        world.turn();
        if let Some(done) = answer(&mut world, importer) {
            assert!(done.starts_with("HTTP/1.1 204"), "{done}");
            break;
        }
        let whole = ask(&mut world, other, &request("GET", "/api/whoami", ""));
        assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
        between += 1;
    }
    assert!(between > 10, "only {between} were answered before the import was");
    let last = ask(&mut world, other, &request("GET", "/api/queues/%2F/q1999", ""));
    assert!(last.starts_with("HTTP/1.1 200"), "{last}");
}

#[test]
fn of_definitions_that_are_no_json_nothing_is_taken() {
    let (mut world, importer, other) = two_clients();
    let broken = queues(100).replace(r#""name":"q99""#, r#""name":q99"#);
    let refused = ask(&mut world, importer, &request("POST", "/api/definitions", &broken));
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("failed_to_parse_json"), "{refused}");
    let first = ask(&mut world, other, &request("GET", "/api/queues/%2F/q0", ""));
    assert!(first.starts_with("HTTP/1.1 404"), "{first}");
}

#[test]
fn others_are_answered_while_the_metrics_of_every_object_are_made() {
    let (mut world, reader, other) = two_clients();
    assert!(ask(&mut world, other, &request("POST", "/api/definitions", &queues(2_000))).starts_with("HTTP/1.1 204"));
    world.send(reader, &request("GET", "/metrics/per-object", ""));
    let mut between = 0;
    let page = loop {
        world.turn();
        if let Some(page) = answer(&mut world, reader) {
            break page;
        }
        let whole = ask(&mut world, other, &request("GET", "/api/whoami", ""));
        assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
        between += 1;
    };
    assert!(between > 10, "only {between} were answered before the page was made");
    for queue in ["q0", "q1999"] {
        let line = format!(r#"rabbitmq_queue_messages_ready{{vhost="/",queue="{queue}"}} 0"#);
        assert!(page.contains(&line), "{queue}");
    }
}
