//! Heartbeats: we speak at least every half interval, and miss a peer that has been silent for two and a half.

use std::time::Duration;

use model::Mono;

/// Who spoke last, and when somebody must.
#[derive(Debug, Default)]
pub struct Heartbeat {
    interval: Option<Duration>,
    sent: Mono,
    received: Mono,
}

impl Heartbeat {
    /// Agreed on `seconds`; 0 is none.
    pub fn start(&mut self, seconds: u16, now: Mono) {
        self.interval = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        self.sent = now;
        self.received = now;
    }

    /// Something was received: any byte counts.
    pub fn received(&mut self, now: Mono) {
        self.received = now;
    }

    /// Something was sent.
    pub fn sent(&mut self, now: Mono) {
        self.sent = now;
    }

    fn send_at(&self) -> Option<Mono> {
        self.interval.map(|interval| self.sent.plus(interval / 2))
    }

    fn missed_at(&self) -> Option<Mono> {
        self.interval.map(|interval| self.received.plus(interval * 5 / 2))
    }

    /// When to look again.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        self.send_at().into_iter().chain(self.missed_at()).min()
    }

    /// Whether a heartbeat is due.
    #[must_use]
    pub fn is_due(&self, now: Mono) -> bool {
        self.send_at().is_some_and(|at| at <= now)
    }

    /// Whether the peer must be taken for dead.
    #[must_use]
    pub fn is_missed(&self, now: Mono) -> bool {
        self.missed_at().is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_speak_at_half_and_drop_after_two_and_a_half_intervals() {
        let at = |ms: u64| Mono(ms * 1_000_000);
        let mut heartbeat = Heartbeat::default();
        assert_eq!(heartbeat.deadline(), None);
        heartbeat.start(10, at(0));
        assert_eq!(heartbeat.deadline(), Some(at(5_000)));
        assert!(heartbeat.is_due(at(5_000)) && !heartbeat.is_due(at(4_999)));
        heartbeat.sent(at(21_000));
        assert_eq!(heartbeat.deadline(), Some(at(25_000)));
        assert!(heartbeat.is_missed(at(25_000)) && !heartbeat.is_missed(at(24_999)));
        heartbeat.received(at(24_000));
        assert!(!heartbeat.is_missed(at(25_000)));
    }
}
