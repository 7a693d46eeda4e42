//! What becomes of deliveries: ack, nack, reject, recover.

use broker::connection::ChannelFigures;
use broker::queue::Settle;
use model::ByteReader;

use super::{bit, deliver};
use crate::api::queue::of_stream;
use crate::api::tx;
use crate::conn::{Call, Done};
use crate::errors::{Code, Refusal};

/// (tag | multiple).
pub fn ack(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let (tag, multiple) = (r.u64()?, bit(r.u8()?, 0));
    settle(call, tag, multiple, Settle::Ack)
}

/// (tag | multiple requeue).
pub fn nack(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let (tag, bits) = (r.u64()?, r.u8()?);
    settle(call, tag, bit(bits, 0), refused(bit(bits, 1)))
}

/// (tag | requeue).
pub fn reject(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    let (tag, requeue) = (r.u64()?, bit(r.u8()?, 0));
    settle(call, tag, false, refused(requeue))
}

fn refused(requeue: bool) -> Settle {
    if requeue { Settle::Requeue } else { Settle::Discard }
}

fn settle(call: &mut Call<'_, '_>, tag: u64, multiple: bool, how: Settle) -> Done {
    if how != Settle::Ack {
        not_of_stream(call, tag, multiple)?;
    }
    if tx::waits(call, how) {
        return stage(call, tag, multiple, how);
    }
    let (settles, consumers, figures) = (&mut call.conn.settles, &mut call.ch.consumers, &call.ch.figures);
    let known = call.ch.unacked.take(tag, multiple, |entry| {
        settles.add(entry.key, how);
        count(figures, how);
        // A consumer without prefetch gets its credit when messages are sent, not when they are acknowledged.
        if let Some(id) = entry.consumer
            && consumers.get_mut(id).is_some_and(|consumer| consumer.prefetch > 0)
        {
            settles.credit(entry.key, id);
        }
    });
    if !known {
        return Err(Refusal::precondition(format!("unknown delivery tag {tag}")));
    }
    if !call.ch.parked.is_empty() {
        deliver::unpark(call);
    }
    Ok(())
}

/// Counts what has become of a delivery.
pub fn count(figures: &ChannelFigures, how: Settle) {
    match how {
        Settle::Ack => figures.acked.add(1),
        Settle::Requeue | Settle::Discard => figures.given_back.add(1),
    }
}

/// What is read of a stream stays there: it can be acknowledged, which gives credit, and nothing else.
fn not_of_stream(call: &Call<'_, '_>, tag: u64, multiple: bool) -> Done {
    if !call.ch.consumers.any_stream() {
        return Ok(());
    }
    let consumers = call.ch.unacked.of(tag, multiple).filter_map(|entry| call.ch.consumers.get(entry.consumer?));
    match consumers.filter_map(|consumer| consumer.stream.as_ref()).next() {
        Some(queue) => Err(of_stream(queue, "basic.nack and basic.reject")),
        None => Ok(()),
    }
}

/// In a transaction it waits for the commit.
fn stage(call: &mut Call<'_, '_>, tag: u64, multiple: bool, how: Settle) -> Done {
    let Some(tx) = &mut call.ch.tx else { return Ok(()) };
    let before = tx.settles.len();
    if call.ch.unacked.take(tag, multiple, |entry| tx.settles.push((entry, how))) {
        call.ch.figures.uncommitted_settles.add((tx.settles.len() - before) as u64);
        return Ok(());
    }
    Err(Refusal::precondition(format!("unknown delivery tag {tag}")))
}

/// recover and recover-async: ( | requeue). All that is not acknowledged goes back to its place.
pub fn recover(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    if !bit(r.u8()?, 0) {
        return Err(Refusal::new(Code::NotImplemented, "requeue=false"));
    }
    settle(call, 0, true, Settle::Requeue)?;
    call.flush();
    if call.method.1 == 110 {
        call.reply(|_| {});
    }
    Ok(())
}
