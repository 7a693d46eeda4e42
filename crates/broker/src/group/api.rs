//! What tongues ask of groups.

use model::{Name, Now};

use super::*;
use crate::{Broker, CallId, Lsn, SessionId};

#[allow(unused_variables, clippy::needless_pass_by_value)]
impl Broker {
    /// Joins; the answer comes as [`Event::Joined`] (at once or when the group is complete).
    pub fn join(&mut self, session: SessionId, call: CallId, request: JoinRequest, now: Now) {
        unimplemented!()
    }

    /// Hands in the assignments (the leader; others none) and asks for one's own, which comes as [`Event::Synced`].
    pub fn sync(
        &mut self,
        session: SessionId,
        call: CallId,
        who: MemberRef<'_>,
        protocol: Option<(&str, &str)>,
        assignments: Vec<(String, bytes::Bytes)>,
        now: Now,
    ) {
        unimplemented!()
    }

    /// Says that a member is still there.
    pub fn heartbeat(&mut self, who: MemberRef<'_>, now: Now) -> Result<(), GroupError> {
        unimplemented!()
    }

    /// A member goes. A static member may be named by its instance alone.
    pub fn leave(&mut self, who: MemberRef<'_>, now: Now) -> Result<(), GroupError> {
        unimplemented!()
    }

    /// Commits offsets: all that are allowed, in one batch. The answer is held back until `written` reaches the [`Lsn`].
    pub fn commit_offsets(
        &mut self,
        who: MemberRef<'_>,
        offsets: &[OffsetCommit],
        now: Now,
    ) -> Result<Lsn, GroupError> {
        unimplemented!()
    }

    /// One committed offset.
    #[must_use]
    pub fn committed(&self, group: &str, topic: &str, partition: u32) -> Option<&Committed> {
        unimplemented!()
    }

    /// Everything a group has committed, by topic and partition; empty for an unknown group.
    pub fn all_committed(&self, group: &str) -> Vec<(Name, u32, &Committed)> {
        unimplemented!()
    }

    /// Whether `who` may fetch offsets: member and generation are checked when given.
    pub fn check_member(&self, who: MemberRef<'_>) -> Result<(), GroupError> {
        unimplemented!()
    }

    /// One group as tools see it; state `Dead` when unknown.
    #[must_use]
    pub fn describe_group(&self, group: &str) -> GroupInfo {
        unimplemented!()
    }

    /// All groups.
    pub fn groups(&self) -> Vec<GroupInfo> {
        unimplemented!()
    }

    /// Which partition of the internal topic keeps `group`: |Java hash| % 50.
    #[must_use]
    pub fn group_partition(&self, group: &str) -> u32 {
        unimplemented!()
    }
}
