//! The admin API: a table of rows. Each noun has a file; a row names method, path, who may and what is done.

mod access;
mod definitions;
mod groups;
mod overview;
mod queues;
mod redrive;
mod topics;
mod users;

use broker::access::{DEFAULT_TENANT, Role};
use broker::user::Principal;
use broker::{Broker, CallId, Lsn, SessionId};
use model::{Name, Now};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::counters::Counters;
use crate::http::{Request, Response, decode};
use crate::refusal::Refusal;
use crate::work::Work;

/// Who may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Everybody, without logging in: what monitors ask.
    Open,
    /// Whoever is logged in.
    User,
    /// Users with this role; within a tenant, if they get into it.
    Role(Role),
}

const MANAGEMENT: Access = Access::Role(Role::Management);
const MONITORING: Access = Access::Role(Role::Monitoring);
const ADMINISTRATOR: Access = Access::Role(Role::Administrator);

impl Access {
    /// Whether `who` may.
    ///
    /// # Errors
    /// 403 when not.
    pub fn check(self, who: Option<&Principal>) -> Result<(), Refusal> {
        match self {
            Access::Open | Access::User => Ok(()),
            Access::Role(role) if who.is_some_and(|who| role.is_in(&who.tags)) => Ok(()),
            Access::Role(role) => {
                let reason = format!("this takes a user with the tag '{}'", role.tag());
                Err(Refusal::new(403, "forbidden", reason))
            }
        }
    }
}

/// A call as handlers see it.
pub struct Call<'a> {
    /// The core.
    pub broker: &'a mut Broker,
    /// What time it is.
    pub now: Now,
    /// Who asks.
    pub session: SessionId,
    /// As which user; `None` without a login.
    pub principal: Option<&'a Principal>,
    /// Names this call for answers that come later.
    pub call: CallId,
    /// What the driver counts.
    pub counters: &'a Counters,
    /// What stood in the place of the path's `{}`, decoded.
    pub parameters: Vec<String>,
    /// What stood behind the question mark.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// An answer, and what must have happened before it is sent.
#[derive(Debug)]
pub struct Answer {
    /// The response.
    pub response: Response,
    /// Held back until then.
    pub until: Until,
}

impl Answer {
    /// What takes more than one turn: its answer comes at its end.
    pub fn worked(call: CallId, work: impl Work + 'static) -> Answer {
        Answer { response: Response::json(200, &Value::Null), until: Until::Worked(call, Box::new(work)) }
    }
}

/// What an answer waits for.
#[derive(Debug)]
pub enum Until {
    /// The journal is synced up to here.
    Synced(Lsn),
    /// The core says that it has stored the user; this names the call.
    Stored(CallId),
    /// Something is done that takes more than one turn; this names the call.
    Worked(CallId, Box<dyn Work>),
}

/// What handlers answer.
pub type Handled = Result<Answer, Refusal>;

/// One row of the table.
pub struct Route {
    method: &'static str,
    path: &'static str,
    /// Who may.
    pub access: Access,
    /// What is done.
    pub handle: fn(&mut Call<'_>) -> Handled,
}

/// What a request asks for.
pub enum Found {
    /// This, with the path's parameters.
    Route(&'static Route, Vec<String>),
    /// The path is served for these methods only.
    OtherMethods(String),
    /// Nothing.
    Nothing,
}

impl Found {
    /// Who may. Whoever is not logged in is not told what there is.
    pub fn access(&self) -> Access {
        match self {
            Found::Route(route, _) => route.access,
            Found::OtherMethods(_) | Found::Nothing => Access::User,
        }
    }
}

const fn row(method: &'static str, path: &'static str, access: Access, handle: fn(&mut Call<'_>) -> Handled) -> Route {
    Route { method, path, access, handle }
}

static ROUTES: [Route; 35] = [
    row("GET", "/metrics", Access::Open, overview::metrics),
    row("GET", "/metrics/per-object", Access::Open, overview::metrics_per_object),
    row("GET", "/metrics/detailed", Access::Open, overview::metrics_detailed),
    row("GET", "/api/v1/health", Access::Open, overview::health),
    row("GET", "/api/v1/overview", MANAGEMENT, overview::overview),
    row("GET", "/api/v1/damage", ADMINISTRATOR, overview::damage),
    row("GET", "/api/v1/topics", MANAGEMENT, topics::list),
    row("POST", "/api/v1/topics", ADMINISTRATOR, topics::create),
    row("GET", "/api/v1/topics/{}", MANAGEMENT, topics::describe),
    row("PUT", "/api/v1/topics/{}/config", ADMINISTRATOR, topics::alter),
    row("DELETE", "/api/v1/topics/{}", ADMINISTRATOR, topics::delete),
    row("GET", "/api/v1/groups", MONITORING, groups::list),
    row("GET", "/api/v1/groups/{}", MONITORING, groups::describe),
    row("GET", "/api/v1/queues", MANAGEMENT, queues::list),
    row("GET", "/api/v1/queues/{}", MANAGEMENT, queues::describe),
    row("DELETE", "/api/v1/queues/{}", ADMINISTRATOR, queues::delete),
    row("POST", "/api/v1/queues/{}/purge", ADMINISTRATOR, queues::purge),
    row("POST", "/api/v1/queues/{}/redrive", ADMINISTRATOR, redrive::redrive),
    row("DELETE", "/api/v1/queues/{}/messages", ADMINISTRATOR, queues::purge),
    row("GET", "/api/v1/users", ADMINISTRATOR, users::list),
    row("PUT", "/api/v1/users/{}", ADMINISTRATOR, users::put),
    row("DELETE", "/api/v1/users/{}", ADMINISTRATOR, users::delete),
    row("PUT", "/api/v1/users/{}/tags", ADMINISTRATOR, access::put_tags),
    row("PUT", "/api/v1/users/{}/limits", ADMINISTRATOR, access::put_limits),
    row("GET", "/api/v1/tenants", ADMINISTRATOR, access::tenants),
    row("PUT", "/api/v1/tenants/{}", ADMINISTRATOR, access::put_tenant),
    row("DELETE", "/api/v1/tenants/{}", ADMINISTRATOR, access::delete_tenant),
    row("GET", "/api/v1/permissions", ADMINISTRATOR, access::permissions),
    row("PUT", "/api/v1/tenants/{}/permissions/{}", ADMINISTRATOR, access::put_permission),
    row("DELETE", "/api/v1/tenants/{}/permissions/{}", ADMINISTRATOR, access::delete_permission),
    row("PUT", "/api/v1/tenants/{}/topic-permissions/{}", ADMINISTRATOR, access::put_topic_permission),
    row("DELETE", "/api/v1/tenants/{}/topic-permissions/{}", ADMINISTRATOR, access::delete_topic_permission),
    row("GET", "/api/v1/definitions", ADMINISTRATOR, definitions::export),
    row("POST", "/api/v1/definitions", ADMINISTRATOR, definitions::import),
    row("GET", "/api/v1/whoami", Access::User, overview::whoami),
];

/// Looks a request up. HEAD is GET without the body.
pub fn find(request: &Request) -> Found {
    let method = if request.method == "HEAD" { "GET" } else { &request.method };
    let mut allow: Vec<&str> = Vec::new();
    for route in &ROUTES {
        let Some(parameters) = matches(route.path, &request.path) else { continue };
        if route.method == method {
            return Found::Route(route, parameters);
        }
        allow.push(route.method);
    }
    if allow.is_empty() { Found::Nothing } else { Found::OtherMethods(allow.join(", ")) }
}

/// What stands in the places of a path that fits the pattern.
pub fn matches(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut parameters = Vec::new();
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(parameters),
            (Some("{}"), Some(segment)) if !segment.is_empty() => parameters.push(decode(segment)?),
            (Some(word), Some(segment)) if word == segment => {}
            _ => return None,
        }
    }
}

impl Call<'_> {
    /// The name in the path.
    fn name(&self) -> &str {
        self.parameters.first().map(String::as_str).unwrap_or_default()
    }

    /// The tenant: `?tenant=…`, else the default one. Who administers gets into all of them.
    fn tenant(&self) -> Result<Name, Refusal> {
        let tenant = name(self.asked("tenant")?.as_deref().unwrap_or(DEFAULT_TENANT))?;
        let Some(who) = self.principal else { return Ok(tenant) };
        if !self.broker.has_tenant(&tenant) {
            return Err(Refusal::not_found(format!("no tenant '{tenant}'")));
        }
        if Role::Monitoring.is_in(&who.tags) || self.broker.may_enter(&who.user, &tenant) {
            return Ok(tenant);
        }
        Err(Refusal::new(403, "forbidden", format!("user '{}' does not get into tenant '{tenant}'", who.user)))
    }

    /// What the query says of `what`, decoded.
    fn asked(&self, what: &str) -> Result<Option<String>, Refusal> {
        let given = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let Some((_, text)) = given.into_iter().find(|(name, _)| *name == what) else { return Ok(None) };
        decode(text).map(Some).ok_or_else(|| Refusal::bad_request(format!("the {what} is not valid")))
    }

    /// Both names in the path.
    fn names(&self) -> (String, String) {
        let at = |at: usize| self.parameters.get(at).cloned().unwrap_or_default();
        (at(0), at(1))
    }

    /// Whether something of that name stood behind the question mark.
    fn is_asked(&self, name: &str) -> bool {
        self.query.split('&').any(|pair| pair.split('=').next() == Some(name))
    }

    /// The body as JSON.
    fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(self.body).map_err(|why| Refusal::bad_request(format!("the body: {why}")))
    }
}

fn name(text: &str) -> Result<Name, Refusal> {
    Name::new(text).map_err(|why| Refusal::bad_request(why.to_string()))
}

/// An answer that waits for nothing.
fn now(body: &Value) -> Handled {
    after(Lsn::default(), 200, body)
}

/// An answer to a change.
fn after(lsn: Lsn, status: u16, body: &Value) -> Handled {
    Ok(Answer { response: Response::json(status, body), until: Until::Synced(lsn) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_by_its_segments() {
        assert_eq!(matches("/a/{}", "/a/b%2Fc"), Some(vec!["b/c".to_owned()]));
        for path in ["/a", "/a/", "/a/b/c", "/b/c", "/a/%zz"] {
            assert_eq!(matches("/a/{}", path), None, "{path}");
        }
    }

    #[test]
    fn no_two_rows_are_the_same() {
        for (at, route) in ROUTES.iter().enumerate() {
            assert!(ROUTES[at + 1..].iter().all(|other| (other.method, other.path) != (route.method, route.path)));
        }
    }
}
