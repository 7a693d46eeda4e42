//! What logs are called, for people who look at a data folder: by what opening storage recovered.

use std::collections::BTreeMap;

use model::LogId;
use storage::Recovered;

use crate::access::DEFAULT_TENANT;
use crate::catalog::CatalogStore;
use crate::{BrokerError, state};

/// The names of all logs that the catalog knows: `topic/partition`, or `queue 'name'`. Names are as their users gave
/// them: whoever prints them must expect any character.
///
/// # Errors
/// When the catalog cannot be read.
pub fn log_names(recovered: &Recovered) -> Result<BTreeMap<LogId, String>, BrokerError> {
    let records = recovered.state.iter().find(|(owner, _)| *owner == state::CATALOG_OWNER);
    let catalog = CatalogStore::recover(records.map(|(_, records)| records.as_slice()).unwrap_or_default())?;
    let of = |tenant: &str| if tenant == DEFAULT_TENANT { String::new() } else { format!("{tenant}:") };
    let mut names = BTreeMap::new();
    for topic in catalog.get().topics.values() {
        for (number, partition) in topic.partitions.iter().enumerate() {
            names.insert(LogId(partition.log), format!("{}{}/{number}", of(&topic.tenant), topic.name));
        }
    }
    for queue in catalog.get().queues.values() {
        for log in queue.source.own_logs() {
            names.insert(LogId(log), format!("queue '{}{}'", of(&queue.tenant), queue.name));
        }
    }
    Ok(names)
}
