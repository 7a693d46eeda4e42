//! What the queues judge finds after a restart, compared with the clients' books.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Books, DEAD, PAIR, RANKED, Tally, WORK};
use crate::Outcome;
use crate::judge::amqp::{Amqp, Said};
use crate::judge::books::Message;
use crate::judge::server::Server;

/// Nothing more comes when nothing came for so long.
const QUIET: Duration = Duration::from_millis(20);

/// Reads all queues to their ends and compares.
pub(super) fn verify(server: &Server, books: &Books, tally: &mut Tally) -> Outcome<()> {
    let [work, dead, ranked, one, other] = [WORK, DEAD, RANKED, PAIR[0], PAIR[1]].map(|queue| drain(server, queue));
    let (work, dead, ranked, one, other) = (work?, dead?, ranked?, one?, other?);
    for list in [&work, &dead, &ranked, &one, &other] {
        tally.read_back += list.len() as u64;
    }
    tally.confirmed += (books.confirmed_work.len() + books.confirmed_ranked.len()) as u64;
    tally.letters += dead.len() as u64;
    check_work(&work, &dead, books, tally)?;
    check_ranked(&ranked, books)?;
    check_transactions(&one, &other, books, tally)
}

/// The numbers of all messages in a queue, which is empty then.
fn drain(server: &Server, queue: &str) -> Outcome<Vec<u64>> {
    let mut client = Amqp::connect(&server.amqp)?;
    let count = client.count(queue)?;
    client.consume(queue, 0)?;
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let Said::Delivered { tag, body } = client.next()? else { return Err("no delivery".to_owned()) };
        numbers.push(Message::parse(&body)?.number());
        if numbers.len() == count {
            client.ack_all(tag)?;
        }
    }
    if client.has_answer(QUIET)? {
        return Err(format!("queue {queue} holds more than the {count} messages that it says"));
    }
    let mut client = Amqp::connect(&server.amqp)?;
    match client.count(queue)? {
        0 => Ok(numbers),
        left => Err(format!("queue {queue} still holds {left} messages")),
    }
}

fn ascends(queue: &str, numbers: &[u64]) -> Outcome<()> {
    match numbers.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(format!("queue {queue}: {} comes before {}", pair[0], pair[1])),
        None => Ok(()),
    }
}

fn check_work(work: &[u64], dead: &[u64], books: &Books, tally: &mut Tally) -> Outcome<()> {
    ascends(WORK, work)?;
    ascends(DEAD, dead)?;
    let (work, dead): (BTreeSet<u64>, BTreeSet<u64>) = (work.iter().copied().collect(), dead.iter().copied().collect());
    if let Some(number) = work.intersection(&dead).next() {
        return Err(format!("message {number} is in its queue and among its dead letters"));
    }
    if let Some(number) = dead.iter().find(|number| **number % 3 != 0) {
        return Err(format!("message {number} is a dead letter and was never rejected"));
    }
    let there = |number: &&u64| work.contains(number) || dead.contains(number);
    let lost = books.confirmed_work.iter().filter(|number| !books.settled.contains(number)).find(|one| !there(one));
    if let Some(number) = lost {
        return Err(format!("lost: message {number} was confirmed and is neither in its queue nor a dead letter"));
    }
    tally.came_again += books.settled.iter().filter(there).count() as u64;
    match work.union(&dead).find(|number| **number >= books.next) {
        Some(number) => Err(format!("invented: message {number}")),
        None => Ok(()),
    }
}

fn check_ranked(ranked: &[u64], books: &Books) -> Outcome<()> {
    let rank = |number: u64| (3 - number % 4, number);
    if let Some(pair) = ranked.windows(2).find(|pair| rank(pair[0]) >= rank(pair[1])) {
        return Err(format!("queue {RANKED}: {} comes before {}", pair[0], pair[1]));
    }
    let there: BTreeSet<u64> = ranked.iter().copied().collect();
    match books.confirmed_ranked.difference(&there).next() {
        Some(number) => Err(format!("lost: message {number} of queue {RANKED} was confirmed")),
        None => Ok(()),
    }
}

fn check_transactions(one: &[u64], other: &[u64], books: &Books, tally: &mut Tally) -> Outcome<()> {
    ascends(PAIR[0], one)?;
    if one != other {
        return Err(format!("queues {PAIR:?} hold {} and {} messages: not the same", one.len(), other.len()));
    }
    let there: BTreeSet<u64> = one.iter().copied().collect();
    let mut known = 0;
    for &(first, count, committed) in &books.transactions {
        let found = there.range(first..first + count).count() as u64;
        known += found;
        tally.committed += u64::from(committed);
        if found != count && (committed || found > 0) {
            return Err(format!("{found} of the {count} messages of the transaction that begins with {first}"));
        }
    }
    match known == there.len() as u64 {
        true => Ok(()),
        false => Err("invented: a message of no transaction".to_owned()),
    }
}
