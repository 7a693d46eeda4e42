//! What all channels of a connection share, and what a method's handler is given.

use std::sync::Arc;

use broker::access::{DEFAULT_TENANT, Operation, Pass, Resource};
use broker::connection::ConnectionFigures;
use broker::queue::{ConsumerId, Delivery, DeliveryKey, Settle};
use broker::routing::MailboxId;
use broker::secured::Certificate;
use broker::{Broker, CallId, Cx, IdMap, Lsn, Peer, Progress, SessionId, SyncPolicy};
use model::{Mono, Name, Now};

use crate::channel::Channel;
use crate::channel::assembly::{Assembly, Content};
use crate::config::Config;
use crate::errors::{MethodId, Refusal};
use crate::wire::frame::put_method;

/// What all channels share.
#[derive(Debug)]
pub struct Conn {
    /// The limits.
    pub config: Arc<Config>,
    /// Who is at the other end.
    pub peer: Peer,
    /// The virtual host; the default one until the client has chosen.
    pub tenant: Name,
    /// What the user is known to be allowed there.
    pub pass: Pass,
    /// The user logged in.
    pub user: Name,
    /// May publish under other users' names.
    pub impersonator: bool,
    /// The largest frame, agreed.
    pub frame_bytes_max: usize,
    /// The most channels open at once, agreed; 0 is any number.
    pub channel_count_max: usize,
    /// The client knows `basic.cancel` from the server.
    pub cancel_notify: bool,
    /// Settlements gathered from one input.
    pub settles: Settles,
    /// The channel of each consumer.
    pub consumers: IdMap<ConsumerId, u16>,
    /// The channel of each consumer of direct answers.
    pub mailboxes: Vec<(MailboxId, u16)>,
    /// A publish that the storage had no room for: tried again until it has.
    pub stalled: Option<Stalled>,
    /// It published while memory was low: it takes no further publish until that is over.
    pub alarmed: Option<Alarmed>,
    /// The client wants to be told when it is not to publish.
    pub blocked_notify: bool,
    /// … and was told so.
    pub blocked_said: bool,
    /// Consumers that get new credit when the output has room.
    pub starved: Vec<ConsumerId>,
    /// A `get` that waits for the disk: the connection takes no input until it is done.
    pub getting: Option<Getting>,
    /// The last publish, until queues can show it.
    pub unseen: Option<Unseen>,
    /// A question about a queue waits for [`Conn::unseen`]: the connection takes no input until progress moves.
    pub looking: bool,
    /// Channels that wait for progress.
    pub waiting: Vec<u16>,
    /// Publishes that wait for their confirm, on all channels.
    pub confirms_waiting: usize,
    /// What the connection counts.
    pub figures: Arc<ConnectionFigures>,
    /// Bytes of bodies that are not complete yet, on all channels.
    pub unfinished_bytes: u64,
    calls: u64,
    names: u64,
}

/// A `get` that waits for the disk.
#[derive(Clone, Debug)]
pub struct Getting {
    /// The call.
    pub call: CallId,
    /// On which channel.
    pub channel: u16,
    /// From which queue.
    pub queue: Name,
    /// Settled at once.
    pub no_ack: bool,
}

/// A publish that the storage had no room for. It waits in its channel's memory, and the connection takes no further
/// publish until it is stored; all else is taken.
#[derive(Clone, Copy, Debug)]
pub struct Stalled {
    /// On which channel.
    pub channel: u16,
    /// How it was published; `None`: what waits is the channel's transaction, and all that follows it there.
    pub content: Option<Content>,
    /// When it is tried again.
    pub again_at: Mono,
    /// A further publish waits: the connection takes no input.
    pub holds_input: bool,
}

/// A publisher that waits until there is memory again.
#[derive(Clone, Copy, Debug)]
pub struct Alarmed {
    /// When it is looked at again.
    pub again_at: Mono,
    /// A further publish waits: the connection takes no input.
    pub holds_input: bool,
}

/// A publish that is stored and not readable yet: a turn's messages appear in their queues when it ends. Who
/// publishes and then asks for the queue's count or for a message is answered as RabbitMQ would: with that message.
#[derive(Clone, Copy, Debug)]
pub struct Unseen {
    /// Readable from here on, by `policy`.
    pub lsn: Lsn,
    /// As the publish asked.
    pub policy: SyncPolicy,
    /// What had been written before it.
    pub before: Lsn,
}

impl Unseen {
    /// Whether it can be read.
    #[must_use]
    pub fn is_seen(self, progress: Progress) -> bool {
        let reached = if self.policy == SyncPolicy::Sync { progress.synced } else { progress.written };
        self.lsn <= reached && self.before < progress.written
    }
}

impl Conn {
    /// The certificate that the client has shown, if any.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.peer.tls.as_ref()?.certificate.as_ref()
    }

    /// Of a connection just accepted.
    #[must_use]
    pub fn new(config: Arc<Config>, peer: Peer) -> Conn {
        Conn {
            config,
            peer,
            tenant: Name::fixed(DEFAULT_TENANT),
            pass: Pass::new(&Name::fixed(""), &Name::fixed(DEFAULT_TENANT)),
            user: Name::fixed(""),
            impersonator: false,
            frame_bytes_max: crate::config::FRAME_BYTES_MAX_BEFORE_LOGIN as usize,
            channel_count_max: 0,
            cancel_notify: false,
            settles: Settles::default(),
            consumers: IdMap::default(),
            mailboxes: Vec::new(),
            stalled: None,
            alarmed: None,
            blocked_notify: false,
            blocked_said: false,
            starved: Vec::new(),
            getting: None,
            unseen: None,
            looking: false,
            waiting: Vec::new(),
            confirms_waiting: 0,
            figures: Arc::default(),
            unfinished_bytes: 0,
            calls: 0,
            names: 0,
        }
    }

    /// The session's id.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.peer.session
    }

    /// A call id not used before.
    pub fn next_call(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }

    /// A name nobody has: `prefix` and 22 characters that depend on the moment, the connection and a counter. Made
    /// without a random source, so that a simulation repeats itself; nobody's security rests on it.
    pub fn unique_name(&mut self, prefix: &str, now: Now, broker: &Broker) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        self.names += 1;
        let cluster = u64::from(model::checksum::crc32c(broker.cluster_id().as_bytes()));
        let mut seed = mix(cluster ^ self.peer.session.0.rotate_left(32));
        seed = mix(seed ^ now.wall.0 as u64);
        seed = mix(seed ^ now.mono.0);
        seed = mix(seed ^ self.names);
        let mut name = String::with_capacity(prefix.len() + 22);
        name.push_str(prefix);
        for at in 0..22 {
            if at % 10 == 0 {
                seed = mix(seed);
            }
            let index = (seed >> (6 * (at % 10))) as usize % ALPHABET.len();
            name.push(char::from(ALPHABET.get(index).copied().unwrap_or(b'A')));
        }
        name
    }

    /// Puts `channel` on the list of those that wait for progress.
    pub fn list(&mut self, channel: &mut Channel) {
        if !channel.listed && channel.waits() {
            channel.listed = true;
            self.waiting.push(channel.number);
        }
    }

    /// Gives back what a channel held: consumers end, deliveries not acknowledged go back to their places.
    pub fn release(&mut self, channel: &mut Channel, broker: &mut Broker) {
        for id in channel.consumers.take_all() {
            self.consumers.remove(&id);
            broker.cancel(id);
        }
        let settles = &mut self.settles;
        channel.unacked.take_all(|entry| settles.add(entry.key, Settle::Requeue));
        if let Some(tx) = channel.tx.take() {
            tx.settles.iter().for_each(|(entry, _)| settles.add(entry.key, Settle::Requeue));
            self.unfinished_bytes = self.unfinished_bytes.saturating_sub(tx.bytes);
        }
        if let Some(reply) = channel.reply.take() {
            self.mailboxes.retain(|(id, _)| *id != reply.id);
            broker.close_mailbox(reply.id);
        }
        for (_, delivery) in channel.parked.drain(..) {
            settles.add(delivery.key, Settle::Requeue);
        }
        self.settles.flush(self.peer.session, broker);
        broker.channel_closed(self.peer.session, channel.number);
        self.confirms_waiting -= channel.confirms.take().map_or(0, |confirms| confirms.waiting());
        self.finished(channel);
        self.stalled.take_if(|stalled| stalled.channel == channel.number);
        channel.unit.shrink(0);
        if self.getting.as_ref().is_some_and(|getting| getting.channel == channel.number) {
            self.getting = None;
        }
    }

    /// The body being put together on `channel` is complete, or given up.
    pub fn finished(&mut self, channel: &mut Channel) {
        if let Assembly::Body(content) = std::mem::replace(&mut channel.assembly, Assembly::Idle) {
            self.unfinished_bytes -= content.body_bytes - content.left;
        }
    }

    /// A delivery that nobody is there to take.
    pub fn give_back(&mut self, deliveries: &[Delivery], broker: &mut Broker) {
        for delivery in deliveries {
            self.settles.add(delivery.key, Settle::Requeue);
        }
        self.settles.flush(self.peer.session, broker);
    }
}

/// One step of splitmix64.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Settlements gathered while an input is handled: one call to the core for each kind and queue.
#[derive(Debug, Default)]
pub struct Settles {
    acks: Vec<DeliveryKey>,
    requeues: Vec<DeliveryKey>,
    discards: Vec<DeliveryKey>,
    credits: Vec<(u64, ConsumerId, u32)>,
}

impl Settles {
    /// One delivery.
    pub fn add(&mut self, key: DeliveryKey, how: Settle) {
        match how {
            Settle::Ack => self.acks.push(key),
            Settle::Requeue => self.requeues.push(key),
            Settle::Discard => self.discards.push(key),
        }
    }

    /// The consumer that had `key` may be sent one more.
    pub fn credit(&mut self, key: DeliveryKey, consumer: ConsumerId) {
        match self.credits.last_mut() {
            Some((_, last, more)) if *last == consumer => *more += 1,
            _ => self.credits.push((key.queue, consumer, 1)),
        }
    }

    /// Tells the core.
    pub fn flush(&mut self, session: SessionId, broker: &mut Broker) {
        for (keys, how) in [
            (&mut self.acks, Settle::Ack),
            (&mut self.discards, Settle::Discard),
            (&mut self.requeues, Settle::Requeue),
        ] {
            if keys.iter().any(|key| key.queue != keys[0].queue) {
                keys.sort_by_key(|key| key.queue);
            }
            for of_one_queue in keys.chunk_by(|a, b| a.queue == b.queue) {
                broker.settle(session, of_one_queue, how);
            }
            keys.clear();
        }
        for (queue, consumer, more) in self.credits.drain(..) {
            broker.credit_in(queue, consumer, more);
        }
    }
}

/// What a method's handler works with.
pub struct Call<'a, 'b> {
    /// The core, the clocks, the output.
    pub cx: &'a mut Cx<'b>,
    /// What all channels share.
    pub conn: &'a mut Conn,
    /// The channel.
    pub ch: &'a mut Channel,
    /// The method.
    pub method: MethodId,
}

/// What handlers answer.
pub type Done = Result<(), Refusal>;

impl Call<'_, '_> {
    /// Whether the user may do that.
    ///
    /// # Errors
    /// 403 when not.
    pub fn may(&mut self, operation: Operation, resource: Resource<'_>) -> Done {
        self.conn.pass.check(self.cx.broker, resource, operation).map_err(|denied| Refusal::denied(&denied))
    }

    /// Whether the user may do anything at all with that: then they may know that it is there.
    ///
    /// # Errors
    /// 403 when not.
    pub fn may_see(&mut self, resource: Resource<'_>) -> Done {
        let operations = [Operation::Read, Operation::Write];
        if operations.iter().any(|operation| self.may(*operation, resource).is_ok()) {
            return Ok(());
        }
        self.may(Operation::Configure, resource)
    }

    /// Says a method on the channel.
    pub fn say(&mut self, method: MethodId, write: impl FnOnce(&mut Vec<u8>)) {
        let number = self.ch.number;
        put_method(self.ch.held.sink(self.cx.out), number, method, write);
    }

    /// The answer to the method at hand: by the specification the next method of its class.
    pub fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.say((self.method.0, self.method.1 + 1), write);
    }

    /// The answer waits until everything up to `lsn` is synced.
    pub fn hold(&mut self, lsn: broker::Lsn) {
        self.ch.held.hold(lsn, self.cx.broker.progress());
        self.conn.list(self.ch);
    }

    /// Hands the core all settlements gathered: before anything that could see their effect.
    pub fn flush(&mut self) {
        self.conn.settles.flush(self.conn.peer.session, self.cx.broker);
    }

    /// The queue a method names: the one declared last if it names none.
    ///
    /// # Errors
    /// 404 when there is none, 406 for a name that is none.
    pub fn queue_name(&self, text: &str) -> Result<Name, Refusal> {
        if text.is_empty() {
            return self
                .ch
                .last_queue
                .clone()
                .ok_or_else(|| Refusal::new(crate::errors::Code::NotFound, "no previously declared queue"));
        }
        name(text)
    }
}

/// A name from the wire. CR and LF are dropped, as RabbitMQ does.
///
/// # Errors
/// 406 for other control characters.
pub fn name(text: &str) -> Result<Name, Refusal> {
    let made = if text.contains(['\r', '\n']) { Name::new(&text.replace(['\r', '\n'], "")) } else { Name::new(text) };
    made.map_err(|error| Refusal::precondition(format!("invalid name: {error}")))
}
