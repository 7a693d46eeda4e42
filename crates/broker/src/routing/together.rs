//! Several messages published, and others acknowledged, together: stored as one batch, all of it or nothing.

use std::collections::HashMap;

use model::{LogId, Now, Stamp};
use storage::{Append, Batch, Lsn, Owner, StateChange, SyncPolicy, Target};

use super::publish::{EPOCH, Routed};
use super::{PublishRequest, Published};
use crate::core::Core;
use crate::delay::Holding;
use crate::queue::{DeliveryKey, Queues, Settle};
use crate::{BrokerError, SessionId, state};

/// How many messages of a batch in the making go to each log: where the next of them goes.
#[derive(Debug, Default)]
pub(crate) struct Ends(HashMap<LogId, u64>);

impl Ends {
    /// Places the next message of the batch behind those before it. `targets` have the ends of their logs.
    pub(crate) fn place(&mut self, targets: &mut [Target]) {
        for target in targets {
            let before = self.0.entry(target.log).or_default();
            target.first = target.first.plus(*before);
            *before += 1;
        }
    }
}

impl Queues {
    /// Publishes all of `requests` and settles `acks`, which `session` holds, sorted by queue; each answer has the
    /// place of the one batch.
    pub(super) fn publish_all(
        &mut self,
        core: &mut Core,
        requests: &[PublishRequest<'_>],
        (session, acks): (SessionId, &[DeliveryKey]),
        now: Now,
    ) -> Result<Vec<Published>, BrokerError> {
        let mut routed = Vec::with_capacity(requests.len());
        let mut ends = Ends::default();
        let mut lasts = false;
        let mut holding = Holding::default();
        core.now = now; // a wait begins with this call, however long nothing happened before it
        for request in requests {
            let mut targets: Vec<Target> = Vec::new();
            let mailed = self.mailbox_of(request).is_some();
            let mail = Routed { queues: 1, ..Routed::default() };
            let found = if mailed { mail } else { self.route(core, request, &mut targets)? };
            ends.place(&mut targets);
            if found.counted {
                self.expect(core, &targets, &request.marks);
            }
            if found.waits > 0 {
                self.hold(core, request, &mut holding)?;
            }
            lasts |= found.must_last(request) && request.policy == SyncPolicy::Sync;
            routed.push((targets, found));
        }
        let appends = requests.iter().zip(&routed).filter(|(_, (targets, _))| !targets.is_empty());
        let appends = appends.map(|(request, (targets, _))| Append {
            targets,
            format: request.format,
            units: request.unit,
            last_delta: 0,
            count: 1,
            time_max: request.time,
            stamp: Stamp {
                base: targets.first().map_or_else(Default::default, |target| target.first),
                epoch: EPOCH,
                at: now.wall,
            },
        });
        let appends = appends.chain(holding.appends(now.wall)).collect::<Vec<_>>();
        let policy = if lasts { SyncPolicy::Sync } else { SyncPolicy::None };
        let records = self.records_of(session, acks);
        let state = records.iter().map(|(owner, record)| (*owner, StateChange::Delta(record))).collect::<Vec<_>>();
        let lsn = core.commit(&Batch { appends: &appends, state: &state, ..Batch::default() }, policy)?;
        let lsn = if lasts { lsn } else { Lsn::default() };
        self.held(core, &holding);
        self.settle(session, acks, Settle::Ack);
        for (request, (targets, found)) in requests.iter().zip(&routed) {
            self.post(core, request);
            if found.counted {
                self.note(targets, &request.marks);
            }
        }
        let told = |(targets, found): &(Vec<Target>, Routed)| Published {
            queues: found.queues,
            refused: found.refused,
            stored: !targets.is_empty(),
            lsn,
            policy,
        };
        Ok(routed.iter().map(told).collect())
    }

    /// That `acks` are settled, as records of their queues.
    fn records_of(&self, session: SessionId, acks: &[DeliveryKey]) -> Vec<(Owner, Vec<u8>)> {
        let mut records = Vec::new();
        for of_one_queue in acks.chunk_by(|one, next| one.queue == next.queue) {
            let queue = of_one_queue.first().and_then(|key| self.by_id.get(&key.queue));
            let Some(queue) = queue.filter(|queue| queue.is_recorded()) else { continue };
            let mut record = Vec::new();
            queue.put_acks(session, of_one_queue, &mut record);
            if !record.is_empty() {
                records.push((state::cursor_of(queue.id), record));
            }
        }
        records
    }
}
