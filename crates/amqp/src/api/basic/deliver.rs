//! Messages on their way out: basic.deliver and the content of basic.get-ok. Stored units are cut into frames as they
//! are; only messages of other tongues are put into our form first.

use broker::queue::{Body, ConsumerId, Delivery, Tell};
use broker::{OUTPUT_ROOM_BYTES, Outbox};
use bytes::Bytes;

use crate::channel::held::Held;
use crate::channel::unacked::Unsettled;
use crate::conn::Call;
use crate::format::build_one;
use crate::unit::{Unit, UnitBuilder};
use crate::wire::frame::{OVERHEAD, put_body_start, put_end, put_header_with, put_method};
use crate::wire::props::put_with_numbers;
use crate::wire::text::put_short;

const DELIVER: (u16, u16) = (60, 60);

/// Bodies from this size on are not copied into the output.
const SHARE_BYTES_MIN: usize = 4096;

/// Deliveries for one consumer of the channel, in order.
pub fn deliveries(call: &mut Call<'_, '_>, consumer: ConsumerId, mut deliveries: Vec<Delivery>) {
    let Some(found) = call.ch.consumers.get_mut(consumer) else {
        call.conn.give_back(&deliveries, call.cx.broker);
        return;
    };
    let no_ack = found.no_ack;
    for delivery in deliveries.drain(..) {
        if no_ack || (call.ch.parked.is_empty() && call.ch.has_room()) {
            deliver(call, consumer, &delivery);
        } else {
            call.ch.parked.push_back((consumer, delivery));
        }
    }
    call.cx.broker.spent(deliveries);
}

/// Sends what the shared prefetch allows now.
pub fn unpark(call: &mut Call<'_, '_>) {
    while !call.ch.parked.is_empty() && call.ch.has_room() {
        if let Some((consumer, delivery)) = call.ch.parked.pop_front() {
            deliver(call, consumer, &delivery);
        }
    }
}

fn deliver(call: &mut Call<'_, '_>, id: ConsumerId, delivery: &Delivery) {
    let tag = call.ch.next_tag();
    let ch = &mut *call.ch;
    let Some(consumer) = ch.consumers.get_mut(id) else {
        call.conn.give_back(std::slice::from_ref(delivery), call.cx.broker);
        return;
    };
    let figures = &ch.figures;
    if consumer.no_ack { &figures.delivered_settled } else { &figures.delivered }.add(1);
    figures.redelivered.add(delivery.redelivered.into());
    if !consumer.no_ack {
        ch.unacked.push(Unsettled { tag, key: delivery.key, consumer: Some(id) });
    }
    if consumer.prefetch == 0 && consumer.sent(delivery_bytes(delivery)) {
        call.conn.starved.push(id);
    }
    let writer = Writer { held: &mut ch.held, out: call.cx.out, channel: ch.number, frame: call.conn.frame_bytes_max };
    writer.write(delivery, |out, unit| {
        put_method(out, ch.number, DELIVER, |out| {
            put_short(out, &consumer.tag);
            out.extend_from_slice(&tag.to_be_bytes());
            out.push(u8::from(delivery.redelivered));
            put_short(out, unit.exchange);
            put_short(out, unit.key);
        });
    });
}

/// New credit for consumers without prefetch, as far as their output has room: as much as they were sent.
pub fn refill(call: &mut Call<'_, '_>, id: ConsumerId) {
    if let Some(consumer) = call.ch.consumers.get_mut(id)
        && consumer.owed > 0
    {
        let more = consumer.refill();
        if more > 0 {
            call.cx.broker.credit(id, more);
        }
    }
}

/// The headers that a consumer is told beside the message: numbers, one or two.
#[derive(Clone, Copy)]
enum Told {
    One((&'static str, i64)),
    Two([(&'static str, i64); 2]),
}

impl Told {
    fn of(delivery: &Delivery) -> Option<Told> {
        let offset = ("x-stream-offset", i64::try_from(delivery.key.offset.0).unwrap_or(i64::MAX));
        match delivery.tell {
            Tell::Nothing => None,
            Tell::Attempts => Some(Told::One(("x-delivery-count", delivery.attempts.into()))),
            Tell::Offset => Some(Told::One(offset)),
            Tell::Place(partition) => Some(Told::Two([offset, ("x-stream-partition", partition.into())])),
        }
    }

    fn numbers(&self) -> &[(&'static str, i64)] {
        match self {
            Told::One(one) => std::slice::from_ref(one),
            Told::Two(both) => both,
        }
    }
}

fn delivery_bytes(delivery: &Delivery) -> usize {
    match &delivery.body {
        Body::Unit(unit) => unit.len(),
        Body::Neutral(message) => message.value.as_ref().map_or(0, Bytes::len),
    }
}

/// Whether consumers may be granted more.
#[must_use]
pub fn has_room(out: &Outbox) -> bool {
    out.queued_bytes() < OUTPUT_ROOM_BYTES
}

/// Where a message is written to.
pub struct Writer<'a> {
    /// Replies held back: then the message goes behind them.
    pub held: &'a mut Held,
    /// The output.
    pub out: &'a mut Outbox,
    /// The channel's number.
    pub channel: u16,
    /// The largest frame.
    pub frame: usize,
}

impl Writer<'_> {
    /// Writes one message: the method by `method`, then header and body.
    pub fn write(self, delivery: &Delivery, method: impl FnOnce(&mut Vec<u8>, &Unit<'_>)) {
        match &delivery.body {
            Body::Unit(bytes) => self.write_told(bytes, Told::of(delivery), method),
            Body::Neutral(message) => {
                let mut builder = UnitBuilder::default();
                build_one(message, &mut builder);
                self.write_told(&Bytes::from(builder.into_bytes()), Told::of(delivery), method);
            }
        }
    }

    /// Writes one message that is a unit of ours.
    pub fn write_unit(self, bytes: &Bytes, method: impl FnOnce(&mut Vec<u8>, &Unit<'_>)) {
        self.write_told(bytes, None, method);
    }

    fn write_told(self, bytes: &Bytes, told: Option<Told>, method: impl FnOnce(&mut Vec<u8>, &Unit<'_>)) {
        // A unit that cannot be read is damage that storage's checks let pass: an empty message keeps tags in step.
        let unit = match Unit::first(bytes) {
            Ok((unit, _)) => unit,
            Err(error) => {
                tracing::error!(%error, "a stored message cannot be read");
                Unit::EMPTY
            }
        };
        let sink = self.held.sink(self.out);
        method(sink, &unit);
        put_header_with(sink, (self.channel, unit.body.len() as u64), |out| {
            let is_told = told.is_some_and(|told| put_with_numbers(out, unit.props, told.numbers()).is_ok());
            if !is_told {
                out.extend_from_slice(unit.props);
            }
        });
        if unit.body.len() < SHARE_BYTES_MIN || !self.held.is_empty() {
            put_body(self.held.sink(self.out), self.channel, self.frame, unit.body);
            return;
        }
        for piece in unit.body.chunks(self.frame - OVERHEAD) {
            put_body_start(self.out.buffer(), self.channel, piece.len());
            self.out.push(bytes.slice_ref(piece));
            put_end(self.out.buffer());
        }
    }
}

/// A body cut into frames; none for an empty one.
pub fn put_body(out: &mut Vec<u8>, channel: u16, frame_bytes_max: usize, body: &[u8]) {
    for piece in body.chunks(frame_bytes_max - OVERHEAD) {
        put_body_start(out, channel, piece.len());
        out.extend_from_slice(piece);
        put_end(out);
    }
}
