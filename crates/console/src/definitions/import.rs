//! Taking definitions in: section by section, in the order in which one needs the other. One that does not fit stops no
//! other.
//!
//! A trial changes nothing: it checks what it can, and remembers what would be there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker::access::{Permission, Tenant, TopicPermission};
use broker::dialect::Dialect;
use broker::{Broker, Lsn, SessionId};
use model::Now;
use serde_json::{Map, Value};

use super::report::{Outcome, Report};
use super::users;

/// On whose behalf, and into what.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The session that asks.
    pub session: SessionId,
    /// The user who asks: may use the tenants that it makes.
    pub user: &'a str,
    /// What time it is.
    pub now: Now,
    /// Everything goes into this tenant; else each object says where it belongs.
    pub tenant: Option<&'a str>,
    /// Nothing is changed.
    pub dry_run: bool,
}

/// An import under way.
pub(super) struct Import<'a> {
    pub(super) broker: &'a mut Broker,
    pub(super) words: Arc<dyn Dialect>,
    pub(super) session: SessionId,
    pub(super) now: Now,
    pub(super) dry_run: bool,
    pub(super) lsn: Lsn,
    user: &'a str,
    /// What a trial would have made: section, tenant, name.
    pub(super) would_be: BTreeSet<(&'static str, String, String)>,
    /// Bindings there are, by tenant, once it was asked.
    pub(super) bound: BTreeMap<String, BTreeSet<String>>,
    report: Report,
}

/// Takes one object, by its tenant and its name.
type Take = fn(&mut Import<'_>, &str, &str, &Map<String, Value>) -> Result<Outcome, String>;

/// One section: its name, the field with its objects' names, whether it is within a tenant, and how one is taken.
struct Section {
    name: &'static str,
    field: &'static str,
    in_tenant: bool,
    take: Take,
}

const fn section(name: &'static str, field: &'static str, in_tenant: bool, take: Take) -> Section {
    Section { name, field, in_tenant, take }
}

/// In the order in which they are taken.
static SECTIONS: [Section; 10] = [
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
const TITLES: [&str; 11] = [
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

/// Takes definitions in. The answer is held back until synced up to the [`Lsn`].
///
/// # Errors
/// When `definitions` is no JSON object, or no tongue knows how to declare.
pub fn import(broker: &mut Broker, scope: Scope<'_>, definitions: &Value) -> Result<(Report, Lsn), String> {
    let all = definitions.as_object().ok_or("definitions are one JSON object")?;
    let words = broker.dialect().ok_or("no tongue here knows how to declare")?;
    let mut import = Import {
        broker,
        words,
        session: scope.session,
        now: scope.now,
        dry_run: scope.dry_run,
        lsn: Lsn::default(),
        user: scope.user,
        would_be: BTreeSet::new(),
        bound: BTreeMap::new(),
        report: Report::default(),
    };
    for section in &SECTIONS {
        match all.get(section.name) {
            None => {}
            Some(_) if scope.tenant.is_some() && !section.in_tenant => {
                let why = "it belongs to no virtual host: import it without naming one".to_owned();
                import.report.add(section.name, None, "*", Outcome::Ignored(why));
            }
            Some(Value::Array(objects)) => {
                objects.iter().for_each(|object| import.one(section, scope.tenant, object));
            }
            Some(_) => {
                import.report.add(section.name, None, "*", Outcome::Refused("it is no list".to_owned()));
            }
        }
    }
    let known = |name: &str| TITLES.contains(&name) || SECTIONS.iter().any(|section| section.name == name);
    for name in all.keys().filter(|name| !known(name)) {
        import.report.add("file", None, name, Outcome::Ignored("no section of that name is known".to_owned()));
    }
    Ok((import.report, import.lsn))
}

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
    fn one(&mut self, section: &'static Section, within: Option<&str>, object: &Value) {
        let Some(body) = object.as_object() else {
            let why = "it is no JSON object".to_owned();
            return self.report.add(section.name, within, "?", Outcome::Refused(why));
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
        if self.dry_run && outcome == Outcome::Created {
            let made = (section.name, tenant.unwrap_or_default().to_owned(), name.unwrap_or_default().to_owned());
            self.would_be.insert(made);
        }
        let name = match section.name {
            "bindings" => super::objects::binding_name(body),
            _ => name.unwrap_or("?").to_owned(),
        };
        self.report.add(section.name, tenant, &name, outcome);
    }

    /// Whether a trial would have made it.
    pub(super) fn would(&self, section: &'static str, tenant: &str, name: &str) -> bool {
        self.dry_run && self.would_be.contains(&(section, tenant.to_owned(), name.to_owned()))
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
        if self.dry_run {
            return Ok(());
        }
        let (_, lsn) = self.broker.put_tenant(tenant).map_err(|error| error.to_string())?;
        self.lsn = self.lsn.max(lsn);
        Ok(())
    }

    fn user(&mut self, name: &str, body: &Map<String, Value>) -> Result<Outcome, String> {
        let asked = users::read(name, body)?;
        let outcome = match self.broker.user(name) {
            Some(known) if *known == asked => return Ok(Outcome::There),
            Some(_) => Outcome::Changed,
            None => Outcome::Created,
        };
        if !self.dry_run {
            let lsn = self.broker.store_user(&asked).map_err(|error| error.to_string())?;
            self.lsn = self.lsn.max(lsn);
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
                let all = || ".*".to_owned();
                let (user, tenant) = (self.user.to_owned(), name.to_owned());
                let own = Permission { user, tenant, configure: all(), write: all(), read: all() };
                if !self.dry_run && self.broker.user(self.user).is_some() {
                    let (_, lsn) = self.broker.put_permission(&own).map_err(|error| error.to_string())?;
                    self.lsn = self.lsn.max(lsn);
                }
                Ok(Outcome::Created)
            }
        }
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
        if self.dry_run {
            self.broker.check_permission(&asked).map_err(|error| error.to_string())?;
            return Ok(outcome);
        }
        let (_, lsn) = self.broker.put_permission(&asked).map_err(|error| error.to_string())?;
        self.lsn = self.lsn.max(lsn);
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
        if self.dry_run {
            self.broker.check_topic_permission(&asked).map_err(|error| error.to_string())?;
            return Ok(outcome);
        }
        let (_, lsn) = self.broker.put_topic_permission(&asked).map_err(|error| error.to_string())?;
        self.lsn = self.lsn.max(lsn);
        Ok(outcome)
    }
}
