//! Policies and parameters among definitions: RabbitMQ keeps limits of tenants and operators' policies as parameters.

use broker::Broker;
use broker::access::TenantLimits;
use broker::policy::Policy;
use serde_json::{Map, Value, json};

use super::import::Import;
use super::policy;
use super::report::Outcome;
use super::users::limit;

/// The parameters of all tenants or of one: limits, and operators' policies.
pub fn parameters(broker: &Broker, of: Option<&str>) -> Vec<Value> {
    let tenants = broker.tenants().into_iter().filter(|tenant| of.is_none_or(|of| of == tenant.name));
    let limits = tenants.filter(|tenant| tenant.limits != TenantLimits::default()).map(|tenant| {
        let all = [("max-connections", tenant.limits.connections_max), ("max-queues", tenant.limits.queues_max)];
        let value = all.into_iter().filter_map(|(name, max)| Some((name.to_owned(), max?.into())));
        json!({
            "component": "vhost-limits",
            "name": "limits",
            "vhost": tenant.name,
            "value": Value::Object(value.collect()),
        })
    });
    let policies = broker.policies(true).filter(|one| of.is_none_or(|of| of == one.tenant)).map(|one| {
        let mut value = policy::show(one);
        if let Some(value) = value.as_object_mut() {
            value.remove("name");
            value.remove("vhost");
        }
        json!({ "component": "operator_policy", "name": one.name, "vhost": one.tenant, "value": value })
    });
    limits.chain(policies).collect()
}

impl Import<'_> {
    /// A policy, without what older servers had in it.
    pub(super) fn policy(&mut self, tenant: &str, name: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        self.put_policy(tenant, name, (body, false))
    }

    fn put_policy(
        &mut self,
        tenant: &str,
        name: &str,
        (body, is_operator): (&Map<String, Value>, bool),
    ) -> Result<Outcome, String> {
        self.check_tenant(tenant)?;
        let mut body = body.clone();
        let gone = policy::drop_gone(&mut body);
        let is_empty = body.get("definition").and_then(Value::as_object).is_some_and(Map::is_empty);
        let without = || format!("without {}: nothing here acts by it", gone.join(", "));
        if is_empty && !gone.is_empty() {
            return Ok(Outcome::Ignored(format!("it asks only for {}: nothing here acts by it", gone.join(", "))));
        }
        let asked = policy::read(tenant, name, is_operator, &body).map_err(|why| why.trim().replace("\n\n", ": "))?;
        let outcome = self.store(&asked)?;
        Ok(if gone.is_empty() { outcome } else { Outcome::Adapted(without()) })
    }

    fn store(&mut self, asked: &Policy) -> Result<Outcome, String> {
        let known = self.broker.policy(&asked.key());
        if known == Some(asked) {
            return Ok(Outcome::There);
        }
        let outcome = if known.is_some() { Outcome::Changed } else { Outcome::Created };
        if self.so_far.dry_run {
            self.broker.check_policy(asked).map_err(|error| error.to_string())?;
            return Ok(outcome);
        }
        let stored = self.broker.put_policy(asked).map_err(|error| error.to_string())?;
        self.so_far.lsn = self.so_far.lsn.max(stored.lsn);
        Ok(outcome)
    }

    /// A parameter: limits of a tenant, or an operator's policy.
    pub(super) fn parameter(&mut self, tenant: &str, name: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        let value = body.get("value").and_then(Value::as_object).ok_or("'value' is no JSON object")?;
        match body.get("component").and_then(Value::as_str) {
            Some("operator_policy") => self.put_policy(tenant, name, (value, true)),
            Some("vhost-limits") => {
                let value = Value::Object(value.clone());
                let limits = TenantLimits {
                    connections_max: limit(Some(&value), "max-connections")?,
                    queues_max: limit(Some(&value), "max-queues")?,
                };
                self.check_tenant(tenant)?;
                match self.broker.tenant(tenant) {
                    Some(known) if known.limits == limits => Ok(Outcome::There),
                    Some(known) => {
                        self.put_tenant(&broker::access::Tenant { limits, ..known })?;
                        Ok(Outcome::Changed)
                    }
                    // A trial: the tenant is to be made, without limits.
                    None if limits == TenantLimits::default() => Ok(Outcome::There),
                    None => Ok(Outcome::Changed),
                }
            }
            component => Err(format!(
                "nothing here acts by parameters of '{}': only limits (vhost-limits) and operators' policies \
                 (operator_policy) are known",
                component.unwrap_or_default()
            )),
        }
    }
}
