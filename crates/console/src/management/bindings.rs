//! Bindings, each known by a key made of its routing key and arguments.

use broker::access::{Operation, Resource};
use broker::routing::{BindingSpec, Destination};
use model::Name;
use model::checksum::crc32c;
use serde_json::{Value, json};

use super::call::{Call, arguments, done, missing};
use super::exchanges::{find, named};
use super::listing::{self, Key};
use crate::api::{Answer, Handled, Until};
use crate::http::{Response, encode};
use crate::refusal::Refusal;

/// What names a binding between two ends: its routing key, and a digest of its arguments if it has any.
fn properties_key(key: &str, arguments: &Value) -> String {
    let key_text = encode(key);
    let has_none = arguments.as_object().is_none_or(serde_json::Map::is_empty);
    match (key.is_empty(), has_none) {
        (true, true) => "~".to_owned(),
        (false, true) => key_text,
        _ => format!("{key_text}~{}", digest(arguments)),
    }
}

/// 32 bits as six characters of URL-safe base64.
fn digest(arguments: &Value) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u64::from(crc32c(arguments.to_string().as_bytes())) << 4;
    let letter = |at: u32| LETTERS.get((bits >> (30 - 6 * at)) as usize & 63).copied().unwrap_or(b'A');
    (0..6).map(|at| char::from(letter(at))).collect()
}

fn shown((source, tenant): (&str, &Name), (to, kind): (&str, &str), key: &str, arguments: Value) -> Value {
    json!({
        "source": source,
        "vhost": tenant.as_str(),
        "destination": to,
        "destination_type": kind,
        "routing_key": key,
        "properties_key": properties_key(key, &arguments),
        "arguments": arguments,
    })
}

pub fn json(spec: &BindingSpec) -> Value {
    let kind = if matches!(spec.destination, Destination::Queue(_)) { "queue" } else { "exchange" };
    shown((&spec.exchange, &spec.tenant), (spec.to(), kind), &spec.key, json!(spec.arguments))
}

/// The binding that every queue has to the default exchange.
pub fn own_json(tenant: &Name, queue: &Name) -> Value {
    shown(("", tenant), (queue, "queue"), queue, json!({}))
}

/// All bindings of a tenant for which `wanted` holds, the queues' own first.
fn keys(call: &Call<'_>, tenant: &Name, wanted: impl Fn(&str, &Destination) -> bool) -> Vec<Key> {
    let mut keys = Vec::new();
    for queue in call.broker.queue_names(tenant) {
        let to = Destination::Queue(queue);
        if wanted("", &to)
            && let Destination::Queue(queue) = to
        {
            keys.push(Key::OwnBinding(tenant.clone(), queue));
        }
    }
    let others = call.broker.bindings(tenant).into_iter();
    let others = others.filter(|spec| wanted(&spec.exchange, &spec.destination));
    keys.extend(others.map(|spec| Key::Binding(Box::new(BindingSpec { tenant: tenant.clone(), ..spec }))));
    keys
}

pub fn list(call: &mut Call<'_>) -> Handled {
    let all = call.vhosts().iter().flat_map(|tenant| keys(call, tenant, |_, _| true)).collect();
    listing::answer(call, all)
}

pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = call.vhost()?;
    let all = keys(call, &tenant, |_, _| true);
    listing::answer(call, all)
}

pub fn from_exchange(call: &mut Call<'_>) -> Handled {
    let (tenant, exchange) = (call.vhost()?, named(call, 1)?);
    find(call.broker, &tenant, &exchange).ok_or_else(missing)?;
    let all = keys(call, &tenant, |source, _| source == &*exchange);
    listing::answer(call, all)
}

pub fn to_exchange(call: &mut Call<'_>) -> Handled {
    let (tenant, exchange) = (call.vhost()?, named(call, 1)?);
    find(call.broker, &tenant, &exchange).ok_or_else(missing)?;
    let all = keys(call, &tenant, |_, to| *to == Destination::Exchange(exchange.clone()));
    listing::answer(call, all)
}

pub fn to_queue(call: &mut Call<'_>) -> Handled {
    let (tenant, queue) = (call.vhost()?, call.name(1)?);
    call.broker.queue_facts(&tenant, &queue).ok_or_else(missing)?;
    let all = keys(call, &tenant, |_, to| *to == Destination::Queue(queue.clone()));
    listing::answer(call, all)
}

/// Both ends, which must be there.
fn ends(call: &Call<'_>, is_queue: bool) -> Result<(Name, Name, Destination), Refusal> {
    let (tenant, source) = (call.vhost()?, named(call, 1)?);
    find(call.broker, &tenant, &source).ok_or_else(missing)?;
    let to = if is_queue {
        let queue = call.name(2)?;
        call.broker.queue_facts(&tenant, &queue).ok_or_else(missing)?;
        Destination::Queue(queue)
    } else {
        let exchange = named(call, 2)?;
        find(call.broker, &tenant, &exchange).ok_or_else(missing)?;
        Destination::Exchange(exchange)
    };
    Ok((tenant, source, to))
}

fn between(call: &mut Call<'_>, is_queue: bool) -> Handled {
    let (tenant, source, to) = ends(call, is_queue)?;
    let all = keys(call, &tenant, |exchange, other| exchange == &*source && *other == to);
    listing::answer(call, all)
}

pub fn between_queue(call: &mut Call<'_>) -> Handled {
    between(call, true)
}

pub fn between_exchange(call: &mut Call<'_>) -> Handled {
    between(call, false)
}

/// The binding that the path names last.
fn chosen(call: &Call<'_>, is_queue: bool) -> Result<(Value, Option<BindingSpec>), Refusal> {
    let (tenant, source, to) = ends(call, is_queue)?;
    // The key comes decoded once, as the original decodes it; both spellings name it.
    let asked = call.parameter(3);
    for key in keys(call, &tenant, |exchange, other| exchange == &*source && *other == to) {
        let (value, spec) = match key {
            Key::Binding(spec) => (json(&spec), Some(*spec)),
            Key::OwnBinding(tenant, queue) => (own_json(&tenant, &queue), None),
            _ => continue,
        };
        let name = value["properties_key"].as_str().unwrap_or_default();
        if name == asked || crate::http::decode(name).as_deref() == Some(asked) {
            return Ok((value, spec));
        }
    }
    Err(missing())
}

pub fn describe_queue(call: &mut Call<'_>) -> Handled {
    let item = chosen(call, true)?.0;
    listing::one(call, Some(item))
}

pub fn describe_exchange(call: &mut Call<'_>) -> Handled {
    let item = chosen(call, false)?.0;
    listing::one(call, Some(item))
}

/// Whoever binds writes to the one end and reads from the other.
fn may_bind(call: &Call<'_>, spec: &BindingSpec) -> Result<(), Refusal> {
    let to = match &spec.destination {
        Destination::Queue(name) => Resource::Queue(name),
        Destination::Exchange(name) => Resource::Exchange(name),
    };
    call.may(&spec.tenant, to, Operation::Write)?;
    call.may(&spec.tenant, Resource::Exchange(&spec.exchange), Operation::Read)
}

fn bind(call: &mut Call<'_>, is_queue: bool) -> Handled {
    let (tenant, exchange) = (call.vhost()?, named(call, 1)?);
    let to = if is_queue { Destination::Queue(call.name(2)?) } else { Destination::Exchange(named(call, 2)?) };
    let asked = call.object()?;
    let key = asked.get("routing_key").and_then(Value::as_str).unwrap_or_default();
    let key = Name::new(key).map_err(|why| Refusal::bad_request(why.to_string()))?;
    let headers = arguments(&asked)?;
    let spec = BindingSpec { tenant, exchange, destination: to, key, arguments: Default::default() };
    may_bind(call, &spec)?;
    let (to, key) = (spec.to().clone(), spec.key.clone());
    let lsn = call.dialect()?.bind(call.broker, call.session, spec, &headers)?;
    let mut response = Response::json(201, &Value::Null);
    let name = properties_key(&key, &broker::dialect::json_of(&headers));
    response.headers.push(("Location", format!("{}/{name}", encode(&to))));
    Ok(Answer { response, until: Until::Synced(lsn) })
}

pub fn bind_queue(call: &mut Call<'_>) -> Handled {
    bind(call, true)
}

pub fn bind_exchange(call: &mut Call<'_>) -> Handled {
    bind(call, false)
}

fn unbind(call: &mut Call<'_>, is_queue: bool) -> Handled {
    let (_, spec) = chosen(call, is_queue)?;
    let Some(spec) = spec else {
        return Err(Refusal::bad_request("operation not permitted on the default exchange"));
    };
    may_bind(call, &spec)?;
    let lsn = call.broker.unbind(call.session, &spec).map_err(|error| call.refused(&error, "queue", &spec.tenant))?;
    done(204, lsn)
}

pub fn unbind_queue(call: &mut Call<'_>) -> Handled {
    unbind(call, true)
}

pub fn unbind_exchange(call: &mut Call<'_>) -> Handled {
    unbind(call, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bindings_key_tells_it_from_its_siblings() {
        let none = json!({});
        assert_eq!(properties_key("rk", &none), "rk");
        assert_eq!(properties_key("", &none), "~");
        assert_eq!(properties_key("a.*", &none), "a.%2A");
        assert_eq!(properties_key("b~c", &none), "b%7Ec");
        let with = properties_key("rk", &json!({ "x": 1 }));
        assert!(with.starts_with("rk~") && with.len() == 9, "{with}");
        assert_ne!(with, properties_key("rk", &json!({ "x": 2 })));
    }
}
