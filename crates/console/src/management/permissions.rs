//! Permissions and topic permissions.

use broker::access::{Permission, TopicPermission, TopicPermissionKey};
use broker::{BrokerError, Lsn};
use serde_json::{Map, Value, json};

use super::call::{Call, done, missing, need, put as answer_put};
use super::listing::{self, Key};
use crate::api::Handled;
use crate::refusal::Refusal;

fn json(one: &Permission) -> Value {
    let Permission { user, tenant, configure, write, read } = one;
    json!({ "user": user, "vhost": tenant, "configure": configure, "write": write, "read": read })
}

fn topic_json(one: &TopicPermission) -> Value {
    let TopicPermission { user, tenant, exchange, write, read } = one;
    json!({ "user": user, "vhost": tenant, "exchange": exchange, "write": write, "read": read })
}

fn answer(call: &Call<'_>, wanted: impl Fn(&Permission) -> bool) -> Handled {
    let all = call.broker.permissions();
    let keys = all.iter().filter(|one| wanted(one)).map(|one| Key::Made(json(one))).collect();
    listing::answer(call, keys)
}

fn answer_topics(call: &Call<'_>, wanted: impl Fn(&TopicPermission) -> bool) -> Handled {
    let all = call.broker.topic_permissions();
    let keys = all.iter().filter(|one| wanted(one)).map(|one| Key::Made(topic_json(one))).collect();
    listing::answer(call, keys)
}

pub fn list(call: &mut Call<'_>) -> Handled {
    answer(call, |_| true)
}

pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = call.any_vhost()?;
    answer(call, |one| one.tenant == tenant.as_str())
}

/// The user that the path names first.
fn user(call: &Call<'_>) -> Result<String, Refusal> {
    let user = call.parameter(0);
    if call.broker.user(user).is_some() { Ok(user.to_owned()) } else { Err(missing()) }
}

pub fn list_of_user(call: &mut Call<'_>) -> Handled {
    let user = user(call)?;
    answer(call, |one| one.user == user)
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    let item = call.broker.permission(call.parameter(1), call.parameter(0)).map(|one| json(&one));
    listing::one(call, item)
}

/// A pattern of the body.
fn pattern(asked: &Map<String, Value>, key: &str) -> Result<String, Refusal> {
    match asked.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        other => Err(Refusal::listed("not_string", other.cloned().unwrap_or(Value::Null))),
    }
}

fn stored(stored: Result<(bool, Lsn), BrokerError>) -> Handled {
    match stored {
        Ok((is_new, lsn)) => answer_put(is_new, lsn),
        Err(BrokerError::Missing { .. }) => Err(Refusal::bad_request("vhost_or_user_not_found")),
        Err(error) => Err(Refusal::bad_request(error.to_string())),
    }
}

pub fn put(call: &mut Call<'_>) -> Handled {
    let asked = call.object()?;
    need(&asked, &["configure", "write", "read"])?;
    let permission = Permission {
        user: call.parameter(1).to_owned(),
        tenant: call.parameter(0).to_owned(),
        configure: pattern(&asked, "configure")?,
        write: pattern(&asked, "write")?,
        read: pattern(&asked, "read")?,
    };
    stored(call.broker.put_permission(&permission))
}

pub fn delete(call: &mut Call<'_>) -> Handled {
    let (tenant, user) = (call.parameter(0).to_owned(), call.parameter(1).to_owned());
    call.broker.permission(&user, &tenant).ok_or_else(missing)?;
    let deleted = call.broker.delete_permission(&user, &tenant);
    done(204, deleted.map_err(|error| Refusal::bad_request(error.to_string()))?)
}

pub fn list_topics(call: &mut Call<'_>) -> Handled {
    answer_topics(call, |_| true)
}

pub fn list_topics_of_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = call.any_vhost()?;
    answer_topics(call, |one| one.tenant == tenant.as_str())
}

pub fn list_topics_of_user(call: &mut Call<'_>) -> Handled {
    let user = user(call)?;
    answer_topics(call, |one| one.user == user)
}

fn topics_of(call: &Call<'_>) -> Result<Vec<TopicPermission>, Refusal> {
    let its = call.broker.topic_permissions_of(call.parameter(1), call.parameter(0)).to_vec();
    if its.is_empty() { Err(missing()) } else { Ok(its) }
}

pub fn describe_topics(call: &mut Call<'_>) -> Handled {
    let keys = topics_of(call)?.iter().map(|one| Key::Made(topic_json(one))).collect();
    listing::answer(call, keys)
}

pub fn put_topic(call: &mut Call<'_>) -> Handled {
    let asked = call.object()?;
    need(&asked, &["exchange", "write", "read"])?;
    let permission = TopicPermission {
        user: call.parameter(1).to_owned(),
        tenant: call.parameter(0).to_owned(),
        exchange: pattern(&asked, "exchange")?,
        write: pattern(&asked, "write")?,
        read: pattern(&asked, "read")?,
    };
    stored(call.broker.put_topic_permission(&permission))
}

fn delete_of(call: &mut Call<'_>, exchange: Option<String>) -> Handled {
    topics_of(call)?;
    let (tenant, user) = (call.parameter(0).to_owned(), call.parameter(1).to_owned());
    let deleted = call.broker.delete_topic_permission(&TopicPermissionKey { user, tenant, exchange });
    done(204, deleted.map_err(|error| Refusal::bad_request(error.to_string()))?)
}

pub fn delete_topics(call: &mut Call<'_>) -> Handled {
    delete_of(call, None)
}

pub fn delete_topic(call: &mut Call<'_>) -> Handled {
    let exchange = call.parameter(2).to_owned();
    delete_of(call, Some(exchange))
}
