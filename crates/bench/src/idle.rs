//! P13: what many queues and many connections cost that do nothing.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::judge::amqp::Amqp;
use crate::judge::wire::{Writer, broken};
use crate::load::amqp::{Frames, method};
use crate::measure::Meter;
use crate::target::Target;
use crate::{Outcome, parse_target, procfs};

const DECLARE_OK: (i64, i64) = (50, 11);

/// What P13 is told.
#[derive(clap::Args)]
pub struct Args {
    /// A running broker, as NAME=HOST:PORT@PID of its AMQP door.
    #[arg(long = "broker", value_parser = parse_target, required = true)]
    brokers: Vec<Target>,
    /// Queues to declare.
    #[arg(long, default_value_t = 10_000)]
    queues: u32,
    /// Connections to hold open.
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
    /// Declare each only after the answer to the one before, on one channel.
    #[arg(long)]
    one_by_one: bool,
    /// Seconds to look at the idle process.
    #[arg(long, default_value_t = 10)]
    idle_s: u64,
}

/// Runs it against each broker and prints the figures.
///
/// # Errors
/// When a broker refuses anything.
pub fn run(args: &Args) -> Outcome<()> {
    for broker in &args.brokers {
        let before = procfs::usage(broker.pid)?;
        println!("{}: RSS {:.1} MiB at first", broker.name, before.rss_mib);
        queues(args, broker)?;
        idle(args, broker)?;
        connections(args, broker)?;
    }
    Ok(())
}

fn queues(args: &Args, broker: &Target) -> Outcome<()> {
    const DURABLE: u8 = 2;
    let mut to = Amqp::connect(&broker.address)?.into_stream();
    let mut frames = Frames::new(to.try_clone().map_err(|why| why.to_string())?);
    let tag = std::process::id();
    let declare = |at: u32| {
        let name = format!("idle-{tag}-{at}");
        method((50, 10), &Writer::default().u16(0).text8(&name).u8(DURABLE).u32(0).0)
    };
    let meter = Meter::start(broker.pid)?;
    if args.one_by_one {
        for at in 0..args.queues {
            to.write_all(&declare(at)).map_err(broken)?;
            declared(&mut frames)?;
        }
    } else {
        let all: Vec<u8> = (0..args.queues).flat_map(declare).collect();
        let mut writer = to.try_clone().map_err(|why| why.to_string())?;
        let writing = std::thread::spawn(move || writer.write_all(&all).map_err(broken));
        for _ in 0..args.queues {
            declared(&mut frames)?;
        }
        writing.join().map_err(|_| "the writer panicked")??;
    }
    let figures = meter.finish()?;
    println!(
        "{}: {} durable queues declared {} in {:.2} s, {:.2} CPU s, RSS {:.1} MiB",
        broker.name,
        args.queues,
        if args.one_by_one { "one by one" } else { "at once" },
        figures.wall_s,
        figures.cpu_s,
        figures.rss_mib
    );
    Ok(())
}

fn declared(frames: &mut Frames) -> Outcome<()> {
    match frames.next_method()? {
        Some((DECLARE_OK, _)) => Ok(()),
        Some((other, fields)) => Err(format!("{other:?}: {}", String::from_utf8_lossy(fields))),
        None => Err("no answer to a declare".to_owned()),
    }
}

fn connections(args: &Args, broker: &Target) -> Outcome<()> {
    let meter = Meter::start(broker.pid)?;
    let mut held: Vec<TcpStream> = Vec::new();
    for _ in 0..args.connections {
        held.push(Amqp::connect(&broker.address)?.into_stream());
    }
    let figures = meter.finish()?;
    println!(
        "{}: {} connections with a channel each in {:.2} s, {:.2} CPU s, RSS {:.1} MiB",
        broker.name,
        held.len(),
        figures.wall_s,
        figures.cpu_s,
        figures.rss_mib
    );
    idle(args, broker)
}

fn idle(args: &Args, broker: &Target) -> Outcome<()> {
    let (before, begun) = (procfs::usage(broker.pid)?, Instant::now());
    std::thread::sleep(Duration::from_secs(args.idle_s));
    let after = procfs::usage(broker.pid)?;
    let share = (after.cpu_s - before.cpu_s) / begun.elapsed().as_secs_f64() * 100.0;
    println!("{}: idle: RSS {:.1} MiB, {share:.2} % of one core", broker.name, after.rss_mib);
    Ok(())
}
