//! Users and their credentials.

use serde::{Deserialize, Serialize};

use super::{Catalog, MetaError, is_default, missing};

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name to log in with.
    pub name: String,
    /// Any of these lets the user in.
    pub credentials: Vec<Credential>,
    /// What the user may do beyond using messages, such as `administrator`.
    pub tags: Vec<String>,
    /// How much of anything.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: UserLimits,
}

/// How much of anything a user may have; without a number there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct UserLimits {
    /// Connections open at once.
    #[serde(skip_serializing_if = "is_default")]
    pub connections_max: Option<u64>,
    /// Channels open at once, on all connections.
    #[serde(skip_serializing_if = "is_default")]
    pub channels_max: Option<u64>,
}

/// One way to prove who one is. Never the password itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credential {
    /// An argon2id hash in PHC form.
    Argon2(String),
    /// A 4-byte salt and the SHA-256 of salt and password (hexadecimal): for imported users and the default one.
    SaltedSha256(String),
    /// As [`Credential::SaltedSha256`], with SHA-512: only for imported users.
    SaltedSha512(String),
    /// As [`Credential::SaltedSha256`], with MD5: only for imported users.
    SaltedMd5(String),
}

impl Catalog {
    pub(super) fn put_user(&mut self, user: &User) {
        self.users.insert(user.name.clone(), user.clone());
    }

    pub(super) fn check_user(&self, name: &str) -> Result<(), MetaError> {
        if self.users.contains_key(name) { Ok(()) } else { Err(missing("user", name)) }
    }

    pub(super) fn delete_user(&mut self, name: &str) {
        self.users.remove(name);
        self.permissions.retain(|key, _| key.0 != name);
        self.topic_permissions.retain(|key, _| key.0 != name);
    }
}
