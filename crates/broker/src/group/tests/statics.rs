//! Static members.

use super::*;

/// Two static members, stable.
fn two() -> Bench {
    check_new(&[
        ("join a i=A", "a joined 1 as A-1 range leads A-1"),
        ("join b i=B", ""),
        ("again a", "a joined 2 as A-1 range leads A-1,B-2; b joined 2 as B-2 range of A-1"),
        ("sync a A-1=x B-2=y", "+2[A-1,B-2]; a* synced x"),
        ("sync b", "b synced y"),
    ])
}

#[test]
fn the_newer_of_two_with_one_instance_takes_its_place_without_a_rebalance() {
    let mut bench = two();
    check(
        &mut bench,
        &[
            ("join c i=B", "+2[A-1,B-4]; c* joined 2 as B-4 range of A-1"),
            ("beat b", "FencedInstance"),
            ("commit b", "FencedInstance"),
            ("sync b", "b sync FencedInstance"),
            ("again b", "b FencedInstance"),
            ("leave b", "FencedInstance"),
            ("beat c", "ok"),
            ("sync c", "c synced y"),
            ("beat a", "ok"),
        ],
    );
}

#[test]
fn a_static_member_that_restarts_within_its_time_out_makes_no_rebalance() {
    let mut bench = two();
    check(
        &mut bench,
        &[
            ("close b", ""),
            ("wait 9", ""),
            ("beat a", "ok"),
            ("join b i=B m=changed", "+2[A-1,B-4]; b* joined 2 as B-4 range of A-1"),
            ("sync b", "b synced y"),
            ("wait 9", ""),
            ("beat a", "ok"),
            ("beat b", "ok"),
        ],
    );
}

#[test]
fn a_static_leader_that_restarts_need_not_assign() {
    let mut bench = two();
    check(
        &mut bench,
        &[
            ("join a i=A", "+2[A-4,B-2]; a* joined 2 as A-4 range leads A-4,B-2 skip"),
            ("sync a", "a synced x"),
            ("beat b", "ok"),
        ],
    );
}

#[test]
fn a_static_member_that_would_change_the_protocol_makes_a_rebalance() {
    let mut bench = check_new(&[
        ("join a i=A p=range,rr", "a joined 1 as A-1 range leads A-1"),
        ("sync a A-1=x", "+1[A-1]; a* synced x"),
        ("join a i=A p=rr,range", "a joined 2 as A-2 rr leads A-2"),
    ]);
    check(&mut bench, &[("sync a A-2=x", "+2[A-2]; a* synced x")]);
}

#[test]
fn a_place_taken_during_a_rebalance_answers_the_one_who_had_it() {
    check_new(&[
        ("join a i=A", "a joined 1 as A-1 range leads A-1"),
        ("join b i=B", ""),
        ("join c i=B", "b FencedInstance"),
        ("again a", "a joined 2 as A-1 range leads A-1,B-3; c joined 2 as B-3 range of A-1"),
        ("sync c", ""),
        ("join d i=B", "c sync FencedInstance"),
        ("beat a", "Rebalancing"),
        ("again a", "a joined 3 as A-1 range leads A-1,B-5; d joined 3 as B-5 range of A-1"),
    ]);
}

#[test]
fn static_members_stay_through_a_rebalance_until_their_session_ends() {
    let mut bench = check_new(&[
        ("join a i=A st=60 rt=20", "a joined 1 as A-1 range leads A-1"),
        ("sync a A-1=x", "+1[A-1]; a* synced x"),
        ("join b rt=20", ""),
        ("wait 20", "b joined 2 as b-2 range leads A-1,b-2"),
        ("sync b A-1=x b-2=y", "+2[A-1,b-2]; b* synced y"),
    ]);
    for _ in 0..3 {
        check(&mut bench, &[("wait 9", ""), ("beat b", "ok")]);
    }
    check(&mut bench, &[("wait 9", ""), ("beat b", "ok"), ("wait 4", ""), ("beat b", "Rebalancing")]);
    check(&mut bench, &[("again b", "b joined 3 as b-2 range leads b-2")]);
}

#[test]
fn a_rebalance_of_static_members_none_of_whom_is_back_waits_on() {
    let mut bench = two();
    check(
        &mut bench,
        &[
            ("join c st=6", ""),
            ("close c", ""),
            ("wait 9.5", ""),
            ("beat a", "Rebalancing"),
            ("beat b", "Rebalancing"),
            ("leave x i=A", "ok"),
            ("beat b", "Rebalancing"),
            ("again b", "b joined 3 as B-2 range leads B-2"),
        ],
    );
}

#[test]
fn a_static_member_that_leaves_by_its_name_is_out() {
    let mut bench = two();
    check(
        &mut bench,
        &[
            ("leave x i=C", "UnknownMember"),
            ("leave x i=B id=A-1", "FencedInstance"),
            ("leave x i=B", "ok"),
            ("beat a", "Rebalancing"),
            ("beat b", "UnknownMember"),
            ("again a", "a joined 3 as A-1 range leads A-1"),
        ],
    );
}
