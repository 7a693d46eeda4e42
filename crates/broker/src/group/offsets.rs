//! What one group has committed, who may commit, and how long it is kept.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use model::{Name, Wall};

use super::desk::Desk;
use super::state::Group;
use super::{Committed, GroupError, GroupState, LedgerEntry, MemberRef};

/// Committed offsets by topic and partition.
#[derive(Default, Debug)]
pub(crate) struct Offsets {
    by_topic: BTreeMap<Name, BTreeMap<u32, Committed>>,
    count: usize,
}

impl Offsets {
    /// Remembers one.
    pub(crate) fn set(&mut self, topic: &Name, partition: u32, committed: Committed) {
        if !self.by_topic.contains_key(topic) {
            self.by_topic.insert(topic.clone(), BTreeMap::new());
        }
        let before = self.by_topic.get_mut(topic).and_then(|partitions| partitions.insert(partition, committed));
        if before.is_none() {
            self.count += 1;
        }
    }

    /// Forgets one; true if there was one.
    pub(crate) fn remove(&mut self, topic: &str, partition: u32) -> bool {
        let Some(partitions) = self.by_topic.get_mut(topic) else {
            return false;
        };
        let removed = partitions.remove(&partition).is_some();
        if removed {
            self.count -= 1;
        }
        if partitions.is_empty() {
            self.by_topic.remove(topic);
        }
        removed
    }

    /// One.
    pub(crate) fn get(&self, topic: &str, partition: u32) -> Option<&Committed> {
        self.by_topic.get(topic)?.get(&partition)
    }

    /// All.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, u32, &Committed)> {
        self.by_topic.iter().flat_map(|(topic, partitions)| partitions.iter().map(move |(at, one)| (topic, *at, one)))
    }

    /// Those behind a place, in order; all, if there is none.
    pub(crate) fn iter_behind(&self, place: Option<&(Name, u32)>) -> impl Iterator<Item = (&Name, u32, &Committed)> {
        let from = place.map_or(Bound::Unbounded, |(topic, _)| Bound::Included(topic.as_str()));
        let behind = move |topic: &Name, at: u32| place.is_none_or(|(of, last)| topic > of || at > *last);
        let topics = self.by_topic.range::<str, _>((from, Bound::Unbounded));
        let all = topics.flat_map(|(topic, partitions)| partitions.iter().map(move |(at, one)| (topic, *at, one)));
        all.filter(move |(topic, at, _)| behind(topic, *at))
    }

    /// The partitions of one topic.
    pub(crate) fn partitions(&self, topic: &str) -> Vec<u32> {
        self.by_topic.get(topic).map(|partitions| partitions.keys().copied().collect()).unwrap_or_default()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl Group {
    /// Whether `who` may commit now. A commit of a member is a sign of life.
    pub(crate) fn check_commit(&mut self, who: MemberRef<'_>, desk: &mut Desk) -> Result<(), GroupError> {
        if who.generation < 0 && self.state == GroupState::Empty {
            return Ok(()); // a consumer that assigns itself, or a tool
        }
        if who.generation < 0 && who.member.is_empty() && who.instance.is_none() {
            return Err(GroupError::UnknownMember);
        }
        let number = self.check_current(who)?;
        self.touch(number, desk);
        // While it prepares a rebalance a group takes the commits of its members: they give partitions up just then.
        if self.state == GroupState::CompletingRebalance { Err(GroupError::Rebalancing) } else { Ok(()) }
    }

    /// Whether `who` may ask for offsets: checked only as far as it says who it is.
    pub(crate) fn check_fetch(&self, who: MemberRef<'_>) -> Result<(), GroupError> {
        if who.member.is_empty() && who.instance.is_none() && who.generation < 0 {
            return Ok(());
        }
        let number = self.check_member(who.member, who.instance)?;
        if who.generation < 0 || who.generation == self.generation {
            return self.members.get(&number).map(|_| ()).ok_or(GroupError::UnknownMember);
        }
        Err(GroupError::IllegalGeneration)
    }

    /// Forgets offsets, in the ledger too.
    pub(crate) fn remove_offsets(&mut self, removed: &[(Name, u32)], desk: &mut Desk) {
        for (topic, partition) in removed {
            if self.offsets.remove(topic, *partition) {
                let (group, topic) = (self.name.clone(), topic.clone());
                desk.store(LedgerEntry::Offset { group, topic, partition: *partition, committed: None });
            }
        }
    }

    /// Has the ledger forget everything.
    pub(crate) fn bury(&self, desk: &mut Desk) {
        for (topic, partition, _) in self.offsets.iter() {
            let (group, topic) = (self.name.clone(), topic.clone());
            desk.store(LedgerEntry::Offset { group, topic, partition, committed: None });
        }
        if self.stored.is_some() {
            desk.store(LedgerEntry::Group { group: self.name.clone(), snapshot: None });
        }
    }

    /// Forgets what a group without members has kept for longer than allowed; once nothing is left, the group itself.
    pub(crate) fn expire(&mut self, desk: &mut Desk) {
        if !self.is_deserted() {
            return;
        }
        let retention = millis(desk.options.offsets_retention);
        // A group that never had members has been empty from the start: then only the commits' own times count.
        let since = if self.protocol_type.is_some() { self.empty_since } else { Wall(0) };
        let is_old = |at: Wall| desk.now.wall.0.saturating_sub(at.max(since).0) >= retention;
        let old = self.offsets.iter().filter(|(_, _, one)| is_old(one.at)).map(|(topic, at, _)| (topic.clone(), at));
        let old: Vec<(Name, u32)> = old.collect();
        self.remove_offsets(&old, desk);
        if self.offsets.count() == 0 {
            self.bury(desk);
            self.stored = None;
        }
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
