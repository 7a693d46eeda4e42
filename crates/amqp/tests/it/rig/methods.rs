//! The methods of a client as frames, each by its own name.

use amqp::wire::frame::{self, Kind};
use amqp::wire::{table, text::put_long, text::put_short};
use model::{Header, HeaderValue};

pub fn method(channel: u16, id: (u16, u16), write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_method(&mut out, channel, id, write);
    out
}

pub fn open_channel(channel: u16) -> Vec<u8> {
    method(channel, (20, 10), |out| put_short(out, ""))
}

pub fn open_vhost(vhost: &str) -> Vec<u8> {
    method(0, (10, 40), |out| {
        put_short(out, vhost);
        out.extend_from_slice(&[0, 0]);
    })
}

pub fn start_ok(user: &str, password: &str, capable: bool) -> Vec<u8> {
    start_ok_by("PLAIN", format!("\0{user}\0{password}").as_bytes(), capable)
}

/// By any mechanism.
pub fn start_ok_by(mechanism: &str, response: &[u8], capable: bool) -> Vec<u8> {
    method(0, (10, 11), |out| {
        let capabilities: &[u8] =
            b"\x16consumer_cancel_notifyt\x01\x1cauthentication_failure_closet\x01\x12connection.blockedt\x01";
        let mut properties = Vec::new();
        if capable {
            put_short(&mut properties, "capabilities");
            properties.push(b'F');
            put_long(&mut properties, capabilities);
        }
        put_long(out, &properties);
        put_short(out, mechanism);
        put_long(out, response);
        put_short(out, "en_US");
    })
}

pub const DURABLE: u8 = 2;
pub const PASSIVE: u8 = 1;
pub const EXCLUSIVE: u8 = 4;
pub const AUTO_DELETE_EXCHANGE: u8 = 4;
pub const INTERNAL: u8 = 8;
pub const AUTO_DELETE: u8 = 8;

pub fn declare(channel: u16, queue: &str, bits: u8) -> Vec<u8> {
    declare_with(channel, queue, bits, &[])
}

pub fn declare_with(channel: u16, queue: &str, bits: u8, table: &[u8]) -> Vec<u8> {
    method(channel, (50, 10), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, queue);
        out.push(bits);
        put_long(out, table);
    })
}

pub fn delete(channel: u16, queue: &str, bits: u8) -> Vec<u8> {
    method(channel, (50, 40), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, queue);
        out.push(bits);
    })
}

pub fn declare_exchange(channel: u16, exchange: &str, kind: &str, bits: u8) -> Vec<u8> {
    declare_exchange_with(channel, (exchange, kind), bits, &[])
}

pub fn declare_exchange_with(channel: u16, (exchange, kind): (&str, &str), bits: u8, table: &[Header]) -> Vec<u8> {
    method(channel, (40, 10), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, exchange);
        put_short(out, kind);
        out.push(bits);
        table::put(out, table);
    })
}

/// A header with a text.
pub fn text_header(name: &str, text: &str) -> Header {
    Header { name: name.into(), value: HeaderValue::Text(text.into()) }
}

/// exchange.bind, or with 40 exchange.unbind.
pub fn bind_exchange(channel: u16, method_id: u16, (to, from): (&str, &str), key: &str) -> Vec<u8> {
    method(channel, (40, method_id), |out| {
        out.extend_from_slice(&[0, 0]);
        [to, from, key].iter().for_each(|text| put_short(out, text));
        out.push(0);
        put_long(out, &[]);
    })
}

pub fn delete_exchange(channel: u16, exchange: &str) -> Vec<u8> {
    method(channel, (40, 20), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, exchange);
        out.push(0);
    })
}

pub fn bind(channel: u16, queue: &str, exchange: &str, key: &str) -> Vec<u8> {
    bind_with(channel, queue, (exchange, key), &[])
}

pub fn bind_with(channel: u16, queue: &str, (exchange, key): (&str, &str), table: &[Header]) -> Vec<u8> {
    method(channel, (50, 20), |out| {
        out.extend_from_slice(&[0, 0]);
        [queue, exchange, key].iter().for_each(|text| put_short(out, text));
        out.push(0);
        table::put(out, table);
    })
}

/// A publish: `bits` 1 is mandatory. `props` with their flags.
pub fn publish(channel: u16, (exchange, key): (&str, &str), bits: u8, props: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = method(channel, (60, 40), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, exchange);
        put_short(out, key);
        out.push(bits);
    });
    frame::put_header(&mut out, channel, body.len() as u64, props);
    for piece in body.chunks(131_064) {
        frame::put(&mut out, Kind::Body, channel, |out| out.extend_from_slice(piece));
    }
    out
}

pub const TRANSIENT: &[u8] = &[0, 0];
pub const PERSISTENT: &[u8] = &[0x10, 0, 2];

pub fn get(channel: u16, queue: &str, no_ack: bool) -> Vec<u8> {
    method(channel, (60, 70), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, queue);
        out.push(u8::from(no_ack));
    })
}

/// `bits`: 2 no_ack, 4 exclusive, 8 nowait.
pub fn consume(channel: u16, queue: &str, tag: &str, bits: u8) -> Vec<u8> {
    method(channel, (60, 20), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, queue);
        put_short(out, tag);
        out.push(bits);
        put_long(out, &[]);
    })
}

pub fn cancel(channel: u16, tag: &str) -> Vec<u8> {
    method(channel, (60, 30), |out| {
        put_short(out, tag);
        out.push(0);
    })
}

pub fn ack(channel: u16, tag: u64, multiple: bool) -> Vec<u8> {
    method(channel, (60, 80), |out| {
        out.extend_from_slice(&tag.to_be_bytes());
        out.push(u8::from(multiple));
    })
}

/// `bits`: 1 multiple, 2 requeue.
pub fn nack(channel: u16, tag: u64, bits: u8) -> Vec<u8> {
    method(channel, (60, 120), |out| {
        out.extend_from_slice(&tag.to_be_bytes());
        out.push(bits);
    })
}

pub fn recover(channel: u16) -> Vec<u8> {
    method(channel, (60, 110), |out| out.push(1))
}

pub fn purge(channel: u16, queue: &str) -> Vec<u8> {
    method(channel, (50, 30), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, queue);
        out.push(0);
    })
}

pub fn qos(channel: u16, count: u16, global: bool) -> Vec<u8> {
    method(channel, (60, 10), |out| {
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&count.to_be_bytes());
        out.push(u8::from(global));
    })
}

pub fn confirm(channel: u16) -> Vec<u8> {
    method(channel, (85, 10), |out| out.push(0))
}

pub fn close_channel(channel: u16) -> Vec<u8> {
    method(channel, (20, 40), |out| {
        out.extend_from_slice(&200u16.to_be_bytes());
        put_short(out, "bye");
        out.extend_from_slice(&[0; 4]);
    })
}

pub fn close_ok(channel: u16) -> Vec<u8> {
    method(channel, if channel == 0 { (10, 51) } else { (20, 41) }, |_| {})
}

pub fn close_connection() -> Vec<u8> {
    method(0, (10, 50), |out| {
        out.extend_from_slice(&200u16.to_be_bytes());
        put_short(out, "bye");
        out.extend_from_slice(&[0; 4]);
    })
}
