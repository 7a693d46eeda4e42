//! Making and forgetting topics: catalog, index and logs together.

use std::sync::Arc;

use cluster::Command;
use cluster::meta::{Partition, Topic, TopicChange, TopicConfig, TopicGrowth};
use model::{LogId, Name, Offset, TopicId};

use super::{ConfigChange, LogSettings, NewTopic, PARTITIONS_MAX, TopicInfo, config};
use crate::core::Core;
use crate::ids::random;
use crate::{BrokerError, Lsn};

/// A topic on its way into the catalog.
pub(crate) struct NewTopicParts {
    /// As the catalog keeps it.
    pub(crate) topic: Topic,
    /// As tongues see it.
    pub(crate) info: TopicInfo,
}

impl TopicInfo {
    /// What is answered for a topic that was only checked.
    pub(crate) fn not_made(name: &Name) -> TopicInfo {
        let intake = config::intake(&TopicConfig::new());
        TopicInfo { name: name.clone(), id: TopicId::NONE, partitions: Vec::new(), internal: false, intake }
    }
}

/// A topic of the catalog as tongues see it.
pub(crate) fn topic_info(topic: &Topic) -> Result<TopicInfo, BrokerError> {
    Ok(TopicInfo {
        name: Name::new(&topic.name)?,
        id: TopicId(topic.id),
        partitions: topic.partitions.iter().map(|partition| LogId(partition.log)).collect(),
        internal: topic.internal,
        intake: config::intake(&topic.config),
    })
}

/// A random identity (a UUID of version 4).
pub(crate) fn random_id() -> Result<TopicId, BrokerError> {
    let mut id: [u8; 16] = random()?;
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    Ok(TopicId(id))
}

impl Core {
    /// Checks all that can be checked before a topic is made; answers its partitions and settings.
    pub(crate) fn check_topic(&self, topic: &NewTopic) -> Result<(u32, TopicConfig), BrokerError> {
        if topic.name.is_empty() {
            return Err(BrokerError::Invalid("a topic's name is not empty".to_owned()));
        }
        self.tenant_of(&topic.tenant)?;
        if self.topics.get(&topic.tenant, &topic.name).is_some() {
            return Err(BrokerError::Exists { kind: "topic", name: topic.name.to_string() });
        }
        let asked = topic.partitions;
        let partitions = u32::try_from(asked).ok().filter(|count| (1..=PARTITIONS_MAX).contains(count));
        let partitions = partitions.ok_or(BrokerError::InvalidPartitions { asked, max: PARTITIONS_MAX })?;
        Ok((partitions, config::check(&topic.config)?))
    }

    /// The parts of a topic that is not there yet: its logs have ids, and nothing else.
    pub(crate) fn new_topic(
        &mut self,
        tenant: &Name,
        name: &Name,
        partitions: u32,
        config: TopicConfig,
        internal: bool,
    ) -> Result<NewTopicParts, BrokerError> {
        let mut made = Vec::with_capacity(partitions as usize);
        for _ in 0..partitions {
            made.push(Partition { log: self.new_log_id()?.0 });
        }
        let TopicId(id) = random_id()?;
        let (owner, title) = (tenant.to_string(), name.to_string());
        let topic = Topic { tenant: owner, name: title, id, partitions: made, config, internal };
        let info = topic_info(&topic)?;
        Ok(NewTopicParts { topic, info })
    }

    /// The catalog has a new topic: its logs are there from now on.
    pub(crate) fn topic_made(&mut self, tenant: &Name, topic: &Topic, info: TopicInfo) {
        let settings = Arc::new(LogSettings::of_topic(topic));
        for log in &info.partitions {
            self.add_log(*log, Offset::ZERO, &settings);
        }
        self.topics.add(tenant, info);
    }

    /// Makes a topic's log known; `next` is the offset of its next message.
    pub(crate) fn add_log(&mut self, log: LogId, next: Offset, settings: &Arc<LogSettings>) {
        self.storage.set_index_step(log, settings.index_step);
        self.partitions.add(log, next, Arc::clone(settings));
    }

    /// Makes a topic that was checked.
    pub(crate) fn make_topic(
        &mut self,
        tenant: &Name,
        name: &Name,
        partitions: u32,
        config: TopicConfig,
        internal: bool,
    ) -> Result<(TopicInfo, Lsn), BrokerError> {
        let NewTopicParts { topic, info } = self.new_topic(tenant, name, partitions, config, internal)?;
        let lsn = self.run(&Command::CreateTopic(topic.clone()))?;
        self.topic_made(tenant, &topic, info.clone());
        Ok((info, lsn))
    }

    /// Changes a topic's settings, or only checks whether they could be changed so.
    pub(crate) fn alter_topic(
        &mut self,
        tenant: &str,
        name: &str,
        changes: &[(String, ConfigChange)],
        validate_only: bool,
    ) -> Result<Lsn, BrokerError> {
        let key = (tenant.to_owned(), name.to_owned());
        let missing = || BrokerError::Missing { kind: "topic", name: name.to_owned() };
        let topic = self.catalog.get().topics.get(&key).ok_or_else(missing)?;
        if topic.internal {
            return Err(BrokerError::Invalid(format!("topic '{name}' is the broker's own: its settings are fixed")));
        }
        let (set, unset) = config::changed(&topic.config, changes)?;
        if validate_only || (set.is_empty() && unset.is_empty()) {
            // What is as asked already may have become so a moment ago.
            return Ok(self.catalog.last_change());
        }
        let lsn =
            self.run(&Command::AlterTopic(TopicChange { tenant: key.0.clone(), name: key.1.clone(), set, unset }))?;
        let config = self.catalog.get().topics.get(&key).map(|topic| topic.config.clone()).unwrap_or_default();
        let settings = Arc::new(LogSettings::of_config(&config));
        let info = self.topics.get_mut(tenant, name).ok_or_else(missing)?;
        info.intake = config::intake(&config);
        for log in &info.partitions {
            self.storage.set_index_step(*log, settings.index_step);
            if let Some(partition) = self.partitions.get_mut(*log) {
                partition.log.settings = Arc::clone(&settings);
            }
        }
        Ok(lsn)
    }

    /// Adds partitions to a topic until it has `partitions`, or only checks whether it could; answers the new ones.
    pub(crate) fn grow_topic(
        &mut self,
        (tenant, name): (&str, &str),
        partitions: i64,
        validate_only: bool,
    ) -> Result<(Vec<LogId>, Lsn), BrokerError> {
        let key = (tenant.to_owned(), name.to_owned());
        let missing = || BrokerError::Missing { kind: "topic", name: name.to_owned() };
        let topic = self.catalog.get().topics.get(&key).ok_or_else(missing)?;
        if topic.internal {
            return Err(BrokerError::Invalid(format!("topic '{name}' is the broker's own: its partitions are fixed")));
        }
        let has = topic.partitions.len();
        let wanted = u32::try_from(partitions).ok().filter(|count| *count <= PARTITIONS_MAX);
        let wanted = wanted.filter(|count| *count as usize > has);
        let refused = BrokerError::InvalidGrowth { has, asked: partitions, max: PARTITIONS_MAX };
        let more = wanted.ok_or(refused)? as usize - has;
        let settings = Arc::new(LogSettings::of_topic(topic));
        if validate_only {
            return Ok((Vec::new(), self.catalog.last_change()));
        }
        let mut made = Vec::with_capacity(more);
        for _ in 0..more {
            made.push(self.new_log_id()?);
        }
        let partitions = made.iter().map(|log| Partition { log: log.0 }).collect();
        let lsn = self.run(&Command::GrowTopic(TopicGrowth { tenant: key.0, name: key.1, partitions }))?;
        for log in &made {
            self.add_log(*log, Offset::ZERO, &settings);
        }
        self.topics.get_mut(tenant, name).ok_or_else(missing)?.partitions.extend(&made);
        Ok((made, lsn))
    }

    /// Removes a topic from the catalog and the index; its logs, which are answered, are still to be dropped.
    pub(crate) fn forget_topic(&mut self, tenant: &str, name: &str) -> Result<(Lsn, Vec<LogId>), BrokerError> {
        let missing = || BrokerError::Missing { kind: "topic", name: name.to_owned() };
        if self.topics.get(tenant, name).ok_or_else(missing)?.internal {
            return Err(BrokerError::Invalid(format!("topic '{name}' is the broker's own")));
        }
        let lsn = self.run(&Command::DeleteTopic((tenant.to_owned(), name.to_owned())))?;
        let topic = self.topics.remove(tenant, name).ok_or_else(missing)?;
        Ok((lsn, topic.partitions))
    }
}
