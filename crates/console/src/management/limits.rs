//! Limits of virtual hosts and users.

use broker::access::{TenantLimits, UserLimits};
use broker::user::User;
use serde_json::{Map, Value, json};

use super::call::{Call, done, missing};
use super::listing::{self, Key};
use crate::api::Handled;
use crate::refusal::Refusal;

/// Limits by their names.
fn shown(limits: [(&str, Option<u64>); 2]) -> Value {
    let set = limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), Value::from(limit?))));
    Value::Object(set.collect::<Map<_, _>>())
}

fn of_tenant(limits: TenantLimits) -> Value {
    shown([("max-connections", limits.connections_max), ("max-queues", limits.queues_max)])
}

/// Of a user.
pub fn of_user(user: &User) -> Value {
    shown([("max-connections", user.limits.connections_max), ("max-channels", user.limits.channels_max)])
}

fn is_set(value: &Value) -> bool {
    value.as_object().is_some_and(|limits| !limits.is_empty())
}

/// The limit that the body gives; none where it is below 0.
fn value(call: &Call<'_>) -> Result<Option<u64>, Refusal> {
    let name = call.parameter(1);
    let asked = call.object()?;
    match asked.get("value") {
        None => Err(Refusal::bad_request("[{key_missing,value}]")),
        Some(Value::Number(number)) if number.is_u64() || number.is_i64() => Ok(number.as_u64()),
        Some(other) => {
            let given = other.as_str().map_or_else(|| other.to_string(), |text| format!("<<\"{text}\">>"));
            let reason = format!("Validation failed\n\n{name} should be a number, actually was {given}\n");
            Err(Refusal::bad_request(reason))
        }
    }
}

fn unknown(name: &str, value: Option<u64>) -> Refusal {
    let shown = value.map_or_else(|| "-1".to_owned(), |value| value.to_string());
    Refusal::bad_request(format!("Validation failed\n\nUnrecognised terms [{{<<\"{name}\">>,{shown}}}] in limits\n"))
}

pub fn list_of_vhosts(call: &mut Call<'_>) -> Handled {
    let all = call.broker.tenants().into_iter().filter(|tenant| call.enters(&tenant.name));
    let all = all.map(|tenant| (of_tenant(tenant.limits), tenant.name)).filter(|(limits, _)| is_set(limits));
    let keys = all.map(|(limits, name)| Key::Made(json!({ "vhost": name, "value": limits }))).collect();
    listing::answer(call, keys)
}

pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    let name = call.vhost()?;
    let limits = call.broker.tenant(&name).map(|tenant| of_tenant(tenant.limits)).filter(is_set);
    let keys = limits.map(|limits| Key::Made(json!({ "vhost": name.as_str(), "value": limits })));
    listing::answer(call, keys.into_iter().collect())
}

fn change_vhost(call: &mut Call<'_>, value: Option<u64>) -> Handled {
    let mut tenant = call.broker.tenant(call.parameter(0)).ok_or_else(missing)?;
    match call.parameter(1) {
        "max-connections" => tenant.limits.connections_max = value,
        "max-queues" => tenant.limits.queues_max = value,
        other => return Err(unknown(other, value)),
    }
    let put = call.broker.put_tenant(&tenant);
    done(204, put.map_err(|error| Refusal::bad_request(error.to_string()))?.1)
}

pub fn put_of_vhost(call: &mut Call<'_>) -> Handled {
    let value = value(call)?;
    change_vhost(call, value)
}

pub fn delete_of_vhost(call: &mut Call<'_>) -> Handled {
    change_vhost(call, None)
}

pub fn list_of_users(call: &mut Call<'_>) -> Handled {
    let users = call.broker.users();
    let all = users.iter().filter_map(|(name, _)| call.broker.user(name)).filter(|user| is_set(&of_user(user)));
    let keys = all.map(|user| Key::Made(json!({ "user": user.name, "value": of_user(user) }))).collect();
    listing::answer(call, keys)
}

pub fn list_of_user(call: &mut Call<'_>) -> Handled {
    let user = call.broker.user(call.parameter(0)).ok_or_else(missing)?;
    let limits = Some(of_user(user)).filter(is_set);
    let keys = limits.map(|limits| Key::Made(json!({ "user": user.name, "value": limits })));
    listing::answer(call, keys.into_iter().collect())
}

fn change_user(call: &mut Call<'_>, value: Option<u64>) -> Handled {
    let name = call.parameter(0).to_owned();
    let user = call.broker.user(&name).ok_or_else(missing)?;
    let limits = match call.parameter(1) {
        "max-connections" => UserLimits { connections_max: value, ..user.limits },
        "max-channels" => UserLimits { channels_max: value, ..user.limits },
        other => return Err(unknown(other, value)),
    };
    let set = call.broker.set_user_limits(&name, limits);
    done(204, set.map_err(|error| Refusal::bad_request(error.to_string()))?)
}

pub fn put_of_user(call: &mut Call<'_>) -> Handled {
    let value = value(call)?;
    change_user(call, value)
}

pub fn delete_of_user(call: &mut Call<'_>) -> Handled {
    change_user(call, None)
}
