//! Syncs: the leader hands in the assignments, everybody gets their own.

use std::collections::HashMap;

use bytes::Bytes;

use super::desk::{Answer, Call, Desk};
use super::state::Group;
use super::{GroupError, GroupState, MemberRef, Synced};

impl Group {
    /// A sync. `protocol` is the type and protocol the member believes in, if it says so.
    pub(crate) fn sync(
        &mut self,
        call: Call,
        who: MemberRef<'_>,
        protocol: Option<(&str, &str)>,
        assignments: Vec<(String, Bytes)>,
        desk: &mut Desk,
    ) {
        let number = match self.check_sync(who, protocol) {
            Ok(number) => number,
            Err(why) => return desk.refuse_sync(call, why),
        };
        if self.state == GroupState::Stable {
            desk.answer(call, Answer::Synced(Ok(self.synced(number))));
            self.has_synced(number, desk);
            return;
        }
        let before = self.members.get_mut(&number).and_then(|member| member.sync_call.replace(call));
        if let Some(older) = before {
            desk.refuse_sync(older, GroupError::Rebalancing);
        }
        desk.park(call, &self.name, number);
        self.has_synced(number, desk);
        if self.leader == Some(number) {
            self.assign(assignments, desk);
        }
    }

    fn check_sync(&self, who: MemberRef<'_>, protocol: Option<(&str, &str)>) -> Result<u64, GroupError> {
        let number = self.check_current(who)?;
        let running = (self.protocol_type.as_deref().unwrap_or_default(), self.protocol.as_deref().unwrap_or_default());
        match self.state {
            GroupState::Empty | GroupState::Dead => Err(GroupError::UnknownMember),
            GroupState::PreparingRebalance => Err(GroupError::Rebalancing),
            _ if protocol.is_some_and(|protocol| protocol != running) => Err(GroupError::InconsistentProtocol),
            GroupState::CompletingRebalance | GroupState::Stable => Ok(number),
        }
    }

    fn has_synced(&mut self, number: u64, desk: &mut Desk) {
        self.touch(number, desk);
        self.unsynced.remove(&number);
        if self.unsynced.is_empty() {
            self.set_sync_timer(None, desk);
        }
    }

    /// The leader has assigned: the group is stable, and whoever waited is told once that is stored.
    fn assign(&mut self, assignments: Vec<(String, Bytes)>, desk: &mut Desk) {
        let mut assignments: HashMap<String, Bytes> = assignments.into_iter().collect();
        for member in self.members.values_mut() {
            member.assignment = assignments.remove(&member.id).unwrap_or_default();
        }
        self.state = GroupState::Stable;
        self.store(desk);
        let mut waited = Vec::new();
        for (number, member) in &mut self.members {
            if let Some(call) = member.sync_call.take() {
                waited.push((*number, call));
            }
        }
        for (number, call) in waited {
            desk.answer_when_stored(call, Answer::Synced(Ok(self.synced(number))));
            self.touch(number, desk);
        }
    }

    fn synced(&self, number: u64) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: self.protocol.clone().unwrap_or_default(),
            assignment: self.members.get(&number).map(|member| member.assignment.clone()).unwrap_or_default(),
        }
    }

    /// The time to sync is up: whoever joined this generation and has not synced is out.
    pub(crate) fn sync_time_up(&mut self, desk: &mut Desk) {
        self.sync_until = None;
        let late = std::mem::take(&mut self.unsynced);
        if late.is_empty() || !matches!(self.state, GroupState::CompletingRebalance | GroupState::Stable) {
            return;
        }
        for number in late {
            self.remove(number, desk);
        }
        self.rebalance(desk);
    }

    /// The assignment could not be stored: nobody was told of it, so it is made anew.
    pub(crate) fn store_failed(&mut self, desk: &mut Desk) {
        if self.state == GroupState::Stable {
            self.rebalance(desk);
        }
    }
}
