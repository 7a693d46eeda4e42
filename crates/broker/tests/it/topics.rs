//! Topics and users: made, described, removed, and still there after the process or the power has gone.

use std::net::IpAddr;

use crate::shard::{Shard, name, new_topic};
use broker::topic::ConfigChange;
use broker::user::{LoginError, Principal};
use broker::{BrokerError, CallId, Event, SessionId, StorageError, SyncPolicy};
use model::Offset;

#[test]
fn topics_are_found_by_name_and_id_and_survive() {
    let mut shard = Shard::new();
    shard.topic("b", 2);
    shard.topic("a", 3);
    let cluster = shard.broker.cluster_id().to_owned();
    assert_eq!(cluster.len(), 22);
    let before: Vec<_> = shard.broker.topics("/").into_iter().cloned().collect();
    assert_eq!(before.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    for again in [shard.killed(), shard.power_cut(1), shard.power_cut(2)] {
        let after: Vec<_> = again.broker.topics("/").into_iter().cloned().collect();
        assert_eq!(after, before);
        assert_eq!(again.broker.topic("/", "a"), Some(&before[0]));
        assert_eq!(again.broker.topic_by_id("/", before[1].id), Some(&before[1]));
        assert_eq!(again.broker.topic_by_id("other", before[1].id), None);
        assert_eq!(again.broker.cluster_id(), cluster);
    }
}

#[test]
fn what_cannot_be_made_is_refused_the_same_when_only_checked() {
    let mut shard = Shard::new();
    shard.topic("t", 1);
    for validate_only in [false, true] {
        let mut refused = |topic: &str, partitions, config: &[(&str, &str)]| {
            let mut topic = new_topic(topic, partitions, config);
            topic.validate_only = validate_only;
            shard.broker.create_topic(&topic, shard.now).unwrap_err()
        };
        assert_eq!(refused("t", 1, &[]), BrokerError::Exists { kind: "topic", name: "t".into() });
        assert_eq!(refused("u", 0, &[]), BrokerError::InvalidPartitions { asked: 0, max: 10_000 });
        assert_eq!(refused("u", 10_001, &[]), BrokerError::InvalidPartitions { asked: 10_001, max: 10_000 });
        assert!(matches!(refused("u", 1, &[("retention.ms", "abc")]), BrokerError::InvalidConfig(_)));
        assert!(matches!(refused("u", 1, &[("no.such", "1")]), BrokerError::InvalidConfig(_)));
        assert!(matches!(refused("", 1, &[]), BrokerError::Invalid(_)));
    }
    let mut topic = new_topic("u", 4, &[]);
    topic.validate_only = true;
    shard.broker.create_topic(&topic, shard.now).unwrap();
    assert_eq!(shard.broker.topic("/", "u"), None, "only checked");
}

#[test]
fn settings_are_shown_set_and_default() {
    let mut shard = Shard::new();
    shard.create("t", 1, &[("max.message.bytes", "500"), ("retention.ms", "-1")]).unwrap();
    let again = shard.killed();
    assert!(again.broker.topic("/", "t").is_none(), "it was never written");
    shard.settle_down();
    let again = shard.power_cut(1);
    let config = again.broker.topic_config("/", "t").unwrap();
    let value = |name: &str| {
        let entry = config.iter().find(|entry| entry.name == name).unwrap();
        (entry.value.as_str(), entry.is_default)
    };
    assert_eq!(value("max.message.bytes"), ("500", false));
    assert_eq!(value("retention.ms"), ("-1", false));
    assert_eq!(value("cleanup.policy"), ("delete", true));
    assert!(matches!(again.broker.topic_config("/", "u"), Err(BrokerError::Missing { kind: "topic", .. })));
}

#[test]
fn settings_that_were_changed_hold_at_once_and_after_a_crash() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    let set = |name: &str, value: &str| (name.to_owned(), ConfigChange::Set(value.to_owned()));
    let too_small = [set("max.message.bytes", "1")];
    shard.broker.alter_topic(("/", "t"), &too_small, true, shard.now).unwrap();
    shard.append(log, &[(1, "m")], SyncPolicy::Sync).unwrap();
    shard.broker.alter_topic(("/", "t"), &too_small, false, shard.now).unwrap();
    let too_large = |shard: &mut Shard| {
        let refused = shard.append(log, &[(1, "m")], SyncPolicy::Sync);
        assert!(
            matches!(refused, Err(BrokerError::Storage(StorageError::TooLarge { bytes_max: 1, .. }))),
            "{refused:?}"
        );
    };
    too_large(&mut shard);
    shard.settle_down();
    for mut again in [shard.killed(), shard.power_cut(1)] {
        too_large(&mut again);
        assert_eq!(again.broker.topic("/", "t").unwrap().intake.batch_bytes_max, 1);
        let back = [("max.message.bytes".to_owned(), ConfigChange::Unset)];
        again.broker.alter_topic(("/", "t"), &back, false, again.now).unwrap();
        again.append(log, &[(1, "m")], SyncPolicy::Sync).unwrap();
    }
    let missing = shard.broker.alter_topic(("/", "u"), &too_small, false, shard.now).unwrap_err();
    assert_eq!(missing, BrokerError::Missing { kind: "topic", name: "u".into() });
}

#[test]
fn a_topic_made_again_is_another_one_and_empty() {
    let mut shard = Shard::new();
    let old = shard.topic("t", 2);
    shard.append(old[0], &[(1, "m")], SyncPolicy::Sync).unwrap();
    shard.settle_down();
    let id = shard.broker.topic("/", "t").unwrap().id;
    shard.broker.delete_topic("/", "t", shard.now).unwrap();
    assert!(matches!(shard.broker.delete_topic("/", "t", shard.now), Err(BrokerError::Missing { .. })));
    assert!(matches!(shard.append(old[0], &[(1, "m")], SyncPolicy::None), Err(BrokerError::UnknownPartition { .. })));
    shard.settle_down();
    let mut again = shard.killed();
    assert_eq!(again.broker.topic("/", "t"), None);
    let new = again.topic("t", 2);
    assert_ne!(again.broker.topic("/", "t").unwrap().id, id);
    assert!(new.iter().all(|log| !old.contains(log)), "log ids are never given twice");
    assert_eq!(again.append(new[0], &[(1, "m")], SyncPolicy::None).unwrap().base, Offset(0));
}

#[test]
fn logs_of_a_topic_whose_removal_was_cut_short_are_dropped_at_the_start() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    shard.append(log, &[(1, "m")], SyncPolicy::Sync).unwrap();
    shard.settle_down();
    shard.broker.delete_topic("/", "t", shard.now).unwrap();
    shard.settle_down();
    for seed in 0..10 {
        let again = shard.power_cut(seed).killed();
        assert!(again.broker.bounds(log).is_err());
        let (_, recovered) =
            storage::Storage::open(std::sync::Arc::new(again.disk.kill()), again.options.storage).unwrap();
        assert_eq!(recovered.logs, []);
    }
}

#[test]
fn many_changes_of_the_catalog_survive_through_snapshots() {
    let mut shard = Shard::new();
    for number in 0..200 {
        shard.create(&format!("t{number}"), 1, &[]).unwrap();
        if number % 2 == 0 {
            shard.broker.delete_topic("/", &format!("t{number}"), shard.now).unwrap();
        }
        shard.turn();
    }
    shard.settle_down();
    let again = shard.power_cut(4);
    assert_eq!(again.broker.topics("/").len(), 100);
    assert_eq!(again.broker.topics("/").len(), shard.broker.topics("/").len());
}

#[test]
fn logs_without_a_catalog_are_never_taken_for_deleted() {
    let mut shard = Shard::new();
    let log = shard.topic("t", 1)[0];
    shard.append(log, &[(1, "m")], SyncPolicy::Sync).unwrap();
    shard.settle_down();
    let disk = shard.disk.kill();
    let (mut storage, _) =
        storage::Storage::open(std::sync::Arc::new(disk.clone()), shard.options.storage.clone()).unwrap();
    let owner = storage::Owner { kind: 1, id: 0 };
    let state = [(owner, storage::StateChange::Drop)];
    storage.commit(&storage::Batch { state: &state, ..storage::Batch::default() }, SyncPolicy::Sync).unwrap();
    storage::sim_disk::settle_down(&mut storage).unwrap();
    drop(storage);
    let refused = Shard::with(disk.kill(), shard.options.clone()).err().unwrap();
    assert!(matches!(refused, BrokerError::Storage(StorageError::Unusable(_))), "{refused}");
}

#[test]
fn after_damage_the_rest_is_served_and_no_log_is_taken_for_deleted() {
    let mut shard = Shard::new();
    let logs = shard.topic("t", 2);
    shard.append(logs[0], &[(1, "to be damaged")], SyncPolicy::Sync).unwrap();
    shard.append(logs[1], &[(1, "whole")], SyncPolicy::Sync).unwrap();
    shard.settle_down();
    for _ in 0..3 {
        shard.append(logs[1], &[(1, "whole")], SyncPolicy::Sync).unwrap();
        shard.settle_down();
    }
    let disk = shard.disk.kill();
    let (file, at) = find(&disk, b"to be damaged");
    let mut bytes = disk.bytes_of(&file).unwrap();
    bytes[at] ^= 1;
    disk.put_bytes(&file, bytes);
    let mut again = Shard::with(disk, shard.options.clone()).unwrap();
    assert_eq!(again.broker.topics("/").len(), 1);
    let refused = again.broker.fetch(SessionId(1), CallId(1), logs[0], Offset(0), 100);
    assert!(!matches!(refused, Ok(fetched) if !fetched.chunks.is_empty()), "damaged bytes are never served");
    assert_eq!(again.append(logs[0], &[(1, "next")], SyncPolicy::Sync).unwrap().base, Offset(1));
    again.settle_down();
    assert_eq!(again.read(logs[0], 1).len(), 1);
    let mut again = again.killed();
    assert_eq!(again.read(logs[0], 1).len(), 1);
    assert_eq!(again.end(logs[1]), 4);
}

/// Where a text lies on the disk.
fn find(disk: &storage::SimDisk, text: &[u8]) -> (String, usize) {
    let found = disk.names().into_iter().find_map(|name| {
        let bytes = disk.bytes_of(&name)?;
        let at = bytes.windows(text.len()).position(|window| window == text)?;
        Some((name, at))
    });
    found.unwrap()
}

/// Logs in and answers what came of it and how many hashes it took.
fn login(shard: &mut Shard, user: &str, password: &str, from_loopback: bool) -> (Result<Principal, LoginError>, usize) {
    let from = IpAddr::from([if from_loopback { 127 } else { 10 }, 0, 0, 1]);
    shard.broker.login(SessionId(1), CallId(5), user, password.as_bytes(), from);
    let mut hashes = 0;
    while let Some(job) = shard.broker.next_job() {
        hashes += usize::from(matches!(job, broker::Job::User(_)));
        shard.broker.complete(job.run(), shard.now);
    }
    match shard.broker.next_event() {
        Some((SessionId(1), Event::Login(CallId(5), answer))) => (answer, hashes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_default_user_may_come_from_this_machine_only() {
    let mut shard = Shard::new();
    let (answer, _) = login(&mut shard, "guest", "guest", true);
    assert_eq!(answer, Ok(Principal { user: name("guest"), tags: vec!["administrator".into()] }));
    assert_eq!(login(&mut shard, "guest", "guest", false).0, Err(LoginError::LoopbackOnly));
    assert_eq!(login(&mut shard, "guest", "wrong", true).0, Err(LoginError::Refused));
    assert_eq!(login(&mut shard, "nobody", "guest", true), (Err(LoginError::Refused), 1), "as much work as for others");
    assert_eq!(login(&mut shard, "bad\nname", "guest", true).0, Err(LoginError::Refused));
}

/// The threads that check passwords do storage's work too.
#[test]
fn many_logins_at_once_are_handed_out_a_few_at_a_time_and_not_for_those_who_left() {
    let mut shard = Shard::new();
    for client in 1..=100 {
        shard.broker.login(SessionId(client), CallId(1), "nobody", b"guess", IpAddr::from([127, 0, 0, 1]));
    }
    let taken: Vec<_> = std::iter::from_fn(|| shard.broker.next_job()).collect();
    assert_eq!(taken.iter().filter(|job| matches!(job, broker::Job::User(_))).count(), 4);
    for client in 11..=100 {
        shard.broker.session_closed(SessionId(client), shard.now);
    }
    taken.into_iter().for_each(|job| shard.broker.complete(job.run(), shard.now));
    while let Some(job) = shard.broker.next_job() {
        shard.broker.complete(job.run(), shard.now);
    }
    let told = std::iter::from_fn(|| shard.broker.next_event());
    let told: Vec<u64> = told.filter(|(_, event)| matches!(event, Event::Login(..))).map(|(who, _)| who.0).collect();
    assert_eq!(told, (1..=10).collect::<Vec<u64>>());
}

#[test]
fn users_are_made_changed_and_removed_and_survive() {
    let mut shard = Shard::new();
    let mut put = |password: &str| {
        shard.broker.put_user(SessionId(1), CallId(6), &name("ann"), password, &["monitoring".into()]);
        let job = shard.broker.next_job().unwrap();
        shard.broker.complete(job.run(), shard.now);
        let Some((_, Event::UserStored(CallId(6), Ok(lsn)))) = shard.broker.next_event() else { panic!() };
        shard.settle_down();
        assert!(shard.broker.progress().synced >= lsn);
    };
    put("one");
    put("two");
    let mut shard = shard.power_cut(3);
    assert_eq!(login(&mut shard, "ann", "one", false), (Err(LoginError::Refused), 1));
    let ann = Principal { user: name("ann"), tags: vec!["monitoring".into()] };
    assert_eq!(login(&mut shard, "ann", "two", false), (Ok(ann.clone()), 1));
    assert_eq!(login(&mut shard, "ann", "two", false), (Ok(ann), 0), "proven before: no hash");
    assert_eq!(login(&mut shard, "ann", "one", false), (Err(LoginError::Refused), 1));
    assert_eq!(shard.broker.users().len(), 2);
    shard.broker.delete_user("ann").unwrap();
    assert!(matches!(shard.broker.delete_user("ann"), Err(BrokerError::Missing { kind: "user", .. })));
    assert_eq!(login(&mut shard, "ann", "two", false).0, Err(LoginError::Refused));
}
