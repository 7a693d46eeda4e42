//! The way of a message through the server in steady state, publish → route → store → deliver → ack, allocates per turn
//! and not per message.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use broker::Options;
use sim::client::amqp::{self, Heard, Listener};
use sim::world::World;
use storage::sim_disk::SimDisk;

/// What a client sends at most in one turn.
const TURN_BYTES: usize = 15 << 10;
const ROUNDS: u64 = 60;

/// One publisher and one consumer of one queue.
struct Pair {
    world: World,
    publisher: u64,
    consumer: u64,
    listener: Listener,
    last: u64,
}

impl Pair {
    fn new() -> Pair {
        let (kafka, amqp) = (::kafka::KafkaTongue::default(), ::amqp::Amqp::default());
        let mut world = World::open_with(SimDisk::new(), &[&kafka, &amqp], 7, options()).expect("an empty disk");
        let [publisher, consumer] = [(); 2].map(|()| world.connect(&amqp));
        for id in [publisher, consumer] {
            world.send(id, &amqp::handshake());
        }
        world.send(consumer, &[amqp::prefetch(10_000), amqp::consume()].concat());
        (0..200).for_each(|_| world.turn());
        world.received(consumer).clear();
        Pair { world, publisher, consumer, listener: Listener::default(), last: 0 }
    }

    /// One round of `count` messages; answers how many allocations the server's turn made.
    fn round(&mut self, body: &str, count: usize) -> u64 {
        let publishes = amqp::publish(body).repeat(count);
        self.world.send(self.publisher, &publishes);
        if self.last > 0 {
            self.world.send(self.consumer, &amqp::ack_all(self.last));
        }
        let cost = allocation_counter::measure(|| self.world.turn());
        self.world.received(self.publisher).clear();
        while let Some(heard) = self.listener.next(self.world.received(self.consumer)).expect("frames") {
            if let Heard::Delivery { tag, .. } = heard {
                self.last = tag;
            }
        }
        cost.count_total
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.storage.journal_file_bytes = 64 << 20;
    options.storage.reserve_bytes = 0;
    options
}

/// Messages and allocations of [`ROUNDS`] turns full of messages with bodies of `bytes`.
fn measured(bytes: usize) -> (u64, u64) {
    let (mut pair, body) = (Pair::new(), "x".repeat(bytes));
    let count = TURN_BYTES / amqp::publish(&body).len();
    for _ in 0..ROUNDS {
        pair.round(&body, count);
    }
    let allocations = (0..ROUNDS).map(|_| pair.round(&body, count)).sum();
    assert!(pair.last > (2 * ROUNDS - 9) * count as u64, "{} of {} came", pair.last, 2 * ROUNDS * count as u64);
    (ROUNDS * count as u64, allocations)
}

#[test]
fn a_message_costs_no_allocation_of_its_own() {
    // As many bytes and turns, but ten times as many messages.
    let (few, with_few) = measured(1_500);
    let (many, with_many) = measured(50);
    let each = (with_many as f64 - with_few as f64) / (many - few) as f64;
    println!("{few} messages: {with_few} allocations; {many} messages: {with_many}; {each:.4} each");
    // What is left grows with the logarithm of a turn: lists that double.
    assert!(each < 0.05, "{each} allocations a message");
    assert!(with_few / ROUNDS < 40, "{} allocations a turn", with_few / ROUNDS);
}
