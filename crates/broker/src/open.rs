//! Opening: what storage recovered becomes the parts' state again. Called once, by [`Broker::open`].

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use cluster::Command;
use model::{Formats, LogId, Name, Now, Offset, TopicId};
use storage::{Batch, Disk, Owner, Recovered, StateChange, Storage, StorageError, SyncPolicy};

use crate::catalog::CatalogStore;
use crate::connection::Connections;
use crate::core::Core;
use crate::events::Events;
use crate::group::{Coordinator, LedgerCodec};
use crate::ids::{self, Ids};
use crate::ledger::Ledger;
use crate::partition::{Compactor, Partitions, Producers, Sweep, UpkeepOptions};
use crate::queue::Queues;
use crate::topic::{LogSettings, Topics, topic_info};
use crate::user::Users;
use crate::{Broker, BrokerError, Options, state};

/// State records by owner.
type Records = BTreeMap<Owner, Vec<Bytes>>;

/// See [`Broker::open`].
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    options: Options,
    formats: Formats,
    codec: Box<dyn LedgerCodec>,
    now: Now,
) -> Result<Broker, BrokerError> {
    let scrub = (options.storage.scrub_bytes, options.storage.scrub_every);
    let (storage, recovered) = Storage::open(disk, options.storage)?;
    for damage in &recovered.damage {
        let (file, at, bytes) = (&damage.file, damage.at, damage.bytes);
        tracing::error!(%file, at, bytes, logs = ?damage.logs, "damaged bytes: these ranges are off line");
    }
    let mut records: Records = recovered.state.iter().cloned().collect();
    let mut core = core_of((storage, &recovered), &mut records, (formats, codec), &options.upkeep, now)?;
    core.scrub = scrub;
    core.scrub_at = (scrub.0 > 0).then(|| now.mono.plus(crate::core::SCRUB_STEP_EVERY));
    add_logs(&mut core, &recovered)?;
    recover_producers(&mut core, &mut records);
    core.expire_producers();
    let is_bucket = |owner: &Owner| owner.kind == state::DELAYS;
    let buckets = records.iter().filter(|(owner, _)| is_bucket(owner)).map(|(owner, all)| (*owner, all.clone()));
    let mut delays = crate::delay::Delays::default();
    delays.recover(&mut core, buckets.collect());
    drop_orphans(&mut core, &recovered)?;
    let positions = positions_of(&records);
    let cursors = records.into_iter().filter(|(owner, _)| owner.kind == state::CURSOR).collect();
    let mut broker = Broker {
        core,
        groups: Coordinator::new(options.groups),
        queues: Queues::new(options.exchanges),
        dialect: options.dialect,
        moved: Vec::new(),
    };
    broker.queues.delays = delays;
    broker.core.found()?;
    broker.core.recover_access()?;
    broker.queues.recover(&mut broker.core, cursors, &positions);
    let groups = &mut broker.groups;
    broker.core.read_ledger(&mut |entry| groups.recover(entry))?;
    broker.groups.recovered(&mut broker.core, now);
    broker.end_turn(now);
    Ok(broker)
}

fn core_of(
    (storage, recovered): (Storage, &Recovered),
    records: &mut Records,
    (formats, codec): (Formats, Box<dyn LedgerCodec>),
    upkeep: &UpkeepOptions,
    now: Now,
) -> Result<Core, BrokerError> {
    let mut of = |kind, id| records.remove(&Owner { kind, id }).unwrap_or_default();
    let catalog = of(state::CATALOG, 0);
    if catalog.is_empty() && !recovered.logs.is_empty() {
        // What is not known to exist would be taken for deleted.
        let why = "the catalog is missing though there are logs: it was damaged; restore it or start an empty folder";
        return Err(StorageError::Unusable(why.to_owned()).into());
    }
    let catalog = CatalogStore::recover(&catalog)?;
    // The reservation says it all; the rest is for a folder in which that was damaged.
    let named = recovered
        .state
        .iter()
        .filter(|(owner, _)| matches!(owner.kind, state::CURSOR | state::PRODUCERS | state::DELAYS));
    let ids = recovered.logs.iter().map(|(log, _)| log.0).chain(named.map(|(owner, _)| owner.id));
    let least = ids.fold(catalog.get().last_log, u64::max) + 1;
    Ok(Core {
        storage,
        catalog,
        events: Events::default(),
        formats: Arc::new(formats),
        partitions: Partitions::default(),
        topics: Topics::default(),
        ledger: Ledger::new(codec),
        users: Users::new(),
        connections: Connections::default(),
        grants: Default::default(),
        log_ids: Ids::recover(ids::LOGS, &of(state::IDS, ids::LOGS), least),
        producer_ids: Ids::recover(ids::PRODUCERS, &of(state::IDS, ids::PRODUCERS), 0),
        now,
        low_on_memory: false,
        aside: crate::aside::Aside::default(),
        times: crate::partition::Times::default(),
        failure: None,
        scratch: Vec::new(),
        next_upkeep: now.mono.plus(crate::core::UPKEEP_EVERY),
        snapshot_due: None,
        sweep: Sweep::new(upkeep.retention_check, now.mono),
        compactor: Compactor::new(upkeep.compaction_check, now.mono),
        sync_at: None,
        space_at: None,
        calm_at: None,
        scrub_at: None,
        scrub: Default::default(),
    })
}

/// Every log that the catalog names, with the topics they make up.
fn add_logs(core: &mut Core, recovered: &Recovered) -> Result<(), BrokerError> {
    let ends: BTreeMap<LogId, Offset> = recovered.logs.iter().map(|(log, range)| (*log, range.end)).collect();
    let end = |log: LogId| ends.get(&log).copied().unwrap_or_default();
    let catalog = core.catalog.get();
    core.partitions.reserve(catalog.queues.len());
    for topic in catalog.topics.values() {
        let settings = Arc::new(LogSettings::of_topic(topic));
        let info = topic_info(topic)?;
        for log in &info.partitions {
            core.storage.set_index_step(*log, settings.index_step);
            core.partitions.add(*log, end(*log), Arc::clone(&settings));
        }
        let tenant = Name::new(&topic.tenant)?;
        if topic.internal && topic.name == crate::group::LEDGER_TOPIC {
            core.ledger.set_logs(&info.partitions);
        }
        core.topics.add(&tenant, info);
    }
    for queue in catalog.queues.values() {
        for log in queue.source.own_logs() {
            core.partitions.add(LogId(log), end(LogId(log)), LogSettings::of_queue(queue.kind()));
        }
    }
    Ok(())
}

fn recover_producers(core: &mut Core, records: &mut Records) {
    let of_logs: Vec<Owner> = records.keys().copied().filter(|owner| owner.kind == state::PRODUCERS).collect();
    for owner in of_logs {
        let told = records.remove(&owner).unwrap_or_default();
        match Producers::recover(&told) {
            Ok(producers) => core.partitions.recover_producers(LogId(owner.id), producers),
            Err(why) => tracing::error!(%why, log = owner.id, "the producers of a log cannot be read: forgotten"),
        }
    }
}

/// How far logs have fed what is bound to their topics.
fn positions_of(records: &Records) -> BTreeMap<u64, u64> {
    let fed = records.iter().filter(|(owner, _)| owner.kind == state::FEED);
    let position = |told: &Vec<Bytes>| Some(u64::from_be_bytes(*told.last()?.first_chunk()?));
    fed.filter_map(|(owner, told)| Some((owner.id, position(told)?))).collect()
}

/// Drops logs that nothing names: their topic or queue was deleted just before the stop, or lived in memory only.
fn drop_orphans(core: &mut Core, recovered: &Recovered) -> Result<(), BrokerError> {
    let owner = Owner { kind: state::DAMAGED_ONCE, id: 0 };
    if recovered.state.iter().any(|(known, _)| *known == owner) {
        return Ok(());
    }
    if !recovered.damage.is_empty() {
        // What names them may be among what is damaged; and the next start may not see the damage any more.
        let batch = Batch { state: &[(owner, StateChange::Snapshot(b"damaged"))], ..Batch::default() };
        core.storage.commit(&batch, SyncPolicy::Sync)?;
        return Ok(());
    }
    let orphan = |log: &LogId| core.partitions.get(*log).is_none();
    let orphans: HashSet<LogId> = recovered.logs.iter().map(|(log, _)| *log).filter(orphan).collect();
    let drops: Vec<LogId> = orphans.into_iter().collect();
    let mut state: Vec<(Owner, StateChange<'_>)> = Vec::new();
    for (owner, _) in &recovered.state {
        if owner.kind == state::PRODUCERS && core.partitions.get(LogId(owner.id)).is_none() {
            state.push((*owner, StateChange::Drop));
        }
    }
    if drops.is_empty() && state.is_empty() {
        return Ok(());
    }
    tracing::info!(logs = drops.len(), "dropping logs that no topic or queue names any more");
    let batch = Batch { drops: &drops, state: &state, ..Batch::default() };
    core.storage.commit(&batch, SyncPolicy::None)?;
    Ok(())
}

impl Core {
    /// On the first start: names the cluster and makes the default user.
    fn found(&mut self) -> Result<(), BrokerError> {
        if !self.catalog.get().cluster_id.is_empty() {
            return Ok(());
        }
        let TopicId(random) = crate::topic::random_id()?;
        self.run(&Command::Found { cluster_id: url_base64(random) })?;
        let user = crate::user::default_user()?; // who gets everything in the default tenant, as all who are there now
        self.run(&Command::PutUser(user))?;
        Ok(())
    }
}

/// 16 bytes as 22 characters of URL-safe base64 without padding.
fn url_base64(bytes: [u8; 16]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let number = u128::from_be_bytes(bytes);
    // 22 groups of 6 bits are 132: the last one holds 2 bits and 4 zeros.
    let group = |at: u32| if at == 21 { (number << 4) & 0x3f } else { (number >> (122 - 6 * at)) & 0x3f };
    (0..22).map(|at| char::from(LETTERS[group(at) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::url_base64;

    #[test]
    fn a_cluster_id_is_plain_url_safe_base64() {
        assert_eq!(url_base64([0; 16]), "A".repeat(22));
        assert_eq!(url_base64([0xff; 16]), "_".repeat(21) + "w");
        assert_eq!(url_base64(*b"0123456789abcdef"), "MDEyMzQ1Njc4OWFiY2RlZg");
    }
}
