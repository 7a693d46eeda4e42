//! Users. Passwords come in and never go out; what is shown of them is what proves them.

use std::collections::HashSet;

use broker::access::Role;
use broker::user::{Credential, User};
use serde_json::{Map, Value, json};

use super::call::{Call, done, missing};
use super::limits;
use super::listing::{self, Key};
use super::vhosts::words;
use crate::api::{Answer, Handled, Until};
use crate::auth;
use crate::definitions::users::{HASHINGS, credential, shown};
use crate::http::Response;
use crate::refusal::Refusal;

fn json(user: &User) -> Value {
    let (hash, algorithm) = user.credentials.first().map_or((String::new(), HASHINGS[0].0), shown);
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
    let granted: HashSet<String> = call.broker.permissions().into_iter().map(|one| one.user).collect();
    let without = all(call).into_iter().filter(|user| !granted.contains(&user.name));
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
    if auth::base64(hash.as_bytes()).is_none() {
        return Err(Refusal::listed("not_base64", hash.clone().into()));
    }
    let algorithm = asked.get("hashing_algorithm").and_then(Value::as_str);
    Ok(vec![credential(hash, algorithm).map_err(Refusal::bad_request)?])
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
