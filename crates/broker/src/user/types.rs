//! Users, logins and what a session may do.

use model::Name;

pub use cluster::meta::{Credential, User, UserLimits};

/// Who a session acts for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    /// The user's name.
    pub user: Name,
    /// Tags such as `administrator`.
    pub tags: Vec<String>,
}

/// Why a login failed. Tongues tell clients only that it did.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoginError {
    /// No such user, or the wrong password.
    #[error("the user or the password is wrong")]
    Refused,
    /// A certificate names somebody who is no user.
    #[error("the certificate names '{0}', and there is no such user: add one, or set where its name is looked for")]
    Unknown(String),
    /// The default user may only come from this machine.
    #[error("user 'guest' may only connect from loopback")]
    LoopbackOnly,
}
