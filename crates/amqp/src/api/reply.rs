//! Direct reply-to: a client consumes a queue that is none, publishes questions from the same channel, and gets the
//! answers at once, from whoever publishes to the name that the questions carry. Nothing of it is stored.

use broker::OUTPUT_BYTES_MAX;
use broker::routing::Mail;
use model::Name;

use super::basic::deliver::Writer;
use crate::channel::reply::Reply;
use crate::conn::{Call, Done};
use crate::errors::{Code, Refusal};
use crate::wire::frame::put_method;
use crate::wire::text::put_short;

/// The queue that is none.
pub const REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// Whether `queue` is spelled like it, or like the name that a question carries.
#[must_use]
pub fn is_reply_name(queue: &str) -> bool {
    queue.strip_prefix(REPLY_TO).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether somebody listens there.
///
/// # Errors
/// 404 when nobody does.
pub fn check_exists(call: &Call<'_, '_>, queue: &str) -> Done {
    if queue == REPLY_TO || call.cx.broker.has_mailbox(&call.conn.tenant, queue) {
        return Ok(());
    }
    Err(Refusal::missing("queue", queue))
}

/// basic.consume of it.
///
/// # Errors
/// 406 when answers are to be acknowledged, or somebody consumes them on this channel already.
pub fn consume(call: &mut Call<'_, '_>, tag: &str, no_ack: bool, nowait: bool) -> Done {
    if call.ch.reply.is_some() {
        return Err(Refusal::precondition("reply consumer already set"));
    }
    if !no_ack {
        return Err(Refusal::precondition("reply consumer cannot acknowledge"));
    }
    let tag = match tag {
        "" => call.conn.unique_name("amq.ctag-", call.cx.now, call.cx.broker),
        _ => tag.to_owned(),
    };
    let made = call.conn.unique_name("amq.rabbitmq.reply-to.", call.cx.now, call.cx.broker);
    let name = Name::new(&made).map_err(|error| Refusal::new(Code::InternalError, error.to_string()))?;
    let id = call.cx.broker.open_mailbox(call.conn.session(), &call.conn.tenant, &name);
    call.conn.mailboxes.push((id, call.ch.number));
    if !nowait {
        call.reply(|out| put_short(out, &tag));
    }
    call.ch.reply = Some(Reply { id, name, tag });
    Ok(())
}

/// An answer has come.
pub fn deliver(call: &mut Call<'_, '_>, mail: &Mail) {
    // Nobody can be asked to wait, so what a reader leaves lying beyond measure is lost: answers are not stored.
    if call.cx.out.queued_bytes() > OUTPUT_BYTES_MAX {
        tracing::debug!(remote = %call.conn.peer.remote, "an answer is dropped: its reader is too slow");
        return;
    }
    let number = call.ch.next_tag();
    let ch = &mut *call.ch;
    let Some(reply) = &ch.reply else { return };
    let writer = Writer { held: &mut ch.held, out: call.cx.out, channel: ch.number, frame: call.conn.frame_bytes_max };
    writer.write_unit(&mail.unit, |out, unit| {
        put_method(out, ch.number, (60, 60), |out| {
            put_short(out, &reply.tag);
            out.extend_from_slice(&number.to_be_bytes());
            out.push(0);
            put_short(out, unit.exchange);
            put_short(out, unit.key);
        });
    });
}
