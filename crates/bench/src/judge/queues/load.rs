//! The load of the queues judge: clients that write down what they are told until the connection breaks.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread::JoinHandle;

use super::{BOTH, Books, RANKED, WORK};
use crate::Outcome;
use crate::judge::Chance;
use crate::judge::amqp::{Amqp, Said};
use crate::judge::books::Message;
use crate::judge::server::Server;
use crate::judge::wire::until_broken;

const UNCONFIRMED_MAX: usize = 200;
const PREFETCH: u16 = 50;
/// Numbers that one client may use between two kills.
const NUMBERS: u64 = 1 << 32;

/// The clients at work.
pub(super) struct Running {
    next: u64,
    publishers: [JoinHandle<Outcome<BTreeSet<u64>>>; 2],
    consumer: JoinHandle<Outcome<BTreeSet<u64>>>,
    transactions: JoinHandle<Outcome<Vec<(u64, u64, bool)>>>,
}

impl Running {
    /// What all have done, once their connections are broken.
    pub(super) fn finish(self) -> Outcome<Books> {
        let [work, ranked] = self.publishers.map(joined);
        Ok(Books {
            next: self.next,
            confirmed_work: work?,
            settled: joined(self.consumer)?,
            confirmed_ranked: ranked?,
            transactions: joined(self.transactions)?,
        })
    }
}

fn joined<T>(one: JoinHandle<Outcome<T>>) -> Outcome<T> {
    one.join().map_err(|_| "a client panicked")?
}

/// Sets all clients to work, with numbers from `first` on.
pub(super) fn start(server: &Server, chance: &mut Chance, first: u64) -> Outcome<Running> {
    let mut publisher = |queue: &'static str, first| {
        let client = Amqp::connect(&server.amqp)?;
        let mut own = Chance::new(chance.below(u64::MAX));
        let send = |client: &mut Amqp, number, body: &[u8]| client.publish_to("", queue, (number % 4) as u8, body);
        Ok::<_, String>(std::thread::spawn(move || publish(client, send, first, &mut own)))
    };
    let publishers = [publisher(WORK, first)?, publisher(RANKED, first)?];
    let [consumer, transactions] = [Amqp::connect(&server.amqp)?, Amqp::connect(&server.amqp)?];
    let mut own = Chance::new(chance.below(u64::MAX));
    Ok(Running {
        next: first + NUMBERS,
        publishers,
        consumer: std::thread::spawn(move || work(consumer)),
        transactions: std::thread::spawn(move || transact(transactions, first, &mut own)),
    })
}

/// Publishes messages with numbers from `first` on, each by `send`, until the connection breaks. Answers those that
/// were confirmed.
///
/// # Errors
/// When something else comes than an answer to a publish.
pub(crate) fn publish(
    mut client: Amqp,
    mut send: impl FnMut(&mut Amqp, u64, &[u8]) -> Outcome<()> + Send + 'static,
    first: u64,
    chance: &mut Chance,
) -> Outcome<BTreeSet<u64>> {
    let mut confirmed = BTreeSet::new();
    if until_broken(client.confirm())?.is_none() {
        return Ok(confirmed);
    }
    let mut writer = client.writer()?;
    let (sender, waiting) = mpsc::sync_channel::<u64>(UNCONFIRMED_MAX);
    let mut own = Chance::new(chance.below(u64::MAX));
    let writing = std::thread::spawn(move || {
        for number in first.. {
            let body = Message::new(number, own.below(300)).bytes();
            if sender.send(number).is_err() || send(&mut writer, number, &body).is_err() {
                break;
            }
        }
    });
    let mut open = BTreeSet::new();
    let mut published = 0;
    while let Some(said) = until_broken(client.next())? {
        let (tag, multiple, stored) = match said {
            Said::Confirmed { tag, multiple } => (tag, multiple, true),
            Said::Refused { tag, multiple } => (tag, multiple, false), // settling lags far behind
            Said::Delivered { .. } => return Err("a publisher was sent a delivery".to_owned()),
        };
        while published < tag && waiting.recv().is_ok() {
            published += 1;
            open.insert(published);
        }
        let from = if multiple { 0 } else { tag };
        for tag in open.range(from..=tag).copied().collect::<Vec<_>>() {
            open.remove(&tag);
            if stored {
                confirmed.insert(first + tag - 1);
            }
        }
    }
    drop(waiting);
    writing.join().map_err(|_| "a writer panicked")?;
    Ok(confirmed)
}

/// Rejects each third message, acknowledges the others.
fn work(mut client: Amqp) -> Outcome<BTreeSet<u64>> {
    let mut settled = BTreeSet::new();
    let mut consumes = until_broken(client.consume(WORK, PREFETCH))?.is_some();
    while consumes && let Some(said) = until_broken(client.next())? {
        let Said::Delivered { tag, body } = said else { return Err("a consumer was sent a confirm".to_owned()) };
        let number = Message::parse(&body)?.number();
        // A rejected one must be somewhere. Written down before it is sent: once sent, it may count.
        if number % 3 == 0 {
            consumes = client.reject(tag).is_ok();
        } else {
            settled.insert(number);
            consumes = client.ack(tag).is_ok();
        }
    }
    Ok(settled)
}

fn transact(mut client: Amqp, first: u64, chance: &mut Chance) -> Outcome<Vec<(u64, u64, bool)>> {
    let mut all = Vec::new();
    if until_broken(client.select())?.is_none() {
        return Ok(all);
    }
    let mut next = first;
    loop {
        let count = 1 + chance.below(5);
        let bodies = (next..next + count).map(|number| Message::new(number, chance.below(300)).bytes());
        let bodies = bodies.collect::<Vec<_>>();
        all.push((next, count, false));
        next += count;
        if bodies.iter().any(|body| client.publish_to(BOTH, "", 0, body).is_err())
            || until_broken(client.commit())?.is_none()
        {
            return Ok(all);
        }
        if let Some(last) = all.last_mut() {
            last.2 = true;
        }
    }
}
