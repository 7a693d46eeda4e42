//! Making a stream: a view of a topic that there is, or a topic of its own under the same name.

use std::sync::Arc;

use cluster::Command;
use cluster::meta::{QueueSource, TopicConfig};
use model::Name;

use super::super::manage::{shared_track, stored};
use super::super::queue::Queue;
use super::super::queues::{Queues, mark};
use super::super::{Declared, QueueOptions, QueueSpec};
use crate::core::Core;
use crate::topic::{LogSettings, NewTopicParts};
use crate::{BrokerError, Lsn};

/// What a stream's own topic is set to, to keep what the stream was asked to keep: all, where it names no limit.
fn retention_of(options: &QueueOptions) -> TopicConfig {
    const SEGMENT_BYTES_MIN: u64 = 14; // as a topic's setting
    let number = |limit: Option<u64>| limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX)).to_string();
    let mut config = TopicConfig::new();
    config.insert("retention.ms".to_owned(), number(options.age_ms_max));
    config.insert("retention.bytes".to_owned(), number(options.bytes_max));
    if let Some(bytes) = options.segment_bytes_max {
        let bytes = bytes.clamp(SEGMENT_BYTES_MIN, u64::from(i32::MAX.unsigned_abs()));
        config.insert("segment.bytes".to_owned(), bytes.to_string());
    }
    config
}

impl Queues {
    /// Makes a stream that is not there yet.
    pub(in crate::queue) fn make_stream(&mut self, core: &mut Core, spec: &QueueSpec) -> Result<Declared, BrokerError> {
        if !spec.durable || spec.exclusive || spec.auto_delete {
            let why = "a stream survives restarts, belongs to nobody and is not deleted by itself";
            return Err(BrokerError::Invalid(why.to_owned()));
        }
        let topic = spec.topic.as_ref().unwrap_or(&spec.name);
        let is_there = core.topics.get(&spec.tenant, topic).is_some();
        if !is_there && spec.topic.is_some() {
            return Err(BrokerError::Missing { kind: "topic", name: topic.to_string() });
        }
        if spec.topic.as_ref().is_some_and(|topic| *topic != spec.name)
            && core.topics.get(&spec.tenant, &spec.name).is_some()
        {
            return Err(BrokerError::Exists { kind: "topic", name: spec.name.to_string() });
        }
        let asked = [spec.options.age_ms_max, spec.options.bytes_max, spec.options.segment_bytes_max];
        if is_there && asked.iter().any(Option::is_some) {
            let why = format!("topic '{topic}' is there already: what it keeps is set there, not by a stream over it");
            return Err(BrokerError::Invalid(why));
        }
        let id = core.new_log_id()?.0;
        let seen = QueueSpec { topic: Some(topic.clone()), ..spec.clone() };
        let lsn = if is_there {
            core.run(&Command::CreateQueue(stored(id, &seen, view(topic, false))))?
        } else {
            self.make_topic_of(core, id, &seen)?
        };
        let partitions = core.topics.get(&spec.tenant, topic).map(|info| info.partitions.clone()).unwrap_or_default();
        let tracks = partitions.iter().map(|&log| shared_track(core, log)).collect();
        let mut queue = Queue::new(id, &seen, None, tracks, core.now);
        queue.info.own_topic(!is_there);
        mark(&mut queue, &mut self.marked);
        self.insert(queue);
        core.connections.past.queues_declared += 1;
        core.connections.past.queues_created += 1;
        self.govern_queue(core, id);
        let info = self.by_id.get(&id).map(|queue| queue.describe());
        let info = info.ok_or_else(|| BrokerError::Missing { kind: "queue", name: spec.name.to_string() })?;
        Ok(Declared { info, created: true, lsn })
    }

    /// What a stream keeps has changed, or its topic has been set: the log of its own topic goes by both. Policies are
    /// not written into the topic's settings, since they come and go.
    pub(crate) fn apply_retention(&self, core: &mut Core, id: u64) {
        let Some(queue) = self.by_id.get(&id).filter(|queue| queue.info.owns_topic()) else { return };
        let (Some(rules), Some(topic)) = (queue.rules.as_deref(), queue.info.topic()) else { return };
        let key = (queue.tenant.to_string(), topic.to_string());
        let Some(topic) = core.catalog.get().topics.get(&key) else { return };
        let mut config = topic.config.clone();
        if rules.ruled.is_some() {
            config.extend(retention_of(&rules.options));
        }
        let settings = Arc::new(LogSettings::of_config(&config));
        for log in queue.info.partitions() {
            if let Some(partition) = core.partitions.get_mut(*log) {
                partition.log.settings = Arc::clone(&settings);
            }
        }
    }

    /// The topic and the queue are one command: there is never one without the other.
    fn make_topic_of(&mut self, core: &mut Core, id: u64, spec: &QueueSpec) -> Result<Lsn, BrokerError> {
        let config = retention_of(&spec.options);
        let NewTopicParts { topic, info } = core.new_topic(&spec.tenant, &spec.name, 1, config, false)?;
        let queue = stored(id, spec, view(&spec.name, true));
        let lsn = core.run(&Command::CreateStream { topic: topic.clone(), queue })?;
        core.topic_made(&spec.tenant, &topic, info);
        Ok(lsn)
    }
}

fn view(topic: &Name, owned: bool) -> QueueSource {
    QueueSource::Topic { topic: topic.to_string(), owned }
}
