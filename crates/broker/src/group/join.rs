//! Joins: new members, members that come back, static members that take their place again.

use std::mem;

use super::desk::{Answer, Call, Desk};
use super::member::{Member, each_once, said_bytes};
use super::state::Group;
use super::timers::What;
use super::{GroupError, GroupState, JoinRequest, Joined};

impl Group {
    /// A join. `uuid` makes a new member's id unlike any other.
    pub(crate) fn join(&mut self, call: Call, request: JoinRequest, uuid: &str, desk: &mut Desk) {
        let outcome = if request.member.is_empty() {
            self.join_new(call, request, uuid, desk)
        } else {
            self.join_known(call, request, desk)
        };
        if let Err(why) = outcome {
            desk.refuse_join(call, why);
        }
    }

    fn join_new(&mut self, call: Call, request: JoinRequest, uuid: &str, desk: &mut Desk) -> Result<(), GroupError> {
        let replaced = request.instance.as_ref().and_then(|instance| self.instances.get(instance).copied());
        if replaced.is_none() && self.members.len() + self.pending.len() >= desk.options.members_max {
            return Err(GroupError::Full);
        }
        self.check_fits(&request, replaced, desk)?;
        let id = format!("{}-{uuid}", request.instance.as_ref().unwrap_or(&request.client_id));
        if let Some(number) = replaced {
            self.replace(number, id, call, request, desk);
            return Ok(());
        }
        if request.require_known_member && request.instance.is_none() {
            let until = desk.now.mono.plus(request.session_timeout);
            desk.timers.arm(until, &self.name, What::Pending(id.clone()));
            self.pending.insert(id.clone(), until);
            return Err(GroupError::MemberIdRequired(id));
        }
        self.add(id, false, call, request, desk);
        Ok(())
    }

    fn join_known(&mut self, call: Call, mut request: JoinRequest, desk: &mut Desk) -> Result<(), GroupError> {
        if let Some(until) = self.pending.get(&request.member).copied() {
            self.check_fits(&request, None, desk)?;
            let id = mem::take(&mut request.member);
            self.pending.remove(&id);
            desk.timers.disarm(until, &self.name, What::Pending(id.clone()));
            self.add(id, true, call, request, desk);
            return Ok(());
        }
        let number = self.check_member(&request.member, request.instance.as_deref())?;
        self.check_fits(&request, Some(number), desk)?;
        let member = self.members.get_mut(&number).ok_or(GroupError::UnknownMember)?;
        member.knows_id = true;
        let unchanged = member.protocols == request.protocols;
        let leads = self.leader == Some(number);
        match self.state {
            // The answer to the join got lost: once more.
            GroupState::CompletingRebalance if unchanged => self.answer_again(number, call, desk),
            // A leader that joins again wants a rebalance: it has seen partitions come or go.
            GroupState::Stable if unchanged && !leads => self.answer_again(number, call, desk),
            _ => {
                self.update(number, call, request, desk);
                self.rebalance(desk);
            }
        }
        Ok(())
    }

    /// Whether a member like this fits in, in place of an older self if it has one here.
    fn check_fits(&self, request: &JoinRequest, older: Option<u64>, desk: &Desk) -> Result<(), GroupError> {
        if !self.fits(&request.protocol_type, &request.protocols) {
            return Err(GroupError::InconsistentProtocol);
        }
        let before = older.and_then(|number| self.members.get(&number)).map_or(0, Member::bytes);
        let after = said_bytes(&request.client_id, &request.protocols);
        let options = &desk.options;
        let is_room = after <= before
            || (self.members_bytes - before + after <= options.group_bytes_max
                && desk.members_bytes - before + after <= options.groups_bytes_max);
        if is_room { Ok(()) } else { Err(GroupError::Full) }
    }

    /// The current generation once more, for a member that has nothing new to say.
    fn answer_again(&mut self, number: u64, call: Call, desk: &mut Desk) {
        let joined = self.joined(number);
        desk.answer(call, Answer::Joined(joined.ok_or(GroupError::UnknownMember)));
        self.touch(number, desk);
    }

    /// Lets a new member in.
    fn add(&mut self, id: String, knows_id: bool, call: Call, mut request: JoinRequest, desk: &mut Desk) {
        if self.members.is_empty() || self.protocol_type.is_none() {
            self.protocol_type = Some(mem::take(&mut request.protocol_type));
        }
        let number = self.insert(Member::new(id, request, knows_id), desk);
        self.hold_join(number, call, desk);
        if let Some(gathering) = &mut self.gathering {
            gathering.grown = true;
        }
        self.rebalance(desk);
    }

    /// A member says what it knows now.
    fn update(&mut self, number: u64, call: Call, request: JoinRequest, desk: &mut Desk) {
        let protocols = each_once(request.protocols);
        for (protocol, _) in &protocols {
            *self.known_by.entry(protocol.clone()).or_default() += 1;
        }
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        let bytes_before = member.bytes();
        member.session_timeout = request.session_timeout;
        member.rebalance_timeout = request.rebalance_timeout;
        member.client_id = request.client_id;
        member.client_host = request.client_host;
        let before = mem::replace(&mut member.protocols, protocols);
        let bytes_after = member.bytes();
        self.count_bytes(bytes_before, bytes_after, desk);
        self.forget_protocols(&before);
        self.hold_join(number, call, desk);
    }

    /// The member's join waits; an older one of it that still does is refused.
    fn hold_join(&mut self, number: u64, call: Call, desk: &mut Desk) {
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        match member.join_call.replace(call) {
            // Seen when a client gave up waiting and asks again. On one connection answers keep their order: without
            // an answer to the first the second would never be seen.
            Some(older) => desk.refuse_join(older, GroupError::Rebalancing),
            None => self.joined_count += 1,
        }
        desk.park(call, &self.name, number);
        self.touch(number, desk);
    }

    /// A static member takes its place again under a new id. While nothing changes for the others there is no
    /// rebalance.
    fn replace(&mut self, number: u64, id: String, call: Call, request: JoinRequest, desk: &mut Desk) {
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        let old_id = mem::replace(&mut member.id, id.clone());
        member.knows_id = false;
        if let Some(older) = member.join_call.take() {
            self.joined_count -= 1;
            desk.refuse_join(older, GroupError::FencedInstance);
        }
        if let Some(older) = member.sync_call.take() {
            desk.refuse_sync(older, GroupError::FencedInstance);
        }
        self.ids.remove(&old_id);
        self.ids.insert(id, number);
        self.update(number, call, request, desk);
        // Only the choice of the protocol counts: the metadata of sticky members differs at every start, and then no
        // restart would go without a rebalance.
        if self.state != GroupState::Stable || self.protocol != Some(self.vote()) {
            // Also after the joins are answered: the leader may already assign to the old id.
            self.rebalance(desk);
            return;
        }
        self.store(desk);
        self.joined_count -= 1;
        if let Some(member) = self.members.get_mut(&number) {
            member.join_call = None;
        }
        let joined =
            self.joined(number).map(|joined| Joined { skip_assignment: self.leader == Some(number), ..joined });
        desk.answer_when_stored(call, Answer::Joined(joined.ok_or(GroupError::UnknownMember)));
    }

    /// The running generation as a member is told of it.
    pub(crate) fn joined(&self, number: u64) -> Option<Joined> {
        let leader = self.members.get(&self.leader?)?;
        let leads = self.leader == Some(number);
        Some(Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: self.protocol.clone().unwrap_or_default(),
            leader: leader.id.clone(),
            member: self.members.get(&number)?.id.clone(),
            members: if leads { self.joined_members() } else { Vec::new() },
            skip_assignment: false,
        })
    }
}
