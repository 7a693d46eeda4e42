//! Messages on their way into delayed exchanges, stored with the batch in which they are routed: a publish, one of a
//! transaction, a dead letter. Routing says where they wait; whoever stores the batch adds their appends to it.

use model::{LogId, Offset, Stamp, Wall};
use storage::{Append, Target};

use super::DelayId;
use super::envelope::{self, Envelopes};
use crate::BrokerError;
use crate::core::Core;
use crate::id_map::IdMap;
use crate::queue::Queues;
use crate::routing::PublishRequest;

/// What begins to wait with one batch.
#[derive(Default)]
pub(crate) struct Holding {
    held: Vec<Held>,
    /// How many of them each log gets: a transaction may delay many.
    counts: IdMap<LogId, u64>,
}

/// One message for one delayed exchange.
struct Held {
    id: DelayId,
    target: [Target; 1],
    envelope: Vec<u8>,
}

impl Holding {
    /// What the batch has to append.
    pub(crate) fn appends(&self, now: Wall) -> impl Iterator<Item = Append<'_>> {
        self.held.iter().map(move |held| Append {
            targets: &held.target,
            format: &Envelopes,
            units: &held.envelope,
            last_delta: 0,
            count: 1,
            time_max: held.id.due,
            stamp: Stamp { base: held.target[0].first, epoch: 0, at: now },
        })
    }
}

impl Holding {
    fn truncate(&mut self, count: usize) {
        for held in self.held.drain(count..) {
            if let Some(ahead) = self.counts.get_mut(&held.id.log) {
                *ahead -= 1;
            }
        }
    }
}

impl Queues {
    /// Adds to `holding` that `request`, which was routed just now, waits where routing said. Nothing else may be
    /// routed in between; the batch must follow in this turn, before anything else is delayed.
    ///
    /// # Errors
    /// [`BrokerError::Storage`]: no bucket could be made. `holding` is as before then.
    pub(crate) fn hold(
        &mut self,
        core: &mut Core,
        request: &PublishRequest<'_>,
        holding: &mut Holding,
    ) -> Result<(), BrokerError> {
        let waits = std::mem::take(&mut self.exchanges.waits);
        let before = holding.held.len();
        let due = Wall(core.now.wall.0.saturating_add(waits.ms.flatten().unwrap_or(0)));
        let mut done = Ok(());
        for at in &waits.at {
            let Some((exchange, number)) = self.exchanges.numbered(*at) else { continue };
            let log = match self.bucket_for(core, due, core.now.wall) {
                Ok(log) => log,
                Err(error) => {
                    holding.truncate(before);
                    done = Err(error);
                    break;
                }
            };
            let ahead = holding.counts.entry(log).or_default();
            let first = core.partitions.next_offset(log).unwrap_or(Offset::ZERO).plus(*ahead);
            *ahead += 1;
            let id = DelayId { due, log, offset: first.0 };
            let mut envelope = Vec::new();
            let request = PublishRequest { exchange: &exchange, unit: &waits.unit, ..*request };
            envelope::put(&request, (id, number), &mut envelope);
            holding.held.push(Held { id, target: [Target { log, first }], envelope });
        }
        self.exchanges.waits = waits; // keeps its room
        done
    }

    /// The batch is stored.
    pub(crate) fn held(&mut self, core: &Core, holding: &Holding) {
        for held in &holding.held {
            self.delays.added(held.id, (held.id.log, held.id.offset), core.now.wall);
        }
    }
}
