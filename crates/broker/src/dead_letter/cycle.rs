//! Cycles: a message that died of age or fullness in a queue is not sent to that queue again, unless a consumer
//! rejected it in between: then somebody has looked at it.

use model::Reason;

/// Whether sending a message on to `queue` would close a cycle; [`Cycle::saw`] is given its deaths, the latest first.
#[derive(Debug)]
pub(super) struct Cycle<'a> {
    queue: &'a str,
    /// Decided.
    is_cycle: Option<bool>,
}

impl<'a> Cycle<'a> {
    pub(super) fn to(queue: &'a str) -> Cycle<'a> {
        Cycle { queue, is_cycle: None }
    }

    /// It died in `queue`.
    pub(super) fn saw(&mut self, queue: &str, reason: Reason) {
        if self.is_cycle.is_none() && reason == Reason::Rejected {
            self.is_cycle = Some(false);
        }
        if self.is_cycle.is_none() && queue == self.queue {
            self.is_cycle = Some(true);
        }
    }

    /// All deaths were given.
    pub(super) fn is_cycle(&self) -> bool {
        self.is_cycle == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_cycle(deaths: &[(&str, Reason)]) -> bool {
        let mut cycle = Cycle::to("q");
        deaths.iter().for_each(|(queue, reason)| cycle.saw(queue, *reason));
        cycle.is_cycle()
    }

    #[test]
    fn a_rejection_since_the_death_there_breaks_the_cycle() {
        use Reason::{Expired, MaxLength, Rejected};
        assert!(!is_cycle(&[]));
        assert!(!is_cycle(&[("delay", Expired)]));
        assert!(is_cycle(&[("q", Expired)]));
        assert!(is_cycle(&[("delay", Expired), ("q", MaxLength)]));
        assert!(!is_cycle(&[("delay", Expired), ("q", Rejected)]));
        assert!(!is_cycle(&[("delay", Expired), ("other", Rejected), ("q", Expired)]));
        assert!(is_cycle(&[("q", Expired), ("other", Rejected)]));
    }
}
