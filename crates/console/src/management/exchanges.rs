//! Exchanges.

use broker::Broker;
use broker::access::{Operation, Resource};
use broker::dialect::ExchangeAsk;
use broker::routing::{ExchangeKind, ExchangeSpec};
use model::Name;
use serde_json::{Value, json};

use super::call::{Call, arguments, done, flag, missing, put};
use super::listing::{self, Key};
use super::queues::declaring_in;
use crate::api::Handled;

/// What the path calls the default exchange, which has no name.
const DEFAULT: &str = "amq.default";

/// The exchange that the path names in place `at`.
pub fn named(call: &Call<'_>, at: usize) -> Result<Name, crate::refusal::Refusal> {
    if call.parameter(at) == DEFAULT { Ok(Name::fixed("")) } else { call.name(at) }
}

/// The default exchange, as if it had been declared.
fn default_exchange(tenant: &Name) -> ExchangeSpec {
    ExchangeSpec {
        tenant: tenant.clone(),
        name: Name::fixed(""),
        kind: ExchangeKind::Direct,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
        delayed: false,
        number: 0,
        arguments: Default::default(),
    }
}

/// An exchange as it stands.
pub fn find(broker: &Broker, tenant: &Name, name: &str) -> Option<ExchangeSpec> {
    if name.is_empty() { Some(default_exchange(tenant)) } else { broker.exchange(tenant, name) }
}

pub fn json(broker: &Broker, spec: &ExchangeSpec) -> Value {
    let kind = broker.dialect().map_or("direct", |dialect| dialect.exchange_kind(spec));
    let is_ours = spec.name.is_empty() || spec.name.starts_with("amq.");
    let ruling = broker.exchange_ruling(&spec.tenant, &spec.name);
    let mut out = json!({
        "name": spec.name.as_str(),
        "vhost": spec.tenant.as_str(),
        "type": kind,
        "durable": spec.durable,
        "auto_delete": spec.auto_delete,
        "internal": spec.internal,
        "arguments": spec.arguments,
        "user_who_performed_action": if is_ours { "rmq-internal" } else { "none" },
    });
    if let Some(policy) = &ruling.policy {
        out["policy"] = policy.name.as_str().into();
    }
    out
}

fn keys(call: &Call<'_>, tenant: &Name) -> impl Iterator<Item = Key> + use<> {
    let all = call.broker.exchanges(tenant).into_iter().map(|spec| ExchangeSpec { tenant: tenant.clone(), ..spec });
    let all = std::iter::once(default_exchange(tenant)).chain(all).map(|spec| Key::Exchange(Box::new(spec)));
    all.collect::<Vec<_>>().into_iter()
}

pub fn list(call: &mut Call<'_>) -> Handled {
    let all = call.vhosts().iter().flat_map(|tenant| keys(call, tenant)).collect();
    listing::answer(call, all)
}

pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = call.vhost()?;
    let all = keys(call, &tenant).collect();
    listing::answer(call, all)
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    let (tenant, name) = (call.vhost()?, named(call, 1)?);
    let item = find(call.broker, &tenant, &name).map(|spec| {
        let mut out = json(call.broker, &ExchangeSpec { tenant: tenant.clone(), ..spec });
        out["incoming"] = json!([]);
        out["outgoing"] = json!([]);
        out
    });
    listing::one(call, item)
}

pub fn declare(call: &mut Call<'_>) -> Handled {
    let (tenant, name) = (declaring_in(call)?, named(call, 1)?);
    let asked = call.object()?;
    let kind = asked.get("type").and_then(Value::as_str).unwrap_or("direct").to_owned();
    let ask = ExchangeAsk {
        durable: flag(&asked, "durable", false)?,
        auto_delete: flag(&asked, "auto_delete", false)?,
        internal: flag(&asked, "internal", false)?,
        arguments: arguments(&asked)?,
        kind,
        tenant,
        name,
    };
    call.may(&ask.tenant, Resource::Exchange(&ask.name), Operation::Configure)?;
    if let Some(Value::String(alternate)) = asked.get("arguments").and_then(|all| all.get("alternate-exchange")) {
        call.may(&ask.tenant, Resource::Exchange(&ask.name), Operation::Read)?;
        call.may(&ask.tenant, Resource::Exchange(alternate), Operation::Write)?;
    }
    let (is_new, lsn) = call.dialect()?.declare_exchange(call.broker, &ask)?;
    put(is_new, lsn)
}

pub fn delete(call: &mut Call<'_>) -> Handled {
    let (tenant, name) = (call.vhost()?, named(call, 1)?);
    if find(call.broker, &tenant, &name).is_none() {
        return Err(missing());
    }
    call.may(&tenant, Resource::Exchange(&name), Operation::Configure)?;
    let if_unused = call.query.is_true("if-unused");
    let lsn = call.dialect()?.delete_exchange(call.broker, &tenant, &name, if_unused)?;
    done(204, lsn)
}
