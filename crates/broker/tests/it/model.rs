//! The partition against a model: what was appended, what readers see, which retries are known, through turns, syncs,
//! kills and power cuts in any order.
#![allow(clippy::indexing_slicing)]

use crate::shard::{Shard, batch};
use broker::partition::Watched;
use broker::{BrokerError, CallId, Lsn, Progress, SessionId, SyncPolicy};
use model::{LogId, Offset};
use proptest::prelude::*;

const LOGS: usize = 2;
const PRODUCERS: i64 = 2;

#[derive(Clone, Debug)]
enum Op {
    /// An append by nobody in particular.
    Plain { log: usize, count: u8, policy: SyncPolicy },
    /// A batch of a producer: `back` 0 is the next one, 1 the last one again …; negative leaves a gap.
    Marked { log: usize, producer: i64, back: i8, bump: bool, policy: SyncPolicy },
    /// The turn ends.
    Turn,
    /// One job runs and comes back.
    Job,
    /// The turn ends and all jobs run.
    Settle,
    /// The process dies.
    Kill,
    /// The power fails.
    Cut(u64),
}

fn ops() -> impl Strategy<Value = Op> {
    let policy = || prop_oneof![Just(SyncPolicy::None), Just(SyncPolicy::Sync)];
    let plain = (0..LOGS, 1u8..4, policy()).prop_map(|(log, count, policy)| Op::Plain { log, count, policy });
    let marked = (0..LOGS, 0..PRODUCERS, prop_oneof![6 => Just(0i8), 3 => 1i8..7, 1 => -2i8..0], 0..40, policy())
        .prop_map(|(log, producer, back, bump, policy)| Op::Marked { log, producer, back, bump: bump == 0, policy });
    prop_oneof![
        4 => plain,
        20 => marked,
        6 => Just(Op::Turn),
        4 => Just(Op::Job),
        2 => Just(Op::Settle),
        1 => Just(Op::Kill),
        1 => any::<u64>().prop_map(Op::Cut),
    ]
}

/// One batch as appended: all that its messages say, so that a log read back tells what is known of producers.
#[derive(Clone, PartialEq, Debug)]
struct Entry {
    base: u64,
    texts: Vec<String>,
    producer: Option<(i64, i16, i32)>,
    lsn: Lsn,
    policy: SyncPolicy,
}

#[derive(Default)]
struct Log {
    entries: Vec<Entry>,
    visible: u64,
}

impl Log {
    fn end(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.base + entry.texts.len() as u64)
    }

    /// The entries of a producer's newest epoch.
    fn of(&self, producer: i64) -> Vec<&Entry> {
        let of = |entry: &&Entry| entry.producer.is_some_and(|(id, ..)| id == producer);
        let epoch = self.entries.iter().rfind(of).and_then(|entry| entry.producer).map_or(0, |(_, epoch, _)| epoch);
        self.entries.iter().filter(of).filter(|entry| entry.producer.is_some_and(|(_, at, _)| at == epoch)).collect()
    }

    /// How far readers may see: an entry is safe by the strictest policy of its turn, and none passes an unsafe one.
    fn visible_at(&self, progress: Progress) -> u64 {
        let strict = |lsn| self.entries.iter().any(|other| other.lsn == lsn && other.policy == SyncPolicy::Sync);
        let safe = |entry: &&Entry| {
            if strict(entry.lsn) { entry.lsn <= progress.synced } else { entry.lsn <= progress.written }
        };
        let seen = self.entries.iter().take_while(safe).last();
        seen.map_or(0, |entry| entry.base + entry.texts.len() as u64)
    }
}

struct Model {
    shard: Shard,
    ids: Vec<LogId>,
    logs: Vec<Log>,
    count: u64,
}

impl Model {
    fn new() -> Model {
        let mut shard = Shard::new();
        let ids = shard.topic("t", LOGS as i64);
        let mut model = Model { shard, ids, logs: (0..LOGS).map(|_| Log::default()).collect(), count: 0 };
        (0..LOGS).for_each(|log| model.watch(log));
        model
    }

    fn watch(&mut self, log: usize) {
        let from = Offset(self.logs[log].visible);
        let watched = Watched { log: self.ids[log], from };
        self.shard.broker.watch(SessionId(1), CallId(log as u64), &[watched]);
    }

    fn texts(&mut self, count: u8) -> Vec<String> {
        let first = self.count;
        self.count += u64::from(count);
        (first..self.count).map(|number| format!("m{number}")).collect()
    }

    fn plain(&mut self, log: usize, count: u8, policy: SyncPolicy) {
        let texts = self.texts(count);
        let messages: Vec<(i64, &str)> = texts.iter().map(|text| (1, text.as_str())).collect();
        let appended = self.shard.append(self.ids[log], &messages, policy).unwrap();
        let base = self.logs[log].end();
        assert_eq!(appended.base, Offset(base));
        self.logs[log].entries.push(Entry { base, texts, producer: None, lsn: appended.lsn, policy });
    }

    fn marked(&mut self, log: usize, producer: i64, back: i8, bump: bool, policy: SyncPolicy) {
        let base = self.logs[log].end();
        let known: Vec<Entry> = self.logs[log].of(producer).into_iter().cloned().collect();
        let (_, epoch, last) = known.last().and_then(|entry| entry.producer).unwrap_or((producer, 0, -1));
        let (epoch, sequence) = if bump { (epoch + 1, 0) } else { (epoch, last + 1 - i32::from(back)) };
        if sequence < 0 {
            return;
        }
        let texts = self.texts(1);
        let mark = batch(producer, epoch, sequence, sequence);
        let answer = self.shard.append_as(self.ids[log], &[(1, &texts[0])], policy, mark);
        let seen =
            known.iter().rev().take(5).find(|entry| !bump && entry.producer == Some((producer, epoch, sequence)));
        match (answer, seen) {
            (Ok(appended), Some(entry)) => {
                assert_eq!(appended.base.0, entry.base, "a retry is answered with the old place");
                let progress = self.shard.broker.progress();
                let is_safe = policy == SyncPolicy::None || progress.synced >= entry.lsn;
                assert!(appended.lsn >= entry.lsn || is_safe, "acked before it is safe");
            }
            (Ok(appended), None) => {
                assert!(bump || known.is_empty() || sequence == last + 1, "{sequence} after {last}");
                assert_eq!(appended.base.0, base);
                let producer = Some((producer, epoch, sequence));
                self.logs[log].entries.push(Entry { base, texts, producer, lsn: appended.lsn, policy });
            }
            (Err(BrokerError::SequenceGap { expected, .. }), None) => {
                assert_eq!(expected, last + 1);
                assert!(sequence != expected);
            }
            (Err(other), _) => panic!("{other}"),
        }
    }

    /// Readers see what the model says, and are told when there is more.
    fn check(&mut self) {
        let progress = self.shard.broker.progress();
        let told = self.shard.events();
        for log in 0..LOGS {
            let visible = self.logs[log].visible_at(progress);
            let moved = visible > self.logs[log].visible;
            self.logs[log].visible = visible;
            assert_eq!(self.shard.end(self.ids[log]), visible);
            assert_eq!(told.contains(&(1, log as u64)), moved, "log {log} at {visible}: {told:?}");
            if moved {
                self.watch(log);
            }
        }
    }

    /// The shard is another process now: what it holds is a beginning of each log, at least what was safe.
    fn restart(&mut self, shard: Shard, least: impl Fn(&Entry) -> bool) {
        self.shard = shard;
        for log in 0..LOGS {
            let read = self.shard.read(self.ids[log], 0);
            let model = &mut self.logs[log];
            let end = read.len() as u64;
            let kept = model.entries.iter().take_while(|entry| entry.base < end).count();
            let lost: Vec<Entry> = model.entries.drain(kept..).collect();
            assert!(!lost.iter().any(&least), "lost though it was safe: {lost:?}");
            let texts: Vec<&String> = model.entries.iter().flat_map(|entry| &entry.texts).collect();
            assert_eq!(read.iter().map(|(_, text)| text).collect::<Vec<_>>(), texts);
            for entry in &mut model.entries {
                entry.lsn = Lsn(0);
            }
            model.visible = end;
            self.watch(log);
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Plain { log, count, policy } => self.plain(*log, *count, *policy),
            Op::Marked { log, producer, back, bump, policy } => self.marked(*log, *producer, *back, *bump, *policy),
            Op::Turn => self.shard.turn(),
            Op::Job => {
                if let Some(job) = self.shard.broker.next_job() {
                    self.shard.broker.complete(job.run(), self.shard.now);
                }
            }
            Op::Settle => self.shard.settle_down(),
            Op::Kill => {
                let written = self.shard.broker.progress().written;
                self.restart(self.shard.killed(), |entry| entry.lsn <= written);
            }
            Op::Cut(seed) => {
                let synced = self.shard.broker.progress().synced;
                self.restart(self.shard.power_cut(*seed), |entry| entry.lsn <= synced);
            }
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_partition_does_what_its_model_does_through_crashes(ops in prop::collection::vec(ops(), 1..200)) {
        let mut model = Model::new();
        for op in &ops {
            model.step(op);
        }
    }
}
