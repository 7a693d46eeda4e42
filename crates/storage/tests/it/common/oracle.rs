//! The promise of storage as a plain model: what the logs and the state table hold after each batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{LogId, Offset, Stamp, Wall};
use storage::{
    Append, Batch, LogRange, Lookup, Lsn, Owner, Recovered, SimDisk, StateChange, Storage, StorageError, SyncPolicy,
    Target,
};

use super::{Toy, read_all, tiny, unit};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelLog {
    pub start: u64,
    pub end: u64,
    /// By offset: content, and the greatest time of the append it came with.
    pub messages: BTreeMap<u64, (Arc<Vec<u8>>, i64)>,
    /// Its segments: first offset, bytes, latest time. The last one is the newest.
    pub segments: Vec<(u64, u64, i64)>,
    pub has_rolled: bool,
}

impl ModelLog {
    fn active(&mut self) -> &mut (u64, u64, i64) {
        if self.segments.is_empty() {
            self.segments.push((0, 0, i64::MIN));
        }
        self.segments.last_mut().unwrap()
    }

    fn whole_segments(mut self) -> Vec<(u64, u64, i64)> {
        self.active();
        self.segments
    }

    fn roll(&mut self) {
        let end = self.end;
        self.has_rolled = true;
        let active = self.active();
        if active.1 > 0 && active.0 < end {
            self.segments.push((end, 0, i64::MIN));
        } else {
            *active = (end, 0, i64::MIN);
        }
    }

    fn trim(&mut self, before: u64) {
        self.start = self.start.max(before);
        self.end = self.end.max(self.start);
        self.messages = self.messages.split_off(&self.start);
        let (start, end) = (self.start, self.end);
        if start == end {
            let first = if self.has_rolled { end } else { 0 };
            *self.active() = (first, 0, i64::MIN);
        }
        while self.segments.len() > 1 && self.segments[1].0 <= start {
            self.segments.remove(0);
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub logs: BTreeMap<u64, ModelLog>,
    pub state: BTreeMap<Owner, Vec<Vec<u8>>>,
}

#[derive(Clone, Debug)]
pub enum Change {
    /// To these logs, each after a gap of so many offsets; contents; time.
    Put(Vec<(u64, u64)>, Vec<Vec<u8>>, i64),
    Trim(u64, u64),
    /// The newest segment of these logs ends.
    Roll(u64),
    Drop(u64),
    Snapshot(Owner, Vec<u8>),
    Delta(Owner, Vec<u8>),
    Forget(Owner),
}

impl Model {
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(targets, contents, time) => {
                let contents: Vec<_> = contents.iter().map(|content| Arc::new(content.clone())).collect();
                for (log, gap) in targets {
                    let log = self.logs.entry(*log).or_default();
                    let first = log.end + gap;
                    for (n, content) in contents.iter().enumerate() {
                        log.messages.insert(first + n as u64, (Arc::clone(content), *time));
                    }
                    log.end = first + contents.len() as u64;
                    let active = log.active();
                    active.1 += contents.iter().map(|content| 12 + content.len() as u64).sum::<u64>();
                    active.2 = active.2.max(*time);
                }
            }
            Change::Trim(log, before) => {
                self.logs.entry(*log).or_default().trim(*before);
            }
            Change::Roll(log) => {
                self.logs.entry(*log).or_default().roll();
            }
            Change::Drop(log) => {
                self.logs.remove(log);
            }
            Change::Snapshot(owner, content) => {
                self.state.insert(*owner, vec![content.clone()]);
            }
            Change::Delta(owner, content) => self.state.entry(*owner).or_default().push(content.clone()),
            Change::Forget(owner) => {
                self.state.remove(owner);
            }
        }
    }
}

/// Commits `changes` as one batch in its order: rolls, appends, trims, drops, state.
pub fn commit(storage: &mut Storage, changes: &[Change], policy: SyncPolicy) -> Result<Lsn, StorageError> {
    let mut ends = BTreeMap::new();
    let puts: Vec<(Vec<Target>, Vec<u8>, u32, i64)> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Put(targets, contents, time) => {
                let mut place = |(log, gap): &(u64, u64)| {
                    let end = storage.range(LogId(*log)).map_or(0, |range| range.end.0);
                    let end = ends.entry(*log).or_insert(end);
                    let first = *end + gap;
                    *end = first + contents.len() as u64;
                    Target { log: LogId(*log), first: Offset(first) }
                };
                let targets = targets.iter().map(&mut place).collect();
                let units = contents.iter().flat_map(|content| unit(content)).collect();
                Some((targets, units, contents.len() as u32, *time))
            }
            _ => None,
        })
        .collect();
    let stamp = Stamp { base: Offset(0), epoch: 0, at: Wall(0) };
    let appends: Vec<Append<'_>> = puts
        .iter()
        .map(|(targets, units, count, time)| Append {
            targets,
            format: &Toy,
            units,
            last_delta: *count - 1,
            count: *count,
            time_max: Wall(*time),
            stamp,
        })
        .collect();
    let mut rolls = Vec::new();
    let mut trims = Vec::new();
    let mut drops = Vec::new();
    let mut state = Vec::new();
    for change in changes {
        match change {
            Change::Put(..) => {}
            Change::Trim(log, before) => trims.push((LogId(*log), Offset(*before))),
            Change::Roll(log) => {
                let end = storage.range(LogId(*log)).map_or(Offset(0), |range| range.end);
                rolls.push((LogId(*log), end));
            }
            Change::Drop(log) => drops.push(LogId(*log)),
            Change::Snapshot(owner, content) => state.push((*owner, StateChange::Snapshot(content))),
            Change::Delta(owner, content) => state.push((*owner, StateChange::Delta(content))),
            Change::Forget(owner) => state.push((*owner, StateChange::Drop)),
        }
    }
    let (trims, drops, state) = (&trims, &drops, &state);
    let batch = Batch { rolls: &rolls, appends: &appends, trims, drops, state, uses_reserve: false };
    storage.commit(&batch, policy)
}

/// What storage holds, read back whole.
pub fn observe(storage: &mut Storage, recovered: &Recovered) -> Model {
    let mut seen = observe_logs(storage, recovered.logs.iter().map(|(log, _)| log.0));
    for (log, range) in &recovered.logs {
        assert_eq!(storage.range(*log), Some(*range));
    }
    seen.state = recovered
        .state
        .iter()
        .map(|(owner, records)| (*owner, records.iter().map(|record| record.to_vec()).collect()))
        .collect();
    seen
}

pub fn observe_logs(storage: &mut Storage, logs: impl Iterator<Item = u64>) -> Model {
    let mut seen = Model::default();
    for log in logs {
        let LogRange { start, end } = storage.range(LogId(log)).unwrap();
        let messages =
            read_all(storage, log).into_iter().map(|(offset, content)| (offset, (Arc::new(content), 0))).collect();
        let segments = storage.log_segments(LogId(log));
        assert!(segments.windows(2).all(|pair| pair[0].end == pair[1].first && !pair[0].is_active));
        let brief = |segment: &storage::LogSegment| {
            (segment.first.0, segment.bytes, segment.time_max.map_or(i64::MIN, |time| time.0))
        };
        let segments = segments.iter().map(brief).collect();
        seen.logs.insert(log, ModelLog { start: start.0, end: end.0, messages, segments, has_rolled: false });
    }
    seen
}

/// Whether what was seen is `model` (times are not read back).
pub fn same(seen: &Model, model: &Model) -> bool {
    seen.state == model.state
        && seen.logs.len() == model.logs.len()
        && seen.logs.iter().zip(&model.logs).all(|((a, seen), (b, log))| {
            a == b
                && (seen.start, seen.end) == (log.start, log.end)
                && seen.segments == log.clone().whole_segments()
                && seen.messages.len() == log.messages.len()
                && seen.messages.iter().zip(&log.messages).all(|((a, (x, _)), (b, (y, _)))| a == b && x == y)
        })
}

/// A storage beside its model.
pub struct Pair {
    pub disk: SimDisk,
    pub storage: Storage,
    pub model: Model,
    /// The model as it was opened, and after each batch since, with the turn of the batch.
    pub history: Vec<(Lsn, Model)>,
}

impl Pair {
    pub fn new() -> Pair {
        let disk = SimDisk::new();
        let (storage, _) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
        Pair { disk, storage, model: Model::default(), history: vec![(Lsn(0), Model::default())] }
    }

    pub fn commit(&mut self, changes: &[Change], policy: SyncPolicy) -> Result<Lsn, StorageError> {
        let lsn = commit(&mut self.storage, changes, policy)?;
        changes.iter().for_each(|change| self.model.apply(change));
        self.history.push((lsn, self.model.clone()));
        Ok(lsn)
    }

    /// Opens `disk` and checks that it holds all batches of turns up to `promised`, perhaps some more, in order, whole.
    pub fn reopen(&mut self, disk: SimDisk, promised: Lsn) {
        let (mut storage, recovered) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
        assert_eq!(recovered.damage, [], "a stop damages nothing");
        let seen = observe(&mut storage, &recovered);
        let least = self.history.iter().rposition(|(lsn, _)| *lsn <= promised).unwrap();
        let Some((_, found)) = self.history[least..].iter().find(|(_, model)| same(&seen, model)) else {
            let near = &self.history[least].1;
            panic!("no prefix fits; promised {promised:?}\nseen {}\nwant at least {}", brief(&seen), brief(near));
        };
        self.model = found.clone();
        self.history = vec![(Lsn(0), self.model.clone())];
        self.storage = storage;
        self.disk = disk;
    }

    /// Everything is there right now.
    pub fn check_all(&mut self) {
        let logs: Vec<u64> = self.model.logs.keys().copied().collect();
        let mut seen = observe_logs(&mut self.storage, logs.into_iter());
        seen.state = self.model.state.clone();
        assert!(same(&seen, &self.model), "seen {}\nwant {}", brief(&seen), brief(&self.model));
    }

    pub fn check_time(&mut self, log: u64, time: i64) {
        let Some(model) = self.model.logs.get(&log) else { return };
        let want = model.messages.iter().find(|(_, (_, greatest))| *greatest >= time).map(|(offset, _)| *offset);
        let hit = loop {
            match self.storage.find_time(LogId(log), Wall(time)).unwrap() {
                Lookup::Ready(hit) => break hit,
                Lookup::Pending(_) => drop(storage::sim_disk::run_jobs(&mut self.storage).unwrap()),
            }
        };
        if let Some(want) = want {
            let hit = hit.expect("there is such a message");
            assert!(hit.extent.0 <= want && hit.time_max.0 >= time, "{hit:?} for {time}, want {want}");
        }
    }
}

pub fn brief(model: &Model) -> String {
    let logs: Vec<String> = model
        .logs
        .iter()
        .map(|(id, log)| format!("{id}: {}..{} ({} messages)", log.start, log.end, log.messages.len()))
        .collect();
    let state: Vec<String> =
        model.state.iter().map(|(owner, records)| format!("{owner:?} {}", records.len())).collect();
    format!("{logs:?} {state:?}")
}
