//! What of the coordinator can be set.

use std::time::Duration;

/// Settings of consumer groups.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// The shortest session time-out a member may ask for (`group.min.session.timeout.ms`).
    pub session_timeout_min: Duration,
    /// The longest session time-out a member may ask for (`group.max.session.timeout.ms`).
    pub session_timeout_max: Duration,
    /// How long an empty group waits for more members after its first one, and once more whenever some came meanwhile,
    /// before it begins (`group.initial.rebalance.delay.ms`). Longer: fewer needless rebalances when many start at
    /// once; shorter: a lone consumer begins sooner.
    pub initial_rebalance_delay: Duration,
    /// The most members a group may have, those that were only given an id included (`group.max.size`).
    pub members_max: usize,
    /// The most that the members of one group may say of themselves, in bytes, all together: the leader is told all of
    /// it in one answer.
    pub group_bytes_max: usize,
    /// The same of all groups: members stay until their session time-out ends, whether they are connected or not.
    pub groups_bytes_max: usize,
    /// How long offsets are kept in a group without members (`offsets.retention.minutes`).
    pub offsets_retention: Duration,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions {
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_secs(30 * 60),
            // The peer's default of 3 s makes everybody wait who starts one consumer; none at all makes a rebalance of
            // every consumer of a service that starts. Half a second is enough for processes started together.
            initial_rebalance_delay: Duration::from_millis(500),
            members_max: 10_000,
            group_bytes_max: 32 << 20,
            groups_bytes_max: 256 << 20,
            offsets_retention: Duration::from_secs(7 * 24 * 3600),
        }
    }
}
