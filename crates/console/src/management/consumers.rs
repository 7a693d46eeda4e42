//! Consumers of queues.

use broker::Broker;
use broker::connection::ConsumerInfo;
use serde_json::{Value, json};

use super::call::{Call, node};
use super::connections::sees;
use super::listing::{self, Key};
use crate::api::Handled;

pub fn json(broker: &Broker, consumer: &ConsumerInfo) -> Value {
    let label = &consumer.label;
    let channel = broker.connection(label.session).map(|connection| {
        let info = &connection.info;
        json!({
            "name": format!("{} ({})", info.name(), label.channel),
            "number": label.channel,
            "connection_name": info.name(),
            "node": node(),
            "peer_host": info.peer.ip().to_canonical().to_string(),
            "peer_port": info.peer.port(),
            "user": info.user.as_str(),
        })
    });
    json!({
        "consumer_tag": label.tag,
        "queue": { "name": consumer.queue.as_str(), "vhost": consumer.tenant.as_str() },
        "ack_required": !consumer.auto_settle,
        "exclusive": consumer.exclusive,
        "prefetch_count": label.prefetch,
        "active": consumer.active,
        "activity_status": if consumer.active { "up" } else { "waiting" },
        "arguments": broker::dialect::json_of(&label.arguments),
        "channel_details": channel.unwrap_or_else(|| json!({})),
    })
}

fn answer(call: &Call<'_>, wanted: impl Fn(&ConsumerInfo) -> bool) -> Handled {
    let is_seen = |consumer: &ConsumerInfo| {
        let connection = call.broker.connection(consumer.label.session);
        connection.is_some_and(|connection| sees(call, &connection.info.user))
    };
    let all = call.broker.consumers().filter(|consumer| wanted(consumer) && is_seen(consumer));
    let keys = all.map(|consumer| Key::Consumer(Box::new(consumer))).collect();
    listing::answer(call, keys)
}

pub fn list(call: &mut Call<'_>) -> Handled {
    answer(call, |_| true)
}

pub fn list_of_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = call.vhost()?;
    answer(call, |consumer| consumer.tenant == tenant)
}
