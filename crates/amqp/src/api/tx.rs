//! Class tx: publishes and acknowledgements of a channel wait in its memory until it says commit. Then the publishes
//! are one batch, in all their queues or in none. What cannot be published at all is refused at once, as outside of a
//! transaction.

use broker::connection::{ChannelFigures, ChannelMode};
use broker::queue::Settle;
use broker::routing::PublishRequest;
use broker::{BrokerError, Lsn, SyncPolicy};
use model::ByteReader;

use super::basic::{deliver, publish, settle};
use crate::channel::assembly::Content;
use crate::channel::tx::{Staged, Tx};
use crate::channel::unacked::Unsettled;
use crate::config::UNFINISHED_MESSAGES_MAX;
use crate::conn::{Call, Done, Unseen};
use crate::errors::{Code, Refusal};
use crate::unit::Unit;

/// tx.select: (). Doing it again changes nothing.
pub fn select(call: &mut Call<'_, '_>, _r: &mut ByteReader<'_>) -> Done {
    if call.ch.confirms.is_some() {
        return Err(Refusal::precondition("cannot switch from confirm to tx mode"));
    }
    call.ch.tx.get_or_insert_default();
    call.ch.figures.set_mode(ChannelMode::Transactions);
    call.reply(|_| {});
    Ok(())
}

fn not_transactional() -> Refusal {
    Refusal::precondition("channel is not transactional")
}

/// A whole message joins the transaction.
///
/// # Errors
/// 403 and 404 for the exchange, 530 when the transaction grows too large.
pub fn stage(call: &mut Call<'_, '_>, content: Content) -> Done {
    let tenant = call.conn.tenant.clone();
    let bytes = call.ch.unit.bytes().to_vec();
    let Ok((unit, _)) = Unit::first(&bytes) else {
        return Err(Refusal::new(Code::InternalError, "a message was put together wrongly"));
    };
    call.cx.broker.can_publish(&tenant, unit.exchange).map_err(|error| Refusal::of(&error, "exchange"))?;
    let Some(tx) = &mut call.ch.tx else { return Err(not_transactional()) };
    let copies = std::mem::take(&mut call.ch.copies);
    let taken = tx.add(Staged { unit: bytes, copies, content });
    call.ch.figures.uncommitted.add(1);
    call.conn.unfinished_bytes += taken;
    let bytes_max = call.conn.config.message_bytes_max.saturating_mul(UNFINISHED_MESSAGES_MAX);
    if call.conn.unfinished_bytes > bytes_max {
        let text = format!("unfinished messages on this connection hold more than {bytes_max} bytes");
        return Err(Refusal::new(Code::NotAllowed, text));
    }
    Ok(())
}

/// tx.commit: (). All publishes and acknowledgements at once; then what is rejected. On a full disk it waits for room,
/// with all that follows on its channel.
pub fn commit(call: &mut Call<'_, '_>, _r: &mut ByteReader<'_>) -> Done {
    again(call)
}

/// Commits, for the first time or again.
///
/// # Errors
/// 406 on a channel without transactions, or when a queue refuses a message; what the core refuses.
pub fn again(call: &mut Call<'_, '_>) -> Done {
    let Some(tx) = &mut call.ch.tx else { return Err(not_transactional()) };
    let Tx { publishes, settles, bytes } = std::mem::take(tx);
    let stored = store(call, &publishes, &settles);
    if let Ok(None) = stored {
        call.ch.tx = Some(Tx { publishes, settles, bytes });
        publish::stall(call, None);
        return Ok(());
    }
    call.conn.unfinished_bytes = call.conn.unfinished_bytes.saturating_sub(bytes);
    nothing_waits(&call.ch.figures);
    let lsn = match stored {
        Ok(lsn) => lsn.unwrap_or_default(),
        Err(refusal) => {
            // The channel is closed for it, and what it had taken goes back with the rest.
            call.ch.unacked.restore(settles.into_iter().map(|(entry, _)| entry).collect());
            return Err(refusal);
        }
    };
    for (entry, how) in settles {
        if how != Settle::Ack {
            call.conn.settles.add(entry.key, how);
        }
        settle::count(&call.ch.figures, how);
        // A consumer without prefetch gets its credit when messages are sent, not when they are acknowledged.
        if let Some(id) = entry.consumer
            && call.ch.consumers.get_mut(id).is_some_and(|consumer| consumer.prefetch > 0)
        {
            call.conn.settles.credit(entry.key, id);
        }
    }
    call.flush();
    call.hold(lsn);
    call.reply(|_| {});
    deliver::unpark(call);
    Ok(())
}

/// Stores a transaction's publishes and acknowledgements, and returns messages that nobody takes; answers what to wait
/// for, or `None` when there is no room now and nothing was done.
fn store(
    call: &mut Call<'_, '_>,
    publishes: &[Staged],
    settles: &[(Unsettled, Settle)],
) -> Result<Option<Lsn>, Refusal> {
    let acks = settles.iter().filter(|(_, how)| *how == Settle::Ack).map(|(entry, _)| entry.key);
    let mut acks = acks.collect::<Vec<_>>();
    acks.sort_by_key(|key| key.queue);
    call.flush(); // in the order in which they came
    let tenant = call.conn.tenant.clone();
    let units = publishes.iter().filter_map(|staged| Some((staged, Unit::first(&staged.unit).ok()?.0)));
    let units = units.collect::<Vec<_>>();
    let routes = units.iter().map(|(staged, _)| staged.copies.iter().map(String::as_str).collect::<Vec<_>>());
    let routes = routes.collect::<Vec<_>>();
    let readers = units.iter().map(|(_, unit)| || publish::headers_of(unit)).collect::<Vec<_>>();
    let requests = units.iter().zip(&routes).zip(&readers).map(|(((staged, unit), routes), headers)| PublishRequest {
        tenant: &tenant,
        exchange: unit.exchange,
        key: unit.key,
        more_keys: routes,
        headers,
        format: &crate::format::FORMAT,
        unit: &staged.unit,
        time: staged.content.time(call.cx.now.wall),
        persistent: staged.content.persistent,
        marks: staged.content.marks(call.cx.now.wall),
        policy: SyncPolicy::Sync,
    });
    let requests = requests.collect::<Vec<_>>();
    let published = match call.cx.broker.publish_all(&requests, (call.conn.peer.session, &acks), call.cx.now) {
        Err(BrokerError::Storage(error)) if error.heals_alone() => return Ok(None),
        published => published.map_err(|error| Refusal::of(&error, "exchange"))?,
    };
    if published.iter().any(|told| told.stored) {
        let first = published.first();
        let (lsn, policy) = first.map_or((Lsn::default(), SyncPolicy::None), |told| (told.lsn, told.policy));
        let before = call.cx.broker.progress().written;
        call.conn.unseen = Some(Unseen { lsn, policy, before });
    }
    let mut lsn = Lsn::default();
    for (told, (staged, unit)) in published.iter().zip(&units) {
        lsn = lsn.max(told.lsn);
        publish::count(&call.ch.figures, staged.content, told);
        if told.queues == 0 && staged.content.mandatory {
            let sink = call.ch.held.sink(call.cx.out);
            publish::put_return(sink, call.ch.number, call.conn.frame_bytes_max, unit);
        }
    }
    if published.iter().any(|told| told.refused > 0) {
        return Err(Refusal::precondition("partial tx completion"));
    }
    Ok(Some(lsn))
}

/// tx.rollback: (). Publishes are forgotten; deliveries whose acknowledgement waited are unacknowledged again.
pub fn rollback(call: &mut Call<'_, '_>, _r: &mut ByteReader<'_>) -> Done {
    let Some(tx) = &mut call.ch.tx else { return Err(not_transactional()) };
    let Tx { settles, bytes, .. } = std::mem::take(tx);
    call.conn.unfinished_bytes = call.conn.unfinished_bytes.saturating_sub(bytes);
    nothing_waits(&call.ch.figures);
    call.ch.unacked.restore(settles.into_iter().map(|(entry, _)| entry).collect());
    call.reply(|_| {});
    Ok(())
}

/// The transaction is over.
fn nothing_waits(figures: &ChannelFigures) {
    figures.uncommitted.set(0);
    figures.uncommitted_settles.set(0);
}

/// Whether what becomes of a delivery waits for the commit.
#[must_use]
pub fn waits(call: &Call<'_, '_>, how: Settle) -> bool {
    // What is recovered goes back at once: it is no part of a transaction.
    call.ch.tx.is_some() && !(how == Settle::Requeue && call.method.1 >= 100 && call.method.1 <= 110)
}
