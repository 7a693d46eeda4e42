//! What has its time in the kill judge: messages that die of age and go on as dead letters, and delayed ones. A fence
//! tells when all of them have moved: a message that is due after every other.

use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Outcome;
use crate::judge::Chance;
use crate::judge::amqp::{Amqp, Argument, Said};
use crate::judge::books::Message;
use crate::judge::queues::load::publish;
use crate::judge::server::Server;

/// Its messages live for [`LIFE_MS`] and go to [`DEAD`] then.
const LIVED: &str = "lived";
const DEAD: &str = "lived-dead";
const LIFE_MS: i32 = 100;
/// A delayed exchange, and the queue behind it.
const LATER: &str = "later";
const DELAY_MS_MAX: u64 = 200;
/// Numbers that one publisher may use between two kills; the last is the fence's.
const NUMBERS: u64 = 1 << 32;
/// Nothing more comes when nothing came for so long.
const QUIET: Duration = Duration::from_millis(20);

/// The publishers at work.
pub(super) struct Running {
    first: u64,
    publishers: [JoinHandle<Outcome<BTreeSet<u64>>>; 2],
}

/// What they have done until a kill.
pub(super) struct Books {
    first: u64,
    confirmed: [BTreeSet<u64>; 2],
}

impl Books {
    /// The first number that was never used.
    pub(super) fn next(&self) -> u64 {
        self.first + NUMBERS
    }
}

/// What was found, summed up.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) confirmed: u64,
    pub(crate) letters: u64,
    pub(crate) delayed: u64,
}

impl Running {
    /// What they have done, once their connections are broken.
    pub(super) fn finish(self) -> Outcome<Books> {
        let [lived, later] = self.publishers.map(|one| one.join().map_err(|_| "a client panicked".to_owned())?);
        Ok(Books { first: self.first, confirmed: [lived?, later?] })
    }
}

/// Makes the queues.
pub(super) fn prepare(server: &Server) -> Outcome<()> {
    let mut amqp = Amqp::connect(&server.amqp)?;
    amqp.declare(DEAD)?;
    let arguments = [
        ("x-message-ttl", Argument::Number(LIFE_MS)),
        ("x-dead-letter-exchange", Argument::Text("")),
        ("x-dead-letter-routing-key", Argument::Text(DEAD)),
    ];
    amqp.declare_with(LIVED, &arguments)?;
    amqp.declare(LATER)?;
    amqp.declare_delayed(LATER)?;
    amqp.bind(LATER, LATER, LATER)
}

/// Sets both publishers to work, with numbers from `first` on.
pub(super) fn start(server: &Server, chance: &mut Chance, first: u64) -> Outcome<Running> {
    let clients = [Amqp::connect(&server.amqp)?, Amqp::connect(&server.amqp)?];
    let [mut lived, mut later, mut delays] = [(); 3].map(|()| Chance::new(chance.below(u64::MAX)));
    let [one, other] = clients;
    let to_lived = |client: &mut Amqp, _, body: &[u8]| client.publish(LIVED, body);
    let to_later =
        move |client: &mut Amqp, _, body: &[u8]| client.publish_later(LATER, delays.below(DELAY_MS_MAX), body);
    let publishers = [
        std::thread::spawn(move || publish(one, to_lived, first, &mut lived)),
        std::thread::spawn(move || publish(other, to_later, first, &mut later)),
    ];
    Ok(Running { first, publishers })
}

/// Waits until all have moved, takes them out, and compares.
pub(super) fn verify(server: &Server, books: &Books, found: &mut Found) -> Outcome<()> {
    let fence = Message::new(books.next() - 1, 0).bytes();
    let mut publisher = Amqp::connect(&server.amqp)?;
    publisher.publish(LIVED, &fence)?;
    publisher.publish_later(LATER, DELAY_MS_MAX + 1, &fence)?;
    for (queue, confirmed) in [DEAD, LATER].into_iter().zip(&books.confirmed) {
        let numbers = until_fence(server, queue, books)?;
        let there: BTreeSet<u64> = numbers.iter().copied().collect();
        if there.len() != numbers.len() {
            return Err(format!("{queue}: {} messages came twice", numbers.len() - there.len()));
        }
        if let Some(number) = confirmed.difference(&there).next() {
            return Err(format!("{queue}: lost: message {number} was confirmed and has not come"));
        }
        if let Some(number) = there.iter().find(|number| **number < books.first) {
            return Err(format!("{queue}: message {number} was acknowledged before and came again"));
        }
        if queue == DEAD
            && let Some(pair) = numbers.windows(2).find(|pair| pair[0] >= pair[1])
        {
            return Err(format!("{queue}: {} comes before {}", pair[0], pair[1]));
        }
        found.confirmed += confirmed.len() as u64;
        *(if queue == DEAD { &mut found.letters } else { &mut found.delayed }) += numbers.len() as u64;
    }
    match publisher.count(LIVED)? {
        0 => Ok(()),
        left => Err(format!("{LIVED}: {left} messages are still there, whose time was over")),
    }
}

/// The numbers of all messages before the fence. Whatever has come is acknowledged.
fn until_fence(server: &Server, queue: &str, books: &Books) -> Outcome<Vec<u64>> {
    let fence = books.next() - 1;
    let mut client = Amqp::connect(&server.amqp)?;
    client.consume(queue, 0)?;
    let mut numbers = Vec::new();
    loop {
        let said = client.next().map_err(|e| format!("{queue}: {} came, and no fence: {e}", numbers.len()))?;
        let Said::Delivered { tag, body } = said else { return Err("no delivery".to_owned()) };
        let number = Message::parse(&body)?.number();
        if number == fence {
            client.ack_all(tag)?;
            break;
        }
        numbers.push(number);
    }
    if client.has_answer(QUIET)? {
        return Err(format!("{queue}: a message came behind all that were due"));
    }
    match Amqp::connect(&server.amqp)?.count(queue)? {
        0 => Ok(numbers),
        left => Err(format!("{queue}: {left} messages are left behind all that were due")),
    }
}
