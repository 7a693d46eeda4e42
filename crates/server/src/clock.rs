//! The one place where time is read. Everybody else is told what time it is, once a turn of the driver.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::{Mono, Now, Wall};

/// Both clocks.
pub trait Clock: Send {
    /// What time it is.
    fn now(&self) -> Now;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

/// The monotonic clock begins here, not at 0, so that a moment before the first turn can be told from "never".
const START: Duration = Duration::from_secs(1);

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        // A clock set before 1970 is taken for 1970: nothing in here can go on with less.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            mono: Mono(0).plus(START + self.start.elapsed()),
            wall: Wall(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)),
        }
    }
}

/// Waits until `done` says so, looking every few milliseconds, at most `limit` long: for the command line and start-up,
/// never for the data thread.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
