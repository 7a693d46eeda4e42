//! Connections.

use broker::connection::Connection;
use broker::{Broker, SessionId};
use serde_json::{Map, Value, json};

use super::call::{Call, done, missing, node, not_authorised};
use super::health;
use super::listing::{self, Key, Show};
use super::stats::{self, Scale};
use crate::api::Handled;
use crate::refusal::Refusal;

/// What a connection that is closed is told when nobody gives a reason.
const REASON: &str = "Closed via management plugin";

pub fn json((broker, connection): (&Broker, &Connection), scale: Scale<'_>, show: Show) -> Option<Value> {
    let (info, figures) = (&connection.info, &connection.figures);
    let name = info.name();
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| out.insert(name.to_owned(), value);
    set("name", name.as_str().into());
    set("vhost", info.tenant.as_str().into());
    set("user", info.user.as_str().into());
    set("user_who_performed_action", info.user.as_str().into());
    set("node", node().into());
    set("type", "network".into());
    set("protocol", info.protocol.into());
    set("auth_mechanism", info.mechanism.as_str().into());
    set("host", info.own.ip().to_canonical().to_string().into());
    set("port", info.own.port().into());
    set("peer_host", info.peer.ip().to_canonical().to_string().into());
    set("peer_port", info.peer.port().into());
    let properties = broker::dialect::json_of(&info.properties);
    let given = properties.get("connection_name").or_else(|| properties.get("client_id")).cloned();
    set("user_provided_name", given.unwrap_or(Value::Null));
    set("client_properties", properties);
    set("connected_at", info.connected_at.0.into());
    set("timeout", info.timeout_seconds.into());
    set("frame_max", info.frame_bytes_max.into());
    set("channel_max", info.channels_max.into());
    let tls = info.encryption.as_ref();
    let text = |value: Option<&str>| value.map_or(Value::Null, Value::from);
    set("ssl", tls.is_some().into());
    set("ssl_protocol", text(tls.map(|tls| tls.version.as_str())));
    set("ssl_cipher", text(tls.map(|tls| tls.cipher.as_str())));
    set("ssl_key_exchange", Value::Null);
    set("ssl_hash", Value::Null);
    set("peer_cert_subject", text(tls.and_then(|tls| tls.peer_subject.as_deref())));
    set("peer_cert_issuer", text(tls.and_then(|tls| tls.peer_issuer.as_deref())));
    set("peer_cert_validity", text(tls.and_then(|tls| tls.peer_validity.as_deref())));
    if show.no_stats {
        return Some(Value::Object(out));
    }
    set("state", state(broker, connection).into());
    set("channels", connection.channels.len().into());
    set("recv_cnt", figures.received.get().into());
    set("send_cnt", figures.sent.get().into());
    set("send_pend", 0.into());
    set("reductions", 0.into());
    set("reductions_details", json!({ "rate": 0.0 }));
    set("garbage_collection", json!({}));
    let counts = [("recv_oct", figures.received_bytes.get()), ("send_oct", figures.sent_bytes.get())];
    stats::add(&mut out, scale, &format!("connection {name}"), counts);
    Some(Value::Object(out))
}

/// Blocked: it has published since an alarm was raised, and waits. Blocking: it will be when it publishes.
fn state(broker: &Broker, connection: &Connection) -> &'static str {
    if connection.figures.blocked.get() > 0 {
        return "blocked";
    }
    let waits = connection.info.is_asked_to_wait && !health::raised(broker).is_empty();
    if waits { "blocking" } else { "running" }
}

/// Whether whoever asks sees what belongs to `user`.
pub fn sees(call: &Call<'_>, user: &str) -> bool {
    call.sees_all() || *call.asker.principal.user.as_str() == *user
}

fn answer(call: &Call<'_>, wanted: impl Fn(&Connection) -> bool) -> Handled {
    let all = call.broker.connections().filter(|one| sees(call, &one.info.user) && wanted(one));
    let keys = all.map(|one| Key::Connection(one.info.session)).collect();
    listing::answer(call, keys)
}

pub fn list(call: &mut Call<'_>) -> Handled {
    call.broker.look_for_space();
    answer(call, |_| true)
}

pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = call.vhost()?;
    call.broker.look_for_space();
    answer(call, |one| one.info.tenant == tenant)
}

pub fn list_of_user(call: &mut Call<'_>) -> Handled {
    let user = call.parameter(0).to_owned();
    let all = call.broker.connections().filter(|one| sees(call, &one.info.user) && one.info.user.as_str() == user);
    let item = |one: &Connection| {
        let (tenant, user) = (one.info.tenant.as_str(), one.info.user.as_str());
        Key::Made(json!({ "name": one.info.name(), "vhost": tenant, "user": user, "node": node() }))
    };
    let keys = all.map(item).collect();
    listing::answer(call, keys)
}

/// The connection that the path names.
pub fn named<'c>(call: &'c Call<'_>) -> Result<&'c Connection, Refusal> {
    of_name(call, call.parameter(0))
}

/// The connection of that name, if whoever asks sees it.
pub fn of_name<'c>(call: &'c Call<'_>, name: &str) -> Result<&'c Connection, Refusal> {
    let connection = call.broker.connections().find(|one| one.info.name() == name).ok_or_else(missing)?;
    if !sees(call, &connection.info.user) {
        return Err(not_authorised("User not authorised to access object"));
    }
    Ok(connection)
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    call.broker.look_for_space();
    let scale = Scale { sampler: call.sampler, now: call.now.mono };
    let item = json((call.broker, named(call)?), scale, Show::default());
    listing::one(call, item)
}

fn reason(call: &Call<'_>) -> String {
    call.asker.reason.clone().unwrap_or_else(|| REASON.to_owned())
}

pub fn close(call: &mut Call<'_>) -> Handled {
    let session = named(call)?.info.session;
    let reason = reason(call);
    call.broker.close_connection(session, &reason);
    done(204, broker::Lsn::default())
}

pub fn close_of_user(call: &mut Call<'_>) -> Handled {
    let user = call.parameter(0).to_owned();
    if !sees(call, &user) {
        return Err(not_authorised("User not authorised to access object"));
    }
    let all = call.broker.connections().filter(|one| one.info.user.as_str() == user);
    let sessions: Vec<SessionId> = all.map(|one| one.info.session).collect();
    let reason = reason(call);
    for session in sessions {
        call.broker.close_connection(session, &reason);
    }
    done(204, broker::Lsn::default())
}
