//! Logins under way, and proofs that were made before. Users themselves are in the catalog.

use std::collections::HashMap;
use std::net::IpAddr;

use cluster::Command;
use cluster::meta::{Credential, User};
use model::Name;
use sha2::{Digest, Sha256};

use super::proof::{self, DEFAULT_USER};
use super::waiting::{Queue, Waiting};
use super::{LoginError, Principal};
use crate::core::Core;
use crate::ids::random;
use crate::{BrokerError, CallId, Event, Job, JobDone, Lsn, SessionId};

/// Proofs remembered; when there are more, all are forgotten.
const PROVEN_MAX: usize = 10_000;

/// Passwords that other threads are given at once: enough that none of them stands still, few enough that storage,
/// whose work they also do, waits for one or two and not for thousands when many clients come at once.
const RUNNING_MAX: usize = 4;

/// What is known of logins.
pub(crate) struct Users {
    /// Passwords to check or to hash.
    waiting: Queue,
    /// How many other threads have now.
    running: usize,
    /// Which users proved which password, by a digest that means nothing outside this process: clients that all connect
    /// again at once cost one hash each user, not each connection.
    proven: HashMap<[u8; 32], Name>,
    /// Random, made at the first login.
    secret: Option<[u8; 32]>,
    /// Counts changes of users: a check that began before a change proves nothing for later.
    changes: u64,
}

/// The outcome of a job on a password; opaque to the driver.
pub struct UserDone {
    session: SessionId,
    call: CallId,
    name: Name,
    what: Outcome,
}

enum Outcome {
    /// A password was checked.
    Checked { is_right: bool, attempt: Attempt },
    /// A password was hashed.
    Hashed { credential: Result<Credential, BrokerError>, tags: Vec<String> },
}

/// What is to be remembered of a login under way.
#[derive(Clone, Copy)]
struct Attempt {
    from_loopback: bool,
    digest: Option<[u8; 32]>,
    changes: u64,
}

impl Users {
    /// Nobody has logged in yet.
    pub(crate) fn new() -> Users {
        Users { waiting: Queue::default(), running: 0, proven: HashMap::new(), secret: None, changes: 0 }
    }

    /// The next password for another thread.
    pub(crate) fn next_job(&mut self) -> Option<Job> {
        if self.running >= RUNNING_MAX {
            return None;
        }
        let next = self.waiting.next()?;
        self.running += 1;
        Some(next.job)
    }

    /// A session is gone: nobody waits for its login.
    pub(crate) fn session_closed(&mut self, session: SessionId) {
        self.waiting.forget(session);
    }

    /// A digest of user and password; `None` without random numbers: then nothing is remembered.
    fn digest(&mut self, user: &str, password: &[u8]) -> Option<[u8; 32]> {
        if self.secret.is_none() {
            self.secret = random().ok();
        }
        let secret = self.secret.as_ref()?;
        let length = (user.len() as u64).to_be_bytes();
        let hash = Sha256::new().chain_update(secret).chain_update(length).chain_update(user).chain_update(password);
        Some(hash.finalize().into())
    }

    fn remember(&mut self, attempt: Attempt, name: &Name) {
        if let Some(digest) = attempt.digest.filter(|_| attempt.changes == self.changes) {
            if self.proven.len() >= PROVEN_MAX {
                self.proven.clear();
            }
            self.proven.insert(digest, name.clone());
        }
    }

    fn changed(&mut self) {
        self.changes += 1;
        self.proven.clear();
    }
}

impl Core {
    /// See [`crate::Broker::login`].
    pub(crate) fn login(&mut self, session: SessionId, call: CallId, user: &str, password: &[u8], from: IpAddr) {
        let Ok(name) = Name::new(user) else { return self.refuse_login(session, call) };
        let from_loopback = from.is_loopback();
        let digest = self.users.digest(user, password);
        let attempt = Attempt { from_loopback, digest, changes: self.users.changes };
        if digest.is_some_and(|digest| self.users.proven.contains_key(&digest)) {
            self.logged_in(session, call, &name, true, attempt);
            return;
        }
        let known = self.catalog.get().users.get(user);
        let lane = (from, known.map(|_| name.clone()));
        let credentials = known.map(|user| user.credentials.clone()).unwrap_or_default();
        let password = password.to_vec();
        let job = Job::User(Box::new(move || {
            let is_right = proof::verify(&password, &credentials);
            JobDone::User(UserDone { session, call, name, what: Outcome::Checked { is_right, attempt } })
        }));
        if let Some(out) = self.users.waiting.login(lane, Waiting { session, call, is_login: true, job }) {
            self.refuse_login(out.session, out.call);
        }
    }

    fn refuse_login(&mut self, session: SessionId, call: CallId) {
        self.connections.past.logins_refused += 1;
        self.events.push(session, Event::Login(call, Err(LoginError::Refused)));
    }

    /// See [`crate::Broker::login_vouched`].
    pub(crate) fn login_vouched(&mut self, session: SessionId, call: CallId, user: &str, from_loopback: bool) {
        let name = Name::new(user).ok().filter(|name| self.catalog.get().users.contains_key(name.as_str()));
        match name {
            Some(name) => self.answer_login(session, call, &name, from_loopback),
            None => {
                self.connections.past.logins_refused += 1;
                self.events.push(session, Event::Login(call, Err(LoginError::Unknown(user.to_owned()))));
            }
        }
    }

    /// See [`crate::Broker::put_user`].
    pub(crate) fn put_user(&mut self, session: SessionId, call: CallId, name: &Name, password: &str, tags: &[String]) {
        let (name, password, tags) = (name.clone(), password.as_bytes().to_vec(), tags.to_vec());
        let job = Job::User(Box::new(move || {
            let what = Outcome::Hashed { credential: proof::hash(&password), tags };
            JobDone::User(UserDone { session, call, name, what })
        }));
        self.users.waiting.add(Waiting { session, call, is_login: false, job });
    }

    /// See [`crate::Broker::delete_user`].
    pub(crate) fn delete_user(&mut self, name: &str) -> Result<Lsn, BrokerError> {
        let lsn = self.change_access(&Command::DeleteUser(name.to_owned()))?;
        self.users.changed();
        Ok(lsn)
    }

    /// See [`crate::Broker::store_user`].
    pub(crate) fn store_user(&mut self, user: User) -> Result<Lsn, BrokerError> {
        Name::new(&user.name)?;
        user.credentials.iter().try_for_each(proof::check)?;
        let lsn = self.change_access(&Command::PutUser(user))?;
        self.users.changed();
        Ok(lsn)
    }

    /// A job on a password has come back.
    pub(crate) fn user_done(&mut self, done: UserDone) {
        self.users.running = self.users.running.saturating_sub(1);
        let UserDone { session, call, name, what } = done;
        match what {
            Outcome::Checked { is_right, attempt } => self.logged_in(session, call, &name, is_right, attempt),
            Outcome::Hashed { credential, tags } => {
                let stored = credential.and_then(|credential| {
                    let limits = self.catalog.get().users.get(name.as_str()).map(|user| user.limits);
                    let limits = limits.unwrap_or_default();
                    self.store_user(User { name: name.to_string(), credentials: vec![credential], tags, limits })
                });
                self.events.push(session, Event::UserStored(call, stored));
            }
        }
    }

    /// A password was checked.
    fn logged_in(&mut self, session: SessionId, call: CallId, name: &Name, is_right: bool, attempt: Attempt) {
        if is_right {
            self.users.remember(attempt, name);
            return self.answer_login(session, call, name, attempt.from_loopback);
        }
        self.refuse_login(session, call);
    }

    /// Answers a login of somebody who has proved to be `name`.
    fn answer_login(&mut self, session: SessionId, call: CallId, name: &Name, from_loopback: bool) {
        let answer = match self.catalog.get().users.get(name.as_str()) {
            Some(_) if name.as_str() == DEFAULT_USER && !from_loopback => Err(LoginError::LoopbackOnly),
            Some(user) => Ok(Principal { user: name.clone(), tags: user.tags.clone() }),
            // The user may have been removed while the password was checked.
            None => Err(LoginError::Refused),
        };
        let past = &mut self.connections.past;
        *if answer.is_ok() { &mut past.logins } else { &mut past.logins_refused } += 1;
        self.events.push(session, Event::Login(call, answer));
    }
}
