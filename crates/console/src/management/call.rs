//! A call as handlers see it: who asks, for what, and the checks that most of them begin with.

use std::sync::{Arc, Mutex};

use broker::access::{Operation, Resource, Role};
use broker::dialect::{Dialect, Fault};
use broker::user::Principal;
use broker::{Broker, BrokerError, CallId, Lsn, SessionId};
use model::{Mono, Name, Now};
use serde_json::{Map, Value};

use super::query::Query;
use super::rates::Sampler;
use crate::api::{Answer, Handled, Until};
use crate::counters::Counters;
use crate::http::Response;
use crate::refusal::Refusal;

/// Who asks, and how.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The user.
    pub principal: Principal,
    /// What is to be told a connection that is closed.
    pub reason: Option<String>,
}

/// A call.
pub struct Call<'a> {
    /// The core.
    pub broker: &'a mut Broker,
    /// What time it is.
    pub now: Now,
    /// The session that asks.
    pub session: SessionId,
    /// Names this call for answers that come later.
    pub call: CallId,
    /// What the driver counts.
    pub counters: &'a Counters,
    /// What was counted before, to tell how fast it grows.
    pub sampler: &'a Arc<Mutex<Sampler>>,
    /// Who asks.
    pub asker: &'a Asker,
    /// What stood in the path's places, decoded.
    pub parameters: Vec<String>,
    /// What stood behind the question mark.
    pub query: Query,
    /// The body.
    pub body: &'a [u8],
}

/// No such thing.
pub fn missing() -> Refusal {
    Refusal::new(404, "Object Not Found", "Not Found")
}

/// A refusal for whoever may not.
pub fn not_authorised(reason: &str) -> Refusal {
    Refusal::new(401, "not_authorised", reason)
}

/// What the core or the dialect refuses, as the original says it over HTTP.
impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        match fault.code {
            403 => not_authorised("Access refused."),
            404 => Refusal::not_found(fault.text),
            506 => Refusal::new(507, "disk_full", fault.text),
            541 => Refusal::new(503, "unavailable", fault.text),
            _ => Refusal::bad_request(fault.text),
        }
    }
}

impl Call<'_> {
    /// What stood in the path's place number `at`.
    pub fn parameter(&self, at: usize) -> &str {
        self.parameters.get(at).map(String::as_str).unwrap_or_default()
    }

    /// The same as a name.
    pub fn name(&self, at: usize) -> Result<Name, Refusal> {
        Name::new(self.parameter(at)).map_err(|_| missing())
    }

    /// The virtual host that the path names first: it is there, and whoever asks gets into it.
    pub fn vhost(&self) -> Result<Name, Refusal> {
        let tenant = self.any_vhost()?;
        if !self.enters(&tenant) {
            return Err(not_authorised("User not authorised to access virtual host"));
        }
        Ok(tenant)
    }

    /// The virtual host that the path names first, whoever asks.
    pub fn any_vhost(&self) -> Result<Name, Refusal> {
        let tenant = self.name(0)?;
        if self.broker.has_tenant(&tenant) { Ok(tenant) } else { Err(missing()) }
    }

    /// Whether whoever asks gets into a virtual host.
    pub fn enters(&self, tenant: &str) -> bool {
        self.broker.may_enter(&self.asker.principal.user, tenant)
    }

    /// The virtual hosts that whoever asks gets into.
    pub fn vhosts(&self) -> Vec<Name> {
        let all = self.broker.tenants().into_iter().filter_map(|tenant| Name::new(&tenant.name).ok());
        all.filter(|tenant| self.enters(tenant)).collect()
    }

    /// Whether whoever asks sees what is others'.
    pub fn sees_all(&self) -> bool {
        Role::Monitoring.is_in(&self.asker.principal.tags)
    }

    /// Whether whoever asks may do this.
    pub fn may(&self, tenant: &Name, resource: Resource<'_>, operation: Operation) -> Result<(), Refusal> {
        let whose = (&self.asker.principal.user, tenant);
        self.broker.authorize(whose, resource, operation).map_err(|_| not_authorised("Access refused."))
    }

    /// The dialect in which queues and messages are spoken of.
    pub fn dialect(&self) -> Result<Arc<dyn Dialect>, Refusal> {
        self.broker.dialect().ok_or_else(|| Refusal::new(501, "not_implemented", "no tongue here has queues"))
    }

    /// An error of the core about a `kind` of thing, in the dialect's words.
    pub fn refused(&self, error: &BrokerError, kind: &str, tenant: &str) -> Refusal {
        match self.broker.dialect() {
            Some(dialect) => dialect.fault(error, kind, tenant).into(),
            None => Refusal::bad_request(error.to_string()),
        }
    }

    /// The body as an object; without a body it is empty.
    pub fn object(&self) -> Result<Map<String, Value>, Refusal> {
        if self.body.is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_slice(self.body) {
            Ok(Value::Object(object)) => Ok(object),
            _ => Err(Refusal::bad_request("not_json")),
        }
    }
}

/// The name of this node: there is one.
pub fn node() -> String {
    "fourfold@localhost".to_owned()
}

/// How fast counts grow, by a name for them.
pub fn rates<const N: usize>(sampler: &Mutex<Sampler>, (name, counts): (&str, [u64; N]), now: Mono) -> [f64; N] {
    match sampler.lock() {
        Ok(mut sampler) => sampler.rates(name, counts, now),
        Err(_) => [0.0; N],
    }
}

/// The keys of `wanted` that `object` lacks, refused as the original does.
pub fn need(object: &Map<String, Value>, wanted: &[&str]) -> Result<(), Refusal> {
    let lacks: Vec<String> =
        wanted.iter().filter(|key| !object.contains_key(**key)).map(|key| format!("{{key_missing,{key}}}")).collect();
    if lacks.is_empty() { Ok(()) } else { Err(Refusal::bad_request(format!("[{}]", lacks.join(",")))) }
}

/// A flag of the body, which may be a text.
pub fn flag(object: &Map<String, Value>, key: &str, otherwise: bool) -> Result<bool, Refusal> {
    match object.get(key) {
        None => Ok(otherwise),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(Value::String(text)) if text == "false" => Ok(false),
        Some(other) => Err(Refusal::listed("not_boolean", other.clone())),
    }
}

/// The arguments in the body: an object, or an empty list, as some languages spell an empty object.
pub fn arguments(object: &Map<String, Value>) -> Result<Vec<model::Header>, Refusal> {
    match object.get("arguments") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(values)) => {
            broker::dialect::headers_of(values).map_err(|why| Refusal::bad_request(why.to_string()))
        }
        Some(Value::Array(values)) if values.is_empty() => Ok(Vec::new()),
        Some(other) => Err(Refusal::listed("not_table", other.clone())),
    }
}

/// An answer that waits for nothing.
pub fn now(body: &Value) -> Handled {
    Ok(Answer { response: Response::json(200, body), until: Until::Synced(Lsn::default()) })
}

/// An answer without a body, once everything up to `lsn` is on disk.
pub fn done(status: u16, lsn: Lsn) -> Handled {
    Ok(Answer { response: Response::json(status, &Value::Null), until: Until::Synced(lsn) })
}

/// 201 for what was made now, else 204.
pub fn put(is_new: bool, lsn: Lsn) -> Handled {
    done(if is_new { 201 } else { 204 }, lsn)
}
