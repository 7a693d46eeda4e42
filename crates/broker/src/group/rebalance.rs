//! Rebalances: waiting for members to join, choosing leader and protocol, beginning the next generation.

use std::time::Duration;

use super::desk::{Answer, Desk};
use super::state::{Gathering, Group};
use super::timers::What;
use super::{GroupError, GroupState};

impl Group {
    /// Something changed: all members must join again. While they already do, looks whether all have.
    pub(crate) fn rebalance(&mut self, desk: &mut Desk) {
        if self.state == GroupState::PreparingRebalance {
            self.try_complete(desk);
            return;
        }
        let was = std::mem::replace(&mut self.state, GroupState::PreparingRebalance);
        self.refuse_syncs(&GroupError::Rebalancing, desk);
        self.unsynced.clear();
        self.set_sync_timer(None, desk);
        let limit = self.rebalance_timeout();
        let delay = desk.options.initial_rebalance_delay.min(limit);
        if was == GroupState::Empty && !delay.is_zero() {
            self.gathering = Some(Gathering { left: limit - delay, grown: false });
            self.set_join_timer(Some(delay), desk);
        } else {
            self.set_join_timer(Some(limit), desk);
            self.try_complete(desk);
        }
    }

    /// Begins the generation if everybody expected is there.
    pub(crate) fn try_complete(&mut self, desk: &mut Desk) {
        let complete = self.joined_count == self.members.len() && self.pending.is_empty();
        if self.state == GroupState::PreparingRebalance && self.gathering.is_none() && complete {
            self.complete_join(desk);
        }
    }

    /// The time to join is up.
    pub(crate) fn join_time_up(&mut self, desk: &mut Desk) {
        self.join_until = None;
        if self.state != GroupState::PreparingRebalance {
            return;
        }
        if let Some(gathering) =
            self.gathering.as_mut().filter(|gathering| gathering.grown && !gathering.left.is_zero())
        {
            let delay = desk.options.initial_rebalance_delay.min(gathering.left);
            gathering.left -= delay;
            gathering.grown = false;
            self.set_join_timer(Some(delay), desk);
            return;
        }
        self.complete_join(desk);
    }

    /// Ends the wait. Members that did not join again are out, except static ones: their session decides.
    fn complete_join(&mut self, desk: &mut Desk) {
        self.set_join_timer(None, desk);
        self.gathering = None;
        if self.joined_count < self.members.len() {
            let late =
                self.members.iter().filter(|(_, member)| member.join_call.is_none() && member.instance.is_none());
            let late: Vec<u64> = late.map(|(number, _)| *number).collect();
            for number in late {
                self.remove(number, desk);
            }
        }
        if self.members.is_empty() {
            self.become_empty(desk);
        } else if self.joined_count == 0 {
            // Only static members, and none is back yet.
            let limit = self.rebalance_timeout().max(Duration::from_secs(1)); // must not fire again at once
            self.set_join_timer(Some(limit), desk);
        } else {
            self.begin_generation(desk);
        }
    }

    fn become_empty(&mut self, desk: &mut Desk) {
        self.state = GroupState::Empty;
        self.next_generation();
        self.protocol = None;
        self.leader = None;
        self.empty_since = desk.now.wall;
        self.store(desk);
    }

    fn begin_generation(&mut self, desk: &mut Desk) {
        let has_joined = |number: &u64| self.members.get(number).is_some_and(|member| member.join_call.is_some());
        if !self.leader.as_ref().is_some_and(has_joined) {
            self.leader = self.members.keys().find(|number| has_joined(number)).copied();
        }
        self.state = GroupState::CompletingRebalance;
        self.next_generation();
        self.protocol = Some(self.vote());
        let numbers: Vec<u64> = self.members.keys().copied().collect();
        for number in numbers {
            let Some(call) = self.members.get_mut(&number).and_then(|member| member.join_call.take()) else {
                continue;
            };
            self.joined_count -= 1;
            let joined = self.joined(number).ok_or(GroupError::UnknownMember);
            desk.answer(call, Answer::Joined(joined));
            if let Some(member) = self.members.get_mut(&number) {
                member.knows_id = true;
            }
            self.unsynced.insert(number);
            self.touch(number, desk);
        }
        let limit = self.rebalance_timeout();
        self.set_sync_timer(Some(limit), desk);
    }

    fn next_generation(&mut self) {
        self.generation = self.generation.checked_add(1).unwrap_or(1); // 2³¹ rebalances: begin anew
    }

    pub(crate) fn set_join_timer(&mut self, wait: Option<Duration>, desk: &mut Desk) {
        let until = wait.map(|wait| desk.now.mono.plus(wait));
        if let Some(before) = std::mem::replace(&mut self.join_until, until) {
            desk.timers.disarm(before, &self.name, What::Join);
        }
        if let Some(until) = until {
            desk.timers.arm(until, &self.name, What::Join);
        }
    }

    pub(crate) fn set_sync_timer(&mut self, wait: Option<Duration>, desk: &mut Desk) {
        let until = wait.map(|wait| desk.now.mono.plus(wait));
        if let Some(before) = std::mem::replace(&mut self.sync_until, until) {
            desk.timers.disarm(before, &self.name, What::Sync);
        }
        if let Some(until) = until {
            desk.timers.arm(until, &self.name, What::Sync);
        }
    }
}
