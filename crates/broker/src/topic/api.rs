//! What tongues ask of topics.

use model::Now;

use super::{ConfigEntry, NewTopic, TopicInfo};
use crate::{Broker, BrokerError, Lsn};

#[allow(unused_variables, clippy::needless_pass_by_value)]
impl Broker {
    /// Makes a topic. The answer is held back until synced up to the [`Lsn`].
    pub fn create_topic(&mut self, topic: &NewTopic, now: Now) -> Result<(TopicInfo, Lsn), BrokerError> {
        unimplemented!()
    }

    /// Removes a topic and all its messages.
    pub fn delete_topic(&mut self, tenant: &str, name: &str, now: Now) -> Result<Lsn, BrokerError> {
        unimplemented!()
    }

    /// One topic by name.
    #[must_use]
    pub fn topic(&self, tenant: &str, name: &str) -> Option<&TopicInfo> {
        unimplemented!()
    }

    /// One topic by its lasting identity.
    #[must_use]
    pub fn topic_by_id(&self, tenant: &str, id: model::TopicId) -> Option<&TopicInfo> {
        unimplemented!()
    }

    /// All topics of a tenant, by name.
    pub fn topics(&self, tenant: &str) -> Vec<&TopicInfo> {
        unimplemented!()
    }

    /// All settings of a topic, set or default.
    pub fn topic_config(&self, tenant: &str, name: &str) -> Result<Vec<ConfigEntry>, BrokerError> {
        unimplemented!()
    }
}
