//! Settling behind the appends: it is paced, never left behind for ever, and when the disk is too slow for it appends
//! wait; the window stays bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::common::oracle::{Change, Pair};
use crate::common::tiny;
use storage::job::Lane;
use storage::sim_disk::{run_jobs, settle_down};
use storage::{Job, Options, SimDisk, Storage, StorageError, SyncPolicy};

// Jobs that a driver holds: syncs are done at once, of the others one in so many turns.
#[derive(Default)]
struct Slow {
    work: VecDeque<Job>,
    turn: u64,
}

impl Slow {
    fn end_turn(&mut self, storage: &mut Storage, one_in: u64) {
        storage.flush().unwrap();
        self.turn += 1;
        if self.turn.is_multiple_of(one_in)
            && let Some(job) = self.work.pop_front()
        {
            storage.complete(job.run()).unwrap();
        }
        while let Some(job) = storage.next_job() {
            if job.lane == Lane::Sync {
                storage.complete(job.run()).unwrap();
            } else {
                self.work.push_back(job);
            }
        }
    }
}

fn put(pair: &mut Pair, n: u64) -> Result<(), StorageError> {
    let content = vec![n as u8; 1500];
    pair.commit(&[Change::Put(vec![(n % 10, 0)], vec![content], n as i64)], SyncPolicy::Sync)?;
    pair.history.drain(..pair.history.len() - 1);
    Ok(())
}

#[test]
fn a_window_that_is_not_settled_in_time_stays_bounded_and_heals() {
    let mut pair = Pair::new();
    let mut slow = Slow::default();
    let (mut refused, mut lagged) = (0, false);
    for n in 0..3000 {
        match put(&mut pair, n) {
            Ok(()) => {}
            Err(StorageError::Behind { files, files_max }) => {
                assert!(files >= files_max);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
        slow.end_turn(&mut pair.storage, 8);
        lagged |= (1..1000).contains(&pair.storage.lag_permille());
        let most = 2 * tiny().journal_files_max + 4;
        assert!(pair.storage.stats().window_files <= most, "{:?}", pair.storage.stats());
    }
    assert!(refused > 100 && lagged, "{refused}");
    assert!(pair.storage.stats().settles > 4, "refusing lets settling catch up: {:?}", pair.storage.stats());
    for job in slow.work.drain(..) {
        pair.storage.complete(job.run()).unwrap();
    }
    settle_down(&mut pair.storage).unwrap();
    assert_eq!(pair.storage.lag_permille(), 0);
    put(&mut pair, 1).expect("it takes appends again");
    pair.storage.flush().unwrap();
    run_jobs(&mut pair.storage).unwrap();
    pair.check_all();
    pair.reopen(pair.disk.crash(3), pair.storage.progress().synced);
}

#[test]
fn copying_stands_back_for_all_others_until_the_window_is_too_large() {
    let mut pair = Pair::new();
    let mut waiting = VecDeque::new();
    let mut begun = 0;
    // Steps are never made: the first has time, and the window grows past its bound behind it.
    let mut fill = |pair: &mut Pair, waiting: &mut VecDeque<Job>, until: &dyn Fn(&Storage) -> bool| {
        while !until(&pair.storage) {
            put(pair, begun).unwrap();
            begun += 1;
            pair.storage.flush().unwrap();
            while let Some(job) = pair.storage.next_job() {
                if job.lane == Lane::Idle {
                    waiting.push_back(job);
                } else {
                    pair.storage.complete(job.run()).unwrap();
                }
            }
        }
    };
    let max = tiny().journal_files_max;
    fill(&mut pair, &mut waiting, &|storage| storage.stats().window_files > max + 1);
    let step = waiting.pop_front().expect("a step that has time");
    assert!(waiting.is_empty(), "one at a time");
    pair.storage.complete(step.run()).unwrap();
    let next = pair.storage.next_job().expect("the next step");
    assert_eq!(next.lane, Lane::Work, "now it must not wait for a core");
}

#[test]
fn whoever_heeds_the_lag_is_never_refused() {
    let mut pair = Pair::new();
    let mut slow = Slow::default();
    for n in 0..1500 {
        // As the driver does it: the more it lags, the longer nothing is read.
        for _ in 0..pair.storage.lag_permille() / 20 {
            slow.end_turn(&mut pair.storage, 3);
        }
        put(&mut pair, n).unwrap();
        slow.end_turn(&mut pair.storage, 3);
    }
}

#[test]
fn settling_ends_in_time_without_a_calm_moment_and_goes_on_alone_when_nothing_is_written() {
    let mut pair = Pair::new();
    let mut slow = Slow::default();
    for n in 0..2000 {
        put(&mut pair, n).unwrap();
        slow.end_turn(&mut pair.storage, 1);
        assert!(pair.storage.stats().window_files <= tiny().journal_files_max + 2);
    }
    assert!(pair.storage.stats().settles > 30, "{:?}", pair.storage.stats());
    // Fill a file more, and stop in the middle of settling.
    for n in 0.. {
        put(&mut pair, n).unwrap();
        slow.end_turn(&mut pair.storage, 1);
        if pair.storage.wants_tick() {
            break;
        }
    }
    let settles = pair.storage.stats().settles;
    for _ in 0..200 {
        slow.end_turn(&mut pair.storage, 1);
    }
    assert_eq!(pair.storage.stats().settles, settles, "it waits for more to be written, or for a calm moment");
    while pair.storage.wants_tick() || !slow.work.is_empty() {
        pair.storage.tick().unwrap();
        slow.end_turn(&mut pair.storage, 1);
    }
    assert!(pair.storage.stats().window_files <= tiny().journal_files_max);
    pair.check_all();
}

#[test]
fn many_logs_are_planned_for_and_written_down_in_slices() {
    let disk = SimDisk::new();
    let options = Options { journal_file_bytes: 1 << 20, ..tiny() };
    let (mut storage, _) = Storage::open(Arc::new(disk.clone()), options.clone()).unwrap();
    let mut woken = 0;
    for turn in 0..40u64 {
        for log in 0..3000 {
            crate::common::put(&mut storage, &[log], &[&turn.to_be_bytes()], SyncPolicy::None).unwrap();
        }
        storage.flush().unwrap();
        while let Some(job) = storage.next_job() {
            woken += 1;
            storage.complete(job.run()).unwrap();
        }
    }
    assert!(storage.stats().settles > 2 && woken > 100, "{woken} {:?}", storage.stats());
    settle_down(&mut storage).unwrap();
    drop(storage);
    let (mut storage, recovered) = Storage::open(Arc::new(disk.kill()), options).unwrap();
    assert_eq!((recovered.damage.len(), recovered.logs.len()), (0, 3000));
    for log in (0..3000).step_by(71) {
        assert_eq!(crate::common::read_all(&mut storage, log).len(), 40);
    }
}

#[test]
fn whoever_fills_a_file_before_the_next_is_ready_is_told_to_be_slow() {
    let mut pair = Pair::new();
    let mut lags = Vec::new();
    // The first file was made at opening, the next one by a job that is late.
    for _ in 0..19 {
        crate::common::put(&mut pair.storage, &[1], &[&[7; 3000]], SyncPolicy::None).unwrap();
        pair.storage.flush().unwrap();
        lags.push(pair.storage.lag_permille());
    }
    assert!(lags.is_sorted() && lags[8] == 0 && lags.last().is_some_and(|lag| (800..1000).contains(lag)), "{lags:?}");
    while let Some(job) = pair.storage.next_job() {
        pair.storage.complete(job.run()).unwrap();
    }
    assert_eq!(pair.storage.lag_permille(), 0);
}

#[test]
fn a_next_file_for_which_there_is_no_space_is_made_when_there_is() {
    let mut pair = Pair::new();
    pair.disk.set_capacity(64 << 10);
    let mut refused = Vec::new();
    for _ in 0..40 {
        if let Err(error) = put(&mut pair, 1) {
            refused.push(error);
        }
        settle_down(&mut pair.storage).unwrap();
    }
    assert!(matches!(refused.last(), Some(StorageError::Full { .. })), "{refused:?}");
    pair.disk.set_capacity(1 << 30);
    pair.storage.look_for_space();
    let tries = (0..3).find(|_| {
        let taken = put(&mut pair, 1).is_ok();
        settle_down(&mut pair.storage).unwrap();
        taken
    });
    assert!(tries.is_some(), "{:?}", pair.storage.full());
}
