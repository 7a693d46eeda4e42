//! One lane of the pools: tasks in the order they came, for the threads that serve it. A thread with nothing to do
//! sleeps at once: a channel that first spins and yields for a while costs a sync more than the hand-over itself.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// What lane and threads share.
#[derive(Debug)]
pub struct Lane<T> {
    waiting: Mutex<Waiting<T>>,
    come: Condvar,
}

#[derive(Debug)]
struct Waiting<T> {
    tasks: VecDeque<T>,
    /// Threads that sleep: nobody is woken when none does.
    asleep: usize,
    /// No more tasks will come.
    closed: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Lane<T> {
        let waiting = Waiting { tasks: VecDeque::new(), asleep: 0, closed: false };
        Lane { waiting: Mutex::new(waiting), come: Condvar::new() }
    }
}

impl<T> Lane<T> {
    /// One more task; wakes a thread if one sleeps. Whoever holds the lock only moves a task in or out.
    pub fn push(&self, task: T) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.tasks.push_back(task);
        let wakes = waiting.asleep > 0;
        drop(waiting); // else the thread would wake only to wait for this lock
        if wakes {
            self.come.notify_one();
        }
    }

    /// The next task, waited for; `None` once the lane is closed and empty.
    pub fn take(&self) -> Option<T> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(task) = waiting.tasks.pop_front() {
                return Some(task);
            }
            if waiting.closed {
                return None;
            }
            waiting.asleep += 1;
            waiting = self.come.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.asleep -= 1;
        }
    }

    /// Lets the threads end after the tasks that are there.
    pub fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.come.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_task_is_taken_once_and_threads_end_when_it_closes() {
        let lane = Arc::new(Lane::default());
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let lane = Arc::clone(&lane);
                std::thread::spawn(move || std::iter::from_fn(|| lane.take()).collect::<Vec<u32>>())
            })
            .collect();
        (0..10_000).for_each(|task| lane.push(task));
        lane.close();
        let mut taken: Vec<u32> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..10_000).collect::<Vec<_>>());
    }
}
