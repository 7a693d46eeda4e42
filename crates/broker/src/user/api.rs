//! What tongues ask of users.

use model::Name;

use crate::{Broker, BrokerError, CallId, Lsn, SessionId};

impl Broker {
    /// Checks a password on another thread; the answer comes as [`crate::Event::Login`].
    pub fn login(&mut self, session: SessionId, call: CallId, user: &str, password: &[u8], from_loopback: bool) {
        self.core.login(session, call, user, password, from_loopback);
    }

    /// Makes a user or changes the password and tags of one. The password is hashed on another thread; the answer comes
    /// as [`crate::Event::UserStored`].
    pub fn put_user(&mut self, session: SessionId, call: CallId, name: &Name, password: &str, tags: &[String]) {
        self.core.put_user(session, call, name, password, tags);
    }

    /// Removes a user. The answer is held back until synced up to the [`Lsn`].
    ///
    /// # Errors
    /// [`BrokerError::Missing`], [`BrokerError::Storage`].
    pub fn delete_user(&mut self, name: &str) -> Result<Lsn, BrokerError> {
        self.core.delete_user(name)
    }

    /// All users: name and tags.
    #[must_use]
    pub fn users(&self) -> Vec<(Name, Vec<String>)> {
        let users = self.core.catalog.get().users.values();
        users.filter_map(|user| Some((Name::new(&user.name).ok()?, user.tags.clone()))).collect()
    }
}
