//! Joining, dying, growing groups; votes; time-outs.

use super::*;

#[test]
fn a_new_member_must_come_back_with_the_id_it_is_given() {
    check_new(&[
        ("join a known", "a MemberIdRequired a-1"),
        ("again a known", "a joined 1 as a-1 range leads a-1"),
        ("sync a a-1=all", "+1[a-1]; a* synced all"),
        ("beat a", "ok"),
        ("join b id=x", "b UnknownMember"),
        ("join b g=other id=x", "b UnknownMember"),
    ]);
}

#[test]
fn an_id_that_is_not_used_is_forgotten_after_its_session_time_out() {
    let mut bench = check_new(&[
        ("join a known st=10", "a MemberIdRequired a-1"),
        ("wait 9", ""),
        ("again a known", "a joined 1 as a-1 range leads a-1"),
        ("sync a a-1=all", "+1[a-1]; a* synced all"),
        ("join b known st=6", "b MemberIdRequired b-3"),
        ("wait 6", ""),
        ("again b known", "b UnknownMember"),
        ("leave a", "ok; +2[]"),
    ]);
    assert_eq!(bench.groups.loads(), (0, 0), "no call and no timer is left behind");
    bench.run("join c g=fresh known");
    bench.run("wait 10");
    assert_eq!(bench.groups.list().len(), 1, "a group that only gave out ids leaves nothing behind");
}

#[test]
fn a_rebalance_waits_for_all_members_and_for_ids_just_given_out() {
    check_new(&[
        ("join a", "a joined 1 as a-1 range leads a-1"),
        ("sync a a-1=all", "+1[a-1]; a* synced all"),
        ("join b known", "b MemberIdRequired b-2"),
        ("beat a", "ok"),
        ("again b", ""),
        ("beat a", "Rebalancing"),
        ("commit a", "ok"),
        ("join c known", "c MemberIdRequired c-4"),
        ("again a", ""),
        (
            "again c",
            "a joined 2 as a-1 range leads a-1,b-2,c-4; b joined 2 as b-2 range of a-1; c joined 2 as c-4 range of a-1",
        ),
        ("sync b", ""),
        ("beat b", "ok"),
        ("commit b", "Rebalancing"),
        ("sync a a-1=x b-2=y", "+2[a-1,b-2,c-4]; a* synced x; b* synced y"),
        ("sync c", "c synced"),
        ("commit b", "ok"),
    ]);
}

#[test]
fn those_who_do_not_join_in_time_are_out() {
    check_new(&[
        ("join a rt=20 st=60", "a joined 1 as a-1 range leads a-1"),
        ("sync a a-1=all", "+1[a-1]; a* synced all"),
        ("join b rt=30 st=60", ""),
        ("wait 29", ""),
        ("wait 1", "b joined 2 as b-2 range leads b-2"),
        ("beat a", "UnknownMember"),
        ("sync a", "a sync UnknownMember"),
        ("again a", "a UnknownMember"),
    ]);
}

#[test]
fn those_who_do_not_sync_in_time_are_out() {
    check_new(&[
        ("join a rt=20 st=60", "a joined 1 as a-1 range leads a-1"),
        ("join b rt=20 st=60", ""),
        ("again a rt=20 st=60", "a joined 2 as a-1 range leads a-1,b-2; b joined 2 as b-2 range of a-1"),
        ("sync a a-1=x", "+2[a-1,b-2]; a* synced x"),
        ("wait 19", ""),
        ("beat b", "ok"),
        ("wait 1", ""),
        ("beat b", "UnknownMember"),
        ("beat a", "Rebalancing"),
        ("again a", "a joined 3 as a-1 range leads a-1"),
    ]);
}

#[test]
fn followers_that_wait_for_a_silent_leader_join_again() {
    check_new(&[
        ("join a rt=20 st=60", "a joined 1 as a-1 range leads a-1"),
        ("join b rt=20 st=60", ""),
        ("again a rt=20 st=60", "a joined 2 as a-1 range leads a-1,b-2; b joined 2 as b-2 range of a-1"),
        ("sync b", ""),
        ("wait 20", "b sync Rebalancing"),
        ("again b", "b joined 3 as b-2 range leads b-2"),
    ]);
}

#[test]
fn a_silent_member_is_out_and_a_waiting_one_is_not() {
    check_new(&[
        ("join a st=10 rt=300", "a joined 1 as a-1 range leads a-1"),
        ("sync a a-1=all", "+1[a-1]; a* synced all"),
        ("join b st=10 rt=300", ""),
        ("wait 9", ""),
        ("beat a", "Rebalancing"),
        ("wait 9", ""),
        ("beat a", "Rebalancing"),
        ("wait 9.999", ""),
        ("wait 0.001", "b joined 2 as b-2 range leads b-2"),
        ("sync b b-2=x", "+2[b-2]; b* synced x"),
        ("wait 10", "+3[]"),
        ("beat b", "UnknownMember"),
    ]);
}

#[test]
fn a_member_that_leaves_makes_the_others_join_again() {
    check_new(&[
        ("join a", "a joined 1 as a-1 range leads a-1"),
        ("join b", ""),
        ("again a", "a joined 2 as a-1 range leads a-1,b-2; b joined 2 as b-2 range of a-1"),
        ("sync a a-1=x b-2=y", "+2[a-1,b-2]; a* synced x"),
        ("sync b", "b synced y"),
        ("leave a", "ok"),
        ("leave a", "UnknownMember"),
        ("beat b", "Rebalancing"),
        ("sync b", "b sync Rebalancing"),
        ("again b", "b joined 3 as b-2 range leads b-2"),
        ("sync b gen=2", "b sync IllegalGeneration"),
        ("beat b gen=2", "IllegalGeneration"),
        ("commit b gen=2", "IllegalGeneration"),
        ("leave b", "ok; +4[]"),
    ]);
}

#[test]
fn a_member_that_leaves_while_it_joins_is_answered() {
    check_new(&[
        ("join a", "a joined 1 as a-1 range leads a-1"),
        ("join b known", "b MemberIdRequired b-2"),
        ("again b", ""),
        ("leave b", "ok; b UnknownMember"),
        ("join c known", "c MemberIdRequired c-4"),
        ("again a", ""),
        ("leave c", "ok; a joined 2 as a-1 range leads a-1"),
    ]);
}

#[test]
fn nothing_new_from_a_follower_makes_no_rebalance_and_a_leader_that_joins_again_does() {
    check_new(&[
        ("join a", "a joined 1 as a-1 range leads a-1"),
        ("join b", ""),
        ("again a", "a joined 2 as a-1 range leads a-1,b-2; b joined 2 as b-2 range of a-1"),
        ("again b", "b joined 2 as b-2 range of a-1"),
        ("again a", "a joined 2 as a-1 range leads a-1,b-2"),
        ("sync a a-1=x b-2=y", "+2[a-1,b-2]; a* synced x"),
        ("again b", "b joined 2 as b-2 range of a-1"),
        ("sync b", "b synced y"),
        ("again b m=new", ""),
        ("again a", "a joined 3 as a-1 range leads a-1,b-2; b joined 3 as b-2 range of a-1"),
        ("sync a a-1=x b-2=y", "+3[a-1,b-2]; a* synced x"),
        ("again a", ""),
        ("beat b", "Rebalancing"),
    ]);
}

#[test]
fn the_protocol_most_prefer_among_those_all_know_is_chosen() {
    check_new(&[
        ("join a p=sticky,range,rr", "a joined 1 as a-1 sticky leads a-1"),
        ("join b p=rr,range", ""),
        ("join c p=rr,range,sticky", ""),
        (
            "again a p=sticky,range,rr",
            "a joined 2 as a-1 rr leads a-1,b-2,c-3; b joined 2 as b-2 rr of a-1; c joined 2 as c-3 rr of a-1",
        ),
        ("sync a p=range", "a sync InconsistentProtocol"),
        ("join d p=sticky", "d InconsistentProtocol"),
        ("join d p=", "d InconsistentProtocol"),
        ("join d t=connect", "d InconsistentProtocol"),
        ("join d g=new t= p=range", "d InconsistentProtocol"),
        ("join d p=range,range,range", ""),
        ("leave d", "UnknownMember"),
    ]);
}

#[test]
fn of_protocols_with_as_many_votes_the_leaders_favourite_is_chosen() {
    check_new(&[
        ("join a p=one,two", "a joined 1 as a-1 one leads a-1"),
        ("join b p=two,one", ""),
        ("again a p=one,two", "a joined 2 as a-1 one leads a-1,b-2; b joined 2 as b-2 one of a-1"),
    ]);
}

#[test]
fn the_bounds_are_kept() {
    let mut bench = Bench::new(GroupOptions { members_max: 2, ..options() });
    check(
        &mut bench,
        &[
            ("join a st=5", "a InvalidSessionTimeout"),
            ("join a st=1801", "a InvalidSessionTimeout"),
            ("join a g=", "a InvalidGroup"),
            ("join a st=1800", "a joined 1 as a-4 range leads a-4"),
            ("join b known", "b MemberIdRequired b-5"),
            ("join c known", "c Full"),
            ("again b", ""),
            ("join c", "c Full"),
            ("again a", "a joined 2 as a-4 range leads a-4,b-5; b joined 2 as b-5 range of a-4"),
        ],
    );
}

#[test]
fn what_members_say_of_themselves_is_bounded_in_a_group_and_in_all() {
    let long = "x".repeat(6000);
    let mut bench = Bench::new(GroupOptions { group_bytes_max: 10_000, groups_bytes_max: 15_000, ..options() });
    check(
        &mut bench,
        &[
            (&format!("join a m={long}"), "a joined 1 as a-1 range leads a-1"),
            (&format!("join b m={long}"), "b Full"),
            (&format!("join c m={long} g=h"), "c joined 1 as c-3 range leads c-3"),
            (&format!("join d m={long} g=i"), "d Full"),
            // One that is there may say the same once more, or less, but not more.
            (&format!("again a m={long}"), "a joined 1 as a-1 range leads a-1"),
            (&format!("again a m={long}{long}"), "a Full"),
            ("again a m=y", "a joined 2 as a-1 range leads a-1"),
            (&format!("join d m={long} g=i"), "d joined 1 as d-8 range leads d-8"),
        ],
    );
    bench.run("wait 200"); // all are out
    assert_eq!(bench.groups.members_bytes(), 0);
}

#[test]
fn an_empty_group_waits_for_more_members_and_a_little_longer_for_each() {
    let mut bench =
        Bench::new(GroupOptions { initial_rebalance_delay: Duration::from_secs(3), ..GroupOptions::default() });
    check(
        &mut bench,
        &[
            ("join a rt=8", ""),
            ("wait 2", ""),
            ("join b rt=8", ""),
            ("wait 1", ""),
            ("wait 2", ""),
            ("join c rt=8", ""),
            ("wait 1", ""),
            ("join d rt=8", ""),
            ("wait 1.999", ""),
            (
                "wait 0.001",
                "a joined 1 as a-1 range leads a-1,b-2,c-3,d-4; b joined 1 as b-2 range of a-1; \
                 c joined 1 as c-3 range of a-1; d joined 1 as d-4 range of a-1",
            ),
        ],
    );
}

#[test]
fn a_closed_session_is_not_a_leave_but_its_calls_are_forgotten() {
    let bench = check_new(&[
        ("join a", "a joined 1 as a-1 range leads a-1"),
        ("sync a a-1=all", "+1[a-1]; a* synced all"),
        ("close a", ""),
        ("beat a", "ok"),
        ("join b known", "b MemberIdRequired b-2"),
        ("again b", ""),
        ("close b", ""),
        ("again a", ""),
        ("again b", "a joined 2 as a-1 range leads a-1,b-2; b joined 2 as b-2 range of a-1"),
        ("join c", ""),
    ]);
    let mut bench = bench;
    check(
        &mut bench,
        &[
            ("close c", ""),
            ("again a", ""),
            ("again b", "a joined 3 as a-1 range leads a-1,b-2; b joined 3 as b-2 range of a-1"),
            ("sync b", ""),
            ("close b", ""),
            ("sync a b-2=y", "+3[a-1,b-2]; a* synced"),
            ("sync b", "b synced y"),
        ],
    );
    assert_eq!(bench.groups.loads().0, 0);
}

#[test]
fn a_call_made_again_answers_the_older_one() {
    check_new(&[
        ("join a", "a joined 1 as a-1 range leads a-1"),
        ("join b known", "b MemberIdRequired b-2"),
        ("again b", ""),
        ("again b", "b Rebalancing"),
        ("again a", "a joined 2 as a-1 range leads a-1,b-2; b joined 2 as b-2 range of a-1"),
        ("sync b", ""),
        ("sync b", "b sync Rebalancing"),
        ("sync a b-2=y", "+2[a-1,b-2]; a* synced; b* synced y"),
    ]);
}

#[test]
fn an_assignment_that_cannot_be_stored_is_made_anew() {
    let mut bench = check_new(&[("join a", "a joined 1 as a-1 range leads a-1")]);
    let call = bench.call("a");
    let who = MemberRef { group: G, member: "a-1", instance: None, generation: 1 };
    bench.groups.sync(call, who, None, Vec::new(), bench.now);
    let effects = bench.groups.take_effects();
    assert!(effects.replies[0].needs_store);
    bench.groups.store_failed(&effects.entries);
    check(&mut bench, &[("beat a", "Rebalancing"), ("again a", "a joined 2 as a-1 range leads a-1")]);
}

#[test]
fn three_hundred_members_begin_together() {
    let mut bench = Bench::new(GroupOptions::default());
    for client in 0..300 {
        bench.run(&format!("join c{client} known"));
        assert_eq!(bench.run(&format!("again c{client}")), "");
    }
    assert_eq!(bench.run("wait 0.5"), "", "many came: a little longer");
    let said = bench.run("wait 0.5");
    assert_eq!(said.matches("joined 1 ").count(), 300);
    assert_eq!(said.matches("leads").count(), 1);
    let assignments: Vec<String> = bench.clients.values().map(|told| format!("{}=p", told.member)).collect();
    for client in 1..300 {
        assert_eq!(bench.run(&format!("sync c{client}")), "");
    }
    let said = bench.run(&format!("sync c0 {}", assignments.join(" ")));
    assert_eq!(said.matches("synced p").count(), 300);
    assert_eq!(bench.groups.describe(G).members.len(), 300);
    assert_eq!(bench.groups.loads(), (0, 300));
    // All fall silent at once: every step is cheap, and nothing is left behind.
    assert_eq!(bench.run("wait 5"), "");
    assert_eq!(bench.run("wait 5"), "+2[]");
    assert_eq!(bench.groups.loads(), (0, 0));
}
