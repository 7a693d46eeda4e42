//! What the broker tells sessions later.

use crate::group::{GroupError, Joined, Synced};
use crate::queue::{ConsumerId, Delivery, DeliveryKey};
use crate::routing::Mail;
use crate::user::{LoginError, Principal};

/// Names a session while the process lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SessionId(pub u64);

/// Chosen by the session to recognise the answer to a call of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CallId(pub u64);

/// What a session cannot go on without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evicted {
    /// Its tenant was deleted.
    Tenant,
    /// Its user was deleted.
    User,
}

/// Something a session asked to be told.
#[derive(Debug)]
pub enum Event {
    /// One of the logs of [`crate::Broker::watch`] has something new (or a cold read is ready): fetch again.
    Readable(CallId),
    /// The answer to a join.
    Joined(CallId, Result<Joined, GroupError>),
    /// The answer to a sync.
    Synced(CallId, Result<Synced, GroupError>),
    /// The answer to a login.
    Login(CallId, Result<Principal, LoginError>),
    /// The answer to [`crate::Broker::put_user`]: hold the reply back until synced up to here.
    UserStored(CallId, Result<storage::Lsn, crate::BrokerError>),
    /// What [`crate::Broker::work_aside`] found; nothing when the work failed in itself.
    Aside(CallId, Option<crate::aside::Found>),
    /// Messages for a consumer of a queue, in order.
    Deliver(ConsumerId, Vec<Delivery>),
    /// A message posted to a mailbox of the session.
    Mail(Mail),
    /// A `get` that had to wait for the disk can be asked again.
    GetReady(CallId),
    /// The session holds this message for longer than its queue allows, in milliseconds: it should give it back.
    SettleLate(DeliveryKey, u64),
    /// An operator wants the connection to go: its client is told this.
    Close(String),
    /// The consumer's queue is gone: no more deliveries.
    ConsumerCancelled(ConsumerId),
    /// What the session stands on is gone: it ends, telling its client why.
    Evicted(Evicted),
}
