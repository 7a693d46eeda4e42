//! A group and the records that the ledger keeps of it; and all groups of a partition of the ledger, gone through in
//! slices.

use model::Name;

use super::desk::Desk;
use super::groups::Groups;
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

    // The next of what the ledger must still say of it; answers whether that is all.
    fn ledger_slice(&self, from: &mut Inside, most: usize, entries: &mut Vec<LedgerEntry>) -> bool {
        if !std::mem::replace(&mut from.begun, true)
            && let Some(snapshot) = &self.stored
        {
            entries.push(LedgerEntry::Group { group: self.name.clone(), snapshot: Some(snapshot.clone()) });
        }
        let place = from.last.clone();
        for (topic, partition, committed) in self.offsets.iter_behind(place.as_ref()) {
            if entries.len() >= most {
                return false;
            }
            entries.push(LedgerEntry::Offset {
                group: self.name.clone(),
                topic: topic.clone(),
                partition,
                committed: Some(committed.clone()),
            });
            from.last = Some((topic.clone(), partition));
        }
        true
    }
}

/// How far the groups of a partition of the ledger have been gone through, so that it can be done in slices while they
/// change: what changes meanwhile is written to the ledger by itself.
#[derive(Default)]
pub(crate) struct LedgerCursor {
    /// Groups to be gone through, the next one last.
    groups: Vec<Name>,
    inside: Inside,
}

#[derive(Default)]
struct Inside {
    begun: bool,
    last: Option<(Name, u32)>,
}

impl Groups {
    /// All that the ledger's `partition` must still say.
    #[cfg(test)]
    pub(crate) fn ledger_entries(&self, partition: u32) -> Vec<LedgerEntry> {
        let (mut cursor, mut entries) = (self.ledger_cursor(partition), Vec::new());
        while !self.ledger_slice(&mut cursor, entries.len() + 1, &mut entries) {}
        entries
    }

    /// Begins to go through what the ledger's `partition` must still say.
    pub(crate) fn ledger_cursor(&self, partition: u32) -> LedgerCursor {
        LedgerCursor { groups: self.names_of(partition), inside: Inside::default() }
    }

    /// The next entries, about `most`; answers whether they are the last.
    pub(crate) fn ledger_slice(&self, cursor: &mut LedgerCursor, most: usize, entries: &mut Vec<LedgerEntry>) -> bool {
        while entries.len() < most {
            let Some(name) = cursor.groups.last() else { return true };
            let done = self.get(name).is_none_or(|group| group.ledger_slice(&mut cursor.inside, most, entries));
            if done {
                cursor.groups.pop();
                cursor.inside = Inside::default();
            }
        }
        cursor.groups.is_empty()
    }
}
