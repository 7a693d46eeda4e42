//! What tongues ask of groups.

use model::{Name, Now};

use super::coordinator::call_of;
use super::{Committed, GroupError, GroupInfo, JoinRequest, MemberRef, OffsetCommit};
use crate::{Broker, CallId, Lsn, SessionId};

impl Broker {
    /// Joins; the answer comes as [`crate::Event::Joined`] (at once or when the group is complete).
    pub fn join(&mut self, session: SessionId, call: CallId, request: JoinRequest, now: Now) {
        self.core.now = now;
        self.groups.join(&mut self.core, call_of(session, call), request, now);
    }

    /// Hands in the assignments (the leader; others none) and asks for one's own, which comes as
    /// [`crate::Event::Synced`]. `protocol` is the type and the protocol that the member believes in, if it says so.
    pub fn sync(
        &mut self,
        session: SessionId,
        call: CallId,
        who: MemberRef<'_>,
        protocol: Option<(&str, &str)>,
        assignments: Vec<(String, bytes::Bytes)>,
        now: Now,
    ) {
        self.core.now = now;
        self.groups.sync(&mut self.core, call_of(session, call), who, protocol, assignments);
    }

    /// Says that a member is still there.
    ///
    /// # Errors
    /// [`GroupError::Rebalancing`], [`GroupError::UnknownMember`], [`GroupError::FencedInstance`],
    /// [`GroupError::IllegalGeneration`], [`GroupError::InvalidGroup`].
    pub fn heartbeat(&mut self, who: MemberRef<'_>, now: Now) -> Result<(), GroupError> {
        self.core.now = now;
        self.groups.heartbeat(&mut self.core, who, now)
    }

    /// A member goes. A static member may be named by its instance alone. The generation is not looked at.
    ///
    /// # Errors
    /// [`GroupError::UnknownMember`], [`GroupError::FencedInstance`], [`GroupError::InvalidGroup`].
    pub fn leave(&mut self, who: MemberRef<'_>, now: Now) -> Result<(), GroupError> {
        self.core.now = now;
        self.groups.leave(&mut self.core, who, now)
    }

    /// Commits offsets: all of them, in one batch, or none. The answer is held back until `written` reaches the
    /// [`Lsn`].
    ///
    /// # Errors
    /// [`GroupError::UnknownMember`], [`GroupError::FencedInstance`], [`GroupError::IllegalGeneration`],
    /// [`GroupError::Rebalancing`], [`GroupError::InvalidGroup`], [`GroupError::Storage`].
    pub fn commit_offsets(
        &mut self,
        who: MemberRef<'_>,
        offsets: &[OffsetCommit],
        now: Now,
    ) -> Result<Lsn, GroupError> {
        self.core.now = now;
        self.groups.commit_offsets(&mut self.core, who, offsets, now)
    }

    /// One committed offset.
    #[must_use]
    pub fn committed(&self, group: &str, topic: &str, partition: u32) -> Option<&Committed> {
        self.groups.groups().get(group)?.offsets.get(topic, partition)
    }

    /// Everything a group has committed, by topic and partition; empty for an unknown group.
    #[must_use]
    pub fn all_committed(&self, group: &str) -> Vec<(Name, u32, &Committed)> {
        let Some(group) = self.groups.groups().get(group) else {
            return Vec::new();
        };
        group.offsets.iter().map(|(topic, partition, committed)| (topic.clone(), partition, committed)).collect()
    }

    /// Whether `who` may fetch offsets: member and generation are checked when given.
    ///
    /// # Errors
    /// [`GroupError::UnknownMember`], [`GroupError::FencedInstance`], [`GroupError::IllegalGeneration`].
    pub fn check_member(&self, who: MemberRef<'_>) -> Result<(), GroupError> {
        match self.groups.groups().get(who.group) {
            Some(group) => group.check_fetch(who),
            None if who.member.is_empty() && who.instance.is_none() && who.generation < 0 => Ok(()),
            None => Err(GroupError::UnknownMember),
        }
    }

    /// One group as tools see it; state `Dead` when unknown.
    #[must_use]
    pub fn describe_group(&self, group: &str) -> GroupInfo {
        self.groups.groups().describe(group)
    }

    /// All groups, by name.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupInfo> {
        self.groups.groups().list()
    }

    /// Removes a group that has no members, with all it has committed. The answer is held back until `written` reaches
    /// the [`Lsn`].
    ///
    /// # Errors
    /// [`GroupError::NotFound`], [`GroupError::NotEmpty`].
    pub fn delete_group(&mut self, group: &str, now: Now) -> Result<Lsn, GroupError> {
        self.core.now = now;
        self.groups.delete(&mut self.core, group, now)
    }

    /// Forgets what a group has committed on some partitions; what it has not committed is no error. The group may have
    /// members: whoever calls knows that none of them reads there. The answer is held back until `written` reaches the
    /// [`Lsn`].
    ///
    /// # Errors
    /// [`GroupError::NotFound`].
    pub fn delete_offsets(&mut self, group: &str, which: &[(Name, u32)], now: Now) -> Result<Lsn, GroupError> {
        self.core.now = now;
        self.groups.delete_offsets(&mut self.core, group, which, now)
    }

    /// Which partition of the internal topic keeps `group`: |Java hash| % 50.
    #[must_use]
    pub fn group_partition(&self, group: &str) -> u32 {
        crate::ledger::partition_of(group)
    }
}
