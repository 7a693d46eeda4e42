//! Frames: cut, out of bounds, out of table; replies in order.

use super::super::{API_VERSIONS, api_versions, fetch, metadata, produce};
use super::rig::{Rig, plain_batch, produce_request};
use crate::Settings;

fn versions(version: i16) -> api_versions::ApiVersionsRequest<'static> {
    let (name, number) = if version >= 3 { ("tester", "1.0") } else { ("", "") };
    api_versions::ApiVersionsRequest {
        client_software_name: name.into(),
        client_software_version: number.into(),
        ..Default::default()
    }
}

#[test]
fn a_silent_client_is_hung_up_on_but_not_while_it_waits_for_us() {
    let mut rig = Rig::new();
    let settings = || Settings { idle_max: std::time::Duration::from_secs(60), ..Settings::default() };
    let (silent, busy) = (rig.connect_with(settings()), rig.connect_with(settings()));
    rig.tick_sessions();
    for _ in 0..5 {
        rig.wait(50_000);
        rig.ask(busy, &api_versions::ROW, 0, &versions(0));
        rig.tick_sessions();
    }
    assert!(rig.is_closed(silent) && !rig.is_closed(busy));
    rig.wait(60_000);
    rig.tick_sessions();
    assert!(rig.is_closed(busy));
}

#[test]
fn a_request_that_stays_half_sent_ends_its_connection() {
    let mut rig = Rig::new();
    let (half, slow) = (rig.connect(), rig.connect());
    rig.tick_sessions();
    let frame = rig.frame(slow, &api_versions::ROW, 0, &versions(0));
    rig.push(half, &frame[..3]);
    rig.push(slow, &frame[..3]);
    rig.pump();
    for at in 3..5 {
        rig.wait(59_000);
        rig.push(half, &frame[at..=at]); // drop by drop
        rig.pump();
        rig.tick_sessions();
    }
    assert!(!rig.is_closed(half));
    rig.push(slow, &frame[3..]);
    rig.pump();
    rig.wait(3000);
    rig.tick_sessions();
    assert!(rig.is_closed(half) && !rig.is_closed(slow));
}

#[test]
fn k12_produce_is_shown_from_0_and_old_requests_close_only_their_connection() {
    let mut rig = Rig::new();
    let (old, other) = (rig.connect(), rig.connect());
    for version in 0..=5 {
        let reply = rig.ask(old, &api_versions::ROW, version, &versions(version));
        let response: api_versions::ApiVersionsResponse<'_> = reply.read();
        assert_eq!((response.error_code, response.api_keys.len()), (0, super::super::ROWS.len()));
        let produce = response.api_keys.iter().find(|row| row.api_key == 0).unwrap();
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
        assert!(response.finalized_features.is_empty());
    }
    rig.push(old, b"\0\0\0\x0c\0\0\0\x02\0\0\0\x07\xff\xff\0\0");
    rig.pump();
    assert!(rig.is_closed(old));
    let reply = rig.ask(other, &api_versions::ROW, 0, &versions(0));
    assert_eq!(reply.read::<api_versions::ApiVersionsResponse<'_>>().error_code, 0);
}

#[test]
fn a_version_of_api_versions_that_is_too_new_is_answered_in_version_0_with_the_table() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.push(client, b"\0\0\0\x0b\0\x12\0\x63\0\0\0\x05\xff\xff\0");
    rig.pump();
    assert_eq!(&rig.received(client)[4..10], b"\0\0\0\x05\0\x23");
    let reply = rig.reply(client, &api_versions::ROW, 0);
    let response: api_versions::ApiVersionsResponse<'_> = reply.read();
    assert!(response.api_keys.iter().any(|row| (row.api_key, row.max_version) == (API_VERSIONS, 5)));
    assert!(!rig.is_closed(client));
}

#[test]
fn api_versions_refuses_odd_software_names_and_other_clusters() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let mut request = versions(5);
    request.client_software_name = "-no".into();
    let reply = rig.ask(client, &api_versions::ROW, 5, &request);
    assert_eq!(reply.read::<api_versions::ApiVersionsResponse<'_>>().error_code, 42);
    let mut request = versions(5);
    request.cluster_id = Some("another-cluster-entirely".into());
    let reply = rig.ask(client, &api_versions::ROW, 5, &request);
    assert_eq!(reply.read::<api_versions::ApiVersionsResponse<'_>>().error_code, 129);
}

#[test]
fn unknown_keys_versions_and_lengths_close_the_connection_and_no_other() {
    let mut rig = Rig::new();
    let good = rig.connect();
    let frames: [&[u8]; 8] = [
        b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\x01\xff\xff",                 // no such key
        b"\0\0\0\x0a\0\x03\0\x63\0\0\0\x01\xff\xff",                 // no such version
        b"\0\0\0\x0a\0\x03\xff\xff\0\0\0\x01\xff\xff",               // a negative one
        b"\xff\xff\xff\xff",                                         // a negative length
        b"\x7f\xff\xff\xff",                                         // a length beyond the limit
        b"\0\0\0\x03\0\x03\0",                                       // shorter than a header
        b"\0\0\0\x0a\0\x03\0\x01\0\0\0\x01\x7f\xff",                 // a client id longer than the frame
        b"\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\xff\xff\x7f\xff\xff\xff", // a count out of thin air
    ];
    for frame in frames {
        let client = rig.connect();
        rig.push(client, frame);
        rig.pump();
        assert!(rig.is_closed(client), "{frame:?}");
    }
    let reply = rig.ask(good, &api_versions::ROW, 0, &versions(0));
    assert_eq!(reply.read::<api_versions::ApiVersionsResponse<'_>>().error_code, 0);
}

#[test]
fn a_request_that_comes_byte_by_byte_is_answered_once_it_is_whole() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let frame = rig.frame(client, &metadata::ROW, 12, &metadata::MetadataRequest::default());
    for byte in &frame[..frame.len() - 1] {
        rig.push(client, &[*byte]);
        rig.turn();
        assert!(rig.received(client).is_empty() && !rig.is_closed(client));
    }
    rig.push(client, &frame[frame.len() - 1..]);
    rig.pump();
    assert_eq!(rig.correlations(client), [1]);
}

#[test]
fn replies_leave_in_the_order_of_their_requests() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let batch = plain_batch(1);
    let mut frames = rig.frame(client, &produce::ROW, 9, &produce_request("t", &batch, -1));
    frames.extend(rig.frame(client, &api_versions::ROW, 0, &versions(0)));
    frames.extend(rig.frame(client, &produce::ROW, 9, &produce_request("t", &batch, 1)));
    frames.extend(rig.frame(client, &metadata::ROW, 1, &metadata::MetadataRequest::default()));
    rig.push(client, &frames);
    rig.turn();
    assert!(rig.received(client).is_empty(), "nothing overtakes the reply that waits for its sync");
    rig.pump();
    assert_eq!(rig.correlations(client), [1, 2, 3, 4]);
}

#[test]
fn too_many_replies_under_way_stop_the_reading_until_they_have_left() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect_with(Settings { pending_replies_max: 3, ..Settings::default() });
    let batch = plain_batch(1);
    for _ in 0..10 {
        let frame = rig.frame(client, &produce::ROW, 9, &produce_request("t", &batch, -1));
        rig.push(client, &frame);
    }
    rig.turn();
    assert!(!rig.wants_input(client));
    rig.pump();
    assert_eq!(rig.correlations(client), (1..=10).collect::<Vec<_>>());
    assert!(rig.wants_input(client));
}

#[test]
fn a_fetch_session_that_we_never_gave_out_is_not_found() {
    let mut rig = Rig::new();
    let client = rig.connect();
    let request = fetch::FetchRequest { session_id: 5, session_epoch: 3, ..Default::default() };
    let reply = rig.ask(client, &fetch::ROW, 11, &request);
    assert_eq!(reply.read::<fetch::FetchResponse<'_>>().error_code, 70);
}
