//! What tongues ask of users.

use std::net::IpAddr;

use model::Name;

use super::{User, UserLimits};
use crate::{Broker, BrokerError, CallId, Evicted, Lsn, SessionId};

impl Broker {
    /// Checks a password on another thread; the answer comes as [`crate::Event::Login`]. Who asks from one address
    /// waits for one password of each other, not for all of them.
    pub fn login(&mut self, session: SessionId, call: CallId, user: &str, password: &[u8], from: IpAddr) {
        self.core.login(session, call, user, password, from);
    }

    /// Logs in a user for whom something else than a password vouches: a certificate that TLS has checked. The answer
    /// comes as [`crate::Event::Login`].
    pub fn login_vouched(&mut self, session: SessionId, call: CallId, user: &str, from_loopback: bool) {
        self.core.login_vouched(session, call, user, from_loopback);
    }

    /// Makes a user or changes the password and tags of one. The password is hashed on another thread; the answer comes
    /// as [`crate::Event::UserStored`].
    pub fn put_user(&mut self, session: SessionId, call: CallId, name: &Name, password: &str, tags: &[String]) {
        self.core.put_user(session, call, name, password, tags);
    }

    /// Makes a user or replaces one with credentials that are known already: for imports. The answer is held back until
    /// synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Name`], [`BrokerError::Storage`].
    pub fn store_user(&mut self, user: &User) -> Result<Lsn, BrokerError> {
        self.core.store_user(user.clone())
    }

    /// Changes a user's tags.
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Storage`].
    pub fn set_user_tags(&mut self, name: &str, tags: &[String]) -> Result<Lsn, BrokerError> {
        self.change_user(name, |user| user.tags = tags.to_vec())
    }

    /// Changes how much of anything a user may have. It holds for what comes: nothing is closed for it.
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Storage`].
    pub fn set_user_limits(&mut self, name: &str, limits: UserLimits) -> Result<Lsn, BrokerError> {
        self.change_user(name, |user| user.limits = limits)
    }

    fn change_user(&mut self, name: &str, change: impl FnOnce(&mut User)) -> Result<Lsn, BrokerError> {
        let missing = || BrokerError::Missing { kind: "user", name: name.to_owned() };
        let mut user = self.user(name).cloned().ok_or_else(missing)?;
        change(&mut user);
        self.core.store_user(user)
    }

    /// A user, with what proves who they are: never for somebody else's eyes than an administrator's.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&User> {
        self.core.catalog.get().users.get(name)
    }

    /// Removes a user and all permissions of theirs; who is connected as that user is cut off. The answer is held
    /// back until synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Storage`].
    pub fn delete_user(&mut self, name: &str) -> Result<Lsn, BrokerError> {
        let lsn = self.core.delete_user(name)?;
        self.evict(Evicted::User, |info| &*info.user == name);
        Ok(lsn)
    }

    /// All users: name and tags.
    #[must_use]
    pub fn users(&self) -> Vec<(Name, Vec<String>)> {
        let users = self.core.catalog.get().users.values();
        users.filter_map(|user| Some((Name::new(&user.name).ok()?, user.tags.clone()))).collect()
    }
}
