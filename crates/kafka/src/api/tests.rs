//! Every table in every served version: against an independent implementation where that knows the version, against
//! itself elsewhere; and against random bytes.

mod access;
mod configs;
mod cost;
mod fetch_sessions;
mod groups;
mod looks;
mod produce_fetch;
mod records;
mod rig;
mod session;
mod times;
mod topics;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, Message as _};
use model::ByteReader;
use proptest::prelude::*;

use super::*;
use crate::wire::sample::{Random, Sample};
use crate::wire::{Form, Sink, Wire};

/// Samples of each message and version.
const SAMPLES: u64 = 40;

fn write<'a>(message: &impl Wire<'a>, form: Form) -> Vec<u8> {
    let mut sink = Sink::default();
    message.write(&mut sink, form);
    sink.flatten()
}

/// What they make of our bytes, written again by them.
fn through_theirs<T: Decodable + Encodable + std::fmt::Debug>(bytes: &[u8], version: i16) -> Vec<u8> {
    let mut rest = Bytes::copy_from_slice(bytes);
    let message = T::decode(&mut rest, version).expect("they can read what we write");
    assert!(rest.is_empty(), "they leave {} bytes of {bytes:?}: {message:?}", rest.len());
    let mut out = BytesMut::new();
    message.encode(&mut out, version).expect("they can write what they read");
    out.to_vec()
}

macro_rules! tables {
    ($($module:ident: $ours:ty, $theirs:ty;)*) => {
        #[test]
        fn every_table_agrees_with_an_independent_implementation() {
            let mut random = Random(1);
            $({
                let row = &$module::ROW;
                for version in row.served_since..=*row.shown.end() {
                    for _ in 0..SAMPLES {
                        let form = Form::new(version, version >= row.flexible_since);
                        let message = <$ours>::sample(&mut random);
                        let bytes = write(&message, form);
                        let known = <$theirs>::VERSIONS;
                        if known.min <= version && version <= known.max {
                            let what = stringify!($theirs);
                            assert_eq!(through_theirs::<$theirs>(&bytes, version), bytes, "{what} v{version}");
                        }
                        let mut reader = ByteReader::new(&bytes);
                        let back = <$ours>::read(&mut reader, form).expect("we can read what we write");
                        assert_eq!(reader.left(), 0, "{} v{version}", stringify!($ours));
                        assert_eq!(write(&back, form), bytes);
                    }
                }
            })*
        }

        #[test]
        fn a_message_cut_anywhere_is_an_error_and_not_a_panic() {
            let mut random = Random(2);
            $({
                let row = &$module::ROW;
                for version in row.served_since..=*row.shown.end() {
                    let form = Form::new(version, version >= row.flexible_since);
                    let bytes = write(&<$ours>::sample(&mut random), form);
                    let ends = (0..bytes.len()).step_by(1 + bytes.len() / 400);
                    for end in ends {
                        let cut = <$ours>::read(&mut ByteReader::new(&bytes[..end]), form);
                        assert!(cut.is_err(), "{} v{version} cut at {end} of {}", stringify!($ours), bytes.len());
                    }
                }
            })*
        }
    };
}

tables! {
    produce: produce::ProduceRequest<'_>, theirs::ProduceRequest;
    produce: produce::ProduceResponse<'_>, theirs::ProduceResponse;
    fetch: fetch::FetchRequest<'_>, theirs::FetchRequest;
    fetch: fetch::FetchResponse<'_>, theirs::FetchResponse;
    list_offsets: list_offsets::ListOffsetsRequest<'_>, theirs::ListOffsetsRequest;
    list_offsets: list_offsets::ListOffsetsResponse<'_>, theirs::ListOffsetsResponse;
    metadata: metadata::MetadataRequest<'_>, theirs::MetadataRequest;
    metadata: metadata::MetadataResponse<'_>, theirs::MetadataResponse;
    offset_commit: offset_commit::OffsetCommitRequest<'_>, theirs::OffsetCommitRequest;
    offset_commit: offset_commit::OffsetCommitResponse<'_>, theirs::OffsetCommitResponse;
    offset_fetch: offset_fetch::OffsetFetchRequest<'_>, theirs::OffsetFetchRequest;
    offset_fetch: offset_fetch::OffsetFetchResponse<'_>, theirs::OffsetFetchResponse;
    find_coordinator: find_coordinator::FindCoordinatorRequest<'_>, theirs::FindCoordinatorRequest;
    find_coordinator: find_coordinator::FindCoordinatorResponse<'_>, theirs::FindCoordinatorResponse;
    join_group: join_group::JoinGroupRequest<'_>, theirs::JoinGroupRequest;
    join_group: join_group::JoinGroupResponse<'_>, theirs::JoinGroupResponse;
    heartbeat: heartbeat::HeartbeatRequest<'_>, theirs::HeartbeatRequest;
    heartbeat: heartbeat::HeartbeatResponse, theirs::HeartbeatResponse;
    leave_group: leave_group::LeaveGroupRequest<'_>, theirs::LeaveGroupRequest;
    leave_group: leave_group::LeaveGroupResponse<'_>, theirs::LeaveGroupResponse;
    sync_group: sync_group::SyncGroupRequest<'_>, theirs::SyncGroupRequest;
    sync_group: sync_group::SyncGroupResponse<'_>, theirs::SyncGroupResponse;
    describe_groups: describe_groups::DescribeGroupsRequest<'_>, theirs::DescribeGroupsRequest;
    describe_groups: describe_groups::DescribeGroupsResponse<'_>, theirs::DescribeGroupsResponse;
    list_groups: list_groups::ListGroupsRequest<'_>, theirs::ListGroupsRequest;
    list_groups: list_groups::ListGroupsResponse<'_>, theirs::ListGroupsResponse;
    api_versions: api_versions::ApiVersionsRequest<'_>, theirs::ApiVersionsRequest;
    api_versions: api_versions::ApiVersionsResponse<'_>, theirs::ApiVersionsResponse;
    create_topics: create_topics::CreateTopicsRequest<'_>, theirs::CreateTopicsRequest;
    create_topics: create_topics::CreateTopicsResponse<'_>, theirs::CreateTopicsResponse;
    create_partitions: create_partitions::CreatePartitionsRequest<'_>, theirs::CreatePartitionsRequest;
    create_partitions: create_partitions::CreatePartitionsResponse<'_>, theirs::CreatePartitionsResponse;
    describe_log_dirs: describe_log_dirs::DescribeLogDirsRequest<'_>, theirs::DescribeLogDirsRequest;
    describe_log_dirs: describe_log_dirs::DescribeLogDirsResponse<'_>, theirs::DescribeLogDirsResponse;
    delete_groups: delete_groups::DeleteGroupsRequest<'_>, theirs::DeleteGroupsRequest;
    delete_groups: delete_groups::DeleteGroupsResponse<'_>, theirs::DeleteGroupsResponse;
    offset_delete: offset_delete::OffsetDeleteRequest<'_>, theirs::OffsetDeleteRequest;
    offset_delete: offset_delete::OffsetDeleteResponse<'_>, theirs::OffsetDeleteResponse;
    delete_topics: delete_topics::DeleteTopicsRequest<'_>, theirs::DeleteTopicsRequest;
    delete_topics: delete_topics::DeleteTopicsResponse<'_>, theirs::DeleteTopicsResponse;
    delete_records: delete_records::DeleteRecordsRequest<'_>, theirs::DeleteRecordsRequest;
    delete_records: delete_records::DeleteRecordsResponse<'_>, theirs::DeleteRecordsResponse;
    init_producer_id: init_producer_id::InitProducerIdRequest<'_>, theirs::InitProducerIdRequest;
    init_producer_id: init_producer_id::InitProducerIdResponse, theirs::InitProducerIdResponse;
    offset_for_leader_epoch: offset_for_leader_epoch::OffsetForLeaderEpochRequest<'_>,
        theirs::OffsetForLeaderEpochRequest;
    offset_for_leader_epoch: offset_for_leader_epoch::OffsetForLeaderEpochResponse<'_>,
        theirs::OffsetForLeaderEpochResponse;
    describe_configs: describe_configs::DescribeConfigsRequest<'_>, theirs::DescribeConfigsRequest;
    describe_configs: describe_configs::DescribeConfigsResponse<'_>, theirs::DescribeConfigsResponse;
    alter_configs: alter_configs::AlterConfigsRequest<'_>, theirs::AlterConfigsRequest;
    alter_configs: alter_configs::AlterConfigsResponse<'_>, theirs::AlterConfigsResponse;
    incremental_alter_configs: incremental_alter_configs::IncrementalAlterConfigsRequest<'_>,
        theirs::IncrementalAlterConfigsRequest;
    describe_cluster: describe_cluster::DescribeClusterRequest, theirs::DescribeClusterRequest;
    describe_cluster: describe_cluster::DescribeClusterResponse<'_>, theirs::DescribeClusterResponse;
}

#[test]
fn headers_are_flexible_from_the_version_they_should_be() {
    for row in ROWS {
        let key = theirs::ApiKey::try_from(row.api).expect("an API that exists");
        for version in row.served_since..=*row.shown.end() {
            let flexible = version >= row.flexible_since;
            // Versions newer than theirs have the header of the one before.
            let known = version.min(key.valid_versions().max);
            assert_eq!(key.request_header_version(known), 1 + i16::from(flexible), "{} v{version}", row.name);
            let reply = i16::from(flexible && row.api != API_VERSIONS);
            assert_eq!(key.response_header_version(known), reply, "{} v{version}", row.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random bytes as a body of every API in every version: errors at most.
    #[test]
    fn random_bodies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        for row in ROWS {
            for version in row.served_since..=*row.shown.end() {
                let mut frame = Vec::new();
                frame.extend_from_slice(&row.api.to_be_bytes());
                frame.extend_from_slice(&version.to_be_bytes());
                frame.extend_from_slice(&[0, 0, 0, 1, 0xff, 0xff]);
                if version >= row.flexible_since {
                    frame.push(0);
                }
                frame.extend_from_slice(&body);
                fuzz_request(&frame);
            }
        }
    }

    /// Lengths and counts are the places to lie in: bytes that are mostly very large or very small numbers.
    #[test]
    fn lying_counts_never_panic(body in proptest::collection::vec(
        prop_oneof![Just(0u8), Just(1), Just(2), Just(0x7f), Just(0xff), Just(0xfe)], 0..120,
    )) {
        for row in ROWS {
            for version in row.served_since..=*row.shown.end() {
                let mut frame = Vec::new();
                frame.extend_from_slice(&row.api.to_be_bytes());
                frame.extend_from_slice(&version.to_be_bytes());
                frame.extend_from_slice(&[0, 0, 0, 1]);
                frame.extend_from_slice(&body);
                fuzz_request(&frame);
            }
        }
    }
}
