//! The way of a published message into the logs of its queues: looked up by borrowed names, stored once, in one batch.
//! Nothing is allocated here per message.

use model::{Now, Stamp};
use storage::{Append, Batch, Lsn, SyncPolicy, Target};

use super::partitioner::partition_of;
use super::{PublishRequest, Published};
use crate::BrokerError;
use crate::core::Core;
use crate::queue::Queues;

/// The leader epoch of a node that is alone.
const EPOCH: u32 = 0;

impl Queues {
    /// Publishes one message.
    pub(super) fn publish(
        &mut self,
        core: &mut Core,
        request: &PublishRequest<'_>,
        now: Now,
    ) -> Result<Published, BrokerError> {
        let mut targets = std::mem::take(&mut self.targets);
        targets.clear();
        let published = self.route(core, request, &mut targets).and_then(|(queues, durable)| {
            let lsn = if targets.is_empty() { Lsn::default() } else { store(core, request, &targets, (durable, now))? };
            Ok(Published { queues, lsn })
        });
        self.targets = targets;
        published
    }

    /// Finds the logs that `request` goes to, each once; answers how many queues that are and whether one of them
    /// survives a restart.
    fn route(
        &mut self,
        core: &Core,
        request: &PublishRequest<'_>,
        targets: &mut Vec<Target>,
    ) -> Result<(u32, bool), BrokerError> {
        let one;
        // The default exchange knows every queue by its name.
        let (queues, key) = if request.exchange.is_empty() {
            one = self.id_of(request.tenant, request.key);
            (one.as_slice(), None)
        } else {
            match self.exchanges.get(request.tenant, request.exchange) {
                Some(exchange) => (exchange.route(request.key), Some(request.key)),
                None if self.exchanges.is_builtin(request.exchange) => (&[] as &[u64], None), // nothing was ever bound
                None => return to_topic(core, request, targets),
            }
        };
        let (mut count, mut durable) = (0, false);
        for id in queues {
            let Some(queue) = self.by_id.get_mut(id) else { continue };
            let Some(log) = queue.log_for(key) else { continue };
            let Some(first) = core.partitions.next_offset(log) else { continue };
            count += 1;
            durable |= queue.is_stored() || queue.own_log().is_none();
            // Two queues that share a topic have the message once in its log, and both see it.
            if !targets.iter().any(|target| target.log == log) {
                targets.push(Target { log, first });
            }
        }
        Ok((count, durable))
    }
}

/// A topic answers as an exchange of its own name unless one is declared: the key picks the partition.
fn to_topic(core: &Core, request: &PublishRequest<'_>, targets: &mut Vec<Target>) -> Result<(u32, bool), BrokerError> {
    let topic = core.topics.get(request.tenant, request.exchange).filter(|topic| !topic.internal);
    let Some(topic) = topic else {
        return Err(BrokerError::Missing { kind: "exchange", name: request.exchange.to_owned() });
    };
    let at = partition_of(request.key.as_bytes(), topic.partitions.len());
    let log = topic.partitions.get(at).copied();
    if let Some((log, first)) = log.and_then(|log| Some((log, core.partitions.next_offset(log)?))) {
        targets.push(Target { log, first });
    }
    Ok((targets.len() as u32, true))
}

fn store(
    core: &mut Core,
    request: &PublishRequest<'_>,
    targets: &[Target],
    (durable, now): (bool, Now),
) -> Result<Lsn, BrokerError> {
    let base = targets.first().map_or_else(Default::default, |target| target.first);
    let append = Append {
        targets,
        format: request.format,
        units: request.unit,
        last_delta: 0,
        count: 1,
        time_max: request.time,
        stamp: Stamp { base, epoch: EPOCH, at: now.wall },
    };
    // What would not survive a restart anyway needs no sync, and then nobody has to wait for one.
    let lasts = durable && request.persistent;
    let policy = if lasts { request.policy } else { SyncPolicy::None };
    let lsn = core.commit(&Batch { appends: &[append], ..Batch::default() }, policy)?;
    Ok(if policy == request.policy { lsn } else { Lsn::default() })
}
