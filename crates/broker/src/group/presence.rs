//! Members that say they are there, that go, or that fall silent; connections that close.

use super::desk::{Call, Desk};
use super::state::Group;
use super::timers::What;
use super::{GroupError, GroupState, MemberRef};

impl Group {
    /// A heartbeat.
    pub(crate) fn heartbeat(&mut self, who: MemberRef<'_>, desk: &mut Desk) -> Result<(), GroupError> {
        let number = self.check_current(who)?;
        self.touch(number, desk);
        match self.state {
            GroupState::Empty | GroupState::Dead => Err(GroupError::UnknownMember),
            GroupState::PreparingRebalance => Err(GroupError::Rebalancing),
            // Members may begin with heartbeats as soon as they have joined.
            GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
        }
    }

    /// A member goes; a static one may be named by its instance alone.
    pub(crate) fn leave(&mut self, who: MemberRef<'_>, desk: &mut Desk) -> Result<(), GroupError> {
        let number = match who.instance {
            Some(instance) if who.member.is_empty() => {
                *self.instances.get(instance).ok_or(GroupError::UnknownMember)?
            }
            instance => {
                if self.drop_pending(who.member, desk) {
                    return Ok(());
                }
                self.check_member(who.member, instance)?
            }
        };
        self.remove_and_rebalance(number, desk);
        Ok(())
    }

    /// Takes a member out and lets the others go on.
    fn remove_and_rebalance(&mut self, number: u64, desk: &mut Desk) {
        self.remove(number, desk);
        if self.state != GroupState::Empty {
            self.rebalance(desk);
        }
    }

    /// Forgets an id that was given out; true when it was.
    fn drop_pending(&mut self, id: &str, desk: &mut Desk) -> bool {
        let Some(until) = self.pending.remove(id) else {
            return false;
        };
        desk.timers.disarm(until, &self.name, What::Pending(id.to_owned()));
        self.try_complete(desk);
        true
    }

    /// An id that was given out has not been used in time.
    pub(crate) fn pending_time_up(&mut self, id: &str, desk: &mut Desk) {
        self.drop_pending(id, desk);
    }

    /// A member's timer has fired: it is out if it has been silent for its session time-out.
    pub(crate) fn member_time_up(&mut self, number: u64, desk: &mut Desk) {
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        if member.waits() {
            // The session still holds its call: it is alive.
            member.expires = member.expiry(desk.now.mono);
        }
        if member.expires > desk.now.mono {
            member.armed = member.expires;
            desk.timers.arm(member.armed, &self.name, What::Member(number));
            return;
        }
        tracing::info!(group = %self.name, member = %member.id, "a member fell silent: it is out");
        self.remove_and_rebalance(number, desk);
    }

    /// The session of a call that waits is gone. This is not a leave: the member may come back within its time-out.
    pub(crate) fn call_dropped(&mut self, call: Call, number: u64, desk: &mut Desk) {
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        if member.sync_call == Some(call) {
            member.sync_call = None;
        }
        if member.join_call == Some(call) {
            member.join_call = None;
            self.joined_count -= 1;
            if !member.knows_id && member.instance.is_none() {
                // Its id was in the answer that nobody waits for: it cannot come back.
                self.remove_and_rebalance(number, desk);
                return;
            }
        }
        self.touch(number, desk);
    }
}
