//! Class queue.

use broker::access::{Operation, Resource};
use broker::queue::{self, QueueInfo, QueueKind, QueueOptions, QueueSpec};
use broker::routing::{BindingSpec, Destination};
use broker::{Broker, BrokerError, SessionId};
use model::{ByteReader, Header, HeaderValue, Name, Now};

use super::bit;
use super::equivalence::{Declared, arguments, equivalent, unusual_types};
use super::exchange::{check_binding, default_exchange, may_bind_from};
use super::queue_args::{QueueArguments, queue_arguments, type_of};
use super::reply::{check_exists, is_reply_name};
use crate::conn::{Call, Done, name};
use crate::errors::{Code, Refusal, VHOST};
use crate::wire::{short, table, table::Types, text::put_short};

/// queue.declare: (ticket, name | passive durable exclusive auto_delete nowait, arguments).
pub fn declare(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let asked = name(short(r)?)?;
    let bits = r.u8()?;
    let (passive, nowait) = (bit(bits, 0), bit(bits, 4));
    let body = table::body(r)?;
    let (headers, types) = (table::read(body)?, table::types(body)?);
    if is_reply_name(&asked) {
        check_exists(call, &asked)?;
        if !nowait {
            call.reply(|out| {
                put_short(out, &asked);
                out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1]);
            });
        }
        return Ok(());
    }
    call.flush(); // the counts answered include what was acknowledged before
    let info = if passive {
        let queue = call.queue_name(&asked)?;
        call.may_see(Resource::Queue(&queue))?;
        let found = call.cx.broker.queue(call.conn.session(), &call.conn.tenant, &queue);
        found.map_err(|error| Refusal::of(&error, "queue"))?
    } else {
        let asked_empty = asked.is_empty();
        let queue = match &*asked {
            "" => name(&call.conn.unique_name("amq.gen-", call.cx.now, call.cx.broker))?,
            _ => {
                not_reserved(&asked)?;
                asked
            }
        };
        may_declare(call, &queue, &headers)?;
        let headers = typed(call.cx.broker, &call.conn.tenant, bits, headers);
        let mut spec = asked_for(&call.conn.tenant, queue, bits, (&headers, &types));
        agrees(call.cx.broker, call.conn.session(), &spec)?;
        mean(&mut spec, (&headers, &types), asked_empty)?;
        make(call, &spec)?
    };
    call.ch.last_queue = Some(info.name.clone());
    if !nowait {
        call.reply(|out| {
            put_short(out, &info.name);
            out.extend_from_slice(&count(info.ready).to_be_bytes());
            out.extend_from_slice(&info.consumers.to_be_bytes());
        });
    }
    Ok(())
}

/// A queue as a declaration asks for it; what its arguments mean is not looked at yet. `bits` are those of the method.
#[must_use]
pub fn asked_for(tenant: &Name, queue: Name, bits: u8, (headers, types): (&[Header], &Types<'_>)) -> QueueSpec {
    QueueSpec {
        tenant: tenant.clone(),
        name: queue,
        durable: bit(bits, 1),
        exclusive: bit(bits, 2),
        auto_delete: bit(bits, 3),
        topic: None,
        arguments: arguments(headers),
        argument_types: unusual_types(headers, types),
        options: QueueOptions::default(),
    }
}

/// Whether what is asked for is what there is, if there is a queue of that name: that is looked at before what the
/// arguments mean.
///
/// # Errors
/// 405 and 406 when not.
pub fn agrees(broker: &Broker, session: SessionId, spec: &QueueSpec) -> Done {
    match broker.queue(session, &spec.tenant, &spec.name) {
        Ok(current) => agree(spec, &current),
        Err(BrokerError::Missing { .. }) => Ok(()),
        Err(error) => Err(Refusal::of(&error, "queue")),
    }
}

/// Takes over what the arguments mean, and checks that the queue is one that can be.
///
/// # Errors
/// 406 that names the argument or property.
pub fn mean(spec: &mut QueueSpec, (headers, types): (&[Header], &Types<'_>), is_unnamed: bool) -> Done {
    let QueueArguments { topic, options } = queue_arguments(headers, types, &spec.name)?;
    (spec.topic, spec.options) = (topic, options);
    suits(spec, is_unnamed)
}

/// The arguments of a queue: one that does not say its type is of its virtual host's default type, if it lasts and
/// belongs to nobody alone. `bits` are those of the method.
#[must_use]
pub fn typed(broker: &Broker, tenant: &str, bits: u8, mut headers: Vec<Header>) -> Vec<Header> {
    let lasts = bit(bits, 1) && !bit(bits, 2) && !bit(bits, 3);
    if lasts
        && !headers.iter().any(|header| header.name == "x-queue-type")
        && let Some(kind) = broker.tenant(tenant).and_then(|tenant| tenant.default_queue_kind)
    {
        let value = HeaderValue::Text(kind_name(kind).to_owned());
        headers.push(Header { name: "x-queue-type".to_owned(), value });
    }
    headers
}

/// A queue type by the name that clients declare it with.
#[must_use]
pub fn kind_name(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::Plain => "classic",
        QueueKind::Safe => "quorum",
        QueueKind::Stream => "stream",
    }
}

/// Names under `amq.` are the server's to give.
///
/// # Errors
/// 403 for one.
pub fn not_reserved(queue: &str) -> Done {
    if queue.starts_with("amq.") {
        let text = format!("queue name '{queue}' contains reserved prefix 'amq.*'");
        return Err(Refusal::new(Code::AccessRefused, text));
    }
    Ok(())
}

/// Who declares a queue may configure it. What a new one sends its dead letters to they may write to, and what it takes
/// messages from they may read.
fn may_declare(call: &mut Call<'_, '_>, queue: &str, headers: &[Header]) -> Done {
    call.may(Operation::Configure, Resource::Queue(queue))?;
    if call.cx.broker.has_queue(&call.conn.tenant, queue) {
        return Ok(());
    }
    let text = |argument: &str| match headers.iter().find(|header| header.name == argument).map(|one| &one.value) {
        Some(HeaderValue::Text(text)) => Some(text),
        _ => None,
    };
    if let Some(exchange) = text("x-dead-letter-exchange") {
        call.may(Operation::Read, Resource::Queue(queue))?;
        call.may(Operation::Write, Resource::Exchange(exchange))?;
    }
    // A stream shows the topic of its own name, if there is one.
    let is_stream = text("x-queue-type").is_some_and(|kind| kind == "stream");
    let shown = || (is_stream && call.cx.broker.topic(&call.conn.tenant, queue).is_some()).then_some(queue);
    match text("x-topic").map(String::as_str).or_else(shown) {
        Some(topic) => call.may(Operation::Read, Resource::Topic(topic)),
        None => Ok(()),
    }
}

/// What each queue type wants of the other properties.
fn suits(spec: &QueueSpec, is_unnamed: bool) -> Done {
    let (kind, queue) = (spec.options.kind, &*spec.name);
    if kind == QueueKind::Plain {
        return Ok(());
    }
    if is_unnamed {
        let text = format!("Cannot declare a server-named queue for type {}", type_of(kind));
        return Err(Refusal::precondition(text));
    }
    let refused =
        [("non-durable", !spec.durable), ("exclusive-owner", spec.exclusive), ("auto-delete", spec.auto_delete)];
    match refused.iter().find(|(_, is_asked)| *is_asked) {
        None => Ok(()),
        Some((what, _)) => {
            Err(Refusal::precondition(format!("invalid property '{what}' for queue '{queue}' in vhost '{VHOST}'")))
        }
    }
}

/// Counts are 32 bits on the wire.
fn count(messages: u64) -> u32 {
    u32::try_from(messages).unwrap_or(u32::MAX)
}

fn make(call: &mut Call<'_, '_>, spec: &QueueSpec) -> Result<QueueInfo, Refusal> {
    let declared = declared(call.cx.broker, (call.conn.session(), call.cx.now), spec)?;
    call.hold(declared.lsn);
    Ok(declared.info)
}

/// Declares a queue whose arguments have been checked.
///
/// # Errors
/// 404 without the topic it shares, 405 and 406 when there is one that is not as asked.
pub fn declared(
    broker: &mut Broker,
    (session, now): (SessionId, Now),
    spec: &QueueSpec,
) -> Result<queue::Declared, Refusal> {
    if let Some(topic) = &spec.topic
        && broker.topic(&spec.tenant, topic).is_none()
    {
        return Err(Refusal::missing("topic", topic));
    }
    let declared = broker.declare_queue(session, spec, now);
    let declared = declared.map_err(|error| Refusal::of(&error, "queue"))?;
    if !declared.created {
        agree(spec, &declared.info)?;
    }
    Ok(declared)
}

/// A second declaration must ask for what there is. Exclusiveness is looked at first, as RabbitMQ does.
fn agree(asked: &QueueSpec, current: &QueueInfo) -> Done {
    if asked.exclusive != current.exclusive.is_some() {
        return Err(Refusal::locked(&asked.name));
    }
    for (what, asked_value, current_value) in
        [("durable", asked.durable, current.durable), ("auto_delete", asked.auto_delete, current.auto_delete)]
    {
        if asked_value != current_value {
            return Err(Refusal::precondition(format!(
                "inequivalent arg '{what}' for queue '{}' in vhost '{VHOST}': received '{asked_value}' but current is \
                 '{current_value}'",
                &*asked.name
            )));
        }
    }
    let of_asked = Declared { values: &asked.arguments, types: &asked.argument_types };
    let of_current = Declared { values: &current.arguments, types: &current.argument_types };
    equivalent(of_asked, of_current, &asked.name)
}

/// The fields that bind and unbind share: (ticket, queue, exchange, key).
fn binding(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Result<BindingSpec, Refusal> {
    r.u16()?;
    let (queue_text, exchange, key) = (short(r)?, name(short(r)?)?, short(r)?);
    let queue = call.queue_name(queue_text)?;
    // An empty key with an empty queue name means that queue's name too.
    let key = if queue_text.is_empty() && key.is_empty() { queue.clone() } else { key_name(key)? };
    call.may(Operation::Write, Resource::Queue(&queue))?;
    if exchange.is_empty() {
        return Err(default_exchange());
    }
    may_bind_from(call, &exchange, &key)?;
    let tenant = call.conn.tenant.clone();
    let destination = Destination::Queue(queue);
    Ok(BindingSpec { tenant, exchange, destination, key, arguments: Default::default() })
}

/// Keys may hold what names may not on RabbitMQ; here both are names.
///
/// # Errors
/// 406 for a key that is none.
pub fn key_name(key: &str) -> Result<Name, Refusal> {
    Name::new(key).map_err(|error| Refusal::precondition(format!("invalid routing key: {error}")))
}

/// queue.bind: (ticket, queue, exchange, key | nowait, arguments).
pub fn bind(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let mut spec = binding(call, r)?;
    let nowait = bit(r.u8()?, 0);
    let headers = table::read(table::body(r)?)?;
    check_binding(call.cx.broker, (&spec.tenant, &spec.exchange), &headers)?;
    spec.arguments = arguments(&headers);
    let bound = call.cx.broker.bind(call.conn.session(), &spec);
    let lsn = bound.map_err(|error| Refusal::of(&error, "queue"))?;
    call.hold(lsn);
    if !nowait {
        call.reply(|_| {});
    }
    Ok(())
}

/// queue.unbind: (ticket, queue, exchange, key, arguments). What is not bound, or not there, is no error.
pub fn unbind(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let mut spec = binding(call, r)?;
    spec.arguments = arguments(&table::read(table::body(r)?)?);
    let unbound = call.cx.broker.unbind(call.conn.session(), &spec);
    match unbound {
        Ok(lsn) => call.hold(lsn),
        Err(BrokerError::Missing { .. }) => {}
        Err(error) => return Err(Refusal::of(&error, "queue")),
    }
    call.reply(|_| {});
    Ok(())
}

/// What cannot be done to a stream.
///
/// # Errors
/// 540 in RabbitMQ's words when the queue is one.
pub fn no_stream(call: &Call<'_, '_>, queue: &str, what: &str) -> Done {
    match call.cx.broker.queue(call.conn.session(), &call.conn.tenant, queue) {
        Ok(info) if info.kind == QueueKind::Stream => Err(of_stream(queue, what)),
        _ => Ok(()),
    }
}

/// 540 for what cannot be done to a stream.
#[must_use]
pub fn of_stream(queue: &str, what: &str) -> Refusal {
    let text = format!("{what} not supported by stream queues queue '{queue}' in vhost '{VHOST}'");
    Refusal::new(Code::NotImplemented, text)
}

/// queue.purge: (ticket, queue | nowait).
pub fn purge(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let queue = call.queue_name(short(r)?)?;
    let nowait = bit(r.u8()?, 0);
    call.may(Operation::Read, Resource::Queue(&queue))?;
    call.flush();
    no_stream(call, &queue, "queue.purge")?;
    let purged = call.cx.broker.purge(call.conn.session(), &call.conn.tenant, &queue);
    // As for acknowledgements, nobody waits for the disk: a message that comes back after a crash is redelivered.
    let (messages, _) = purged.map_err(|error| Refusal::of(&error, "queue"))?;
    if !nowait {
        call.reply(|out| out.extend_from_slice(&count(messages).to_be_bytes()));
    }
    Ok(())
}

/// queue.delete: (ticket, queue | if_unused if_empty nowait). A missing one is no error: it held nothing.
pub fn delete(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let queue = call.queue_name(short(r)?)?;
    let bits = r.u8()?;
    let (if_unused, if_empty, nowait) = (bit(bits, 0), bit(bits, 1), bit(bits, 2));
    call.may(Operation::Configure, Resource::Queue(&queue))?;
    call.flush();
    let deleted = call.cx.broker.delete_queue(call.conn.session(), &call.conn.tenant, &queue, if_unused, if_empty);
    let messages = match deleted {
        Ok((messages, lsn)) => {
            call.hold(lsn);
            messages
        }
        Err(BrokerError::Missing { .. }) => 0,
        Err(error) => return Err(Refusal::of(&error, "queue")),
    };
    if !nowait {
        call.reply(|out| out.extend_from_slice(&count(messages).to_be_bytes()));
    }
    Ok(())
}
