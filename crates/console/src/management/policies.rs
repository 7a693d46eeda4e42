//! Policies and operators' policies; and parameters, of which there are only those that definitions have.

use broker::policy::{Policy, PolicyKey};
use serde_json::Value;

use super::call::{Call, done, missing, now, put};
use crate::api::Handled;
use crate::definitions;
use crate::refusal::Refusal;

fn key(call: &Call<'_>, is_operator: bool) -> Result<PolicyKey, Refusal> {
    Ok(PolicyKey { tenant: call.vhost()?.to_string(), name: call.parameter(1).to_owned(), is_operator })
}

fn all(call: &Call<'_>, is_operator: bool, wanted: impl Fn(&Policy) -> bool) -> Handled {
    let policies = call.broker.policies(is_operator).filter(|one| wanted(one));
    now(&policies.map(definitions::policy::show).collect::<Vec<_>>().into())
}

fn list_all(call: &Call<'_>, is_operator: bool) -> Handled {
    all(call, is_operator, |policy| call.sees_all() || call.enters(&policy.tenant))
}

fn list_some(call: &Call<'_>, is_operator: bool) -> Handled {
    let tenant = call.vhost()?;
    all(call, is_operator, |policy| policy.tenant == tenant.as_str())
}

fn show(call: &Call<'_>, is_operator: bool) -> Handled {
    let key = key(call, is_operator)?;
    now(&call.broker.policy(&key).map(definitions::policy::show).ok_or_else(missing)?)
}

fn store(call: &mut Call<'_>, is_operator: bool) -> Handled {
    let PolicyKey { tenant, name, .. } = key(call, is_operator)?;
    let body = call.object()?;
    let asked = definitions::policy::read(&tenant, &name, is_operator, &body).map_err(Refusal::bad_request)?;
    let stored = call.broker.put_policy(&asked).map_err(|error| match error {
        broker::BrokerError::Invalid(why) => Refusal::bad_request(format!("Validation failed\n\n{why}\n")),
        other => other.into(),
    })?;
    put(stored.created, stored.lsn)
}

fn remove(call: &mut Call<'_>, is_operator: bool) -> Handled {
    let key = key(call, is_operator)?;
    if call.broker.policy(&key).is_none() {
        return Err(missing());
    }
    done(204, call.broker.delete_policy(&key)?)
}

/// All policies.
pub fn list(call: &mut Call<'_>) -> Handled {
    list_all(call, false)
}

/// The policies of a virtual host.
pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    list_some(call, false)
}

/// One policy.
pub fn describe(call: &mut Call<'_>) -> Handled {
    show(call, false)
}

/// Makes or replaces one.
pub fn set(call: &mut Call<'_>) -> Handled {
    store(call, false)
}

/// Removes one.
pub fn delete(call: &mut Call<'_>) -> Handled {
    remove(call, false)
}

/// All operators' policies.
pub fn list_operators(call: &mut Call<'_>) -> Handled {
    list_all(call, true)
}

/// The operators' policies of a virtual host.
pub fn list_operators_of_vhost(call: &mut Call<'_>) -> Handled {
    list_some(call, true)
}

/// One operator's policy.
pub fn describe_operator(call: &mut Call<'_>) -> Handled {
    show(call, true)
}

/// Makes or replaces one.
pub fn set_operator(call: &mut Call<'_>) -> Handled {
    store(call, true)
}

/// Removes one.
pub fn delete_operator(call: &mut Call<'_>) -> Handled {
    remove(call, true)
}

/// Parameters: of all virtual hosts or of one, of all components or of one. Operators' policies are shown by their own
/// path only.
pub fn parameters(call: &mut Call<'_>) -> Handled {
    let (component, tenant) = (call.parameters.first().cloned(), call.parameters.get(1).cloned());
    if tenant.as_ref().is_some_and(|tenant| !call.broker.has_tenant(tenant)) {
        return Err(missing());
    }
    let mut all = definitions::parameters(call.broker, tenant.as_deref());
    let wanted = |one: &Value| {
        one["component"] != "operator_policy" && component.as_ref().is_none_or(|of| one["component"] == of.as_str())
    };
    all.retain(wanted);
    now(&all.into())
}

/// One parameter.
pub fn parameter(call: &mut Call<'_>) -> Handled {
    let of = |at| Value::from(call.parameter(at));
    let (component, tenant, name) = (of(0), of(1), of(2));
    let all = definitions::parameters(call.broker, tenant.as_str());
    let same = |one: &Value| one["component"] == component && one["name"] == name;
    now(&all.into_iter().find(same).ok_or_else(missing)?)
}
