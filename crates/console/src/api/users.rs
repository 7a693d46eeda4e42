//! Users. Passwords come in and never go out.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Call, Handled, Until, after, name, now};
use crate::http::Response;
use crate::refusal::Refusal;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    password: String,
    #[serde(default)]
    tags: Vec<String>,
}

pub fn list(call: &mut Call<'_>) -> Handled {
    let users = call.broker.users();
    let users: Vec<Value> = users.iter().map(|(name, tags)| json!({ "name": name.as_str(), "tags": tags })).collect();
    now(&json!({ "users": users }))
}

pub fn put(call: &mut Call<'_>) -> Handled {
    let asked: Put = call.json()?;
    if asked.password.is_empty() {
        return Err(Refusal::bad_request("a password must not be empty"));
    }
    let user = name(call.name())?;
    call.broker.put_user(call.session, call.call, &user, &asked.password, &asked.tags);
    let response = Response::json(200, &json!({ "name": user.as_str(), "tags": asked.tags }));
    Ok(Answer { response, until: Until::Stored(call.call) })
}

pub fn delete(call: &mut Call<'_>) -> Handled {
    let user = call.name().to_owned();
    if !call.broker.users().iter().any(|(name, _)| name.as_str() == user) {
        return Err(Refusal::not_found(format!("no user '{user}'")));
    }
    let lsn = call.broker.delete_user(&user)?;
    after(lsn, 204, &Value::Null)
}
