//! Metadata: which topics there are, and where. One node leads everything.

use broker::topic::{NewTopic, TopicInfo};
use broker::{BrokerError, Cx, SyncPolicy};
use model::{Name, ReadError};

use super::asker::{is_topic_name, once, operations};
use super::{Asker, CONFIGURE, Row, Using, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, Uuid, messages};

pub(crate) static ROW: Row = row_of((3, "Metadata"), 0..=13, 9, handle);

messages! {
    MetadataRequest<'a> {
        topics: Option<Vec<MetadataRequestTopic<'a>>>, 0+ null 1;
        allow_auto_topic_creation: bool, 4+ or true;
        include_cluster_authorized_operations: bool, 8-10;
        include_topic_authorized_operations: bool, 8+;
    }
    MetadataRequestTopic<'a> {
        topic_id: Uuid, 10+;
        name: Option<Text<'a>>, 0+ null 10;
    }
    MetadataResponse<'a> {
        throttle_time_ms: i32, 3+;
        brokers: Vec<MetadataBroker<'a>>, 0+;
        cluster_id: Option<Text<'a>>, 2+ null 2;
        controller_id: i32, 1+ or -1;
        topics: Vec<MetadataTopic<'a>>, 0+;
        cluster_authorized_operations: i32, 8-10 or i32::MIN;
        error_code: i16, 13+;
    }
    MetadataBroker<'a> {
        node_id: i32, 0+;
        host: Text<'a>, 0+;
        port: i32, 0+;
        rack: Option<Text<'a>>, 1+ null 1;
    }
    MetadataTopic<'a> {
        error_code: i16, 0+;
        name: Option<Text<'a>>, 0+ null 12;
        topic_id: Uuid, 10+;
        is_internal: bool, 1+;
        partitions: Vec<MetadataPartition>, 0+;
        topic_authorized_operations: i32, 8+ or i32::MIN;
    }
    MetadataPartition {
        error_code: i16, 0+;
        partition_index: i32, 0+;
        leader_id: i32, 0+;
        leader_epoch: i32, 7+ or -1;
        replica_nodes: Vec<i32>, 0+;
        isr_nodes: Vec<i32>, 0+;
        offline_replicas: Vec<i32>, 5+;
    }
}

/// Topics that one request makes. Those beyond are told to be unknown, which clients ask about again.
const MADE_MAX: usize = 256;

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: MetadataRequest<'_> = call.read_body()?;
    // Version 0 cannot say "none" and says "all" by an empty list.
    let asked = request.topics.as_deref().filter(|topics| call.version() > 0 || !topics.is_empty());
    let mut gate = None;
    if request.allow_auto_topic_creation && asker.settings.auto_create_topics {
        let made = asked.unwrap_or_default().iter().filter_map(|topic| create_missing(asker, cx, topic));
        gate = made.take(MADE_MAX).max();
    }
    let topic_operations = match request.include_topic_authorized_operations {
        true => operations::TOPIC,
        false => operations::NOT_ASKED,
    };
    let node = asker.settings.node_id;
    let broker = &*cx.broker;
    let describe = |info: &TopicInfo| describe_topic(info, node, topic_operations);
    let topics = match asked {
        None => asker.topics(broker).map(describe).collect(),
        Some(asked) => {
            let found = once(asked, |topic| (topic.name.as_deref(), topic.topic_id)).map(|topic| {
                match find(asker, broker, topic) {
                    Ok(info) => describe(info),
                    Err(error) => MetadataTopic {
                        error_code: error.0,
                        name: topic.name.clone(),
                        topic_id: topic.topic_id,
                        ..MetadataTopic::default()
                    },
                }
            });
            found.collect()
        }
    };
    let (host, port) = asker.address();
    let response = MetadataResponse {
        brokers: vec![MetadataBroker { node_id: node, host, port, rack: None }],
        cluster_id: Some(Text::Owned(broker.cluster_id().to_owned())),
        controller_id: node,
        topics,
        cluster_authorized_operations: match request.include_cluster_authorized_operations {
            true => operations::CLUSTER,
            false => operations::NOT_ASKED,
        },
        ..MetadataResponse::default()
    };
    Ok(asker.reply_gated(call.to, &response, gate.map(|lsn| Gate::of(SyncPolicy::Sync, lsn)), fail))
}

fn find<'b>(
    asker: &Asker,
    broker: &'b broker::Broker,
    topic: &MetadataRequestTopic<'_>,
) -> Result<&'b TopicInfo, ErrorCode> {
    match &topic.name {
        Some(name) if !is_topic_name(name) => Err(ErrorCode::INVALID_TOPIC_EXCEPTION),
        Some(name) => asker.topic(broker, name, Using::Seeing),
        None => asker.topic_by_id(broker, topic.topic_id, Using::Seeing),
    }
}

/// Makes a topic that was asked for by name and is not there; answers what to wait for.
fn create_missing(asker: &Asker, cx: &mut Cx<'_>, topic: &MetadataRequestTopic<'_>) -> Option<broker::Lsn> {
    let name = topic.name.as_deref().filter(|name| is_topic_name(name))?;
    if asker.topic(cx.broker, name, CONFIGURE) != Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) {
        return None; // it is there, or is not theirs to make
    }
    let new = NewTopic {
        tenant: asker.settings.tenant.clone(),
        name: Name::new(name).ok()?,
        partitions: i64::from(asker.settings.partitions_default),
        config: Vec::new(),
        validate_only: false,
    };
    match cx.broker.create_topic(&new, cx.now) {
        Ok((_, lsn)) => Some(lsn),
        // The client is told that the topic is unknown, and asks again.
        Err(BrokerError::Exists { .. }) => None,
        Err(error) => {
            tracing::warn!(topic = name, %error, "the topic could not be made on demand");
            None
        }
    }
}

fn describe_topic(info: &TopicInfo, node: i32, topic_authorized_operations: i32) -> MetadataTopic<'static> {
    let partitions = (0..info.partitions.len()).map(|index| MetadataPartition {
        partition_index: index as i32,
        leader_id: node,
        leader_epoch: 0,
        replica_nodes: vec![node],
        isr_nodes: vec![node],
        ..MetadataPartition::default()
    });
    MetadataTopic {
        error_code: ErrorCode::NONE.0,
        name: Some(Text::Owned(info.name.to_string())),
        topic_id: info.id.0,
        is_internal: info.internal,
        partitions: partitions.collect(),
        topic_authorized_operations,
    }
}

/// The topics made on demand were not stored: nobody is told of any that may not be there.
fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: MetadataResponse<'_> = to.decode(frame)?;
    for topic in &mut response.topics {
        topic.error_code = ErrorCode::KAFKA_STORAGE_ERROR.0;
        topic.partitions.clear();
    }
    Some(to.encode(&response, Vec::new()))
}
