//! Which queues run over a log: one over its own, any number over a topic's. It is asked twice for every message.

use model::LogId;

use crate::id_map::IdMap;

/// For each log the queues over it.
#[derive(Default)]
pub(crate) struct Over(IdMap<LogId, Those>);

#[allow(clippy::box_collection)] // most are one, and there are many
enum Those {
    One(u64),
    /// Ascending.
    Several(Box<Vec<u64>>),
}

impl Over {
    /// Makes room for `more` logs.
    pub(super) fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }

    /// `queue` runs over `log`.
    pub(super) fn insert(&mut self, log: LogId, queue: u64) {
        let those = self.0.entry(log).or_insert(Those::One(queue));
        match those {
            Those::One(one) if *one != queue => {
                *those = Those::Several(Box::new(vec![queue.min(*one), queue.max(*one)]));
            }
            Those::One(_) => {}
            Those::Several(several) => {
                if let Err(at) = several.binary_search(&queue) {
                    several.insert(at, queue);
                }
            }
        }
    }

    /// `queue` runs over `log` no more.
    pub(super) fn remove(&mut self, log: LogId, queue: u64) {
        let is_last = match self.0.get_mut(&log) {
            None => false,
            Some(Those::One(one)) => *one == queue,
            Some(Those::Several(several)) => {
                several.retain(|one| *one != queue);
                several.is_empty()
            }
        };
        if is_last {
            self.0.remove(&log);
        }
    }

    /// The queues over `log`, ascending.
    pub(crate) fn of(&self, log: LogId) -> &[u64] {
        match self.0.get(&log) {
            None => &[],
            Some(Those::One(one)) => std::slice::from_ref(one),
            Some(Those::Several(several)) => several,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_come_and_go_over_a_log() {
        let (mut over, log) = (Over::default(), LogId(7));
        for (queue, then) in [(5, &[5][..]), (5, &[5]), (2, &[2, 5]), (9, &[2, 5, 9]), (2, &[2, 5, 9])] {
            over.insert(log, queue);
            assert_eq!(over.of(log), then);
        }
        assert!(over.of(LogId(8)).is_empty());
        for (queue, then) in [(5, &[2, 9][..]), (5, &[2, 9]), (2, &[9]), (1, &[9]), (9, &[])] {
            over.remove(log, queue);
            assert_eq!(over.of(log), then);
        }
        assert!(over.0.is_empty());
    }
}
