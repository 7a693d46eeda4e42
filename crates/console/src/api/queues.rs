//! Queues.

use broker::queue::QueueInfo;
use serde_json::{Value, json};

use super::{Call, Handled, after, now};

pub fn list(call: &mut Call<'_>) -> Handled {
    let tenant = call.tenant()?;
    let queues: Vec<Value> = call.broker.queues(&tenant).iter().map(summary).collect();
    now(&json!({ "queues": queues }))
}

fn summary(queue: &QueueInfo) -> Value {
    json!({
        "name": queue.name.as_str(),
        "durable": queue.durable,
        "exclusive": queue.exclusive.is_some(),
        "auto_delete": queue.auto_delete,
        "topic": queue.topic.as_ref().map(|topic| topic.as_str()),
        "arguments": queue.arguments,
        "ready": queue.ready,
        "unsettled": queue.unsettled,
        "consumers": queue.consumers,
    })
}

pub fn describe(call: &mut Call<'_>) -> Handled {
    let tenant = call.tenant()?;
    let queue = call.broker.queue(call.session, &tenant, call.name())?;
    now(&summary(&queue))
}

pub fn delete(call: &mut Call<'_>) -> Handled {
    let tenant = call.tenant()?;
    let queue = call.name().to_owned();
    call.broker.queue(call.session, &tenant, &queue)?; // deleting what is not there is no error in the core, here it is
    let (messages, lsn) = call.broker.delete_queue(call.session, &tenant, &queue, false, false)?;
    after(lsn, 200, &json!({ "messages": messages }))
}

pub fn purge(call: &mut Call<'_>) -> Handled {
    let tenant = call.tenant()?;
    let queue = call.name().to_owned();
    let (messages, lsn) = call.broker.purge(call.session, &tenant, &queue)?;
    after(lsn, 200, &json!({ "messages": messages }))
}
