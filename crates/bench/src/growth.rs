//! P15: does a message cost more when there are more queues, more stored messages, or more consumers?

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use crate::judge::amqp::Amqp;
use crate::load::amqp::{Consuming, PER_WRITE, Publishing, consume, publish};
use crate::measure::{HEAD, Meter, Row};
use crate::target::Target;
use crate::{Outcome, parse_target};

/// Unconfirmed and unacknowledged messages at once.
const WINDOW: u64 = 1024;
/// Acknowledged together.
const ACK_EVERY: u64 = 64;
/// Connections that consumers share when they are many.
const CONNECTIONS_MAX: u32 = 10;

/// What P15 is told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID of its AMQP door.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Messages of each case.
    #[arg(long, default_value_t = 1_000_000)]
    messages: u64,
    /// Bytes of a body.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Numbers of queues, each with one consumer.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000")]
    queues: Vec<u32>,
    /// Numbers of messages stored in the queue before.
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000,10000000")]
    stored: Vec<u64>,
    /// Numbers of consumers of one queue.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000")]
    consumers: Vec<u32>,
    /// Runs of each.
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// How many of each there are.
struct Shape {
    queues: u32,
    stored: u64,
    consumers: u32,
}

/// Runs all cases and prints the table.
///
/// # Errors
/// When a broker refuses anything.
pub fn run(args: &Args) -> Outcome<()> {
    println!("{HEAD}");
    let one = Shape { queues: 1, stored: 0, consumers: 1 };
    for run in 1..=args.runs {
        for broker in &args.brokers {
            for &queues in &args.queues {
                case(args, broker, &format!("{run}: {queues} queues"), &Shape { queues, ..one })?;
            }
            for &stored in &args.stored {
                case(args, broker, &format!("{run}: {stored} stored"), &Shape { stored, ..one })?;
            }
            for &consumers in &args.consumers {
                case(args, broker, &format!("{run}: {consumers} consumers"), &Shape { consumers, ..one })?;
            }
        }
    }
    Ok(())
}

fn case(args: &Args, broker: &Target, what: &str, shape: &Shape) -> Outcome<()> {
    let mut admin = Amqp::connect(&broker.address)?;
    let tag = what.replace([' ', ':'], "-");
    let queues: Vec<String> = (0..shape.queues).map(|at| format!("p15-{tag}-{}-{at}", std::process::id())).collect();
    for queue in &queues {
        admin.declare(queue)?;
    }
    let plan = Publishing {
        address: broker.address.clone(),
        exchange: String::new(),
        queues: queues.clone(),
        messages: shape.stored,
        bytes: args.bytes,
        window: WINDOW,
        per_write: PER_WRITE,
        confirmed: Arc::default(),
    };
    if shape.stored > 0 {
        publish(&plan)?;
    }
    let connections = shape.consumers.min(CONNECTIONS_MAX);
    let consuming = Consuming {
        address: broker.address.clone(),
        queues: queues.clone(),
        consumers: shape.consumers / connections,
        prefetch: prefetch(shape),
        ack_every: ACK_EVERY,
        messages: args.messages,
        received: Arc::new(AtomicU64::new(0)),
    };
    let meter = Meter::start(broker.pid)?;
    let readers: Vec<_> = (0..connections)
        .map(|_| {
            let plan = consuming.clone();
            thread::spawn(move || consume(&plan).map(drop))
        })
        .collect();
    publish(&Publishing { messages: args.messages, ..plan })?;
    for reader in readers {
        reader.join().map_err(|_| "a consumer panicked")??;
    }
    println!("{}", Row { what, broker: &broker.name, count: args.messages, figures: meter.finish()? });
    for queue in &queues {
        admin.delete(queue)?;
    }
    Ok(())
}

/// The same number of messages on their way to consumers in every shape, as far as each must have some.
fn prefetch(shape: &Shape) -> u16 {
    let consumers = u64::from(shape.queues) * u64::from(shape.consumers);
    (WINDOW / consumers).clamp(2, WINDOW) as u16
}
