//! Groups after a restart: what was stored last.

use super::*;

/// The same clients before new groups that read the records of the old ones.
fn restarted(bench: Bench) -> Bench {
    let mut groups = Groups::new(options());
    for partition in 0..LEDGER_PARTITIONS {
        let entries = bench.groups.ledger_entries(partition);
        assert_eq!(entries.len(), bench.groups.ledger_count(partition));
        entries.into_iter().for_each(|entry| groups.recover(entry));
    }
    groups.recovered(bench.now);
    Bench { groups, ..bench }
}

fn stable() -> Bench {
    check_new(&[
        ("join a", "a joined 1 as a-1 range leads a-1"),
        ("join b i=B", ""),
        ("again a", "a joined 2 as a-1 range leads a-1,B-2; b joined 2 as B-2 range of a-1"),
        ("sync a a-1=x B-2=y", "+2[a-1,B-2]; a* synced x"),
        ("sync b", "b synced y"),
    ])
}

#[test]
fn members_go_on_after_a_restart_as_if_nothing_had_been() {
    let before = stable();
    let told = before.groups.describe(G);
    let mut bench = restarted(before);
    assert_eq!(bench.groups.describe(G), told);
    check(
        &mut bench,
        &[
            ("wait 9", ""),
            ("beat a", "ok"),
            ("beat b", "ok"),
            ("sync b", "b synced y"),
            ("again b", "b joined 2 as B-2 range of a-1"),
            ("again a", ""),
            ("again b", "a joined 3 as a-1 range leads a-1,B-2; b joined 3 as B-2 range of a-1"),
        ],
    );
}

#[test]
fn members_that_do_not_come_back_are_out_after_their_whole_session_time_out() {
    let mut bench = stable();
    check(&mut bench, &[("wait 9", "")]);
    let mut bench = restarted(bench);
    check(&mut bench, &[("wait 9.999", ""), ("beat b", "ok"), ("wait 0.001", ""), ("beat b", "Rebalancing")]);
    check(&mut bench, &[("again b", "b joined 3 as B-2 range leads B-2")]);
}

#[test]
fn a_group_in_a_rebalance_comes_back_as_it_was_stable_last() {
    let mut bench = stable();
    check(&mut bench, &[("join c", ""), ("again a", ""), ("beat b", "Rebalancing")]);
    let mut bench = restarted(bench);
    check(&mut bench, &[("beat a", "ok"), ("beat b", "ok"), ("join d", ""), ("beat a", "Rebalancing")]);
}

#[test]
fn an_empty_group_keeps_its_generation_and_a_removed_one_is_gone() {
    let mut bench = stable();
    check(&mut bench, &[("leave a", "ok"), ("leave b", "ok; +3[]")]);
    let mut bench = restarted(bench);
    assert_eq!(bench.groups.describe(G).state, GroupState::Empty);
    check(&mut bench, &[("join c", "c joined 4 as c-4 range leads c-4"), ("leave c", "ok; +5[]")]);
    bench.groups.delete(G, bench.now).unwrap();
    let bench = restarted(bench);
    assert_eq!(bench.groups.list(), []);
}

#[test]
fn later_records_win_and_removed_ones_leave_nothing() {
    let mut groups = Groups::new(options());
    let offset = |partition, offset: Option<u64>| LedgerEntry::Offset {
        group: name(G),
        topic: name("t"),
        partition,
        committed: offset.map(|offset| Committed {
            offset: model::Offset(offset),
            leader_epoch: 3,
            metadata: "m".to_owned(),
            at: Wall(1),
        }),
    };
    for entry in [offset(0, Some(1)), offset(1, Some(1)), offset(0, Some(2)), offset(1, None), offset(2, None)] {
        groups.recover(entry);
    }
    groups.recover(LedgerEntry::Group { group: name("gone"), snapshot: Some(GroupSnapshot::default()) });
    groups.recover(LedgerEntry::Group { group: name("gone"), snapshot: None });
    groups.recovered(Now::default());
    assert_eq!(groups.ledger_entries(3), [offset(0, Some(2))]);
    assert_eq!(groups.list().len(), 1);
}

#[test]
fn a_record_that_makes_no_sense_does_no_harm() {
    let member = |id: &str| MemberSnapshot {
        info: MemberInfo {
            member: id.to_owned(),
            instance: None,
            client_id: String::new(),
            client_host: String::new(),
            metadata: Bytes::new(),
            assignment: Bytes::new(),
        },
        rebalance_timeout: Duration::ZERO,
        session_timeout: Duration::ZERO,
    };
    let snapshot = GroupSnapshot {
        generation: i32::MAX,
        leader: Some("nobody".to_owned()),
        members: vec![member("m"), member("m"), member("")],
        ..GroupSnapshot::default()
    };
    let mut bench = Bench::new(options());
    bench.groups.recover(LedgerEntry::Group { group: name(G), snapshot: Some(snapshot) });
    bench.groups.recovered(bench.now);
    assert_eq!(bench.groups.describe(G).members.len(), 2);
    check(&mut bench, &[("join a", "a InconsistentProtocol"), ("wait 6", "+1[]")]);
    check(&mut bench, &[("join a", "a joined 2 as a-2 range leads a-2")]);
}
