//! The methods of an open channel: one file per class, each with the fields of its methods beside their handlers.

pub mod basic;
pub mod channel;
pub mod confirm;
mod equivalence;
pub mod exchange;
pub mod queue;
pub mod queue_args;
pub mod reply;
pub mod tx;

use model::ByteReader;

use crate::conn::{Call, Done};
use crate::errors::{Code, Refusal};

/// Handles one method; `fields` are the bytes behind its ids.
///
/// # Errors
/// [`Refusal`]: the channel or the connection is to be closed.
pub fn dispatch(call: &mut Call<'_, '_>, fields: &[u8]) -> Done {
    let r = &mut ByteReader::new(fields);
    match call.method {
        (60, 40) => basic::publish::method(call, r),
        (60, 80) => basic::settle::ack(call, r),
        (60, 120) => basic::settle::nack(call, r),
        (60, 90) => basic::settle::reject(call, r),
        (60, 70) => basic::get::get(call, r),
        (60, 10) => basic::qos(call, r),
        (60, 20) => basic::consume::consume(call, r),
        (60, 30) => basic::consume::cancel(call, r),
        (60, 31) => Ok(()), // the client confirms our basic.cancel
        (60, 100 | 110) => basic::settle::recover(call, r),
        (20, 20) => channel::flow(call, r),
        (20, 21) => Ok(()), // the client confirms a flow we never ask for
        (30, 10) => channel::access(call, r),
        (40, 10) => exchange::declare(call, r),
        (40, 20) => exchange::delete(call, r),
        (40, 30 | 40) => exchange::bind(call, r),
        (50, 10) => queue::declare(call, r),
        (50, 20) => queue::bind(call, r),
        (50, 30) => queue::purge(call, r),
        (50, 40) => queue::delete(call, r),
        (50, 50) => queue::unbind(call, r),
        (85, 10) => confirm::select(call, r),
        (90, 10) => tx::select(call, r),
        (90, 20) => tx::commit(call, r),
        (90, 30) => tx::rollback(call, r),
        (10 | 20 | 40 | 50 | 60 | 85 | 90, _) => Err(Refusal::new(Code::CommandInvalid, "unimplemented method")),
        (class, method) => Err(Refusal::new(Code::CommandInvalid, format!("unknown method {method} of class {class}"))),
    }
}

/// Whether bit `at` of a packed octet of flags is set.
fn bit(octet: u8, at: u8) -> bool {
    octet & (1 << at) != 0
}
