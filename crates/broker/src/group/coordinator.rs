//! The group coordinator as the broker drives it: stores what [`Groups`] says must be stored, and lets no answer out
//! before everything stored until then is written.

use std::collections::VecDeque;

use bytes::Bytes;
use model::{Mono, Now};
use storage::StorageError;

use super::desk::{Answer, Call, Reply};
use super::groups::Groups;
use super::{GroupError, GroupOptions, JoinRequest, LedgerEntry, MemberRef, OffsetCommit};
use crate::access::DEFAULT_TENANT;
use crate::core::Core;
use crate::{BrokerError, CallId, Event, Lsn, SessionId, ids};

/// All groups of this shard.
#[derive(Default)]
pub(crate) struct Coordinator {
    groups: Groups,
    /// Where the last stored record lies.
    stored: Lsn,
    /// Answers and up to where the journal must be written first. Invariant: ascending.
    held: VecDeque<(Lsn, Reply)>,
}

impl Coordinator {
    /// No groups.
    pub(crate) fn new(options: GroupOptions) -> Coordinator {
        Coordinator { groups: Groups::new(options), ..Coordinator::default() }
    }

    /// The groups, for looking at.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// At the start: one record of the ledger, oldest first within its partition.
    pub(crate) fn recover(&mut self, entry: LedgerEntry) {
        self.groups.recover(entry);
    }

    /// At the start: all records have been told.
    pub(crate) fn recovered(&mut self, core: &mut Core, now: Now) {
        self.groups.recovered(now);
        self.finish(core);
    }

    /// When [`Coordinator::tick`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.groups.deadline()
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, core: &mut Core, now: Now) {
        if self.groups.deadline().is_some_and(|at| at <= now.mono) {
            self.groups.tick(now);
            self.finish(core);
        }
    }

    /// The journal has come further, or has failed: answers may go out.
    pub(crate) fn progressed(&mut self, core: &mut Core) {
        if self.held.is_empty() {
            return;
        }
        if let Some(why) = core.failure.clone().or_else(|| core.storage.failure().cloned()) {
            for (_, reply) in self.held.drain(..) {
                send(core, Reply { answer: reply.answer.refused(GroupError::Storage(why.clone())), ..reply });
            }
            return;
        }
        let written = core.storage.progress().written;
        while self.held.front().is_some_and(|(lsn, _)| *lsn <= written) {
            if let Some((_, reply)) = self.held.pop_front() {
                send(core, reply);
            }
        }
    }

    /// A session is gone: nobody waits for the answers to its joins and syncs. (Members live on until their time-out.)
    pub(crate) fn session_closed(&mut self, core: &mut Core, session: SessionId, now: Now) {
        self.held.retain(|(_, reply)| reply.to.session != session);
        self.groups.session_closed(session, now);
        self.finish(core);
    }

    /// A topic is gone: its committed offsets go too.
    pub(crate) fn topic_deleted(&mut self, core: &mut Core, tenant: &str, topic: &str, now: Now) {
        // Records of groups carry no tenant: all groups are the default tenant's.
        if tenant == DEFAULT_TENANT {
            self.groups.topic_deleted(topic, now);
            self.finish(core);
        }
    }

    /// How many entries the ledger's `partition` must still say; asked often, must be cheap. `None` while unknown:
    /// then nothing is written again.
    pub(crate) fn ledger_count(&self, partition: u32) -> Option<usize> {
        Some(self.groups.ledger_count(partition))
    }

    /// A join.
    pub(crate) fn join(&mut self, core: &mut Core, call: Call, request: JoinRequest, now: Now) {
        match new_uuid(&request) {
            Ok(uuid) => {
                self.groups.join(call, request, &uuid, now);
                self.finish(core);
            }
            Err(why) => {
                tracing::error!(%why, "no id can be made for a new member");
                let answer = Answer::Joined(Err(GroupError::Loading)); // the one refusal that means: try again
                send(core, Reply { to: call, needs_store: false, answer });
            }
        }
    }

    /// A sync.
    pub(crate) fn sync(
        &mut self,
        core: &mut Core,
        call: Call,
        who: MemberRef<'_>,
        protocol: Option<(&str, &str)>,
        assignments: Vec<(String, Bytes)>,
    ) {
        self.groups.sync(call, who, protocol, assignments, core.now);
        self.finish(core);
    }

    /// A heartbeat.
    pub(crate) fn heartbeat(&mut self, core: &mut Core, who: MemberRef<'_>, now: Now) -> Result<(), GroupError> {
        let beaten = self.groups.heartbeat(who, now);
        self.finish(core);
        beaten
    }

    /// A member goes.
    pub(crate) fn leave(&mut self, core: &mut Core, who: MemberRef<'_>, now: Now) -> Result<(), GroupError> {
        let left = self.groups.leave(who, now);
        self.finish(core);
        left
    }

    /// Commits offsets: all or none.
    pub(crate) fn commit_offsets(
        &mut self,
        core: &mut Core,
        who: MemberRef<'_>,
        offsets: &[OffsetCommit],
        now: Now,
    ) -> Result<Lsn, GroupError> {
        let group = self.groups.check_commit(who, now)?;
        if offsets.is_empty() {
            return Ok(Lsn::default());
        }
        let entries = offsets.iter().map(|one| LedgerEntry::Offset {
            group: group.clone(),
            topic: one.topic.clone(),
            partition: one.partition,
            committed: Some(one.committed.clone()),
        });
        let entries: Vec<LedgerEntry> = entries.collect();
        self.stored = core.append_ledger(&entries).map_err(refusal)?;
        self.groups.committed(&group, offsets, now);
        Ok(self.stored)
    }

    /// Removes a group without members. If that cannot be stored, nothing has happened.
    pub(crate) fn delete(&mut self, core: &mut Core, group: &str, now: Now) -> Result<Lsn, GroupError> {
        let gone = self.groups.delete(group, now)?;
        if let Err(why) = self.carry_out(core) {
            self.groups.put_back(gone);
            return Err(why);
        }
        Ok(self.stored)
    }

    /// Forgets some committed offsets of a group. If that cannot be stored, nothing has happened.
    pub(crate) fn delete_offsets(
        &mut self,
        core: &mut Core,
        group: &str,
        which: &[(model::Name, u32)],
        now: Now,
    ) -> Result<Lsn, GroupError> {
        let gone = self.groups.delete_offsets(group, which, now)?;
        if let Err(why) = self.carry_out(core) {
            let group = model::Name::new(group).map_err(|_| GroupError::InvalidGroup)?;
            self.groups.committed(&group, &gone, now);
            return Err(why);
        }
        Ok(self.stored)
    }

    /// Stores and answers what the groups say. A failure is in the answers already, and said in the log.
    fn finish(&mut self, core: &mut Core) {
        let _ = self.carry_out(core);
    }

    /// Stores and answers what the groups say.
    fn carry_out(&mut self, core: &mut Core) -> Result<(), GroupError> {
        let effects = self.groups.take_effects();
        let mut outcome = Ok(());
        if !effects.entries.is_empty() {
            match core.append_ledger(&effects.entries) {
                Ok(lsn) => self.stored = lsn,
                Err(why) => {
                    tracing::warn!(%why, "the state of a group could not be stored");
                    outcome = Err(refusal(why));
                    self.groups.store_failed(&effects.entries);
                }
            }
        }
        for mut reply in effects.replies {
            if let (true, Err(why)) = (reply.needs_store, &outcome) {
                reply.answer = reply.answer.refused(why.clone());
            }
            self.answer(core, reply);
        }
        // A rebalance that begins because storing failed makes answers, but nothing to store.
        for reply in self.groups.take_effects().replies {
            self.answer(core, reply);
        }
        outcome
    }

    /// Lets an answer out once all records stored until now are written. It may need none of them, but keeping the
    /// order is simpler, and they are written when the turn ends.
    fn answer(&mut self, core: &mut Core, reply: Reply) {
        if self.held.is_empty() && self.stored <= core.storage.progress().written {
            send(core, reply);
        } else {
            self.held.push_back((self.stored, reply));
        }
    }
}

fn send(core: &mut Core, reply: Reply) {
    let Call { session, call } = reply.to;
    let event = match reply.answer {
        Answer::Joined(answer) => Event::Joined(call, answer),
        Answer::Synced(answer) => Event::Synced(call, answer),
    };
    core.events.push(session, event);
}

fn refusal(why: BrokerError) -> GroupError {
    match why {
        BrokerError::Storage(why) => GroupError::Storage(why),
        why => GroupError::Storage(StorageError::Unusable(why.to_string())),
    }
}

/// A random UUID (version 4) for a member that needs an id; empty for one that has one.
fn new_uuid(request: &JoinRequest) -> Result<String, BrokerError> {
    if !request.member.is_empty() {
        return Ok(String::new());
    }
    let random = u128::from_be_bytes(ids::random::<16>()?);
    let marked = random & !(0xf000_u128 << 64) & !(0xc000_u128 << 48) | (0x4000_u128 << 64) | (0x8000_u128 << 48);
    let hex = format!("{marked:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    Ok(format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)))
}

/// A call as sessions name it.
pub(crate) fn call_of(session: SessionId, call: CallId) -> Call {
    Call { session, call }
}
