//! The table of routes: method, path, who may, what is done.

use broker::access::Role;
use broker::user::Principal;

use super::call::Call;
use super::{
    bindings, channels, connections, consumers, definitions, exchanges, health, limits, messages, nodes, overview,
    permissions, policies, queues, users, vhosts,
};
use crate::api::{Handled, matches};
use crate::http::Request;
use crate::refusal::Refusal;

/// Who may, by the tags of users. What they may do with one object is asked where it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Any tag of management.
    Management,
    /// Those who see everything.
    Monitoring,
    /// Those who set policies.
    Policymaker,
    /// Administrators.
    Administrator,
}

impl Level {
    /// Whether `who` may.
    ///
    /// # Errors
    /// 401 in the words of the original.
    pub fn check(self, who: &Principal) -> Result<(), Refusal> {
        let role = match self {
            Level::Management => Role::Management,
            Level::Monitoring => Role::Monitoring,
            Level::Policymaker => Role::Policymaker,
            Level::Administrator => Role::Administrator,
        };
        let reason = match self {
            _ if role.is_in(&who.tags) => return Ok(()),
            _ if !Role::Management.is_in(&who.tags) => "Not management user",
            Level::Monitoring => "Not monitor user",
            Level::Policymaker => "Not policymaker user",
            _ => "Not administrator user",
        };
        Err(Refusal::new(401, "not_authorised", reason))
    }
}

/// One row.
pub struct Route {
    method: &'static str,
    path: &'static str,
    /// Who may.
    pub level: Level,
    /// What is done.
    pub handle: fn(&mut Call<'_>) -> Handled,
}

/// What a request asks for.
pub enum Found {
    /// This, with what stood in the path's places.
    Route(&'static Route, Vec<String>),
    /// The path is there for these methods only.
    OtherMethods(String),
    /// There is no such path.
    Nothing,
}

const fn row(method: &'static str, path: &'static str, level: Level, handle: fn(&mut Call<'_>) -> Handled) -> Route {
    Route { method, path, level, handle }
}

use Level::{Administrator as Admin, Management as User, Monitoring as Monitor, Policymaker as Policy};

static ROUTES: &[Route] = &[
    row("GET", "/api/overview", User, overview::overview),
    row("GET", "/api/cluster-name", User, overview::cluster_name),
    row("GET", "/api/whoami", User, overview::whoami),
    row("GET", "/api/extensions", User, overview::extensions),
    row("GET", "/api/auth", User, overview::auth),
    row("GET", "/api/auth/attempts/{}", Monitor, overview::auth_attempts),
    row("GET", "/api/feature-flags", User, overview::nothing),
    row("GET", "/api/deprecated-features", User, overview::nothing),
    row("GET", "/api/global-parameters", Admin, overview::global_parameters),
    row("GET", "/api/nodes", Monitor, nodes::list),
    row("GET", "/api/nodes/{}", Monitor, nodes::describe),
    row("GET", "/api/connections", User, connections::list),
    row("GET", "/api/connections/{}", User, connections::describe),
    row("DELETE", "/api/connections/{}", User, connections::close),
    row("GET", "/api/connections/{}/channels", User, channels::list_of_connection),
    row("GET", "/api/connections/username/{}", User, connections::list_of_user),
    row("DELETE", "/api/connections/username/{}", User, connections::close_of_user),
    row("GET", "/api/vhosts/{}/connections", User, connections::list_of_vhost),
    row("GET", "/api/vhosts/{}/channels", User, channels::list_of_vhost),
    row("GET", "/api/channels", User, channels::list),
    row("GET", "/api/channels/{}", User, channels::describe),
    row("GET", "/api/consumers", User, consumers::list),
    row("GET", "/api/consumers/{}", User, consumers::list_of_vhost),
    row("GET", "/api/exchanges", User, exchanges::list),
    row("GET", "/api/exchanges/{}", User, exchanges::list_of_vhost),
    row("GET", "/api/exchanges/{}/{}", User, exchanges::describe),
    row("PUT", "/api/exchanges/{}/{}", User, exchanges::declare),
    row("DELETE", "/api/exchanges/{}/{}", User, exchanges::delete),
    row("POST", "/api/exchanges/{}/{}/publish", User, messages::publish),
    row("GET", "/api/exchanges/{}/{}/bindings/source", User, bindings::from_exchange),
    row("GET", "/api/exchanges/{}/{}/bindings/destination", User, bindings::to_exchange),
    row("GET", "/api/queues", User, queues::list),
    row("GET", "/api/queues/detailed", User, queues::list),
    row("GET", "/api/queues/{}", User, queues::list_of_vhost),
    row("GET", "/api/queues/{}/{}", User, queues::describe),
    row("PUT", "/api/queues/{}/{}", User, queues::declare),
    row("DELETE", "/api/queues/{}/{}", User, queues::delete),
    row("DELETE", "/api/queues/{}/{}/contents", User, queues::purge),
    row("POST", "/api/queues/{}/{}/actions", User, queues::act),
    row("GET", "/api/queues/{}/{}/bindings", User, bindings::to_queue),
    row("POST", "/api/queues/{}/{}/get", User, messages::get),
    row("GET", "/api/bindings", User, bindings::list),
    row("GET", "/api/bindings/{}", User, bindings::list_of_vhost),
    row("GET", "/api/bindings/{}/e/{}/q/{}", User, bindings::between_queue),
    row("POST", "/api/bindings/{}/e/{}/q/{}", User, bindings::bind_queue),
    row("GET", "/api/bindings/{}/e/{}/q/{}/{}", User, bindings::describe_queue),
    row("DELETE", "/api/bindings/{}/e/{}/q/{}/{}", User, bindings::unbind_queue),
    row("GET", "/api/bindings/{}/e/{}/e/{}", User, bindings::between_exchange),
    row("POST", "/api/bindings/{}/e/{}/e/{}", User, bindings::bind_exchange),
    row("GET", "/api/bindings/{}/e/{}/e/{}/{}", User, bindings::describe_exchange),
    row("DELETE", "/api/bindings/{}/e/{}/e/{}/{}", User, bindings::unbind_exchange),
    row("GET", "/api/vhosts", User, vhosts::list),
    row("GET", "/api/vhosts/{}", Admin, vhosts::describe),
    row("PUT", "/api/vhosts/{}", Admin, vhosts::put),
    row("DELETE", "/api/vhosts/{}", Admin, vhosts::delete),
    row("POST", "/api/vhosts/{}/start/{}", Admin, vhosts::start),
    row("GET", "/api/vhosts/{}/permissions", Admin, permissions::list_of_vhost),
    row("GET", "/api/vhosts/{}/topic-permissions", Admin, permissions::list_topics_of_vhost),
    row("GET", "/api/users", Admin, users::list),
    row("GET", "/api/users/without-permissions", Admin, users::list_without_permissions),
    row("POST", "/api/users/bulk-delete", Admin, users::delete_all),
    row("GET", "/api/users/{}", Admin, users::describe),
    row("PUT", "/api/users/{}", Admin, users::put),
    row("DELETE", "/api/users/{}", Admin, users::delete),
    row("GET", "/api/users/{}/permissions", Admin, permissions::list_of_user),
    row("GET", "/api/users/{}/topic-permissions", Admin, permissions::list_topics_of_user),
    row("GET", "/api/permissions", Admin, permissions::list),
    row("GET", "/api/permissions/{}/{}", Admin, permissions::describe),
    row("PUT", "/api/permissions/{}/{}", Admin, permissions::put),
    row("DELETE", "/api/permissions/{}/{}", Admin, permissions::delete),
    row("GET", "/api/topic-permissions", Admin, permissions::list_topics),
    row("GET", "/api/topic-permissions/{}/{}", Admin, permissions::describe_topics),
    row("PUT", "/api/topic-permissions/{}/{}", Admin, permissions::put_topic),
    row("DELETE", "/api/topic-permissions/{}/{}", Admin, permissions::delete_topics),
    row("DELETE", "/api/topic-permissions/{}/{}/{}", Admin, permissions::delete_topic),
    row("GET", "/api/policies", User, policies::list),
    row("GET", "/api/policies/{}", User, policies::list_of_vhost),
    row("GET", "/api/policies/{}/{}", User, policies::describe),
    row("PUT", "/api/policies/{}/{}", Policy, policies::set),
    row("DELETE", "/api/policies/{}/{}", Policy, policies::delete),
    row("GET", "/api/operator-policies", User, policies::list_operators),
    row("GET", "/api/operator-policies/{}", User, policies::list_operators_of_vhost),
    row("GET", "/api/operator-policies/{}/{}", User, policies::describe_operator),
    row("PUT", "/api/operator-policies/{}/{}", Admin, policies::set_operator),
    row("DELETE", "/api/operator-policies/{}/{}", Admin, policies::delete_operator),
    row("GET", "/api/parameters", Policy, policies::parameters),
    row("GET", "/api/parameters/{}", Policy, policies::parameters),
    row("GET", "/api/parameters/{}/{}", Policy, policies::parameters),
    row("GET", "/api/parameters/{}/{}/{}", Policy, policies::parameter),
    row("GET", "/api/definitions", Admin, definitions::export),
    row("POST", "/api/definitions", Admin, definitions::import),
    row("GET", "/api/definitions/{}", Admin, definitions::export_vhost),
    row("POST", "/api/definitions/{}", Admin, definitions::import_vhost),
    row("GET", "/api/vhost-limits", User, limits::list_of_vhosts),
    row("GET", "/api/vhost-limits/{}", User, limits::list_of_vhost),
    row("PUT", "/api/vhost-limits/{}/{}", Admin, limits::put_of_vhost),
    row("DELETE", "/api/vhost-limits/{}/{}", Admin, limits::delete_of_vhost),
    row("GET", "/api/user-limits", User, limits::list_of_users),
    row("GET", "/api/user-limits/{}", User, limits::list_of_user),
    row("PUT", "/api/user-limits/{}/{}", Admin, limits::put_of_user),
    row("DELETE", "/api/user-limits/{}/{}", Admin, limits::delete_of_user),
    row("GET", "/api/aliveness-test/{}", User, health::aliveness),
    row("GET", "/api/healthchecks/node", User, health::node),
    row("GET", "/api/healthchecks/node/{}", User, health::node),
    row("GET", "/api/health/checks/alarms", User, health::alarms),
    row("GET", "/api/health/checks/local-alarms", User, health::alarms),
    row("GET", "/api/health/checks/virtual-hosts", User, health::virtual_hosts),
    row("GET", "/api/health/checks/port-listener/{}", User, health::port_listener),
    row("GET", "/api/health/checks/protocol-listener/{}", User, health::protocol_listener),
    row("GET", "/api/health/checks/certificate-expiration/{}/{}", User, health::certificates),
    row("GET", "/api/health/checks/node-is-mirror-sync-critical", User, health::single),
    row("GET", "/api/health/checks/node-is-quorum-critical", User, health::single),
    row("GET", "/api/health/checks/is-in-service", User, health::serves),
    row("GET", "/api/health/checks/ready-to-serve-clients", User, health::serves),
];

/// Whether a path belongs here.
#[must_use]
pub fn serves(path: &str) -> bool {
    path.starts_with("/api/") && !path.starts_with("/api/v1/")
}

/// Looks a request up. HEAD is GET without the body; a row without places goes before one with.
pub fn find(request: &Request) -> Found {
    let method = if request.method == "HEAD" { "GET" } else { &request.method };
    // Flower asks for the queues of `/` at `/api/queues//`: the original passes over what is empty at the end.
    let path = request.path.trim_end_matches('/');
    let mut allow: Vec<&str> = Vec::new();
    let mut found: Option<(&'static Route, Vec<String>)> = None;
    for route in ROUTES {
        let Some(parameters) = matches(route.path, path) else { continue };
        if route.method != method {
            allow.push(route.method);
        } else if found.as_ref().is_none_or(|(_, others)| parameters.len() < others.len()) {
            found = Some((route, parameters));
        }
    }
    match found {
        Some((route, parameters)) => Found::Route(route, parameters),
        None if allow.is_empty() => Found::Nothing,
        None => Found::OtherMethods(allow.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_are_the_same() {
        for (at, route) in ROUTES.iter().enumerate() {
            assert!(ROUTES[at + 1..].iter().all(|other| (other.method, other.path) != (route.method, route.path)));
        }
    }

    #[test]
    fn each_tag_lets_in_as_far_as_the_original() {
        let who = |tag: &str| Principal { user: model::Name::fixed("u"), tags: vec![tag.to_owned()] };
        let said = |level: Level, tag: &str| level.check(&who(tag)).map_err(|refusal| refusal.reason);
        assert_eq!(said(Level::Management, ""), Err("Not management user".into()));
        assert_eq!(said(Level::Administrator, ""), Err("Not management user".into()));
        assert_eq!(said(Level::Monitoring, "management"), Err("Not monitor user".into()));
        assert_eq!(said(Level::Administrator, "monitoring"), Err("Not administrator user".into()));
        assert_eq!(said(Level::Management, "policymaker"), Ok(()));
        assert_eq!(said(Level::Monitoring, "administrator"), Ok(()));
    }
}
