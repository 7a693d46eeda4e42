//! Repair of stopped folders: only what is proved torn goes, what can be made again is, all else stays and is named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::common::oracle::{Change, Pair, observe, same};
use crate::common::{read_from, tiny};
use model::{LogId, Offset};
use proptest::prelude::*;
use storage::inspect::Repair;
use storage::sim_disk::{Fault, run_jobs, settle_down};
use storage::{Disk, Owner, Recovered, SimDisk, Storage, StorageError, SyncPolicy};

const JOURNAL: &str = "journal/00000000000000000001";

fn turn(pair: &mut Pair, n: u64, bytes: usize, policy: SyncPolicy) {
    let content = vec![n as u8; bytes];
    let put = Change::Put(vec![(n % 3, 0)], vec![content.clone(), content], n as i64);
    pair.commit(&[put, Change::Delta(Owner { kind: 1, id: n % 2 }, vec![n as u8; 5])], policy).unwrap();
    pair.storage.flush().unwrap();
}

// The entries of a journal file: place, number, "synced up to", end.
fn entries(bytes: &[u8]) -> Vec<(usize, u64, u64, usize)> {
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let length = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    (4096..bytes.len())
        .step_by(64)
        .filter(|at| bytes[*at..].starts_with(b"4Fen"))
        .map(|at| {
            (at, number(at + 4), number(at + 12), (at + 64 + length(at + 28) + length(at + 32)).div_ceil(64) * 64)
        })
        .collect()
}

fn plan(disk: &SimDisk) -> Repair {
    Repair::plan(Arc::new(disk.clone()), &mut |_, _| {}).unwrap()
}

// Repairs `disk` twice; the second time there is nothing to do. What a start then finds is what it would have found.
fn repair(disk: &SimDisk) -> Repair {
    let plain = opened(&disk.kill());
    let repair = plan(disk);
    repair.apply().unwrap();
    let again = plan(&disk.kill());
    assert!(
        !again.is_needed(),
        "again {:?}, {:?} after {:?}, {:?}",
        again.torn,
        again.rebuilds,
        repair.torn,
        repair.damage
    );
    assert_eq!(again.damage.len(), repair.damage.len(), "what stays damaged stays named");
    assert_eq!(opened(&disk.kill()), plain);
    repair
}

type Found = Vec<(LogId, storage::LogRange)>;

fn opened(disk: &SimDisk) -> (Found, usize) {
    let (_, recovered) = Storage::open(Arc::new(disk.clone()), tiny()).unwrap();
    (recovered.logs, recovered.state.len())
}

// Every bit of the last entries flips, one at a time.
fn flip_the_end(stopped: &SimDisk, is_quiet: bool) {
    let bytes = stopped.bytes_of(JOURNAL).unwrap();
    let entries = entries(&bytes);
    let last = entries.len().saturating_sub(5);
    // Where the stop itself has torn something.
    let torn_from = plan(&stopped.kill()).torn.first().map_or(u64::MAX, |torn| torn.number);
    for at in entries[last].0..entries.last().unwrap().3 {
        let Some(hit) = entries.iter().find(|entry| (entry.0..entry.3).contains(&at)) else { continue };
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let disk = stopped.kill();
        disk.put_bytes(JOURNAL, flipped.clone());
        // The header of the entry that was hit says nothing any more, if that is where it was hit.
        let vouched = entries.iter().filter(|entry| !(entry.0..entry.0 + 64).contains(&at)).map(|entry| entry.2).max();
        let vouched = vouched.unwrap();
        let repair = repair(&disk);
        for torn in &repair.torn {
            assert!(torn.number > vouched, "flip at {at}: {torn:?} is vouched for up to {vouched}");
            assert!(torn.number >= hit.1.min(torn_from), "flip at {at} in {hit:?}: {torn:?} lies before it");
            let stands_alone = !entries.iter().any(|entry| entry.1 + 1 == torn.number);
            let behind = torn.number > hit.1.min(torn_from) || stands_alone;
            assert!(!torn.whole || behind, "flip at {at}: {torn:?} is whole and nothing before it is torn");
            assert!(!is_quiet || torn.lost.is_empty(), "flip at {at}: a server at rest loses {torn:?}");
        }
        let after = disk.bytes_of(JOURNAL).unwrap();
        for (from, number, _, end) in &entries {
            if *number <= vouched || *number < hit.1.min(torn_from) {
                assert!(after[*from..*end] == flipped[*from..*end], "flip at {at}: entry {number} was touched");
            }
        }
        // Any byte of what the closing mark vouches for is missed, with the log it was of.
        let in_header = at < hit.0 + 64;
        if is_quiet && hit.1 <= vouched && in_header {
            let names = |log: &LogId| repair.damage.iter().any(|damage| damage.logs.contains(log));
            let units = bytes[hit.0 + 28..hit.0 + 32] != [0; 4];
            assert!(!units || names(&LogId((hit.1 - 1) % 3)), "flip at {at}: {:?}", repair.damage);
        }
    }
}

fn written(policy: SyncPolicy) -> Pair {
    let mut pair = Pair::new();
    for n in 0..7 {
        turn(&mut pair, n, 60, policy);
        // The sync alone: no quiet moment comes between.
        while let Some(job) = pair.storage.next_job() {
            pair.storage.complete(job.run()).unwrap();
        }
    }
    pair
}

#[test]
fn no_flip_at_the_end_of_a_stopped_server_costs_an_acknowledged_entry() {
    let mut pair = written(SyncPolicy::Sync);
    run_jobs(&mut pair.storage).unwrap();
    flip_the_end(&pair.disk.kill(), true);
}

#[test]
fn no_flip_at_the_end_of_a_killed_server_costs_a_vouched_entry() {
    flip_the_end(&written(SyncPolicy::Sync).disk.kill(), false);
    flip_the_end(&written(SyncPolicy::None).disk.kill(), false);
}

#[test]
fn no_flip_at_the_end_after_a_power_cut_costs_a_vouched_entry() {
    for seed in 0..4 {
        let mut pair = written(SyncPolicy::Sync);
        (7..10).for_each(|n| turn(&mut pair, n, 300, SyncPolicy::None));
        let disk = pair.disk.crash(seed);
        let torn = plan(&disk).torn;
        assert!(torn.iter().all(|entry| entry.number > 6), "what was synced is no torn end: {torn:?}");
        flip_the_end(&disk, false);
    }
}

fn settled() -> Pair {
    let mut pair = Pair::new();
    for n in 0..80 {
        turn(&mut pair, n, 1500, SyncPolicy::Sync);
        run_jobs(&mut pair.storage).unwrap();
    }
    settle_down(&mut pair.storage).unwrap();
    assert!(pair.storage.stats().segments > 0);
    pair
}

#[test]
fn heads_indexes_and_a_checkpoint_are_made_whole_from_what_is_left() {
    let pair = settled();
    let mut rebuilt = 0;
    for name in pair.disk.names() {
        let bytes = pair.disk.bytes_of(&name).unwrap();
        let places: Vec<usize> = match name.split('/').next().unwrap() {
            "journal" => (0..64).step_by(5).chain((2048..2112).step_by(5)).collect(),
            "checkpoint" | "checkpoint.copy" => (0..bytes.len()).step_by(29).collect(),
            "packs" | "segments" => {
                let trailer = bytes.len() - 96;
                let footer = u64::from_be_bytes(bytes[trailer + 8..trailer + 16].try_into().unwrap()) as usize;
                (0..64).step_by(9).chain((footer..bytes.len()).step_by(5)).collect()
            }
            _ => continue,
        };
        for at in places {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let disk = pair.disk.kill();
            disk.put_bytes(&name, flipped);
            let repair = repair(&disk);
            assert_eq!((repair.damage.len(), repair.torn.len()), (0, 0), "{name} at {at}: {:?}", repair.damage);
            let is_spare = name.starts_with("journal/") && repair.rebuilds.is_empty();
            assert!(is_spare || repair.rebuilds.len() == 1, "{name} at {at}");
            rebuilt += repair.rebuilds.len();
            let (mut storage, recovered) = Storage::open(Arc::new(disk.kill()), tiny()).unwrap();
            assert!(same(&observe(&mut storage, &recovered), &pair.model), "{name} at {at}");
        }
    }
    assert!(rebuilt > 100, "{rebuilt}");
}

#[test]
fn damage_that_was_acknowledged_is_named_and_not_touched() {
    let pair = settled();
    let bytes_of = |name: &String| pair.disk.bytes_of(name).unwrap();
    let content = |bytes: &[u8]| {
        entries(bytes).into_iter().map(|entry| entry.0).find(|at| bytes[at + 28..at + 32] != [0; 4]).unwrap()
    };
    let newest = |name: &&String| entries(&bytes_of(name)).iter().map(|entry| entry.1).max();
    let (journal, store): (Vec<String>, Vec<String>) =
        pair.disk.names().into_iter().filter(|name| name.contains('/')).partition(|name| name.starts_with("journal/"));
    let journal = journal.iter().max_by_key(newest).unwrap();
    for name in store.iter().chain([journal]).cloned() {
        let mut bytes = bytes_of(&name);
        let at = if name.starts_with("journal/") { content(&bytes) + 20 } else { 200 };
        bytes[at] ^= 4;
        let disk = pair.disk.kill();
        disk.put_bytes(&name, bytes.clone());
        let repair = repair(&disk);
        assert!(repair.damage.iter().any(|damage| damage.file == name && !damage.logs.is_empty()), "{name}");
        assert!(disk.bytes_of(&name).unwrap() == bytes, "{name} was touched");
    }
}

#[test]
fn a_repair_killed_at_any_call_is_done_again() {
    let mut pair = settled();
    (80..84).for_each(|n| turn(&mut pair, n, 600, SyncPolicy::None));
    let disk = pair.disk.crash(2);
    let names = disk.names();
    let pack = names.iter().find(|name| name.starts_with("packs/") || name.starts_with("segments/")).unwrap();
    let mut bytes = disk.bytes_of(pack).unwrap();
    let end = bytes.len();
    (bytes[20], bytes[end - 80]) = (!bytes[20], !bytes[end - 80]); // a header, and where the index is
    disk.put_bytes(pack, bytes);
    let mut copy = disk.bytes_of("checkpoint").unwrap();
    copy[30] ^= 1;
    disk.put_bytes("checkpoint", copy);
    let want = opened(&disk.kill());
    for call in 1.. {
        let dying = disk.kill();
        let planned = plan(&dying);
        assert!(planned.rebuilds.len() >= 3);
        dying.fail_at(dying.calls().all + call, Fault::Death);
        let done = planned.apply().is_ok();
        drop(planned);
        for image in [dying.kill(), dying.crash(call)] {
            assert_eq!(opened(&image.kill()), want, "killed at call {call}");
            let again = plan(&image);
            again.apply().unwrap();
            assert_eq!(again.damage, []);
            assert!(!plan(&image.kill()).is_needed());
            assert_eq!(opened(&image.kill()), want);
        }
        if done {
            assert!(call > 10, "{call} calls");
            break;
        }
    }
}

/// What is done to one file, at a place told by its length.
#[derive(Clone, Debug)]
enum Harm {
    Flip(u8),
    Zero(usize),
    Cut,
    Lose,
}

fn harm() -> impl Strategy<Value = (usize, usize, Harm)> {
    let kind = prop_oneof![
        6 => (0u8..8).prop_map(Harm::Flip),
        2 => (1usize..6000).prop_map(Harm::Zero),
        1 => Just(Harm::Cut),
        1 => Just(Harm::Lose),
    ];
    (any::<usize>(), any::<usize>(), kind)
}

fn do_harm(disk: &SimDisk, (which, place, harm): &(usize, usize, Harm)) {
    let names = disk.names();
    let name = &names[which % names.len()];
    let mut bytes = disk.bytes_of(name).unwrap();
    // In the journal, where something is.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    let at = place % used;
    match harm {
        Harm::Flip(bit) => bytes[at] ^= 1 << bit,
        Harm::Zero(count) => bytes[at..(at + count).min(used)].fill(0),
        Harm::Cut if name.starts_with("journal/") => bytes[at..].fill(0),
        Harm::Cut => bytes.truncate(at),
        Harm::Lose => return disk.lose(name),
    }
    disk.put_bytes(name, bytes);
}

type Served = BTreeMap<(u64, u64), Vec<u8>>;

// What a start serves, with what it remembers, and what it and the readers name.
fn served(disk: &SimDisk) -> Option<(Served, Recovered, BTreeSet<String>)> {
    let (mut storage, recovered) = Storage::open(Arc::new(disk.kill()), tiny()).ok()?;
    let mut all = Served::new();
    for (log, range) in &recovered.logs {
        let mut from = range.start;
        while from < range.end {
            let (messages, error) = read_from(&mut storage, log.0, from.0);
            for (offset, content) in messages {
                from = Offset(offset + 1);
                all.insert((log.0, offset), content);
            }
            match error {
                Some(StorageError::Damaged { .. }) => from = storage.after_damage(*log, from),
                Some(error) => panic!("{error}"),
                None => break,
            }
        }
    }
    let named = storage.damage().iter().map(|damage| damage.file.clone()).collect();
    Some((all, recovered, named))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    // Whatever has happened to the files: a start after a repair serves what a start without it would have served, and
    // nothing that is named as damaged is gone, but what was made whole.
    #[test]
    fn repair_takes_nothing_away_that_a_start_serves_or_names(
        harms in prop::collection::vec(harm(), 1..5), cut in any::<bool>(), seed in any::<u64>(),
    ) {
        let (synced, unsynced) = images();
        let disk = if cut { unsynced.crash(seed) } else { synced.kill() };
        harms.iter().for_each(|harm| do_harm(&disk, harm));
        let Some((before, recovered, named)) = served(&disk) else {
            prop_assert!(Repair::plan(Arc::new(disk), &mut |_, _| {}).is_err(), "what does not start is not repaired");
            return Ok(());
        };
        let (files, started) = (disk.names(), disk.kill());
        drop(Storage::open(Arc::new(started.clone()), tiny()).unwrap());
        let started = started.names();
        let repair = plan(&disk);
        repair.apply().unwrap();
        let made: BTreeSet<String> = repair.rebuilds.iter().map(|made| made.file.clone()).collect();
        drop(repair);
        let (after, recovered_after, named_after) = served(&disk).unwrap();
        let less = before.iter().find(|(place, content)| after.get(place) != Some(content));
        prop_assert!(less.is_none(), "{:?} is not served any more", less.map(|(place, _)| place));
        prop_assert_eq!(&recovered.state, &recovered_after.state);
        let ends = |recovered: &Recovered| recovered.logs.clone();
        prop_assert_eq!(ends(&recovered), ends(&recovered_after));
        for name in named {
            prop_assert!(named_after.contains(&name) || made.contains(&name), "{} is not named any more", name);
        }
        let there = disk.names();
        let gone = files.iter().find(|name| started.contains(name) && !there.contains(name));
        prop_assert!(gone.is_none(), "{gone:?} is gone, which a start leaves there");
        prop_assert!(!plan(&disk.kill()).is_needed());
    }
}

// A store with a window behind it: as a kill leaves it, and with a last turn that was not synced.
fn images() -> &'static (SimDisk, SimDisk) {
    static IMAGES: OnceLock<(SimDisk, SimDisk)> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let mut pair = settled();
        let synced = pair.disk.kill();
        (80..86).for_each(|n| turn(&mut pair, n, 600, SyncPolicy::None));
        (synced, pair.disk.clone())
    })
}

#[test]
fn a_folder_that_a_server_holds_is_not_repaired() {
    let pair = settled();
    let refused = Repair::plan(Arc::new(pair.disk.clone()), &mut |_, _| {});
    assert!(matches!(refused, Err(StorageError::Unusable(why)) if why.contains("in use")));
    let disk = pair.disk.kill();
    let held = plan(&disk);
    assert!(disk.lock().is_err(), "and no server starts meanwhile");
    drop(held);
}
