//! One reader of a cold backlog beside a tail that is followed: what the tail's latency is without it and with it.
//! Open loop: a record is due every few milliseconds whatever happens, and counts from when it was due.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::judge::kafka::Kafka;
use crate::target::Target;

/// From one record to the next.
const EVERY: Duration = Duration::from_millis(2);
const VALUE_BYTES: usize = 1024;
/// An answer to the follower waits at most so long.
const WAIT_MS: i32 = 500;

/// Latencies from due to fetched, in milliseconds, sorted.
pub(crate) struct Latencies(Vec<f64>);

impl Latencies {
    /// The latency that `part` of all do not exceed.
    pub(crate) fn at(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
    }

    /// How many were measured.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Produces (acks=1) and follows a partition of `topic` until `stop` says so.
///
/// # Errors
/// When anything is refused.
pub(crate) fn follow(broker: &Target, topic: &str, stop: &AtomicBool) -> Outcome<Latencies> {
    let mut producer = Kafka::connect(&broker.address)?;
    let mut follower = Kafka::connect(&broker.address)?;
    let from = follower.fetch(topic, 0, 0)?.0 as u64;
    let begun = Instant::now();
    thread::scope(|scope| {
        let mut answers = producer.reader()?;
        let value = vec![vec![b'v'; VALUE_BYTES]];
        let sending = scope.spawn(move || -> Outcome<u64> {
            let mut sent = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let due = EVERY * sent as u32;
                thread::sleep(due.saturating_sub(begun.elapsed()));
                producer.produce(topic, 0, 1, &value)?;
                answers.produced()?;
                sent += 1;
            }
            Ok(sent)
        });
        let mut latencies = Vec::new();
        let mut next = from;
        while !(sending.is_finished() && stop.load(Ordering::Relaxed)) {
            let end = follower.await_end(topic, next, WAIT_MS)?;
            let now = begun.elapsed();
            for number in next - from..end.max(next) - from {
                latencies.push(now.saturating_sub(EVERY * number as u32).as_secs_f64() * 1e3);
            }
            next = end.max(next);
        }
        sending.join().map_err(|_| "the producer panicked")??;
        latencies.sort_by(f64::total_cmp);
        Ok(Latencies(latencies))
    })
}
