//! All groups of this shard as a pure machine: events in, answers and records out. It knows nothing of storage,
//! sessions or clocks; [`super::Coordinator`] carries out what it says.

use std::collections::HashMap;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use model::{Mono, Name, Now, TopicId};

use super::desk::{Call, Desk, Effects};
use super::state::Group;
use super::timers::What;
use super::{
    Committed, GroupError, GroupInfo, GroupOptions, GroupState, JoinRequest, LedgerEntry, MemberRef, OffsetCommit,
};
use crate::{CallId, SessionId};

/// How often old offsets are looked for.
const UPKEEP_EVERY: Duration = Duration::from_secs(600);

/// Groups by name.
#[derive(Default)]
pub(crate) struct Groups {
    by_name: HashMap<Name, Group>,
    desk: Desk,
    next_upkeep: Mono,
}

impl Groups {
    /// No groups.
    pub(crate) fn new(options: GroupOptions) -> Groups {
        Groups { desk: Desk { options, ..Desk::default() }, ..Groups::default() }
    }

    /// What has come of the events since this was asked last.
    pub(crate) fn take_effects(&mut self) -> Effects {
        mem::take(&mut self.desk.effects)
    }

    /// A join. `uuid` makes a new member's id.
    pub(crate) fn join(&mut self, call: Call, request: JoinRequest, uuid: &str, now: Now) {
        self.desk.now = now;
        if request.group.is_empty() {
            return self.desk.refuse_join(call, GroupError::InvalidGroup);
        }
        let options = &self.desk.options;
        if !(options.session_timeout_min..=options.session_timeout_max).contains(&request.session_timeout) {
            return self.desk.refuse_join(call, GroupError::InvalidSessionTimeout);
        }
        let name = request.group.clone();
        if !request.member.is_empty() && !self.by_name.contains_key(&name) {
            return self.desk.refuse_join(call, GroupError::UnknownMember);
        }
        let group = self.by_name.entry(name.clone()).or_insert_with(|| Group::new(name.clone(), now.wall));
        group.join(call, request, uuid, &mut self.desk);
        self.forget_if_blank(&name);
    }

    /// A sync.
    pub(crate) fn sync(
        &mut self,
        call: Call,
        who: MemberRef<'_>,
        protocol: Option<(&str, &str)>,
        assignments: Vec<(String, Bytes)>,
        now: Now,
    ) {
        self.desk.now = now;
        match self.by_name.get_mut(who.group) {
            Some(group) => group.sync(call, who, protocol, assignments, &mut self.desk),
            None => self.desk.refuse_sync(call, no_group(who)),
        }
    }

    /// A heartbeat.
    pub(crate) fn heartbeat(&mut self, who: MemberRef<'_>, now: Now) -> Result<(), GroupError> {
        self.desk.now = now;
        let group = self.by_name.get_mut(who.group).ok_or_else(|| no_group(who))?;
        group.heartbeat(who, &mut self.desk)
    }

    /// A member goes.
    pub(crate) fn leave(&mut self, who: MemberRef<'_>, now: Now) -> Result<(), GroupError> {
        self.desk.now = now;
        let group = self.by_name.get_mut(who.group).ok_or_else(|| no_group(who))?;
        let name = group.name.clone();
        let left = group.leave(who, &mut self.desk);
        self.forget_if_blank(&name);
        left
    }

    /// Whether `who` may commit now, and the group's name.
    pub(crate) fn check_commit(&mut self, who: MemberRef<'_>, now: Now) -> Result<Name, GroupError> {
        self.desk.now = now;
        match self.by_name.get_mut(who.group) {
            Some(group) => group.check_commit(who, &mut self.desk).map(|()| group.name.clone()),
            None if who.generation < 0 => Name::new(who.group).map_err(|_| GroupError::InvalidGroup),
            None => Err(GroupError::IllegalGeneration),
        }
    }

    /// Offsets were committed: the ledger has them already.
    pub(crate) fn committed(&mut self, name: &Name, offsets: &[OffsetCommit], now: Now) {
        let group = self.by_name.entry(name.clone()).or_insert_with(|| Group::new(name.clone(), now.wall));
        for one in offsets {
            group.offsets.set(&one.topic, one.partition, one.committed.clone());
        }
    }

    /// Whether a group without members may lose offsets or be removed.
    fn check_deserted(&mut self, name: &str) -> Result<&mut Group, GroupError> {
        let group = self.by_name.get_mut(name).ok_or(GroupError::NotFound)?;
        if group.is_deserted() { Ok(group) } else { Err(GroupError::NotEmpty) }
    }

    /// Removes a group without members and all it has committed; answers it, for who cannot store that.
    pub(crate) fn delete(&mut self, name: &str, now: Now) -> Result<Group, GroupError> {
        self.desk.now = now;
        self.check_deserted(name)?;
        let group = self.by_name.remove(name).ok_or(GroupError::NotFound)?;
        group.bury(&mut self.desk);
        Ok(group)
    }

    /// That a group was removed could not be stored: it is there.
    pub(crate) fn put_back(&mut self, group: Group) {
        self.by_name.insert(group.name.clone(), group);
    }

    /// Forgets some committed offsets of a group; answers them, for who cannot store that.
    pub(crate) fn delete_offsets(
        &mut self,
        name: &str,
        which: &[(Name, u32)],
        now: Now,
    ) -> Result<Vec<OffsetCommit>, GroupError> {
        self.desk.now = now;
        let group = self.by_name.get_mut(name).ok_or(GroupError::NotFound)?;
        let known = which.iter().filter_map(|(topic, partition)| {
            let committed = group.offsets.get(topic, *partition)?.clone();
            Some(OffsetCommit { topic: topic.clone(), topic_id: TopicId::NONE, partition: *partition, committed })
        });
        let known = known.collect();
        group.remove_offsets(which, &mut self.desk);
        let name = group.name.clone();
        self.forget_if_blank(&name);
        Ok(known)
    }

    /// A topic is gone: so are the offsets committed on it.
    pub(crate) fn topic_deleted(&mut self, topic: &str, now: Now) {
        self.desk.now = now;
        let Ok(name) = Name::new(topic) else {
            return;
        };
        for group in self.by_name.values_mut() {
            let partitions = group.offsets.partitions(topic);
            let removed: Vec<(Name, u32)> = partitions.into_iter().map(|at| (name.clone(), at)).collect();
            group.remove_offsets(&removed, &mut self.desk);
        }
        self.by_name.retain(|_, group| !group.is_blank());
    }

    /// A session is gone: its calls that wait are forgotten.
    pub(crate) fn session_closed(&mut self, session: SessionId, now: Now) {
        self.desk.now = now;
        let all = Call { session, call: CallId(0) }..=Call { session, call: CallId(u64::MAX) };
        let calls: Vec<Call> = self.desk.waiting.range(all).map(|(call, _)| *call).collect();
        for call in calls {
            // Dropping one call may have answered another.
            let Some(parked) = self.desk.waiting.remove(&call) else {
                continue;
            };
            if let Some(group) = self.by_name.get_mut(&parked.group) {
                group.call_dropped(call, parked.member, &mut self.desk);
                self.forget_if_blank(&parked.group);
            }
        }
    }

    /// When [`Groups::tick`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let upkeep = if self.by_name.is_empty() { None } else { Some(self.next_upkeep) };
        [self.desk.timers.next(), upkeep].into_iter().flatten().min()
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Now) {
        self.desk.now = now;
        while let Some((name, what)) = self.desk.timers.pop(now.mono) {
            let Some(group) = self.by_name.get_mut(&name) else {
                continue;
            };
            match what {
                What::Join => group.join_time_up(&mut self.desk),
                What::Sync => group.sync_time_up(&mut self.desk),
                What::Member(number) => group.member_time_up(number, &mut self.desk),
                What::Pending(id) => group.pending_time_up(&id, &mut self.desk),
            }
            self.forget_if_blank(&name);
        }
        if now.mono >= self.next_upkeep {
            self.next_upkeep = now.mono.plus(UPKEEP_EVERY);
            for group in self.by_name.values_mut() {
                group.expire(&mut self.desk);
            }
            self.by_name.retain(|_, group| !group.is_blank());
        }
    }

    /// Records could not be stored: what they say was told to nobody.
    pub(crate) fn store_failed(&mut self, entries: &[LedgerEntry]) {
        for entry in entries {
            if let LedgerEntry::Group { group, snapshot: Some(_) } = entry
                && let Some(group) = self.by_name.get_mut(group)
            {
                group.store_failed(&mut self.desk);
            }
        }
    }

    /// What all groups have committed.
    pub(crate) fn all_offsets(&self) -> impl Iterator<Item = (&Name, u32, &Committed)> {
        self.by_name.values().flat_map(|group| group.offsets.iter())
    }

    /// A group by name.
    pub(crate) fn get(&self, name: &str) -> Option<&Group> {
        self.by_name.get(name)
    }

    /// One group as tools see it.
    pub(crate) fn describe(&self, name: &str) -> GroupInfo {
        self.by_name.get(name).map_or_else(|| dead(name), Group::info)
    }

    /// All groups as tools see them, by name.
    pub(crate) fn list(&self) -> Vec<GroupInfo> {
        let mut all: Vec<GroupInfo> = self.by_name.values().map(Group::info).collect();
        all.sort_by(|a, b| a.group.cmp(&b.group));
        all
    }

    /// At the start: a record of the ledger.
    pub(crate) fn recover(&mut self, entry: LedgerEntry) {
        let (LedgerEntry::Offset { group: name, .. } | LedgerEntry::Group { group: name, .. }) = &entry;
        let name = name.clone();
        let group = self.by_name.entry(name.clone()).or_insert_with(|| Group::new(name, model::Wall(0)));
        match entry {
            LedgerEntry::Offset { topic, partition, committed: Some(one), .. } => {
                group.offsets.set(&topic, partition, one);
            }
            LedgerEntry::Offset { topic, partition, committed: None, .. } => {
                group.offsets.remove(&topic, partition);
            }
            LedgerEntry::Group { snapshot, .. } => group.stored = snapshot,
        }
    }

    /// At the start: all records were told.
    pub(crate) fn recovered(&mut self, now: Now) {
        self.desk.now = now;
        self.next_upkeep = now.mono.plus(UPKEEP_EVERY);
        for group in self.by_name.values_mut() {
            group.recovered(&mut self.desk);
        }
        self.by_name.retain(|_, group| !group.is_blank());
    }

    /// The groups that the ledger's `partition` tells of.
    pub(crate) fn names_of(&self, partition: u32) -> Vec<Name> {
        let here = self.by_name.values().filter(|group| group.partition == partition);
        here.map(|group| group.name.clone()).collect()
    }

    /// How many entries that are.
    pub(crate) fn ledger_count(&self, partition: u32) -> usize {
        let here = self.by_name.values().filter(|group| group.partition == partition);
        here.map(|group| group.offsets.count() + usize::from(group.stored.is_some())).sum()
    }

    /// A group that was made for a refused call, or whose last pending member went, leaves nothing behind.
    fn forget_if_blank(&mut self, name: &str) {
        if self.by_name.get(name).is_some_and(Group::is_blank) {
            self.by_name.remove(name);
        }
    }

    /// What all members say of themselves, in bytes.
    #[cfg(test)]
    pub(crate) fn members_bytes(&self) -> usize {
        let all = self.by_name.values().flat_map(|group| group.members.values());
        let bytes: usize = all.map(super::member::Member::bytes).sum();
        assert_eq!(bytes, self.desk.members_bytes, "the account is right");
        bytes
    }

    /// Calls that wait and deadlines that are armed.
    #[cfg(test)]
    pub(crate) fn loads(&self) -> (usize, usize) {
        (self.desk.waiting.len(), self.desk.timers.count())
    }
}

fn no_group(who: MemberRef<'_>) -> GroupError {
    if who.group.is_empty() { GroupError::InvalidGroup } else { GroupError::UnknownMember }
}

fn dead(name: &str) -> GroupInfo {
    GroupInfo {
        group: Name::new(name).unwrap_or_else(|_| Name::fixed("")),
        state: GroupState::Dead,
        protocol_type: String::new(),
        protocol: String::new(),
        members: Vec::new(),
    }
}
