//! Users. Passwords come in and never go out; what is shown of them is what proves them.

use broker::access::Role;
use broker::user::{Credential, User};
use serde_json::{Map, Value, json};

use super::call::{Call, done, missing};
use super::limits;
use super::listing::{self, Key};
use super::vhosts::words;
use crate::api::{Answer, Handled, Until};
use crate::auth;
use crate::http::Response;
use crate::refusal::Refusal;

/// What salted hashes are called.
const SHA256: &str = "rabbit_password_hashing_sha256";
const SHA512: &str = "rabbit_password_hashing_sha512";
const MD5: &str = "rabbit_password_hashing_md5";

fn json(user: &User) -> Value {
    let salted = |hex: &str| auth::base64_of(&auth::bytes_of_hex(hex).unwrap_or_default());
    let (hash, algorithm) = match user.credentials.first() {
        Some(Credential::SaltedSha256(hex)) => (salted(hex), SHA256),
        Some(Credential::SaltedSha512(hex)) => (salted(hex), SHA512),
        Some(Credential::SaltedMd5(hex)) => (salted(hex), MD5),
        Some(Credential::Argon2(phc)) => (phc.clone(), "argon2id"),
        None => (String::new(), SHA256),
    };
    json!({
        "name": user.name,
        "password_hash": hash,
        "hashing_algorithm": algorithm,
        "tags": user.tags,
        "limits": limits::of_user(user),
    })
}

fn all(call: &Call<'_>) -> Vec<User> {
    call.broker.users().iter().filter_map(|(name, _)| call.broker.user(name)).cloned().collect()
}

pub fn list(call: &mut Call<'_>) -> Handled {
    let keys = all(call).iter().map(|user| Key::Made(json(user))).collect();
    listing::answer(call, keys)
}

pub fn list_without_permissions(call: &mut Call<'_>) -> Handled {
    let granted = call.broker.permissions();
    let without = all(call).into_iter().filter(|user| !granted.iter().any(|one| one.user == user.name));
    let keys = without.map(|user| Key::Made(json(&user))).collect();
    listing::answer(call, keys)
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    let item = call.broker.user(call.parameter(0)).map(json);
    listing::one(call, item)
}

/// The credentials that a body gives: none, or those of an imported hash.
fn imported(asked: &Map<String, Value>) -> Result<Vec<Credential>, Refusal> {
    let hash = match asked.get("password_hash") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => return Ok(Vec::new()),
        Some(Value::String(text)) => text,
        Some(other) => return Err(Refusal::listed("not_base64", other.clone())),
    };
    let algorithm = asked.get("hashing_algorithm").and_then(Value::as_str).unwrap_or(SHA256);
    let (make, length): (fn(String) -> Credential, usize) = match algorithm {
        "argon2id" => return Ok(vec![Credential::Argon2(hash.clone())]),
        SHA256 => (Credential::SaltedSha256, 32),
        SHA512 => (Credential::SaltedSha512, 64),
        MD5 => (Credential::SaltedMd5, 16),
        other => return Err(Refusal::bad_request(format!("hashing_algorithm '{other}' is not served"))),
    };
    let bytes = auth::base64(hash.as_bytes()).ok_or_else(|| Refusal::listed("not_base64", hash.clone().into()))?;
    if bytes.len() != 4 + length {
        return Err(Refusal::bad_request(format!("password_hash is not 4 bytes of salt and {length} of a hash")));
    }
    Ok(vec![make(auth::hex_of(&bytes))])
}

pub fn put(call: &mut Call<'_>) -> Handled {
    let name = call.name(0)?;
    let asked = call.object()?;
    if !asked.contains_key("tags") && !asked.contains_key("administrator") {
        return Err(Refusal::bad_request("tags_not_present"));
    }
    let tags = words(asked.get("tags"));
    let before = call.broker.user(&name).cloned();
    let status = if before.is_some() { 204 } else { 201 };
    if let Some(Value::String(password)) = asked.get("password").filter(|password| **password != "") {
        call.broker.put_user(call.session, call.call, &name, password, &tags);
        let response = Response::json(status, &Value::Null);
        return Ok(Answer { response, until: Until::Stored(call.call) });
    }
    let user = User {
        name: name.to_string(),
        credentials: imported(&asked)?,
        tags,
        limits: before.map(|user| user.limits).unwrap_or_default(),
    };
    let stored = call.broker.store_user(&user);
    done(status, stored.map_err(|error| Refusal::bad_request(error.to_string()))?)
}

/// Who deletes the last administrator has nobody left to make another.
fn check_last(call: &Call<'_>, gone: &[&str]) -> Result<(), Refusal> {
    let stays =
        |(name, tags): &(model::Name, Vec<String>)| Role::Administrator.is_in(tags) && !gone.contains(&name.as_str());
    if call.broker.users().iter().any(stays) {
        return Ok(());
    }
    Err(Refusal::bad_request("this would leave no user with the tag 'administrator'"))
}

pub fn delete(call: &mut Call<'_>) -> Handled {
    let name = call.parameter(0).to_owned();
    if call.broker.user(&name).is_none() {
        return Err(missing());
    }
    check_last(call, &[&name])?;
    let deleted = call.broker.delete_user(&name);
    done(204, deleted.map_err(|error| Refusal::bad_request(error.to_string()))?)
}

pub fn delete_all(call: &mut Call<'_>) -> Handled {
    let asked = call.object()?;
    let names = words(asked.get("users"));
    for name in &names {
        if call.broker.user(name).is_none() {
            return Err(Refusal::listed("no_such_user", name.clone().into()));
        }
    }
    check_last(call, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut lsn = broker::Lsn::default();
    for name in &names {
        let deleted = call.broker.delete_user(name);
        lsn = lsn.max(deleted.map_err(|error| Refusal::bad_request(error.to_string()))?);
    }
    done(204, lsn)
}
