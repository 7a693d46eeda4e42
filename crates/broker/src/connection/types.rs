//! What sessions say of themselves, and what they count while they run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Header, Name, Wall};

use crate::queue::ConsumerId;
use crate::{Secured, SessionId};

/// A number that the data thread alone changes and anybody may read: changing it is a load and a store, no lock.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    /// Takes `less` away.
    pub fn take(&self, less: u64) {
        self.set(self.get().saturating_sub(less));
    }

    /// Takes the place of what it was.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// As it stands.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a connection is encrypted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Encryption {
    /// The protocol's version.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// Whom the client's certificate names, if it sent one.
    pub peer_subject: Option<String>,
    /// Who signed that.
    pub peer_issuer: Option<String>,
    /// From when until when that is valid.
    pub peer_validity: Option<String>,
}

impl From<&Secured> for Encryption {
    fn from(secured: &Secured) -> Encryption {
        let shown = secured.certificate.as_ref();
        Encryption {
            version: secured.version.to_owned(),
            cipher: secured.cipher_suite.clone(),
            peer_subject: shown.map(|certificate| certificate.subject.clone()),
            peer_issuer: shown.map(|certificate| certificate.issuer.clone()),
            peer_validity: shown.map(|certificate| certificate.validity.clone()),
        }
    }
}

/// What a connection is: fixed once its client has logged in.
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectionInfo {
    /// Its session.
    pub session: SessionId,
    /// The tongue it speaks.
    pub tongue: &'static str,
    /// The protocol and its version, as its users call it.
    pub protocol: &'static str,
    /// Who is logged in.
    pub user: Name,
    /// Whose things it uses.
    pub tenant: Name,
    /// The client's address.
    pub peer: SocketAddr,
    /// Our address, as the client reached it.
    pub own: SocketAddr,
    /// Set when it is encrypted.
    pub encryption: Option<Encryption>,
    /// How the client logged in.
    pub mechanism: String,
    /// What the client says of itself.
    pub properties: Vec<Header>,
    /// How long either side may be silent, in seconds; 0 for ever.
    pub timeout_seconds: u32,
    /// The largest frame, agreed; 0 where there is no such thing.
    pub frame_bytes_max: u64,
    /// The most channels, agreed; 0 where there is no such thing.
    pub channels_max: u32,
    /// When it logged in.
    pub connected_at: Wall,
    /// While the disk is full or memory low it is asked to wait once it writes; others are refused.
    pub is_asked_to_wait: bool,
}

impl ConnectionInfo {
    /// Its name, which operators use: both addresses.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} -> {}", self.peer, self.own)
    }
}

/// What a connection counts.
#[derive(Debug, Default)]
pub struct ConnectionFigures {
    /// Bytes that came.
    pub received_bytes: Count,
    /// Times that bytes came.
    pub received: Count,
    /// Bytes that went.
    pub sent_bytes: Count,
    /// Times that bytes went.
    pub sent: Count,
    /// 1 while it may not publish and would.
    pub blocked: Count,
}

/// What a channel counts. Where a tongue has no channels, its connections have number 0 alone.
#[derive(Debug, Default)]
pub struct ChannelFigures {
    /// Messages published.
    pub published: Count,
    /// … of which a confirmation is owed.
    pub confirming: Count,
    /// Publishes confirmed.
    pub confirmed: Count,
    /// Publishes refused.
    pub refused: Count,
    /// Publishes that reached a queue.
    pub routed: Count,
    /// Publishes that nobody took, and that were returned.
    pub returned: Count,
    /// Publishes that nobody took.
    pub dropped: Count,
    /// Messages delivered, to be settled.
    pub delivered: Count,
    /// Messages delivered that need no settling.
    pub delivered_settled: Count,
    /// Messages got, to be settled.
    pub got: Count,
    /// Messages got that need no settling.
    pub got_settled: Count,
    /// Times that nothing was there to get.
    pub got_nothing: Count,
    /// Deliveries that were not the first of their message.
    pub redelivered: Count,
    /// Deliveries acknowledged.
    pub acked: Count,
    /// Deliveries given back or discarded.
    pub given_back: Count,
    /// Messages published in a transaction not yet committed.
    pub uncommitted: Count,
    /// Deliveries settled in a transaction not yet committed.
    pub uncommitted_settles: Count,
    /// Deliveries that each new consumer may hold; 0 is any number.
    pub prefetch: Count,
    /// Deliveries that all consumers together may hold; 0 is any number.
    pub shared_prefetch: Count,
    /// Its consumers.
    pub consumers: Count,
    /// What the channel does: see [`ChannelMode`].
    mode: Count,
}

/// How a channel publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChannelMode {
    /// Nothing is confirmed.
    #[default]
    Plain,
    /// Publishes are confirmed.
    Confirms,
    /// Publishes are committed together.
    Transactions,
}

impl ChannelFigures {
    /// How it publishes.
    #[must_use]
    pub fn mode(&self) -> ChannelMode {
        match self.mode.get() {
            1 => ChannelMode::Confirms,
            2 => ChannelMode::Transactions,
            _ => ChannelMode::Plain,
        }
    }

    /// It publishes so from now on.
    pub fn set_mode(&self, mode: ChannelMode) {
        self.mode.set(mode as u64);
    }

    /// Deliveries not settled yet.
    #[must_use]
    pub fn unsettled(&self) -> u64 {
        let sent = self.delivered.get() + self.got.get();
        sent.saturating_sub(self.acked.get() + self.given_back.get())
    }

    /// Publishes not confirmed yet.
    #[must_use]
    pub fn unconfirmed(&self) -> u64 {
        self.confirming.get().saturating_sub(self.confirmed.get() + self.refused.get())
    }

    /// What it has counted so far.
    #[must_use]
    pub fn sums(&self) -> Sums {
        Sums {
            published: self.published.get(),
            confirming: self.confirming.get(),
            confirmed: self.confirmed.get(),
            routed: self.routed.get(),
            returned: self.returned.get(),
            dropped: self.dropped.get(),
            delivered: self.delivered.get(),
            delivered_settled: self.delivered_settled.get(),
            got: self.got.get(),
            got_settled: self.got_settled.get(),
            got_nothing: self.got_nothing.get(),
            redelivered: self.redelivered.get(),
            acked: self.acked.get(),
        }
    }
}

macro_rules! sums {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Messages counted, of one channel or of many. See [`ChannelFigures`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Sums {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Sums {
            /// Adds another's counts to these.
            pub fn add(&mut self, other: &Sums) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

sums! {
    /// Messages published.
    published,
    /// … of which a confirmation was asked.
    confirming,
    /// Publishes confirmed.
    confirmed,
    /// Publishes that reached a queue.
    routed,
    /// Publishes returned.
    returned,
    /// Publishes that nobody took.
    dropped,
    /// Messages delivered, to be settled.
    delivered,
    /// Messages delivered that need no settling.
    delivered_settled,
    /// Messages got, to be settled.
    got,
    /// Messages got that need no settling.
    got_settled,
    /// Times that nothing was there to get.
    got_nothing,
    /// Deliveries that were not the first.
    redelivered,
    /// Deliveries acknowledged.
    acked,
}

/// A channel as it stands.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its number.
    pub number: u16,
    /// What it counts.
    pub figures: Arc<ChannelFigures>,
}

/// What a session says of a consumer beside what the queue knows.
#[derive(Clone, PartialEq, Debug)]
pub struct ConsumerLabel {
    /// Whose it is.
    pub session: SessionId,
    /// On which channel.
    pub channel: u16,
    /// By which tag its client knows it.
    pub tag: String,
    /// Deliveries it may hold; 0 is any number.
    pub prefetch: u32,
    /// What it was started with.
    pub arguments: Vec<Header>,
}

/// A consumer as it stands.
#[derive(Clone, Debug)]
pub struct ConsumerInfo {
    /// Its id.
    pub id: ConsumerId,
    /// Whose queue.
    pub tenant: Name,
    /// From which queue.
    pub queue: Name,
    /// Its deliveries need no settling.
    pub auto_settle: bool,
    /// Nobody else may consume.
    pub exclusive: bool,
    /// It is served: false while another one is the single active consumer.
    pub active: bool,
    /// What its session says of it.
    pub label: ConsumerLabel,
}

/// What has been counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Connections logged in.
    pub connections_opened: u64,
    /// … that have gone.
    pub connections_closed: u64,
    /// Channels opened.
    pub channels_opened: u64,
    /// … that have gone.
    pub channels_closed: u64,
    /// Queues declared, whether they were there or not.
    pub queues_declared: u64,
    /// Queues made.
    pub queues_created: u64,
    /// Queues removed.
    pub queues_deleted: u64,
    /// Logins that were right.
    pub logins: u64,
    /// … and wrong.
    pub logins_refused: u64,
    /// Messages.
    pub messages: Sums,
}
