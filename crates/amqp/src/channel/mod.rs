//! What one channel remembers: consumers, deliveries not acknowledged, confirms, a publish being put together,
//! replies held back. It decides nothing of the protocol: that is `api/` and `session.rs`.

pub mod assembly;
pub mod confirms;
pub mod consumers;
pub mod held;
pub mod reply;
pub mod tx;
pub mod unacked;

use std::collections::VecDeque;
use std::sync::Arc;

use broker::connection::ChannelFigures;
use broker::queue::{ConsumerId, Delivery};
use broker::{Outbox, Progress};
use model::Name;

use assembly::Assembly;
use confirms::Confirms;
use consumers::Consumers;
use held::Held;
use reply::Reply;
use tx::Tx;
use unacked::Unacked;

use crate::unit::UnitBuilder;

/// A channel's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// In use.
    Open,
    /// We have said `channel.close`: everything is ignored until the client says `close-ok`.
    Closing,
    /// The client has closed it; it stays only until its held replies have gone.
    Gone,
}

/// A channel.
#[derive(Debug)]
pub struct Channel {
    /// Its number.
    pub number: u16,
    /// Where it stands.
    pub life: Life,
    /// A publish being put together.
    pub assembly: Assembly,
    /// The memory it is put together in.
    pub unit: UnitBuilder,
    /// Further routes of the publish being put together.
    pub copies: Vec<String>,
    /// Set in tx mode.
    pub tx: Option<Tx>,
    /// Set while it consumes direct answers.
    pub reply: Option<Reply>,
    /// Set in confirm mode.
    pub confirms: Option<Confirms>,
    /// Deliveries not acknowledged.
    pub unacked: Unacked,
    /// Its consumers.
    pub consumers: Consumers,
    /// The prefetch that new consumers get; 0 is none.
    pub prefetch: u16,
    /// The prefetch that all its consumers share; 0 is none.
    pub shared_prefetch: u16,
    /// Deliveries that the shared prefetch does not allow to be sent yet.
    pub parked: VecDeque<(ConsumerId, Delivery)>,
    /// The queue declared last: what an empty name means.
    pub last_queue: Option<Name>,
    /// Replies that wait for the disk.
    pub held: Held,
    /// Whether the session has it on its list of those that wait for progress.
    pub listed: bool,
    /// What it counts.
    pub figures: Arc<ChannelFigures>,
    /// What it held when its connection last took it into the account.
    pub accounted: usize,
    next_tag: u64,
}

impl Channel {
    /// A channel just opened.
    #[must_use]
    pub fn new(number: u16, figures: Arc<ChannelFigures>) -> Channel {
        Channel {
            number,
            life: Life::Open,
            assembly: Assembly::Idle,
            unit: UnitBuilder::default(),
            copies: Vec::new(),
            tx: None,
            reply: None,
            confirms: None,
            unacked: Unacked::default(),
            consumers: Consumers::default(),
            prefetch: 0,
            shared_prefetch: 0,
            parked: VecDeque::new(),
            last_queue: None,
            held: Held::default(),
            listed: false,
            figures,
            accounted: 0,
            next_tag: 1,
        }
    }

    /// Whether a consumer of it has that tag.
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.consumers.has(tag) || self.reply.as_ref().is_some_and(|reply| reply.tag == tag)
    }

    /// The next delivery tag: 1, 2, 3 …
    pub fn next_tag(&mut self) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        tag
    }

    /// Bytes of memory that it holds for its client, about: consumers, a message being put together, what is not
    /// acknowledged or confirmed yet, what waits for a commit, for the disk, or for the shared prefetch.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let parked = self.parked.capacity() * size_of::<(ConsumerId, Delivery)>();
        let confirms = self.confirms.as_ref().map_or(0, Confirms::memory_bytes);
        let staged = self.tx.as_ref().map_or(0, Tx::memory_bytes);
        let waiting = self.unacked.memory_bytes() + confirms + staged + self.held.bytes() + parked;
        self.unit.memory_bytes() + self.consumers.memory_bytes() + waiting
    }

    /// Whether one more delivery may be sent under the shared prefetch.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.shared_prefetch == 0 || self.unacked.consumed() < usize::from(self.shared_prefetch)
    }

    /// Whether something of it waits for progress.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.held.is_empty() || self.confirms.as_ref().is_some_and(|confirms| confirms.waiting() > 0)
    }

    /// Progress has moved: confirms and held replies go out. Answers how many confirms were settled.
    pub fn progress(&mut self, progress: Progress, out: &mut Outbox) -> usize {
        self.held.release(progress, out);
        let (number, held) = (self.number, &mut self.held);
        let Some(confirms) = &mut self.confirms else { return 0 };
        let count = confirms.progress(progress, number, held.sink(out));
        self.figures.confirmed.add(count as u64);
        count
    }
}
