//! Time is an argument: whoever needs it is handed a [`Now`]; only the driver reads a clock.

use std::time::Duration;

/// A moment of the monotonic clock: nanoseconds since some fixed point before the process did any work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// The moment `wait` later; saturates at the end of time (584 years).
    #[must_use]
    pub fn plus(self, wait: Duration) -> Mono {
        Mono(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not after.
    #[must_use]
    pub fn since(self, earlier: Mono) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A moment of the wall clock: milliseconds since 1970-01-01 UTC. It may jump; never measure with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Wall(pub i64);

/// Both clocks, read once a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// For deadlines and durations.
    pub mono: Mono,
    /// For the times that messages carry.
    pub wall: Wall,
}

/// The length of a time spelled as a number and a unit (years, months, days, hours, minutes, seconds: `7D`, `30m`), in
/// milliseconds.
#[must_use]
pub fn interval_ms(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        'Y' => 365 * 86_400,
        'M' => 30 * 86_400,
        'D' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return None,
    };
    let count = text.strip_suffix(unit)?.parse::<u64>().ok()?;
    count.checked_mul(seconds * 1000)
}
