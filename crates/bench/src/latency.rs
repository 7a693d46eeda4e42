//! P10: how long a persistent message takes to its consumer, and its confirm to its publisher, at a fixed rate. The
//! sender does not wait for anything: each message counts from the moment at which it was to be sent.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use crate::judge::amqp::Amqp;
use crate::judge::wire::broken;
use crate::load::amqp::{Consuming, Frames, ack, message, subscriptions};
use crate::measure::Meter;
use crate::target::Target;
use crate::{Outcome, parse_target};

const BODY: u8 = 3;
/// Nothing for so long: something is lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first part of a run is not counted.
const WARM_UP: Duration = Duration::from_secs(1);

/// What P10 is told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID of its AMQP door.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Messages a second.
    #[arg(long = "rate", value_delimiter = ',', default_value = "1000,10000")]
    rates: Vec<u64>,
    /// Seconds of each run.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Bytes of a body.
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// How often the brokers take turns.
    #[arg(long, default_value_t = 3)]
    pairs: u32,
}

/// Runs it and prints the table.
///
/// # Errors
/// When a broker refuses anything.
pub fn run(args: &Args) -> Outcome<()> {
    println!(
        "rate/s  broker      CPU s/M   delivery ms: p50    p99  p99.9   confirm ms: p50    p99  p99.9  others' CPU"
    );
    for &rate in &args.rates {
        for _ in 0..args.pairs {
            for broker in &args.brokers {
                case(args, broker, rate)?;
            }
        }
    }
    Ok(())
}

fn case(args: &Args, broker: &Target, rate: u64) -> Outcome<()> {
    let mut admin = Amqp::connect(&broker.address)?;
    let queue = format!("latency-{}", std::process::id());
    admin.declare(&queue)?;
    let messages = rate * args.seconds;
    let plan = Consuming {
        address: broker.address.clone(),
        queues: vec![queue.clone()],
        consumers: 1,
        prefetch: 1000,
        ack_every: 1,
        messages,
        received: Arc::new(AtomicU64::new(0)),
    };
    let meter = Meter::start(broker.pid)?;
    let begun = Instant::now() + Duration::from_millis(200);
    let due = Due { begun, every: Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX) };
    let consumer = thread::spawn(move || delivered(&plan, due));
    let mut client = Amqp::connect(&broker.address)?;
    client.confirm()?;
    let to = client.into_stream();
    let from = to.try_clone().map_err(|why| why.to_string())?;
    let confirms = thread::spawn(move || confirmed(Frames::new(from), messages, due));
    let frames = message("", &queue, &vec![b'x'; args.bytes.max(8)]);
    send(to, (&frames, args.bytes.max(8)), messages, due)?;
    let confirms = confirms.join().map_err(|_| "a reader panicked")??;
    let deliveries = consumer.join().map_err(|_| "a consumer panicked")??;
    let figures = meter.finish()?;
    println!(
        "{rate:>6}  {:<10} {:>8.2} {} {} {:>11.0}%",
        broker.name,
        figures.cpu_per_million(messages),
        shown(deliveries, due),
        shown(confirms, due),
        figures.others_share * 100.0
    );
    admin.delete(&queue)
}

/// When each message is to be sent.
#[derive(Clone, Copy)]
struct Due {
    begun: Instant,
    every: Duration,
}

impl Due {
    fn at(&self, number: u64) -> Instant {
        self.begun + self.every * u32::try_from(number).unwrap_or(u32::MAX)
    }

    fn late(&self, number: u64) -> Duration {
        self.at(number).elapsed()
    }
}

/// Sends each message when it is due; those that are due together in one write.
fn send(mut to: std::net::TcpStream, (frames, body_bytes): (&[u8], usize), messages: u64, due: Due) -> Outcome<()> {
    let mut sent = 0;
    let mut block = Vec::new();
    while sent < messages {
        let now = Instant::now();
        if due.at(sent) > now {
            thread::sleep(due.at(sent) - now);
        }
        block.clear();
        while sent < messages && due.at(sent) <= Instant::now() && block.len() < 1 << 20 {
            block.extend_from_slice(frames);
            // The body is the last of the frames, before its end mark; it begins with the message's number.
            let body = block.len() - 1 - body_bytes;
            block[body..body + 8].copy_from_slice(&sent.to_be_bytes());
            sent += 1;
        }
        to.write_all(&block).map_err(broken)?;
    }
    Ok(())
}

fn confirmed(mut frames: Frames, messages: u64, due: Due) -> Outcome<Vec<Duration>> {
    let mut late = Vec::new();
    while (late.len() as u64) < messages {
        let upto = frames.confirmed()?;
        // A confirm of one out of order counts when those before it are confirmed too.
        while (late.len() as u64) < upto {
            late.push(due.late(late.len() as u64));
        }
    }
    Ok(late)
}

fn delivered(plan: &Consuming, due: Due) -> Outcome<Vec<Duration>> {
    let client = Amqp::connect(&plan.address)?;
    let mut to = client.into_stream();
    let from = to.try_clone().map_err(|why| why.to_string())?;
    from.set_read_timeout(Some(PATIENCE)).map_err(|why| why.to_string())?;
    to.write_all(&subscriptions(plan)).map_err(broken)?;
    let mut frames = Frames::new(from);
    let mut late = vec![Duration::ZERO; usize::try_from(plan.messages).unwrap_or(0)];
    for tag in 1..=plan.messages {
        let number = loop {
            match frames.next()? {
                Some((BODY, body)) => break body.first_chunk().copied().map_or(0, u64::from_be_bytes),
                Some(_) => {}
                None => return Err(format!("{} of {} messages came", tag - 1, plan.messages)),
            }
        };
        let place = late.get_mut(usize::try_from(number).unwrap_or(usize::MAX)).ok_or("a message nobody sent")?;
        *place = due.late(number);
        to.write_all(&ack(tag)).map_err(broken)?;
    }
    Ok(late)
}

fn shown(late: Vec<Duration>, due: Due) -> String {
    let skipped = usize::try_from(WARM_UP.as_nanos() / due.every.as_nanos().max(1)).unwrap_or(0);
    let mut late: Vec<Duration> = late.into_iter().skip(skipped).collect();
    late.sort_unstable();
    let at = |part: f64| late.get((part * late.len().saturating_sub(1) as f64) as usize).copied().unwrap_or_default();
    let ms = |part: f64| at(part).as_secs_f64() * 1000.0;
    format!("{:>18.2} {:>6.2} {:>6.2}", ms(0.5), ms(0.99), ms(0.999))
}
