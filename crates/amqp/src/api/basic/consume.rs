//! basic.consume and basic.cancel.

use broker::access::{Operation, Resource};
use broker::queue::{ConsumeSpec, QueueKind};
use model::{ByteReader, Header, HeaderValue};

use super::{bit, stream};
use crate::api::queue_args::type_of;
use crate::api::reply::{self, REPLY_TO};
use crate::channel::consumers::Consumer;
use crate::config::CREDIT_FIRST;
use crate::conn::{Call, Done};
use crate::errors::{Code, Refusal, VHOST};
use crate::presence;
use crate::unit::TAG;
use crate::wire::{short, table, text::put_short};

/// (ticket, queue, tag | no_local no_ack exclusive nowait, arguments). no_local is ignored, as RabbitMQ does.
pub fn consume(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let (queue_text, tag) = (short(r)?, short(r)?);
    let bits = r.u8()?;
    let (no_ack, exclusive, nowait) = (bit(bits, 1), bit(bits, 2), bit(bits, 3));
    let arguments = table::body(r)?;
    let argument_bytes = arguments.len();
    let arguments = table::read(arguments)?;
    let argument_bytes = argument_bytes + arguments.len() * size_of::<Header>();
    if call.ch.has_tag(tag) {
        return Err(Refusal::new(Code::NotAllowed, format!("attempt to reuse consumer tag '{tag}'")));
    }
    if queue_text == REPLY_TO {
        return reply::consume(call, tag, no_ack, nowait);
    }
    let queue = call.queue_name(queue_text)?;
    call.may(Operation::Read, Resource::Queue(&queue))?;
    call.flush();
    let found = call.cx.broker.queue(call.conn.session(), &call.conn.tenant, &queue);
    let kind = found.map_err(|error| Refusal::of(&error, "queue"))?.kind;
    let priority = priority(&arguments, kind, &queue)?;
    let place = match kind {
        QueueKind::Stream => Some(stream::place(call, &queue, no_ack, &arguments)?),
        QueueKind::Plain | QueueKind::Safe => None,
    };
    let tag = match tag {
        "" => call.conn.unique_name("amq.ctag-", call.cx.now, call.cx.broker),
        _ => tag.to_owned(),
    };
    let prefetch = match (no_ack, call.ch.prefetch, call.ch.shared_prefetch) {
        (true, _, _) => 0,
        (false, 0, shared) => u32::from(shared),
        (false, own, _) => u32::from(own),
    };
    let credit = if prefetch == 0 { CREDIT_FIRST } else { prefetch };
    let spec = ConsumeSpec { auto_settle: no_ack, exclusive, credit, priority };
    let (session, tenant) = (call.conn.session(), &call.conn.tenant);
    let started = match place {
        Some(place) => call.cx.broker.read_stream((session, tenant, &queue), spec, place, TAG),
        None => call.cx.broker.consume(session, tenant, &queue, spec, TAG),
    };
    let id = started.map_err(|error| Refusal::of(&error, "queue"))?;
    call.conn.consumers.insert(id, call.ch.number);
    if !nowait {
        call.reply(|out| put_short(out, &tag));
    }
    presence::label(call, id, (&tag, prefetch, arguments));
    let stream = (kind == QueueKind::Stream).then_some(queue);
    call.ch.consumers.add(
        id,
        Consumer { tag: tag.into(), no_ack, stream, prefetch, owed: 0, window: credit, mean_bytes: 0, argument_bytes },
    );
    Ok(())
}

/// The consumer's priority, which streams do not have. Other arguments belong to streams; what is not known is ignored.
fn priority(arguments: &[Header], kind: QueueKind, queue: &str) -> Result<i32, Refusal> {
    let mut priority = 0;
    for Header { name, value } in arguments {
        let invalid = |why: String| {
            Err(Refusal::precondition(format!("invalid arg '{name}' for queue '{queue}' in vhost '{VHOST}'{why}")))
        };
        match (name.as_str(), value) {
            ("x-priority", _) if kind == QueueKind::Stream => {
                return invalid(format!(" of queue type {}", type_of(kind)));
            }
            ("x-priority", HeaderValue::Int(number)) => {
                priority = i32::try_from(*number).unwrap_or(if *number < 0 { i32::MIN } else { i32::MAX });
            }
            ("x-priority", other) => {
                return invalid(format!(": \"expected integer, got {}\"", table::type_name(other)));
            }
            (name, _) if kind != QueueKind::Stream && stream::ARGUMENTS.contains(&name) => {
                return invalid(format!(" of queue type {}", type_of(kind)));
            }
            _ => {}
        }
    }
    Ok(priority)
}

/// (tag | nowait). A tag that is not known is no error.
pub fn cancel(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let tag = short(r)?;
    let nowait = bit(r.u8()?, 0);
    if let Some(gone) = call.ch.reply.take_if(|reply| reply.tag == tag) {
        call.conn.mailboxes.retain(|(id, _)| *id != gone.id);
        call.cx.broker.close_mailbox(gone.id);
    }
    if let Some(id) = call.ch.consumers.remove_tag(tag) {
        call.conn.consumers.remove(&id);
        call.cx.broker.cancel(id);
        // What was parked for it was never sent: it goes back.
        let mut gone = Vec::new();
        for (consumer, delivery) in std::mem::take(&mut call.ch.parked) {
            if consumer == id {
                gone.push(delivery);
            } else {
                call.ch.parked.push_back((consumer, delivery));
            }
        }
        if !gone.is_empty() {
            call.conn.give_back(&gone, call.cx.broker);
        }
    }
    if !nowait {
        call.reply(|out| put_short(out, tag));
    }
    Ok(())
}
