//! The methods of an open channel: one file per class, each with the fields of its methods beside their handlers.

pub mod basic;
pub mod channel;
pub mod confirm;
pub mod equivalence;
pub mod exchange;
pub mod queue;
pub mod queue_args;
pub mod reply;
pub mod tx;

use broker::access::Operation::{self, Configure, Read, Write};
use model::ByteReader;

use crate::conn::{Call, Done};
use crate::errors::{Code, MethodId, Refusal};
use Of::{Alternate, DeadLetters, Destination, Exchange, Queue, Seen, Source, Topic};

/// What a permission is needed for, of the names in a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The exchange.
    Exchange,
    /// The queue.
    Queue,
    /// What a binding comes from; of an exchange that routes by patterns the key is looked at, too.
    Source,
    /// What a binding leads to.
    Destination,
    /// The exchange for dead letters, when the queue is new and names one.
    DeadLetters,
    /// The alternate exchange, when the exchange is new and names one.
    Alternate,
    /// The topic that a new queue shares.
    Topic,
    /// The object, by a passive declaration: any operation on it will do.
    Seen,
}

/// A permission that a method needs.
pub type Need = (Operation, Of);

/// A method of an open channel.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Class and method.
    pub id: MethodId,
    /// Every permission that it may need. The handlers check them; a test holds them against this.
    pub needs: &'static [Need],
}

/// One row for each method that a client may send on an open channel: its handler, and what permissions it needs. There
/// is no row without that.
macro_rules! methods {
    ($($class:literal $method:literal => $handler:path, $needs:expr;)*) => {
        /// All methods of an open channel but its closing.
        pub static METHODS: &[Method] = &[$(Method { id: ($class, $method), needs: $needs }),*];

        fn known(call: &mut Call<'_, '_>, r: &mut ByteReader<'_>) -> Option<Done> {
            match call.method {
                $(($class, $method) => Some($handler(call, r)),)*
                _ => None,
            }
        }
    };
}

methods! {
    60 40 => basic::publish::method, &[(Write, Exchange)];
    60 80 => basic::settle::ack, &[];
    60 120 => basic::settle::nack, &[];
    60 90 => basic::settle::reject, &[];
    60 70 => basic::get::get, &[(Read, Queue)];
    60 10 => basic::qos, &[];
    60 20 => basic::consume::consume, &[(Read, Queue)];
    60 30 => basic::consume::cancel, &[];
    60 31 => told, &[]; // the client confirms our basic.cancel
    60 100 => basic::settle::recover, &[];
    60 110 => basic::settle::recover, &[];
    20 20 => channel::flow, &[];
    20 21 => told, &[]; // the client confirms a flow we never ask for
    30 10 => channel::access, &[];
    40 10 => exchange::declare, &[(Configure, Exchange), (Read, Exchange), (Write, Alternate), (Read, Seen)];
    40 20 => exchange::delete, &[(Configure, Exchange)];
    40 30 => exchange::bind, &[(Write, Destination), (Read, Source)];
    40 40 => exchange::bind, &[(Write, Destination), (Read, Source)];
    50 10 => queue::declare,
        &[(Configure, Queue), (Read, Queue), (Write, DeadLetters), (Read, Topic), (Read, Seen)];
    50 20 => queue::bind, &[(Write, Destination), (Read, Source)];
    50 30 => queue::purge, &[(Read, Queue)];
    50 40 => queue::delete, &[(Configure, Queue)];
    50 50 => queue::unbind, &[(Write, Destination), (Read, Source)];
    85 10 => confirm::select, &[];
    90 10 => tx::select, &[];
    90 20 => tx::commit, &[];
    90 30 => tx::rollback, &[];
}

/// Handles one method; `fields` are the bytes behind its ids.
///
/// # Errors
/// [`Refusal`]: the channel or the connection is to be closed.
pub fn dispatch(call: &mut Call<'_, '_>, fields: &[u8]) -> Done {
    if let Some(done) = known(call, &mut ByteReader::new(fields)) {
        return done;
    }
    Err(match call.method {
        (10 | 20 | 40 | 50 | 60 | 85 | 90, _) => Refusal::new(Code::CommandInvalid, "unimplemented method"),
        (class, method) => Refusal::new(Code::CommandInvalid, format!("unknown method {method} of class {class}")),
    })
}

/// Something that needs no answer.
fn told(_: &mut Call<'_, '_>, _: &mut ByteReader<'_>) -> Done {
    Ok(())
}

/// Whether bit `at` of a packed octet of flags is set.
fn bit(octet: u8, at: u8) -> bool {
    octet & (1 << at) != 0
}
