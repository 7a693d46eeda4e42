//! P5: one publisher, one durable queue, one consumer; persistent, confirmed, acknowledged. P6: the same through
//! exchanges of each kind. Each write holds one message, as most clients send them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use crate::judge::amqp::Amqp;
use crate::load::amqp::{Consuming, Publishing, consume, publish};
use crate::measure::{Figures, HEAD, Meter, Row, median};
use crate::target::Target;
use crate::{Outcome, parse_target};

/// Acknowledged together.
const ACK_EVERY: u64 = 64;
/// Messages before the measured ones.
const WARM_UP: u64 = 5_000;

/// What P5 and P6 are told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID of its AMQP door.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Messages of each case; a hundredth of it where each waits for the one before.
    #[arg(long, default_value_t = 200_000)]
    messages: u64,
    /// How often the brokers take turns.
    #[arg(long, default_value_t = 3)]
    pairs: u32,
    /// Unconfirmed messages at once, and unacknowledged ones.
    #[arg(long, default_value_t = 256)]
    window: u16,
}

/// Where messages go.
struct Shape {
    what: String,
    /// The kind of exchange; none: straight to the queues.
    exchange: Option<&'static str>,
    /// What each queue is bound by.
    bindings: Vec<Vec<String>>,
    /// With which keys is published.
    keys: Vec<String>,
    bytes: usize,
    window: u16,
    /// Queues that each message goes to.
    fan: u64,
}

impl Shape {
    fn straight(what: &str, bytes: usize, window: u16) -> Shape {
        let (exchange, bindings, keys) = (None, vec![Vec::new()], Vec::new());
        Shape { what: what.to_owned(), exchange, bindings, keys, bytes, window, fan: 1 }
    }

    fn fanout(queues: usize, window: u16) -> Shape {
        let what = format!("fanout to {queues}");
        let bindings = vec![vec![String::new()]; queues];
        let (keys, fan) = (vec![String::new()], queues as u64);
        Shape { what, exchange: Some("fanout"), bindings, keys, bytes: 128, window, fan }
    }

    /// `count` bindings, dealt over ten queues; half of a topic's are patterns. Each key matches one of them.
    fn keyed(kind: &'static str, count: usize, window: u16) -> Shape {
        const QUEUES: usize = 10;
        let key = |at: usize| format!("a{}.b{}.c{at}", at % 37, at % 101);
        let pattern =
            |at: usize| if kind == "topic" && at % 2 == 1 { format!("a{}.*.c{at}", at % 37) } else { key(at) };
        let of = |queue: usize| (queue..count).step_by(QUEUES).map(pattern).collect();
        let what = format!("{kind}, {count} bindings");
        let (bindings, keys) = ((0..QUEUES).map(of).collect(), (0..count).map(key).collect());
        Shape { what, exchange: Some(kind), bindings, keys, bytes: 128, window, fan: 1 }
    }
}

/// Runs P5 and prints the table.
///
/// # Errors
/// When a broker refuses anything.
pub fn straight(args: &Args) -> Outcome<()> {
    let window = args.window;
    table(
        args,
        &[
            Shape::straight("100 B", 100, window),
            Shape::straight("1 KiB", 1024, window),
            Shape::straight("100 B, one at a time", 100, 1),
            Shape::straight("1 KiB, one at a time", 1024, 1),
        ],
    )
}

/// Runs P6 and prints the table.
///
/// # Errors
/// When a broker refuses anything.
pub fn routed(args: &Args) -> Outcome<()> {
    let window = args.window;
    table(
        args,
        &[
            Shape::keyed("direct", 10, window),
            Shape::keyed("direct", 1000, window),
            Shape::keyed("topic", 1000, window),
            Shape::fanout(10, window),
            Shape::fanout(50, window),
        ],
    )
}

fn table(args: &Args, shapes: &[Shape]) -> Outcome<()> {
    println!("{HEAD}");
    for shape in shapes {
        let messages = if shape.window == 1 { args.messages / 100 } else { args.messages / shape.fan.min(10) };
        let mut runs: Vec<Vec<Figures>> = args.brokers.iter().map(|_| Vec::new()).collect();
        for _ in 0..args.pairs {
            for (broker, results) in args.brokers.iter().zip(&mut runs) {
                let figures = case(broker, shape, messages)?;
                println!("{}", Row { what: &shape.what, broker: &broker.name, count: messages, figures });
                results.push(figures);
            }
        }
        summary(&shape.what, args, &runs, messages);
    }
    Ok(())
}

fn summary(what: &str, args: &Args, runs: &[Vec<Figures>], messages: u64) {
    for (broker, results) in args.brokers.iter().zip(runs) {
        let cpu = median(results.iter().map(|one| one.cpu_per_million(messages)).collect());
        let speed = median(results.iter().map(|one| one.rate(messages)).collect());
        println!("{what}: {}: median {cpu:.3} CPU s per million, {speed:.0} messages/s", broker.name);
    }
    if let [first, second] = runs {
        let pairs = || first.iter().zip(second);
        let cpu = median(pairs().map(|(a, b)| a.cpu_s / b.cpu_s).collect());
        let speed = median(pairs().map(|(a, b)| b.wall_s / a.wall_s).collect());
        println!("{what}: median of paired ratios: CPU {cpu:.3}, throughput {speed:.2}");
    }
}

fn case(broker: &Target, shape: &Shape, messages: u64) -> Outcome<Figures> {
    let mut admin = Amqp::connect(&broker.address)?;
    let tag = format!("bench-{}", std::process::id());
    let queues: Vec<String> = (0..shape.bindings.len()).map(|at| format!("{tag}-{at}")).collect();
    for queue in &queues {
        admin.declare(queue)?;
    }
    if let Some(kind) = shape.exchange {
        admin.declare_exchange(&tag, kind)?;
        for (queue, keys) in queues.iter().zip(&shape.bindings) {
            keys.iter().try_for_each(|key| admin.bind(queue, &tag, key))?;
        }
    }
    let plan = Publishing {
        address: broker.address.clone(),
        exchange: shape.exchange.map(|_| tag.clone()).unwrap_or_default(),
        queues: if shape.exchange.is_some() { shape.keys.clone() } else { queues.clone() },
        messages,
        bytes: shape.bytes,
        window: shape.window.into(),
        per_write: 1,
        confirmed: Arc::default(),
    };
    let warm_up = WARM_UP.min(messages / 10);
    through(shape, &queues, Publishing { messages: warm_up, ..plan.clone() })?;
    let meter = Meter::start(broker.pid)?;
    through(shape, &queues, plan)?;
    let figures = meter.finish()?;
    queues.iter().try_for_each(|queue| admin.delete(queue))?;
    shape.exchange.map_or(Ok(()), |_| admin.delete_exchange(&tag))?;
    Ok(figures)
}

/// Publishes and consumes all of it.
fn through(shape: &Shape, queues: &[String], plan: Publishing) -> Outcome<()> {
    let one_at_a_time = shape.window == 1;
    let consuming = Consuming {
        address: plan.address.clone(),
        queues: queues.to_vec(),
        consumers: 1,
        prefetch: shape.window,
        ack_every: if one_at_a_time { 1 } else { ACK_EVERY.min(u64::from(shape.window) / 2) },
        messages: plan.messages * shape.fan,
        received: Arc::new(AtomicU64::new(0)),
    };
    let reader = thread::spawn(move || consume(&consuming).map(drop));
    publish(&Publishing { confirmed: Arc::default(), ..plan })?;
    reader.join().map_err(|_| "a consumer panicked")?
}
