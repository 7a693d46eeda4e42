//! Channels of connections.

use broker::connection::{ChannelMode, Connection};
use serde_json::{Map, Value, json};

use super::call::{Call, missing, node};
use super::connections::{named, of_name, sees};
use super::consumers;
use super::listing::{self, Key, Show};
use super::stats::{self, Scale};
use crate::api::Handled;

/// What others say of the connection of a channel.
pub fn connection_details(connection: &Connection) -> Value {
    let info = &connection.info;
    let host = info.peer.ip().to_canonical().to_string();
    json!({ "name": info.name(), "peer_host": host, "peer_port": info.peer.port() })
}

pub fn json(connection: &Connection, number: u16, (scale, show): (Scale<'_>, Show)) -> Option<Value> {
    let figures = connection.channels.get(&number)?;
    let info = &connection.info;
    let name = format!("{} ({number})", info.name());
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| out.insert(name.to_owned(), value);
    set("name", name.as_str().into());
    set("number", number.into());
    set("connection_details", connection_details(connection));
    set("node", node().into());
    set("user", info.user.as_str().into());
    set("user_who_performed_action", info.user.as_str().into());
    set("vhost", info.tenant.as_str().into());
    if show.no_stats {
        return Some(Value::Object(out));
    }
    set("state", "running".into());
    set("confirm", (figures.mode() == ChannelMode::Confirms).into());
    set("transactional", (figures.mode() == ChannelMode::Transactions).into());
    set("prefetch_count", figures.prefetch.get().into());
    set("global_prefetch_count", figures.shared_prefetch.get().into());
    set("consumer_count", figures.consumers.get().into());
    set("messages_unacknowledged", figures.unsettled().into());
    set("messages_unconfirmed", figures.unconfirmed().into());
    set("messages_uncommitted", figures.uncommitted.get().into());
    set("acks_uncommitted", figures.uncommitted_settles.get().into());
    set("pending_raft_commands", 0.into());
    set("reductions", 0.into());
    set("reductions_details", json!({ "rate": 0.0 }));
    set("garbage_collection", json!({}));
    if let Some(stats) = stats::of_sums(scale, &format!("channel {name}"), &figures.sums()) {
        set("message_stats", stats);
    }
    Some(Value::Object(out))
}

fn answer(call: &Call<'_>, wanted: impl Fn(&Connection) -> bool) -> Handled {
    let all = call.broker.connections().filter(|one| sees(call, &one.info.user) && wanted(one));
    let keys = all.flat_map(|one| one.channels.keys().map(|number| Key::Channel(one.info.session, *number))).collect();
    listing::answer(call, keys)
}

pub fn list(call: &mut Call<'_>) -> Handled {
    answer(call, |_| true)
}

pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = call.vhost()?;
    answer(call, |one| one.info.tenant == tenant)
}

pub fn list_of_connection(call: &mut Call<'_>) -> Handled {
    let session = named(call)?.info.session;
    answer(call, |one| one.info.session == session)
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    // The name ends in the number: `127.0.0.1:1 -> 127.0.0.1:2 (3)`.
    let (name, number) = call.parameter(0).rsplit_once(" (").ok_or_else(missing)?;
    let number: u16 = number.strip_suffix(')').and_then(|digits| digits.parse().ok()).ok_or_else(missing)?;
    let connection = of_name(call, name)?;
    let scale = Scale { sampler: call.sampler, now: call.now.mono };
    let item = json(connection, number, (scale, Show::default()));
    let item = item.map(|mut item| {
        let session = connection.info.session;
        let its = call.broker.consumers().filter(|one| one.label.session == session && one.label.channel == number);
        item["consumer_details"] = its.map(|consumer| consumers::json(call.broker, &consumer)).collect();
        item["publishes"] = json!([]);
        item["deliveries"] = json!([]);
        item
    });
    listing::one(call, item)
}
