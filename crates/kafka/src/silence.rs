//! How long a client may say nothing, or leave a request half sent, before its connection is closed. Knows no bytes.

use std::time::Duration;

use model::Mono;

/// A request must be whole so long after its first byte: a large one over a slow line has the time.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(120);

/// What a connection's client was last heard of.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// When bytes last came; zero until the first tick says what time it is.
    heard: Mono,
    /// Since when a request waits for its rest.
    half_since: Option<Mono>,
    /// When to look next. Not moved by every byte: looking early costs less.
    look_at: Mono,
}

impl Silence {
    /// Bytes came; whether they end in the middle of a request.
    pub fn heard(&mut self, now: Mono, is_half: bool) {
        self.heard = now;
        match (is_half, self.half_since) {
            (true, None) => {
                self.half_since = Some(now);
                self.look_at = self.look_at.min(now.plus(REQUEST_TIME_MAX));
            }
            (true, Some(_)) => {}
            (false, _) => self.half_since = None,
        }
    }

    /// A request that waited for its rest is whole, and what follows has begun now.
    pub fn request_done(&mut self) {
        self.half_since = None;
    }

    /// When to look next.
    pub fn deadline(&self) -> Mono {
        self.look_at
    }

    /// Time has passed: why the connection is to be closed, if so. While it waits for an answer of ours a client owes
    /// us nothing.
    pub fn tick(&mut self, now: Mono, is_waiting: bool, idle_max: Duration) -> Option<&'static str> {
        if now < self.look_at {
            return None;
        }
        if self.heard == Mono::default() || is_waiting {
            self.heard = now;
        }
        let idle = self.heard.plus(idle_max);
        let half = self.half_since.map(|since| since.plus(REQUEST_TIME_MAX));
        if half.is_some_and(|half| half <= now) {
            return Some("a request did not arrive whole in time");
        }
        if idle <= now {
            return Some("nothing was heard for too long");
        }
        self.look_at = half.map_or(idle, |half| half.min(idle));
        None
    }
}
