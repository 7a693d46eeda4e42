//! A group and the records that the ledger keeps of it.

use super::desk::Desk;
use super::member::Member;
use super::state::Group;
use super::{GroupState, LedgerEntry};

impl Group {
    /// At the start, once all records were told: the group as it was stored last. Its members get their whole session
    /// time-out: they could not be heard meanwhile. Whatever was under way was told to nobody.
    pub(crate) fn recovered(&mut self, desk: &mut Desk) {
        let Some(snapshot) = self.stored.take() else {
            self.empty_since = desk.now.wall;
            return;
        };
        self.generation = snapshot.generation;
        self.protocol_type = Some(snapshot.protocol_type.clone()).filter(|kind| !kind.is_empty());
        self.protocol.clone_from(&snapshot.protocol);
        self.empty_since = snapshot.at;
        let protocol = snapshot.protocol.as_deref().unwrap_or_default();
        let (least, most) = (desk.options.session_timeout_min, desk.options.session_timeout_max);
        for stored in &snapshot.members {
            if self.ids.contains_key(&stored.info.member) {
                continue; // no member twice, whatever the record says
            }
            let mut member = Member::recovered(stored, protocol);
            member.session_timeout = member.session_timeout.max(least).min(most);
            let number = self.insert(member, desk);
            self.touch(number, desk);
        }
        if !self.members.is_empty() {
            self.state = GroupState::Stable;
            let leader = snapshot.leader.as_ref().and_then(|leader| self.ids.get(leader)).copied();
            self.leader = leader.or(self.leader);
        }
        self.stored = Some(snapshot);
    }

    /// All that the ledger must still say of it.
    pub(crate) fn ledger_entries(&self, entries: &mut Vec<LedgerEntry>) {
        if let Some(snapshot) = &self.stored {
            entries.push(LedgerEntry::Group { group: self.name.clone(), snapshot: Some(snapshot.clone()) });
        }
        for (topic, partition, committed) in self.offsets.iter() {
            entries.push(LedgerEntry::Offset {
                group: self.name.clone(),
                topic: topic.clone(),
                partition,
                committed: Some(committed.clone()),
            });
        }
    }
}
