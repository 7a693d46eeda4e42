//! One group: its state, its members, what it has committed. How it moves from state to state stands in `join`,
//! `rebalance`, `sync` and `presence`.
//!
//! ```text
//!              join                   all joined, or time is up
//!   Empty ───────────▶ PreparingRebalance ───────────▶ CompletingRebalance
//!     ▲                  │        ▲  ▲                     │        │ the leader's sync
//!     └──────────────────┘        │  └─────────────────────┘        ▼
//!         nobody is left          └───────────────────────────── Stable
//!                                   a member comes, goes, changes
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use model::{Mono, Name, Wall};

use super::desk::{Answer, Desk};
use super::member::Member;
use super::offsets::Offsets;
use super::timers::What;
use super::{GroupError, GroupInfo, GroupSnapshot, GroupState, JoinedMember, LedgerEntry};

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    /// Its id.
    pub(crate) name: Name,
    /// The partition of the ledger that keeps it.
    pub(crate) partition: u32,
    /// Never `Dead`: what is dead is not kept.
    pub(crate) state: GroupState,
    /// Never goes back while the group is known.
    pub(crate) generation: i32,
    /// `consumer` …; `None` until it has had a member.
    pub(crate) protocol_type: Option<String>,
    /// The chosen protocol; `None` while empty.
    pub(crate) protocol: Option<String>,
    /// The number of the member that assigns.
    pub(crate) leader: Option<u64>,
    /// Members by number, thus in the order they came.
    pub(crate) members: BTreeMap<u64, Member>,
    /// Numbers by member id.
    pub(crate) ids: HashMap<String, u64>,
    /// Numbers of static members by instance.
    pub(crate) instances: HashMap<String, u64>,
    /// Ids given out to members that must join again with them, and until when.
    pub(crate) pending: HashMap<String, Mono>,
    /// What members say of themselves, in bytes.
    pub(crate) members_bytes: usize,
    /// Members with a `join_call`.
    pub(crate) joined_count: usize,
    /// Members that joined this generation and have not synced yet.
    pub(crate) unsynced: BTreeSet<u64>,
    /// How many members know each protocol.
    pub(crate) known_by: HashMap<String, usize>,
    /// When the running join phase ends at the latest.
    pub(crate) join_until: Option<Mono>,
    /// When the members must have synced.
    pub(crate) sync_until: Option<Mono>,
    /// The first members of an empty group are being waited for.
    pub(crate) gathering: Option<Gathering>,
    /// Since when it has had no members.
    pub(crate) empty_since: Wall,
    /// What the ledger says of it.
    pub(crate) stored: Option<GroupSnapshot>,
    /// What it has committed.
    pub(crate) offsets: Offsets,
    last_number: u64,
}

/// The wait for the first members of an empty group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathering {
    /// How much longer it may be made.
    pub(crate) left: Duration,
    /// A member came since it was made longer last.
    pub(crate) grown: bool,
}

impl Group {
    /// An empty group.
    pub(crate) fn new(name: Name, now: Wall) -> Group {
        Group {
            partition: crate::ledger::partition_of(&name),
            name,
            state: GroupState::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            ids: HashMap::new(),
            instances: HashMap::new(),
            pending: HashMap::new(),
            members_bytes: 0,
            joined_count: 0,
            unsynced: BTreeSet::new(),
            known_by: HashMap::new(),
            join_until: None,
            sync_until: None,
            gathering: None,
            empty_since: now,
            stored: None,
            offsets: Offsets::default(),
            last_number: 0,
        }
    }

    /// Whether nothing would be lost if it were forgotten.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_deserted() && self.stored.is_none() && self.offsets.count() == 0
    }

    /// Whether it has no members and none on the way.
    pub(crate) fn is_deserted(&self) -> bool {
        self.state == GroupState::Empty && self.members.is_empty() && self.pending.is_empty()
    }

    /// Lets a member in, last in order. Its timer is armed by the caller's `touch`.
    pub(crate) fn insert(&mut self, member: Member, desk: &mut Desk) -> u64 {
        self.count_bytes(0, member.bytes(), desk);
        self.last_number += 1;
        let number = self.last_number;
        self.ids.insert(member.id.clone(), number);
        if let Some(instance) = &member.instance {
            self.instances.insert(instance.clone(), number);
        }
        for (protocol, _) in &member.protocols {
            *self.known_by.entry(protocol.clone()).or_default() += 1;
        }
        if self.leader.is_none() {
            self.leader = Some(number);
        }
        self.members.insert(number, member);
        number
    }

    /// Takes a member out; calls of it that wait are refused. The caller sees to the rebalance.
    pub(crate) fn remove(&mut self, number: u64, desk: &mut Desk) {
        let Some(member) = self.members.remove(&number) else {
            return;
        };
        if let Some(call) = member.join_call {
            self.joined_count -= 1;
            desk.refuse_join(call, GroupError::UnknownMember);
        }
        if let Some(call) = member.sync_call {
            desk.refuse_sync(call, GroupError::UnknownMember);
        }
        desk.timers.disarm(member.armed, &self.name, What::Member(number));
        self.count_bytes(member.bytes(), 0, desk);
        self.ids.remove(&member.id);
        if let Some(instance) = &member.instance {
            self.instances.remove(instance);
        }
        self.forget_protocols(&member.protocols);
        self.unsynced.remove(&number);
        if self.leader == Some(number) {
            self.leader = self.members.keys().next().copied();
        }
    }

    /// What a member says of itself took `before` bytes and takes `after` now.
    pub(crate) fn count_bytes(&mut self, before: usize, after: usize, desk: &mut Desk) {
        self.members_bytes = self.members_bytes + after - before;
        desk.members_bytes = desk.members_bytes + after - before;
    }

    /// The member knows these protocols no longer.
    pub(crate) fn forget_protocols(&mut self, protocols: &[(String, bytes::Bytes)]) {
        for (protocol, _) in protocols {
            if let Some(count) = self.known_by.get_mut(protocol) {
                *count -= 1;
                if *count == 0 {
                    self.known_by.remove(protocol);
                }
            }
        }
    }

    /// A sign of life: the session time-out begins anew.
    pub(crate) fn touch(&mut self, number: u64, desk: &mut Desk) {
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        member.expires = member.expiry(desk.now.mono);
        if member.armed == Mono(0) || member.armed > member.expires {
            desk.timers.disarm(member.armed, &self.name, What::Member(number));
            member.armed = member.expires;
            desk.timers.arm(member.armed, &self.name, What::Member(number));
        }
    }

    /// Whether a member of this protocol type and these protocols fits in.
    pub(crate) fn fits(&self, protocol_type: &str, protocols: &[(String, bytes::Bytes)]) -> bool {
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let known_by_all = |name: &String| self.known_by.get(name) == Some(&self.members.len());
        self.protocol_type.as_deref() == Some(protocol_type) && protocols.iter().any(|(name, _)| known_by_all(name))
    }

    /// The protocol with most votes: each member votes for the first of its own that all know. Of several with as many
    /// votes, the one the leader likes best.
    pub(crate) fn vote(&self) -> String {
        let known_by_all = |name: &str| self.known_by.get(name) == Some(&self.members.len());
        let mut votes: HashMap<&str, usize> = HashMap::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.protocols.iter().find(|(name, _)| known_by_all(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        let leader = self.leader.and_then(|leader| self.members.get(&leader));
        let place = |name: &str| leader.and_then(|leader| leader.protocols.iter().position(|(own, _)| own == name));
        let best = votes.into_iter().max_by_key(|(name, votes)| (*votes, std::cmp::Reverse(place(name))));
        best.map(|(name, _)| name.to_owned()).unwrap_or_default()
    }

    /// The longest that any member needs to join again.
    pub(crate) fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    /// The number of the member that speaks.
    pub(crate) fn check_member(&self, member: &str, instance: Option<&str>) -> Result<u64, GroupError> {
        if let Some(instance) = instance {
            let number = *self.instances.get(instance).ok_or(GroupError::UnknownMember)?;
            let same = self.ids.get(member) == Some(&number);
            return if same { Ok(number) } else { Err(GroupError::FencedInstance) };
        }
        self.ids.get(member).copied().ok_or(GroupError::UnknownMember)
    }

    /// The number of the member that speaks, if it knows the current generation.
    pub(crate) fn check_current(&self, who: super::MemberRef<'_>) -> Result<u64, GroupError> {
        let number = self.check_member(who.member, who.instance)?;
        if who.generation == self.generation { Ok(number) } else { Err(GroupError::IllegalGeneration) }
    }

    /// All members as the leader sees them.
    pub(crate) fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        self.members.values().map(|member| member.joined(protocol)).collect()
    }

    /// Stores the group as it stands now.
    pub(crate) fn store(&mut self, desk: &mut Desk) {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let leader = self.leader.and_then(|leader| self.members.get(&leader));
        let snapshot = GroupSnapshot {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: leader.map(|leader| leader.id.clone()),
            at: desk.now.wall,
            members: self.members.values().map(|member| member.snapshot(protocol)).collect(),
        };
        self.stored = Some(snapshot.clone());
        desk.store(LedgerEntry::Group { group: self.name.clone(), snapshot: Some(snapshot) });
    }

    /// As tools see it.
    pub(crate) fn info(&self) -> GroupInfo {
        let protocol = self.protocol.as_deref().filter(|_| self.state == GroupState::Stable);
        GroupInfo {
            group: self.name.clone(),
            state: self.state,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.unwrap_or_default().to_owned(),
            members: self.members.values().map(|member| member.info(protocol)).collect(),
        }
    }

    /// Refuses the syncs that wait: a rebalance begins.
    pub(crate) fn refuse_syncs(&mut self, why: &GroupError, desk: &mut Desk) {
        let mut waited = Vec::new();
        for (number, member) in &mut self.members {
            member.assignment = bytes::Bytes::new();
            if let Some(call) = member.sync_call.take() {
                desk.answer(call, Answer::Synced(Err(why.clone())));
                waited.push(*number);
            }
        }
        for number in waited {
            self.touch(number, desk);
        }
    }
}
