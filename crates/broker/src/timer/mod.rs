//! Timers: which of many things are due next. In memory; what must survive a restart is found again by its owner.
//!
//! It reads no clock: whoever owns it says what time it is.

use std::collections::BTreeSet;

use model::Mono;

/// Moments at which something named by `K` is due.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    due: BTreeSet<(Mono, K)>,
}

impl<K: Ord> Default for Timers<K> {
    fn default() -> Self {
        Timers { due: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// Moves the timer of `key` from `before` to `after`.
    pub(crate) fn set(&mut self, key: K, before: Option<Mono>, after: Option<Mono>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, key));
        }
        if let Some(after) = after {
            self.due.insert((after, key));
        }
    }

    /// The next moment at which something is due.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes out one that is due.
    pub(crate) fn pop(&mut self, now: Mono) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first().map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_out_in_order_and_once() {
        let mut timers = Timers::default();
        timers.set(1, None, Some(Mono(30)));
        timers.set(2, None, Some(Mono(10)));
        timers.set(3, None, Some(Mono(20)));
        timers.set(3, Some(Mono(20)), Some(Mono(5)));
        assert_eq!(timers.next(), Some(Mono(5)));
        assert_eq!((timers.pop(Mono(12)), timers.pop(Mono(12)), timers.pop(Mono(12))), (Some(3), Some(2), None));
        timers.set(1, Some(Mono(30)), None);
        assert_eq!(timers.next(), None);
    }
}
