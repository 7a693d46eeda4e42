//! basic.get: one message, at once or not at all. When the disk must be waited for, the connection takes no more input
//! until the core says that it can be asked again.

use broker::access::{Operation, Resource};
use broker::queue::{Delivery, Got};
use model::ByteReader;

use super::bit;
use super::deliver::Writer;
use crate::api::queue::no_stream;
use crate::channel::unacked::Unsettled;
use crate::conn::{Call, Done, Getting};
use crate::errors::Refusal;
use crate::unit::TAG;
use crate::wire::frame::put_method;
use crate::wire::short;
use crate::wire::text::put_short;

const GET_OK: (u16, u16) = (60, 71);
const GET_EMPTY: (u16, u16) = (60, 72);

/// (ticket, queue | no_ack).
pub fn get(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let queue = call.queue_name(short(r)?)?;
    let no_ack = bit(r.u8()?, 0);
    call.may(Operation::Read, Resource::Queue(&queue))?;
    let channel = call.ch.number;
    let id = call.conn.next_call();
    call.flush();
    no_stream(call, &queue, "basic.get")?;
    ask(call, Getting { call: id, channel, queue, no_ack })
}

/// Asks, for the first time or again.
///
/// # Errors
/// What the core refuses.
pub fn ask(call: &mut Call<'_, '_>, getting: Getting) -> Done {
    let Getting { call: id, queue, no_ack, .. } = &getting;
    let got = call.cx.broker.get(call.conn.session(), *id, &call.conn.tenant, queue, *no_ack, TAG);
    match got.map_err(|error| Refusal::of(&error, "queue"))? {
        Got::Message(delivery, ready) => answer(call, &delivery, *no_ack, ready),
        Got::Empty => {
            call.ch.figures.got_nothing.add(1);
            call.say(GET_EMPTY, |out| out.push(0));
        }
        Got::Pending => call.conn.getting = Some(getting),
    }
    Ok(())
}

fn answer(call: &mut Call<'_, '_>, delivery: &Delivery, no_ack: bool, ready: u64) {
    let tag = call.ch.next_tag();
    let ch = &mut *call.ch;
    if no_ack { &ch.figures.got_settled } else { &ch.figures.got }.add(1);
    ch.figures.redelivered.add(delivery.redelivered.into());
    if !no_ack {
        ch.unacked.push(Unsettled { tag, key: delivery.key, consumer: None });
    }
    let writer = Writer { held: &mut ch.held, out: call.cx.out, channel: ch.number, frame: call.conn.frame_bytes_max };
    writer.write(delivery, |out, unit| {
        put_method(out, ch.number, GET_OK, |out| {
            out.extend_from_slice(&tag.to_be_bytes());
            out.push(u8::from(delivery.redelivered));
            put_short(out, unit.exchange);
            put_short(out, unit.key);
            out.extend_from_slice(&u32::try_from(ready).unwrap_or(u32::MAX).to_be_bytes());
        });
    });
}
