//! basic.publish: the method, the content header, the body frames; then one call to the core. The unit is put together
//! in the channel's scratch memory while frames arrive: the body is copied once, nothing else is allocated.

use broker::access::{Operation, Resource};
use broker::connection::ChannelFigures;
use broker::routing::{PublishRequest, Published};
use broker::{BrokerError, StorageError, SyncPolicy};
use model::{ByteReader, Header};

use super::{bit, copies, delay};
use crate::api::reply::REPLY_TO;
use crate::api::tx;
use crate::channel::assembly::{Assembly, Content};
use crate::channel::confirms::{put_ack, put_nack};
use crate::config::{SCRATCH_BYTES_KEPT, STALLED_AGAIN, UNFINISHED_MESSAGES_MAX};
use crate::conn::{Alarmed, Call, Done, Stalled, Unseen};
use crate::errors::{Code, Refusal};
use crate::format::{FORMAT, time_to_live};
use crate::unit::Unit;
use crate::wire::props::{self, Props};
use crate::wire::table;
use crate::wire::text::put_short;
use crate::wire::{frame, short};

const PUBLISH: (u16, u16) = (60, 40);
const RETURN: (u16, u16) = (60, 50);

/// The longest time to live that RabbitMQ takes, in milliseconds: ten years.
const EXPIRATION_MAX: u64 = 315_360_000_000;

/// (ticket, exchange, key | mandatory immediate).
pub fn method(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Done {
    r.u16()?;
    let (exchange, key) = (short(r)?, short(r)?);
    let bits = r.u8()?;
    if bit(bits, 1) {
        return Err(Refusal::new(Code::NotImplemented, "immediate=true"));
    }
    call.ch.unit.begin(exchange, key);
    call.ch.copies.clear();
    call.ch.assembly = Assembly::Header { mandatory: bit(bits, 0) };
    Ok(())
}

/// The content header: (class, weight, body size, flags, properties).
///
/// # Errors
/// 505 out of place, 406 for properties that are refused or a message too large.
pub fn header(call: &mut Call<'_, '_>, payload: &[u8]) -> Done {
    let Assembly::Header { mandatory } = call.ch.assembly else {
        return Err(unexpected(call, frame::Kind::Header));
    };
    let mut r = ByteReader::new(payload);
    let class = r.u16()?;
    if class != PUBLISH.0 {
        let text = format!("expected content header for class 60, got one for class {class} instead");
        return Err(Refusal::new(Code::UnexpectedFrame, text).caused_by(PUBLISH));
    }
    r.u16()?;
    let body_bytes = r.u64()?;
    let raw = r.rest();
    let props = props::read(raw).map_err(Refusal::from).map_err(|refusal| refusal.caused_by(PUBLISH))?;
    // What is refused here closes the channel: the body frames on their way are ignored with the rest.
    let bytes_max = call.conn.config.message_bytes_max;
    if body_bytes > bytes_max {
        let text = format!("message size {body_bytes} is larger than configured max size {bytes_max}");
        return Err(Refusal::precondition(text).caused_by(PUBLISH));
    }
    may_publish(call).map_err(|refusal| refusal.caused_by(PUBLISH))?;
    let hides = check(call, &props).map_err(|refusal| refusal.caused_by(PUBLISH))?;
    may_route(call).map_err(|refusal| refusal.caused_by(PUBLISH))?;
    let whose = (&*call.conn.tenant, call.ch.unit.exchange());
    delay::check(call.cx.broker, whose, &props).map_err(|refusal| refusal.caused_by(PUBLISH))?;
    match rewritten(call, raw, &props, hides)? {
        Some(raw) => call.ch.unit.props(&raw),
        None => call.ch.unit.props(raw),
    }
    let content = Content {
        mandatory,
        persistent: props.delivery_mode == Some(2),
        timestamp: props.timestamp,
        priority: props.priority.unwrap_or(0),
        time_to_live_ms: time_to_live(&props),
        body_bytes,
        left: body_bytes,
    };
    if body_bytes == 0 {
        return publish(call, content);
    }
    call.ch.assembly = Assembly::Body(content);
    Ok(())
}

/// A body frame.
///
/// # Errors
/// 505 out of place, 501 when the body exceeds its announced size, what the core refuses.
pub fn body(call: &mut Call<'_, '_>, payload: &[u8]) -> Done {
    let Assembly::Body(mut content) = call.ch.assembly else {
        return Err(unexpected(call, frame::Kind::Body));
    };
    let Some(left) = content.left.checked_sub(payload.len() as u64) else {
        let text = format!("body frames exceed the announced body size of {}", content.body_bytes);
        return Err(Refusal::new(Code::FrameError, text).caused_by(PUBLISH));
    };
    call.ch.unit.body(payload);
    if left == 0 {
        call.conn.finished(call.ch);
        return publish(call, content);
    }
    content.left = left;
    call.ch.assembly = Assembly::Body(content);
    call.conn.unfinished_bytes += payload.len() as u64;
    // One message at a time is what a connection can send anyway: only somebody who wants our memory needs more.
    let bytes_max = call.conn.config.message_bytes_max.saturating_mul(UNFINISHED_MESSAGES_MAX);
    if call.conn.unfinished_bytes > bytes_max {
        let text = format!("unfinished messages on this connection hold more than {bytes_max} bytes");
        return Err(Refusal::new(Code::NotAllowed, text).caused_by(PUBLISH));
    }
    Ok(())
}

/// A frame that the channel did not expect.
pub fn unexpected(call: &Call<'_, '_>, got: frame::Kind) -> Refusal {
    let (text, cause) = match call.ch.assembly {
        Assembly::Idle => ("expected method frame, got non method frame instead", (0, 0)),
        Assembly::Header { .. } if got == frame::Kind::Header => ("expected content header", PUBLISH),
        Assembly::Header { .. } => {
            ("expected content header for class 60, got non content header frame instead", PUBLISH)
        }
        Assembly::Body(_) => ("expected content body, got non content body frame instead", PUBLISH),
    };
    Refusal::new(Code::UnexpectedFrame, text).caused_by(cause)
}

/// The properties as they are stored, where these are not those sent: without BCC, with the name by which the
/// answer to a question comes back.
fn rewritten(call: &Call<'_, '_>, raw: &[u8], props: &Props<'_>, hides: bool) -> Result<Option<Vec<u8>>, Refusal> {
    let mut made = if hides { Some(copies::without_bcc(raw, props)?) } else { None };
    if props.reply_to == Some(REPLY_TO.as_bytes())
        && let Some(reply) = &call.ch.reply
    {
        let base = made.as_deref().unwrap_or(raw);
        made = Some(props::with_reply_to(base, &props::read(base)?, &reply.name));
    }
    Ok(made)
}

/// Whether the user may write to the exchange. What was allowed before is remembered: no pattern is matched then.
fn may_publish(call: &mut Call<'_, '_>) -> Done {
    let exchange = call.ch.unit.exchange();
    let allowed = call.conn.pass.check(call.cx.broker, Resource::Exchange(exchange), Operation::Write);
    allowed.map_err(|denied| Refusal::denied(&denied))
}

/// … and with its routing keys, if it routes by patterns.
fn may_route(call: &mut Call<'_, '_>) -> Done {
    let (unit, pass) = (&call.ch.unit, &mut call.conn.pass);
    if !pass.has_keys(call.cx.broker) {
        return Ok(());
    }
    let keys = std::iter::once(unit.key()).chain(call.ch.copies.iter().map(String::as_str)).collect::<Vec<_>>();
    let allowed = pass.check_keys(call.cx.broker, unit.exchange(), &keys, false);
    allowed.map_err(|denied| Refusal::denied(&denied))
}

/// Properties that RabbitMQ refuses, and those that are not served yet. True when there is a BCC to take out.
fn check(call: &mut Call<'_, '_>, props: &Props<'_>) -> Result<bool, Refusal> {
    check_props(props, (&call.conn.user, call.conn.impersonator))?;
    if props.reply_to == Some(REPLY_TO.as_bytes()) && call.ch.reply.is_none() {
        return Err(Refusal::precondition("fast reply consumer does not exist"));
    }
    match props.headers {
        Some(headers) => copies::collect(headers, &mut call.ch.copies),
        None => Ok(false),
    }
}

/// Properties that RabbitMQ refuses, whatever the channel.
///
/// # Errors
/// 406 that says which.
pub fn check_props(props: &Props<'_>, (user_name, impersonator): (&str, bool)) -> Done {
    if let Some(mode) = props.delivery_mode
        && !(1..=2).contains(&mode)
    {
        return Err(Refusal::precondition(format!("invalid message: {{delivery_mode_unknown,{mode}}}")));
    }
    if let Some(user) = props.user_id
        && user != user_name.as_bytes()
        && !impersonator
    {
        return Err(Refusal::precondition(format!(
            "user_id property set to '{}' but authenticated user was '{user_name}'",
            String::from_utf8_lossy(user),
        )));
    }
    props.expiration.map_or(Ok(()), check_expiration)
}

/// Expiration is digits, at most ten years of milliseconds; each fault in the words of Erlang that clients know.
fn check_expiration(text: &[u8]) -> Done {
    let text = String::from_utf8_lossy(text);
    let fault = |why: String| Err(Refusal::precondition(format!("invalid expiration '{text}': {why}")));
    let digits_at = usize::from(text.starts_with(['-', '+']));
    let digits_end = text.bytes().skip(digits_at).take_while(u8::is_ascii_digit).count() + digits_at;
    let (number, rest) = text.split_at(digits_end);
    if digits_end == digits_at {
        return fault("no_integer".to_owned());
    }
    if !rest.is_empty() {
        return fault(format!("{{leftover_string,\"{rest}\"}}"));
    }
    if number.starts_with('-') && number.bytes().skip(1).any(|digit| digit != b'0') {
        return fault(format!("{{value_negative,{number}}}"));
    }
    let value = number.trim_start_matches(['-', '+']);
    match value.parse::<u64>() {
        Ok(ms) if ms <= EXPIRATION_MAX => Ok(()),
        _ => fault(format!("{{value_too_large,{value}}}")),
    }
}

/// The message is whole.
fn publish(call: &mut Call<'_, '_>, content: Content) -> Done {
    call.ch.assembly = Assembly::Idle;
    call.ch.unit.finish(content.persistent, call.cx.now.wall);
    let done = if call.ch.tx.is_some() { tx::stage(call, content) } else { store(call, content) };
    heed_alarm(call);
    if call.conn.stalled.is_none() {
        call.ch.unit.shrink(SCRATCH_BYTES_KEPT);
    }
    done.map_err(|refusal| refusal.caused_by(PUBLISH))
}

/// Tries a publish again for which there was no room.
///
/// # Errors
/// As before.
pub fn again(call: &mut Call<'_, '_>, content: Content) -> Done {
    let done = store(call, content);
    if call.conn.stalled.is_none() {
        call.ch.unit.shrink(SCRATCH_BYTES_KEPT);
    }
    done.map_err(|refusal| refusal.caused_by(PUBLISH))
}

/// The headers of a message.
#[must_use]
pub fn headers_of(unit: &Unit<'_>) -> Vec<Header> {
    let headers = unit.properties().ok().and_then(|props| props.headers);
    headers.and_then(|headers| table::read(headers).ok()).unwrap_or_default()
}

fn store(call: &mut Call<'_, '_>, content: Content) -> Done {
    let Ok((unit, _)) = Unit::first(call.ch.unit.bytes()) else {
        return Err(Refusal::new(Code::InternalError, "a message was put together wrongly"));
    };
    let confirming = call.ch.confirms.is_some();
    let policy = if confirming { SyncPolicy::Sync } else { SyncPolicy::None };
    let more_keys = call.ch.copies.iter().map(String::as_str).collect::<Vec<_>>();
    let request = PublishRequest {
        tenant: &call.conn.tenant,
        exchange: unit.exchange,
        key: unit.key,
        more_keys: &more_keys,
        headers: &|| headers_of(&unit),
        format: &FORMAT,
        unit: call.ch.unit.bytes(),
        time: content.time(call.cx.now.wall),
        persistent: content.persistent,
        marks: content.marks(call.cx.now.wall),
        policy,
    };
    match call.cx.broker.publish(&request, call.cx.now) {
        Ok(published) => {
            stored(call, content, published);
            Ok(())
        }
        Err(BrokerError::Storage(error)) if error.heals_alone() => {
            stall(call, Some(content));
            Ok(())
        }
        // Sent again it would fit as little: the publisher is told why, as for what is larger than a message may be.
        Err(BrokerError::Storage(StorageError::TooLarge { bytes, bytes_max })) => {
            let text = format!("message size {bytes} is larger than configured max size {bytes_max} of the journal");
            Err(Refusal::precondition(text).caused_by(PUBLISH))
        }
        Err(BrokerError::Storage(error)) => match &mut call.ch.confirms {
            Some(confirms) => {
                let number = confirms.count();
                call.ch.figures.confirming.add(1);
                call.ch.figures.refused.add(1);
                tracing::debug!(%error, "a publish is refused");
                put_nack(call.ch.held.sink(call.cx.out), call.ch.number, number);
                Ok(())
            }
            None => Err(Refusal::of_storage(&error)),
        },
        Err(error) => Err(Refusal::of(&error, "exchange")),
    }
}

/// It is in its queues, or in none: returned, confirmed.
fn stored(call: &mut Call<'_, '_>, content: Content, published: Published) {
    let policy = published.policy;
    if published.stored {
        let before = call.cx.broker.progress().written;
        call.conn.unseen = Some(Unseen { lsn: published.lsn, policy, before });
    }
    count(&call.ch.figures, content, &published);
    let sink = call.ch.held.sink(call.cx.out);
    if published.queues == 0
        && content.mandatory
        && let Ok((unit, _)) = Unit::first(call.ch.unit.bytes())
    {
        put_return(sink, call.ch.number, call.conn.frame_bytes_max, &unit);
    }
    if let Some(confirms) = &mut call.ch.confirms {
        let number = confirms.count();
        call.ch.figures.confirming.add(1);
        if published.refused > 0 {
            call.ch.figures.refused.add(1);
            put_nack(sink, call.ch.number, number);
        } else if confirms.wait(number, published.lsn, policy, call.cx.broker.progress()) {
            call.conn.confirms_waiting += 1;
            call.conn.list(call.ch);
        } else {
            call.ch.figures.confirmed.add(1);
            put_ack(sink, call.ch.number, number);
        }
    }
}

/// Counts a publish that the core took.
pub fn count(figures: &ChannelFigures, content: Content, published: &Published) {
    figures.published.add(1);
    if published.queues > 0 {
        figures.routed.add(1);
    } else if content.mandatory {
        figures.returned.add(1);
    } else {
        figures.dropped.add(1);
    }
}

/// There is no room: the message (or the channel's transaction) waits here until there is, and the client is asked to
/// wait.
pub fn stall(call: &mut Call<'_, '_>, content: Option<Content>) {
    let again_at = call.cx.now.mono.plus(STALLED_AGAIN);
    call.conn.stalled = Some(Stalled { channel: call.ch.number, content, again_at, holds_input: false });
    say_blocked(call);
}

/// While memory is low a publisher's message is taken, and then it is asked to wait.
fn heed_alarm(call: &mut Call<'_, '_>) {
    if call.conn.alarmed.is_none() && call.cx.broker.is_low_on_memory() {
        let again_at = call.cx.now.mono.plus(STALLED_AGAIN);
        call.conn.alarmed = Some(Alarmed { again_at, holds_input: false });
        say_blocked(call);
    }
}

/// Once, to a client that wants to know; in RabbitMQ's words.
fn say_blocked(call: &mut Call<'_, '_>) {
    if !call.conn.blocked_notify || std::mem::replace(&mut call.conn.blocked_said, true) {
        return;
    }
    let why = match (call.cx.broker.is_low_on_memory(), call.conn.stalled.is_some()) {
        (true, true) => "low on memory & disk",
        (true, false) => "low on memory",
        (false, _) => "low on disk",
    };
    frame::put_method(call.cx.out.buffer(), 0, (10, 60), |out| put_short(out, why));
}

/// basic.return: nobody takes the message. (code, text, exchange, key) and the content as it came.
pub fn put_return(out: &mut Vec<u8>, channel: u16, frame_bytes_max: usize, unit: &Unit<'_>) {
    frame::put_method(out, channel, RETURN, |out| {
        out.extend_from_slice(&312u16.to_be_bytes());
        put_short(out, "NO_ROUTE");
        put_short(out, unit.exchange);
        put_short(out, unit.key);
    });
    frame::put_header(out, channel, unit.body.len() as u64, unit.props);
    super::deliver::put_body(out, channel, frame_bytes_max, unit.body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expirations_are_judged_in_rabbitmqs_words() {
        for (text, why) in [
            ("abc", "no_integer"),
            ("", "no_integer"),
            ("1.5", "{leftover_string,\".5\"}"),
            ("-1", "{value_negative,-1}"),
            ("315360000001", "{value_too_large,315360000001}"),
            ("99999999999999999999999", "{value_too_large,99999999999999999999999}"),
        ] {
            let said = check_expiration(text.as_bytes()).unwrap_err().reply_text("/");
            assert_eq!(said, format!("PRECONDITION_FAILED - invalid expiration '{text}': {why}"));
        }
        for text in ["0", "1000", "315360000000"] {
            assert!(check_expiration(text.as_bytes()).is_ok());
        }
    }
}
