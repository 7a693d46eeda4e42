//! All that exists, in the form in which RabbitMQ exports it and takes it back.

use broker::Broker;
use broker::queue::QueueInfo;
use broker::routing::{BindingSpec, Destination, ExchangeSpec};
use serde_json::{Map, Value, json};

use super::{policies, policy, users};

/// The version of RabbitMQ whose form this is.
const VERSION: &str = "4.0.0";

/// The definitions of everything.
pub fn all(broker: &Broker) -> Value {
    let tenants = broker.tenants();
    let names = || tenants.iter().map(|tenant| tenant.name.as_str());
    let with = |tenant: &str, mut all: Vec<Value>| {
        for one in all.iter_mut().filter_map(Value::as_object_mut) {
            one.insert("vhost".to_owned(), tenant.into());
        }
        all
    };
    let each = |list: fn(&Broker, &str) -> Vec<Value>| -> Vec<Value> {
        names().flat_map(|tenant| with(tenant, list(broker, tenant))).collect()
    };
    let user = |(name, _): &(model::Name, _)| broker.user(name).map(users::show);
    let permissions = broker.permissions();
    let permissions = permissions.iter().map(|one| {
        let (configure, write, read) = (&one.configure, &one.write, &one.read);
        json!({ "user": one.user, "vhost": one.tenant, "configure": configure, "write": write, "read": read })
    });
    let keys = broker.topic_permissions();
    let keys = keys.iter().map(|one| {
        let (exchange, write, read) = (&one.exchange, &one.write, &one.read);
        json!({ "user": one.user, "vhost": one.tenant, "exchange": exchange, "write": write, "read": read })
    });
    json!({
        "rabbit_version": VERSION,
        "rabbitmq_version": VERSION,
        "product_name": "Fourfold",
        "product_version": env!("CARGO_PKG_VERSION"),
        "users": broker.users().iter().filter_map(user).collect::<Vec<_>>(),
        "vhosts": tenants.iter().map(vhost).collect::<Vec<_>>(),
        "permissions": permissions.collect::<Vec<_>>(),
        "topic_permissions": keys.collect::<Vec<_>>(),
        "parameters": policies::parameters(broker, None),
        "global_parameters": [],
        "policies": broker.policies(false).map(policy::show).collect::<Vec<_>>(),
        "queues": each(queues),
        "exchanges": each(exchanges),
        "bindings": each(bindings),
    })
}

/// The definitions of one tenant. Its own name is left out of them, so that they can be taken into another.
pub fn of_tenant(broker: &Broker, tenant: &str) -> Value {
    let policies = broker.policies(false).filter(|one| one.tenant == tenant);
    json!({
        "rabbit_version": VERSION,
        "parameters": policies::parameters(broker, Some(tenant)),
        "policies": policies.map(policy::show).collect::<Vec<_>>(),
        "queues": queues(broker, tenant),
        "exchanges": exchanges(broker, tenant),
        "bindings": bindings(broker, tenant),
    })
}

fn vhost(tenant: &broker::access::Tenant) -> Value {
    let mut metadata = Map::new();
    metadata.insert("description".to_owned(), tenant.description.as_str().into());
    metadata.insert("tags".to_owned(), tenant.tags.as_slice().into());
    if let Some(kind) = tenant.default_queue_kind {
        metadata.insert("default_queue_type".to_owned(), super::objects::kind_name(kind).into());
    }
    json!({ "name": tenant.name, "description": tenant.description, "tags": tenant.tags, "metadata": metadata })
}

/// All queues but those of one connection, which cannot be made for it by others.
fn queues(broker: &Broker, tenant: &str) -> Vec<Value> {
    let shared = |queue: &QueueInfo| queue.exclusive.is_none();
    let show = |queue: QueueInfo| {
        json!({
            "name": queue.name.as_str(),
            "type": super::objects::kind_name(queue.kind),
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "arguments": queue.arguments,
        })
    };
    broker.queues(tenant).into_iter().filter(shared).map(show).collect()
}

/// All exchanges but those that are always there.
fn exchanges(broker: &Broker, tenant: &str) -> Vec<Value> {
    let made = |exchange: &ExchangeSpec| !exchange.name.is_empty() && !exchange.name.starts_with("amq.");
    let dialect = broker.dialect();
    let show = |exchange: ExchangeSpec| {
        json!({
            "name": exchange.name.as_str(),
            "type": dialect.as_ref().map_or("direct", |words| words.exchange_kind(&exchange)),
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": exchange.arguments,
        })
    };
    broker.exchanges(tenant).into_iter().filter(made).map(show).collect()
}

/// All bindings, but those of queues of one connection.
fn bindings(broker: &Broker, tenant: &str) -> Vec<Value> {
    let own = broker.queues(tenant).into_iter().filter(|queue| queue.exclusive.is_some());
    let own = own.map(|queue| queue.name).collect::<std::collections::BTreeSet<_>>();
    let kept = |binding: &BindingSpec| match &binding.destination {
        Destination::Queue(name) => !own.contains(name),
        Destination::Exchange(_) => true,
    };
    let show = |binding: BindingSpec| {
        let kind = match &binding.destination {
            Destination::Queue(_) => "queue",
            Destination::Exchange(_) => "exchange",
        };
        json!({
            "source": binding.exchange.as_str(),
            "destination": binding.to().as_str(),
            "destination_type": kind,
            "routing_key": binding.key.as_str(),
            "arguments": binding.arguments,
        })
    };
    broker.bindings(tenant).into_iter().filter(kept).map(show).collect()
}
