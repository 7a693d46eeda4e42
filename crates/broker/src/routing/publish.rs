//! The way of a published message into the logs of its queues: looked up by borrowed names, stored once, in one batch.
//! Nothing is allocated here per message.

use model::{Now, Stamp};
use storage::{Append, Batch, Lsn, SyncPolicy, Target};

use super::partitioner::partition_of;
use super::{Mail, MailboxId, PublishRequest, Published};
use crate::core::Core;
use crate::delay::Holding;
use crate::queue::{Place, QueueKind, Queues, mark};
use crate::{BrokerError, Event, SessionId};

/// The leader epoch of a node that is alone.
pub(super) const EPOCH: u32 = 0;

impl Queues {
    /// Publishes one message.
    pub(super) fn publish(
        &mut self,
        core: &mut Core,
        request: &PublishRequest<'_>,
        now: Now,
    ) -> Result<Published, BrokerError> {
        if self.post(core, request) {
            return Ok(Published::unstored(1, 0));
        }
        let mut targets = std::mem::take(&mut self.targets);
        targets.clear();
        let published = self.route(core, request, &mut targets).and_then(|routed| {
            let Routed { queues, refused, counted, waits, .. } = routed;
            if targets.is_empty() && waits == 0 {
                return Ok(Published::unstored(queues, refused));
            }
            if counted {
                self.expect(core, &targets, &request.marks);
            }
            let (lsn, policy) = if waits == 0 {
                store(core, request, &targets, (routed, now))?
            } else {
                self.store_and_hold(core, request, (&targets, routed), now)?
            };
            if counted {
                self.note(&targets, &request.marks);
            }
            Ok(Published { queues, refused, stored: !targets.is_empty(), lsn, policy })
        });
        self.targets = targets;
        published
    }

    /// Stores a message in its queues and in the buckets of the delayed exchanges where it waits, in one batch.
    fn store_and_hold(
        &mut self,
        core: &mut Core,
        request: &PublishRequest<'_>,
        (targets, routed): (&[Target], Routed),
        now: Now,
    ) -> Result<(Lsn, SyncPolicy), BrokerError> {
        let mut holding = Holding::default();
        core.now = now; // the wait begins with this call, however long nothing happened before it
        self.hold(core, request, &mut holding)?;
        needs_no_key(core, request, targets)?;
        let mut appends = holding.appends(now.wall).collect::<Vec<_>>();
        if !targets.is_empty() {
            appends.push(append_of(request, targets, now));
        }
        let done = commit(core, request, &appends, Routed { durable: true, ..routed })?;
        self.held(core, &holding);
        Ok(done)
    }

    /// The mailbox that a message's key names, through the default exchange.
    pub(super) fn mailbox_of(&self, request: &PublishRequest<'_>) -> Option<(MailboxId, SessionId)> {
        if self.mailboxes.is_empty() || !request.exchange.is_empty() {
            return None;
        }
        self.mailboxes.find(request.tenant, request.key)
    }

    /// Posts a message whose key is a mailbox's name; false when it is none.
    pub(super) fn post(&mut self, core: &mut Core, request: &PublishRequest<'_>) -> bool {
        let Some((mailbox, session)) = self.mailbox_of(request) else { return false };
        let unit = bytes::Bytes::copy_from_slice(request.unit);
        core.events.push(session, Event::Mail(Mail { mailbox, format: request.format.tag(), unit }));
        true
    }

    /// Whether `session` could publish to an exchange, or a topic of that name, at all.
    pub(super) fn can_publish(&self, core: &Core, tenant: &str, exchange: &str) -> Result<(), BrokerError> {
        let topic = || core.topics.get(tenant, exchange).filter(|topic| !topic.internal).is_some();
        match self.exchanges.spec(tenant, exchange) {
            _ if exchange.is_empty() => Ok(()),
            Some(spec) if spec.internal => Err(BrokerError::Internal(exchange.to_owned())),
            None if !topic() => Err(BrokerError::Missing { kind: "exchange", name: exchange.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Finds the logs that `request` goes to, each once, and appends them to `targets`.
    pub(crate) fn route(
        &mut self,
        core: &Core,
        request: &PublishRequest<'_>,
        targets: &mut Vec<Target>,
    ) -> Result<Routed, BrokerError> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.exchanges.waits.clear();
        match self.find_queues(request, &mut found) {
            Ok(true) => {}
            Ok(false) => {
                self.found = found;
                return to_topic(core, request, targets, &mut self.spread);
            }
            Err(error) => {
                self.found = found;
                return Err(error);
            }
        }
        // The default exchange's key is an address, not a key to order by; nor is an empty one.
        let key = (!request.exchange.is_empty() && !request.key.is_empty()).then_some(request.key);
        let (from, marks) = (targets.len(), &request.marks);
        let mut routed = Routed { counted: marks.time_to_live_ms.is_some() || !marks.persistent, ..Routed::default() };
        routed.waits = self.exchanges.waits.at.len() as u32;
        routed.queues = routed.waits;
        for id in &found {
            let Some(queue) = self.by_id.get_mut(id) else { continue };
            let log = match queue.place(key, request, core) {
                Place::Log(log) => log,
                Place::Full => {
                    routed.queues += 1;
                    routed.refused += 1;
                    queue.refused(request);
                    mark(queue, &mut self.marked);
                    continue;
                }
                Place::Nowhere => continue,
            };
            let Some(first) = core.partitions.next_offset(log) else { continue };
            let owns = queue.own_log().is_some();
            routed.queues += 1;
            queue.tally.get().published += 1;
            routed.durable |= queue.is_stored() || !owns;
            routed.lasts |= queue.kind() != QueueKind::Plain;
            routed.counted |= queue.rules.is_some();
            // Two queues that share a topic have the message once in its log, and both see it.
            if owns || !targets.iter().skip(from).any(|target| target.log == log) {
                targets.push(Target { log, first });
            }
        }
        self.found = found;
        Ok(routed)
    }

    /// Puts the queues that `request` goes to into `found`, each once. False when no exchange has the name.
    fn find_queues(&mut self, request: &PublishRequest<'_>, found: &mut Vec<u64>) -> Result<bool, BrokerError> {
        // The default exchange knows every queue by its name.
        if request.exchange.is_empty() {
            for key in std::iter::once(&request.key).chain(request.more_keys) {
                let id = self.id_of(request.tenant, key);
                found.extend(id.filter(|id| !found.contains(id)));
            }
            return Ok(true);
        }
        let Some(id) = self.exchanges.id_of(request.tenant, request.exchange) else {
            return match self.exchanges.builtin(request.exchange) {
                Some(spec) if spec.internal => Err(BrokerError::Internal(request.exchange.to_owned())),
                spec => Ok(spec.is_some()), // nothing was ever bound
            };
        };
        if self.exchanges.of_id(id).is_some_and(|exchange| exchange.spec.internal) {
            return Err(BrokerError::Internal(request.exchange.to_owned()));
        }
        self.exchanges.route(id, request, found);
        Ok(true)
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Routed {
    /// How many queues it matched, and delayed exchanges where it waits: nobody can say now that none will take it.
    pub(super) queues: u32,
    /// How many of them refused it.
    pub(super) refused: u32,
    /// One of them survives a restart.
    pub(super) durable: bool,
    /// One of them keeps every message, whatever its publisher asks.
    pub(super) lasts: bool,
    /// One of them may have to count it.
    pub(super) counted: bool,
    /// In how many delayed exchanges it waits: see [`Queues::hold`].
    pub(crate) waits: u32,
}

impl Routed {
    /// Whether the message must be there after a restart.
    pub(super) fn must_last(&self, request: &PublishRequest<'_>) -> bool {
        self.lasts || ((self.durable || self.waits > 0) && request.persistent)
    }
}

/// A topic answers as an exchange of its own name unless one is declared: the key picks the partition; messages without
/// a key take turns.
fn to_topic(
    core: &Core,
    request: &PublishRequest<'_>,
    targets: &mut Vec<Target>,
    spread: &mut usize,
) -> Result<Routed, BrokerError> {
    let topic = core.topics.get(request.tenant, request.exchange).filter(|topic| !topic.internal);
    let Some(topic) = topic else {
        return Err(BrokerError::Missing { kind: "exchange", name: request.exchange.to_owned() });
    };
    let at = if request.key.is_empty() {
        *spread = spread.wrapping_add(1);
        *spread % topic.partitions.len().max(1)
    } else {
        partition_of(request.key.as_bytes(), topic.partitions.len())
    };
    let log = topic.partitions.get(at).copied();
    let target = log.and_then(|log| Some(Target { log, first: core.partitions.next_offset(log)? }));
    targets.extend(target);
    Ok(Routed { queues: u32::from(target.is_some()), durable: true, ..Routed::default() })
}

/// Through the default exchange the key is an address: to other tongues, and to compaction, the message has none.
fn needs_no_key(core: &Core, request: &PublishRequest<'_>, targets: &[Target]) -> Result<(), BrokerError> {
    if request.key.is_empty() || request.exchange.is_empty() {
        let compacts = |target: &Target| {
            core.partitions.get(target.log).is_some_and(|partition| partition.log.settings.compaction.is_some())
        };
        if targets.iter().any(compacts) {
            let why =
                "a compacted topic takes no message without a key: publish through an exchange, with a routing key";
            return Err(BrokerError::Invalid(why.to_owned()));
        }
    }
    Ok(())
}

fn append_of<'a>(request: &PublishRequest<'a>, targets: &'a [Target], now: Now) -> Append<'a> {
    let base = targets.first().map_or_else(Default::default, |target| target.first);
    Append {
        targets,
        format: request.format,
        units: request.unit,
        last_delta: 0,
        count: 1,
        time_max: request.time,
        stamp: Stamp { base, epoch: EPOCH, at: now.wall },
    }
}

fn store(
    core: &mut Core,
    request: &PublishRequest<'_>,
    targets: &[Target],
    (routed, now): (Routed, Now),
) -> Result<(Lsn, SyncPolicy), BrokerError> {
    needs_no_key(core, request, targets)?;
    commit(core, request, &[append_of(request, targets, now)], routed)
}

fn commit(
    core: &mut Core,
    request: &PublishRequest<'_>,
    appends: &[Append<'_>],
    routed: Routed,
) -> Result<(Lsn, SyncPolicy), BrokerError> {
    // What would not survive a restart anyway needs no sync, and then nobody has to wait for one.
    let policy = if routed.must_last(request) { request.policy } else { SyncPolicy::None };
    let lsn = core.commit(&Batch { appends, ..Batch::default() }, policy)?;
    let is_weaker = request.persistent && policy != request.policy;
    Ok((if is_weaker { Lsn::default() } else { lsn }, policy))
}
