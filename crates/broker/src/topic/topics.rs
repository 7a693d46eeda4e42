//! Topics by name and by id: the catalog's topics as tongues see them, found without allocating.

use std::collections::{BTreeMap, HashMap};

use model::{Name, TopicId};

use super::TopicInfo;

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<Name, BTreeMap<Name, TopicInfo>>,
    by_id: HashMap<TopicId, (Name, Name)>,
}

impl Topics {
    /// Adds a topic.
    pub(crate) fn add(&mut self, tenant: &Name, topic: TopicInfo) {
        self.by_id.insert(topic.id, (tenant.clone(), topic.name.clone()));
        self.by_name.entry(tenant.clone()).or_default().insert(topic.name.clone(), topic);
    }

    /// Removes a topic and answers what it was.
    pub(crate) fn remove(&mut self, tenant: &str, name: &str) -> Option<TopicInfo> {
        let of_tenant = self.by_name.get_mut(tenant)?;
        let topic = of_tenant.remove(name)?;
        if of_tenant.is_empty() {
            self.by_name.remove(tenant);
        }
        self.by_id.remove(&topic.id);
        Some(topic)
    }

    /// One topic by name, to change what its settings say.
    pub(crate) fn get_mut(&mut self, tenant: &str, name: &str) -> Option<&mut TopicInfo> {
        self.by_name.get_mut(tenant)?.get_mut(name)
    }

    /// One topic by name.
    pub(crate) fn get(&self, tenant: &str, name: &str) -> Option<&TopicInfo> {
        self.by_name.get(tenant)?.get(name)
    }

    /// One topic by id, if it is that tenant's.
    pub(crate) fn get_by_id(&self, tenant: &str, id: TopicId) -> Option<&TopicInfo> {
        let (owner, name) = self.by_id.get(&id)?;
        if owner.as_str() == tenant { self.get(tenant, name) } else { None }
    }

    /// A tenant's topics, by name.
    pub(crate) fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = &TopicInfo> {
        self.by_name.get(tenant).into_iter().flat_map(BTreeMap::values)
    }
}
