//! Taking one object of definitions in. One that does not fit stops no other.
//!
//! A trial changes nothing: it checks what it can, and remembers what would be there.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::access::{Permission, Tenant, TopicPermission};
use broker::dialect::Dialect;
use broker::{Broker, Lsn, SessionId};
use model::Now;
use serde_json::{Map, Value, json};

use super::report::{Outcome, Report};
use super::users;

/// An import under way, in one turn.
pub(super) struct Import<'a> {
    pub(super) broker: &'a mut Broker,
    pub(super) now: Now,
    pub(super) so_far: &'a mut SoFar,
}

/// What an import keeps from turn to turn.
pub(super) struct SoFar {
    pub(super) words: Arc<dyn Dialect>,
    pub(super) session: SessionId,
    /// The user who asks: may use the tenants that it makes.
    pub(super) user: String,
    /// Nothing is changed.
    pub(super) dry_run: bool,
    pub(super) lsn: Lsn,
    /// What a trial would have made, as the file has it: section, tenant, name.
    pub(super) would_be: BTreeMap<(&'static str, String, String), Value>,
    pub(super) report: Report,
}

/// Takes one object, by its tenant and its name.
type Take = fn(&mut Import<'_>, &str, &str, &Map<String, Value>) -> Result<Outcome, String>;

/// One section: its name, the field with its objects' names, whether it is within a tenant, and how one is taken.
pub(super) struct Section {
    pub(super) name: &'static str,
    field: &'static str,
    pub(super) in_tenant: bool,
    take: Take,
}

const fn section(name: &'static str, field: &'static str, in_tenant: bool, take: Take) -> Section {
    Section { name, field, in_tenant, take }
}

/// In the order in which they are taken.
pub(super) static SECTIONS: [Section; 10] = [
    section("users", "name", false, |import, _, name, body| import.user(name, body)),
    section("vhosts", "name", false, |import, _, name, body| import.vhost(name, body)),
    section("permissions", "user", true, |import, tenant, name, body| import.permission(tenant, name, body)),
    section("topic_permissions", "user", true, |import, tenant, name, body| {
        import.topic_permission(tenant, name, body)
    }),
    section("parameters", "name", true, |import, tenant, name, body| import.parameter(tenant, name, body)),
    section("global_parameters", "name", false, |_, _, _, _| {
        Ok(Outcome::Ignored("nothing here acts by global parameters".to_owned()))
    }),
    section("policies", "name", true, |import, tenant, name, body| import.policy(tenant, name, body)),
    section("exchanges", "name", true, |import, tenant, name, body| import.exchange(tenant, name, body)),
    section("queues", "name", true, |import, tenant, name, body| import.queue(tenant, name, body)),
    section("bindings", "source", true, |import, tenant, name, body| import.binding(tenant, name, body)),
];

/// What says of a file what it is, and defines nothing.
pub(super) const TITLES: [&str; 11] = [
    "rabbit_version",
    "rabbitmq_version",
    "rabbitmq_definition_format",
    "product_name",
    "product_version",
    "original_cluster_name",
    "original_vhost_name",
    "explanation",
    "default_queue_type",
    "description",
    "metadata",
];

/// A text field of an object.
pub(super) fn text<'a>(body: &'a Map<String, Value>, field: &str) -> Result<&'a str, String> {
    match body.get(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("'{field}' is no text")),
        None => Err(format!("'{field}' is missing")),
    }
}

/// A field that is true or false; without it false.
pub(super) fn flag(body: &Map<String, Value>, field: &str) -> Result<bool, String> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        // Some older exports have texts.
        Some(Value::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
        Some(_) => Err(format!("'{field}' is neither true nor false")),
    }
}

impl Import<'_> {
    pub(super) fn one(&mut self, section: &'static Section, within: Option<&str>, object: &Value) {
        let Some(body) = object.as_object() else {
            let why = "it is no JSON object".to_owned();
            return self.so_far.report.add(section.name, within, "?", Outcome::Refused(why));
        };
        let name = body.get(section.field).and_then(Value::as_str);
        let tenant =
            if section.in_tenant { within.or_else(|| body.get("vhost").and_then(Value::as_str)) } else { None };
        let outcome = match (name, tenant) {
            (None, _) => Err(format!("'{}' is missing", section.field)),
            (_, None) if section.in_tenant => Err("'vhost' is missing".to_owned()),
            (Some(name), tenant) => (section.take)(self, tenant.unwrap_or_default(), name, body),
        };
        let outcome = outcome.unwrap_or_else(Outcome::Refused);
        let outcome = if self.so_far.dry_run && outcome == Outcome::Created {
            self.would_make(section, tenant.unwrap_or_default(), (name.unwrap_or_default(), body))
        } else {
            outcome
        };
        let name = match section.name {
            "bindings" => super::objects::binding_name(body),
            _ => name.unwrap_or("?").to_owned(),
        };
        self.so_far.report.add(section.name, tenant, &name, outcome);
    }

    /// What a trial says of an object that is not there: made, unless the same file has made it by then.
    fn would_make(&mut self, section: &Section, tenant: &str, (name, body): (&str, &Map<String, Value>)) -> Outcome {
        // Of these a name says not all: there are several for one user, or between the same two.
        let (name, more) = match section.name {
            "topic_permissions" => (name.to_owned(), body.get("exchange").cloned()),
            "parameters" => (name.to_owned(), body.get("component").cloned()),
            "bindings" => (name.to_owned(), Some(Value::Object(body.clone()))),
            _ => (name.to_owned(), None),
        };
        let key = (section.name, tenant.to_owned(), more.map_or(name.clone(), |more| format!("{name} {more}")));
        let body = Value::Object(body.clone());
        match self.so_far.would_be.get(&key) {
            None => {
                self.so_far.would_be.insert(key, body);
                Outcome::Created
            }
            Some(known) if *known == body => Outcome::There,
            Some(_) if matches!(section.name, "exchanges" | "queues") => {
                Outcome::Differs("another one of this name stands before it in the file".to_owned())
            }
            Some(_) => {
                self.so_far.would_be.insert(key, body);
                Outcome::Changed
            }
        }
    }

    /// Whether a trial would have made it.
    pub(super) fn would(&self, section: &'static str, tenant: &str, name: &str) -> bool {
        self.so_far.dry_run && self.so_far.would_be.contains_key(&(section, tenant.to_owned(), name.to_owned()))
    }

    pub(super) fn check_tenant(&self, tenant: &str) -> Result<(), String> {
        if self.broker.has_tenant(tenant) || self.would("vhosts", "", tenant) {
            return Ok(());
        }
        Err(format!("there is no virtual host '{tenant}': make it first, or import it with the others"))
    }

    fn check_user(&self, user: &str) -> Result<(), String> {
        if self.broker.user(user).is_some() || self.would("users", "", user) {
            return Ok(());
        }
        Err(format!("there is no user '{user}': make it first, or import it with the others"))
    }

    pub(super) fn put_tenant(&mut self, tenant: &Tenant) -> Result<(), String> {
        if self.so_far.dry_run {
            return Ok(());
        }
        let (_, lsn) = self.broker.put_tenant(tenant).map_err(|error| error.to_string())?;
        self.so_far.lsn = self.so_far.lsn.max(lsn);
        Ok(())
    }

    fn user(&mut self, name: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        let asked = users::read(name, body)?;
        let outcome = match self.broker.user(name) {
            Some(known) if *known == asked => return Ok(Outcome::There),
            Some(_) => Outcome::Changed,
            None => Outcome::Created,
        };
        if !self.so_far.dry_run {
            let lsn = self.broker.store_user(&asked).map_err(|error| error.to_string())?;
            self.so_far.lsn = self.so_far.lsn.max(lsn);
        }
        Ok(outcome)
    }

    fn vhost(&mut self, name: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        let known = self.broker.tenant(name);
        let was = known.clone().unwrap_or_else(|| Tenant { name: name.to_owned(), ..Tenant::default() });
        let asked = super::objects::tenant(was, body)?;
        match known {
            Some(known) if known == asked => Ok(Outcome::There),
            Some(_) => self.put_tenant(&asked).map(|()| Outcome::Changed),
            None => {
                self.put_tenant(&asked)?;
                // Who makes one may use it, as with RabbitMQ.
                let user = self.so_far.user.clone();
                if self.broker.user(&user).is_some() {
                    self.grant_all(&user, name)?;
                }
                Ok(Outcome::Created)
            }
        }
    }

    fn grant_all(&mut self, user: &str, tenant: &str) -> Result<(), String> {
        let all = || ".*".to_owned();
        let (user, tenant) = (user.to_owned(), tenant.to_owned());
        if self.so_far.dry_run {
            let body = json!({ "user": user, "vhost": tenant, "configure": all(), "write": all(), "read": all() });
            self.so_far.would_be.insert(("permissions", tenant, user), body);
            return Ok(());
        }
        let own = Permission { user, tenant, configure: all(), write: all(), read: all() };
        let (_, lsn) = self.broker.put_permission(&own).map_err(|error| error.to_string())?;
        self.so_far.lsn = self.so_far.lsn.max(lsn);
        Ok(())
    }

    fn permission(&mut self, tenant: &str, user: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        let of = |field| text(body, field).map(str::to_owned);
        let (configure, write, read) = (of("configure")?, of("write")?, of("read")?);
        let asked = Permission { user: user.to_owned(), tenant: tenant.to_owned(), configure, write, read };
        self.check_tenant(tenant)?;
        self.check_user(user)?;
        let outcome = match self.broker.permission(user, tenant) {
            Some(known) if known == asked => return Ok(Outcome::There),
            Some(_) => Outcome::Changed,
            None => Outcome::Created,
        };
        if self.so_far.dry_run {
            self.broker.check_permission(&asked).map_err(|error| error.to_string())?;
            return Ok(outcome);
        }
        let (_, lsn) = self.broker.put_permission(&asked).map_err(|error| error.to_string())?;
        self.so_far.lsn = self.so_far.lsn.max(lsn);
        Ok(outcome)
    }

    fn topic_permission(&mut self, tenant: &str, user: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        let of = |field| text(body, field).map(str::to_owned);
        let (exchange, write, read) = (of("exchange")?, of("write")?, of("read")?);
        let asked = TopicPermission { user: user.to_owned(), tenant: tenant.to_owned(), exchange, write, read };
        self.check_tenant(tenant)?;
        self.check_user(user)?;
        let known = self.broker.topic_permissions_of(user, tenant);
        let outcome = match known.iter().find(|one| one.exchange == asked.exchange) {
            Some(known) if *known == asked => return Ok(Outcome::There),
            Some(_) => Outcome::Changed,
            None => Outcome::Created,
        };
        if self.so_far.dry_run {
            self.broker.check_topic_permission(&asked).map_err(|error| error.to_string())?;
            return Ok(outcome);
        }
        let (_, lsn) = self.broker.put_topic_permission(&asked).map_err(|error| error.to_string())?;
        self.so_far.lsn = self.so_far.lsn.max(lsn);
        Ok(outcome)
    }
}
