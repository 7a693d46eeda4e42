//! What tongues say to policies and hear from them.

use std::sync::Arc;

use crate::Lsn;

pub use cluster::meta::{AppliesTo, Policy, PolicyKey, PolicyOptions};

/// The policies that rule one object: at most one, and one of an operator's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruling {
    /// The policy.
    pub policy: Option<Arc<Policy>>,
    /// The operator's.
    pub operator: Option<Arc<Policy>>,
}

impl Ruling {
    /// Whether there is none at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.policy.is_none() && self.operator.is_none()
    }
}

/// The answer to a policy that was put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyStored {
    /// There was none of the name before.
    pub created: bool,
    /// Hold the answer back until synced up to here.
    pub lsn: Lsn,
}
