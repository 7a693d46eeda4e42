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

/// As UTC by RFC 3339, to the millisecond; moments before 1970 as 1970.
impl std::fmt::Display for Wall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.0.max(0);
        let (days, ms) = (at / 86_400_000, at % 86_400_000);
        // Civil from days (Howard Hinnant's algorithm), for years after 1970.
        let z = days + 719_468;
        let (era, of_era) = (z / 146_097, z % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let m = (5 * of_year + 2) / 153;
        let (day, month) = (of_year - (153 * m + 2) / 5 + 1, if m < 10 { m + 3 } else { m - 9 });
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second, milli) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

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
