//! What tongues ask of users.

use model::Name;

use crate::{Broker, BrokerError, CallId, Lsn, SessionId};

#[allow(unused_variables, clippy::needless_pass_by_value)]
impl Broker {
    /// Checks a password on another thread; the answer comes as [`Event::Login`].
    pub fn login(&mut self, session: SessionId, call: CallId, user: &str, password: &[u8], from_loopback: bool) {
        unimplemented!()
    }

    /// Makes a user or changes the password and tags of one.
    pub fn put_user(&mut self, name: &Name, password: &str, tags: &[String]) -> Result<Lsn, BrokerError> {
        unimplemented!()
    }

    /// Removes a user.
    pub fn delete_user(&mut self, name: &str) -> Result<Lsn, BrokerError> {
        unimplemented!()
    }

    /// All users: name and tags.
    pub fn users(&self) -> Vec<(Name, Vec<String>)> {
        unimplemented!()
    }
}
