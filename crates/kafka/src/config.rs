//! The Kafka tongue's settings, each with what it does. Whoever starts the server fills them in; sessions read them.

use std::time::Duration;

use broker::SyncPolicy;
use model::Name;

/// Settings shared by all sessions of the tongue.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This node's id, as clients see it (`node.id`).
    pub node_id: i32,
    /// Host and port that clients are told; without one, the address they came by.
    pub advertised: Option<(String, u16)>,
    /// The same for clients that came through TLS.
    pub advertised_ssl: Option<(String, u16)>,
    /// Whose topics and groups the clients see.
    pub tenant: Name,
    /// Whose permissions in that tenant clients have, since they do not log in; without one they may do everything.
    pub user: Option<Name>,
    /// Make a topic when a client that allows it asks for one that does not exist (`auto.create.topics.enable`).
    pub auto_create_topics: bool,
    /// Partitions of topics made without a number (`num.partitions`).
    pub partitions_default: u32,
    /// Largest request, in bytes; a larger one closes the connection (`socket.request.max.bytes`). Only those that
    /// bring messages may be so large: see [`Settings::bytes_max_of`].
    pub request_bytes_max: usize,
    /// Most bytes of one fetch answer, whatever the client allows (`fetch.max.bytes`).
    pub fetch_bytes_max: usize,
    /// Longest note beside a committed offset, in bytes (`offset.metadata.max.bytes`).
    pub commit_metadata_bytes_max: usize,
    /// A client that says nothing for so long is hung up on (`connections.max.idle.ms`).
    pub idle_max: Duration,
    /// When acks=all is answered.
    pub acks_all: SyncPolicy,
    /// When acks=1 is answered.
    pub acks_one: SyncPolicy,
    /// Replies a connection may have under way before it is read no further.
    pub pending_replies_max: usize,
    /// Bytes of replies a connection may have waiting before it is read no further.
    pub pending_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            node_id: 1,
            advertised: None,
            advertised_ssl: None,
            tenant: Name::fixed("/"),
            user: None,
            auto_create_topics: true,
            partitions_default: 1,
            request_bytes_max: 100 << 20,
            fetch_bytes_max: 55 << 20,
            commit_metadata_bytes_max: 4096,
            idle_max: Duration::from_secs(600),
            acks_all: SyncPolicy::Sync,
            acks_one: SyncPolicy::None,
            pending_replies_max: 512,
            pending_bytes_max: 16 << 20,
        }
    }
}

/// What a broker setting's value is, by the protocol's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValueKind {
    Bool = 1,
    Text = 2,
    Int = 3,
    Long = 5,
    List = 7,
}

/// One broker setting under the name that tools know.
pub(crate) struct BrokerConfig {
    pub name: &'static str,
    pub value: String,
    pub kind: ValueKind,
    /// Set by whoever runs the server, not the built-in value.
    pub is_set: bool,
    pub doc: &'static str,
}

/// Largest request that brings no messages, in bytes. A list of a few bytes each takes many times its size in memory,
/// and all of it is gone through in one turn.
const PLAIN_REQUEST_BYTES_MAX: usize = 16 << 20;

impl Settings {
    /// The largest request with this API's key, in bytes.
    pub(crate) fn bytes_max_of(&self, api: i16) -> usize {
        if api == crate::api::PRODUCE {
            self.request_bytes_max
        } else {
            self.request_bytes_max.min(PLAIN_REQUEST_BYTES_MAX)
        }
    }

    /// The settings that tools may read of this broker, by name in order.
    pub(crate) fn describe(&self) -> Vec<BrokerConfig> {
        let plain = Settings::default();
        let fixed = |name, value: &str, kind, doc| BrokerConfig { name, value: value.into(), kind, is_set: false, doc };
        let set = |name, value: String, default: String, kind, doc| {
            let is_set = value != default;
            BrokerConfig { name, value, kind, is_set, doc }
        };
        let advertised = self.advertised.as_ref().map_or_else(String::new, |(host, port)| format!("{host}:{port}"));
        let mut all = vec![
            set("advertised.listeners", advertised, String::new(), ValueKind::Text, "The address clients are told."),
            set(
                "auto.create.topics.enable",
                self.auto_create_topics.to_string(),
                plain.auto_create_topics.to_string(),
                ValueKind::Bool,
                "Make topics that clients ask for and that do not exist.",
            ),
            set(
                "connections.max.idle.ms",
                self.idle_max.as_millis().to_string(),
                plain.idle_max.as_millis().to_string(),
                ValueKind::Long,
                "A client that says nothing for so long is hung up on.",
            ),
            set(
                "fetch.max.bytes",
                self.fetch_bytes_max.to_string(),
                plain.fetch_bytes_max.to_string(),
                ValueKind::Int,
                "Most bytes of one fetch answer.",
            ),
            set("node.id", self.node_id.to_string(), plain.node_id.to_string(), ValueKind::Int, "This node's id."),
            set(
                "num.partitions",
                self.partitions_default.to_string(),
                plain.partitions_default.to_string(),
                ValueKind::Int,
                "Partitions of topics made without a number.",
            ),
            set(
                "offset.metadata.max.bytes",
                self.commit_metadata_bytes_max.to_string(),
                plain.commit_metadata_bytes_max.to_string(),
                ValueKind::Int,
                "Longest note beside a committed offset.",
            ),
            set(
                "socket.request.max.bytes",
                self.request_bytes_max.to_string(),
                plain.request_bytes_max.to_string(),
                ValueKind::Int,
                "Largest request.",
            ),
            fixed("default.replication.factor", "1", ValueKind::Int, "Copies of topics made without a number."),
            fixed("delete.topic.enable", "true", ValueKind::Bool, "Topics can be deleted."),
            fixed("offsets.topic.num.partitions", "50", ValueKind::Int, "Partitions of the offsets topic."),
            fixed("offsets.topic.replication.factor", "1", ValueKind::Int, "Copies of the offsets topic."),
            fixed("min.insync.replicas", "1", ValueKind::Int, "Copies that acks=all asks for."),
        ];
        for (name, value, kind, doc) in LOG_DEFAULTS {
            all.push(fixed(name, value, *kind, doc));
        }
        all.sort_by_key(|config| config.name);
        all
    }
}

/// What topics get when they do not say otherwise, under the names of the broker's own settings.
const LOG_DEFAULTS: &[(&str, &str, ValueKind, &str)] = &[
    ("log.cleanup.policy", "delete", ValueKind::List, "What becomes of old messages."),
    ("log.cleaner.delete.retention.ms", "86400000", ValueKind::Long, "How long tombstones are kept."),
    ("log.message.timestamp.after.max.ms", "3600000", ValueKind::Long, "How far times may lie ahead of the clock."),
    ("log.message.timestamp.type", "CreateTime", ValueKind::Text, "Whose time messages carry."),
    ("log.retention.bytes", "-1", ValueKind::Long, "Bytes a partition keeps; -1: all."),
    ("log.retention.ms", "604800000", ValueKind::Long, "How long messages are kept; -1: for ever."),
    ("log.segment.bytes", "1073741824", ValueKind::Int, "How large a segment gets."),
    ("message.max.bytes", "1048588", ValueKind::Int, "Largest record batch."),
];
