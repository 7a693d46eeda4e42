//! Tenants, permissions, and what users may have: who may what, over any tongue.

use broker::access::{Permission, Tenant, TenantLimits, TopicPermission, TopicPermissionKey, UserLimits};
use broker::queue::QueueKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, after, now};
use crate::refusal::Refusal;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct PutTenant {
    description: String,
    tags: Vec<String>,
    default_queue_kind: Option<QueueKind>,
    connections_max: Option<u64>,
    queues_max: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutPermission {
    configure: String,
    write: String,
    read: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutTopicPermission {
    exchange: String,
    write: String,
    read: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutTags {
    tags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct PutLimits {
    connections_max: Option<u64>,
    channels_max: Option<u64>,
}

fn shown(tenant: &Tenant) -> Value {
    json!({
        "name": tenant.name,
        "description": tenant.description,
        "tags": tenant.tags,
        "default_queue_kind": tenant.default_queue_kind,
        "connections_max": tenant.limits.connections_max,
        "queues_max": tenant.limits.queues_max,
    })
}

pub fn tenants(call: &mut Call<'_>) -> Handled {
    let tenants: Vec<Value> = call.broker.tenants().iter().map(shown).collect();
    now(&json!({ "tenants": tenants }))
}

/// Makes a tenant, or changes all that is said of one: what the body leaves out is as it is when nothing is said.
pub fn put_tenant(call: &mut Call<'_>) -> Handled {
    let asked: PutTenant = if call.body.is_empty() { PutTenant::default() } else { call.json()? };
    let tenant = Tenant {
        name: super::name(call.name())?.to_string(),
        description: asked.description,
        tags: asked.tags,
        default_queue_kind: asked.default_queue_kind,
        limits: TenantLimits { connections_max: asked.connections_max, queues_max: asked.queues_max },
    };
    if tenant.name.is_empty() {
        return Err(Refusal::bad_request("a tenant's name is not empty"));
    }
    let (is_new, lsn) = call.broker.put_tenant(&tenant)?;
    after(lsn, if is_new { 201 } else { 200 }, &shown(&tenant))
}

pub fn delete_tenant(call: &mut Call<'_>) -> Handled {
    let tenant = call.name().to_owned();
    let lsn = call.broker.delete_tenant(&tenant, call.now)?;
    after(lsn, 204, &Value::Null)
}

pub fn permissions(call: &mut Call<'_>) -> Handled {
    let all = call.broker.permissions();
    let topics = call.broker.topic_permissions();
    now(&json!({ "permissions": all, "topic_permissions": topics }))
}

pub fn put_permission(call: &mut Call<'_>) -> Handled {
    let asked: PutPermission = call.json()?;
    let (tenant, user) = call.names();
    let permission = Permission { user, tenant, configure: asked.configure, write: asked.write, read: asked.read };
    let (is_new, lsn) = call.broker.put_permission(&permission)?;
    after(lsn, if is_new { 201 } else { 200 }, &json!(permission))
}

pub fn delete_permission(call: &mut Call<'_>) -> Handled {
    let (tenant, user) = call.names();
    let lsn = call.broker.delete_permission(&user, &tenant)?;
    after(lsn, 204, &Value::Null)
}

pub fn put_topic_permission(call: &mut Call<'_>) -> Handled {
    let asked: PutTopicPermission = call.json()?;
    let (tenant, user) = call.names();
    let permission = TopicPermission { user, tenant, exchange: asked.exchange, write: asked.write, read: asked.read };
    let (is_new, lsn) = call.broker.put_topic_permission(&permission)?;
    after(lsn, if is_new { 201 } else { 200 }, &json!(permission))
}

/// Of the exchange that the query names, or of all.
pub fn delete_topic_permission(call: &mut Call<'_>) -> Handled {
    let exchange = call.asked("exchange")?;
    let (tenant, user) = call.names();
    let lsn = call.broker.delete_topic_permission(&TopicPermissionKey { user, tenant, exchange })?;
    after(lsn, 204, &Value::Null)
}

pub fn put_tags(call: &mut Call<'_>) -> Handled {
    let asked: PutTags = call.json()?;
    let user = call.name().to_owned();
    let lsn = call.broker.set_user_tags(&user, &asked.tags)?;
    after(lsn, 200, &json!({ "name": user, "tags": asked.tags }))
}

pub fn put_limits(call: &mut Call<'_>) -> Handled {
    let asked: PutLimits = call.json()?;
    let user = call.name().to_owned();
    let limits = UserLimits { connections_max: asked.connections_max, channels_max: asked.channels_max };
    let lsn = call.broker.set_user_limits(&user, limits)?;
    let (connections_max, channels_max) = (limits.connections_max, limits.channels_max);
    after(lsn, 200, &json!({ "name": user, "connections_max": connections_max, "channels_max": channels_max }))
}
