//! Consumer groups and how far behind they are.

use broker::group::{GroupInfo, GroupState};
use serde_json::{Value, json};

use super::{Call, Handled, now};
use crate::refusal::Refusal;

pub fn list(call: &mut Call<'_>) -> Handled {
    let groups: Vec<Value> = call.broker.groups().iter().map(summary).collect();
    now(&json!({ "groups": groups }))
}

fn summary(group: &GroupInfo) -> Value {
    json!({
        "name": group.group.as_str(),
        "state": state(group.state),
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "members": group.members.len(),
    })
}

fn state(state: GroupState) -> &'static str {
    match state {
        GroupState::Empty => "empty",
        GroupState::PreparingRebalance => "preparing-rebalance",
        GroupState::CompletingRebalance => "completing-rebalance",
        GroupState::Stable => "stable",
        GroupState::Dead => "dead",
    }
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    let group = call.broker.describe_group(call.name());
    if group.state == GroupState::Dead {
        return Err(Refusal::not_found(format!("no group '{}'", call.name())));
    }
    let members: Vec<Value> = group
        .members
        .iter()
        .map(|member| {
            json!({
                "member": member.member,
                "instance": member.instance,
                "client_id": member.client_id,
                "client_host": member.client_host,
            })
        })
        .collect();
    let mut body = summary(&group);
    body["members"] = members.into();
    body["offsets"] = offsets(call)?.into();
    now(&body)
}

/// What the group has committed, and what lies behind it. A topic that is gone has no end and no lag.
fn offsets(call: &Call<'_>) -> Result<Vec<Value>, Refusal> {
    let tenant = call.tenant()?;
    let committed = call.broker.all_committed(call.name()).into_iter();
    let rows = committed.map(|(topic, partition, committed)| {
        let info = call.broker.topic(&tenant, &topic);
        let log = info.and_then(|info| info.partitions.get(partition as usize));
        let end = log.and_then(|log| call.broker.bounds(*log).ok()).map(|bounds| bounds.end);
        json!({
            "topic": topic.as_str(),
            "partition": partition,
            "committed": committed.offset.0,
            "end": end.map(|end| end.0),
            "lag": end.map(|end| end.since(committed.offset)),
            "metadata": committed.metadata,
        })
    });
    Ok(rows.collect())
}
