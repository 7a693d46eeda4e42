//! What a stretch of work cost a broker: CPU of its process, time, memory, and how much of the machine others took.

use std::fmt;
use std::time::Instant;

use crate::{Outcome, procfs};

/// Begun when the work begins.
pub struct Meter {
    pid: u32,
    before: procfs::Usage,
    busy_s: f64,
    own_s: f64,
    begun: Instant,
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// CPU seconds of the broker.
    pub cpu_s: f64,
    /// Seconds on the wall.
    pub wall_s: f64,
    /// Resident memory at the end, in MiB.
    pub rss_mib: f64,
    /// The most it ever was, in MiB.
    pub peak_mib: f64,
    /// The part of the machine that was taken by neither the broker nor this process and its ended children.
    pub others_share: f64,
}

impl Meter {
    /// Begins to measure process `pid`.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn start(pid: u32) -> Outcome<Meter> {
        Ok(Meter {
            pid,
            before: procfs::usage(pid)?,
            busy_s: procfs::machine_busy_s(),
            own_s: procfs::own_cpu_s(),
            begun: Instant::now(),
        })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When the process has gone.
    pub fn finish(&self) -> Outcome<Figures> {
        let wall_s = self.begun.elapsed().as_secs_f64();
        let after = procfs::usage(self.pid)?;
        let cpu_s = after.cpu_s - self.before.cpu_s;
        let others_s = procfs::machine_busy_s() - self.busy_s - cpu_s - (procfs::own_cpu_s() - self.own_s);
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        Ok(Figures {
            cpu_s,
            wall_s,
            rss_mib: after.rss_mib,
            peak_mib: after.peak_mib,
            others_share: (others_s / (wall_s * cores)).max(0.0),
        })
    }
}

impl Figures {
    /// CPU seconds for each million of `count`.
    #[must_use]
    pub fn cpu_per_million(&self, count: u64) -> f64 {
        self.cpu_s / (count as f64 / 1e6)
    }

    /// So many a second.
    #[must_use]
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 / self.wall_s
    }
}

/// `count` pieces of work and what they cost, as one row of a table under [`HEAD`].
pub struct Row<'a> {
    /// What was done.
    pub what: &'a str,
    /// By which broker.
    pub broker: &'a str,
    /// How many messages.
    pub count: u64,
    /// The cost.
    pub figures: Figures,
}

/// The head of a table of [`Row`]s.
pub const HEAD: &str =
    "case                       broker       messages  CPU s/M    messages/s  RSS MiB  peak MiB  others' CPU";

impl fmt::Display for Row<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { rss_mib, peak_mib, others_share, .. } = self.figures;
        let (cpu, rate) = (self.figures.cpu_per_million(self.count), self.figures.rate(self.count));
        write!(
            to,
            "{:<26} {:<10} {:>10} {cpu:>8.3} {rate:>13.0} {rss_mib:>8.1} {peak_mib:>9.1} {:>11.0}%",
            self.what,
            self.broker,
            self.count,
            others_share * 100.0
        )
    }
}

/// The middle one, or the mean of the middle two.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (Some(below), Some(above)) if values.len().is_multiple_of(2) => (below + above) / 2.0,
        (_, Some(value)) => *value,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_read_right() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
