//! What tongues ask of topics.

use model::Now;

use super::{ConfigChange, ConfigEntry, NewTopic, TopicInfo, config};
use crate::{Broker, BrokerError, Lsn};

impl Broker {
    /// Makes a topic. The answer is held back until synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Exists`], [`BrokerError::InvalidPartitions`], [`BrokerError::InvalidConfig`],
    /// [`BrokerError::Invalid`], [`BrokerError::Storage`].
    pub fn create_topic(&mut self, topic: &NewTopic, now: Now) -> Result<(TopicInfo, Lsn), BrokerError> {
        self.core.now = now;
        let (partitions, config) = self.core.check_topic(topic)?;
        if self.queues.has(&topic.tenant, &topic.name) {
            return Err(BrokerError::Exists { kind: "queue", name: topic.name.to_string() });
        }
        if topic.validate_only {
            return Ok((TopicInfo::not_made(&topic.name), Lsn::default()));
        }
        self.core.make_topic(&topic.tenant, &topic.name, partitions, config, false)
    }

    /// Changes settings of a topic, all or none; with `validate_only` nothing is changed. What is set holds for
    /// everything that is written from now on. The answer is held back until synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::InvalidConfig`], [`BrokerError::Invalid`] for the broker's own,
    /// [`BrokerError::Storage`].
    pub fn alter_topic(
        &mut self,
        (tenant, name): (&str, &str),
        changes: &[(String, ConfigChange)],
        validate_only: bool,
        now: Now,
    ) -> Result<Lsn, BrokerError> {
        self.core.now = now;
        let lsn = self.core.alter_topic(tenant, name, changes, validate_only)?;
        if let Some(id) = self.queues.id_of(tenant, name) {
            self.queues.apply_retention(&mut self.core, id);
        }
        Ok(lsn)
    }

    /// Adds partitions to a topic until it has so many; with `validate_only` nothing is changed. Queues over it run
    /// over the new ones too. The answer is held back until synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::InvalidGrowth`], [`BrokerError::Invalid`] for the broker's own,
    /// [`BrokerError::Storage`].
    pub fn grow_topic(
        &mut self,
        (tenant, name): (&str, &str),
        partitions: i64,
        validate_only: bool,
        now: Now,
    ) -> Result<Lsn, BrokerError> {
        self.core.now = now;
        let (made, lsn) = self.core.grow_topic((tenant, name), partitions, validate_only)?;
        self.queues.topic_grown(tenant, name, &made);
        self.queues.feeds.grown(tenant, name, &made);
        Ok(lsn)
    }

    /// Removes a topic and all its messages.
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Invalid`] for the broker's own, [`BrokerError::Storage`].
    pub fn delete_topic(&mut self, tenant: &str, name: &str, now: Now) -> Result<Lsn, BrokerError> {
        self.core.now = now;
        let (lsn, logs) = self.core.forget_topic(tenant, name)?;
        self.queues.topic_deleted(&mut self.core, tenant, name);
        self.groups.topic_deleted(&mut self.core, tenant, name, now);
        self.core.drop_logs(&logs);
        Ok(lsn)
    }

    /// One topic by name.
    #[must_use]
    pub fn topic(&self, tenant: &str, name: &str) -> Option<&TopicInfo> {
        self.core.topics.get(tenant, name)
    }

    /// One topic by its lasting identity.
    #[must_use]
    pub fn topic_by_id(&self, tenant: &str, id: model::TopicId) -> Option<&TopicInfo> {
        self.core.topics.get_by_id(tenant, id)
    }

    /// All topics of a tenant, by name.
    #[must_use]
    pub fn topics(&self, tenant: &str) -> Vec<&TopicInfo> {
        self.core.topics.of_tenant(tenant).collect()
    }

    /// All settings of a topic, set or default.
    ///
    /// # Errors
    /// [`BrokerError::Missing`].
    pub fn topic_config(&self, tenant: &str, name: &str) -> Result<Vec<ConfigEntry>, BrokerError> {
        let key = (tenant.to_owned(), name.to_owned());
        let missing = || BrokerError::Missing { kind: "topic", name: name.to_owned() };
        let topic = self.core.catalog.get().topics.get(&key).ok_or_else(missing)?;
        Ok(config::describe(&topic.config))
    }

    /// The settings that a topic made with `config` would have.
    ///
    /// # Errors
    /// [`BrokerError::InvalidConfig`].
    pub fn describe_config(&self, config: &[(String, String)]) -> Result<Vec<ConfigEntry>, BrokerError> {
        Ok(config::describe(&config::check(config)?))
    }
}
