//! Tenants, exchanges, queues and bindings among definitions.

use broker::access::Tenant;
use broker::dialect::{ExchangeAsk, QueueAsk, headers_of};
use broker::queue::QueueKind;
use broker::routing::{BindingSpec, Destination};
use model::Name;
use serde_json::{Map, Value};

use super::import::{Import, flag, text};
use super::report::Outcome;
use super::users::limit;

/// RabbitMQ's word for a kind of queue.
pub(super) fn kind_name(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::Plain => "classic",
        QueueKind::Safe => "quorum",
        QueueKind::Stream => "stream",
    }
}

/// A tenant that is `was`, with what a file says of it. Servers write some of it in two places.
pub(super) fn tenant(was: Tenant, body: &Map<String, Value>) -> Result<Tenant, String> {
    let of = |field: &str| {
        let given = body.get(field).or_else(|| body.get("metadata")?.get(field));
        given.filter(|value| !value.is_null())
    };
    let mut tenant = was;
    if let Some(description) = of("description").and_then(Value::as_str) {
        description.clone_into(&mut tenant.description);
    }
    if let Some(tags) = of("tags").and_then(Value::as_array) {
        tenant.tags = tags.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    match of("default_queue_type").and_then(Value::as_str) {
        None | Some("undefined") => {}
        Some("classic") => tenant.default_queue_kind = Some(QueueKind::Plain),
        Some("quorum") => tenant.default_queue_kind = Some(QueueKind::Safe),
        Some("stream") => tenant.default_queue_kind = Some(QueueKind::Stream),
        Some(other) => return Err(format!("'default_queue_type' is '{other}': it is classic, quorum or stream")),
    }
    if let Some(limits) = of("limits").filter(|limits| limits.is_object()) {
        let (connections, queues) = (limit(Some(limits), "max-connections")?, limit(Some(limits), "max-queues")?);
        tenant.limits.connections_max = connections.or(tenant.limits.connections_max);
        tenant.limits.queues_max = queues.or(tenant.limits.queues_max);
    }
    Ok(tenant)
}

/// A binding's name for people.
pub(super) fn binding_name(body: &Map<String, Value>) -> String {
    let of = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or("?");
    format!("{} → {} [{}]", of("source"), of("destination"), of("routing_key"))
}

fn arguments(body: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    match body.get("arguments") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(arguments)) => Ok(arguments.clone()),
        // Older servers wrote no arguments as an empty list.
        Some(Value::Array(none)) if none.is_empty() => Ok(Map::new()),
        Some(_) => Err("'arguments' is no JSON object".to_owned()),
    }
}

fn named(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

impl Import<'_> {
    pub(super) fn exchange(&mut self, tenant: &str, name: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        if name.is_empty() || name.starts_with("amq.") {
            return Ok(Outcome::Ignored("such exchanges are always there".to_owned()));
        }
        self.check_tenant(tenant)?;
        let ask = ExchangeAsk {
            tenant: named(tenant)?,
            name: named(name)?,
            kind: text(body, "type")?.to_owned(),
            durable: flag(body, "durable")?,
            auto_delete: flag(body, "auto_delete")?,
            internal: flag(body, "internal")?,
            arguments: headers_of(&arguments(body)?).map_err(|why| why.to_string())?,
        };
        let known = self.broker.exchange(tenant, name).is_some();
        if self.so_far.dry_run && !known {
            self.so_far.words.check_exchange(&ask).map_err(|fault| fault.text)?;
            return Ok(Outcome::Created);
        }
        match self.so_far.words.clone().declare_exchange(self.broker, &ask) {
            Ok((created, lsn)) => {
                self.so_far.lsn = self.so_far.lsn.max(lsn);
                Ok(if created { Outcome::Created } else { Outcome::There })
            }
            Err(fault) if known => Ok(Outcome::Differs(fault.text)),
            Err(fault) => Err(fault.text),
        }
    }

    pub(super) fn queue(&mut self, tenant: &str, name: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        if name.starts_with("amq.") {
            return Ok(Outcome::Ignored("such names are given by the server".to_owned()));
        }
        self.check_tenant(tenant)?;
        let ask = QueueAsk {
            session: self.so_far.session,
            tenant: named(tenant)?,
            name: named(name)?,
            durable: flag(body, "durable")?,
            auto_delete: flag(body, "auto_delete")?,
            arguments: headers_of(&arguments(body)?).map_err(|why| why.to_string())?,
        };
        let known = self.broker.queue(self.so_far.session, tenant, name);
        let known = !matches!(known, Err(broker::BrokerError::Missing { .. }));
        if self.so_far.dry_run && !known {
            self.so_far.words.check_queue(self.broker, &ask).map_err(|fault| fault.text)?;
            return Ok(Outcome::Created);
        }
        match self.so_far.words.clone().declare_queue(self.broker, &ask, self.now) {
            Ok((created, lsn)) => {
                self.so_far.lsn = self.so_far.lsn.max(lsn);
                Ok(if created { Outcome::Created } else { Outcome::There })
            }
            Err(fault) if known => Ok(Outcome::Differs(fault.text)),
            Err(fault) => Err(fault.text),
        }
    }

    pub(super) fn binding(&mut self, tenant: &str, source: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        self.check_tenant(tenant)?;
        let (to, key) = (text(body, "destination")?, text(body, "routing_key")?);
        let destination = match text(body, "destination_type")? {
            "queue" => Destination::Queue(named(to)?),
            "exchange" => Destination::Exchange(named(to)?),
            other => return Err(format!("'destination_type' is '{other}': it is queue or exchange")),
        };
        if source.is_empty() {
            return Ok(Outcome::Ignored("every queue is bound to the default exchange by its name".to_owned()));
        }
        if let Destination::Queue(queue) = &destination
            && queue.starts_with("amq.")
        {
            return Ok(Outcome::Ignored("its queue's name is given by the server".to_owned()));
        }
        let arguments = arguments(body)?;
        let headers = headers_of(&arguments).map_err(|why| why.to_string())?;
        let spec = BindingSpec {
            tenant: named(tenant)?,
            exchange: named(source)?,
            destination,
            key: named(key)?,
            arguments: arguments.clone().into_iter().collect(),
        };
        if self.broker.is_bound(&spec) {
            return Ok(Outcome::There);
        }
        if self.so_far.dry_run {
            return self.ends(&spec).map(|()| Outcome::Created);
        }
        let lsn = self.so_far.words.clone().bind(self.broker, self.so_far.session, spec, &headers);
        self.so_far.lsn = self.so_far.lsn.max(lsn.map_err(|fault| fault.text)?);
        Ok(Outcome::Created)
    }

    /// Whether both ends of a binding are there, or would be.
    fn ends(&self, spec: &BindingSpec) -> Result<(), String> {
        let tenant = &*spec.tenant;
        let exchange =
            |name: &str| self.broker.exchange(tenant, name).is_some() || self.would("exchanges", tenant, name);
        let queue = |name: &str| {
            let found = self.broker.queue(self.so_far.session, tenant, name);
            !matches!(found, Err(broker::BrokerError::Missing { .. })) || self.would("queues", tenant, name)
        };
        if !exchange(&spec.exchange) && self.broker.topic(tenant, &spec.exchange).is_none() {
            return Err(format!("no exchange '{}' in vhost '{tenant}'", spec.exchange.as_str()));
        }
        match &spec.destination {
            Destination::Queue(name) if !queue(name) => {
                Err(format!("no queue '{}' in vhost '{tenant}'", name.as_str()))
            }
            Destination::Exchange(name) if !exchange(name) => {
                Err(format!("no exchange '{}' in vhost '{tenant}'", name.as_str()))
            }
            _ => Ok(()),
        }
    }
}
